// @ts-check
// Times and durations: relative where they stand, absolute in the zone of choice on hover; a click copies ISO 8601. What runs counts to the moment
// that is shown: it ticks when the page is live, and stands when it is in the past.

import { absolute, ago, clock, duration, millis } from "../format.js";
import { html } from "../html.js";
import { reference } from "../moment.js";
import { zone } from "../shell/settings.js";
import { copy } from "./copy.js";

/** @typedef {{at: string | null | undefined, form?: "ago" | "clock" | "full"}} TimeProps */

/** A time. @param {TimeProps} props */
export function Time({ at, form = "ago" }) {
  if (!at || Number.isNaN(millis(at))) return html`<span class="muted">–</span>`;
  const full = absolute(at, zone.value);
  const passed = ago(at, reference.value);
  const words = form === "ago" ? passed : form === "clock" ? clock(at, zone.value) : full;
  return html`<time class="time" datetime=${at} title=${`${full} · ${passed} · click copies`} onClick=${(/** @type {Event} */ event) => {
    event.preventDefault();
    event.stopPropagation();
    copy(at, "the time");
  }}>${words}</time>`;
}

/** How long since a time, at the moment that is shown. @param {{at: string | null | undefined}} props */
export function Since({ at }) {
  const passed = reference.value - millis(at);
  return html`<span class="duration" title=${at ? `since ${absolute(at, zone.value)}` : ""}>${duration(Math.max(0, settled(passed)))}</span>`;
}

/** Whole seconds from ten on: what ticks does not flicker. @param {number} ms */
function settled(ms) {
  return ms >= 10_000 ? Math.floor(ms / 1000) * 1000 : ms;
}

// @ts-check
// The buttons of the bar: live or past, steps, zoom. Each does what a key or a drag does, too.

import { ask } from "../api.js";
import { toast } from "../components/toast.js";
import { clock, number } from "../format.js";
import { h, html } from "../html.js";
import { at, change, head, href, pin, shown, versus, zoom } from "../moment.js";
import { stream } from "../shell/live.js";
import { logPath } from "../shell/asked.js";
import { zone } from "../shell/settings.js";
import { archives, END } from "../source.js";
import { bounds, histogram } from "./data.js";
import { anchor, oneRecord, step, steps, toMark } from "./steps.js";
import { scale } from "./zoom.js";

const SPANS = /** @type {[string, number][]} */ ([["5 min", 300_000], ["1 h", 3_600_000], ["6 h", 21_600_000], ["24 h", 86_400_000]]);

/** Show the last stretch of so long, up to where one is. @param {number} ms 0: all */
async function showLast(ms) {
  const moment = shown.peek() ?? head.peek();
  const known = bounds.peek();
  if (ms === 0 || !moment?.decided_at || !known?.first_at) return change({ z: null });
  const until = at.peek() === null ? known.last_offset : Math.min(known.last_offset, moment.offset);
  const from = Math.max(Date.parse(known.first_at), Date.parse(moment.decided_at) - ms);
  try {
    const { body } = await ask(`${logPath.peek()}/position?at=${encodeURIComponent(new Date(from).toISOString())}`);
    change({ z: body.offset < until ? `${body.offset}-${until}` : null });
  } catch (error) {
    toast(String(/** @type {any} */ (error).message ?? error), { kind: "failed" });
  }
}

/** Show half or twice as much, around the cursor. @param {number} factor */
function scaleHere(factor) {
  const known = bounds.peek();
  if (!known) return;
  const sight = zoom.peek() ?? { from: known.first_offset ?? 0, until: known.last_offset };
  const middle = Math.min(sight.until, Math.max(sight.from, at.peek() ?? sight.until));
  scale(sight, middle, (middle - sight.from) / Math.max(1, sight.until - sight.from), factor);
}

/** @param {{keys: string, name: string, glyph: string, act: () => void, disabled?: boolean}} props */
function Step({ keys, name, glyph, act, disabled }) {
  return html`<button class="icon-button" aria-label=${name} title=${`${name} (${keys})`} disabled=${disabled} onClick=${act}>${glyph}</button>`;
}

export function Controls() {
  const pinned = at.value;
  const live = pinned === null;
  const moment = live ? head.value ?? shown.value : shown.value;
  const broken = live && stream.value === "broken";
  const known = steps.value;
  const sight = zoom.value;
  return html`<div class="scrub-controls">
    <div class="scrub-now">
      ${live && archives
        ? html`<span class="badge" title="The job as it ended.">END</span>`
        : live
        ? html`<span class=${`badge live${broken ? " broken" : ""}`} title=${broken ? "The stream of changes is not there: trying again." : "The page follows the log."}><i aria-hidden="true"></i>${broken ? "WAITING" : "LIVE"}</span>`
        : html`<button class="badge past" title=${`Return to ${END} (L)`} aria-label=${`Past: return to ${END}`} onClick=${() => pin(null)}><span aria-hidden="true">◷</span>PAST</button>`}
      <b class="scrub-offset">${number(pinned ?? moment?.offset)}</b>
      <span class="scrub-time">${clock(moment?.decided_at, zone.value)}</span>
    </div>
    <div class="scrub-buttons">
      <span class="group" role="group" aria-label="Step through the log">
        ${h(Step, { keys: "{", name: "Mark before", glyph: "«", act: () => toMark(-1) })}
        ${h(Step, { keys: "[", name: known?.previous_label ? `Event before: ${known.previous_label}` : "Event before that concerns this page", glyph: "‹", act: () => step(-1), disabled: known !== null && known.previous === null })}
        ${h(Step, { keys: ",", name: "One record back", glyph: "−1", act: () => oneRecord(-1) })}
        ${h(Step, { keys: ".", name: "One record on", glyph: "+1", act: () => oneRecord(1), disabled: live })}
        ${h(Step, { keys: "]", name: known?.next_label ? `Event after: ${known.next_label}` : "Event after that concerns this page", glyph: "›", act: () => step(1), disabled: live })}
        ${h(Step, { keys: "}", name: "Mark after", glyph: "»", act: () => toMark(1), disabled: live })}
      </span>
      <span class="group wide-only" role="group" aria-label="Zoom">
        <select aria-label="How much of the log" onChange=${(/** @type {any} */ event) => showLast(Number(event.target.value))}>
          ${sight ? html`<option value="" selected>zoomed</option>` : ""}
          <option value="0" selected=${!sight}>all</option>
          ${SPANS.map(([name, ms]) => html`<option value=${ms}>${name}</option>`)}
        </select>
        <button class="icon-button" aria-label="Show less" title="Show less" onClick=${() => scaleHere(0.5)}>+</button>
        <button class="icon-button" aria-label="Show more" title="Show more" disabled=${!sight} onClick=${() => scaleHere(2)}>−</button>
      </span>
      ${!archives && html`<span class="group wide-only">
        ${versus.value === null
          ? html`<button class="icon-button" title="Anchor this moment as A of a comparison (a)" aria-label="Compare: anchor this moment" onClick=${anchor}>A|B</button>`
          : html`<a class="icon-button" title="Show what differs" href=${href("/diff")}>A|B</a>`}
        <a class="icon-button" title="List the events of this stretch" aria-label="List the events of this stretch" href=${href("/log", listed(sight))}>☰</a>
      </span>`}
    </div>
  </div>`;
}

/** @param {{from: number, until: number} | null} sight */
function listed(sight) {
  const seen = histogram.peek();
  return sight && seen ? { from: sight.from, until: sight.until } : {};
}

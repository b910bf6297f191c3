// @ts-check
// The strip above a page that is of the past, or compared: which moment it is, how long ago, what has happened since, and the way back to now.

import { useEffect } from "preact/hooks";
import { ApiError, ask } from "../api.js";
import { Copy, copy } from "../components/copy.js";
import { Time } from "../components/time.js";
import { toast } from "../components/toast.js";
import { absolute, ago, number } from "../format.js";
import { h, html } from "../html.js";
import { asked_log, asked_time, at, head, href, pin, present, sharedAddress, shown, versus } from "../moment.js";
import { bounds } from "../scrub/data.js";
import { END, UNIT, archives } from "../source.js";
import { logPath } from "./asked.js";
import { bind } from "./keys.js";
import { zone } from "./settings.js";

/** What goes into a chat: the address, the offset, the time and the page's sentence. */
function copyView() {
  const moment = shown.value;
  const sentence = document.querySelector("main .sentence")?.textContent?.trim() ?? document.title;
  const where = moment ? `${UNIT} ${number(moment.offset)}, ${absolute(moment.decided_at, zone.value)}` : "";
  copy(`[${sentence}](${sharedAddress(bounds.value?.topic_id ?? "")}) (${where})`, "this view: a link with its moment and sentence");
}

/** Copy a link that shows what is on the screen. */
export function share() {
  copy(sharedAddress(bounds.value?.topic_id ?? ""), "a link to this moment");
}

export function Moment() {
  useEffect(() => bind({ keys: "y", words: "copy a link to this moment", act: share }, { keys: "Y", words: "copy this view as Markdown", act: copyView }), []);
  useEffect(() => {
    const asked = asked_time.value;
    if (!asked) return;
    ask(`${logPath.peek()}/position?at=${encodeURIComponent(asked)}`).then(
      ({ body }) => pin(body.offset, { replace: true }),
      (error) => toast(error instanceof ApiError ? error.message : String(error), { kind: "failed" }),
    );
  }, [asked_time.value]);
  const offset = at.value;
  const known = bounds.value?.topic_id;
  const other = asked_log.value && known && asked_log.value !== known;
  if (offset === null && !other) return null;
  const moment = shown.value;
  const here = moment && moment.offset === offset ? moment : null;
  const since = head.value && offset !== null ? head.value.offset - offset : 0;
  return html`<aside class="moment" aria-label="The moment that is shown">
    ${other
      ? html`<p><b>This link was made of another log</b> (${asked_log.value}; this one is ${known}): the log has been made anew since.</p>`
      : html`<p>
          <span class="moment-glyph" aria-hidden="true">◷</span> <b>${number(offset)}</b>
          ${here ? html`<span>${h(Time, { at: here.decided_at, form: "full" })}</span><span class="wide-only">${ago(here.decided_at, present.value)}</span>` : html`<span>…</span>`}
          ${since > 0 && html`<span class="wide-only">${archives ? `${number(since)} moments before its end` : `${number(since)} decisions since`}</span>`}
          ${versus.value !== null && html`<a href=${href("/diff")}>compared with ${number(versus.value)}</a>`}
        </p>`}
    <span class="moment-actions">
      ${h(Copy, { text: sharedAddress(known ?? ""), label: "a link to this moment" })}
      <button class="button small" onClick=${() => pin(null)}>Return to ${END} <kbd class="wide-only">L</kbd></button>
    </span>
  </aside>`;
}

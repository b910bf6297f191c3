// @ts-check
// The attempts of all vertices of a job as bars over time.

import { useEffect, useState } from "preact/hooks";

import { ask } from "../../api.js";
import { Bars, BarsLegend } from "../../bars/bars.js";
import { hasBegun, millis } from "../../bars/phases.js";
import { Empty } from "../../components/empty.js";
import { number, plural } from "../../format.js";
import { h, html } from "../../html.js";
import { change, href, reference } from "../../moment.js";
import { archives } from "../../source.js";

const ROWS = 500;
/** @type {[string, number | null][]} */
const WINDOWS = [["whole life", null], ["24 h", 86_400_000], ["1 h", 3_600_000], ["5 min", 300_000]];

/** @param {string} job @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(job, query) {
  return { bars: `/jobs/${job}/bars?first=${firstOf(query)}&limit=${ROWS}` };
}

/** @param {Record<string, string>} query */
function firstOf(query) {
  return Math.max(0, Math.floor(Number(query.first ?? 0)) || 0);
}

/** @param {{documents: Record<string, any>, query: Record<string, string>, moment: any, address: string}} props */
export function Tab({ documents, query, moment, address }) {
  const { bars } = documents;
  const leaderships = useLeaderships(moment);
  const now = moment.live ? reference.value : (millis(moment.decided_at) ?? 0);
  const first = firstOf(query);
  const shown = WINDOWS.find(([name]) => name === query.window) ?? /** @type {[string, number | null]} */ (WINDOWS[0]);
  const waiting = bars.bars.filter((/** @type {any} */ each) => !hasBegun(each)).length;
  if (bars.bars.length === waiting) {
    return h(Empty, { title: "No attempt has begun yet.", small: true }, html`<p>A subtask gets its first attempt when its inputs are complete, or when the job starts.</p>`);
  }
  return html`<div class="panel-head">
      <p class="muted">${plural(bars.total, "attempt")}, by vertex, of the worst subtask first${waiting > 0 ? `; ${number(waiting)} of those shown never began` : ""}</p>
      <div class="chips" role="group" aria-label="How much of the time is shown">
        ${WINDOWS.map(([name]) => html`<button key=${name} class=${`button small ${name === shown[0] ? "pressed" : ""}`} aria-pressed=${name === shown[0]} onClick=${() => change({ window: name === "whole life" ? null : name }, { replace: true })}>${name}</button>`)}
      </div>
    </div>
    ${h(Bars, {
      attempts: bars.bars, now, last: shown[1], leaderships,
      hrefOf: (attempt) => href(`${address}/${attempt.vertex_id}/${attempt.subtask_index}/${attempt.attempt}`),
    })}
    ${h(BarsLegend, {})}
    ${h(Pager, { first, size: ROWS, shown: bars.bars.length, total: bars.total, what: "attempts" })}`;
}

/** Who led when, for the bands: the bars stand without them where that cannot be told. @param {any} moment */
function useLeaderships(moment) {
  const [found, setFound] = useState(/** @type {import("../../bars/bars.js").Leadership[]} */ ([]));
  useEffect(() => {
    if (archives) return undefined;
    const controller = new AbortController();
    ask("/masters", { at: moment.live ? null : moment.offset, signal: controller.signal }).then(
      (answer) => setFound(answer.body.leaderships),
      () => {}, // The shell says what is the matter with the log.
    );
    return () => controller.abort();
  }, [moment.epoch, moment.live ? null : moment.offset]);
  return found;
}

/** Ways to the pages of a long list; a page may hold fewer than it could. @param {{first: number, size: number, shown: number, total: number, what: string}} props */
export function Pager({ first, size, shown, total, what }) {
  if (first === 0 && shown >= total) return null;
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button class="button small" disabled=${first === 0} onClick=${() => change({ first: first > size ? first - size : null })}>‹ previous</button>
    <span>${number(first + 1)} to ${number(first + shown)} of ${number(total)}</span>
    <button class="button small" disabled=${first + shown >= total} onClick=${() => change({ first: first + shown })}>next ›</button>
  </nav>`;
}

// @ts-check
// What differs between two moments, A and B: one sentence, then the leader, the jobs, the TaskManagers, the slots, old and new.

import { Empty } from "../components/empty.js";
import { Sentence } from "../components/sentence.js";
import { StateChip } from "../components/state_chip.js";
import { Time } from "../components/time.js";
import { duration, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href, versus } from "../moment.js";
import { compareWithAnHourAgo, swap } from "../scrub/steps.js";

const THINGS = /** @type {[string, string][]} */ ([["leader", "Leader"], ["job", "Jobs"], ["task_manager", "TaskManagers"], ["cluster", "Slots and shutdown"]]);
const CHANGES = /** @type {Record<string, [string, string]>} */ ({ new: ["+", "done"], gone: ["−", "failed"], changed: ["~", "running"] });

export const title = () => "Compare";
export const concerns = () => ({});
export const live = ["difference"];

/** @returns {Record<string, string>} */
export function questions() {
  const [a, b] = [versus.peek(), at.peek()];
  if (a === null) return { moment: "/log/position" };
  return { moment: "/log/position", difference: `/diff?a=${a}${b === null ? "" : `&b=${b}`}` };
}

/** @param {{documents: any}} props */
export function Page({ documents }) {
  const { difference } = documents;
  if (!difference) {
    return h(
      Empty,
      { title: "Compare two moments.", glyph: "⇄" },
      html`<p>Press <kbd>a</kbd> at one moment, then go to another one: by the bar, by <kbd>[</kbd> and <kbd>]</kbd>, by a time.</p>
        <p class="actions"><button class="button primary" onClick=${compareWithAnHourAgo}>Compare with an hour ago</button></p>`,
    );
  }
  const { before, after, rows, total } = difference;
  const apart = Date.parse(after.at) - Date.parse(before.at);
  return html`
    <div class="title"><h1 class="sentence">${h(Sentence, { text: difference.head.replace(/ from log offset .*?\)( to log offset .*?\))/, "") })}</h1></div>
    <div class="versus card">
      <div><span class="caption muted">A</span><a href=${href("/", { at: before.log_offset, vs: null })}><b>${number(before.log_offset)}</b></a>${h(Time, { at: before.at, form: "full" })}</div>
      <div class="versus-middle"><span>${duration(Math.abs(apart))}, ${plural(Math.abs(after.log_offset - before.log_offset), "decision")}</span><button class="button small" onClick=${swap} title="x">⇄ Swap</button></div>
      <div><span class="caption muted">B</span><a href=${href("/", { at: after.log_offset, vs: null })}><b>${number(after.log_offset)}</b></a>${h(Time, { at: after.at, form: "full" })}</div>
    </div>
    ${total === 0 && h(Empty, { title: "Nothing differs." }, html`<p>What came and went in between is in <a href=${href("/log", { from: before.log_offset, until: after.log_offset })}>the log</a>.</p>`)}
    ${THINGS.map(([thing, name]) => {
      const those = rows.filter((/** @type {any} */ row) => row.thing === thing);
      if (!those.length) return "";
      return html`<section class="card stacked" key=${thing}>
        <header><h2>${name}</h2><span class="muted">${number(those.length)}</span></header>
        <ul class="rows differences">${those.map((/** @type {any} */ row) => h(Difference, { row }))}</ul>
      </section>`;
    })}
    ${total > rows.length && html`<p class="muted">The first ${number(rows.length)} of ${number(total)} differences.</p>`}
  `;
}

/** @param {{row: any}} props */
function Difference({ row }) {
  const [glyph, family] = CHANGES[row.change] ?? ["~", "neutral"];
  const to = row.thing === "job" ? `/jobs/${encodeURIComponent(row.id)}` : row.thing === "task_manager" ? `/taskmanagers/${encodeURIComponent(row.id)}` : "/masters";
  return html`<li class=${family}>
    <span class="ink" aria-label=${row.change}>${glyph}</span>
    <p class="row-head">
      <a href=${href(to)}><b>${row.name ?? row.id ?? row.thing}</b></a>
      <span class="muted">${row.field.replace(/_/g, " ")}</span>
      <span>${row.change === "new" ? "" : h(Value, { row, value: row.before })}${row.change === "changed" ? html` <span class="muted">→</span> ` : ""}${row.change === "gone" ? "" : h(Value, { row, value: row.after })}</span>
    </p>
  </li>`;
}

/** @param {{row: any, value: any}} props */
function Value({ row, value }) {
  if (row.field === "status" && typeof value === "string") return h(StateChip, { state: value, of: "job", bare: true });
  if (value === null || value === undefined) return html`<span class="muted">none</span>`;
  return html`<code>${typeof value === "object" ? JSON.stringify(value) : typeof value === "number" ? number(value) : String(value)}</code>`;
}

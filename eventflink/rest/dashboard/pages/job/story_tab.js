// @ts-check
// The life of a job as a story, the oldest first, as `eventflink history` tells it.

import { Empty } from "../../components/empty.js";
import { Sentence } from "../../components/sentence.js";
import { Table } from "../../components/table.js";
import { Time } from "../../components/time.js";
import { number, plural } from "../../format.js";
import { h, html } from "../../html.js";
import { href } from "../../moment.js";

/** @type {Record<string, string>} */
const GLYPHS = { failed: "✖", waits: "◔" };

/** @type {import("../../components/table.js").Column[]} */
const COLUMNS = [
  { key: "offset", title: "Offset", width: "84px", render: (line) => html`<a class="mono" href=${href(`/log/${line.offset}`)}>${number(line.offset)}</a>` },
  { key: "at", title: "When", width: "120px", render: (line) => h(Time, { at: line.at, form: "clock" }) },
  { key: "kind", title: "What", width: "170px", phone: false, render: (line) => html`<span class=${`event-type ${line.look}`}><span class="ink" aria-hidden="true">${GLYPHS[line.look] ?? "·"}</span> ${line.kind.replaceAll("_", " ")}</span>` },
  { key: "text", title: "In words", render: (line) => html`<span title=${line.text}>${h(Sentence, { text: line.text })}</span>` },
];

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { story: `/jobs/${job}/story` };
}

/** @param {{documents: Record<string, any>}} props */
export function Tab({ documents }) {
  const { lines, omitted } = documents.story;
  return html`<p class="muted">What happened to the job, in its order; what many tasks did alike is one line.${omitted > 0 && ` ${plural(omitted, "line")} in the middle are left out.`}</p>
    ${h(Table, {
      label: "Story of the job", columns: COLUMNS, fixed: true, rows: lines, rowKey: (row) => `${row.offset} ${row.kind} ${row.text}`, height: "66vh",
      empty: h(Empty, { title: "Nothing has happened yet.", small: true }),
    })}`;
}

// @ts-check
// What a job came to: how it ended, where its outputs are, and their first rows where the storage can be read.

import { Command, Copy } from "../../components/copy.js";
import { Empty } from "../../components/empty.js";
import { Table } from "../../components/table.js";
import { plural } from "../../format.js";
import { h, html } from "../../html.js";

const SHOWN = 1000;

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { result: `/jobs/${job}/result?limit=${SHOWN}` };
}

/** @param {{documents: Record<string, any>, job: any}} props */
export function Tab({ documents, job }) {
  const found = documents.result;
  const sinks = new Set(found.sinks);
  const outputs = [...found.outputs].sort((one, other) => Number(sinks.has(other.vertex_id)) - Number(sinks.has(one.vertex_id)));
  const preview = found.rows ?? found.preview ?? null;
  return html`${found.cause && html`<p class="job-sentence failed"><b>${found.cause.failure_type}</b>: ${found.cause.message}</p>`}
    ${preview && h(Preview, { preview })}
    ${outputs.length === 0
      ? h(Empty, { title: found.is_terminal ? "It left no output." : "There is no output yet.", glyph: found.is_terminal ? "○" : "◌", small: Boolean(preview) },
          html`<p>${job.stream ? "What streams write goes to their sinks; see the document." : "The outputs of a vertex stand here when its subtasks have finished."}</p>`)
      : html`<h2 class="spaced">Outputs <span class="muted">${plural(found.outputs_matching ?? outputs.length, "data set")}</span></h2>
          ${h(Table, { label: "Outputs", columns: columns(sinks), rows: outputs, rowKey: (row) => `${row.vertex_id}[${row.subtask_index}] ${row.output}`, height: "50vh" })}`}
    ${!job.stream && html`<p class="muted below">All rows, on the command line:</p>${h(Command, { text: `eventflink result ${job.job_id}` })}`}`;
}

/** @param {Set<string>} sinks @returns {import("../../components/table.js").Column[]} */
const columns = (sinks) => [
  { key: "task", title: "subtask", width: "160px", render: (each) => html`${each.vertex_id}[${each.subtask_index}]${sinks.has(each.vertex_id) ? html` <span class="muted">result</span>` : ""}` },
  { key: "output", title: "output", width: "120px", render: (each) => each.output },
  { key: "attempt", title: "by attempt", width: "90px", align: "end", render: (each) => `#${each.attempt}` },
  { key: "location", title: "location", render: (each) => html`<code title=${each.location}>${each.location}</code>${h(Copy, { text: each.location, label: "the location" })}` },
];

/** @param {{preview: any}} props */
function Preview({ preview }) {
  const names = preview.columns ?? Object.keys(preview.rows?.[0] ?? {});
  const rows = preview.rows ?? preview;
  if (!Array.isArray(rows)) return null;
  /** @type {import("../../components/table.js").Column[]} */
  const columns = names.map((/** @type {string} */ name, /** @type {number} */ index) => ({
    key: name, title: name,
    align: typeof cell(rows[0], name, index) === "number" ? "end" : "start",
    render: (/** @type {any} */ row) => shown(cell(row, name, index)),
  }));
  return html`<h2>First rows${preview.vertex_id ? html` <span class="muted">of ${preview.vertex_id}</span>` : ""}</h2>
    ${h(Table, { label: "First rows", columns, rows, height: "40vh", empty: h(Empty, { title: "It has no rows.", small: true }) })}
    ${preview.truncated && html`<p class="muted">There are more.</p>`}`;
}

/** @param {any} row @param {string} name @param {number} index */
function cell(row, name, index) {
  return Array.isArray(row) ? row[index] : row?.[name];
}

/** @param {any} value */
function shown(value) {
  if (value === null || value === undefined) return html`<span class="muted">null</span>`;
  return typeof value === "object" ? html`<code>${JSON.stringify(value)}</code>` : String(value);
}

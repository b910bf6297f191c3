// @ts-check
// What a job came to: how it ended, where its outputs are, and their first rows where the storage can be read.

import { useEffect, useState } from "preact/hooks";

import { ApiError, ask } from "../../api.js";
import { Command, Copy } from "../../components/copy.js";
import { Empty } from "../../components/empty.js";
import { Table } from "../../components/table.js";
import { plural } from "../../format.js";
import { h, html } from "../../html.js";
import { at, change } from "../../moment.js";
import { may } from "../../shell/identity.js";
import { archives } from "../../source.js";

const SHOWN = 1000;

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { result: `/jobs/${job}/result?limit=${SHOWN}` };
}

/** @typedef {{vertex_id: string, output: string, columns: {name: string, type: string}[], rows: any[][], has_more: boolean, unreadable: string | null}} Rows */

/** @param {{documents: Record<string, any>, job: any, query: Record<string, string>}} props */
export function Tab({ documents, job, query }) {
  const found = documents.result;
  const sinks = new Set(found.sinks);
  const outputs = [...found.outputs].sort((one, other) => Number(sinks.has(other.vertex_id)) - Number(sinks.has(one.vertex_id)));
  const readable = may("operator") && !archives; // Where outputs were, an archive says; what became of them is not its business.
  const shown = outputs.find((each) => each.vertex_id === query.vertex && (!query.output || each.output === query.output)) ?? outputs[0];
  return html`${found.cause && html`<p class="job-sentence failed"><b>${found.cause.failure_type}</b>: ${found.cause.message}</p>`}
    ${shown && readable && h(FirstRows, { job, shown })}
    ${outputs.length === 0
      ? h(Empty, { title: found.is_terminal ? "It left no output." : "There is no output yet.", small: true },
          html`<p>${job.stream ? "What streams write goes to their sinks; see the document." : "The outputs of a vertex stand here when its subtasks have finished."}</p>`)
      : html`<h2 class="below">Outputs <span class="muted">${plural(found.outputs_matching, "data set")}</span></h2>
          ${h(Table, {
            label: "Outputs", columns: columns(sinks), rows: outputs, rowKey: (row) => `${row.vertex_id}[${row.subtask_index}] ${row.output}`, height: "50vh",
            mark: (row) => (shown && row.vertex_id === shown.vertex_id && row.output === shown.output ? "chosen" : ""),
            open: readable ? (row) => change({ vertex: row.vertex_id, output: row.output }, { replace: true }) : undefined,
          })}`}
    ${found.accumulators?.length > 0 && html`<h2 class="below">Counted by its tasks</h2>
          <dl class="pairs">${found.accumulators.map((/** @type {any} */ each) => html`<dt key=${each.name}><code>${each.name}</code></dt><dd>${each.value} <span class="muted">${each.type}</span></dd>`)}</dl>`}
    ${!job.stream && !archives && html`<p class="muted below">All rows, on the command line:</p>${h(Command, { text: `eventflink result ${job.job_id}` })}`}`;
}

/** The first rows of an output, read when somebody looks: where they are is in the log, what they are is not. @param {{job: any, shown: any}} props */
function FirstRows({ job, shown }) {
  const [found, setFound] = useState(/** @type {{rows: Rows | null, errors: string[]}} */ ({ rows: null, errors: [] }));
  const { vertex_id: vertexId, output } = shown;
  useEffect(() => {
    const controller = new AbortController();
    const asked = `/jobs/${encodeURIComponent(job.job_id)}/result/rows?vertex_id=${encodeURIComponent(vertexId)}&output=${encodeURIComponent(output)}`;
    setFound({ rows: null, errors: [] });
    ask(asked, { signal: controller.signal }).then(
      (answer) => setFound({ rows: /** @type {any} */ ("body" in answer ? answer.body : answer), errors: [] }),
      (error) => !controller.signal.aborted && setFound({ rows: null, errors: error instanceof ApiError ? error.errors : [String(error)] }),
    );
    return () => controller.abort();
  }, [job.job_id, vertexId, output]);
  const { rows } = found;
  return html`<h2 class="spaced">First rows <span class="muted">of ${vertexId}${output === "default" ? "" : `, output ${output}`}</span> ${at.value !== null && html`<span class="not-recorded">not recorded: read now</span>`}</h2>
    ${found.errors.map((line) => html`<p class="refused">${line}</p>`)}
    ${!rows && found.errors.length === 0 && html`<p class="muted">Reading them…</p>`}
    ${rows?.unreadable && html`<p class="muted">${rows.unreadable}</p>`}
    ${rows && !rows.unreadable &&
    h(Table, { label: "First rows", columns: ofRows(rows.columns), rows: rows.rows, height: "40vh", empty: h(Empty, { title: "It has no rows.", small: true }) })}
    ${rows?.has_more && html`<p class="muted">There are more.</p>`}`;
}

/** @param {{name: string, type: string}[]} names @returns {import("../../components/table.js").Column[]} */
function ofRows(names) {
  return names.map(({ name, type }, index) => ({
    key: name, title: name, hint: type,
    align: /^(u?int|float|double|decimal|half)/.test(type) ? "end" : "start",
    render: (row) => (row[index] === null ? html`<span class="muted">null</span>` : String(row[index])),
  }));
}

/** @param {Set<string>} sinks @returns {import("../../components/table.js").Column[]} */
const columns = (sinks) => [
  { key: "task", title: "Subtask", width: "160px", render: (each) => html`${each.vertex_id}[${each.subtask_index}]${sinks.has(each.vertex_id) ? html` <span class="muted">result</span>` : ""}` },
  { key: "output", title: "Output", width: "120px", render: (each) => each.output },
  { key: "attempt", title: "By attempt", width: "90px", align: "end", render: (each) => `#${each.attempt}` },
  { key: "rows", title: "Rows", width: "100px", align: "end", render: (each) => (each.rows < 0 ? html`<span class="muted">not known</span>` : each.rows) },
  { key: "location", title: "Location", render: (each) => html`<code title=${each.location}>${each.location}</code>${h(Copy, { text: each.location, label: "the location" })}` },
];

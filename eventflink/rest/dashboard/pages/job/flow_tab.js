// @ts-check
// How the streams of a job flow, as they told at the last checkpoint: its vertices, and the subtasks of the chosen one, the worst first. Nothing is
// made up between two checkpoints.

import { Empty } from "../../components/empty.js";
import { Table } from "../../components/table.js";
import { Time } from "../../components/time.js";
import { bytes, duration, number, plural } from "../../format.js";
import { h, html } from "../../html.js";
import { change, href, reference } from "../../moment.js";
import { Curves } from "./curves.js";

const RATE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const SHOWN = 1000;

/** @param {string} job @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(job, query) {
  return query.vertex ? { subtasks: `/jobs/${job}/vertices/${encodeURIComponent(query.vertex)}/subtasks?sort=index&first=0&limit=${SHOWN}` } : {};
}

/** How many records a subtask is behind; null: no source of it tells. @param {any} subtask @returns {number | null} */
export function lagOf(subtask) {
  const behind = (subtask.progress?.answer?.sources ?? []).map((/** @type {any} */ source) => source.records_behind);
  const known = behind.filter((/** @type {number} */ each) => each >= 0);
  return known.length > 0 ? known.reduce((/** @type {number} */ sum, /** @type {number} */ each) => sum + each, 0) : null;
}

/** @param {{documents: Record<string, any>, job: any, query: Record<string, string>, moment: any, address: string}} props */
export function Tab({ documents, job, query, moment, address }) {
  if (!job.stream) {
    return h(Empty, { title: "Nothing flows: this job has no streams.", small: true }, html`<p>Its edges are blocking: a reader starts when all subtasks of its writer have finished. The graph shows how far they are.</p>`);
  }
  const told = job.vertices.filter((/** @type {any} */ each) => each.flow_at);
  if (told.length === 0) {
    return h(Empty, { title: "No stream has told yet where it stands.", small: true }, html`<p>Streams tell it with each checkpoint; the first one has not completed. <a href=${href(`${address}/checkpoints`)}>Checkpoints</a></p>`);
  }
  const newest = told.map((/** @type {any} */ each) => each.flow_at).sort().at(-1);
  const vertices = [...job.vertices].sort((one, other) => (other.back_pressure?.ratio ?? -1) - (one.back_pressure?.ratio ?? -1));
  const most = Math.max(1, ...vertices.map((each) => each.lag ?? 0));
  return html`<p class="muted spaced">As of the last checkpoint, ${h(Time, { at: newest })}.</p>
    ${h(Table, { label: "Streams", columns: ofVertices(address, most), rows: vertices, rowKey: (row) => row.vertex_id, height: "36vh", mark: (row) => (row.vertex_id === query.vertex ? "chosen" : ""), open: (row) => change({ vertex: row.vertex_id }, { replace: true }) })}
    ${h(Curves, { job: job.job_id, vertexId: query.vertex, moment, known: newest })}
    ${documents.subtasks ? h(Subtasks, { document: documents.subtasks, address }) : html`<p class="muted">Choose a vertex to see its subtasks.</p>`}
    <p class="legend">Back-pressure is the part by which a stream does not keep up: up to 10 % ok, up to 50 % low, above that high.</p>`;
}

/** @param {{document: any, address: string}} props */
function Subtasks({ document, address }) {
  const pressure = (/** @type {any} */ each) => each.progress?.back_pressure?.ratio ?? -1;
  const rows = [...document.subtasks].sort((one, other) => pressure(other) - pressure(one) || (lagOf(other) ?? -1) - (lagOf(one) ?? -1));
  const most = Math.max(1, ...rows.map((each) => lagOf(each) ?? 0));
  const of = document.total > rows.length ? `the first ${number(rows.length)} of ${plural(document.total, "subtask")}` : plural(rows.length, "subtask");
  return html`<h2 class="below">${document.vertex_id} <span class="muted">${of}, the worst first</span></h2>
    ${h(Table, { label: `Streams of ${document.vertex_id}`, columns: ofSubtasks(address, document.vertex_id, most), rows, rowKey: (row) => String(row.subtask_index), height: "46vh" })}`;
}

/** @param {string} address @param {number} most @returns {import("../../components/table.js").Column[]} */
function ofVertices(address, most) {
  return [
    { key: "name", title: "Vertex", width: "200px", render: (each) => html`<a href=${href(`${address}/flow`, { vertex: each.vertex_id })}>${each.name}</a>` },
    { key: "pressure", title: "Back-pressure", width: "190px", render: (each) => h(Pressure, { pressure: each.back_pressure }) },
    { key: "lag", title: "Records behind", width: "170px", align: "end", render: (each) => h(Lag, { lag: each.lag, most }) },
    { key: "rate", title: "Rows/s", width: "100px", align: "end", render: (each) => rate(each.records_per_second) },
    { key: "written", title: "Written", width: "110px", align: "end", render: (each) => h(Written, { rows: each.rows_written, at: each.written_at }) },
    { key: "watermark", title: "Watermark", width: "150px", render: (each) => h(Watermark, { at: each.watermark }) },
    { key: "reason", title: "Why", phone: false, render: (each) => reason(each.back_pressure) },
  ];
}

/** @param {string} address @param {string} vertexId @param {number} most @returns {import("../../components/table.js").Column[]} */
function ofSubtasks(address, vertexId, most) {
  const answer = (/** @type {any} */ each) => each.progress?.answer ?? null;
  return [
    { key: "task", title: "#", width: "60px", align: "end", render: (each) => html`<a href=${href(`${address}/${vertexId}/${each.subtask_index}/${each.attempt}`)}>${each.subtask_index}</a>` },
    { key: "pressure", title: "Back-pressure", width: "190px", render: (each) => h(Pressure, { pressure: each.progress?.back_pressure ?? null }) },
    { key: "lag", title: "Records behind", width: "170px", align: "end", render: (each) => h(Lag, { lag: lagOf(each), most }) },
    { key: "in", title: "Rows/s in", width: "90px", align: "end", render: (each) => rate(answer(each)?.input_rows_per_second) },
    { key: "out", title: "Done/s", width: "90px", align: "end", render: (each) => rate(answer(each)?.processed_rows_per_second) },
    { key: "batch", title: "Batch", width: "80px", align: "end", phone: false, render: (each) => (answer(each)?.batch_id >= 0 ? number(answer(each).batch_id) : "–") },
    { key: "took", title: "Took", width: "90px", align: "end", phone: false, render: (each) => duration(answer(each)?.batch_duration_ms) },
    { key: "state", title: "State", width: "100px", align: "end", phone: false, render: (each) => html`<span title=${`${number(answer(each)?.state_rows)} rows`}>${bytes(answer(each)?.state_bytes)}</span>` },
    { key: "late", title: "Late rows", width: "80px", align: "end", phone: false, render: (each) => number(answer(each)?.late_rows_dropped) },
    { key: "written", title: "Written", width: "110px", align: "end", render: (each) => h(Outputs, { outputs: answer(each)?.outputs ?? [] }) },
    { key: "watermark", title: "Watermark", width: "140px", render: (each) => h(Watermark, { at: answer(each)?.watermark }) },
    { key: "reason", title: "Why", phone: false, render: (each) => reason(each.progress?.back_pressure ?? null) },
  ];
}

/** @param {number | null | undefined} value */
function rate(value) {
  return typeof value === "number" ? RATE.format(value) : "–";
}

/** @param {{reason: string} | null} pressure */
function reason(pressure) {
  return pressure ? html`<span title=${pressure.reason}>${pressure.reason}</span>` : html`<span class="muted">it has not told yet</span>`;
}

/** @param {{outputs: {name: string, location: string, rows_written: number, written_at: string | null}[]}} props */
function Outputs({ outputs }) {
  const known = outputs.length > 0 && outputs.every((each) => each.rows_written >= 0);
  const rows = known ? outputs.reduce((sum, each) => sum + each.rows_written, 0) : null;
  const at = outputs.map((each) => each.written_at ?? "").sort().at(-1) || null;
  const each = outputs.map((output) => `${output.name} (${output.location}): ${output.rows_written >= 0 ? plural(output.rows_written, "row") : "not known"}`);
  return h(Written, { rows, at, details: each.join("\n") });
}

/** How many rows were written by the attempts that run, and when last. @param {{rows: number | null, at: string | null, details?: string}} props */
function Written({ rows, at, details = "" }) {
  if (rows === null) return "–";
  return html`<span title=${[details, at ? `the last in the batch of ${at}` : "no row yet"].filter(Boolean).join("\n")}>${number(rows)}</span>`;
}

/** How far event time lies back. @param {{at: string | null | undefined}} props */
export function Watermark({ at }) {
  if (!at) return html`<span class="muted">none</span>`;
  return html`<span title=${at}>${duration(Math.max(0, Math.floor((reference.value - Date.parse(at)) / 1000) * 1000))} back</span>`;
}

/** @param {{lag: number | null, most: number}} props */
function Lag({ lag, most }) {
  if (lag === null) return "–";
  return html`<span class="took"><span class="took-bar" aria-hidden="true"><i style=${{ width: `${(lag / most) * 100}%` }}></i></span>${number(lag)}</span>`;
}

/** @param {{pressure: {level: string, ratio: number} | null}} props */
export function Pressure({ pressure }) {
  if (!pressure) return html`<span class="muted">–</span>`;
  const level = pressure.level.toLowerCase();
  const percent = Math.round(pressure.ratio * 100);
  return html`<span class="took"><span class="took-bar" aria-hidden="true"><i class=${`pressed-${level}`} style=${{ width: `${percent}%` }}></i></span><b class=${`pressed-${level}`}>${level}</b> ${percent} %</span>`;
}

// @ts-check
// The page of one attempt: its life as a bar, where it ran, why it ended, and its files.

import { ask } from "../api.js";
import { Bar, BarsLegend } from "../bars/bars.js";
import { millis, spanOf } from "../bars/phases.js";
import { Id } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { StateChip } from "../components/state_chip.js";
import { Tabs } from "../components/tabs.js";
import { Time } from "../components/time.js";
import { bytes, duration, plural } from "../format.js";
import { h, html } from "../html.js";
import { LogView } from "../logs/log_view.js";
import { href, reference } from "../moment.js";
import { archives } from "../source.js";
import { barsOf, where } from "./job/graph_tab.js";
import { whyOf } from "./why.js";

const LAST_BYTES = 262_144;
/** @type {[string, string][]} */
const FILES = [["log", "Log"], ["stdout", "Standard output"], ["stderr", "Standard error"]];
/** @type {[string, string][]} */
const TABS = [["life", "Life"], ...(archives ? [] : FILES)];

/** @param {Record<string, string>} params */
export function title(params) {
  return `${params.vertex}[${params.subtask}]#${params.attempt}`;
}

/** @param {Record<string, string>} params */
export function questions(params) {
  const job = encodeURIComponent(params.job ?? "");
  const first = Math.max(0, Number.parseInt(params.subtask ?? "0", 10) || 0);
  return { job: `/jobs/${job}`, subtasks: `/jobs/${job}/vertices/${encodeURIComponent(params.vertex ?? "")}/subtasks?sort=index&first=${first}&limit=1` };
}

/** @param {Record<string, string>} params */
export function concerns(params) {
  return { job: params.job };
}

/** @param {{documents: Record<string, any>, params: Record<string, string>, moment: any}} props */
export function Page({ documents, params, moment }) {
  const { job } = documents;
  const [subtask] = documents.subtasks.subtasks;
  const number = Number(params.attempt);
  const attempt = subtask?.attempts.find((/** @type {any} */ each) => each.attempt === number);
  const of = `/jobs/${encodeURIComponent(job.job_id)}`;
  const address = `${of}/${params.vertex}/${params.subtask}`;
  const tab = TABS.find(([name]) => name === params.tab)?.[0] ?? "life";
  const state = attempt ? attempt.state : subtask && number === subtask.attempt ? subtask.state : null;
  return html`<header class="job-head">
      <p class="crumbs"><a href=${href(of)}>${job.name}</a> <span aria-hidden="true">▸</span> <a href=${href(of, { vertex: params.vertex })}>${params.vertex}</a></p>
      <div class="job-title">
        <h1>${params.vertex}[${params.subtask}]<span class="muted">#${params.attempt}</span></h1>
        ${state && h(StateChip, { state })}
        ${attempt?.task_manager_id && html`<span>on ${where(attempt.task_manager_id)}</span>`}
        ${state && !archives && html`<a href=${href(whyOf(`${job.job_id}/${title(params)}`))}>why it is so</a>`}
      </div>
    </header>
    ${!subtask
      ? h(Empty, { title: `${params.vertex} has no subtask ${params.subtask} at this moment.`, small: true }, html`<p>It has ${plural(documents.subtasks.total, "subtask")}. <a href=${href(of, { vertex: params.vertex })}>See them</a></p>`)
      : html`${h(Tabs, { label: "Views of the attempt", views: TABS.map(([name, words]) => ({ name, words, to: name === "life" ? `${address}/${number}` : `${address}/${number}/${name}` })), shown: tab })}
          ${tab === "life"
            ? h(Life, { subtask, attempt, vertexId: params.vertex ?? "", address, moment, number })
            : h(LogView, { key: `${address}/${number}/${tab}`, identity: `${address}/${number}/${tab}`, label: `${tab} of ${title(params)}`, load: (signal) => fileOf(`${of}/vertices/${params.vertex}/subtasks/${params.subtask}/attempts/${number}/files/${tab}?last_bytes=${LAST_BYTES}`, signal) })}`}`;
}

/** @param {string} path @param {AbortSignal} signal @returns {Promise<any>} */
async function fileOf(path, signal) {
  return ask(path, { signal });
}

/** @param {{subtask: any, attempt: any, vertexId: string, address: string, moment: any, number: number}} props */
function Life({ subtask, attempt, vertexId, address, moment, number }) {
  const now = moment.live ? reference.value : (millis(moment.decided_at) ?? 0);
  const all = barsOf(subtask, vertexId);
  const axis = spanOf(all, now);
  if (!attempt) {
    const known = subtask.attempts.map((/** @type {any} */ each) => each.attempt);
    return h(Empty, { title: `Attempt ${number} is not remembered.`, small: true }, html`<p>${known.length > 0 ? `Of this subtask the attempts ${known[0]} to ${known.at(-1)} are.` : "This subtask has had no attempt yet."} ${!archives && html`<a href=${href(`/log`, { job: subtask.job_id })}>The log has it.</a>`}</p>`);
  }
  const [scheduled, deployed, running, ended] = [attempt.scheduled_at, attempt.deployed_at, attempt.running_at, attempt.ended_at].map(millis);
  const until = (/** @type {number | null | undefined} */ from, /** @type {number | null | undefined} */ to) => (from == null ? "–" : duration((to ?? now) - from));
  const failure = subtask.last_failure && attempt.attempt >= subtask.attempt - 1 ? subtask.last_failure : null;
  return html`<section class="life" aria-label="Its life">
      <div class="life-axis"><span>${h(Time, { at: new Date(axis.from).toISOString(), form: "clock" })}</span><span>${h(Time, { at: new Date(axis.until).toISOString(), form: "clock" })}</span></div>
      <ul>
        ${all.map((each) => html`<li key=${each.attempt} class=${each.attempt === number ? "chosen" : ""}>
          <a class="bars-name" href=${href(`${address}/${each.attempt}`)} aria-current=${each.attempt === number ? "true" : undefined}>attempt ${each.attempt}</a>
          <span class="bars-row">${h(Bar, { attempt: each, axis, now, href: href(`${address}/${each.attempt}`) })}</span>
          ${h(StateChip, { state: each.state })}
        </li>`)}
      </ul>
      ${h(BarsLegend, {})}
    </section>
    <div class="two-columns">
      <section class="card" aria-label="Times">
        <header><h2>How long it was where</h2></header>
        <dl class="pairs card-body">
          <dt>waited for a slot</dt><dd>${until(scheduled, deployed ?? ended)} ${attempt.scheduled_at && html`<span class="muted">from ${h(Time, { at: attempt.scheduled_at, form: "full" })}</span>`}</dd>
          <dt>was deployed</dt><dd>${until(deployed, running ?? ended)} ${attempt.deployed_at && html`<span class="muted">from ${h(Time, { at: attempt.deployed_at, form: "full" })}</span>`}</dd>
          <dt>ran</dt><dd>${until(running, ended)} ${attempt.running_at && html`<span class="muted">from ${h(Time, { at: attempt.running_at, form: "full" })}</span>`}</dd>
          <dt>ended</dt><dd>${attempt.ended_at ? h(Time, { at: attempt.ended_at, form: "full" }) : "not yet"}</dd>
        </dl>
      </section>
      <section class="card" aria-label="What it is">
        <header><h2>${attempt.state === "FAILED" ? "Why it ended" : "Where it is"}</h2></header>
        <div class="card-body">
          ${attempt.state === "FAILED" && failure && html`<p class="failure-message"><b>${failure.failure_type}</b>: ${failure.message}</p>`}
          ${subtask.wait && number === subtask.attempt && html`<p class="job-sentence waits">${subtask.wait}</p>`}
          <dl class="pairs">
            <dt>TaskManager</dt><dd>${where(attempt.task_manager_id)}</dd>
            <dt>instance</dt><dd>${attempt.instance_id ? h(Id, { id: attempt.instance_id, label: "instance" }) : "–"}</dd>
            ${attempt.io && html`<dt>read</dt><dd>${sizeOf(attempt.io.read_records, attempt.io.read_bytes)}</dd><dt>written</dt><dd>${sizeOf(attempt.io.write_records, attempt.io.write_bytes)}</dd>`}
            ${(attempt.accumulators ?? []).map((/** @type {any} */ each) => html`<dt key=${each.name}>counted <code>${each.name}</code></dt><dd>${each.value}</dd>`)}
            ${Object.entries(subtask.outputs ?? {}).map(([name, left]) => html`<dt key=${name}>output ${name}</dt><dd><code>${left.location}</code></dd>`)}
          </dl>
        </div>
      </section>
    </div>
    ${subtask.progress && h(Stream, { progress: subtask.progress })}`;
}

/** How much was read or written; -1: it is not known. @param {number} rows @param {number} size */
function sizeOf(rows, size) {
  return rows < 0 ? html`<span class="muted">not known</span>` : `${plural(rows, "row")}${size < 0 ? "" : `, ${bytes(size)}`}`;
}

/** @param {{progress: any}} props */
function Stream({ progress }) {
  const { start, answer, back_pressure: pressure } = progress;
  return html`<section class="card" aria-label="Stream">
    <header><h2>Its stream</h2><span class="muted">as of the last checkpoint</span></header>
    <dl class="pairs card-body">
      ${start && html`<dt>query</dt><dd>${h(Id, { id: start.query_id, label: "query id" })} began ${h(Time, { at: start.at })}${start.restored_batch_id >= 0 ? `, after batch ${start.restored_batch_id}` : ""}</dd>
        <dt>Spark session</dt><dd>${h(Id, { id: start.spark_session_id, label: "session id" })}</dd>
        <dt>its checkpoints</dt><dd><code>${start.location}</code></dd>`}
      ${answer && html`<dt>last batch</dt><dd>${answer.batch_id >= 0 ? `${answer.batch_id}, in ${duration(answer.batch_duration_ms)}` : "none yet"}</dd>`}
      ${pressure && html`<dt>back-pressure</dt><dd><b class=${`pressed-${pressure.level.toLowerCase()}`}>${pressure.level.toLowerCase()}</b> ${pressure.reason}</dd>`}
    </dl>
  </section>`;
}

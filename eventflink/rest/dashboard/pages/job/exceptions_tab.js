// @ts-check
// The failures of a job, the newest first: what failed, whose it is, what it led to, and what came with it.

import { Command, Copy } from "../../components/copy.js";
import { Empty } from "../../components/empty.js";
import { Sentence, Whose } from "../../components/sentence.js";
import { Time } from "../../components/time.js";
import { plural } from "../../format.js";
import { h, html } from "../../html.js";
import { href } from "../../moment.js";
import { archives } from "../../source.js";
import { where } from "./graph_tab.js";
import { Trace } from "./trace.js";

const SHOWN = 50;

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { exceptions: `/jobs/${job}/exceptions?limit=${SHOWN}` };
}

/** @param {{documents: Record<string, any>, job: any, address: string}} props */
export function Tab({ documents, job, address }) {
  const { exceptions, total } = documents.exceptions;
  if (exceptions.length === 0) return h(Empty, { title: "Nothing has failed.", small: true }, html`<p>A failure appears here with its cause, the trace, and what it led to.</p>`);
  return html`${total > exceptions.length && html`<p class="muted">The newest ${exceptions.length} of ${plural(total, "failure")}.</p>`}
    <ol class="failures">${exceptions.map((/** @type {any} */ each, /** @type {number} */ index) => h(Failure, { key: `${each.at} ${each.task}`, failure: each, address, open: index === 0 }))}</ol>
    ${!archives && html`<p class="muted below">The same with all traces, on the command line:</p>${h(Command, { text: `eventflink exceptions ${job.job_id} --trace` })}
    ${job.status === "FAILED" && html`<p class="muted below">Once its cause is mended, to run the job again from there:</p>${h(Command, { text: `eventflink rerun ${job.job_id} --failed` })}`}`}`;
}

/** @param {{failure: any, address: string, open: boolean}} props */
function Failure({ failure, address, open }) {
  const { cause } = failure;
  const ofTask = Boolean(failure.vertex_id);
  const message = cause.message ? `${cause.failure_type}: ${cause.message}` : cause.failure_type;
  const attempt = href(`${address}/${failure.vertex_id}/${failure.subtask_index}/${failure.attempt}`);
  return html`<li class="card failure">
    <header>
      <h2><span class="failed state-glyph" aria-hidden="true">✖</span> ${ofTask ? html`<a href=${attempt}>${failure.task}</a>` : "the job"}
        ${h(Whose, { kind: failure.kind })}</h2>
      <span class="muted">${h(Time, { at: failure.at })}${failure.task_manager_id ? html` on ${where(failure.task_manager_id)}` : ""}</span>
    </header>
    <div class="card-body">
      <p class="failure-message">${h(Sentence, { text: failure.sentence })}${h(Copy, { text: message, label: "the message" })}</p>
      ${!failure.sentence.includes(cause.message) && html`<pre class="code-block" tabindex="0">${message}</pre>`}
      ${failure.restart && failure.restart.task_count > 1 && h(Restarted, { restart: failure.restart })}
      ${cause.stack_trace && h(Trace, { text: cause.stack_trace, open })}
      ${ofTask && !archives && html`<p class="failure-links"><a href=${href(`${address}/${failure.vertex_id}/${failure.subtask_index}/${failure.attempt}/log`)}>log of this attempt</a></p>`}
      ${failure.concurrent.length > 0 &&
      html`<details>
        <summary>${plural(failure.concurrent_count, "failure")} came with it</summary>
        <ul class="would">
          ${failure.concurrent.map((/** @type {any} */ each) => html`<li><b>${each.task}</b> ${each.cause.failure_type}: ${each.cause.message}</li>`)}
        </ul>
      </details>`}
    </div>
  </li>`;
}

/** The tasks that were restarted. @param {{restart: {tasks: string[], task_count: number}}} props */
function Restarted({ restart }) {
  const more = restart.task_count - restart.tasks.length;
  return html`<details>
    <summary>${plural(restart.task_count, "task")} restarted</summary>
    <p class="would">${restart.tasks.join(", ")}${more > 0 ? ` and ${plural(more, "other")}` : ""}</p>
  </details>`;
}

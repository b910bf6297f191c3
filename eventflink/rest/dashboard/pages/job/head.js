// @ts-check
// What one sees of a job first: its state, since when, by whom, how often it was restarted, one sentence of how it stands, and what one may order.

import { ActionsMenu } from "../../actions/menu.js";
import { Id } from "../../components/copy.js";
import { Sentence } from "../../components/sentence.js";
import { StateChip } from "../../components/state_chip.js";
import { Since, Time } from "../../components/time.js";
import { duration, middle, plural } from "../../format.js";
import { h, html } from "../../html.js";
import { cluster, href } from "../../moment.js";
import { archives } from "../../source.js";
import { Schedule, pathOf } from "../runs.js";
import { whyOf } from "../why.js";

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED"]);

/** @param {{job: any, moment: any}} props */
export function JobHead({ job, moment }) {
  const ended = ENDED.has(job.status);
  const attention = job.status === "FAILED" || job.status === "FAILING" ? "failed" : (job.waits ?? []).some((/** @type {any} */ wait) => wait.trouble) ? "waits" : "";
  return html`<header class="job-head">
    <div class="job-title">
      <h1>${job.name}</h1>
      ${h(Id, { id: job.job_id, label: "job id", most: 24 })}
      ${h(StateChip, { state: job.status, of: "job" })}
      ${!archives && html`<span class="job-actions">${h(ActionsMenu, { job, moment })}</span>`}
    </div>
    <p class="job-facts muted">
      ${cluster.value && html`<span>of cluster <b>${cluster.value}</b></span>`}
      <span>${ended ? html`${job.status.toLowerCase()} ${h(Time, { at: job.ended_at })} after ${duration(job.duration_ms)}` : html`for ${h(Since, { at: job.status_since })}`}</span>
      <span>submitted ${h(Time, { at: job.submitted_at })}${job.actor ? html` by <b>${job.actor}</b>` : ""}</span>
      ${!archives && html`<span><a href=${href(whyOf(job.job_id))}>why it is so</a></span>`}
      ${job.name && html`<span><a href=${href(pathOf(job.name))}>all its runs</a></span>`}
      ${job.schedule_id && html`<span>of ${h(Schedule, { id: job.schedule_id, most: 128 })} for ${h(Time, { at: job.instant })}${job.after_job_id && html`, after <a href=${href(`/jobs/${encodeURIComponent(job.after_job_id)}`)}>${job.after_job_id}</a>`}</span>`}
      ${job.rerun_of && html`<span>runs <a href=${href(`/jobs/${encodeURIComponent(job.rerun_of)}`)}>${middle(job.rerun_of, 24)}</a> again</span>`}
      ${job.run_again_by && html`<span>run again by <a href=${href(`/jobs/${encodeURIComponent(job.run_again_by)}`)}>${middle(job.run_again_by, 24)}</a></span>`}
      ${job.failure_is_dismissed && html`<span>failure dismissed</span>`}
      ${job.fails_at && html`<span>time limit ${duration(job.time_limit_ms)}, up ${h(Time, { at: job.fails_at })}</span>`}
      ${job.closing && !ended && html`<span title="its closing vertices run">closes as ${job.closing.outcome}, up ${h(Time, { at: job.closing.ends_at })}</span>`}
      <span>${plural(job.restarts, "restart")}</span>
      <span>${job.stream ? "stream" : "batch"}${job.scheduler === "ADAPTIVE" ? ", adaptive" : ""}</span>
    </p>
    ${(job.owner || Object.keys(job.labels ?? {}).length > 0 || Object.keys(job.links ?? {}).length > 0) &&
    html`<p class="job-facts muted" aria-label="About">${job.owner && html`<span>owner <b>${job.owner}</b></span>`}${Object.entries(job.labels).map(([name, value]) => html`<span key=${name}>${h(Label, { name, value })}</span>`)}${Object.entries(job.links).map(([title, url]) => html`<span key=${`link ${title}`}><a href=${url} rel="noreferrer" target="_blank">${title}</a></span>`)}</p>`}
    ${((job.queue ?? "default") !== "default" || (job.priority ?? 0) !== 0) && html`<p class="job-facts muted"><span>queue <b>${job.queue}</b></span><span>priority <b>${job.priority}</b></span></p>`}
    ${job.description && html`<p class="muted wrap">${job.description}</p>`}
    ${Object.keys(job.parameters ?? {}).length > 0 &&
    html`<p class="job-facts muted" aria-label="Parameters">${Object.entries(job.parameters).map(([name, value]) => html`<span key=${name}>${name} <b title=${value}>${middle(String(value), 48)}</b></span>`)}</p>`}
    ${job.sentence &&
    html`<p class=${`job-sentence ${attention}`}>
      <span>${h(Sentence, { text: job.sentence })}</span>
      ${attention === "waits" && html` <a href=${href("/waits", { job: job.job_id })} class="why">all waits ›</a>`}
      ${attention === "failed" && html` <a href=${href(`/jobs/${encodeURIComponent(job.job_id)}/exceptions`)} class="why">why ›</a>`}
    </p>`}
  </header>`;
}

/** A label, and the way to all jobs that have it; in archives nobody finds jobs by it. @param {{name: string, value: string}} props */
function Label({ name, value }) {
  const words = `${name}${value && ` ${value}`}`;
  return archives ? words : html`<a href=${href("/jobs", { label: value ? `${name}=${value}` : name })} title="jobs with this label">${words}</a>`;
}

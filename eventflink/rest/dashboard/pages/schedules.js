// @ts-check
// The schedules: what each starts and when it fires next, and what became of the instant that was decided last.

import { Empty } from "../components/empty.js";
import { Command } from "../components/copy.js";
import { Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { href } from "../moment.js";

const LIMIT = 500;

export const title = () => "Schedules";
export const concerns = () => ({});

export function questions() {
  return { schedules: `/schedules?limit=${LIMIT}` };
}

/** @param {{documents: any}} props */
export function Page({ documents }) {
  const { schedules, total } = documents.schedules;
  return html`
    <div class="title"><h1>Schedules</h1><span class="muted">${plural(total, "schedule")}</span></div>
    ${total === 0
      ? h(Empty, { title: "There are no schedules.", small: true }, html`<p>A schedule has the cluster start a job by itself, at the instants of a cron expression or of an interval, after each run of another job, or for records of a topic.</p>
          ${h(Command, { text: "eventflink schedule put nightly nightly.yaml" })}`)
      : html`<section class="card"><ul class="rows">${schedules.map((/** @type {any} */ each) => h(Row, { key: each.schedule_id, schedule: each }))}</ul></section>`}
    ${total > schedules.length && html`<p class="muted">The first ${number(schedules.length)} of ${number(total)}.</p>`}
  `;
}

/** @param {{schedule: any}} props */
function Row({ schedule }) {
  const { last } = schedule;
  const state = last?.skipped === "REFUSED" ? "failed" : schedule.paused_since ? "waits" : "neutral";
  return html`<li class=${state}>
    <span class="ink" aria-hidden="true">${state === "failed" ? "✖" : schedule.paused_since ? "‖" : "◷"}</span>
    <div>
      <p class="row-head">
        <a href=${href(`/schedules/${encodeURIComponent(schedule.schedule_id)}`)}><b>${schedule.schedule_id}</b></a> <span>${schedule.name}</span>
        <span class="row-end">${schedule.paused_since ? html`paused ${h(Time, { at: schedule.paused_since })}` : schedule.next ? html`next ${h(Time, { at: schedule.next })}` : schedule.follows ? "after each run" : schedule.takes ? "for records" : "no next instant"}</span>
      </p>
      <p class="caption muted wrap">${schedule.when}${schedule.description ? ` · ${schedule.description}` : ""}</p>
      ${schedule.running.length > 0 && html`<p class="caption"><span class="muted">running</span> ${schedule.running.map((/** @type {string} */ job) => h(JobLink, { key: job, job }))}</p>`}
      ${schedule.queued > 0 && html`<p class="caption">waiting for that: ${plural(schedule.queued, "instant")}</p>`}
      ${schedule.awaiting_files > 0 && html`<p class="caption">waiting for a file: ${plural(schedule.awaiting_files, "instant")}</p>`}
      ${schedule.fault && html`<p class="caption wrap">its table cannot be looked at: ${schedule.fault}</p>`}
      ${schedule.backfill && html`<p class="caption">back-fill: ${h(Progress, { backfill: schedule.backfill })}</p>`}
      ${last && html`<p class="caption wrap"><span class="muted">${last.instant}</span> ${last.job_id ? h(JobLink, { job: last.job_id }) : ""} ${last.sentence}</p>`}
    </div>
  </li>`;
}

/** @param {{job: string}} props */
export function JobLink({ job }) {
  return html`<a href=${href(`/jobs/${encodeURIComponent(job)}`)}>${job}</a>${" "}`;
}

/** How far a back-fill is. @param {{backfill: any}} props */
export function Progress({ backfill }) {
  return html`${number(backfill.started)} started, ${number(backfill.skipped)} skipped, ${number(backfill.running.length)} running${backfill.next ? html`; next ${backfill.next}` : ""}`;
}

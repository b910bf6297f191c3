// @ts-check
// One schedule: its next instants, what became of the last ones, a back-fill that is under way, and what it starts.

import { useState } from "preact/hooks";

import { commandsOfSchedule } from "../actions/commands.js";
import { CommandDialog } from "../actions/dialog.js";
import { Empty } from "../components/empty.js";
import { Menu } from "../components/menu.js";
import { Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href } from "../moment.js";
import { may } from "../shell/identity.js";
import { pathOf } from "./runs.js";
import { JobLink, Progress } from "./schedules.js";

/** Why the cursor of a table was set, where people should know. @type {Record<string, string>} */
const MOVED = {
  REPLACED: " It took the place of another table, and all of its versions are new.",
  REWOUND: " It went back to an older version.",
};

/** @param {Record<string, string>} params */
export const title = (params) => params.schedule ?? "Schedule";
export const concerns = () => ({});

/** @param {Record<string, string>} params */
export function questions(params) {
  return { schedule: `/schedules/${encodeURIComponent(params.schedule ?? "")}` };
}

/** @param {{documents: any}} props */
export function Page({ documents }) {
  const schedule = documents.schedule;
  const { backfill, history, upcoming } = schedule;
  return html`
    <header class="job-head">
      <div class="job-title"><h1>${schedule.schedule_id}</h1><span class="job-actions">${h(Actions, { schedule })}</span></div>
      <p class="job-facts muted">
        <span>starts <a href=${href(pathOf(schedule.name))}>${schedule.name}</a></span>
        <span>${schedule.when}</span>
        <span>late instants: ${schedule.catch_up.toLowerCase()}</span>
        <span>while a job runs: ${schedule.overlap.toLowerCase()}</span>
        <span>version ${schedule.version}${schedule.actor ? html` by <b>${schedule.actor}</b>` : ""} ${h(Time, { at: schedule.stored_at })}</span>
      </p>
      ${schedule.description && html`<p class="job-sentence wrap">${schedule.description}</p>`}
      ${schedule.paused_since &&
      html`<p class="job-sentence waits">Paused ${h(Time, { at: schedule.paused_since })}${schedule.paused_by ? ` by ${schedule.paused_by}` : ""}${schedule.paused_because ? `: ${schedule.paused_because}` : ""}.</p>`}
    </header>
    ${(schedule.running.length > 0 || schedule.queued > 0 || backfill) &&
    html`<section class="card stacked">
      <header><h2>Now</h2></header>
      <div class="card-body">
        ${schedule.running.length > 0 && html`<p><span class="muted">running</span> ${schedule.running.map((/** @type {string} */ job) => h(JobLink, { key: job, job }))}</p>`}
        ${schedule.queued > 0 && html`<p>waiting for that: ${plural(schedule.queued, "instant")}</p>`}
        ${backfill && html`<p>back-fill of ${backfill.first} to before ${backfill.end}: ${h(Progress, { backfill })}</p>`}
      </div>
    </section>`}
    ${schedule.awaiting.length > 0 && html`<section class="card stacked">
      <header><h2>Waiting for files</h2></header>
      <ul class="rows">${schedule.awaiting.map((/** @type {any} */ each) => html`<li class="neutral" key=${each.instant}><span class="ink" aria-hidden="true">◷</span>
        <p>${each.instant} <span class="muted wrap">waits for ${each.file}, until ${h(Time, { at: each.until })}</span></p></li>`)}</ul>
    </section>`}
    <section class="card stacked">
      <header><h2>What became of its instants</h2></header>
      ${history.length
        ? html`<ul class="rows">${history.map((/** @type {any} */ past, /** @type {number} */ index) => h(Past, { key: index, past }))}</ul>`
        : h(Empty, { title: "No instant has come yet.", small: true })}
    </section>
    <section class="card stacked">
      <header><h2>Next instants${schedule.paused_since !== null && ", if it is resumed"}</h2></header>
      ${upcoming.length
        ? html`<ul class="rows">${upcoming.map((/** @type {string} */ each) => html`<li class="neutral" key=${each}><span class="ink" aria-hidden="true">◷</span><p>${each} <span class="muted">${h(Time, { at: each })}</span></p></li>`)}</ul>`
        : h(Empty, { title: schedule.cursor ? `Its instants are batches of records of ${schedule.cursor.topic}.` : schedule.table_cursor ? `Its instants are new versions of ${schedule.table_cursor.table}.` : schedule.follows ? `Its instants are the ends of runs of ${schedule.follows}${schedule.is_followed_known ? "" : ", of which none is known, and which no schedule starts"}.` : "There is no next instant.", small: true })}
    </section>
    ${schedule.cursor && html`<section class="card stacked">
      <header><h2>Cursor</h2></header>
      <p class="card-body">${schedule.cursor.topic_id === null
        ? html`Topic <b>${schedule.cursor.topic}</b> was not seen yet.`
        : html`Jobs have the records of <b>${schedule.cursor.topic}</b> before ${Object.entries(schedule.cursor.offsets).map(([partition, offset]) => `${partition}: ${number(/** @type {number} */ (offset))}`).join(", ")}.`}
        ${schedule.cursor.lost > 0 && html` <b>${plural(schedule.cursor.lost, "record")}</b> deleted before a job had read them.`}</p>
    </section>`}
    ${schedule.table_cursor && html`<section class="card stacked">
      <header><h2>Cursor</h2></header>
      <p class="card-body">${schedule.table_cursor.version === null
        ? html`Table <b>${schedule.table_cursor.table}</b> was not seen yet.`
        : html`Jobs have the versions of <b>${schedule.table_cursor.table}</b> up to ${number(schedule.table_cursor.version)}${schedule.table_cursor.snapshot_id === null ? "" : `, snapshot ${schedule.table_cursor.snapshot_id}`}.`}
        ${MOVED[schedule.table_cursor.moved] ?? ""}
        ${schedule.table_cursor.lost > 0 && html` <b>${plural(schedule.table_cursor.lost, "version")}</b> gone before a job had read them.`}
        ${schedule.table_cursor.fault && html` The leader cannot look at it: ${schedule.table_cursor.fault}`}</p>
    </section>`}
    <section class="card stacked">
      <header><h2>Definition</h2></header>
      <div class="command"><pre tabindex="0"><code>${JSON.stringify(schedule.definition, null, 2)}</code></pre></div>
    </section>
  `;
}

/** @param {{past: any}} props */
function Past({ past }) {
  const failed = past.skipped === "REFUSED";
  return html`<li class=${failed ? "failed" : "neutral"}>
    <span class="ink" aria-hidden="true">${failed ? "✖" : past.job_id ? "▸" : "⊘"}</span>
    <div>
      <p class="row-head">
        <b>${past.instant}${past.last ? ` to ${past.last}` : ""}</b> ${past.job_id ? h(JobLink, { job: past.job_id }) : ""}
        <span class="row-end">decided ${h(Time, { at: past.decided_at })}</span>
      </p>
      <p class="caption muted wrap">${past.sentence}</p>
    </div>
  </li>`;
}

/** @param {{schedule: any}} props */
function Actions({ schedule }) {
  const [chosen, setChosen] = useState(/** @type {import("../actions/commands.js").Command | null} */ (null));
  const items = commandsOfSchedule(schedule).map((command) => ({
    id: command.id,
    title: `${command.title}…`,
    why: command.why ?? (may(command.role) ? undefined : `for the role ${command.role}`),
    danger: command.danger,
    act: () => setChosen(command),
  }));
  return html`${h(Menu, { label: html`Actions${at.value === null ? "" : html` <span class="muted">(past: try only)</span>`}`, name: `Actions on ${schedule.schedule_id}`, items })}
    ${chosen && h(CommandDialog, { command: chosen, onClose: () => setChosen(null) })}`;
}

// @ts-check
// The cluster: is everything fine, and what is broken? One sentence, four numbers, then what waits, what failed, who has room, what was decided last.

import { Command } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { EventList } from "../components/events.js";
import { Sentence, Whose } from "../components/sentence.js";
import { StateBar, StateCounts } from "../components/state_chip.js";
import { Since, Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href } from "../moment.js";
import { SlotCells, SlotLegend } from "../slots/slots.js";

const EVENTS = 12;
const TOLD = [
  "JobSubmitted", "JobStatusChanged", "TaskFailed", "TaskManagerRegistered", "TaskManagerLost", "SparkEnded", "TaskManagerBlocked", "TaskManagerUnblocked",
  "LeadershipGranted", "RequestRejected", "JobRescaled", "JobTimeLimitNear", "ClusterShutdownRequested",
];
const TASK_MANAGERS = 60;

export const title = () => "Cluster";
export const concerns = () => ({});
export const live = ["events"];

export function questions() {
  const until = at.peek() === null ? "" : `&until=${at.peek()}`;
  const types = TOLD.map((type) => `type=${type}`).join("&");
  return { cluster: "/cluster", events: `/log/events?order=newest&limit=${EVENTS}${until}&${types}` };
}

const SEVERITIES = /** @type {Record<string, [string, string]>} */ ({
  failed: ["✖", "failed"],
  lost: ["◆", "failed"],
  spark_ended: ["◆", "failed"],
  waits: ["◔", "waits"],
  stands: ["◔", "waits"],
  late: ["◔", "waits"],
  shutdown: ["■", "neutral"],
});

/** @param {{documents: any, moment: any}} props */
export function Page({ documents, moment }) {
  const { cluster, events } = documents;
  const total = sum(cluster.jobs);
  if (total === 0 && cluster.task_managers_total === 0) return h(NewCluster, { moment });
  const worst = cluster.problems[0]?.severity;
  const [glyph, family] = SEVERITIES[worst] ?? ["✔", "done"];
  return html`
    <div class=${`health ${family}`}>
      <span class="health-glyph" aria-hidden="true">${glyph}</span>
      <h1 class="sentence">${h(Sentence, { text: cluster.sentence })}</h1>
    </div>
    ${cluster.problems.length > 0 &&
    html`<ul class="problems card">
      ${cluster.problems.map((/** @type {any} */ problem) => {
        const [mark, kin] = SEVERITIES[problem.severity] ?? ["○", "neutral"];
        return html`<li class=${kin}>
          <span class="ink" aria-hidden="true">${mark}</span>
          <a class="problem" href=${href(problem.link)}>${h(Sentence, { text: problem.sentence })}</a>
          <span class="why" aria-hidden="true">›</span>
        </li>`;
      })}
    </ul>`}
    <div class="numbers">
      ${h(Figure, { name: "Jobs", to: "/jobs", value: total, below: h(StateCounts, { counts: cluster.jobs, of: "job", worded: true }) })}
      ${h(Figure, { name: "Tasks of jobs that live", to: "/jobs?sort=trouble", value: sum(cluster.tasks), below: h(StateBar, { counts: cluster.tasks, label: "Tasks" }) })}
      ${h(Figure, {
        name: "Slots taken",
        to: "/taskmanagers",
        value: cluster.slots.total - cluster.slots.free,
        of: cluster.slots.total,
        below: html`<span class="muted">${cluster.slots.free ? `${number(cluster.slots.free)} free` : "none is free"}${cluster.slots.requests ? `, ${plural(cluster.slots.requests, "task waits", "tasks wait")}` : ""}</span>`,
      })}
      ${h(Figure, {
        name: "Leader",
        to: "/masters",
        text: cluster.masters.leader || "nobody",
        below: html`<span class="muted">epoch ${number(moment.epoch)}</span>`,
      })}
    </div>
    <div class="columns">
      <section class="card">
        <header><h2>Waits</h2><a href=${href("/waits")}>all ${number(cluster.waits_total)}</a></header>
        ${cluster.waits.length ? html`<ul class="rows">${cluster.waits.map((/** @type {any} */ wait) => h(WaitRow, { wait }))}</ul>` : h(Empty, { title: "Nothing waits.", small: true })}
      </section>
      <section class="card">
        <header><h2>Failures that ended no job</h2><a href=${href("/log", { type: "TaskFailed" })}>all in the log</a></header>
        ${cluster.failures.length
          ? html`<ul class="rows">${cluster.failures.map((/** @type {any} */ failure) => h(FailureRow, { failure }))}</ul>`
          : h(Empty, { title: "Nothing else has failed.", small: true })}
      </section>
      <section class="card">
        <header><h2>Slots by TaskManager</h2><a href=${href("/taskmanagers")}>all ${number(cluster.task_managers_total)}</a></header>
        <div class="card-body">
          ${cluster.task_managers.length
            ? html`<ul class="slot-rows">
                  ${cluster.task_managers.slice(0, TASK_MANAGERS).map((/** @type {any} */ each) => h(SlotRow, { each }))}
                </ul>
                ${h(SlotLegend, {})}`
            : h(Empty, { title: "No TaskManager is registered, so nothing can run.", small: true, command: "eventflink taskexecutor --slots 4" })}
        </div>
      </section>
      <section class="card">
        <header><h2>What happened last</h2><a href=${href("/log")}>the log</a></header>
        ${h(EventList, { events: events.events })}
      </section>
    </div>
  `;
}

/** @param {{name: string, to: string, value?: number, of?: number, text?: string, below: any}} props */
function Figure({ name, to, value, of, text, below }) {
  return html`<a class="headline card" href=${href(to)}>
    <span class="caption muted">${name}</span>
    <b>${text ?? number(value)}${of === undefined ? "" : html`<small> / ${number(of)}</small>`}</b>
    <span class="headline-below">${below}</span>
  </a>`;
}

/** Tasks that wait, and why. @param {{wait: any}} props */
export function WaitRow({ wait }) {
  return html`<li class=${wait.trouble ? "waits" : "neutral"}>
    <span class="ink" aria-hidden="true">◔</span>
    <div>
      <p class="row-head">
        <a href=${href(`/jobs/${encodeURIComponent(wait.job_id)}`, { vertex: wait.vertex_id })}><b>${wait.name || wait.job_id}</b> / ${wait.vertex_id}</a>
        <span class="muted">${number(wait.tasks)} of ${number(wait.parallelism)}</span>
        <span class="row-end">${wait.since ? h(Since, { at: wait.since }) : ""}</span>
      </p>
      <p class="caption muted">${h(Sentence, { text: wait.sentence })}</p>
    </div>
  </li>`;
}

/** A failure, and whose it is. @param {{failure: any}} props */
function FailureRow({ failure }) {
  return html`<li class="failed">
    <span class="ink" aria-hidden="true">✖</span>
    <div>
      <p class="row-head">
        <a href=${href(`/jobs/${encodeURIComponent(failure.job_id)}/exceptions`)}><b>${failure.name || failure.job_id}</b> ${failure.task}</a>
        ${h(Whose, { kind: failure.kind })}
        <span class="row-end">${h(Time, { at: failure.at })}</span>
      </p>
      <p class="caption muted clamp">${h(Sentence, { text: failure.sentence })}</p>
    </div>
  </li>`;
}

/** @param {{each: any}} props */
function SlotRow({ each }) {
  const taken = each.slots.filter((/** @type {any} */ slot) => slot.state !== "FREE").length;
  return html`<li>
    <a href=${href(`/taskmanagers/${encodeURIComponent(each.task_manager_id)}`)} title=${`on host ${each.host}`}>${each.task_manager_id}</a>
    ${h(SlotCells, { slots: each.slots, blocked: each.blocked, by: "state" })}
    <span class="muted row-end">${each.blocked ? html`<span class="waits ink">blocked</span> ` : ""}${taken}/${each.slots.length}</span>
  </li>`;
}

/** A cluster in which nothing has happened yet: what to do first. @param {{moment: any}} props */
function NewCluster({ moment }) {
  if (!moment.live) return h(Empty, { title: "Nothing had happened yet at this moment." }, html`<p>Step on with <kbd>]</kbd>, or return to now.</p>`);
  return h(
    Empty,
    { title: "This cluster is new.", glyph: "▶" },
    html`<p>It has ${moment.master_id ? html`a leader, <b>${moment.master_id}</b>,` : "masters"} and waits for somebody to run tasks, and for work.</p>
      <ol class="first-steps">
        <li><p>Start a TaskExecutor; it offers slots.</p>${h(Command, { text: "eventflink taskexecutor --slots 4" })}</li>
        <li><p>Submit a job, a document of vertices and edges; or <a href="/ui/submit">write it here</a>.</p>${h(Command, { text: "eventflink submit job.yaml" })}</li>
      </ol>`,
  );
}

/** @param {Record<string, number>} counts */
function sum(counts) {
  return Object.values(counts).reduce((all, each) => all + each, 0);
}

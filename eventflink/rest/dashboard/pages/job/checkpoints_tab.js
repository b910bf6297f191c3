// @ts-check
// The checkpoints and savepoints of a job: counts, how the streams began, what is pending, and the history, the newest first.

import { Copy } from "../../components/copy.js";
import { Empty } from "../../components/empty.js";
import { Table } from "../../components/table.js";
import { Since, Time } from "../../components/time.js";
import { bytes, duration, number } from "../../format.js";
import { h, html } from "../../html.js";

/** @type {Record<string, [string, string]>} */
const STATUSES = { COMPLETED: ["done", "✔"], FAILED: ["failed", "✖"], IN_PROGRESS: ["running", "◐"] };

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { checkpoints: `/jobs/${job}/checkpoints` };
}

/** @param {{documents: Record<string, any>, job: any}} props */
export function Tab({ documents, job }) {
  const found = documents.checkpoints;
  if (!found.settings) {
    return h(Empty, { title: "This job has no streams, so it takes no checkpoints.", small: true }, html`<p>The outputs of a batch vertex are kept until its readers have finished: that is what a restart begins with.</p>`);
  }
  const { counts, settings, latest } = found;
  const rows = [...(found.pending ? [found.pending] : []), ...found.history];
  const longest = Math.max(1, ...rows.map((each) => each.duration_ms));
  return html`<div class="figures">
      ${figure("completed", number(counts.completed))} ${figure("failed", number(counts.failed), counts.failed > 0 ? "failed" : "")}
      ${figure("in progress", number(counts.in_progress))} ${figure("restored", number(counts.restored))}
      ${figure("last took", latest.completed ? duration(latest.completed.duration_ms) : "–")}
      ${figure("its state", latest.completed ? bytes(latest.completed.state_bytes) : "–")}
    </div>
    ${h(Strip, { rows, longest })}
    ${h(Table, {
      label: "Checkpoints and savepoints", columns: columns(longest, new Set(found.retained)), rows, rowKey: (row) => String(row.checkpoint_id), height: "46vh",
      mark: (row) => (row.status === "FAILED" ? "of-failed" : ""),
      empty: h(Empty, { title: "None has been taken yet.", small: true }, html`<p>${settings.interval_ms > 0 ? `One is due every ${duration(settings.interval_ms)}.` : "None is due: its interval is 0. Actions takes one."}</p>`),
    })}
    <div class="two-columns">
      <section class="card" aria-label="Latest">
        <header><h2>Latest</h2></header>
        <dl class="pairs card-body">
          <dt>completed</dt><dd>${latest.completed ? html`${number(latest.completed.checkpoint_id)}, ${h(Time, { at: latest.completed.triggered_at })}` : "–"}</dd>
          <dt>savepoint</dt><dd>${latest.savepoint ? h(SavepointPath, { savepoint: latest.savepoint }) : "–"}</dd>
          <dt>failed</dt><dd>${latest.failed ? html`${number(latest.failed.checkpoint_id)}: ${latest.failed.reason} ${latest.failed.message}` : "–"}</dd>
          <dt>restored</dt><dd>${latest.restored ? html`${latest.restored.task} after batch ${number(latest.restored.batch_id)}, ${h(Time, { at: latest.restored.at })}` : "–"}</dd>
        </dl>
      </section>
      <section class="card" aria-label="Settings">
        <header><h2>When they are taken</h2></header>
        <dl class="pairs card-body">
          <dt>interval</dt><dd>${settings.interval_ms > 0 ? duration(settings.interval_ms) : "none are due"}</dd>
          <dt>timeout</dt><dd>${duration(settings.timeout_ms)}</dd>
          <dt>pause between</dt><dd>${duration(settings.min_pause_ms)}</dd>
          <dt>tolerable failures</dt><dd>${settings.tolerable_failed_checkpoints < 0 ? "any number" : number(settings.tolerable_failed_checkpoints)}</dd>
          <dt>retained</dt><dd>${number(settings.max_retained)}, ${String(settings.retention).toLowerCase().replaceAll("_", " ")}</dd>
        </dl>
      </section>
    </div>
    ${job.status === "RUNNING" && counts.triggered === 0 && html`<p class="muted">The first is due ${settings.interval_ms > 0 ? `${duration(settings.interval_ms)} after the streams have begun` : "when somebody asks for it"}.</p>`}`;
}

/** The history as a strip, the oldest on the left: how long each took, and how it ended. @param {{rows: any[], longest: number}} props */
function Strip({ rows, longest }) {
  if (rows.length < 2) return null;
  const words = `${rows.length} checkpoints, the longest took ${duration(longest)}`;
  return html`<div class="checkpoint-strip" role="img" aria-label=${words} title=${words}>
    ${[...rows].reverse().map((each) => {
      const [family] = STATUSES[each.status] ?? ["neutral"];
      return html`<span key=${each.checkpoint_id} class=${family} title=${`${each.checkpoint_id}: ${each.status}, ${duration(each.duration_ms)}`}><i style=${{ height: `${Math.max(6, (each.duration_ms / longest) * 100)}%` }}></i><small>${each.savepoint ? "▼" : ""}</small></span>`;
    })}
  </div>`;
}

/** @param {string} name @param {any} value @param {string} [family] */
function figure(name, value, family = "") {
  return html`<p class=${`figure ${family}`}><b>${value}</b><span>${name}</span></p>`;
}

/** @param {number} longest @param {Set<number>} retained @returns {import("../../components/table.js").Column[]} */
function columns(longest, retained) {
  return [
    { key: "id", title: "Id", width: "64px", align: "end", render: (each) => number(each.checkpoint_id) },
    {
      key: "status", title: "Status", width: "140px",
      render: (each) => {
        const [family, glyph] = STATUSES[each.status] ?? ["neutral", "○"];
        return html`<span class=${`chip ${family}`}><span aria-hidden="true">${glyph}</span> ${each.status.replace("_", " ")}</span>`;
      },
    },
    { key: "kind", title: "Kind", width: "140px", render: (each) => (each.savepoint ? html`<b>savepoint</b> ${String(each.savepoint.mode).toLowerCase()}` : `checkpoint${retained.has(each.checkpoint_id) ? ", kept" : ""}`) },
    { key: "at", title: "Triggered", width: "130px", render: (each) => h(Time, { at: each.triggered_at }) },
    { key: "by", title: "Trigger", width: "150px", phone: false, render: (each) => each.actor || html`<span class="muted">it was due</span>` },
    {
      key: "took", title: "Took", width: "190px",
      render: (each) =>
        each.status === "IN_PROGRESS"
          ? html`<span class="muted">for ${h(Since, { at: each.triggered_at })}</span>`
          : html`<span class="took"><span class="took-bar" aria-hidden="true"><i style=${{ width: `${(each.duration_ms / longest) * 100}%` }}></i></span>${duration(each.duration_ms)}</span>`,
    },
    { key: "acknowledged", title: "Answered", width: "84px", align: "end", render: (each) => `${number(each.acknowledged)}/${number(each.subtasks)}` },
    { key: "state", title: "State", width: "150px", align: "end", phone: false, render: (each) => html`<span title=${`${number(each.state_rows)} rows`}>${bytes(each.state_bytes)}</span>` },
    { key: "why", title: "Why it failed, where it is", phone: false, render: (each) => (each.reason ? html`<b>${each.reason}</b> ${each.message}` : each.savepoint ? h(SavepointPath, { savepoint: each }) : "") },
  ];
}

/** @param {{savepoint: any}} props */
function SavepointPath({ savepoint }) {
  const path = savepoint.savepoint?.path ?? savepoint.savepoint?.target_directory ?? savepoint.path;
  return path ? html`<code>${path}</code>${h(Copy, { text: path, label: "the path of the savepoint" })}` : html`<span class="muted">–</span>`;
}

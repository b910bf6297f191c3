// @ts-check
// The jobs that have archives, of all clusters, the one that ended last first; and which archives cannot be read, with the reasons.

import { useRef } from "preact/hooks";
import { ask } from "../api.js";
import { ChoiceOfCluster, Skipped } from "../components/archives.js";
import { Empty } from "../components/empty.js";
import { ORDER } from "../components/states.js";
import { StateBar, StateChip } from "../components/state_chip.js";
import { Table } from "../components/table.js";
import { Time } from "../components/time.js";
import { duration, middle, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { change, go, href } from "../moment.js";
import { pathOf } from "./runs.js";

const FIRST = 100;
const REST_MS = 200;

export const title = () => "Ended jobs";
export const concerns = () => ({});

/** @param {Record<string, string>} query */
function asked(query) {
  const parameters = new URLSearchParams();
  for (const state of (query.status ?? "").split(",").filter(Boolean)) parameters.append("status", state);
  for (const name of ["name", "cluster"]) if (query[name]) parameters.set(name, query[name]);
  return parameters;
}

/** @param {Record<string, string>} _ @param {Record<string, string>} query */
export function questions(_, query) {
  return { archives: `/archives?${asked(query)}&limit=${FIRST}` };
}

/** @param {any} job @returns {[string, Record<string, string>]} */
const placeOf = (job) => [`/jobs/${encodeURIComponent(job.job_id)}`, { cluster: job.cluster_id }];

/** @type {import("../components/table.js").Column[]} */
const columns = [
  { key: "status", title: "State", width: "132px", render: (job) => h(StateChip, { state: job.status, of: "job" }) },
  {
    key: "name",
    title: "Name",
    render: (job) => html`<a href=${href(...placeOf(job))}><b>${job.name || job.job_id}</b></a>
      <span class="muted mono wide-only"> ${job.name && job.name !== job.job_id ? middle(job.job_id, 14) : ""}</span>
      ${job.name && html` <a class="muted wide-only" href=${href(pathOf(job.name), { cluster: job.cluster_id })} aria-label=${`Runs of ${job.name}`}>runs</a>`}`,
  },
  { key: "cluster", title: "Cluster", width: "13%", phone: false, render: (job) => job.cluster_id },
  { key: "tasks", title: "Tasks", width: "104px", phone: false, render: (job) => h(StateBar, { counts: job.tasks_by_state, label: "Tasks" }) },
  { key: "submitted", title: "Submitted", width: "134px", phone: false, render: (job) => h(Time, { at: job.submitted_at }) },
  { key: "ended", title: "Ended", width: "130px", render: (job) => h(Time, { at: job.ended_at }) },
  { key: "duration", title: "Ran", align: "end", width: "96px", phone: false, render: (job) => duration(job.duration_ms) },
];

/** @param {{documents: any, query: Record<string, string>}} props */
export function Page({ documents, query }) {
  const { jobs, total, by_status: byStatus, by_cluster: byCluster, missing } = documents.archives;
  const timer = useRef(0);
  const chosen = query.status ? query.status.split(",") : [];
  const states = ORDER.filter((state) => byStatus[state] || chosen.includes(state));
  const clusters = Object.keys(byCluster);
  /** @param {string} state */
  const toggle = (state) => change({ status: (chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state]).join(",") });
  const filtered = query.status || query.name || query.cluster;
  return html`
    <div class="title"><h1>Ended jobs</h1><span class="muted">${number(total)} ${clusters.length > 1 ? `in ${plural(clusters.length, "cluster")}` : ""}</span>
      ${clusters.length > 0 && html`<a href=${href("/runs", { cluster: query.cluster })}>by name</a>`}</div>
    ${missing && html`<p class="job-sentence waits">${missing}</p>`}
    ${(clusters.length > 0 || filtered) &&
    html`<div class="filters">
      <input type="search" aria-label="Find by name or id" placeholder="name or id" value=${query.name ?? ""} onInput=${(/** @type {any} */ event) => {
        const { value } = event.target;
        window.clearTimeout(timer.current);
        timer.current = window.setTimeout(() => change({ name: value }, { replace: true }), REST_MS);
      }} />
      ${h(ChoiceOfCluster, { known: documents.archives, chosen: query.cluster })}
      ${states.map((state) => {
        const pressed = chosen.includes(state);
        return html`<button class="chip-button" key=${state} aria-pressed=${pressed} onClick=${() => toggle(state)}>${h(StateChip, { state, of: "job", count: byStatus[state] ?? 0 })}</button>`;
      })}
      ${filtered && html`<button class="button small" onClick=${() => change({ status: null, name: null, cluster: null })}>Clear</button>`}
    </div>`}
    ${clusters.length === 0 && !filtered
      ? h(
          Empty,
          { title: "There is no archive here yet.", glyph: "▶", command: "eventflink -D jobmanager.archive.fs.dir=/shared/archives up" },
          html`<p>A cluster writes one for each job that has ended, where <code>jobmanager.archive.fs.dir</code> says. This server looks where <code>historyserver.archive.fs.dir</code> says.</p>`,
        )
      : h(Table, {
          label: "Ended jobs",
          fixed: true,
          columns,
          rows: jobs,
          total,
          list: JSON.stringify(query),
          revision: JSON.stringify([total, jobs[0]]),
          fetch: async (first, limit) => (await ask(`/archives?${asked(query)}&first=${first}&limit=${limit}`)).body.jobs,
          rowKey: (job) => `${job.cluster_id} ${job.job_id} ${job.location}`,
          open: (job) => go(...placeOf(job)),
          mark: (job) => (job.status === "FAILED" ? "troubled" : ""),
          empty: h(Empty, { title: "No job matches.", small: true }, html`<p>Drop a filter: ${[query.status, query.name, query.cluster].filter(Boolean).join(", ")}.</p>`),
        })}
    ${h(Skipped, { known: documents.archives })}
  `;
}

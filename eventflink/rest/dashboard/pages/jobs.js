// @ts-check
// All jobs of a moment: chips of states that filter, a line that finds, and a table of any length.

import { useRef } from "preact/hooks";
import { ask } from "../api.js";
import { Empty } from "../components/empty.js";
import { Export, PAGE_ROWS } from "../components/export.js";
import { jobsCommand } from "../components/rows.js";
import { ORDER } from "../components/states.js";
import { StateBar, StateChip } from "../components/state_chip.js";
import { Table } from "../components/table.js";
import { Sentence } from "../components/sentence.js";
import { Since, Time } from "../components/time.js";
import { duration, middle, number } from "../format.js";
import { h, html } from "../html.js";
import { at, change, go, href } from "../moment.js";
import { pathOf } from "./runs.js";

const FIRST = 100;
const REST_MS = 200;
/** The job at which somebody looks: it stays where it is when others come. @type {string | null} */
let held = null;

export const title = () => "Jobs";
export const concerns = () => ({});

/** @param {Record<string, string>} query */
function asked(query) {
  const parameters = new URLSearchParams();
  for (const state of (query.status ?? "").split(",").filter(Boolean)) parameters.append("status", state);
  for (const name of ["name", "actor", "label"]) if (query[name]) parameters.set(name, query[name]);
  parameters.set("sort", query.sort ?? "newest");
  return parameters;
}

/** @param {Record<string, string>} _ @param {Record<string, string>} query */
export function questions(_, query) {
  const anchor = held !== null && at.peek() === null ? `&anchor=${encodeURIComponent(held)}` : "";
  return { jobs: `/jobs?${asked(query)}&limit=${FIRST}${anchor}` };
}

/** @type {import("../components/table.js").Column[]} */
const columns = [
  { key: "status", title: "State", sortable: true, width: "148px", render: (job) => h(StateChip, { state: job.status, of: "job" }) },
  {
    key: "name",
    title: "Name",
    sortable: true,
    width: "22%",
    render: (job) => html`<a href=${href(`/jobs/${encodeURIComponent(job.job_id)}`)}><b>${job.name || job.job_id}</b></a>
${" "}<a class="muted wide-only" href=${href(pathOf(job.name))} aria-label=${`Runs of ${job.name}`}>runs</a>
      <span class="muted mono wide-only"> ${job.name && job.name !== job.job_id ? middle(job.job_id, 14) : ""}</span>`,
  },
  { key: "tasks", title: "Tasks", width: "132px", render: (job) => h(StateBar, { counts: job.tasks_by_state, label: "Tasks" }) },
  { key: "trouble", title: "Why it waits or failed", sortable: true, phone: false, render: (job) => html`<span class="muted" title=${job.why ?? ""}>${h(Sentence, { text: job.why })}</span>` },
  { key: "restarts", title: "Restarts", align: "end", width: "84px", phone: false, render: (job) => (job.restarts ? number(job.restarts) : html`<span class="muted">0</span>`) },
  { key: "actor", title: "By", width: "96px", phone: false, render: (job) => job.actor ?? "" },
  { key: "newest", title: "Submitted", sortable: true, width: "146px", phone: false, render: (job) => h(Time, { at: job.submitted_at }) },
  {
    key: "duration",
    title: "Runs",
    sortable: true,
    align: "end",
    width: "108px",
    render: (job) => (job.ended_at ? html`<span class="muted">${duration(job.duration_ms)}</span>` : h(Since, { at: job.submitted_at })),
  },
];

/** @param {{documents: any, moment: any, query: Record<string, string>}} props */
export function Page({ documents, moment, query }) {
  const { jobs, total, matching, by_status: byStatus, anchor } = documents.jobs;
  const timer = useRef(0);
  const chosen = query.status ? query.status.split(",") : [];
  const states = ORDER.filter((state) => byStatus[state] || chosen.includes(state));
  /** @param {string} state */
  const toggle = (state) => {
    const next = chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state];
    change({ status: next.join(",") });
  };
  const filtered = query.status || query.name || query.actor || query.label;
  return html`
    <div class="title"><h1>Jobs</h1><span class="muted">${filtered ? `${number(matching)} of ${number(total)}` : number(total)}</span>
      ${total > 0 && html`<a href=${href("/runs")}>by name</a>`}
      ${matching > 0 && h(Export, {
        name: "jobs",
        offset: moment.offset,
        command: jobsCommand(query, { pinned: !moment.live, total: matching }),
        sql: null,
        part: async (from, signal) => {
          const first = from ?? 0;
          const { body } = await ask(`/jobs?${asked(query)}&first=${first}&limit=${PAGE_ROWS}`, { at: moment.offset, signal });
          return { rows: body.jobs, next: first + body.jobs.length < body.matching ? first + PAGE_ROWS : null };
        },
      })}
    </div>
    ${total > 0 &&
    html`<div class="filters">
      <input type="search" aria-label="Find by name or id" placeholder="name or id" value=${query.name ?? ""} onInput=${(/** @type {any} */ event) => {
        const { value } = event.target;
        window.clearTimeout(timer.current);
        timer.current = window.setTimeout(() => change({ name: value }, { replace: true }), REST_MS);
      }} />
      ${states.map((state) => {
        const pressed = chosen.includes(state);
        return html`<button class="chip-button" key=${state} aria-pressed=${pressed} onClick=${() => toggle(state)}>${h(StateChip, { state, of: "job", count: byStatus[state] ?? 0 })}</button>`;
      })}
      ${query.label && html`<span>label <b>${query.label}</b></span>`}
      ${filtered && html`<button class="button small" onClick=${() => change({ status: null, name: null, actor: null, label: null })}>Clear</button>`}
    </div>`}
    ${total === 0
      ? h(
          Empty,
          {
            title: moment.live ? "No job has been submitted yet." : "No job had been submitted at this moment.",
            glyph: "▶",
            command: moment.live ? "eventflink submit job.yaml" : undefined,
          },
          html`<p>A job is a document with its vertices and edges. Submit one by the command line, or <a href="/ui/submit">write it here</a>.</p>`,
        )
      : h(Table, {
          label: "Jobs",
          fixed: true,
          columns,
          rows: jobs,
          total: matching,
          list: `${asked(query)}`,
          revision: moment.offset,
          place: moment.live
            ? (key) => {
                const index = jobs.findIndex((/** @type {any} */ job) => job.job_id === key);
                return index >= 0 ? index : anchor?.job_id === key ? anchor.index : null;
              }
            : undefined,
          onHold: (key) => (held = key),
          fetch: async (first, limit) => (await ask(`/jobs?${asked(query)}&first=${first}&limit=${limit}`, { at: moment.offset })).body.jobs,
          rowKey: (job) => job.job_id,
          open: (job) => go(`/jobs/${encodeURIComponent(job.job_id)}`),
          sort: query.sort ?? "newest",
          onSort: (key) => change({ sort: key === "newest" ? null : key }),
          mark: (job) => ((job.status === "FAILED" && !job.failure_is_dismissed && !job.run_again_by) || job.status === "FAILING" ? "troubled" : ""),
          empty: h(Empty, { title: "No job matches.", small: true }, html`<p>Drop a filter: ${[query.status, query.name, query.actor, query.label].filter(Boolean).join(", ")}.</p>`),
        })}
  `;
}

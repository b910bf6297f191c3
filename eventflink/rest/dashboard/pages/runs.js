// @ts-check
// Jobs of one name as the runs of a job: a grid of runs and vertices, how long each took, and its versions. Without a name: the names there are.
// In archives they are runs as they ended, of all clusters or of one.

import { useRef } from "preact/hooks";
import { ask } from "../api.js";
import { ChoiceOfCluster, Skipped } from "../components/archives.js";
import { Command } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { quoted } from "../components/rows.js";
import { StateChip, StateCounts } from "../components/state_chip.js";
import { stateOf } from "../components/states.js";
import { Table } from "../components/table.js";
import { Since, Time } from "../components/time.js";
import { duration, middle, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { change, go, href } from "../moment.js";
import { archives } from "../source.js";

const RUNS = 50;
const NAMES = 100;
const REST_MS = 200;
/** Of more vertices than these the states are counted: so many cells of each row that is drawn are one element. */
const MOST_COLUMNS = 16;
const MOST_VERSIONS = 10;

/** The path of the page of a name. Two names cannot stand in a path: a browser takes them for the folder itself and the one above it. @param {string} name */
export function pathOf(name) {
  return name === "." || name === ".." ? `/runs?name=${name}` : `/runs/${encodeURIComponent(name)}`;
}

/** @param {Record<string, string>} params */
export const title = (params) => params.name ?? "Runs";
export const concerns = () => ({});
export const live = archives ? ["names", "runs", "archives"] : [];

/** @param {Record<string, string>} params @param {Record<string, string>} query */
function asked(params, query) {
  const name = params.name ?? query.name;
  const question = name === undefined ? `/names?name=${encodeURIComponent(query.find ?? "")}` : `/runs?name=${encodeURIComponent(name)}`;
  return archives && query.cluster ? `${question}&cluster=${encodeURIComponent(query.cluster)}` : question;
}

/** @param {Record<string, string>} params @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(params, query) {
  const question = asked(params, query);
  /** @type {Record<string, string>} */
  const list = question.startsWith("/runs") ? { runs: `${question}&limit=${RUNS}` } : { names: `${question}&limit=${NAMES}` };
  return archives ? { ...list, archives: "/archives?limit=1" } : list;
}

/** Some rows of a list at a moment; in archives there is none. @param {string} list @param {any} moment @param {number} first @param {number} limit */
async function windowOf(list, moment, first, limit) {
  return (await ask(`${list}&first=${first}&limit=${limit}`, { at: archives ? null : moment.offset })).body;
}

/** What changes when a list is of a newer state. @param {any} moment @param {number} total @param {any} newest its first row */
const revisionOf = (moment, total, newest) => (archives ? JSON.stringify([total, newest]) : moment.offset);

/** @param {{documents: any, moment: any, params: Record<string, string>, query: Record<string, string>}} props */
export function Page({ documents, moment, params, query }) {
  const list = asked(params, query);
  const of = { moment, list, query, known: documents.archives };
  return documents.runs ? h(RunsOfName, { page: documents.runs, ...of }) : h(Names, { page: documents.names, ...of });
}

/** @param {{page: any, moment: any, list: string, query: Record<string, string>, known: any}} props `known`: what is known of archives */
function RunsOfName({ page, moment, list, query, known }) {
  const { name, runs, total, vertices, versions } = page;
  const longest = Math.max(1, ...runs.map((/** @type {any} */ run) => run.duration_ms));
  const columns = [
    { key: "run", title: "Run", render: (/** @type {any} */ run) => html`<a href=${href(`/jobs/${encodeURIComponent(run.job_id)}`)}>${middle(run.job_id, 24)}</a>` },
    { key: "state", title: "State", render: (/** @type {any} */ run) => h(StateChip, { state: run.status, of: "job" }) },
    { key: "version", title: "Version", align: /** @type {const} */ ("end"), render: (/** @type {any} */ run) => number(run.version) },
    { key: "submitted", title: "Submitted", phone: false, render: (/** @type {any} */ run) => h(Time, { at: run.submitted_at }) },
    { key: "took", title: "Took", render: (/** @type {any} */ run) => h(Took, { run, longest }) },
    ...(vertices.length <= MOST_COLUMNS ? vertices.map(vertexColumn) : [{ key: "vertices", title: "Vertices", render: counted }]),
    ...(runs.some(parameters) ? [{ key: "parameters", title: "Parameters", phone: false, render: parameters }] : []),
    { key: "why", title: "Why it ran", phone: false, render: why },
  ];
  return html`
    <div class="title"><h1 class="wrap">${name}</h1><span class="muted">${plural(total, "run")}</span></div>
    <p class="job-facts muted stacked">
      <span><a href=${href("/runs")}>all names</a></span>
      <span>${plural(page.versions_total, "version")}</span>
      ${page.typical_ms !== null && html`<span title="the median of the newest runs that finished">typically <b>${duration(page.typical_ms)}</b></span>`}
      ${archives && html`<span>of ${query.cluster ? html`cluster <b>${query.cluster}</b>` : "all clusters"}</span>`}
      ${!archives && page.unread > 0 && html`<span title="There is no archive of them, or it could not be read">${plural(page.unread, "job")} that left the memory not looked at</span>`}
    </p>
    ${known?.missing && html`<p class="job-sentence waits">${known.missing}</p>`}
    ${total === 0
      ? h(Empty, { title: moment.live ? "No run of this name is known." : "No run of this name was known at this moment.", small: true })
      : html`<div class="stacked">${h(Table, {
          label: `Runs of ${name} and their vertices`,
          columns,
          rows: runs,
          total,
          list,
          revision: revisionOf(moment, total, runs[0]),
          fetch: async (first, limit) => (await windowOf(list, moment, first, limit)).runs,
          rowKey: (run) => run.job_id,
          open: (run) => go(`/jobs/${encodeURIComponent(run.job_id)}`),
          mark: (run) => (run.status === "FAILED" && !run.failure_is_dismissed ? "troubled" : ""),
        })}</div>
        <section class="card stacked">
          <header><h2>Versions</h2><span class="muted">another graph or other code</span></header>
          <ul class="rows">${versions.slice(0, MOST_VERSIONS).map((/** @type {any} */ version) => h(Version, { key: version.definition_digest, version }))}</ul>
        </section>
        ${page.versions_total > MOST_VERSIONS && html`<p class="muted">The newest ${number(MOST_VERSIONS)} of ${number(page.versions_total)}.</p>`}
        ${moment.live && !archives && h(Command, { text: `eventflink runs ${quoted(name)}` })}`}
    ${known && h(Skipped, { known })}
  `;
}

/** @param {string} vertex */
function vertexColumn(vertex) {
  return {
    key: `vertex ${vertex}`,
    title: middle(vertex, 14),
    hint: vertex,
    render: (/** @type {any} */ run) => cell(run.vertices.find((/** @type {any} */ each) => each.vertex_id === vertex)),
  };
}

/** What became of a vertex, as one element: a glyph, and for a screen reader and a pointer the words. @param {any} vertex */
function cell(vertex) {
  if (!vertex) return "";
  const { glyph, family } = vertex.is_reused ? { glyph: "↺", family: "neutral" } : vertex.skipped ? { glyph: "↷", family: "neutral" } : stateOf(vertex.state);
  const took = vertex.duration_ms === null ? "" : ` ${duration(vertex.duration_ms)}`;
  const words = `${vertex.vertex_id}: ${vertex.is_reused ? "reused from the run before" : vertex.skipped ? `skipped, for ${vertex.skipped}` : `${vertex.state}${took && ` after${took}`}, ${number(vertex.tasks_finished)} of ${plural(vertex.tasks, "task")} finished`}`;
  return html`<span class=${`state-glyph ${family}`} role="img" aria-label=${words} title=${words}>${glyph}${took}</span>`;
}

/** The states of many vertices. @param {any} run */
function counted(run) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { state } of run.vertices) counts[state] = (counts[state] ?? 0) + 1;
  const more = run.vertices_total - run.vertices.length;
  return html`${h(StateCounts, { counts })}${more > 0 ? html` <span class="muted">and ${number(more)} more</span>` : ""}`;
}

/** @param {{run: any, longest: number}} props */
function Took({ run, longest }) {
  const share = Math.min(100, (run.duration_ms / longest) * 100);
  return html`<span class=${`took ${stateOf(run.status, "job").family}`}><span class="took-bar" aria-hidden="true"><i style=${{ width: `${share}%` }}></i></span>${run.ended_at ? duration(run.duration_ms) : h(Since, { at: run.submitted_at })}</span>`;
}

/** @param {any} run */
function parameters(run) {
  const text = Object.entries(run.parameters).map(([name, value]) => `${name}=${value}`).join(", ");
  return text && html`<span title=${text}>${middle(text, 48)}</span>`;
}

/** @param {any} run */
function why(run) {
  if (run.rerun_of) return html`runs <a href=${href(`/jobs/${encodeURIComponent(run.rerun_of)}`)}>${middle(run.rerun_of, 18)}</a> again`;
  if (run.schedule_id) return html`${h(Schedule, { id: run.schedule_id, most: 18 })} for ${h(Time, { at: run.instant, form: "full" })}`;
  return run.actor ? html`<span class="muted">by ${run.actor}</span>` : "";
}

/** A schedule; in archives its id alone. @param {{id: string, most: number}} props */
export function Schedule({ id, most }) {
  const words = middle(id, most);
  return archives ? html`<span title=${id}>${words}</span>` : html`<a href=${href(`/schedules/${encodeURIComponent(id)}`)}>${words}</a>`;
}

/** @param {{version: any}} props */
function Version({ version }) {
  return html`<li class="neutral">
    <span class="ink" aria-hidden="true">◇</span>
    <div>
      <p class="row-head"><b>version ${number(version.version)}</b> <span>${plural(version.runs, "run")}</span><span class="row-end">first ${h(Time, { at: version.first_submitted_at })}</span></p>
      <p class="caption muted">first run <a href=${href(`/jobs/${encodeURIComponent(version.first_job_id)}`)}>${middle(version.first_job_id, 32)}</a>${version.first_actor ? ` by ${version.first_actor}` : ""} · ${version.definition_digest.slice(0, 12)}</p>
    </div>
  </li>`;
}

/** @type {import("../components/table.js").Column[]} */
const NAME_COLUMNS = [
  { key: "name", title: "Name", render: (row) => html`<a href=${href(pathOf(row.name))}><b>${middle(row.name, 48)}</b></a>` },
  { key: "state", title: "Newest run", render: (row) => h(StateChip, { state: row.newest.status, of: "job" }) },
  { key: "submitted", title: "Submitted", phone: false, render: (row) => h(Time, { at: row.newest.submitted_at }) },
  { key: "runs", title: "Runs", align: "end", render: (row) => number(row.runs) },
  { key: "versions", title: "Versions", align: "end", phone: false, render: (row) => number(row.versions) },
  { key: "success", title: "Last success", phone: false, render: (row) => (row.last_success_at ? h(Time, { at: row.last_success_at }) : html`<span class="muted">never</span>`) },
  { key: "typical", title: "Typically", align: "end", phone: false, render: (row) => (row.typical_ms === null ? html`<span class="muted">–</span>` : duration(row.typical_ms)) },
  { key: "trend", title: "Newest last", render: trend },
];

/** @param {any} row */
function trend(row) {
  const states = row.trend.map((/** @type {any} */ mark) => mark.status);
  const words = states.join(", ");
  return html`<span role="img" aria-label=${words} title=${words}>${states.map((/** @type {string} */ state) => stateOf(state, "job").glyph).join("")}</span>`;
}

/** @param {{page: any, moment: any, list: string, query: Record<string, string>, known: any}} props */
function Names({ page, moment, list, query, known }) {
  const timer = useRef(0);
  const { names, total } = page;
  return html`
    <div class="title"><h1>Runs by name</h1><span class="muted">${plural(total, "name")}</span></div>
    ${known?.missing && html`<p class="job-sentence waits">${known.missing}</p>`}
    ${(total > 0 || query.find || query.cluster) &&
    html`<div class="filters"><input type="search" aria-label="Find by name" placeholder="name" value=${query.find ?? ""} onInput=${(/** @type {any} */ event) => {
      const { value } = event.target;
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => change({ find: value || null }, { replace: true }), REST_MS);
    }} />${known && h(ChoiceOfCluster, { known, chosen: query.cluster })}</div>`}
    ${total === 0
      ? h(Empty, { title: query.find || query.cluster ? "No name fits." : archives ? "There is no archive of a job here yet." : "No job has been submitted yet.", small: true })
      : h(Table, {
          label: "Names of jobs",
          columns: NAME_COLUMNS,
          rows: names,
          total,
          list,
          revision: revisionOf(moment, total, names[0]),
          fetch: async (first, limit) => (await windowOf(list, moment, first, limit)).names,
          rowKey: (row) => row.name,
          open: (row) => go(pathOf(row.name)),
          mark: (row) => (row.newest.status === "FAILED" && !row.newest.failure_is_dismissed ? "troubled" : ""),
        })}
    ${known ? h(Skipped, { known }) : page.unread > 0 && html`<p class="muted">${plural(page.unread, "job")} that left the memory ${page.unread === 1 ? "is" : "are"} not counted: there is no archive, or it could not be read.</p>`}
  `;
}

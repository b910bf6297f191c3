// @ts-check
// The graph of a job, and beside it its vertices or the subtasks of the chosen one, the worst first.

import { useMemo } from "preact/hooks";

import { ask } from "../../api.js";
import { Sentence } from "../../components/sentence.js";
import { StateChip, StateCounts } from "../../components/state_chip.js";
import { Table } from "../../components/table.js";
import { Since, Time } from "../../components/time.js";
import { Bar } from "../../bars/bars.js";
import { millis, spanOf } from "../../bars/phases.js";
import { number, plural } from "../../format.js";
import { Graph, took } from "../../graph/graph.js";
import { depthOf } from "../../graph/layout.js";
import { h, html } from "../../html.js";
import { change, href, reference } from "../../moment.js";
import { archives } from "../../source.js";

const FIRST = 100;

/** @param {string} job @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(job, query) {
  return query.vertex ? { subtasks: `${pathOf(job, query)}&first=0&limit=${FIRST}` } : {};
}

/** @param {string} job @param {Record<string, string>} query */
function pathOf(job, query) {
  const state = query.state ? `&state=${encodeURIComponent(query.state)}` : "";
  return `/jobs/${job}/vertices/${encodeURIComponent(query.vertex ?? "")}/subtasks?sort=${query.sort === "index" ? "index" : "trouble"}${state}`;
}

/** @param {{documents: Record<string, any>, job: any, query: Record<string, string>, moment: any, address: string}} props */
export function Tab({ documents, job, query, moment, address }) {
  const chosen = query.vertex ?? null;
  const hrefOf = (/** @type {string} */ id) => href(address, { vertex: id });
  // A long graph has the width of the page, and the panel below it.
  const depth = useMemo(() => depthOf(job.vertices.map((/** @type {any} */ each) => ({ id: each.vertex_id })), job.edges), [job.graph_digest]);
  return html`<div class=${`graph-tab ${depth > 3 ? "wide" : ""}`}>
    <section aria-label="Graph">
      ${h(Graph, { job, identity: job.graph_digest ?? job.job_id, chosen, hrefOf, onChoose: (/** @type {string} */ id) => change({ vertex: id, state: null }, { replace: true }) })}
      ${h(GraphLegend, { edges: job.edges, streams: job.stream })}
    </section>
    <div class="graph-panel">
      ${chosen && documents.subtasks ? h(Subtasks, { document: documents.subtasks, job, query, moment, address }) : h(Vertices, { job, hrefOf })}
    </div>
  </div>`;
}

/** @param {{edges: any[], streams: boolean}} props */
function GraphLegend({ edges, streams }) {
  const pipelined = edges.some((edge) => edge.pipelined);
  const blocking = edges.some((edge) => !edge.pipelined);
  return html`<p class="legend">
    ${blocking && html`<span><svg width="28" height="8" aria-hidden="true"><path class="edge blocking" d="M0,4 H28" /></svg> blocking: read when its writer has finished</span>`}
    ${pipelined && html`<span><svg width="28" height="8" aria-hidden="true"><path class="edge pipelined" d="M0,4 H28" /></svg> pipelined</span>`}
    ${streams && html`<span>lag, watermark and back-pressure as of the last checkpoint</span>`}
  </p>`;
}

/** All vertices, when none is chosen. @param {{job: any, hrefOf: (id: string) => string}} props */
function Vertices({ job, hrefOf }) {
  const columns = [
    { key: "name", title: "Vertex", render: (/** @type {any} */ each) => html`<a href=${hrefOf(each.vertex_id)}>${each.name}</a>${each.runs && html` <span class="muted" title=${each.runs_note}>${each.runs}</span>`}${each.skipped && html` <span class="muted" title=${each.skipped}>skipped</span>`}` },
    { key: "parallelism", title: "×", align: /** @type {"end"} */ ("end"), width: "56px", render: (/** @type {any} */ each) => number(each.parallelism) },
    { key: "written", title: "Written", align: /** @type {"end"} */ ("end"), width: "100px", phone: false, render: (/** @type {any} */ each) => number(each.write_records ?? each.rows_written) },
    { key: "took", title: "Took", align: /** @type {"end"} */ ("end"), width: "100px", phone: false, render: (/** @type {any} */ each) => (each.began_at ? took(each.began_at, each.ended_at) : "–") },
    { key: "states", title: "Subtasks", width: "40%", render: (/** @type {any} */ each) => h(StateCounts, { counts: each.states, worded: true }) },
  ];
  return html`<h2>${plural(job.vertices.length, "vertex", "vertices")}</h2>
    <p class="muted">Choose one to see its subtasks, the worst first.</p>
    ${h(Table, { label: "Vertices", columns, rows: job.vertices, rowKey: (row) => row.vertex_id, open: (row) => change({ vertex: row.vertex_id }, { replace: true }), height: "60vh" })}`;
}

/** @param {{document: any, job: any, query: Record<string, string>, moment: any, address: string}} props */
function Subtasks({ document, job, query, moment, address }) {
  const vertex = job.vertices.find((/** @type {any} */ each) => each.vertex_id === query.vertex) ?? { states: {}, parallelism: 0 };
  const attempts = document.subtasks.flatMap((/** @type {any} */ each) => barsOf(each, query.vertex ?? ""));
  const now = moment.live ? reference.value : (millis(moment.decided_at) ?? 0);
  const axis = spanOf(attempts, now);
  const fetch = async (/** @type {number} */ first, /** @type {number} */ limit) =>
    (await ask(`${pathOf(encodeURIComponent(job.job_id), query)}&first=${first}&limit=${limit}`, { at: moment.offset })).body.subtasks;
  const attemptHref = (/** @type {any} */ each, attempt = each.attempt) => href(`${address}/${query.vertex}/${each.subtask_index}/${attempt}`);
  const columns = [
    { key: "index", title: "#", width: "52px", align: /** @type {"end"} */ ("end"), sortable: true, render: (/** @type {any} */ each) => html`<a href=${attemptHref(each)}>${each.subtask_index}</a>` },
    { key: "trouble", title: "State", width: "132px", sortable: true, hint: "the worst first", render: (/** @type {any} */ each) => h(StateChip, { state: each.state }) },
    { key: "attempt", title: "Attempt", width: "60px", align: /** @type {"end"} */ ("end"), render: (/** @type {any} */ each) => `#${each.attempt}` },
    { key: "where", title: "TaskManager", width: "104px", phone: false, render: (/** @type {any} */ each) => where(each.task_manager_id) },
    {
      key: "life", title: "Its life", phone: false,
      render: (/** @type {any} */ each) =>
        html`<span class="bars-row inline">${barsOf(each, query.vertex ?? "").map((attempt) => h(Bar, { key: attempt.attempt, attempt, axis, now, href: attemptHref(each, attempt.attempt) }))}</span>`,
    },
  ];
  return html`<div class="panel-head">
      <h2>${vertex.name ?? query.vertex} <span class="muted">${plural(vertex.parallelism, "subtask")}${vertex.type ? ` · ${vertex.type === "PYTHON" ? "Python" : "SQL"}` : ""}</span></h2>
      <a class="button small" href=${href(address)}>All vertices</a>
    </div>
    ${h(VertexFacts, { vertex })}
    <div class="chips" role="group" aria-label="Only subtasks in one state">
      ${Object.keys(vertex.states).map((state) => {
        const pressed = query.state === state;
        return html`<button key=${state} class=${`filter ${pressed ? "pressed" : ""}`} aria-pressed=${pressed} onClick=${() => change({ state: pressed ? null : state }, { replace: true })}>
          ${h(StateChip, { state, count: vertex.states[state] })}
        </button>`;
      })}
    </div>
    ${h(Table, {
      label: `Subtasks of ${query.vertex}`, columns, rows: document.subtasks, total: document.matching, fetch, revision: `${moment.offset} ${query.vertex} ${query.state} ${query.sort}`,
      rowKey: (row) => String(row.subtask_index), sort: query.sort === "index" ? "index" : "trouble",
      onSort: (key) => change({ sort: key === "index" ? "index" : null }, { replace: true }), height: "56vh",
    })}
    ${h(Worst, { subtasks: document.subtasks })}`;
}

/** What is known of the chosen vertex beside its subtasks. @param {{vertex: any}} props */
function VertexFacts({ vertex }) {
  const pressure = vertex.back_pressure;
  /** @type {[string, any][]} */
  const facts = [
    ["runs", vertex.runs_note || (vertex.condition ? `when ${vertex.condition.source}${vertex.condition.output === "default" ? "" : `.${vertex.condition.output}`} has ${vertex.condition.has_rows ? "" : "no "}rows` : null)],
    ["skipped", vertex.skipped || null],
    ["parallelism", vertex.parallelism_note || (vertex.wanted_parallelism !== vertex.parallelism && vertex.wanted_parallelism ? `${vertex.parallelism} of ${vertex.wanted_parallelism} wanted` : null)],
    ["back-pressure", pressure ? html`<b class=${`pressed-${pressure.level.toLowerCase()}`}>${pressure.level.toLowerCase()}</b> ${pressure.reason}` : null],
    ["lag", typeof vertex.lag === "number" ? `${number(vertex.lag)} records` : null],
    ["watermark", vertex.watermark ? h(Time, { at: vertex.watermark, form: "full" }) : null],
  ];
  const known = facts.filter(([, value]) => value !== null);
  return html`<dl class="facts">${known.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Why the worst of them are where they are. @param {{subtasks: any[]}} props */
function Worst({ subtasks }) {
  /** @type {Map<string, any[]>} */
  const reasons = new Map();
  for (const each of subtasks) {
    const sentence = sentenceOf(each);
    if (sentence) reasons.set(sentence, [...(reasons.get(sentence) ?? []), each]);
  }
  if (reasons.size === 0) return null;
  return html`<h3>Why</h3>
    <ul class="reasons">
      ${[...reasons].slice(0, 5).map(
        ([sentence, those]) => html`<li key=${sentence}>
          ${h(StateChip, { state: those[0].state, bare: true })} <b>${indexes(those)}</b> ${h(Sentence, { text: sentence })}${those[0].waits_since ? html` <span class="muted">for ${h(Since, { at: those[0].waits_since })}</span>` : ""}
        </li>`,
      )}
    </ul>`;
}

/** @param {any} subtask */
function sentenceOf(subtask) {
  if (subtask.wait) return subtask.wait;
  if (subtask.state === "FAILED" && subtask.last_failure) return `${subtask.last_failure.failure_type}: ${subtask.last_failure.message}`;
  return null;
}

/** "17, 18, 23 and 9 others". @param {any[]} subtasks */
function indexes(subtasks) {
  const first = subtasks.slice(0, 4).map((each) => each.subtask_index).join(", ");
  return subtasks.length > 4 ? `${first} and ${plural(subtasks.length - 4, "other")}` : first;
}

/** The attempts of a subtask as bars have them. @param {any} subtask @param {string} vertexId @returns {import("../../bars/phases.js").Attempt[]} */
export function barsOf(subtask, vertexId) {
  return subtask.attempts.map((/** @type {any} */ attempt) => ({ ...attempt, vertex_id: vertexId, subtask_index: subtask.subtask_index }));
}

/** A link to a TaskManager. @param {string | null} id */
export function where(id) {
  if (archives && id) return html`<span title=${id}>${id}</span>`;
  return id ? html`<a href=${href(`/taskmanagers/${encodeURIComponent(id)}`)} title=${id}>${id}</a>` : html`<span class="muted">–</span>`;
}


// @ts-check
// One TaskManager: its slots with what runs in them, its events, and what it tells of itself now: files, stacks of threads, metrics.

import { useEffect, useState } from "preact/hooks";

import { blockOf } from "../actions/commands.js";
import { CommandDialog } from "../actions/dialog.js";
import { ApiError, text } from "../api.js";
import { Copy, Id } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { StateChip } from "../components/state_chip.js";
import { Table } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { Time } from "../components/time.js";
import { bytes, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { LogView } from "../logs/log_view.js";
import { at, change, href } from "../moment.js";
import { may } from "../shell/identity.js";
import { SlotCells, SlotLegend } from "../slots/slots.js";
import { SPARK_UI_PORT } from "../source.js";
import { EVENT_COLUMNS } from "./job/events_tab.js";
import { stateInWords } from "./task_managers.js";
import { whyOf } from "./why.js";

/** @type {[string, string][]} */
const TABS = [["slots", "Slots"], ["logs", "Logs"], ["threads", "Threads"], ["metrics", "Metrics"], ["events", "Events"]];

/** Questions that are not of the log's state. */
export const live = ["events"];

/** @param {Record<string, string>} params */
export function title(params) {
  return params.task_manager ?? "";
}

/** @param {Record<string, string>} params */
export function concerns(params) {
  return { task_manager: params.task_manager };
}

/** @param {Record<string, string>} params @returns {Record<string, string>} */
export function questions(params) {
  const id = encodeURIComponent(params.task_manager ?? "");
  const until = at.value === null ? "" : `&until=${at.value}`;
  return { task_manager: `/task_managers/${id}`, of_all: "/task_managers?first=0&limit=1", ...(params.tab === "events" && { events: `/log/events?task_manager=${id}&order=newest&limit=200${until}` }) };
}

/** @param {{documents: Record<string, any>, params: Record<string, string>, query: Record<string, string>}} props */
export function Page({ documents, params, query }) {
  const found = documents.task_manager;
  const [ordering, setOrdering] = useState(false);
  const id = found.task_manager_id;
  const address = `/taskmanagers/${encodeURIComponent(id)}`;
  const tab = TABS.find(([name]) => name === params.tab)?.[0] ?? "slots";
  const free = found.slots.filter((/** @type {any} */ slot) => slot.state === "FREE").length;
  return html`<header class="job-head">
      <p class="crumbs"><a href=${href("/taskmanagers")}>TaskManagers</a> <span aria-hidden="true">▸</span> ${found.host}</p>
      <div class="job-title">
        <h1>${id}</h1>${h(Copy, { text: id, label: "the id" })}
        <span>${stateInWords(found, documents.of_all.blocked.find((/** @type {any} */ each) => each.task_manager_id === id))}</span>
        <span class="job-actions"><button class="button" aria-haspopup="dialog" disabled=${!may("admin")} title=${may("admin") ? undefined : "for the role admin"} onClick=${() => setOrdering(true)}>${found.blocked ? "Unblock…" : "Block…"}</button></span>
      </div>
      <p class="job-facts muted">
        <span>${free} of ${plural(found.slots.length, "slot")} free</span>
        <span>registered ${h(Time, { at: found.registered_at })}</span>
        <span><a href=${href(whyOf(id))}>why it is so</a></span>
        ${found.hardware && html`<span title=${`${bytes(found.hardware.available_bytes)} of it were free for new processes when the TaskManager started`}>${plural(found.hardware.cpu_cores, "core")}, ${bytes(found.hardware.physical_bytes)} of memory</span>`}
        ${SPARK_UI_PORT > 0 && at.value === null && html`<span><a href=${sparkUiOf(found.host)} target="_blank" rel="noreferrer">Spark's UI ↗</a></span>`}
        ${found.spark_end && html`<span class="failed ink">its Spark ended ${found.spark_ends === 1 ? "" : `${number(found.spark_ends)} times, last `}at ${h(Time, { at: found.spark_end.ended_at })}: ${found.spark_end.reason}</span>`}
        ${found.process_id && html`<span>process ${found.process_id}</span>`}
        ${found.instance_id && html`<span>instance ${h(Id, { id: found.instance_id, label: "instance" })}</span>`}
      </p>
    </header>
    ${h(Tabs, { label: "Views of the TaskManager", views: TABS.map(([name, words]) => ({ name, words, to: name === "slots" ? address : `${address}/${name}` })), shown: tab })}
    ${tab === "slots" && h(Slots, { found })}
    ${tab === "logs" && h(Logs, { id, name: query.file ?? null })}
    ${tab === "threads" && h(Threads, { id })}
    ${tab === "metrics" && h(Metrics, { id, address: found.metrics_address })}
    ${tab === "events" && h(Events, { document: documents.events })}
    ${ordering && h(CommandDialog, { command: blockOf(found), onClose: () => setOrdering(false) })}`;
}

/** @param {string} host */
function sparkUiOf(host) {
  return `http://${host.includes(":") ? `[${host}]` : host}:${SPARK_UI_PORT}/`;
}

/** @param {{found: any}} props */
function Slots({ found }) {
  const attempts = found.slots.flatMap((/** @type {any} */ slot) =>
    slot.attempts.length > 0 ? slot.attempts.map((/** @type {any} */ each, /** @type {number} */ index) => ({ ...each, slot, index })) : [{ slot, index: 0, job_id: slot.job_id }],
  );
  /** @type {import("../components/table.js").Column[]} */
  const columns = [
    { key: "slot", title: "Slot", width: "60px", align: "end", render: (each) => (each.index === 0 ? number(each.slot.slot_index) : "") },
    { key: "state", title: "State", width: "140px", render: (each) => (each.state ? h(StateChip, { state: each.state }) : html`<span class="muted">${each.slot.state.toLowerCase()}</span>`) },
    { key: "job", title: "Job", width: "220px", render: (each) => (each.job_id ? html`<a href=${href(`/jobs/${encodeURIComponent(each.job_id)}`)}>${each.job_id}</a>` : html`<span class="muted">–</span>`) },
    { key: "task", title: "Attempt", render: (each) => each.vertex_id && html`<a href=${href(`/jobs/${encodeURIComponent(each.job_id)}/${each.vertex_id}/${each.subtask_index}/${each.attempt}`)}>${each.vertex_id}[${each.subtask_index}]#${each.attempt}</a>${each.slot.attempts.length > 1 ? html` <span class="muted">${plural(each.slot.attempts.length, "attempt")} share it</span>` : ""}` },
  ];
  return html`<div class="slots-big">${h(SlotCells, { slots: found.slots, blocked: found.blocked, by: "state" })}</div>
    ${h(SlotLegend, {})}
    ${h(Table, { label: "Slots", columns, rows: attempts, rowKey: (row) => `${row.slot.slot_index}.${row.index}`, height: "56vh" })}`;
}

/** Something that a TaskManager tells of itself now, asked once. @template T @param {(signal: AbortSignal) => Promise<T>} load @param {string} identity */
function useAsked(load, identity) {
  const [asked, setAsked] = useState(0);
  const [found, setFound] = useState(/** @type {{value: T | null, errors: string[], asking: boolean}} */ ({ value: null, errors: [], asking: true }));
  useEffect(() => {
    const controller = new AbortController();
    setFound((before) => ({ ...before, asking: true }));
    load(controller.signal).then(
      (value) => !controller.signal.aborted && setFound({ value, errors: [], asking: false }),
      (error) => !controller.signal.aborted && setFound({ value: null, errors: error instanceof ApiError ? error.errors : [String(error)], asking: false }),
    );
    return () => controller.abort();
  }, [identity, asked]);
  return { ...found, again: () => setAsked(asked + 1) };
}

/** @param {{asked: {errors: string[], asking: boolean, again: () => void}, what: string}} props */
function Taken({ asked, what }) {
  return html`<p class="asked">
      ${at.value === null ? html`<span class="muted">${what}, taken now</span>` : html`<span class="not-recorded">${what}: not recorded; taken now</span>`}
      <button class="button small" disabled=${asked.asking} onClick=${asked.again}>${asked.asking ? "asking…" : "ask again"}</button>
    </p>
    ${asked.errors.map((line) => html`<p class="refused" role="alert">${line}</p>`)}`;
}

/** @param {{id: string, name: string | null}} props */
function Logs({ id, name }) {
  const of = `/taskmanagers/${encodeURIComponent(id)}`;
  const asked = useAsked(async (signal) => JSON.parse(await text(`${of}/logs`, signal)).logs, id);
  const load = async (/** @type {AbortSignal} */ signal) => {
    const found = await text(`${of}/logs/${encodeURIComponent(name ?? "")}`, signal);
    return { text: found, first_line: 1, size_bytes: new TextEncoder().encode(found).length };
  };
  return html`${h(Taken, { asked, what: "Its files" })}
    ${asked.value && asked.value.length === 0 && h(Empty, { title: "It has no log.", small: true })}
    <div class="files">
      ${(asked.value ?? []).map((/** @type {any} */ each) => html`<button key=${each.name} class=${`button small ${each.name === name ? "pressed" : ""}`} aria-pressed=${each.name === name} onClick=${() => change({ file: each.name }, { replace: true })}>
        ${each.name} <span class="muted">${bytes(each.size)}</span>
      </button>`)}
    </div>
    ${name && h(LogView, { key: name, identity: `${id} ${name}`, label: `${name} of ${id}`, load })}`;
}

/** @param {{id: string}} props */
function Threads({ id }) {
  const [wanted, setWanted] = useState("");
  const asked = useAsked(async (signal) => JSON.parse(await text(`/taskmanagers/${encodeURIComponent(id)}/thread-dump`, signal)).threadInfos, id);
  const threads = (asked.value ?? []).filter((/** @type {any} */ each) => each.stringifiedThreadInfo.toLowerCase().includes(wanted.toLowerCase()));
  return html`${h(Taken, { asked, what: "The stacks of its threads" })}
    ${asked.value && html`<div class="filters"><input type="search" placeholder="filter stacks" aria-label="Filter stacks" value=${wanted} onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} /><span class="muted">${plural(threads.length, "thread")}</span></div>`}
    ${threads.map((/** @type {any} */ each, /** @type {number} */ index) => html`<details key=${`${each.threadName} ${index}`} class="trace" open=${threads.length <= 12}>
      <summary>${each.threadName}</summary>
      <pre class="code-block" tabindex="0">${each.stringifiedThreadInfo}</pre>
    </details>`)}`;
}

/** @param {{id: string, address: string | null}} props */
function Metrics({ id, address }) {
  const of = `/taskmanagers/${encodeURIComponent(id)}/metrics`;
  const asked = useAsked(async (signal) => {
    const names = JSON.parse(await text(of, signal)).map((/** @type {any} */ each) => each.id);
    return names.length > 0 ? JSON.parse(await text(`${of}?get=${names.slice(0, 100).map(encodeURIComponent).join(",")}`, signal)) : [];
  }, id);
  /** @type {import("../components/table.js").Column[]} */
  const columns = [
    { key: "id", title: "Metric", render: (each) => html`<code>${each.id}</code>` },
    { key: "value", title: "Value", align: "end", width: "160px", render: (each) => each.value },
  ];
  return html`${h(Taken, { asked, what: "Its metrics" })}
    ${asked.value && h(Table, { label: "Metrics", columns, rows: asked.value, rowKey: (row) => row.id, height: "50vh" })}
    ${address && html`<p class="muted">Prometheus reads all of them at <code>${address}</code>${h(Copy, { text: address, label: "the address" })}</p>`}`;
}

/** @param {{document: any}} props */
function Events({ document }) {
  return h(Table, { label: "Events of the TaskManager", columns: EVENT_COLUMNS, fixed: true, rows: document.events, rowKey: (row) => `${row.offset}.${row.index}`, height: "66vh", empty: h(Empty, { title: "The log has no event of this TaskManager.", small: true }) });
}

// @ts-check
// The TaskManagers: who has room, and who is ill? Their slots as cells by host, coloured by state or by job.

import { Empty } from "../components/empty.js";
import { Since } from "../components/time.js";
import { bytes, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { change, href } from "../moment.js";
import { SlotCells, SlotLegend } from "../slots/slots.js";
import { Pager } from "./job/bars_tab.js";

const SHOWN = 100;

export const title = () => "TaskManagers";
export const concerns = () => ({});

/** @param {Record<string, string>} params @param {Record<string, string>} query */
export function questions(params, query) {
  return { task_managers: `/task_managers?first=${firstOf(query)}&limit=${SHOWN}`, cluster: "/cluster" };
}

/** @param {Record<string, string>} query */
function firstOf(query) {
  return Math.max(0, Math.floor(Number(query.first ?? 0)) || 0);
}

/** @param {{documents: Record<string, any>, query: Record<string, string>}} props */
export function Page({ documents, query }) {
  const { task_managers: all, total, blocked = [] } = documents.task_managers;
  const { slots } = documents.cluster;
  const by = query.by === "job" ? "job" : "state";
  const wanted = (query.name ?? "").toLowerCase();
  const shown = all.filter((/** @type {any} */ each) => `${each.task_manager_id} ${each.host}`.toLowerCase().includes(wanted));
  if (total === 0) {
    return h(Empty, { title: "No TaskManager is registered.", glyph: "□", command: "eventflink taskexecutor" }, html`<p>Tasks wait until one registers. This starts one on this machine; where the broker is, it takes from the configuration.</p>`);
  }
  return html`<div class="title">
      <h1>TaskManagers</h1>
      <p class="muted">${plural(total, "TaskManager")}, ${number(slots.total - slots.free)} of ${plural(slots.total, "slot")} taken${slots.requests > 0 ? `, ${plural(slots.requests, "request")} ${slots.requests === 1 ? "waits" : "wait"}` : ""}${resourcesOf(slots)}</p>
    </div>
    <div class="filters">
      <input type="search" placeholder="id or host" aria-label="Filter TaskManagers" value=${query.name ?? ""} onInput=${(/** @type {any} */ event) => change({ name: event.target.value }, { replace: true })} />
      <div class="chips" role="group" aria-label="What the colour of a slot says">
        ${["state", "job"].map((each) => html`<button key=${each} class=${`button small ${each === by ? "pressed" : ""}`} aria-pressed=${each === by} onClick=${() => change({ by: each === "state" ? null : each }, { replace: true })}>colour by ${each}</button>`)}
      </div>
    </div>
    ${h(SlotLegend, {})}
    ${shown.length === 0 && h(Empty, { title: `None of those shown fits '${query.name}'.`, small: true }, html`<p><button class="button small" onClick=${() => change({ name: null })}>Drop the filter</button></p>`)}
    ${[...byHost(shown)].map(([host, those]) => html`<section key=${host} class="host" aria-label=${`Host ${host}`}>
      <h2>${host || "unknown host"} <span class="muted">${plural(those.length, "TaskManager")}</span></h2>
      <ul>${those.map((each) => h(Row, { key: each.task_manager_id, row: each, blocked: blocked.find((/** @type {any} */ of) => of.task_manager_id === each.task_manager_id), by }))}</ul>
    </section>`)}
    ${h(Pager, { first: firstOf(query), size: SHOWN, shown: all.length, total, what: "TaskManagers" })}`;
}

/** What the slots have that say it, and what of it is free. @param {any} slots */
function resourcesOf({ resources: all, resources_free: free }) {
  if (!all) return "";
  const sizes = [["task heap", "task_heap_bytes"], ["task off-heap", "task_off_heap_bytes"], ["managed memory", "managed_bytes"]];
  const parts = [
    all.cpu_millicores > 0 && `${free.cpu_millicores / 1000} of ${all.cpu_millicores / 1000} cores`,
    ...sizes.map(([words = "", field = ""]) => all[field] > 0 && `${bytes(free[field])} of ${bytes(all[field])} of ${words}`),
    ...all.extended_resources.map((/** @type {any} */ each) => `${number(free.extended_resources.find((/** @type {any} */ of) => of.name === each.name)?.amount ?? 0)} of ${number(each.amount)} ${each.name}`),
  ].filter(Boolean);
  return parts.length > 0 ? html`; free: ${parts.join(", ")}` : "";
}

/** @param {any[]} all @returns {Map<string, any[]>} */
function byHost(all) {
  /** @type {Map<string, any[]>} */
  const hosts = new Map();
  for (const each of all) hosts.set(each.host, [...(hosts.get(each.host) ?? []), each]);
  return new Map([...hosts].sort(([one], [other]) => one.localeCompare(other)));
}

/** @param {{row: any, blocked: any, by: "job" | "state"}} props */
function Row({ row, blocked, by }) {
  const taken = row.slots.filter((/** @type {any} */ slot) => slot.state !== "FREE").length;
  return html`<li class=${`task-manager ${row.blocked ? "is-blocked" : ""}`}>
    <a class="task-manager-name" href=${href(`/taskmanagers/${encodeURIComponent(row.task_manager_id)}`)}>${row.task_manager_id}</a>
    <span class="number">${number(taken)}/${number(row.slots.length)}</span>
    ${h(SlotCells, { slots: row.slots, blocked: row.blocked, by })}
    <span class="task-manager-words">${stateInWords(row, blocked)}</span>
  </li>`;
}

/** What is the matter with a TaskManager. @param {any} row @param {any} blocked */
export function stateInWords(row, blocked) {
  if (row.blocked) return html`<b class="ink-waits">╳ blocked</b> ${blocked ? html`${blocked.actor ? ` by ${blocked.actor}` : ""}${blocked.reason ? `: ${blocked.reason}` : ""}, for ${h(Since, { at: blocked.since })}${blocked.until ? " so far" : ", until it is unblocked"}` : ""}`;
  if (row.ready === false) return html`<span class="muted">◌ it still loads what tasks need: others get them first</span>`;
  return html`<span class="muted">up ${h(Since, { at: row.registered_at })}</span>`;
}

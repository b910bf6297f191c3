// @ts-check
// The log: its events by filters, newest or oldest first; and beside them one decision, with what it was because of and what it led to.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask } from "../api.js";
import { Empty } from "../components/empty.js";
import { Export, PAGE_ROWS } from "../components/export.js";
import { eventsCommand, eventsSql, without } from "../components/rows.js";
import { EventType, HideCheckpoints } from "../components/events.js";
import { Sentence } from "../components/sentence.js";
import { Table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { clock, number } from "../format.js";
import { h, html } from "../html.js";
import { at, change, go, href } from "../moment.js";
import { zone } from "../shell/settings.js";
import { Decision } from "./log/decision.js";

const LIMIT = 200;
const FILTERS = /** @type {const} */ (["type", "job", "task_manager"]);
/** How many offsets beyond a decision that was opened by its address are listed with it. */
const BEYOND = 3;
const NAMES = { type: "type", job: "job", task_manager: "TaskManager" };

/** @param {Record<string, string>} params */
export const title = (params) => (params.offset ? `Log ${number(Number(params.offset))}` : "Log");
export const concerns = () => ({});
export const live = ["events", "decision"];

/** @param {Record<string, string>} query @param {number | null} until @param {number} [limit] */
function asked(query, until, limit = LIMIT) {
  const parameters = new URLSearchParams({ order: query.order ?? "newest", limit: String(limit) });
  for (const name of FILTERS) if (query[name]) parameters.set(name, query[name]);
  if (query.rejected) parameters.set("rejected", query.rejected);
  const oldest = query.order === "oldest";
  const around = query.around ? Number(query.around) : null;
  const begin = query.from ?? (oldest && around !== null ? String(Math.max(0, around - BEYOND)) : null);
  if (begin !== null) parameters.set("from", begin);
  const end = query.until ?? (!oldest && around !== null ? String(Math.min(around + BEYOND, until ?? Infinity)) : until === null ? null : String(until));
  if (end !== null) parameters.set("until", end);
  return `${parameters}${without(query)}`;
}

/** @param {Record<string, string>} params @param {Record<string, string>} query */
export function questions(params, query) {
  /** @type {Record<string, string>} */
  const all = { moment: `/log/position`, events: `/log/events?${asked(query, at.peek())}` };
  if (params.offset) all.decision = `/log/${encodeURIComponent(params.offset)}`;
  return all;
}

/** @type {import("../components/table.js").Column[]} */
const columns = [
  { key: "offset", title: "Offset", width: "84px", render: (event) => html`<a class="mono" href=${here(event.offset)}>${number(event.offset)}</a>` },
  { key: "at", title: "Decided", width: "110px", render: (event) => html`<span class="mono">${clock(event.decided_at, zone.value)}</span>` },
  { key: "type", title: "Event", width: "230px", render: (event) => (event.accepted ? h(EventType, { type: event.type }) : html`<span class="rejected-mark">⊘ ${event.type}</span>`) },
  { key: "subject", title: "About", width: "24%", render: (event) => html`<span class="mono">${event.subject}</span>` },
  { key: "details", title: "What it says", phone: false, render: (event) => html`<span class=${event.accepted ? "muted" : ""}>${event.accepted ? h(Sentence, { text: event.details }) : event.rejection}</span>` },
  { key: "epoch", title: "Epoch/seq", width: "90px", align: "end", phone: false, render: (event) => html`<span class="muted mono">${event.epoch}/${event.sequence}</span>` },
];

/** @param {any} event */
const keyOf = (event) => `${event.offset}.${event.index}`;

/** How many events have come before the first that is drawn, in words; empty: none. @param {any} first @param {{events: any[], next: string | null}} found */
function newerThan(first, { events, next }) {
  const index = first ? events.findIndex((event) => keyOf(event) === keyOf(first)) : events.length;
  if (index < 0) return `${next ? "more than " : ""}${number(events.length)} new`;
  return index ? `${number(index)} new` : "";
}

/** The address of a decision, with the filters that are set. @param {number} offset */
function here(offset) {
  return href(`/log/${offset}`, Object.fromEntries(new URL(window.location.href).searchParams));
}

/** @param {{documents: any, moment: any, params: Record<string, string>, query: Record<string, string>}} props */
export function Page({ documents, moment, params, query }) {
  const [more, setMore] = useState(/** @type {any[]} */ ([]));
  const [next, setNext] = useState(/** @type {string | null} */ (null));
  const [, redraw] = useState(0);
  const held = useRef(false);
  const kept = useRef({ list: "", first: documents.events });
  const list = asked(query, at.value);
  // Decisions do not change: while somebody looks at some, those stay, and newer ones are announced.
  if (!held.current || kept.current.list !== list) kept.current = { list, first: documents.events };
  const { first } = kept.current;
  const key = `${list} ${first.events[0]?.offset ?? ""}`;
  useEffect(() => {
    setMore([]);
    setNext(first.next);
  }, [key]);
  const events = [...first.events, ...more];
  const listed = events.some((event) => String(event.offset) === params.offset);
  useEffect(() => {
    // Opened by its address: the list goes where the decision is, and stays there while others of it are opened.
    if (params.offset && !listed && query.around !== params.offset) change({ around: params.offset }, { replace: true });
  }, [params.offset, query.around, listed]);
  const filtered = FILTERS.some((name) => query[name]) || query.rejected || query.from || query.until;
  const newest = (query.order ?? "newest") === "newest";
  const load = async () => {
    try {
      const { body } = await ask(`/log/events?${asked(query, at.peek())}&after=${next}`);
      setMore([...more, ...body.events]);
      setNext(body.next);
    } catch (error) {
      toast(error instanceof ApiError ? error.message : String(error), { kind: "failed" });
    }
  };
  return html`
    <div class="title"><h1>Log</h1><span class="muted">${at.value === null ? "" : `up to offset ${number(at.value)}`}</span>
      ${events.length > 0 && h(Export, {
        name: "events",
        offset: moment.offset,
        command: eventsCommand(query, at.value),
        sql: eventsSql(query, at.value),
        part: async (from, signal) => {
          const { body } = await ask(`/log/events?${asked(query, moment.offset, PAGE_ROWS)}${from === null ? "" : `&after=${from}`}`, { signal });
          return { rows: body.events, next: body.next };
        },
      })}
    </div>
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${FILTERS.map((name) => h(Filter, { key: name, name, value: query[name] ?? "" }))}
      <label class="check"><input type="checkbox" checked=${query.rejected === "true"} onChange=${() => change({ rejected: query.rejected === "true" ? null : "true" })} /> only what did not count</label>
      ${h(HideCheckpoints, { query })}
      ${query.around && html`<span class="tag">around ${number(Number(query.around))}</span>
        <button type="button" class="button small" onClick=${() => change({ around: null })}>${newest ? "From the newest" : "From the oldest"}</button>`}
      ${(query.from || query.until) && html`<span class="tag">${query.from ? number(Number(query.from)) : "beginning"} to ${query.until ? number(Number(query.until)) : "end"}</span>`}
      <button type="button" class="button small" onClick=${() => change({ order: newest ? "oldest" : null })}>${newest ? "↓ newest first" : "↑ oldest first"}</button>
      ${filtered && html`<button type="button" class="button small" onClick=${() => change({ type: null, job: null, task_manager: null, rejected: null, from: null, until: null })}>Clear</button>`}
    </form>
    <div class=${`split${documents.decision ? " open" : ""}`}>
      <div class="split-main">
        ${h(Table, {
          label: "Events of the log",
          fixed: true,
          columns: documents.decision ? columns.filter(({ key: name }) => name !== "details" && name !== "epoch") : columns,
          rows: events,
          list,
          revision: first,
          rowKey: keyOf,
          newer: newerThan(first.events[0], documents.events),
          onHold: (first_) => (held.current = first_ !== null),
          onNewest: () => {
            held.current = false;
            redraw((count) => count + 1);
          },
          open: (event) => go(`/log/${event.offset}`, query),
          mark: (event) => `${String(event.offset) === params.offset ? "chosen" : ""}${event.accepted ? "" : " rejected"}`,
          empty: h(Empty, { title: filtered ? "No event matches." : "Nothing has been decided.", small: true }, filtered ? html`<p>Drop a filter, or look at an earlier or longer stretch.</p>` : ""),
          height: "calc(100vh - 300px)",
        })}
        ${next && html`<p class="actions"><button class="button" onClick=${load}>${newest ? "Older" : "Newer"} events</button></p>`}
      </div>
      ${documents.decision && h(Decision, { decision: documents.decision, back: () => go("/log", query) })}
    </div>
  `;
}

/** @param {{name: typeof FILTERS[number], value: string}} props */
function Filter({ name, value }) {
  return html`<input
    type="search"
    class=${value ? "set" : ""}
    aria-label=${`Only this ${NAMES[name]}`}
    placeholder=${name === "type" ? "type, such as TaskFailed" : NAMES[name]}
    value=${value}
    onChange=${(/** @type {any} */ event) => change({ [name]: event.target.value.trim() })}
  />`;
}

// @ts-check
// What the log says of a job, the newest first.

import { useState } from "preact/hooks";

import { ask } from "../../api.js";
import { Empty } from "../../components/empty.js";
import { EventType, HideCheckpoints } from "../../components/events.js";
import { without } from "../../components/rows.js";
import { Sentence } from "../../components/sentence.js";
import { Table } from "../../components/table.js";
import { Time } from "../../components/time.js";
import { number } from "../../format.js";
import { h, html } from "../../html.js";
import { at, href } from "../../moment.js";

const FIRST = 200;

/** @type {import("../../components/table.js").Column[]} */
export const EVENT_COLUMNS = [
  { key: "offset", title: "Offset", width: "84px", render: (event) => html`<a class="mono" href=${href(`/log/${event.offset}`)}>${number(event.offset)}</a>` },
  { key: "at", title: "Decided", width: "120px", render: (event) => h(Time, { at: event.decided_at, form: "clock" }) },
  { key: "type", title: "Event", width: "230px", render: (event) => (event.accepted ? h(EventType, { type: event.type }) : html`<span class="rejected-mark">⊘ ${event.type}</span>`) },
  { key: "subject", title: "About", width: "24%", render: (event) => html`<span class="mono">${event.subject}</span>` },
  { key: "details", title: "What it says", phone: false, render: (event) => html`<span class="muted" title=${event.details}>${event.accepted ? h(Sentence, { text: event.details }) : event.rejection}</span>` },
];

/** @param {string} job @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(job, query) {
  return { events: pathOf(job, query) };
}

/** @param {string} job @param {Record<string, string>} query */
function pathOf(job, query) {
  const until = at.value === null ? "" : `&until=${at.value}`;
  const type = query.type ? `&type=${encodeURIComponent(query.type)}` : "";
  return `/log/events?job=${job}&order=newest&limit=${FIRST}${until}${type}${without(query)}`;
}

/** @param {{documents: Record<string, any>, job: any, query: Record<string, string>}} props */
export function Tab({ documents, job, query }) {
  const [older, setOlder] = useState(/** @type {{of: any, events: any[], next: any} | null} */ (null));
  const newest = documents.events;
  const known = older !== null && older.of === newest ? older : { of: newest, events: [], next: newest.next };
  const events = [...newest.events, ...known.events];
  async function more() {
    const found = await ask(`${pathOf(encodeURIComponent(job.job_id), query)}&after=${encodeURIComponent(known.next)}`);
    const body = /** @type {any} */ ("body" in found ? found.body : found);
    setOlder({ of: newest, events: [...known.events, ...body.events], next: body.next });
  }
  return html`<div class="panel-head">
      <p class="muted">What the leader decided for this job, the newest first. <a href=${href("/log", { job: job.job_id })}>In the log, with filters</a></p>
      ${job.stream && h(HideCheckpoints, { query })}
    </div>
    ${h(Table, {
      label: "Events of the job", columns: EVENT_COLUMNS, fixed: true, rows: events, rowKey: (row) => `${row.offset}.${row.index}`, height: "66vh",
      empty: h(Empty, { title: "The log has no event of this job.", small: true }),
    })}
    ${known.next !== null && known.next !== undefined && html`<p class="pager"><button class="button small" onClick=${more}>older events</button></p>`}`;
}

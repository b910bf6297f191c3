// @ts-check
// What the log says of a job, the newest first.

import { ask } from "../../api.js";
import { Empty } from "../../components/empty.js";
import { Table } from "../../components/table.js";
import { Time } from "../../components/time.js";
import { number } from "../../format.js";
import { h, html } from "../../html.js";
import { at, href } from "../../moment.js";
import { useState } from "preact/hooks";

const FIRST = 200;

/** @param {string} job @param {Record<string, string>} query @returns {Record<string, string>} */
export function questions(job, query) {
  return { events: pathOf(job, query) };
}

/** @param {string} job @param {Record<string, string>} query */
function pathOf(job, query) {
  const until = at.value === null ? "" : `&until=${at.value}`;
  const type = query.type ? `&type=${encodeURIComponent(query.type)}` : "";
  return `/log/events?job=${job}&order=newest&limit=${FIRST}${until}${type}`;
}

/** @param {{documents: Record<string, any>, job: any, query: Record<string, string>}} props */
export function Tab({ documents, job, query }) {
  const [older, setOlder] = useState(/** @type {{of: any, events: any[], next: any} | null} */ (null));
  const newest = documents.events;
  const known = older !== null && older.of === newest ? older : { of: newest, events: [], next: newest.next };
  const events = [...newest.events, ...known.events];
  async function more() {
    const found = await ask(`${pathOf(encodeURIComponent(job.job_id), query)}&before=${encodeURIComponent(known.next)}`);
    const body = /** @type {any} */ ("body" in found ? found.body : found);
    setOlder({ of: newest, events: [...known.events, ...body.events], next: body.next });
  }
  const columns = [
    { key: "offset", title: "offset", width: "90px", align: /** @type {"end"} */ ("end"), render: (/** @type {any} */ each) => html`<a href=${href(`/log/${each.offset}`)}>${number(each.offset)}</a>` },
    { key: "at", title: "time", width: "120px", render: (/** @type {any} */ each) => h(Time, { at: each.decided_at, form: "clock" }) },
    { key: "type", title: "event", width: "210px", render: (/** @type {any} */ each) => html`<b>${each.type}</b>` },
    { key: "subject", title: "of", width: "180px", render: (/** @type {any} */ each) => each.subject },
    { key: "details", title: "details", phone: false, render: (/** @type {any} */ each) => html`<span title=${each.details}>${each.details}</span>` },
  ];
  return html`<div class="panel-head">
      <p class="muted">What the leader decided for this job, the newest first. <a href=${href("/log", { job: job.job_id })}>In the log, with filters</a></p>
    </div>
    ${h(Table, {
      label: "Events of the job", columns, rows: events, rowKey: (row) => `${row.offset}.${row.index}`, height: "66vh",
      mark: (row) => (row.accepted === false ? "rejected" : ""),
      empty: h(Empty, { title: "The log has no event of this job.", small: true }),
    })}
    ${known.next !== null && known.next !== undefined && html`<p class="pager"><button class="button small" onClick=${more}>older events</button></p>`}`;
}

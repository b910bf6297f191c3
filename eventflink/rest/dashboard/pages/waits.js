// @ts-check
// What waits, and why: by reason, trouble first, then the longest; each with the sentence that says what would end it.

import { Empty } from "../components/empty.js";
import { Table } from "../components/table.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { change } from "../moment.js";
import { WaitRow } from "./cluster.js";

const LIMIT = 500;
const REASONS = /** @type {Record<string, string>} */ ({
  NO_FREE_SLOT: "No free slot",
  QUEUE_SHARE: "The share of its queue",
  NO_FITTING_SLOT: "No slot that fits",
  NO_TASK_MANAGER: "No TaskManager",
  TASK_MANAGERS_BLOCKED: "TaskManagers are blocked",
  WORKER_REQUESTED: "A worker is on its way",
  NEXT_DECISION: "The leader's next decision",
  INPUTS: "Inputs are not complete",
  CLOSING: "The end of all other vertices",
  JOB_STATUS: "The state of the job",
  FULL_RESTART: "All tasks end before a restart",
  RESTART_DELAY: "The delay before a restart",
  RESOURCES: "Resources of an adaptive job",
  RESCALE: "A rescale",
  CONFIRMATION: "A TaskManager's confirmation",
  CANCELLATION: "A cancellation",
  LOST: "A lost TaskManager",
});

/** @type {import("../components/table.js").Column[]} */
const columns = [
  { key: "queue", title: "Queue", render: (queue) => queue.queue },
  { key: "quota", title: "Quota", align: "end", hint: "Slots that its jobs are entitled to", render: (queue) => number(queue.nominal_quota) },
  { key: "limit", title: "May borrow", align: "end", phone: false, render: (queue) => (queue.borrowing_limit === null ? "all" : number(queue.borrowing_limit)) },
  { key: "weight", title: "Weight", align: "end", phone: false, hint: "Its share of what is borrowed", render: (queue) => number(queue.weight) },
  { key: "held", title: "Held", align: "end", render: (queue) => number(queue.held) },
  { key: "borrowed", title: "Borrowed", align: "end", render: (queue) => number(queue.borrowed) },
  { key: "requests", title: "Tasks that wait", align: "end", render: (queue) => number(queue.requests) },
  { key: "jobs", title: "Of jobs", align: "end", phone: false, render: (queue) => number(queue.jobs) },
];

export const title = () => "Waits";
export const concerns = () => ({});
export const questions = () => ({ waits: `/waits?limit=${LIMIT}` });

/** @param {{documents: any, query: Record<string, string>}} props */
export function Page({ documents, query }) {
  const { waits, total, queues } = documents.waits;
  const all = query.all === "1";
  const shown = waits.filter((/** @type {any} */ wait) => all || wait.trouble);
  /** @type {Map<string, any[]>} */
  const byReason = new Map();
  for (const wait of shown) byReason.set(wait.reason, [...(byReason.get(wait.reason) ?? []), wait]);
  const ordinary = waits.length - waits.filter((/** @type {any} */ wait) => wait.trouble).length;
  return html`
    <div class="title"><h1>Waits</h1><span class="muted">${plural(total, "vertex waits", "vertices wait")}</span></div>
    ${ordinary > 0 &&
    html`<div class="filters"><label class="check"><input type="checkbox" checked=${all} onChange=${() => change({ all: all ? null : 1 }, { replace: true })} />
      also the ordinary course of jobs (${number(ordinary)})</label></div>`}
    ${shown.length === 0
      ? h(Empty, { title: "Nothing waits that should not.", glyph: "✔" }, html`<p>A task that has no slot, or that is to start again, is listed here with the reason, and what would end its wait.</p>`)
      : [...byReason].map(
          ([reason, those]) => html`<section class="card stacked" key=${reason}>
            <header><h2>${REASONS[reason] ?? reason}</h2><span class="muted">${plural(those.reduce((sum, wait) => sum + wait.tasks, 0), "task")}</span></header>
            <ul class="rows">${those.map((wait) => h(WaitRow, { key: `${wait.job_id}/${wait.vertex_id}`, wait }))}</ul>
          </section>`,
        )}
    ${queues.length > 0 && h(Table, { label: "Queues", columns, rows: queues, rowKey: (queue) => queue.queue })}
    ${total > waits.length && html`<p class="muted">The first ${number(waits.length)} of ${number(total)}.</p>`}
  `;
}

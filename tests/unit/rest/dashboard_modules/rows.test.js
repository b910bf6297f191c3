// What a table shows, as it is taken elsewhere.

import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, eventsCommand, eventsSql, jobsCommand } from "../../../../eventflink/rest/dashboard/components/rows.js";

test("rows as CSV have every field, and nothing in them is a formula or breaks a line", () => {
  const rows = [{ a: 1, b: 'said "no", twice', c: null }, { a: -2, b: "=1+2", d: { x: [1] } }];
  assert.equal(csv(rows), 'a,b,c,d\r\n1,"said ""no"", twice",,\r\n-2,\'=1+2,,"{""x"":[1]}"\r\n');
});

test("a command has the filters of the page, quoted for a shell, and there is none where the command line has no such filter", () => {
  assert.equal(jobsCommand({ status: "FAILED,RUNNING" }, { pinned: false, total: 7 }), "eventflink list --status FAILED --status RUNNING");
  assert.equal(jobsCommand({}, { pinned: false, total: 300 }), "eventflink list --limit 300");
  assert.equal(jobsCommand({ name: "x" }, { pinned: false, total: 7 }), undefined);
  assert.equal(jobsCommand({}, { pinned: true, total: 7 }), undefined);
  assert.equal(eventsCommand({ job: "it's", rejected: "true" }, 9), "eventflink events --job 'it'\\''s' --until 9 --rejected");
});

test("there is a query only where its columns say the same as the filters", () => {
  assert.equal(eventsSql({ type: "a'b", from: "3" }, null), "SELECT * FROM events WHERE lower(type) = lower('a''b') AND log_offset >= 3 ORDER BY log_offset DESC, event_index DESC");
  assert.equal(eventsSql({ order: "oldest" }, null), "SELECT * FROM events ORDER BY log_offset, event_index");
  assert.equal(eventsSql({ job: "orders-1" }, null), undefined);
  assert.match(eventsSql({ checkpoints: "hidden" }, null), /WHERE type NOT IN \('CheckpointTriggered', /);
  assert.equal(eventsCommand({ checkpoints: "hidden" }, null), undefined, "no command leaves types out");
  assert.equal(eventsSql({ until: "2026-11-22T03:12Z" }, null), undefined);
});

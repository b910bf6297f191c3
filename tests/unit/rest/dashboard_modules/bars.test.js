/** Laws of the bars of attempts; `test_dashboard_modules.py` runs them. */
import assert from "node:assert/strict";
import test from "node:test";

import { inWords, partsOf, place, rowsOf, spanOf, ticksOf } from "../../../../eventflink/rest/dashboard/bars/phases.js";

const at = (ms) => (ms === null ? null : new Date(ms).toISOString());
const attempt = (number, scheduled, deployed, running, ended, state = "RUNNING", subtask = 0) => ({
  vertex_id: "join",
  subtask_index: subtask,
  attempt: number,
  state,
  scheduled_at: at(scheduled),
  deployed_at: at(deployed),
  running_at: at(running),
  ended_at: at(ended),
  task_manager_id: null,
});

test("an attempt waits, deploys and runs, one after the other without a gap", () => {
  assert.deepEqual(partsOf(attempt(1, 1000, 3000, 3500, 9000), 20_000), [
    { phase: "waits", from: 1000, until: 3000 },
    { phase: "deploys", from: 3000, until: 3500 },
    { phase: "runs", from: 3500, until: 9000 },
  ]);
});

test("what has not ended lasts until now, in the phase that it came to", () => {
  assert.deepEqual(partsOf(attempt(1, 1000, null, null, null), 4000), [{ phase: "waits", from: 1000, until: 4000 }]);
});

test("an attempt that failed while it was deployed never ran", () => {
  assert.deepEqual(partsOf(attempt(1, 1000, 1000, null, 1700, "FAILED"), 4000), [{ phase: "deploys", from: 1000, until: 1700 }]);
});

test("an attempt that ended at once keeps a place", () => {
  assert.equal(partsOf(attempt(1, 1000, 1000, 1000, 1000, "FAILED"), 4000).length, 1);
});

test("an attempt of which no time is known has no bar", () => {
  assert.deepEqual(partsOf(attempt(1, null, null, null, null), 4000), []);
});

test("the attempts of a subtask share a row, in their order", () => {
  const rows = rowsOf([attempt(2, 9, null, null, null), attempt(1, 1, null, null, null, "RUNNING", 1), attempt(1, 1, 2, 3, 8)]);
  assert.deepEqual(rows.map((row) => [row.subtask_index, row.attempts.map((each) => each.attempt)]), [[0, [1, 2]], [1, [1]]]);
});

test("an attempt that never began has no row", () => {
  assert.deepEqual(rowsOf([attempt(1, null, null, null, 4000, "CANCELED")]), []);
});

test("the axis reaches from the first that happened to now, and is never without length", () => {
  assert.deepEqual(spanOf([attempt(1, 1000, 2000, 3000, 4000), attempt(2, 5000, null, null, null)], 60_000), { from: 1000, until: 60_000 });
  assert.deepEqual(spanOf([attempt(1, 1000, 1000, 1000, 1000)], 60_000), { from: 1000, until: 2000 });
  assert.ok(spanOf([], 60_000).until > spanOf([], 60_000).from);
});

test("what lies outside of the axis has no place, and what sticks out is cut", () => {
  const axis = { from: 1000, until: 2000 };
  assert.equal(place({ from: 0, until: 900 }, axis), null);
  assert.deepEqual(place({ from: 500, until: 1500 }, axis), { left: 0, width: 50 });
});

test("ticks are round, within the axis, and never more than were asked for", () => {
  for (const whole of [1, 37, 1000, 61_000, 3_601_000, 86_400_000 * 3, 86_400_000 * 4000]) {
    const axis = { from: 1_800_000_000_123, until: 1_800_000_000_123 + whole };
    const ticks = ticksOf(axis, 6);
    assert.ok(ticks.length <= 7);
    for (const tick of ticks) assert.ok(tick >= axis.from && tick <= axis.until);
  }
  assert.deepEqual(ticksOf({ from: 0, until: 60_000 }, 6), [0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
});

test("a bar can be read", () => {
  assert.equal(inWords(partsOf(attempt(1, 0, 2000, 2000, 9000), 0), (ms) => `${ms} ms`), "waited 2000 ms, ran 7000 ms");
});

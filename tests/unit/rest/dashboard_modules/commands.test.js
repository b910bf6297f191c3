/** Laws of what a page lets one order; `test_dashboard_modules.py` runs them. */
import assert from "node:assert/strict";
import test from "node:test";

import { blockOf, commandsOf, commandsOfSchedule, countedByType, initialValues } from "../../../../eventflink/rest/dashboard/actions/commands.js";

const job = (status, stream = true) => ({ job_id: "orders-7", name: "orders", status, stream, vertices: [{ vertex_id: "join", parallelism: 4 }] });
const find = (of, id) => commandsOf(of).find((each) => each.id === id);
const possible = (of) => commandsOf(of).filter((each) => each.why === undefined).map((each) => each.id);

test("what cannot be ordered now is in the menu all the same, with the reason", () => {
  assert.deepEqual(possible(job("RUNNING")), ["checkpoint", "savepoint", "rescale", "suspend", "stop", "cancel"]);
  assert.deepEqual(possible(job("FINISHED")), ["rerun"]);
  assert.equal(find(job("FINISHED"), "cancel").why, "it is FINISHED");
});

test("a job without streams takes no checkpoints and no savepoints", () => {
  assert.deepEqual(possible(job("RUNNING", false)), ["rescale", "suspend", "cancel"]);
});

test("a suspended job can be resumed or cancelled, and nothing else", () => {
  assert.deepEqual(possible(job("SUSPENDED")), ["resume", "cancel"]);
});

test("a job that has ended is run again as another one, whose page follows", () => {
  const rerun = find(job("FAILED"), "rerun");
  assert.deepEqual(rerun.document(initialValues(rerun.fields)), { type: "RerunJob", rerun_of: "orders-7" });
  assert.equal(find(job("FINISHED"), "rerun-failed").why, "it is FINISHED");
  assert.deepEqual(find(job("FAILED"), "rerun-failed").document({}), { type: "RerunJob", rerun_of: "orders-7", failed: true });
  assert.deepEqual(rerun.document({ job_id: "orders-8" }), { type: "RerunJob", rerun_of: "orders-7", job_id: "orders-8" });
  assert.equal(rerun.leads("orders-8"), "/jobs/orders-8");
  assert.equal(find(job("RUNNING"), "rerun").why, "it has not ended");
});

test("a batch job that has ended is run again from a vertex, also with other parameters", () => {
  const from = find({ ...job("FINISHED", false), parameters: { day: "2026-11-25" } }, "rerun-from");
  assert.deepEqual(from.document(initialValues(from.fields)), { type: "RerunJob", rerun_of: "orders-7", from_vertices: ["join"] });
  const changed = { from: "join", "parameters.day": "2026-11-24" };
  assert.deepEqual(from.document(changed), { type: "RerunJob", rerun_of: "orders-7", parameters: { day: "2026-11-24" }, from_vertices: ["join"] });
  assert.equal(find(job("FINISHED"), "rerun-from").why, "it has streams");
  assert.equal(find(job("RUNNING", false), "rerun-from").why, "it has not ended");
});

test("another run is asked for with the parameters that were changed, and no others", () => {
  const rerun = find({ ...job("FINISHED"), parameters: { day: "2026-11-25", least: 100, token_source: "******" } }, "rerun");
  const values = initialValues(rerun.fields);
  assert.deepEqual(rerun.fields.map((field) => [field.label, field.value]), [["Job id", undefined], ["day", "2026-11-25"], ["least", "100"], ["token_source", "******"]]);
  assert.deepEqual(rerun.document(values), { type: "RerunJob", rerun_of: "orders-7" });
  const changed = { ...values, "parameters.day": "2026-11-24", "parameters.least": "" };
  assert.deepEqual(rerun.document(changed), { type: "RerunJob", rerun_of: "orders-7", parameters: { day: "2026-11-24", least: "" } });
});

test("a schedule is paused or resumed, fired, back to rest, or deleted", () => {
  const schedule = { schedule_id: "nightly", paused_since: null, backfill: null };
  const of = (more) => Object.fromEntries(commandsOfSchedule({ ...schedule, ...more }).map((each) => [each.id, each]));
  assert.deepEqual(Object.keys(of({})), ["fire", "pause-schedule", "cancel-backfill", "delete-schedule"]);
  assert.deepEqual(Object.keys(of({ paused_since: "2026-11-28T01:00:00" })), ["fire", "resume-schedule", "cancel-backfill", "delete-schedule"]);
  assert.equal(of({})["cancel-backfill"].why, "it has no back-fill");
  assert.equal(of({ backfill: {} })["cancel-backfill"].why, undefined);
  assert.deepEqual(of({}).fire.document({ job_id: "" }), { type: "FireSchedule", schedule_id: "nightly" });
  assert.deepEqual(of({})["pause-schedule"].document({ reason: "moved" }), { type: "PauseSchedule", schedule_id: "nightly", reason: "moved" });
});

test("a failure is dismissed once", () => {
  assert.deepEqual(possible(job("FAILED")), ["rerun", "rerun-failed", "dismiss"]);
  assert.deepEqual(find(job("FAILED"), "dismiss").document({ reason: "known" }), { type: "DismissJobFailure", job_id: "orders-7", reason: "known" });
  assert.equal(find({ ...job("FAILED"), failure_is_dismissed: true }, "dismiss").why, "it is dismissed");
});

test("a button says what it does to what, and the other one what stays", () => {
  for (const command of commandsOf(job("RUNNING"))) {
    assert.match(command.verb, /orders/);
    assert.doesNotMatch(command.keep, /^(ok|cancel|close)$/i);
  }
});

test("what is left empty is not sent, so that the cluster's default holds", () => {
  const savepoint = find(job("RUNNING"), "savepoint");
  assert.deepEqual(savepoint.document(initialValues(savepoint.fields)), { type: "TriggerSavepoint", job_id: "orders-7", mode: "CONTINUE" });
});

test("a form begins with what its first choice says", () => {
  const stop = find(job("RUNNING"), "stop");
  assert.deepEqual(stop.document(initialValues(stop.fields)), { type: "TriggerSavepoint", job_id: "orders-7", mode: "STOP" });
  const rescale = find(job("RUNNING"), "rescale");
  assert.deepEqual(rescale.document(initialValues(rescale.fields)), { type: "RescaleJob", job_id: "orders-7", vertex_id: "join", parallelism: 4 });
});

test("a blocked TaskManager can be unblocked, and another one blocked for a time", () => {
  assert.equal(blockOf({ task_manager_id: "tm-1", blocked: true }).document({}).type, "UnblockTaskManager");
  const block = blockOf({ task_manager_id: "tm-1", blocked: false });
  const document = block.document({ reason: "disk", duration_ms: "600000" });
  assert.deepEqual(document, { type: "BlockTaskManager", task_manager_id: "tm-1", reason: "disk", duration_ms: 600_000 });
});

test("events are counted by type, the most frequent first", () => {
  assert.deepEqual(countedByType([{ type: "a" }, { type: "b" }, { type: "b" }]), [["b", 2], ["a", 1]]);
});

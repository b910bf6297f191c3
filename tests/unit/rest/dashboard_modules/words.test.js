// How numbers, durations and times are written, and which page a path has.

import assert from "node:assert/strict";
import { test } from "node:test";
import { absolute, ago, bytes, clock, duration, instantOf, isZone, middle, number, plural } from "../../../../eventflink/rest/dashboard/format.js";
import { match, routeOf } from "../../../../eventflink/rest/dashboard/routes.js";

test("numbers have separators, and what is unknown is a dash and never NaN", () => {
  assert.deepEqual([number(41309), number(0), number(null), number(NaN), number(undefined)], ["41,309", "0", "–", "–", "–"]);
  assert.deepEqual([bytes(512), bytes(1536), bytes(3 << 20), bytes(null)], ["512 B", "1.5 KiB", "3.0 MiB", "–"]);
  assert.deepEqual([plural(1, "job"), plural(1200, "job"), plural(2, "task waits", "tasks wait")], ["1 job", "1,200 jobs", "2 tasks wait"]);
});

test("a duration has the two units that matter", () => {
  const written = [0, 850, 4100, 59_940, 59_960, 130_000, 7_440_000, 3_600_000, 93_600_000, -1].map(duration);
  assert.deepEqual(written, ["0 ms", "850 ms", "4.1 s", "59.9 s", "1 min", "2 min 10 s", "2 h 4 min", "1 h", "1 d 2 h", "–"]);
});

test("a time is written in its zone with milliseconds, and relative to the moment that is shown", () => {
  const at = "2026-11-22T03:12:08.412+00:00";
  assert.equal(clock(at), "03:12:08.412");
  assert.equal(absolute(at), "2026-11-22 03:12:08.412 UTC");
  assert.equal(ago(at, Date.parse(at) + 362_500), "6 min 2 s ago");
  assert.equal(ago(at, Date.parse(at)), "now");
  assert.equal(ago(null, 0), "–");
});

test("what the clocks of a zone show is an instant, also around the change to summer time", () => {
  for (const at of ["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-07-01T12:00Z", "2026-10-24T23:30Z", "2026-12-31T23:59Z"].map(Date.parse)) {
    const shown = Date.parse(absolute(at, "Europe/Vienna").replace(" Europe/Vienna", "Z").replace(" ", "T"));
    assert.equal(instantOf(shown, "Europe/Vienna"), at);
    assert.equal(instantOf(at, "UTC"), at);
  }
  assert.equal(clock("2026-11-22T03:12:08.412Z", "Asia/Kathmandu"), "08:57:08.412");
  assert.deepEqual(["Europe/Vienna", "UTC", "Nowhere/Land", ""].map(isZone), [true, true, false, false]);
});

test("an id is cut in its middle, and a short one is not", () => {
  assert.equal(middle("orders-7"), "orders-7");
  assert.equal(middle("0123456789abcdef0123456789abcdef", 12), "0123456…cdef");
});

test("a path has one page, its parts are decoded, and the parts that may be missing may be", () => {
  assert.deepEqual(match("/jobs/:job/:tab?", "/jobs/a%2Fb"), { job: "a/b" });
  assert.deepEqual(match("/jobs/:job/:tab?", "/jobs/x/bars"), { job: "x", tab: "bars" });
  assert.equal(match("/jobs/:job/:tab?", "/jobs"), null);
  assert.equal(match("/jobs/:job", "/jobs/x/y"), null);
  assert.deepEqual(match("/jobs/:job", "/jobs/%E0%A4%A"), { job: "%E0%A4%A" });
  assert.equal(routeOf("/nowhere"), null);
  assert.equal(routeOf("/log/17")?.params.offset, "17");
});

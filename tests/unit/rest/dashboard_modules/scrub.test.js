// The axis of the bar: places are times, values are offsets, and long silence takes little room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axisOf, BREAK_PX, isBreak, mergedMarks, offsetAt, placeOf, placeOfTime, timeAt, timesOf } from "../../../../eventflink/rest/dashboard/scrub/axis.js";

const BEGAN = Date.parse("2026-11-22T02:00:00Z");

/** A histogram with a bucket a second, of so many decisions each. */
function histogram(counts, first = 0) {
  let offset = first;
  const buckets = counts.map((decisions, second) => {
    const from_offset = offset;
    offset += decisions;
    const at = (more) => new Date(BEGAN + (second + more) * 1000).toISOString();
    return { from_offset, until_offset: offset, from_at: at(0), until_at: at(1), decisions, failures: 0, rejected: 0 };
  });
  return { from: first, until: offset, from_at: "", until_at: "", buckets, leaderships: [], marks: [] };
}

test("every offset has a place of its own, in order, from which one comes back to it", () => {
  const axis = axisOf(histogram([3, 1, 0, 5, 2], 40), 1000);
  let before = -1;
  for (let offset = 40; offset < 51; offset += 1) {
    const x = placeOf(axis, offset);
    assert.ok(x > before && x <= 1000, `offset ${offset} is at ${x}`);
    assert.equal(offsetAt(axis, x), offset);
    before = x;
  }
  assert.equal(placeOf(axis, 39), null);
  assert.equal(placeOf(axis, 60), null);
});

test("the axis is the log's clock: a second is as wide as any other", () => {
  const axis = axisOf(histogram([9, 1, 1, 1]), 400);
  assert.equal(placeOfTime(axis, BEGAN + 1000), 100);
  assert.equal(timeAt(axis, 350), BEGAN + 3500);
  assert.equal(offsetAt(axis, 399), 11);
});

test("a silence of a large part of the window is folded into a narrow break, and a short one is not", () => {
  const axis = axisOf(histogram([1, ...Array(20).fill(0), 1, 0, 1]), 424);
  const breaks = axis.stretches.filter((stretch) => isBreak(stretch, axis));
  assert.equal(breaks.length, 1);
  assert.ok(Math.abs(breaks[0].x1 - breaks[0].x0 - BREAK_PX) < 1e-6);
  assert.equal(offsetAt(axis, (breaks[0].x0 + breaks[0].x1) / 2), 0);
  assert.ok(Math.abs(axis.stretches.at(-1).x1 - 424) < 1e-6);
});

test("a log that was decided in one millisecond still has a place for each decision", () => {
  const one = histogram([4]);
  one.buckets[0].until_at = one.buckets[0].from_at;
  const axis = axisOf(one, 100);
  assert.deepEqual([0, 1, 2, 3].map((offset) => placeOf(axis, offset)), [12.5, 37.5, 62.5, 87.5]);
});

test("marks that would touch become one, with the shape and the count of the worst, and the count of the others apart", () => {
  const axis = axisOf(histogram(Array(100).fill(1)), 1000);
  const mark = (offset, kind, count = 1) => ({ offset, at: "", kind, label: "", job_id: null, count });
  const some = [mark(52, "checkpoint"), mark(50, "checkpoint", 3), mark(51, "failure"), mark(51, "stop", 2), mark(52, "failure", 2), mark(90, "savepoint")];
  const merged = mergedMarks(axis, some, 24);
  assert.deepEqual(merged.map(({ kind, count, others }) => [kind, count, others]), [["failure", 3, 6], ["savepoint", 1, 0]]);
});

test("the axis has round times that do not touch one another, and none within a break", () => {
  for (const counts of [Array(100).fill(1), [1, ...Array(600).fill(0), ...Array(60).fill(1)], [1]]) {
    for (const width of [200, 1000]) {
      const axis = axisOf(histogram(counts), width);
      const times = timesOf(axis, 70);
      assert.ok(times.length > 0 || counts.length === 1, `${counts.length} seconds have times`);
      times.forEach(({ x, ms }, index) => {
        assert.equal(ms % 100, 0);
        assert.ok(index === 0 || x - times[index - 1].x >= 70);
        assert.ok(!axis.stretches.some((each) => isBreak(each, axis) && ms > each.from_ms && ms < each.until_ms));
      });
    }
  }
});

/** Laws of the curves of a stream; `test_dashboard_modules.py` runs them. */
import assert from "node:assert/strict";
import test from "node:test";

import { HEIGHT, linesOf, pointAt, WIDTH } from "../../../../eventflink/rest/dashboard/pages/job/curve_points.js";

const point = (second, value, offset = second) => ({ offset, at: new Date(second * 1000).toISOString(), records_behind: value });
const of = (each) => each.records_behind;

test("a curve goes from the first point to the last, by time, and from 0 to the most", () => {
  const points = [point(10, 0), point(11, 5), point(20, 10)];
  assert.deepEqual(linesOf(points, of, 10), [[[0, HEIGHT], [WIDTH / 10, HEIGHT / 2], [WIDTH, 0]]]);
});

test("a line ends where the number is not told, and another begins behind it", () => {
  const points = [point(0, 1), point(1, null), point(2, null), point(3, 1), point(4, 1)];
  assert.deepEqual(linesOf(points, of, 1).map((line) => line.length), [1, 2]);
});

test("a number that is always 0 is a line at the bottom", () => {
  assert.deepEqual(linesOf([point(0, 0), point(2, 0)], of, 0), [[[0, HEIGHT], [WIDTH, HEIGHT]]]);
});

test("points of one moment are at the end", () => {
  assert.deepEqual(linesOf([point(5, 1)], of, 1), [[[WIDTH, 0]]]);
});

test("a click finds the point that is nearest in time", () => {
  const points = [point(0, 1, 100), point(10, 1, 200), point(11, 1, 300), point(20, 1, 400)];
  assert.deepEqual([0, 0.4, 0.53, 0.6, 1].map((part) => pointAt(points, part).offset), [100, 200, 300, 300, 400]);
});

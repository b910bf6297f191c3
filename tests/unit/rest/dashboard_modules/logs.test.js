/** Laws of how a log is read; `test_dashboard_modules.py` runs them. */
import assert from "node:assert/strict";
import test from "node:test";

import { chosen, hashOf, linesOf, rangeOf } from "../../../../eventflink/rest/dashboard/logs/lines.js";

const TEXT = "12:00:01 INFO starts\n12:00:02 ERROR broke\nTraceback\n  File \"a.py\"\n12:00:03 WARN slow\r\n";

test("lines are numbered from where the text begins, and its last line break is no line", () => {
  assert.deepEqual(linesOf(TEXT, 118).map((line) => line.number), [118, 119, 120, 121, 122]);
  assert.deepEqual(linesOf("", 1), []);
});

test("the lines of a trace have the level of the line that they belong to", () => {
  assert.deepEqual(linesOf(TEXT, 1).map((line) => line.level), ["INFO", "ERROR", "ERROR", "ERROR", "WARNING"]);
});

test("a word within a long message is no level", () => {
  assert.equal(linesOf(`${"x".repeat(90)} ERROR`, 1)[0].level, null);
});

test("what is below the chosen level or lacks the text is not shown", () => {
  const lines = linesOf(TEXT, 1);
  assert.deepEqual(chosen(lines, "WARNING", "").map((line) => line.number), [2, 3, 4, 5]);
  assert.deepEqual(chosen(lines, "DEBUG", "TRACEBACK").map((line) => line.number), [3]);
});

test("what was printed without levels is shown until only warnings are wanted", () => {
  const lines = linesOf("hello\n", 1);
  assert.equal(chosen(lines, "INFO", "").length, 1);
  assert.equal(chosen(lines, "WARNING", "").length, 0);
});

test("an address names a line or a range, whichever end came first", () => {
  assert.deepEqual(rangeOf("#L118"), { from: 118, until: 118 });
  assert.deepEqual(rangeOf("#L130-L118"), { from: 118, until: 130 });
  assert.equal(rangeOf("#main"), null);
  assert.equal(hashOf({ from: 118, until: 130 }), "#L118-L130");
  assert.equal(hashOf({ from: 7, until: 7 }), "#L7");
});

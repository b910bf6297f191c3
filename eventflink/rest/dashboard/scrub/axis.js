// @ts-check
// The axis of the bar, pure: places along it are the log's clock, values are offsets. A long stretch in which nothing was decided is folded into a
// narrow break, so that what happened has the room.

import { ticksOf } from "../bars/phases.js";

/** @typedef {import("./data.js").Histogram} Histogram */
/** @typedef {{x0: number, x1: number, from: number, until: number, from_ms: number, until_ms: number, bucket: import("./data.js").Bucket | null}} Stretch
 *   offsets from (inclusive) to until (exclusive); bucket null: a break */
/** @typedef {{width: number, stretches: Stretch[], from: number, until: number}} Axis */

export const BREAK_PX = 24;
const FOLDED_SHARE = 0.15;

/** Lay the counted stretches of the log along a width in pixels. @param {Histogram} histogram @param {number} width @returns {Axis} */
export function axisOf(histogram, width) {
  const buckets = histogram.buckets.filter((bucket) => bucket.until_offset >= bucket.from_offset);
  /** @type {Stretch[]} */
  const stretches = [];
  const first = buckets[0];
  const last = buckets[buckets.length - 1];
  if (!first || !last) return { width, stretches, from: histogram.from, until: histogram.until };
  const whole = Date.parse(last.until_at) - Date.parse(first.from_at);
  for (const bucket of buckets) {
    const from_ms = Date.parse(bucket.from_at);
    const until_ms = Date.parse(bucket.until_at);
    const before = stretches[stretches.length - 1];
    if (bucket.decisions === 0) {
      if (before && before.bucket === null) before.until_ms = until_ms;
      else stretches.push({ x0: 0, x1: 0, from: bucket.from_offset, until: bucket.from_offset, from_ms, until_ms, bucket: null });
    } else {
      const from = before ? before.until : bucket.from_offset;
      stretches.push({ x0: 0, x1: 0, from, until: bucket.from_offset + bucket.decisions, from_ms, until_ms, bucket });
    }
  }
  const folded = stretches.filter((each) => each.bucket === null && each.until_ms - each.from_ms > whole * FOLDED_SHARE);
  const shown = whole - folded.reduce((sum, each) => sum + each.until_ms - each.from_ms, 0);
  const room = Math.max(0, width - folded.length * BREAK_PX);
  const decisions = buckets.reduce((sum, bucket) => sum + bucket.decisions, 0);
  let x = 0;
  for (const stretch of stretches) {
    const share = shown > 0 ? (stretch.until_ms - stretch.from_ms) / shown : (stretch.until - stretch.from) / Math.max(1, decisions);
    stretch.x0 = x;
    x += folded.includes(stretch) ? BREAK_PX : room * share;
    stretch.x1 = x;
  }
  return { width, stretches, from: first.from_offset, until: last.from_offset + last.decisions };
}

/** Whether a stretch is drawn as a break. @param {Stretch} stretch @param {Axis} axis */
export function isBreak(stretch, axis) {
  const last = axis.stretches[axis.stretches.length - 1];
  const first = axis.stretches[0];
  if (stretch.bucket !== null || !first || !last) return false;
  return stretch.until_ms - stretch.from_ms > (last.until_ms - first.from_ms) * FOLDED_SHARE;
}

/** Where an offset stands; null: it is not in sight. @param {Axis} axis @param {number} offset */
export function placeOf(axis, offset) {
  const last = axis.stretches[axis.stretches.length - 1];
  if (!last || offset < axis.from || offset > axis.until) return null;
  for (const { x0, x1, from, until, bucket } of axis.stretches) {
    if (bucket && offset < until) return x0 + ((x1 - x0) * (offset - from + 0.5)) / (until - from);
  }
  return last.x1;
}

/** Where a time stands. @param {Axis} axis @param {number} ms */
export function placeOfTime(axis, ms) {
  for (const { x0, x1, from_ms, until_ms } of axis.stretches) {
    if (ms <= until_ms) return ms <= from_ms ? x0 : x0 + ((x1 - x0) * (ms - from_ms)) / (until_ms - from_ms);
  }
  return axis.width;
}

/** The offset at a place: the last that was decided up to there. @param {Axis} axis @param {number} x */
export function offsetAt(axis, x) {
  let found = axis.from;
  for (const { x0, x1, from, until, bucket } of axis.stretches) {
    if (x < x0) break;
    if (bucket) found = x >= x1 ? until - 1 : from + Math.min(until - from - 1, Math.floor(((x - x0) / (x1 - x0)) * (until - from)));
  }
  return found;
}

/** The time at a place, as near as the counts tell, in milliseconds. @param {Axis} axis @param {number} x */
export function timeAt(axis, x) {
  const stretch = axis.stretches.find((each) => x < each.x1) ?? axis.stretches[axis.stretches.length - 1];
  if (!stretch) return NaN;
  const width = stretch.x1 - stretch.x0;
  const share = width > 0 ? Math.max(0, Math.min(1, (x - stretch.x0) / width)) : 1;
  return stretch.from_ms + (stretch.until_ms - stretch.from_ms) * share;
}

const WORST = ["failure", "task_manager_lost", "stop", "restart", "rescale", "savepoint", "checkpoint"];

/** @typedef {{x: number, kind: string, marks: import("./data.js").Mark[], count: number, others: number}} Merged
 *   `count` is how many are of the kind of its shape, `others` how many are not */

/** Marks that would touch become one, with the shape of the worst. @param {Axis} axis @param {import("./data.js").Mark[]} marks @param {number} near px
 * @returns {Merged[]} */
export function mergedMarks(axis, marks, near) {
  /** @type {Merged[]} */
  const merged = [];
  for (const mark of [...marks].sort((a, b) => a.offset - b.offset)) {
    const x = placeOf(axis, mark.offset);
    if (x === null) continue;
    const before = merged[merged.length - 1];
    const count = mark.count ?? 1;
    if (!before || x - before.x >= near) {
      merged.push({ x, kind: mark.kind, marks: [mark], count, others: 0 });
      continue;
    }
    before.marks.push(mark);
    if (mark.kind === before.kind) before.count += count;
    else if (WORST.indexOf(mark.kind) < WORST.indexOf(before.kind)) Object.assign(before, { kind: mark.kind, count, others: before.count + before.others });
    else before.others += count;
  }
  return merged;
}

/** Round times along the axis, at least `apart` px from one another and from the end; none within a break. @param {Axis} axis @param {number} apart
 * @returns {{x: number, ms: number}[]} */
export function timesOf(axis, apart) {
  const [first, last] = [axis.stretches[0], axis.stretches[axis.stretches.length - 1]];
  if (!first || !last || last.until_ms <= first.from_ms) return [];
  const broken = axis.stretches.filter((stretch) => isBreak(stretch, axis));
  const shown = last.until_ms - first.from_ms - broken.reduce((sum, each) => sum + each.until_ms - each.from_ms, 0);
  const share = shown / (last.until_ms - first.from_ms);
  const most = Math.max(1, Math.floor(axis.width / apart / Math.max(share, 0.02)));
  /** @type {{x: number, ms: number}[]} */
  const times = [];
  for (const ms of ticksOf({ from: first.from_ms, until: last.until_ms }, most)) {
    const x = placeOfTime(axis, ms);
    const hidden = broken.some((each) => ms > each.from_ms && ms < each.until_ms);
    if (!hidden && x - (times[times.length - 1]?.x ?? -apart) >= apart && axis.width - x >= apart) times.push({ x, ms });
  }
  return times;
}

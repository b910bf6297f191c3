// @ts-check
// Where the points of a curve are: time from left to right, and from 0 at the bottom to the greatest value at the top. Pure.

export const WIDTH = 300;
export const HEIGHT = 56;

/** @typedef {{offset: number, at: string, input_rows_per_second: number, processed_rows_per_second: number, records_behind: number | null,
 *   batch_duration_ms: number, state_rows: number, state_bytes: number, rows_written: number | null, watermark: string | null}} FlowPoint */

/** The lines of a curve within WIDTH and HEIGHT. A point without a value ends a line. @param {FlowPoint[]} points
 * @param {(point: FlowPoint) => number | null} of @param {number} most @returns {[number, number][][]} */
export function linesOf(points, of, most) {
  const [first, last] = [Date.parse(points[0]?.at ?? ""), Date.parse(points.at(-1)?.at ?? "")];
  /** @type {[number, number][][]} */
  const lines = [[]];
  for (const point of points) {
    const value = of(point);
    if (value === null) {
      lines.push([]);
      continue;
    }
    const x = last > first ? ((Date.parse(point.at) - first) / (last - first)) * WIDTH : WIDTH;
    lines.at(-1)?.push([x, HEIGHT - (most > 0 ? value / most : 0) * HEIGHT]);
  }
  return lines.filter((line) => line.length > 0);
}

/** The point that is nearest in time to a part of the curve, from 0 to 1. @param {FlowPoint[]} points @param {number} part */
export function pointAt(points, part) {
  const [first, last] = [Date.parse(points[0]?.at ?? ""), Date.parse(points.at(-1)?.at ?? "")];
  const wanted = first + part * (last - first);
  return points.reduce((near, point) => (Math.abs(Date.parse(point.at) - wanted) < Math.abs(Date.parse(near.at) - wanted) ? point : near));
}

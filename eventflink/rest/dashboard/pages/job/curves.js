// @ts-check
// How a stream has flowed: a curve for each number that its subtasks tell at checkpoints, over the same time. A click goes to that moment.
// Between two checkpoints nothing is known: the line only leads the eye, and ends where a number is not told.

import { useEffect, useState } from "preact/hooks";

import { ask } from "../../api.js";
import { bytes, clock, duration, number } from "../../format.js";
import { h, html } from "../../html.js";
import { pin } from "../../moment.js";
import { zone } from "../../shell/settings.js";
import { archives } from "../../source.js";
import { HEIGHT, linesOf, pointAt, WIDTH } from "./curve_points.js";

const POINTS = 120;
const RATE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

/** @typedef {import("./curve_points.js").FlowPoint} FlowPoint */

/** @type {{name: string, of: (point: FlowPoint) => number | null, shown: (value: number) => string}[]} */
const CURVES = [
  { name: "Rows/s in", of: (point) => point.input_rows_per_second, shown: (value) => RATE.format(value) },
  { name: "Rows/s done", of: (point) => point.processed_rows_per_second, shown: (value) => RATE.format(value) },
  { name: "Records behind", of: (point) => point.records_behind, shown: number },
  { name: "Watermark back", of: (point) => (point.watermark ? Math.max(0, Date.parse(point.at) - Date.parse(point.watermark)) : null), shown: duration },
  { name: "Batch took", of: (point) => point.batch_duration_ms, shown: duration },
  { name: "State", of: (point) => point.state_bytes, shown: bytes },
  { name: "Rows written", of: (point) => point.rows_written, shown: number },
];

/** @param {{job: string, vertexId: string | undefined, moment: any, known: string}} props `known`: what changes when there is another checkpoint */
export function Curves({ job, vertexId, moment, known }) {
  const [flow, setFlow] = useState(/** @type {{vertex_id: string, points: FlowPoint[]}[]} */ ([]));
  const past = moment.live ? null : moment.offset;
  useEffect(() => {
    if (archives) return undefined;
    const controller = new AbortController();
    ask(`/log/flow?job=${encodeURIComponent(job)}&points=${POINTS}`, { at: past, signal: controller.signal }).then(
      (answer) => setFlow(answer.body.vertices),
      () => {}, // The shell says what is the matter with the log.
    );
    return () => controller.abort();
  }, [job, past, known]);
  const of = flow.find((each) => each.vertex_id === vertexId) ?? (vertexId ? undefined : flow[0]);
  if (!of || of.points.length < 2) return null;
  const shown = CURVES.filter((curve) => of.points.some((point) => curve.of(point) !== null));
  return html`<section aria-label=${`How ${of.vertex_id} has flowed`}>
    <h2 class="below">${of.vertex_id} <span class="muted">over time, at ${number(of.points.length)} checkpoints</span></h2>
    <div class="curves">${shown.map((curve) => h(Curve, { key: curve.name, curve, points: of.points }))}</div>
  </section>`;
}

/** @param {{curve: typeof CURVES[number], points: FlowPoint[]}} props */
function Curve({ curve, points }) {
  const values = points.map(curve.of).filter((value) => value !== null);
  const [least, most, last] = [Math.min(...values), Math.max(...values), /** @type {number} */ (values.at(-1))];
  const [from, until] = [/** @type {FlowPoint} */ (points[0]), /** @type {FlowPoint} */ (points.at(-1))];
  const words = `${curve.name}: ${curve.shown(last)} at last, from ${curve.shown(least)} to ${curve.shown(most)}`;
  return html`<figure class="curve">
    <figcaption><span class="muted">${curve.name}</span> <b>${curve.shown(last)}</b></figcaption>
    <svg viewBox=${`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" role="img" aria-label=${words}
      onClick=${(/** @type {MouseEvent} */ event) => {
        const { left, width } = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
        pin(pointAt(points, (event.clientX - left) / width).offset);
      }}>
      <title>${words}</title>
      <line x1="0" x2=${WIDTH} y1=${HEIGHT} y2=${HEIGHT} class="curve-ground" />
      ${linesOf(points, curve.of, most).map((line) =>
        line.length > 1
          ? html`<polyline points=${line.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")} class="curve-line" />`
          : line.map(([x, y]) => html`<circle cx=${x} cy=${y} r="2" class="curve-point" />`),
      )}
    </svg>
    <p class="curve-axis muted"><span>${clock(from.at, zone.value)}</span><span>most ${curve.shown(most)}</span><span>${clock(until.at, zone.value)}</span></p>
  </figure>`;
}

// @ts-check
// Painting the bar: density of decisions with failures from the baseline and refusals hollow, leaderships with the gaps between them, marks.
// It paints what it is given, and keeps nothing.

import { duration, tick } from "../format.js";
import { zone } from "../shell/settings.js";
import { isBreak, mergedMarks, placeOf, placeOfTime, timesOf } from "./axis.js";

/** @typedef {import("./axis.js").Axis} Axis */

export const HEIGHT = 78;
export const DENSITY = { top: 2, bottom: 26 };
export const BANDS = { top: 29, bottom: 44 };
export const MARKS = { top: 47, bottom: 63 };
const TIMES_Y = 71;
const NEAR_PX = 40;
const TIMES_APART_PX = 76;
const GLYPHS = /** @type {Record<string, [string, string]>} */ ({
  failure: ["✖", "--failed-mark"],
  task_manager_lost: ["◆", "--failed-mark"],
  checkpoint: ["▾", "--done-mark"],
  savepoint: ["▼", "--done-mark"],
  restart: ["⟲", "--waits-mark"],
  rescale: ["⟲", "--waits-mark"],
  stop: ["■", "--neutral-mark"],
});

/** The token of a master's tint, by its name. @param {string} masterId */
export function masterColour(masterId) {
  const trailing = /(\d+)$/.exec(masterId)?.[1];
  let hash = trailing === undefined ? 0 : Number(trailing.slice(-6)) - 1;
  if (trailing === undefined) for (const letter of masterId) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return `--master-${(((hash % 6) + 6) % 6) + 1}`;
}

/** The marks as they stand, merged where they would touch. @param {Axis} axis @param {import("./data.js").Histogram} histogram */
export function marksOf(axis, histogram) {
  return mergedMarks(axis, histogram.marks, NEAR_PX);
}

/** @param {HTMLCanvasElement} canvas @param {Axis} axis @param {import("./data.js").Histogram} histogram
 * @param {{past: number | null, versus: number | null, selection: [number, number] | null}} over */
export function paint(canvas, axis, histogram, over) {
  const context = canvas.getContext("2d");
  if (!context) return;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(axis.width * scale) || canvas.height !== HEIGHT * scale) {
    canvas.width = Math.round(axis.width * scale);
    canvas.height = HEIGHT * scale;
  }
  const probe = getComputedStyle(canvas);
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @param {string} token */
  const colour = (token) => {
    let found = known.get(token);
    if (found === undefined) known.set(token, (found = resolved(canvas, token)));
    return found;
  };
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, axis.width, HEIGHT);
  context.font = `11px ${probe.fontFamily}`;
  context.textBaseline = "middle";

  const baseline = DENSITY.bottom;
  const room = DENSITY.bottom - DENSITY.top;
  const rates = axis.stretches.map(({ x0, x1, bucket }) => (bucket ? bucket.decisions / Math.max(1, x1 - x0) : 0));
  const most = Math.max(...rates, 0.0001);
  for (const [index, { x0, x1, bucket }] of axis.stretches.entries()) {
    if (!bucket) continue;
    const width = Math.max(1, x1 - x0 - 0.4);
    const height = Math.max(2, Math.sqrt(/** @type {number} */ (rates[index]) / most) * room);
    context.fillStyle = colour("--edge");
    context.globalAlpha = 0.7;
    context.fillRect(x0, baseline - height, width, height);
    context.globalAlpha = 1;
    if (bucket.failures > 0) {
      const failed = Math.max(4, (height * bucket.failures) / Math.max(bucket.decisions, bucket.failures));
      context.fillStyle = colour("--failed-mark");
      context.fillRect(x0, baseline - failed, Math.max(2, width), failed);
    }
    if (bucket.rejected > 0) {
      context.strokeStyle = colour("--waits-mark");
      context.strokeRect(x0 + 0.5, baseline - height + 0.5, Math.max(2, width - 1), Math.min(height - 1, 5));
    }
  }
  context.fillStyle = colour("--line");
  context.fillRect(0, baseline, axis.width, 1);

  for (const [index, band] of histogram.leaderships.entries()) {
    const next = histogram.leaderships[index + 1];
    const from = placeOf(axis, Math.max(axis.from, band.from_offset)) ?? axis.width;
    const ended = band.until_at ?? (next ? next.from_at : null);
    const until = ended === null ? axis.width : placeOfTime(axis, Date.parse(ended));
    const x0 = Math.max(0, Math.min(from, placeOfTime(axis, Date.parse(band.from_at))));
    if (x0 >= axis.width || until <= 0) continue;
    const width = Math.max(2, until - x0);
    context.fillStyle = colour(masterColour(band.master_id));
    context.fillRect(x0, BANDS.top, width, BANDS.bottom - BANDS.top);
    context.fillStyle = colour("--edge");
    context.fillRect(x0, BANDS.top, 1, BANDS.bottom - BANDS.top);
    context.fillRect(x0 + width - 1, BANDS.top, 1, BANDS.bottom - BANDS.top);
    write(context, `e${band.epoch} ${band.master_id}`, x0 + 7, x0 + width - 4, (BANDS.top + BANDS.bottom) / 2 + 0.5, colour("--text"));
    if (band.gap_ms !== null && band.gap_ms > 0 && index > 0) {
      const gap = Math.max(4, x0 - placeOfTime(axis, Date.parse(band.from_at) - band.gap_ms));
      hatch(context, x0 - gap, BANDS.top, gap, BANDS.bottom - BANDS.top, colour("--failed-mark"));
      write(context, duration(band.gap_ms), x0 - gap + 3, x0 - 2, (BANDS.top + BANDS.bottom) / 2 + 0.5, colour("--failed-ink"), colour("--surface"));
    }
  }

  for (const stretch of axis.stretches) {
    if (!isBreak(stretch, axis)) continue;
    context.fillStyle = colour("--surface");
    context.fillRect(stretch.x0, 0, stretch.x1 - stretch.x0, HEIGHT);
    context.strokeStyle = colour("--edge");
    context.lineWidth = 1;
    for (const x of [stretch.x0 + 3.5, stretch.x1 - 3.5]) zigzag(context, x);
    context.save();
    context.translate((stretch.x0 + stretch.x1) / 2, HEIGHT / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.font = `10px ${probe.fontFamily}`;
    context.fillStyle = colour("--muted");
    context.fillText(duration(stretch.until_ms - stretch.from_ms), 0, 0.5);
    context.restore();
  }

  context.textAlign = "center";
  for (const { x, kind, count, others } of marksOf(axis, histogram)) {
    const [glyph, token] = GLYPHS[kind] ?? ["•", "--neutral-mark"];
    context.fillStyle = colour(token);
    context.font = `13px ${probe.fontFamily}`;
    const y = (MARKS.top + MARKS.bottom) / 2;
    const at = Math.min(axis.width - 7, Math.max(7, x));
    context.fillText(glyph, at, y);
    const words = `${count > 1 ? few(count) : ""}${others > 0 ? ` +${few(others)}` : ""}`;
    if (words) {
      context.font = `10px ${probe.fontFamily}`;
      context.textAlign = "left";
      context.fillStyle = colour("--muted");
      context.fillText(words, at + 6, y + 0.5);
      context.textAlign = "center";
    }
  }
  context.textAlign = "left";
  context.font = `10px ${probe.fontFamily}`;
  for (const { x, ms } of timesOf(axis, TIMES_APART_PX)) {
    context.fillStyle = colour("--edge");
    context.fillRect(x, MARKS.bottom, 1, HEIGHT - MARKS.bottom);
    context.fillStyle = colour("--muted");
    context.fillText(tick(ms, (axis.stretches.at(-1)?.until_ms ?? ms) - (axis.stretches[0]?.from_ms ?? ms), zone.value), x + 4, TIMES_Y);
  }
  if (over.versus !== null && over.past !== null) {
    context.fillStyle = colour("--past-ink");
    context.globalAlpha = 0.14;
    context.fillRect(Math.min(over.versus, over.past), 0, Math.abs(over.past - over.versus), HEIGHT);
    context.globalAlpha = 1;
  }
  if (over.versus !== null) {
    context.fillStyle = colour("--past-ink");
    context.fillRect(over.versus - 0.5, 0, 1.5, HEIGHT);
    context.font = `600 10px ${probe.fontFamily}`;
    context.fillText("A", over.versus + 4, 8);
  }
  if (over.selection) {
    const [a, b] = over.selection;
    context.fillStyle = colour("--focus");
    context.globalAlpha = 0.18;
    context.fillRect(Math.min(a, b), 0, Math.abs(b - a), HEIGHT);
    context.globalAlpha = 1;
  }
}

/** @param {number} count */
function few(count) {
  return count > 99 ? "99+" : String(count);
}

/** What a token's colour is on an element, without functions of CSS. @param {HTMLElement} element @param {string} token */
function resolved(element, token) {
  element.style.setProperty("outline-color", `var(${token})`);
  const found = getComputedStyle(element).outlineColor;
  element.style.removeProperty("outline-color");
  return found;
}

/** Write a text if there is room for a good part of it. @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} end
 * @param {number} y @param {string} ink @param {string} [ground] */
function write(context, text, x, end, y, ink, ground) {
  const left = Math.max(5, x);
  const needed = context.measureText(text).width;
  const fits = needed <= end - left ? text : text.split(" ")[0] ?? "";
  const width = context.measureText(fits).width;
  if (width > end - left) return;
  if (ground) {
    context.fillStyle = ground;
    context.fillRect(left - 2, y - 6, width + 4, 12);
  }
  context.fillStyle = ink;
  context.fillText(fits, left, y);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width @param {number} height @param {string} ink */
function hatch(context, x, y, width, height, ink) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = ink;
  context.lineWidth = 1.2;
  context.beginPath();
  for (let start = x - height; start < x + width; start += 4) {
    context.moveTo(start, y + height);
    context.lineTo(start + height, y);
  }
  context.stroke();
  context.restore();
}

/** @param {CanvasRenderingContext2D} context @param {number} x */
function zigzag(context, x) {
  context.beginPath();
  for (let y = 0; y <= HEIGHT; y += 4) context.lineTo(x + (y % 8 === 0 ? -1.5 : 1.5), y);
  context.stroke();
}

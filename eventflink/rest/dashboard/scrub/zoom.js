// @ts-check
// How much of the log the bar shows, made less or more around a place: by the wheel, by two fingers, and by the buttons.

import { change } from "../moment.js";
import { offsetAt } from "./axis.js";
import { bounds } from "./data.js";

const LEAST = 8;
const EACH_MS = 100;
const LEAST_PX = 24;

/** Show `factor` times as much, where the record `middle` stays at its share of the width. All of the log is no stretch of it.
 * @param {{from: number, until: number}} sight @param {number} middle @param {number} share @param {number} factor */
export function scale(sight, middle, share, factor) {
  const [first, last] = [bounds.peek()?.first_offset ?? 0, bounds.peek()?.last_offset ?? sight.until];
  const span = Math.max(LEAST, (sight.until - sight.from) * factor);
  const from = Math.max(first, Math.round(middle - span * share));
  const until = Math.min(last, Math.round(from + span));
  const all = from <= first && until >= last;
  change({ z: all || from >= until ? null : `${from}-${until}` }, { replace: true });
}

/** Ctrl and the wheel, which is also two fingers on a touchpad, zoom around the pointer. @param {WheelEvent} event @param {import("./axis.js").Axis | null} axis @param {number} x */
export function wheel(event, axis, x) {
  if (!event.ctrlKey || !axis) return;
  event.preventDefault();
  scale(axis, offsetAt(axis, x), x / axis.width, event.deltaY < 0 ? 0.5 : 2);
}

/** Two fingers on the bar: what is between them stays between them. Each says whether a finger is one of two, and so moves nothing else. */
export function pinch() {
  /** @type {Map<number, number>} */
  const fingers = new Map();
  /** @type {{axis: import("./axis.js").Axis, middle: number, apart: number} | null} */
  let begun = null;
  let timer = 0;
  const show = () => {
    window.clearTimeout(timer);
    timer = 0;
    const [a = 0, b = 0] = fingers.values();
    if (begun && fingers.size === 2) scale(begun.axis, begun.middle, (a + b) / 2 / begun.axis.width, begun.apart / Math.max(LEAST_PX, Math.abs(a - b)));
  };
  return {
    /** @param {PointerEvent} event @param {number} x @param {import("./axis.js").Axis} axis */
    press(event, x, axis) {
      if (event.pointerType !== "touch") return false;
      fingers.set(event.pointerId, x);
      const [a = 0, b = 0] = fingers.values();
      if (fingers.size === 2) begun = { axis, middle: offsetAt(axis, (a + b) / 2), apart: Math.max(LEAST_PX, Math.abs(a - b)) };
      return fingers.size > 1;
    },
    /** @param {PointerEvent} event @param {number} x */
    move(event, x) {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, x);
      if (begun && !timer) timer = window.setTimeout(show, EACH_MS);
      return begun !== null;
    },
    /** @param {PointerEvent} event */
    release(event) {
      const was = begun !== null;
      if (fingers.size === 2) show();
      fingers.delete(event.pointerId);
      if (fingers.size === 0) begun = null;
      return was;
    },
  };
}

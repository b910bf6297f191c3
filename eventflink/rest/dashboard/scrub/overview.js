// @ts-check
// All of the log as a thin strip, while the bar shows a stretch of it; the stretch can be dragged along.

import { useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { change, zoom } from "../moment.js";
import { axisOf, offsetAt, placeOf } from "./axis.js";

const UNITS = 1000;

/** @param {{histogram: import("./data.js").Histogram | null}} props */
export function Overview({ histogram }) {
  const box = useRef(/** @type {SVGSVGElement | null} */ (null));
  const [drag, setDrag] = useState(/** @type {{from: number, x: number} | null} */ (null));
  const sight = zoom.value;
  if (!histogram || !sight) return html`<div class="scrub-overview"></div>`;
  const axis = axisOf(histogram, UNITS);
  const x0 = placeOf(axis, Math.max(axis.from, sight.from)) ?? 0;
  const x1 = Math.max(x0 + 6, placeOf(axis, Math.min(axis.until, sight.until)) ?? UNITS);
  const moved = drag ? Math.max(-x0, Math.min(UNITS - x1, drag.x - drag.from)) : 0;
  /** @param {PointerEvent} event */
  const at = (event) => {
    const bounds = /** @type {SVGSVGElement} */ (box.current).getBoundingClientRect();
    return ((event.clientX - bounds.left) / bounds.width) * UNITS;
  };
  return html`<svg
    ref=${box}
    class="scrub-overview"
    viewBox=${`0 0 ${UNITS} 10`}
    preserveAspectRatio="none"
    aria-hidden="true"
    onPointerDown=${(/** @type {PointerEvent} */ event) => {
      /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
      const x = at(event);
      setDrag({ from: x >= x0 && x <= x1 ? x : (x0 + x1) / 2, x });
    }}
    onPointerMove=${(/** @type {PointerEvent} */ event) => drag && setDrag({ ...drag, x: at(event) })}
    onPointerUp=${() => {
      const span = sight.until - sight.from;
      const from = Math.min(offsetAt(axis, x0 + moved), axis.until - 1 - span);
      setDrag(null);
      if (moved) change({ z: `${Math.max(0, from)}-${Math.max(0, from) + span}` });
    }}
  >
    <rect width=${UNITS} height="10" class="overview-ground" />
    ${axis.stretches.map(({ x0: a, x1: b, bucket }) => bucket && html`<rect x=${a} width=${Math.max(1, b - a)} y="3" height="7" class=${bucket.failures ? "overview-failed" : "overview-bar"} />`)}
    <rect x=${x0 + moved} width=${x1 - x0} height="10" class="overview-window" />
  </svg>`;
}

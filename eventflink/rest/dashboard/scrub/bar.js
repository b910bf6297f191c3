// @ts-check
// The bar of the log: drag it, or step by keys and buttons, and every page shows the cluster at that offset. While it is dragged the bar alone
// follows the pointer; the page is asked 80 ms after the last move, or each 200 ms.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { absolute, clock, number } from "../format.js";
import { h, html } from "../html.js";
import { at, change, head, pin, shown, versus, zoom } from "../moment.js";
import { zone } from "../shell/settings.js";
import { archives, UNIT } from "../source.js";
import { axisOf, offsetAt, placeOf, timeAt } from "./axis.js";
import { Controls } from "./controls.js";
import { bounds, histogram, missing, overview, watch } from "./data.js";
import { BANDS, DENSITY, HEIGHT, MARKS, marksOf, paint } from "./drawing.js";
import { Overview } from "./overview.js";
import { bindSteps, label, step, toMark } from "./steps.js";
import { pinch, wheel } from "./zoom.js";

const REST_MS = 80;
const EACH_MS = 200;
const GRIP_PX = 14;
const BRUSH_PX = 8;
const REACH_PX = 10;

export function Scrub() {
  useEffect(watch, []);
  useEffect(bindSteps, []);
  return html`<section class="scrub" aria-label=${archives ? "The life of the job" : "The log"}>
    ${h(Track, {})} ${h(Controls, {})}
  </section>`;
}

/** Pin while the bar moves: the first makes an entry of the history, the others replace it. */
function pinning() {
  let timer = 0;
  let last = 0;
  let moved = false;
  /** @type {number | null} */
  let wanted = null;
  const ask = () => {
    window.clearTimeout(timer);
    last = Date.now();
    if (wanted !== null && wanted !== at.peek()) {
      pin(wanted, { replace: moved });
      moved = true;
    }
  };
  return {
    /** @param {number} offset */
    move(offset) {
      wanted = offset;
      window.clearTimeout(timer);
      timer = window.setTimeout(ask, Math.max(0, Math.min(REST_MS, EACH_MS - (Date.now() - last))));
    },
    end: ask,
    drop() {
      window.clearTimeout(timer);
      wanted = null;
    },
  };
}

function Track() {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [drag, setDrag] = useState(/** @type {{kind: "scrub" | "brush", from: number, x: number} | null} */ (null));
  const [hover, setHover] = useState(/** @type {{x: number, y: number} | null} */ (null));
  const pins = useRef(/** @type {ReturnType<typeof pinning> | null} */ (null));
  const fingers = useMemo(pinch, []);
  const [, repaint] = useState(0);

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    const colours = window.matchMedia("(prefers-color-scheme: dark)");
    const again = () => repaint((count) => count + 1);
    colours.addEventListener("change", again);
    const themed = new MutationObserver(again);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      observer.disconnect();
      themed.disconnect();
      colours.removeEventListener("change", again);
    };
  }, []);

  const seen = histogram.value;
  const axis = useMemo(() => (seen && width > 0 ? axisOf(seen, width) : null), [seen, width]);
  const pinned = at.value;
  const here = drag?.kind === "scrub" && axis ? offsetAt(axis, drag.x) : pinned ?? head.value?.offset ?? null;
  const cursor = drag?.kind === "scrub" ? drag.x : axis && here !== null ? (pinned === null ? axis.width - 1 : placeOf(axis, Math.min(here, axis.until))) : null;
  const other = axis && versus.value !== null ? placeOf(axis, versus.value) : null;
  const selection = drag?.kind === "brush" && Math.abs(drag.x - drag.from) > BRUSH_PX ? /** @type {[number, number]} */ ([drag.from, drag.x]) : null;

  useLayoutEffect(() => {
    if (canvas.current && axis && seen) paint(canvas.current, axis, seen, { past: cursor, versus: other, selection });
  });

  /** @param {PointerEvent} event */
  const placeIn = (event) => {
    const bounds_ = /** @type {HTMLDivElement} */ (box.current).getBoundingClientRect();
    return { x: Math.max(0, Math.min(bounds_.width, event.clientX - bounds_.left)), y: event.clientY - bounds_.top };
  };
  /** @param {PointerEvent} event */
  const press = (event) => {
    if (!axis || event.button !== 0) return;
    const { x, y } = placeIn(event);
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    if (fingers.press(event, x, axis)) {
      pins.current?.drop();
      return setDrag(null);
    }
    const grips = cursor !== null && Math.abs(x - cursor) < GRIP_PX;
    pins.current = pinning();
    setHover(null);
    const kind = !grips && y < DENSITY.bottom && event.pointerType === "mouse" ? "brush" : "scrub";
    setDrag({ kind, from: x, x });
    if (kind === "scrub" && !grips) pins.current.move(offsetAt(axis, x));
  };
  /** @param {PointerEvent} event */
  const move = (event) => {
    const { x, y } = placeIn(event);
    if (fingers.move(event, x)) return;
    if (!drag || !axis) return setHover(event.pointerType === "mouse" ? { x, y } : null);
    setDrag({ ...drag, x });
    if (drag.kind === "scrub") pins.current?.move(offsetAt(axis, x));
  };
  /** @param {PointerEvent} event */
  const release = (event) => {
    if (fingers.release(event) || !drag || !axis) return;
    const { x } = placeIn(event);
    if (drag.kind === "scrub") pins.current?.end();
    else if (Math.abs(x - drag.from) > BRUSH_PX) {
      const [from, until] = [offsetAt(axis, Math.min(x, drag.from)), offsetAt(axis, Math.max(x, drag.from))];
      if (until > from) change({ z: `${from}-${until}` });
    } else pin(offsetAt(axis, x));
    setDrag(null);
  };
  /** @param {KeyboardEvent} event */
  const keyed = (event) => {
    const act = /** @type {Record<string, () => void>} */ ({
      ArrowLeft: () => step(-1), ArrowDown: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => step(1),
      PageUp: () => toMark(-1), PageDown: () => toMark(1),
      Home: () => bounds.value && pin(bounds.value.first_offset), End: () => pin(null),
    })[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  const time = drag?.kind === "scrub" && axis ? timeAt(axis, drag.x) : Date.parse((pinned === null ? head.value : shown.value)?.decided_at ?? "");
  const epoch = here === null ? null : seen?.leaderships.filter((each) => each.from_offset <= here).at(-1);
  const words = here === null ? "the log is not known yet" : `${UNIT} ${number(here)}, ${absolute(time, zone.value)}${archives ? "" : `, epoch ${epoch?.epoch ?? "–"}`}${label.value && !drag ? `, ${label.value}` : ""}`;
  return html`<div class="scrub-track">
    ${zoom.value && h(Overview, { histogram: overview.value })}
    <div
      ref=${box}
      class=${`scrub-canvas${drag ? " dragged" : ""}`}
      style=${{ height: `${HEIGHT}px` }}
      onPointerDown=${press}
      onPointerMove=${move}
      onPointerUp=${release}
      onPointerCancel=${(/** @type {PointerEvent} */ event) => {
        fingers.release(event);
        setDrag(null);
      }}
      onPointerLeave=${() => setHover(null)}
      onWheel=${(/** @type {WheelEvent} */ event) => wheel(event, axis, placeIn(/** @type {any} */ (event)).x)}
    >
      <canvas ref=${canvas} aria-hidden="true"></canvas>
      ${!seen && html`<p class="scrub-missing">${missing.value || "Reading the log…"}</p>`}
      <div
        class=${`scrub-thumb${pinned === null ? " live" : ""}`}
        role="slider"
        tabindex="0"
        aria-label=${archives ? "Moment of the life" : "Moment of the log"}
        aria-orientation="horizontal"
        aria-valuemin=${bounds.value?.first_offset ?? 0}
        aria-valuemax=${Math.max(bounds.value?.last_offset ?? 0, here ?? 0)}
        aria-valuenow=${here ?? 0}
        aria-valuetext=${pinned === null && !drag ? `${archives ? "the end" : "live"}, ${words}` : words}
        style=${{ transform: `translateX(${cursor ?? -40}px)` }}
        onKeyDown=${keyed}
      ></div>
      ${drag?.kind === "scrub" && axis && html`<output class="scrub-flag" style=${flagAt(drag.x, width)}>
        <b>${number(here)}</b> ${clock(time, zone.value)} ${!archives && html`<span>e${epoch?.epoch ?? "–"}</span>`}
      </output>`}
      ${hover && axis && seen && h(Tip, { axis, seen, hover, width })}
    </div>
  </div>`;
}

/** @param {number} x @param {number} width */
function flagAt(x, width) {
  return x > width / 2 ? { right: `${width - x + 10}px` } : { left: `${x + 10}px` };
}

/** What is under the pointer; it changes nothing. @param {{axis: import("./axis.js").Axis, seen: import("./data.js").Histogram, hover: {x: number, y: number}, width: number}} props */
function Tip({ axis, seen, hover, width }) {
  const { x, y } = hover;
  const offset = offsetAt(axis, x);
  const near = y >= MARKS.top ? marksOf(axis, seen).find((mark) => Math.abs(mark.x - x) < REACH_PX) : undefined;
  const band = y >= BANDS.top && y < MARKS.top ? seen.leaderships.filter((each) => each.from_offset <= offset).at(-1) : undefined;
  const stretch = axis.stretches.find((each) => x < each.x1);
  return html`<div class="scrub-tip" style=${flagAt(x, width)}>
    <b>${number(offset)}</b> · ${clock(timeAt(axis, x), zone.value)}
    ${near
      ? html`${near.marks.slice(0, 6).map((mark) => html`<div>${clock(mark.at, zone.value)} ${mark.label}</div>`)}
          ${near.count + near.others > 6 ? html`<div class="muted">and ${near.count + near.others - 6} more</div>` : ""}`
      : band
        ? html`<div>epoch ${band.epoch}, ${band.master_id}${band.gap_ms ? html`, after ${number(band.gap_ms)} ms without a leader` : ""}</div>`
        : stretch?.bucket
          ? html`<div>${number(stretch.bucket.decisions)} ${archives ? "moments" : "decisions"}${stretch.bucket.failures ? `, ${number(stretch.bucket.failures)} failures` : ""}${stretch.bucket.rejected ? `, ${number(stretch.bucket.rejected)} rejected` : ""}</div>`
          : html`<div>nothing was decided</div>`}
  </div>`;
}

// @ts-check
// The attempts of subtasks as bars over one axis of time, a row per subtask, under the leaderships of that time. Which phases a bar has, and where
// they lie, is phases.js's. Rows out of sight are not drawn.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { stateOf } from "../components/states.js";
import { duration, tick } from "../format.js";
import { h, html } from "../html.js";
import { zone } from "../shell/settings.js";
import { inWords, millis, partsOf, place, rowsOf, spanOf, ticksOf } from "./phases.js";

const ROW_PX = 24;
const BEYOND = 6;
const PX_PER_TICK = 110;

/** @typedef {import("./phases.js").Span} Span */
/** @typedef {import("./phases.js").Attempt} Attempt */
/** @typedef {{epoch: number, master_id: string, from_at: string | null, until_at: string | null, gap_ms: number | null}} Leadership */

/**
 * @param {{attempts: Attempt[], now: number, leaderships: Leadership[], hrefOf: (attempt: Attempt) => string, last?: number | null,
 *   chosen?: string}} props `last` is how many milliseconds of the axis' end are shown, null: all
 */
export function Bars({ attempts, now, leaderships, hrefOf, last = null, chosen }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [sight, setSight] = useState({ top: 0, height: 480, width: 800 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const see = () => setSight({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    const observer = new ResizeObserver(see);
    observer.observe(element);
    element.addEventListener("scroll", see, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", see);
    };
  }, []);
  const rows = useMemo(() => rowsOf(attempts), [attempts]);
  const whole = spanOf(attempts, now);
  const axis = last === null ? whole : { from: Math.max(whole.from, whole.until - last), until: whole.until };
  const ticks = ticksOf(axis, Math.max(3, Math.floor((sight.width * 0.75) / PX_PER_TICK)));
  const first = Math.max(0, Math.floor(sight.top / ROW_PX) - BEYOND);
  const end = Math.min(rows.length, Math.ceil((sight.top + sight.height) / ROW_PX) + BEYOND);
  return html`<div class="bars" ref=${box} tabindex="0" role="region" aria-label="Attempts over time">
    <div class="bars-head" aria-hidden="true">
      <span class="bars-name">subtask</span>
      <span class="bars-axis">
        ${ticks.map((at) => html`<span key=${at} class="tick" style=${{ left: percent(place({ from: at, until: at }, axis)?.left) }}>${tick(at, axis.until - axis.from, zone.value)}</span>`)}
      </span>
    </div>
    <div class="bars-sheet" style=${{ height: rows.length * ROW_PX }}>
      <div class="bars-ground" aria-hidden="true">
        ${ticks.map((at) => html`<span key=${at} class="tick-line" style=${{ left: percent(place({ from: at, until: at }, axis)?.left) }}></span>`)}
        ${leaderships.map((each) => h(Failover, { key: each.epoch, leadership: each, axis }))}
      </div>
      <ul>
        ${rows.slice(first, end).map((row, index) => {
          const key = `${row.vertex_id}[${row.subtask_index}]`;
          return html`<li key=${key} class=${key === chosen ? "chosen" : ""} style=${{ top: (first + index) * ROW_PX, height: ROW_PX }}>
            <a class="bars-name" title=${key} href=${hrefOf(/** @type {Attempt} */ (row.attempts.at(-1)))}>${key}</a>
            <span class="bars-row">${row.attempts.map((attempt) => h(Bar, { key: attempt.attempt, attempt, axis, now, href: hrefOf(attempt) }))}</span>
          </li>`;
        })}
      </ul>
    </div>
  </div>`;
}

/** One attempt. @param {{attempt: Attempt, axis: Span, now: number, href: string}} props */
export function Bar({ attempt, axis, now, href }) {
  const parts = partsOf(attempt, now);
  const [from, until] = [parts[0]?.from, parts.at(-1)?.until];
  const whole = from === undefined || until === undefined ? null : place({ from, until }, axis);
  if (whole === null || from === undefined || until === undefined) return null;
  const { family, glyph } = stateOf(attempt.state);
  const over = attempt.ended_at !== null;
  const where = attempt.task_manager_id ? ` on ${attempt.task_manager_id}` : "";
  const words = `${attempt.vertex_id}[${attempt.subtask_index}]#${attempt.attempt}${where}: ${inWords(parts, duration)}, ${attempt.state}`;
  const seen = { from: Math.max(from, axis.from), until: Math.min(until, axis.until) };
  return html`<a class="bar" href=${href} tabindex="-1" title=${words} aria-label=${words} style=${{ left: percent(whole.left), width: percent(whole.width) }}>
    ${parts.map((part) => {
      const inside = place(part, { from: seen.from, until: Math.max(seen.until, seen.from + 1) });
      return inside && html`<i key=${part.phase} class=${`phase-${part.phase} ${part.phase === "runs" ? family : ""}`} style=${{ left: percent(inside.left), width: percent(inside.width) }}></i>`;
    })}
    ${over && html`<b class=${`end ${family}`}>${glyph}</b>`}
  </a>`;
}

/** Where leadership changed: a line, and before it for how long nobody led. @param {{leadership: Leadership, axis: Span}} props */
function Failover({ leadership, axis }) {
  const from = millis(leadership.from_at);
  const gap = leadership.gap_ms;
  if (from === null || gap === null) return null;
  const at = place({ from: from - gap, until: from }, axis);
  if (at === null || from - gap < axis.from) return null;
  const words = `nobody led for at most ${duration(gap)}, then ${leadership.master_id} in epoch ${leadership.epoch}`;
  return html`<span class="failover" title=${words} style=${{ left: percent(at.left), width: percent(at.width) }}></span>`;
}

/** @param {number | undefined} share */
function percent(share) {
  return `${(share ?? 0).toFixed(4)}%`;
}

/** What the fills mean. */
export function BarsLegend() {
  return html`<p class="legend" aria-hidden="true">
    <span><i class="phase-waits"></i> waits for a slot</span><span><i class="phase-deploys"></i> deploys</span><span><i class="phase-runs running"></i> runs</span>
    <span><i class="phase-runs done"></i> ✔ finished</span><span><i class="phase-runs failed"></i> ✖ failed</span><span><i class="phase-runs neutral"></i> ⊘ cancelled</span>
    <span><i class="failover"></i> nobody leads</span>
  </p>`;
}

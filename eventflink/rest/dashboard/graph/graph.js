// @ts-check
// The graph of a job: vertices with their states counted, edges by how they ship rows. Where things lie is layout.js's, and never changes
// while a job is looked at; what they show changes in place.
//
// Vertices are links over a drawing of the edges, not shapes in it: they take the keyboard's focus, cut long names and follow the theme by
// themselves. Arrow keys go along the edges.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { StateBar, StateCounts } from "../components/state_chip.js";
import { ORDER, stateOf } from "../components/states.js";
import { duration, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { reference } from "../moment.js";
import { edgesBetween, fold } from "./folding.js";
import { layout } from "./layout.js";

const SIZE = { width: 216, along: 92, across: 22 };
const SIZE_DOWN = { width: 196, along: 44, across: 16 };
const HEIGHT = 64;
/** With a line for what was written in which time, or lag and back-pressure. */
const HEIGHT_OF_FACTS = 80;
/** A graph is drawn smaller to fit, but not too small to be read. */
const LEAST_SCALE = 0.62;
const MARGIN = 24;
/** More labels than these lie over each other; then an edge tells its ship strategy on its own. */
const MAX_LABELS = 40;

/** @typedef {import("./folding.js").Group} Group */
/** @typedef {{level: string, ratio: number, reason: string}} BackPressure */
/**
 * @typedef {object} Vertex
 * @property {string} vertex_id
 * @property {string} name
 * @property {number} parallelism
 * @property {Record<string, number>} states
 * @property {boolean} [stream]
 * @property {BackPressure | null} [back_pressure]
 * @property {string | null} [watermark]
 * @property {number | null} [lag]
 * @property {number | null} [write_records]
 * @property {string | null} [began_at]
 * @property {string | null} [ended_at]
 * @property {string | null} [skipped]
 */
/** @typedef {{source: string, target: string, output: string, input_name: string, ship: string, keys: string[], pipelined: boolean}} Edge */

/** What a node of the drawing stands for: a vertex, or a group of them.
 * @param {Group} group @param {Map<string, Vertex>} vertices */
function summed(group, vertices) {
  /** @type {Record<string, number>} */
  const states = {};
  let [parallelism, lag] = [0, 0];
  let behind = false;
  /** @type {BackPressure | null} */
  let worst = null;
  for (const id of group.members) {
    const vertex = vertices.get(id);
    if (!vertex) continue;
    for (const [state, count] of Object.entries(vertex.states)) states[state] = (states[state] ?? 0) + count;
    parallelism += vertex.parallelism;
    if (typeof vertex.lag === "number") {
      lag += vertex.lag;
      behind = true;
    }
    if (vertex.back_pressure && vertex.back_pressure.ratio > (worst?.ratio ?? -1)) worst = vertex.back_pressure;
  }
  const one = group.members.length === 1 ? vertices.get(group.id) : undefined;
  const name = one ? one.name : `${group.id} and ${plural(group.members.length - 1, "other")}`;
  return { name, states, parallelism, lag: behind ? lag : null, pressure: worst, one };
}

/** States with their counts, the worst first. @param {Record<string, number>} states @returns {[string, number][]} */
export function byTrouble(states) {
  return ORDER.filter((state) => (states[state] ?? 0) > 0).map((state) => [state, /** @type {number} */ (states[state])]);
}

/** How long work took, or takes until now. @param {string} began @param {string | null} ended */
export function took(began, ended) {
  return duration(Math.max(0, (ended ? Date.parse(ended) : Math.floor(reference.value / 1000) * 1000) - Date.parse(began)));
}

/** @param {{points: {x: number, y: number}[], down: boolean}} props */
function curve({ points, down }) {
  const [first, ...rest] = points;
  let from = /** @type {{x: number, y: number}} */ (first);
  const parts = [`M${from.x},${from.y}`];
  for (const to of rest) {
    const [dx, dy] = down ? [0, (to.y - from.y) / 2] : [(to.x - from.x) / 2, 0];
    parts.push(`C${from.x + dx},${from.y + dy} ${to.x - dx},${to.y - dy} ${to.x},${to.y}`);
    from = to;
  }
  return parts.join(" ");
}

/** @param {{group: Group, at: {x: number, y: number}, vertices: Map<string, Vertex>, chosen: boolean, href: string, size: {width: number, height: number},
 *   onKey: (event: KeyboardEvent, id: string) => void, onChoose: (event: MouseEvent, id: string) => void, reachable: boolean}} props */
function Node({ group, at, vertices, chosen, href, size, onKey, onChoose, reachable }) {
  const shown = summed(group, vertices);
  const [worst] = byTrouble(shown.states);
  const { family } = stateOf(worst ? worst[0] : "CREATED");
  const pressed = shown.pressure && shown.pressure.level !== "OK" ? shown.pressure : null;
  const { one } = shown;
  const late = one?.watermark ? Math.max(0, Math.floor((reference.value - Date.parse(one.watermark)) / 1000) * 1000) : null;
  const facts = [pressed ? `back-pressure ${pressed.level.toLowerCase()}` : "", shown.lag ? `${number(shown.lag)} behind` : ""].filter(Boolean);
  if (one?.skipped) facts.push("skipped");
  if (late !== null && facts.length === 0) facts.push(`watermark ${duration(late)} back`);
  if (typeof one?.write_records === "number") facts.push(`${number(one.write_records)} written`);
  if (one?.began_at && !one.stream) facts.push(took(one.began_at, one.ended_at ?? null));
  const states = byTrouble(shown.states).map(([state, count]) => `${number(count)} ${state}`);
  const spoken = [`${shown.name}, ${plural(shown.parallelism, "subtask")}`, ...states, ...facts].join(", ");
  return html`<a
    class=${`vertex ${family} ${chosen ? "chosen" : ""} ${group.members.length > 1 ? "stacked" : ""}`}
    href=${href}
    data-vertex=${group.id}
    aria-current=${chosen ? "true" : undefined}
    aria-label=${spoken}
    tabindex=${reachable ? 0 : -1}
    style=${{ left: at.x, top: at.y, width: size.width, height: size.height }}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKey(event, group.id)}
    onClick=${(/** @type {MouseEvent} */ event) => onChoose(event, group.id)}
  >
    <span class="vertex-name"><b title=${shown.name}>${shown.name}</b><span class="muted">×${number(shown.parallelism)}</span></span>
    <span class="vertex-counts" aria-hidden="true">${h(StateCounts, { counts: shown.states })}</span>
    ${facts.length > 0 && html`<span class=${`vertex-facts ${pressed ? `pressed-${pressed.level.toLowerCase()}` : ""}`} title=${pressed?.reason}>${facts.join(" · ")}</span>`}
    <span class="vertex-bar" aria-hidden="true">${h(StateBar, { counts: shown.states })}</span>
    ${pressed && html`<span class=${`pressure pressed-${pressed.level.toLowerCase()}`} style=${{ height: `${Math.round(pressed.ratio * 100)}%` }}></span>`}
  </a>`;
}

/**
 * The graph. `chosen` is the id of the chosen vertex; `hrefOf` gives the address at which another one is chosen.
 *
 * @param {{job: {name: string, vertices: Vertex[], edges: Edge[]}, identity: string, chosen: string | null, hrefOf: (id: string) => string,
 *   onChoose: (id: string) => void}} props `identity` is of the job: the same graph is laid out once
 */
export function Graph({ job, identity, chosen, hrefOf, onChoose }) {
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setRoom(element.clientWidth));
    observer.observe(element);
    setRoom(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const down = room > 0 && room < 560;
  const told = job.vertices.some((vertex) => vertex.began_at);
  const size = { ...(down ? SIZE_DOWN : SIZE), height: told ? HEIGHT_OF_FACTS : HEIGHT };
  const drawn = useMemo(() => {
    const groups = fold(job.vertices.map((vertex) => vertex.vertex_id), job.edges);
    const between = edgesBetween(groups, job.edges);
    const placed = layout(groups, between, { ...size, down });
    const edges = placed.edges.map((edge) => ({
      ...edge,
      of: between.find((each) => each.source === edge.source && each.target === edge.target)?.edges ?? [],
    }));
    return { groups, placed, edges };
  }, [identity, job.vertices.length, down, told]);
  const vertices = useMemo(() => new Map(job.vertices.map((vertex) => [vertex.vertex_id, vertex])), [job.vertices]);
  const chosenGroup = drawn.groups.find((group) => chosen !== null && group.members.includes(chosen))?.id ?? null;
  const { placed } = drawn;
  const [width, height] = [placed.width + 2 * MARGIN, placed.height + 2 * MARGIN];
  const scale = room > 0 ? Math.max(LEAST_SCALE, Math.min(1, room / width)) : 1;

  /** @param {KeyboardEvent} event @param {string} id */
  function onKey(event, id) {
    const target = neighbour(event.key, id, placed, down);
    if (target === null) return;
    event.preventDefault();
    event.stopPropagation();
    const element = /** @type {HTMLElement | null} */ (frame.current?.querySelector(`[data-vertex="${CSS.escape(target)}"]`) ?? null);
    element?.focus();
  }
  /** @param {MouseEvent} event @param {string} id */
  function choose(event, id) {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    onChoose(id);
  }
  const few = drawn.edges.length <= MAX_LABELS;
  const entry = chosenGroup ?? drawn.groups[0]?.id;
  return html`<div class=${`graph ${down ? "down" : ""}`} ref=${frame}>
    <div class="graph-scroll" role="group" aria-label=${`Graph of ${job.name}: ${plural(job.vertices.length, "vertex", "vertices")}`}>
      <div class="graph-sheet" style=${{ width: width * scale, height: height * scale }}>
       <div class="graph-paper" style=${{ width, height, transform: `scale(${scale})` }}>
        <svg width=${width} height=${height} viewBox=${`${-MARGIN} ${-MARGIN} ${width} ${height}`} aria-hidden="true">
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto"><path d="M0,0.5 L7.5,4 L0,7.5 z" /></marker>
          </defs>
          ${drawn.edges.map((edge) => {
            const near = chosenGroup !== null && (edge.source === chosenGroup || edge.target === chosenGroup);
            const pipelined = edge.of.some((each) => each.pipelined);
            return html`<path key=${`${edge.source} ${edge.target}`} class=${`edge ${pipelined ? "pipelined" : "blocking"} ${near ? "near" : ""}`}
              d=${curve({ points: edge.points, down })} marker-end="url(#arrow)"><title>${edgeInWords(edge.of)}</title></path>`;
          })}
        </svg>
        ${drawn.edges
          .filter((edge) => few || edge.source === chosenGroup || edge.target === chosenGroup)
          .map((edge) => {
            const [one, other] = middleOf(edge.points);
            const ships = [...new Set(edge.of.map((each) => each.ship.toLowerCase()))].join(", ");
            return html`<span key=${`${edge.source} ${edge.target}`} class="edge-label" title=${edgeInWords(edge.of)}
              style=${{ left: (one.x + other.x) / 2 + MARGIN, top: (one.y + other.y) / 2 + MARGIN }}>${ships}</span>`;
          })}
        <div class="graph-nodes">
          ${drawn.groups.map((group, index) =>
            h(Node, {
              key: group.id, group, vertices, size, onKey, onChoose: choose,
              at: /** @type {{x: number, y: number}} */ (placed.nodes[index]),
              chosen: group.id === chosenGroup,
              href: hrefOf(group.id),
              reachable: group.id === entry,
            }),
          )}
        </div>
       </div>
      </div>
    </div>
  </div>`;
}

/** Where an arrow key leads from a vertex: along an edge, or to the next of its layer.
 * @param {string} key @param {string} id @param {import("./layout.js").Layout} placed @param {boolean} down */
function neighbour(key, id, placed, down) {
  const [forward, back, next, previous] = down
    ? ["ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"]
    : ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"];
  if (key === forward) return placed.edges.find((edge) => edge.source === id)?.target ?? null;
  if (key === back) return placed.edges.find((edge) => edge.target === id)?.source ?? null;
  if (key !== next && key !== previous) return null;
  const layer = placed.layers.find((each) => each.includes(id)) ?? [];
  return layer[layer.indexOf(id) + (key === next ? 1 : -1)] ?? null;
}

/** The two points between which the middle of an edge lies. @param {{x: number, y: number}[]} points */
function middleOf(points) {
  const half = Math.max(1, Math.floor(points.length / 2));
  return /** @type {[{x: number, y: number}, {x: number, y: number}]} */ ([points[half - 1], points[half]]);
}

/** @param {Edge[]} edges */
function edgeInWords(edges) {
  const words = edges.slice(0, 8).map((edge) => {
    const keys = edge.keys.length > 0 ? ` by ${edge.keys.join(", ")}` : "";
    const how = edge.pipelined ? "pipelined" : "blocking: it is read when its writer has finished";
    return `${edge.source} → ${edge.target}: ${edge.ship.toLowerCase()}${keys}, ${how}`;
  });
  return words.join("\n") + (edges.length > 8 ? `\nand ${plural(edges.length - 8, "other")}` : "");
}

// @ts-check
// A file of a process: its lines with their numbers, filtered, followed. Files are not in the log of decisions, so they are always of now; asking for
// one is an order to the TaskExecutor that stands in that log, which is why nothing asks again by itself unless somebody follows.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError } from "../api.js";
import { Copy } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { bytes, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at } from "../moment.js";
import { LEVELS, chosen, hashOf, linesOf, rangeOf } from "./lines.js";

const LINE_PX = 18;
const BEYOND = 20;
const FOLLOW_MS = 5000;
const MAX_WRAPPED = 1000;

/** @typedef {{text: string, first_line: number, size_bytes: number}} File */
/** @typedef {import("./lines.js").Level} Level */

/** @param {{load: (signal: AbortSignal) => Promise<File>, identity: string, label: string}} props `identity` is of the file */
export function LogView({ load, identity, label }) {
  const [found, setFound] = useState(/** @type {{file: File | null, errors: string[], asking: boolean}} */ ({ file: null, errors: [], asking: true }));
  const [asked, setAsked] = useState(0);
  const [follow, setFollow] = useState(false);
  const [wrap, setWrap] = useState(false);
  const [least, setLeast] = useState(/** @type {Level} */ ("DEBUG"));
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    const controller = new AbortController();
    setFound((before) => ({ ...before, asking: true }));
    load(controller.signal).then(
      (file) => !controller.signal.aborted && setFound({ file, errors: [], asking: false }),
      (error) => !controller.signal.aborted && setFound((before) => ({ ...before, errors: error instanceof ApiError ? error.errors : [String(error)], asking: false })),
    );
    return () => controller.abort();
  }, [identity, asked]);
  useEffect(() => {
    if (!follow || found.asking) return undefined;
    const timer = window.setTimeout(() => !document.hidden && setAsked((count) => count + 1), FOLLOW_MS);
    return () => window.clearTimeout(timer);
  }, [follow, found]);
  const { file } = found;
  const lines = useMemo(() => (file ? linesOf(file.text, file.first_line) : []), [file]);
  const shown = useMemo(() => chosen(lines, least, wanted), [lines, least, wanted]);
  const past = at.value !== null;
  return html`<div class="log">
    <div class="log-tools">
      <input type="search" placeholder="filter lines" aria-label="Filter lines" value=${wanted} onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
      <label class="inline-field">from <select value=${least} onChange=${(/** @type {any} */ event) => setLeast(event.target.value)} aria-label="Least level">${LEVELS.map((level) => html`<option key=${level}>${level}</option>`)}</select></label>
      <button class=${`button small ${wrap ? "pressed" : ""}`} aria-pressed=${wrap} onClick=${() => setWrap(!wrap)}>wrap</button>
      <button class=${`button small ${follow ? "pressed" : ""}`} aria-pressed=${follow} disabled=${past} title=${`asks every ${FOLLOW_MS / 1000} s; each time is an order in the log`} onClick=${() => setFollow(!follow)}>follow</button>
      <button class="button small" disabled=${found.asking} onClick=${() => setAsked(asked + 1)}>${found.asking ? "asking…" : "ask again"}</button>
      ${file && h(Copy, { text: file.text, label: "what is shown of the file" })}
      <span class="muted">${file ? `${number(shown.length)} of ${plural(lines.length, "line")}, ${file.first_line > 1 ? "the end of " : ""}${bytes(file.size_bytes)}` : ""}</span>
      ${past && html`<span class="not-recorded">not recorded: taken now</span>`}
    </div>
    ${found.errors.map((line) => html`<p class="refused" role="alert">${line}</p>`)}
    ${file && lines.length === 0 && h(Empty, { title: "The file is empty.", small: true })}
    ${shown.length > 0 && h(Lines, { lines: shown, wrap, follow, onLeave: () => setFollow(false), label })}
  </div>`;
}

/** @param {{lines: import("./lines.js").Line[], wrap: boolean, follow: boolean, onLeave: () => void, label: string}} props */
function Lines({ lines, wrap, follow, onLeave, label }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [sight, setSight] = useState({ top: 0, height: 500 });
  const [marked, setMarked] = useState(() => rangeOf(window.location.hash));
  const away = lines.length * LINE_PX - sight.top - sight.height > LINE_PX * 2;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const line = marked ? lines.findIndex((each) => each.number >= marked.from) : -1;
    element.scrollTop = line >= 0 ? Math.max(0, (line - 5) * LINE_PX) : element.scrollHeight;
  }, []);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follow]);
  const see = () => {
    const element = box.current;
    if (!element) return;
    if (follow && element.scrollTop < sight.top - LINE_PX) onLeave();
    setSight({ top: element.scrollTop, height: element.clientHeight });
  };
  /** @param {MouseEvent} event @param {number} line */
  function mark(event, line) {
    event.preventDefault();
    const range = event.shiftKey && marked ? { from: Math.min(marked.from, line), until: Math.max(marked.from, line) } : { from: line, until: line };
    setMarked(range);
    window.history.replaceState(null, "", hashOf(range));
  }
  const drawn = wrap ? lines.slice(-MAX_WRAPPED) : lines.slice(Math.max(0, Math.floor(sight.top / LINE_PX) - BEYOND), Math.ceil((sight.top + sight.height) / LINE_PX) + BEYOND);
  const above = wrap ? 0 : lines.indexOf(/** @type {any} */ (drawn[0]));
  const below = wrap ? 0 : lines.length - above - drawn.length;
  return html`<div class=${`log-lines ${wrap ? "wrapped" : ""}`} ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${see}>
      <div style=${{ height: above * LINE_PX }}></div>
      ${drawn.map((line) => {
        const inside = marked && line.number >= marked.from && line.number <= marked.until;
        return html`<div key=${line.number} class=${`log-line level-${(line.level ?? "none").toLowerCase()} ${inside ? "marked" : ""}`}>
          <a tabindex="-1" href=${`#L${line.number}`} aria-label=${`Line ${line.number}`} onClick=${(/** @type {MouseEvent} */ event) => mark(event, line.number)}>${line.number}</a><code>${line.text || " "}</code>
        </div>`;
      })}
      <div style=${{ height: below * LINE_PX }}></div>
    </div>
    ${away && !wrap && html`<button class="button small to-end" onClick=${() => box.current?.scrollTo({ top: box.current.scrollHeight })}>jump to the end</button>`}`;
}

// @ts-check
// A table of any length that draws the rows in sight alone. Its rows have one height, so what is in sight is arithmetic; where they would be higher
// than a browser can scroll, the scrollbar stands for shares of the rows. Rows are all given, or fetched by windows as they come into sight.
// Where a page says which row is where, rows do not move under who has scrolled or points at them: new ones are announced, and shown when wanted.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../format.js";
import { h, html } from "../html.js";
import { Empty } from "./empty.js";

const BEYOND = 8;
const WINDOW = 100;
const MOST_WINDOWS = 50;
const REST_MS = 60;
const MOST_HIGH_PX = 8_000_000;

/** @typedef {{key: string, title: string, width?: string, align?: "start" | "end", phone?: boolean, sortable?: boolean, hint?: string,
 *   render: (row: any, index: number) => any}} Column phone: false leaves it out on narrow screens */

/**
 * @param {{label: string, columns: Column[], rows?: any[], total?: number, fetch?: (first: number, limit: number) => Promise<any[]>,
 *   list?: string, revision?: unknown, rowKey?: (row: any) => string, place?: (key: string) => number | null, newer?: string,
 *   onHold?: (key: string | null) => void, onNewest?: () => void, open?: (row: any) => void, sort?: string, onSort?: (key: string) => void,
 *   mark?: (row: any) => string, empty?: any, height?: string,
 *   fixed?: boolean}} props
 * `rows` are the first (or all) rows, `total` how many there are; `fetch` gives others. `list` names what the rows are of, and `revision` changes when
 * they are of a newer state. `place` says where a row is now, so that it stays where it was; or the page itself keeps rows while `onHold` names the
 * first in sight (null: nobody looks), announces others by `newer`, and shows them `onNewest`.
 * `fixed`: columns have the widths that they say, and those that say none share the rest.
 */
export function Table({
  label, columns, rows = [], total = rows.length, fetch, list = "", revision, rowKey, place, newer = "", onHold, onNewest, open, sort, onSort, mark, empty, height,
  fixed = false,
}) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const windows = useRef(/** @type {Map<number, any[] | null>} */ (new Map()));
  const drawn = useRef({ list, revision, hidden: 0, top: 0, owed: 0, first: rows[0], rows: /** @type {Map<number, any>} */ (new Map()) });
  const pointed = useRef(false);
  const [sight, setSight] = useState({ top: 0, height: 600, row: 28 });
  const [, setDrawings] = useState(0);
  const redraw = () => setDrawings((count) => count + 1);

  const known = drawn.current;
  if (known.list !== list || known.revision !== revision) {
    const kept = known.list === list && place && rowKey && (pointed.current || sight.top > 0);
    const moved = kept ? movedBy(known, rowKey, place) : 0;
    // What was drawn stands in for what is fetched anew.
    known.rows = known.list === list ? new Map([...known.rows].map(([index, row]) => [index + moved, row])) : new Map();
    known.owed = kept ? Math.min(0, known.hidden + moved) : 0;
    known.hidden = kept ? Math.max(0, known.hidden + moved) : 0;
    [known.list, known.revision] = [list, revision];
    windows.current = new Map();
  }
  const { hidden } = known;
  const count = Math.max(0, total - hidden);
  const newest = () => {
    known.hidden = 0;
    redraw();
    onNewest?.();
  };
  const atTop = useRef(newest);
  atTop.current = newest;

  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [list]);
  useLayoutEffect(() => {
    // Rows above have gone: those in sight stay where they are.
    if (box.current && known.owed) box.current.scrollTop += known.owed * sight.row;
    known.owed = 0;
  }, [revision]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let before = element.scrollTop;
    const look = () => {
      if (before > 0 && element.scrollTop === 0) atTop.current();
      before = element.scrollTop;
      const row = Number.parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 28;
      setSight((last) => {
        const now = { top: element.scrollTop, height: element.clientHeight, row };
        return last.top === now.top && last.height === now.height && last.row === now.row ? last : now;
      });
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [total === 0]);

  const full = count * sight.row;
  const high = Math.min(full, MOST_HIGH_PX);
  const inner = Math.max(0, sight.height - sight.row);
  const share = high > inner ? Math.min(1, sight.top / (high - inner)) : 0;
  const top = full > high ? share * (full - inner) : sight.top;
  const topmost = Math.max(0, Math.min(count - 1, Math.floor(top / sight.row)));
  const first = Math.max(0, topmost - BEYOND);
  const last = Math.min(count, Math.ceil((top + inner) / sight.row) + BEYOND);
  const before = full > high ? Math.max(0, sight.top - (top - first * sight.row)) : first * sight.row;

  /** @param {number} index */
  const rowAt = (index) => rows[index] ?? windows.current.get(Math.floor(index / WINDOW))?.[index % WINDOW] ?? known.rows.get(index);

  const hold = () => {
    const row = rowAt(topmost + hidden);
    onHold?.(row !== undefined && rowKey && (pointed.current || sight.top > 0) ? rowKey(row) : null);
  };
  useEffect(hold);
  useEffect(() => () => onHold?.(null), []);
  useEffect(() => {
    if (!fetch) return undefined;
    const asked = windows.current;
    // Once the rows rest: whoever drags the scrollbar along asks for none of those in between.
    const resting = window.setTimeout(() => {
      for (let part = Math.floor((first + hidden) / WINDOW); part * WINDOW < last + hidden; part += 1) {
        if (asked.has(part) || (part + 1) * WINDOW <= rows.length || (rows.length >= total && part * WINDOW < rows.length)) continue;
        asked.set(part, null);
        if (asked.size > MOST_WINDOWS) asked.delete(/** @type {number} */ (asked.keys().next().value));
        fetch(part * WINDOW, WINDOW).then(
          (found) => {
            asked.set(part, found);
            redraw();
          },
          () => asked.delete(part),
        );
      }
    }, REST_MS);
    return () => window.clearTimeout(resting);
  });

  if (total === 0) return empty ?? h(Empty, { title: "There is nothing to show.", small: true });
  /** @type {number[]} */
  const indices = [];
  for (let index = first + hidden; index < last + hidden; index += 1) indices.push(index);
  known.top = topmost + hidden;
  [known.first] = rows;
  known.rows = new Map(indices.flatMap((index) => (rowAt(index) === undefined ? [] : [[index, rowAt(index)]])));
  const news = newer || (hidden ? `${number(hidden)} new` : "");
  return html`<div
    class="table-box"
    ref=${box}
    tabindex="0"
    role="region"
    aria-label=${label}
    style=${height ? { maxHeight: height } : undefined}
    onPointerEnter=${() => {
      pointed.current = true;
      hold();
    }}
    onPointerLeave=${() => {
      pointed.current = false;
      hold();
      if (sight.top === 0 && news) newest();
    }}
  >
    <div class="newer" role="status">${news && html`<button class="button small" onClick=${() => {
      box.current?.scrollTo(0, 0);
      newest();
    }}>${news} ↑</button>`}</div>
    <table class=${`table${fixed ? " fixed" : ""}`} aria-rowcount=${total + 1} style=${{ height: `${high + sight.row}px` }}>
      <caption class="visually-hidden">${label}</caption>
      <thead>
        <tr aria-rowindex="1">
          ${columns.map((column) => h(Heading, { key: column.key, column, sort, onSort }))}
        </tr>
      </thead>
      <tbody>
        <tr class="spacer" aria-hidden="true" style=${{ height: `${before}px` }}></tr>
        ${indices.map((index) => {
          const row = rowAt(index);
          if (row === undefined) {
            return html`<tr key=${index} class="awaited" aria-rowindex=${index + 2}><td colspan=${columns.length}><i></i></td></tr>`;
          }
          return html`<tr
            key=${rowKey ? rowKey(row) : index}
            class=${`${open ? "opens " : ""}${mark?.(row) ?? ""}`}
            aria-rowindex=${index + 2}
            onClick=${open && ((/** @type {MouseEvent} */ event) => opened(event) && open(row))}
          >
            ${columns.map(
              (column) => html`<td class=${`${column.align === "end" ? "number" : ""}${column.phone === false ? " wide-only" : ""}`}>
                ${column.render(row, index)}
              </td>`,
            )}
          </tr>`;
        })}
        <tr class="spacer" aria-hidden="true"></tr>
      </tbody>
    </table>
  </div>`;
}

/** By how many rows those in sight have moved: as the first does of which it is known. Where none is (the page was asked for before somebody scrolled
 * to them), as the first of all does. @param {{rows: Map<number, any>, top: number, first: any}} drawn rows by index, `top` the first in sight
 * @param {(row: any) => string} rowKey @param {(key: string) => number | null} place */
function movedBy({ rows, top, first }, rowKey, place) {
  const inSight = [...rows].filter(([index]) => index >= top);
  for (const [index, row] of first === undefined ? inSight : [...inSight, [0, first]]) {
    const now = place(rowKey(row));
    if (now !== null) return now - index;
  }
  return 0;
}

/** Whether a click on a row means the row, and not a link in it or a selection. @param {MouseEvent} event */
function opened(event) {
  const inside = event.target instanceof Element && event.target.closest("a, button, input, time");
  return !inside && !window.getSelection()?.toString();
}

/** @param {{column: Column, sort?: string, onSort?: (key: string) => void}} props */
function Heading({ column, sort, onSort }) {
  const sorted = sort === column.key;
  const name = `${column.align === "end" ? "number" : ""}${column.phone === false ? " wide-only" : ""}`;
  return html`<th scope="col" class=${name} style=${column.width ? { width: column.width } : undefined} aria-sort=${sorted ? "descending" : undefined} title=${column.hint}>
    ${column.sortable && onSort
      ? html`<button class="sort" onClick=${() => onSort(column.key)}>${column.title}<span aria-hidden="true">${sorted ? " ↓" : ""}</span></button>`
      : column.title}
  </th>`;
}

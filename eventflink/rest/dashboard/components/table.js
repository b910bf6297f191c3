// @ts-check
// A table of any length that draws the rows in sight alone. Its rows have one height, so what is in sight is arithmetic; where they would be higher
// than a browser can scroll, the scrollbar stands for shares of the rows. Rows are all given, or fetched by windows as they come into sight.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
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
 *   revision?: unknown, rowKey?: (row: any) => string, open?: (row: any) => void, sort?: string, onSort?: (key: string) => void,
 *   mark?: (row: any) => string, empty?: any, height?: string,
 *   fixed?: boolean}} props
 * `rows` are the first (or all) rows, `total` how many there are; `fetch` gives others; `revision` changes when those are to be forgotten;
 * `fixed`: columns have the widths that they say, and those that say none share the rest.
 */
export function Table({ label, columns, rows = [], total = rows.length, fetch, revision, rowKey, open, sort, onSort, mark, empty, height, fixed = false }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const windows = useRef(/** @type {Map<number, any[] | null>} */ (new Map()));
  const [sight, setSight] = useState({ top: 0, height: 600, row: 28 });
  const [, setArrived] = useState(0);

  useLayoutEffect(() => {
    windows.current = new Map();
  }, [revision]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const look = () => {
      const row = Number.parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 28;
      setSight((before) => {
        const now = { top: element.scrollTop, height: element.clientHeight, row };
        return before.top === now.top && before.height === now.height && before.row === now.row ? before : now;
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

  const full = total * sight.row;
  const high = Math.min(full, MOST_HIGH_PX);
  const inner = Math.max(0, sight.height - sight.row);
  const share = high > inner ? Math.min(1, sight.top / (high - inner)) : 0;
  const top = full > high ? share * (full - inner) : sight.top;
  const first = Math.max(0, Math.min(total - 1, Math.floor(top / sight.row)) - BEYOND);
  const last = Math.min(total, Math.ceil((top + inner) / sight.row) + BEYOND);
  const before = full > high ? Math.max(0, sight.top - (top - first * sight.row)) : first * sight.row;

  /** @param {number} index */
  const rowAt = (index) => rows[index] ?? windows.current.get(Math.floor(index / WINDOW))?.[index % WINDOW];

  useEffect(() => {
    if (!fetch) return undefined;
    const known = windows.current;
    // Once the rows rest: whoever drags the scrollbar along asks for none of those in between.
    const resting = window.setTimeout(() => {
      for (let number = Math.floor(first / WINDOW); number * WINDOW < last; number += 1) {
        if (known.has(number) || (number + 1) * WINDOW <= rows.length || (rows.length >= total && number * WINDOW < rows.length)) continue;
        known.set(number, null);
        if (known.size > MOST_WINDOWS) known.delete(/** @type {number} */ (known.keys().next().value));
        fetch(number * WINDOW, WINDOW).then(
          (found) => {
            known.set(number, found);
            setArrived((count) => count + 1);
          },
          () => known.delete(number),
        );
      }
    }, REST_MS);
    return () => window.clearTimeout(resting);
  });

  if (total === 0) return empty ?? h(Empty, { title: "There is nothing to show.", small: true });
  const drawn = [];
  for (let index = first; index < last; index += 1) drawn.push(index);
  return html`<div class="table-box" ref=${box} tabindex="0" role="region" aria-label=${label} style=${height ? { maxHeight: height } : undefined}>
    <table class=${`table${fixed ? " fixed" : ""}`} aria-rowcount=${total + 1} style=${{ height: `${high + sight.row}px` }}>
      <caption class="visually-hidden">${label}</caption>
      <thead>
        <tr aria-rowindex="1">
          ${columns.map((column) => h(Heading, { key: column.key, column, sort, onSort }))}
        </tr>
      </thead>
      <tbody>
        <tr class="spacer" aria-hidden="true" style=${{ height: `${before}px` }}></tr>
        ${drawn.map((index) => {
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

// @ts-check
// Taking what a table shows elsewhere: all of its rows as CSV or JSON, whatever is in sight, or the command or the query that gives the same.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api.js";
import { number } from "../format.js";
import { h } from "../html.js";
import { copy } from "./copy.js";
import { Menu } from "./menu.js";
import { csv } from "./rows.js";
import { toast } from "./toast.js";

/** So many rows are taken at most; a notice says so where there are more. */
export const MOST_ROWS = 10_000;
export const PAGE_ROWS = 1_000;
/** For how long a file is there for the browser to save it. */
const KEPT_MS = 60_000;

/** @typedef {{rows: any[], next: any}} Part rows, and where those begin that come next; null: there are no more */

/** @param {{name: string, offset: number, part: (from: any, signal: AbortSignal) => Promise<Part>, command?: string, sql?: string | null}} props
 * `name` of what the rows are, `offset` of the state that they are of, `part` gives them from a place on (null: the beginning); `sql` null: no query ever does. */
export function Export({ name, offset, part, command, sql }) {
  const [asking, setAsking] = useState(false);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  /** @param {"csv" | "json"} form */
  const take = async (form) => {
    const { signal } = leaving.current;
    setAsking(true);
    try {
      /** @type {any[]} */
      const rows = [];
      let next = null;
      do {
        const found = await part(next, signal);
        rows.push(...found.rows);
        next = found.next;
      } while (next !== null && rows.length < MOST_ROWS);
      save(`${name}-${offset}.${form}`, form === "csv" ? csv(rows) : JSON.stringify(rows, null, 2), form === "csv" ? "text/csv" : "application/json");
      const bound = next === null ? "" : ", and there are more: filter them, or use the command";
      toast(`Exported ${number(rows.length)} ${name} as of offset ${number(offset)}${bound}.`, { kind: next === null ? "done" : "failed" });
    } catch (error) {
      if (!signal.aborted) toast(error instanceof ApiError ? error.message : String(error), { kind: "failed" });
    } finally {
      if (!signal.aborted) setAsking(false);
    }
  };
  const none = "none gives the same rows";
  return h(Menu, {
    label: asking ? "Exporting…" : "Export",
    name: `Export of ${name}`,
    look: "button small",
    items: [
      ...(/** @type {const} */ (["csv", "json"])).map((form) => ({
        id: form, title: `Save all rows as ${form.toUpperCase()}`, why: asking ? "one is being made" : undefined, act: () => void take(form),
      })),
      { id: "command", title: "Copy as command", why: command ? undefined : none, act: () => void copy(command ?? "", "the command") },
      ...(sql === null ? [] : [{ id: "sql", title: "Copy as SQL", why: sql ? undefined : none, act: () => void copy(sql ?? "", "the query for eventflink audit") }]),
    ],
  });
}

/** @param {string} name @param {string} text @param {string} type */
function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

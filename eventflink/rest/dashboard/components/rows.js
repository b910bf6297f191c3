// @ts-check
// What a table shows, for elsewhere: rows as CSV, and the command or the query that gives the same. Pure.

/** A row's fields as columns; fields of fields are JSON. A text that a spreadsheet would take for a formula is marked as text. @param {any[]} rows */
export function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((fields) => `${fields.map(cell).join(",")}\r\n`).join("");
}

/** @param {unknown} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A word as a shell takes it. @param {string} text */
export function quoted(text) {
  return /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command that lists these jobs; undefined: there is none. @param {Record<string, string>} query @param {{pinned: boolean, total: number}} of */
export function jobsCommand(query, { pinned, total }) {
  if (pinned || query.name || query.actor) return undefined;
  const statuses = (query.status ?? "").split(",").filter(Boolean);
  return ["eventflink list", ...statuses.map((status) => `--status ${quoted(status)}`), ...(total > 100 ? [`--limit ${total}`] : [])].join(" ");
}

/** What a checkpoint that goes well leaves in the log: several events, every few seconds. One that fails is never hidden. */
export const CHECKPOINTS = ["CheckpointTriggered", "CheckpointAcknowledged", "CheckpointCompleted", "CheckpointSubsumed"];

/** What is asked of the server to hide them; empty: they are shown. @param {Record<string, string>} query */
export function without(query) {
  return query.checkpoints === "hidden" ? CHECKPOINTS.map((type) => `&without=${type}`).join("") : "";
}

/** The command that prints these events, the oldest first; undefined: there is none. @param {Record<string, string>} query @param {number | null} until */
export function eventsCommand(query, until) {
  if (query.checkpoints === "hidden") return undefined;
  const last = query.until ?? (until === null ? undefined : String(until));
  const options = /** @type {[string, string | undefined][]} */ ([
    ["type", query.type], ["job", query.job], ["task-manager", query.task_manager], ["from", query.from], ["until", last],
  ]);
  const given = options.filter(([, value]) => value).map(([name, value]) => `--${name} ${quoted(value ?? "")}`);
  return ["eventflink events", ...given, ...(query.rejected === "true" ? ["--rejected"] : [])].join(" ");
}

/** The query of `eventflink audit` for these events; undefined: whose an event is, or when, no column says as the filter means it.
 * @param {Record<string, string>} query @param {number | null} until */
export function eventsSql(query, until) {
  const last = query.until ?? (until === null ? undefined : String(until));
  const offsets = [query.from, last].filter((place) => place !== undefined);
  if (query.job || query.task_manager || !offsets.every((place) => /^\d+$/.test(place ?? ""))) return undefined;
  const type = query.type?.replaceAll("'", "''");
  const conditions = [
    ...(type ? [`lower(type) = lower('${type}')`] : []),
    ...(query.checkpoints === "hidden" ? [`type NOT IN (${CHECKPOINTS.map((each) => `'${each}'`).join(", ")})`] : []),
    ...(query.rejected === "true" ? ["NOT accepted"] : []),
    ...(query.from ? [`log_offset >= ${query.from}`] : []),
    ...(last ? [`log_offset <= ${last}`] : []),
  ];
  const where = conditions.length ? ` WHERE ${conditions.join(" AND ")}` : "";
  const direction = query.order === "oldest" ? "" : " DESC";
  return `SELECT * FROM events${where} ORDER BY log_offset${direction}, event_index${direction}`;
}

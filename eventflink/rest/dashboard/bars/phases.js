// @ts-check
// The attempts of subtasks as bars: which phases each went through, and where they lie on an axis of time.
//
// Pure; times are milliseconds of the log's clock. What the log does not say is absent: a phase begins with the time that is known, and
// ends with the next one. Drawing is `bars.js`.

/** @typedef {"waits" | "deploys" | "runs"} Phase */
/** @typedef {{phase: Phase, from: number, until: number}} Part */
/** @typedef {{from: number, until: number}} Span */
/**
 * @typedef {object} Attempt
 * @property {string} vertex_id
 * @property {number} subtask_index
 * @property {number} attempt
 * @property {string} state
 * @property {string | null} scheduled_at
 * @property {string | null} deployed_at
 * @property {string | null} running_at
 * @property {string | null} ended_at
 * @property {string | null} task_manager_id
 */
/** @typedef {{vertex_id: string, subtask_index: number, attempts: Attempt[]}} Row */

/** What a tick may stand for, from a millisecond to a week. */
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10_800e3,
  21_600e3, 43_200e3, 86_400e3, 172_800e3, 604_800e3,
];

/** @param {string | null | undefined} iso */
export function millis(iso) {
  return iso ? Date.parse(iso) : null;
}

/**
 * @param {Attempt} attempt
 * @param {number} now until when what has not ended lasts
 * @returns {Part[]} without those of no length, but for the last one: an attempt that failed at once has a place
 */
export function partsOf(attempt, now) {
  const end = millis(attempt.ended_at) ?? now;
  /** @type {[Phase, number | null][]} */
  const begins = [
    ["waits", millis(attempt.scheduled_at)],
    ["deploys", millis(attempt.deployed_at)],
    ["runs", millis(attempt.running_at)],
  ];
  const known = /** @type {[Phase, number][]} */ (begins.filter(([, from]) => from !== null));
  const parts = known.map(([phase, from], index) => ({ phase, from, until: Math.max(from, known[index + 1]?.[1] ?? end) }));
  return parts.filter(({ from, until }, index) => until > from || index + 1 === parts.length);
}

/** @param {Attempt} attempt */
export function hasBegun(attempt) {
  return Boolean(attempt.scheduled_at ?? attempt.deployed_at ?? attempt.running_at);
}

/**
 * The attempts of each subtask in one row, in the order in which the first of each came; without those of which no time is known: they never began.
 *
 * @param {readonly Attempt[]} attempts
 * @returns {Row[]}
 */
export function rowsOf(attempts) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const each of attempts) {
    if (!hasBegun(each)) continue;
    const key = `${each.vertex_id}[${each.subtask_index}]`;
    const row = rows.get(key);
    if (row) row.attempts.push(each);
    else rows.set(key, { vertex_id: each.vertex_id, subtask_index: each.subtask_index, attempts: [each] });
  }
  for (const row of rows.values()) row.attempts.sort((one, other) => one.attempt - other.attempt);
  return [...rows.values()];
}

/**
 * From the first that happened to any of them to the last, at least a second.
 *
 * @param {readonly Attempt[]} attempts
 * @param {number} now
 * @returns {Span}
 */
export function spanOf(attempts, now) {
  let [from, until] = [Infinity, -Infinity];
  for (const each of attempts) {
    const begin = millis(each.scheduled_at) ?? millis(each.deployed_at) ?? millis(each.running_at) ?? millis(each.ended_at);
    if (begin === null) continue;
    from = Math.min(from, begin);
    until = Math.max(until, millis(each.ended_at) ?? now);
  }
  if (from > until) return { from: now - 1000, until: now };
  return { from, until: Math.max(until, from + 1000) };
}

/**
 * Where a part of the axis lies, in percent; null: outside of it.
 *
 * @param {Span} part
 * @param {Span} axis
 * @returns {{left: number, width: number} | null}
 */
export function place(part, axis) {
  const [from, until] = [Math.max(part.from, axis.from), Math.min(part.until, axis.until)];
  if (until < from) return null;
  const whole = axis.until - axis.from;
  return { left: ((from - axis.from) / whole) * 100, width: ((until - from) / whole) * 100 };
}

/**
 * Ticks at round times, at most `most` of them.
 *
 * @param {Span} axis
 * @param {number} most
 * @returns {number[]}
 */
export function ticksOf(axis, most) {
  const whole = axis.until - axis.from;
  const step = STEPS_MS.find((each) => whole / each <= most) ?? Math.ceil(whole / most / 604_800e3) * 604_800e3;
  const ticks = [];
  for (let tick = Math.ceil(axis.from / step) * step; tick <= axis.until && ticks.length <= most; tick += step) ticks.push(tick);
  return ticks;
}

/**
 * How long an attempt was in each phase, in words for a reader who does not see the bar.
 *
 * @param {readonly Part[]} parts
 * @param {(ms: number) => string} duration
 */
export function inWords(parts, duration) {
  const words = { waits: "waited", deploys: "was deployed for", runs: "ran" };
  return parts.map(({ phase, from, until }) => `${words[phase]} ${duration(until - from)}`).join(", ");
}

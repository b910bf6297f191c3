// @ts-check
// The states of jobs and tasks: glyph, family of colours, and whether it is on the way (hollow) or there (solid). Pure. The classes of the same
// names as the families set --ink, --mark and --tint.

/** @typedef {"neutral" | "waits" | "running" | "done" | "failed"} Family */
/** @typedef {{glyph: string, family: Family, hollow: boolean, order: number}} Look order: what needs somebody comes first */

/** In the order in which they stand in a bar or a row of chips. @type {[string, string, Family, boolean][]} */
const TASKS = [
  ["FAILED", "✖", "failed", false],
  ["FAILING", "✖", "failed", true],
  ["RESTARTING", "⟲", "waits", false],
  ["SCHEDULED", "◔", "waits", false],
  ["CREATED", "○", "neutral", false],
  ["INITIALIZING", "◐", "running", true],
  ["DEPLOYING", "⇡", "running", true],
  ["RECONCILING", "⇄", "running", true],
  ["RUNNING", "▶", "running", false],
  ["SUSPENDED", "‖", "neutral", false],
  ["CANCELING", "⊘", "neutral", true],
  ["CANCELLING", "⊘", "neutral", true],
  ["CANCELED", "⊘", "neutral", false],
  ["FINISHED", "✔", "done", false],
];
/** @type {Map<string, Look>} */
const LOOKS = new Map(TASKS.map(([state, glyph, family, hollow], order) => [state, { glyph, family, hollow, order }]));
/** A job that is being made waits. @type {Record<string, Look>} */
const JOBS = {
  INITIALIZING: { glyph: "◌", family: "waits", hollow: true, order: 4 },
  CREATED: { glyph: "◌", family: "waits", hollow: true, order: 4 },
};
const UNKNOWN = /** @type {Look} */ ({ glyph: "○", family: "neutral", hollow: false, order: TASKS.length });

export const ORDER = TASKS.map(([state]) => state);

/** How a state looks. @param {string} state @param {"job" | "task"} [of] @returns {Look} */
export function stateOf(state, of = "task") {
  return (of === "job" ? JOBS[state] : undefined) ?? LOOKS.get(state) ?? UNKNOWN;
}

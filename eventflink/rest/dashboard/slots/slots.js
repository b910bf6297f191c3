// @ts-check
// The slots of TaskManagers as cells: a glyph's shape says whether a slot is taken, free, shared, on the way or blocked, and its colour the state of
// what runs there, or whose it is. Pointing at one lights all slots of its job.

import { html } from "../html.js";
import { href } from "../moment.js";
import { stateOf } from "../components/states.js";

/** Beyond these a TaskManager's slots are told in numbers. */
const MAX_CELLS = 128;
const TINTS = 6;

/** @typedef {{job_id: string, vertex_id: string, subtask_index: number, attempt: number, state: string | null}} Attempt */
/** @typedef {{slot_index: number, state: string, job_id: string | null, attempts: Attempt[]}} Slot */
/** @typedef {"state" | "job"} By */

/** Which of the few tints a job has: the same on every page. @param {string} jobId */
export function tintOf(jobId) {
  let hash = 0;
  for (const letter of jobId) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return (hash % TINTS) + 1;
}

/** What a slot is, in a word. @param {Slot} slot @param {boolean} blocked */
export function kindOf(slot, blocked) {
  if (slot.state === "PENDING") return "pending";
  if (slot.attempts.length > 1) return "shared";
  if (slot.attempts.length === 1 || slot.state === "ALLOCATED") return "taken";
  return blocked ? "blocked" : "free";
}

/** The state that stands for a slot: the one that needs somebody most. @param {Slot} slot */
export function worstOf(slot) {
  const states = slot.attempts.map((attempt) => attempt.state ?? "CREATED");
  return states.sort((one, other) => stateOf(one).order - stateOf(other).order)[0] ?? null;
}

/** @param {{slots: Slot[], blocked: boolean, by: By}} props */
export function SlotCells({ slots, blocked, by }) {
  return html`<span class="slots" onPointerOver=${light} onPointerOut=${dark} onFocusIn=${light} onFocusOut=${dark}>
    ${slots.slice(0, MAX_CELLS).map((slot) => {
      const kind = kindOf(slot, blocked);
      const [first] = slot.attempts;
      const state = worstOf(slot);
      const colour = by === "job" && slot.job_id ? `tint-${tintOf(slot.job_id)}` : state ? stateOf(state).family : "neutral";
      const words = wordsOf(slot, kind);
      return first
        ? html`<a key=${slot.slot_index} class=${`slot ${kind} ${colour}`} data-job=${slot.job_id} title=${words} aria-label=${words}
            href=${href(`/jobs/${encodeURIComponent(first.job_id)}/${first.vertex_id}/${first.subtask_index}/${first.attempt}`)}></a>`
        : html`<span key=${slot.slot_index} class=${`slot ${kind} ${colour}`} title=${words}></span>`;
    })}
    ${slots.length > MAX_CELLS && html`<span class="muted">and ${slots.length - MAX_CELLS} more</span>`}
  </span>`;
}

/** @param {Slot} slot @param {string} kind */
function wordsOf(slot, kind) {
  const those = slot.attempts.slice(0, 4).map((each) => `${each.vertex_id}[${each.subtask_index}]#${each.attempt} ${each.state ?? ""}`.trim());
  const more = slot.attempts.length > 4 ? `, and ${slot.attempts.length - 4} more` : "";
  const what = those.length > 0 ? `${slot.job_id}: ${those.join(", ")}${more}` : kind === "pending" ? `kept for ${slot.job_id ?? "a request"}` : kind;
  return `slot ${slot.slot_index}: ${what}`;
}

/** @param {Event} event */
function light(event) {
  const job = /** @type {HTMLElement} */ (event.target).closest?.("[data-job]")?.getAttribute("data-job");
  for (const each of document.querySelectorAll("[data-job]")) each.classList.toggle("lit", job !== undefined && each.getAttribute("data-job") === job);
}

function dark() {
  for (const each of document.querySelectorAll(".lit")) each.classList.remove("lit");
}

/** What the cells mean. */
export function SlotLegend() {
  return html`<p class="legend">
    <span><i class="slot taken running"></i> taken</span><span><i class="slot shared running"></i> several share it</span><span><i class="slot free"></i> free</span>
    <span><i class="slot pending waits"></i> on the way</span><span><i class="slot blocked"></i> blocked</span>
  </p>`;
}

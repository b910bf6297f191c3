// @ts-check
// States as a glyph, a word and a colour of their family; never as a colour alone. Solid: it is there; hollow: it is on the way.

import { h, html } from "../html.js";
import { number } from "../format.js";
import { ORDER, stateOf } from "./states.js";

/** A state, and how many have it. @param {{state: string, of?: "job" | "task", count?: number, bare?: boolean}} props */
export function StateChip({ state, of = "task", count, bare = false }) {
  const { glyph, family, hollow } = stateOf(state, of);
  return html`<span class=${`chip ${family}${hollow ? " hollow" : ""}${bare ? " bare" : ""}`}>
    <span aria-hidden="true">${glyph}</span>${count === undefined ? "" : html`<b>${number(count)}</b>`} ${state}
  </span>`;
}

/** Only the glyph; the word is what a screen reader and a pointer get. @param {{state: string, of?: "job" | "task", count?: number, worded?: boolean}} props */
export function StateGlyph({ state, of = "task", count, worded = false }) {
  const { glyph, family, hollow } = stateOf(state, of);
  const words = count === undefined ? state : `${number(count)} ${state}`;
  return html`<span class=${`state-glyph ${family}${hollow ? " hollow" : ""}`} title=${words}>
    <span aria-hidden="true">${count === undefined ? "" : number(count)}${glyph}${worded ? html`<span class="wide-only"> ${state.toLowerCase()}</span>` : ""}</span><span class="visually-hidden">${words}</span>
  </span>`;
}

/** States as shares of a bar, with their counts in words. @param {{counts: Record<string, number>, of?: "job" | "task", label?: string}} props */
export function StateBar({ counts, of = "task", label = "" }) {
  const parts = ORDER.filter((state) => (counts[state] ?? 0) > 0);
  const words = parts.map((state) => `${number(counts[state])} ${state}`).join(", ") || "none";
  return html`<span class="state-bar" role="img" aria-label=${`${label}${label ? ": " : ""}${words}`} title=${words}>
    ${parts.map((state) => {
      const { family, hollow } = stateOf(state, of);
      return html`<i class=${`${family}${hollow ? " hollow" : ""}`} style=${{ flexGrow: counts[state] }}></i>`;
    })}
  </span>`;
}

/** All states that are there, as glyphs with counts; `worded`: and with words where there is room. @param {{counts: Record<string, number>, of?: "job" | "task", worded?: boolean}} props */
export function StateCounts({ counts, of = "task", worded = false }) {
  const parts = ORDER.filter((state) => (counts[state] ?? 0) > 0);
  return html`<span class="state-counts">${parts.map((state) => h(StateGlyph, { key: state, state, of, count: counts[state] ?? 0, worded }))}</span>`;
}

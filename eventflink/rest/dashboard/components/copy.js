// @ts-check
// Copying: ids (cut in the middle, whole in the copy), commands, documents.

import { middle } from "../format.js";
import { h, html } from "../html.js";
import { toast } from "./toast.js";

/** Copy a text and say so. @param {string} text @param {string} [what] */
export async function copy(text, what = "") {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what || middle(text, 40)}.`);
  } catch {
    toast("This browser does not let the page copy: select the text instead.", { kind: "failed" });
  }
}

/** @param {{text: string, label: string}} props */
export function Copy({ text, label }) {
  return html`<button type="button" class="copy" aria-label=${`Copy ${label}`} title=${`Copy ${label}`} onClick=${(/** @type {Event} */ event) => {
    event.preventDefault();
    event.stopPropagation();
    copy(text, label);
  }}><svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true"><path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/></svg></button>`;
}

/** An id. @param {{id: string, label?: string, most?: number}} props */
export function Id({ id, label = "id", most = 18 }) {
  return html`<span class="id"><code title=${id}>${middle(id, most)}</code>${h(Copy, { text: id, label: `${label} ${id}` })}</span>`;
}

/** A command to copy. @param {{text: string}} props */
export function Command({ text }) {
  return html`<div class="command"><pre tabindex="0"><code>${text}</code></pre>${h(Copy, { text, label: "the command" })}</div>`;
}

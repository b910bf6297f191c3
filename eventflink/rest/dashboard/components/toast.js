// @ts-check
// Short notices in a corner. A notice about an order links to its decision.

import { signal } from "@preact/signals";
import { html } from "../html.js";

const SHOWN_MS = 5000;
const MOST = 4;

/** @typedef {{id: number, message: string, kind: "plain" | "done" | "failed", link?: string, linkText?: string}} Toast */

/** @type {import("@preact/signals").Signal<Toast[]>} */
const toasts = signal(/** @type {Toast[]} */ ([]));
let made = 0;

/** Show a notice; one of a failure stays until it is closed. @param {string} message @param {{kind?: Toast["kind"], link?: string, linkText?: string}} [more] */
export function toast(message, { kind = "plain", link, linkText } = {}) {
  const id = ++made;
  toasts.value = [...toasts.value, { id, message, kind, link, linkText }].slice(-MOST);
  if (kind !== "failed") window.setTimeout(() => close(id), link ? SHOWN_MS * 2 : SHOWN_MS);
}

/** @param {number} id */
function close(id) {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      ({ id, message, kind, link, linkText }) => html`<div key=${id} class=${`toast ${kind}`}>
        <span>${message} ${link ? html`<a href=${link}>${linkText ?? "See what it did"}</a>` : ""}</span>
        <button class="icon-button" aria-label="Close" onClick=${() => close(id)}>✕</button>
      </div>`,
    )}
  </div>`;
}

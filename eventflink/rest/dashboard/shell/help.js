// @ts-check
// The keys of this page, as they are bound now.

import { Dialog } from "../components/dialog.js";
import { h, html } from "../html.js";
import { bound } from "./keys.js";
import { shortcuts } from "./settings.js";

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  return h(
    Dialog,
    { title: "Keys", onClose, wide: true },
    html`<dl class="keys">
        ${bound().map(({ keys, words }) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${words}</dd></div>`)}
      </dl>
      <p><label class="check">
        <input type="checkbox" checked=${shortcuts.value === "on"} onChange=${(/** @type {any} */ event) => (shortcuts.value = event.target.checked ? "on" : "off")} />
        Single keys are shortcuts
      </label></p>`,
  );
}

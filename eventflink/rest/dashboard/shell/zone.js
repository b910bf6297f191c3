// @ts-check
// The zone of all times: this browser's, UTC, or any other by its name.

import { useState } from "preact/hooks";
import { Dialog } from "../components/dialog.js";
import { Menu } from "../components/menu.js";
import { isZone } from "../format.js";
import { h, html } from "../html.js";
import { zone } from "./settings.js";

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function Zone() {
  const [typing, setTyping] = useState(false);
  const chosen = zone.value;
  const label = chosen === "local" ? "Local" : (chosen.split("/").at(-1) ?? "").replaceAll("_", " ");
  /** @param {string} id @param {string} title */
  const item = (id, title) => ({ id, title: `${title}${chosen === id ? " ✓" : ""}`, act: () => void (zone.value = id) });
  return html`
    ${h(Menu, {
      label: html`<span title="The zone of all times"><span class="visually-hidden">Times are in: </span>${label}</span>`,
      name: "The zone of all times",
      look: "icon-button",
      items: [
        item("local", `This browser's: ${here()}`),
        item("UTC", "UTC"),
        ...(chosen === "local" || chosen === "UTC" ? [] : [item(chosen, chosen)]),
        { id: "other", title: "Another…", act: () => setTyping(true) },
      ],
    })}
    ${typing && h(Other, { onClose: () => setTyping(false) })}
  `;
}

/** @param {{onClose: () => void}} props */
function Other({ onClose }) {
  const [wrong, setWrong] = useState("");
  return h(
    Dialog,
    { title: "The zone of all times", onClose },
    html`<form
      method="dialog"
      onSubmit=${(/** @type {any} */ event) => {
        const name = event.target.elements.zone.value.trim();
        if (isZone(name)) {
          zone.value = name;
          return;
        }
        event.preventDefault();
        setWrong(`This browser knows no zone '${name}'.`);
      }}
    >
      <div class="field">
        <label for="zone">Name, such as Europe/Vienna</label>
        <input id="zone" name="zone" list="zones" autocomplete="off" spellcheck="false" required />
        <datalist id="zones">${Intl.supportedValuesOf("timeZone").map((name) => html`<option value=${name} />`)}</datalist>
        ${wrong && html`<p role="alert">${wrong}</p>`}
      </div>
      <footer><button class="button">Use it</button></footer>
    </form>`,
  );
}

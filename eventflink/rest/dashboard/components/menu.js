// @ts-check
// A button that opens a menu, by pointer and by keys. What cannot be chosen now is there, disabled, with the reason.

import { useEffect, useId, useRef, useState } from "preact/hooks";

import { html } from "../html.js";

/** @typedef {{id: string, title: string, why?: string, danger?: boolean, act: () => void}} Item */

/** @param {{label: any, name: string, items: Item[], look?: string}} props `label` is on the button, which has the classes `look`; `name` says of what the menu is */
export function Menu({ label, name, items, look = "button" }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLSpanElement | null} */ (null));
  const id = useId();
  const button = () => /** @type {HTMLButtonElement | null} */ (box.current?.querySelector("button") ?? null);
  const drawn = () => [.../** @type {NodeListOf<HTMLButtonElement>} */ (box.current?.querySelectorAll("[role=menuitem]") ?? [])];
  useEffect(() => {
    if (!open) return undefined;
    drawn().find((item) => item.ariaDisabled !== "true")?.focus();
    const outside = (/** @type {Event} */ event) => !box.current?.contains(/** @type {Node} */ (event.target)) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const all = drawn();
    const here = all.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const next = { ArrowDown: (here + 1) % all.length, ArrowUp: (here + all.length - 1) % all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") setOpen(false);
    if (event.key === "Escape") button()?.focus();
    if (next !== undefined) all[next]?.focus();
    if (next === undefined && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
  }
  return html`<span class="menu-box" ref=${box}>
    <button type="button" class=${look} aria-haspopup="menu" aria-expanded=${open} aria-controls=${id} onClick=${() => setOpen(!open)}>
      ${label} <span aria-hidden="true">▾</span>
    </button>
    ${open &&
    html`<ul class="menu" role="menu" id=${id} aria-label=${name} onKeyDown=${onKey}>
      ${items.map(
        ({ id: key, title, why, danger, act }) => html`<li key=${key} role="none">
          <button type="button" role="menuitem" tabindex="-1" aria-disabled=${why ? "true" : "false"} class=${danger ? "danger" : ""}
            onClick=${() => {
              if (why) return;
              button()?.focus(); // What closes a dialog gives the focus back to what had it.
              setOpen(false);
              act();
            }}>
            ${title}${why && html`<small> ${why}</small>`}
          </button>
        </li>`,
      )}
    </ul>`}
  </span>`;
}

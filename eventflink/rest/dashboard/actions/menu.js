// @ts-check
// The one menu of what may be ordered of a job. What cannot be ordered now is there, disabled, with the reason.

import { useEffect, useId, useRef, useState } from "preact/hooks";

import { h, html } from "../html.js";
import { at } from "../moment.js";
import { may } from "../shell/identity.js";
import { commandsOf } from "./commands.js";
import { CommandDialog } from "./dialog.js";

/** @param {{job: any}} props */
export function ActionsMenu({ job }) {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(/** @type {import("./commands.js").Command | null} */ (null));
  const box = useRef(/** @type {HTMLSpanElement | null} */ (null));
  const id = useId();
  const button = () => /** @type {HTMLButtonElement | null} */ (box.current?.querySelector("button") ?? null);
  const items = () => [.../** @type {NodeListOf<HTMLButtonElement>} */ (box.current?.querySelectorAll("[role=menuitem]") ?? [])];
  useEffect(() => {
    if (!open) return undefined;
    items().find((item) => item.ariaDisabled !== "true")?.focus();
    const outside = (/** @type {Event} */ event) => !box.current?.contains(/** @type {Node} */ (event.target)) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const all = items();
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
    <button type="button" class="button" aria-haspopup="menu" aria-expanded=${open} aria-controls=${id} onClick=${() => setOpen(!open)}>
      Actions${at.value === null ? "" : html` <span class="muted">(past: try only)</span>`} <span aria-hidden="true">▾</span>
    </button>
    ${open &&
    html`<ul class="menu" role="menu" id=${id} aria-label=${`Actions on ${job.name}`} onKeyDown=${onKey}>
      ${commandsOf(job).map((command) => {
        const why = command.why ?? (may(command.role) ? undefined : `for the role ${command.role}`);
        return html`<li key=${command.id} role="none">
          <button type="button" role="menuitem" tabindex="-1" aria-disabled=${why ? "true" : "false"} class=${command.danger ? "danger" : ""}
            onClick=${() => {
              if (why) return;
              button()?.focus(); // What closes the dialog gives the focus back to what had it.
              setOpen(false);
              setChosen(command);
            }}>
            ${command.title}…${why && html`<small> ${why}</small>`}
          </button>
        </li>`;
      })}
    </ul>`}
    ${chosen && h(CommandDialog, { command: chosen, onClose: () => setChosen(null) })}
  </span>`;
}

// @ts-check
// The one menu of what may be ordered of a job.

import { useState } from "preact/hooks";

import { Menu } from "../components/menu.js";
import { h, html } from "../html.js";
import { at } from "../moment.js";
import { may } from "../shell/identity.js";
import { commandsOf } from "./commands.js";
import { CommandDialog } from "./dialog.js";

/** @param {{job: any}} props */
export function ActionsMenu({ job }) {
  const [chosen, setChosen] = useState(/** @type {import("./commands.js").Command | null} */ (null));
  const items = commandsOf(job).map((command) => ({
    id: command.id,
    title: `${command.title}…`,
    why: command.why ?? (may(command.role) ? undefined : `for the role ${command.role}`),
    danger: command.danger,
    act: () => setChosen(command),
  }));
  return html`${h(Menu, { label: html`Actions${at.value === null ? "" : html` <span class="muted">(past: try only)</span>`}`, name: `Actions on ${job.name}`, items })}
    ${chosen && h(CommandDialog, { command: chosen, onClose: () => setChosen(null) })}`;
}

// @ts-check
// What stands where there is nothing: why, and what to do about it.

import { h, html } from "../html.js";
import { Command } from "./copy.js";

/** @param {{title: string, glyph?: string, command?: string, small?: boolean, children?: any}} props */
export function Empty({ title, glyph = "○", command, small = false, children }) {
  return html`<div class=${`empty${small ? " small" : ""}`}>
    ${small ? "" : html`<div class="empty-glyph" aria-hidden="true">${glyph}</div>`}
    ${small ? html`<p class="empty-title">${title}</p>` : html`<h1 class="empty-title">${title}</h1>`}
    ${children}
    ${command ? h(Command, { text: command }) : ""}
  </div>`;
}

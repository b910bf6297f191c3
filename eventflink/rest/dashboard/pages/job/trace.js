// @ts-check
// A stack trace with the user's frames first to the eye: frames of libraries are folded away until somebody wants them.

import { useState } from "preact/hooks";

import { Copy } from "../../components/copy.js";
import { plural } from "../../format.js";
import { h, html } from "../../html.js";

const LIBRARY = /[\\/](site-packages|dist-packages|lib[\\/]python[\d.]+)[\\/]|eventflink[\\/](taskexecutor|jobs|streams)[\\/]|<frozen |^\s*at (org\.apache|java\.|scala\.|sun\.|jdk\.)/;

/** @typedef {{library: boolean, lines: string[]}} Part */

/** The lines of a Python or Java trace, in parts that are the user's or a library's. @param {string} text @returns {Part[]} */
export function partsOf(text) {
  /** @type {Part[]} */
  const parts = [];
  let library = false;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const isFrame = /^\s+(File "|at )/.test(line);
    // The source line below a frame is the frame's.
    if (isFrame) library = LIBRARY.test(line);
    else if (!/^\s{4,}/.test(line)) library = false;
    const last = parts.at(-1);
    if (last && last.library === library) last.lines.push(line);
    else parts.push({ library, lines: [line] });
  }
  return parts;
}

/** @param {{text: string, open: boolean}} props */
export function Trace({ text, open }) {
  const [all, setAll] = useState(false);
  const parts = partsOf(text);
  const hidden = parts.filter((part) => part.library).length;
  return html`<details class="trace" open=${open}>
    <summary>stack trace</summary>
    <div class="trace-tools">
      ${h(Copy, { text, label: "the trace" })}
      ${hidden > 0 && html`<button class="button small" aria-pressed=${all} onClick=${() => setAll(!all)}>${all ? "fold libraries" : "show libraries"}</button>`}
    </div>
    <pre class="code-block" tabindex="0">${parts.map((part) =>
      part.library && !all
        ? html`<span class="muted">${`    … ${plural(part.lines.filter((line) => /^\s+(File "|at )/.test(line)).length, "frame")} of libraries\n`}</span>`
        : html`<span class=${part.library ? "muted" : ""}>${`${part.lines.join("\n")}\n`}</span>`,
    )}</pre>
  </details>`;
}

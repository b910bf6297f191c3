// @ts-check
// A modal dialog: the browser's own, which keeps the focus inside, closes by Esc and gives the focus back to what opened it.

import { useEffect, useId, useRef } from "preact/hooks";
import { html } from "../html.js";

/** @param {{title: string, onClose: () => void, wide?: boolean, children?: any}} props drawn while it is open */
export function Dialog({ title, onClose, wide = false, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return html`<dialog
    ref=${dialog}
    class=${`dialog${wide ? " wide" : ""}`}
    aria-labelledby=${id}
    onClose=${onClose}
    onClick=${(/** @type {MouseEvent} */ event) => event.target === dialog.current && dialog.current?.close()}
  >
    <div class="dialog-body">
      <header><h2 id=${id}>${title}</h2><button class="icon-button" aria-label="Close" onClick=${() => dialog.current?.close()}>✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

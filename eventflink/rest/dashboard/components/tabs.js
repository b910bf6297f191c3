// @ts-check
// The views of one thing as links. The one that is shown is in sight, also where a phone has no room for all.

import { useEffect, useRef } from "preact/hooks";

import { html } from "../html.js";
import { href } from "../moment.js";

/** @typedef {{name: string, words: string, to: string, count?: number}} View */

/** @param {{label: string, views: View[], shown: string}} props */
export function Tabs({ label, views, shown }) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const [bar, link] = [nav.current, nav.current?.querySelector("[aria-current]")];
    if (bar && link) bar.scrollLeft += Math.ceil(Math.max(0, link.getBoundingClientRect().right - bar.getBoundingClientRect().right));
  }, [shown]);
  return html`<nav ref=${nav} class="tabs" aria-label=${label}>
    ${views.map(
      ({ name, words, to, count }) => html`<a key=${name} href=${href(to)} aria-current=${name === shown ? "page" : undefined}>
        ${words}${count ? html` <span class="muted">${count}</span>` : ""}
      </a>`,
    )}
  </nav>`;
}

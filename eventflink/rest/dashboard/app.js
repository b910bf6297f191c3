// @ts-check
// The dashboard: one shell, and the page that the URL names at the moment that the URL names.

import { render } from "preact";
import { h } from "./html.js";
import { BASE, visit } from "./moment.js";
import { recognise } from "./shell/identity.js";
import { follow, poll } from "./shell/live.js";
import "./shell/settings.js";
import { Shell } from "./shell/shell.js";
import { archives, REFRESH_MS } from "./source.js";

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.download || link.origin !== window.location.origin) return;
  if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  if (link.hash && link.pathname === window.location.pathname) return void document.querySelector(link.hash)?.scrollIntoView();
  visit(new URL(link.href), false);
  window.scrollTo(0, 0);
});

render(h(Shell, {}), /** @type {HTMLElement} */ (document.getElementById("app")));
recognise();
if (archives) poll(REFRESH_MS);
else follow();

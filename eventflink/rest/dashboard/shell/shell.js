// @ts-check
// The frame around every page: head, bar of the log, ways to the pages, notices, and the strip that tells the past from the present.

import { useEffect, useState } from "preact/hooks";
import { Toasts } from "../components/toast.js";
import { h, html } from "../html.js";
import { at, change as changeUrl, go, href, path, pin, versus } from "../moment.js";
import { routeOf } from "../routes.js";
import { Scrub } from "../scrub/bar.js";
import { END, archives } from "../source.js";
import { logPath } from "./asked.js";
import { Head } from "./head.js";
import { Help } from "./help.js";
import { bind } from "./keys.js";
import { Moment } from "./moment_strip.js";
import { Outlet } from "./outlet.js";

const ALL = [
  ["/", "Cluster", "g c", "M2 13h4V7h4v6h4"],
  ["/jobs", "Jobs", "g j", "M2 4h12M2 8h12M2 12h8"],
  ["/waits", "Waits", "g w", "M8 4v4l3 2M8 2a6 6 0 1 0 .01 0"],
  ["/schedules", "Schedules", "g h", "M3 4h10v9H3zM3 7h10M6 2v3M10 2v3"],
  ["/data", "Data", "g d", "M3 4c0-2 10-2 10 0v8c0 2-10 2-10 0zM3 4c0 2 10 2 10 0M3 8c0 2 10 2 10 0"],
  ["/taskmanagers", "TaskManagers", "g t", "M2 3h5v4H2zM9 3h5v4H9zM2 9h5v4H2zM9 9h5v4H9z"],
  ["/masters", "Masters", "g m", "M8 2l5 3v6l-5 3-5-3V5z"],
  ["/log", "Log", "g l", "M3 2v12M6 4h7M6 8h5M6 12h7"],
  ["/refused", "Refused", "g r", "M8 2a6 6 0 1 0 .01 0M4 4l8 8"],
  ["/submit", "Submit", "g s", "M8 12V3M4 7l4-4 4 4M3 14h10"],
];
const SECTIONS = archives ? ALL.filter(([to]) => to === "/jobs") : ALL;
const ON_A_PHONE = new Set(["/", "/jobs", "/waits", "/log"]);

/** @param {{drawing: string}} props */
function Icon({ drawing }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d=${drawing} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" />
  </svg>`;
}

function Rail() {
  const [more, setMore] = useState(false);
  const here = routeOf(path.value)?.route.section;
  const link = ([to, name, keys, drawing] = /** @type {string[]} */ ([])) => html`<li class=${ON_A_PHONE.has(to ?? "") ? "" : "in-more"}>
    <a
      class="rail-link"
      href=${href(to ?? "")}
      aria-current=${here === to ? "page" : undefined}
      title=${`${name} (${keys})`}
      onClick=${() => setMore(false)}
    >${h(Icon, { drawing: drawing ?? "" })}<span>${name}</span></a>
  </li>`;
  return html`<nav class=${`rail${more ? " open" : ""}`} aria-label="Pages">
    <ul>
      ${SECTIONS.map(link)}
      ${!archives && html`<li class="more"><button class="rail-link" aria-expanded=${more} onClick=${() => setMore(!more)}>
        ${h(Icon, { drawing: "M3 8h.01M8 8h.01M13 8h.01" })}<span>More</span>
      </button></li>`}
    </ul>
  </nav>`;
}

export function Shell() {
  const [help, setHelp] = useState(false);
  useEffect(
    () =>
      bind(
        { keys: "?", words: "these keys", act: () => setHelp(true) },
        { keys: "/", words: `search an id, ${archives ? "a moment" : "an offset"} or a time`, act: () => document.getElementById("search")?.focus() },
        { keys: "t", words: "go to a time", act: () => document.getElementById("search")?.focus() },
        { keys: "L", words: `return to ${END}`, act: () => pin(null) },
        { keys: "Escape", words: "end the comparison", act: () => versus.value !== null && changeUrl({ vs: null }) },
        ...SECTIONS.map(([to, name, keys]) => ({ keys: keys ?? "", words: `${name}`, act: () => go(to ?? "/") })),
      ),
    [],
  );
  const past = at.value !== null;
  return html`
    <a class="skip" href="#main">Skip to the page</a>
    ${h(Head, { onHelp: () => setHelp(true) })}
    ${logPath.value !== null && h(Scrub, {})}
    <div class=${`frame${past ? " past" : ""}${logPath.value === null ? " barless" : ""}`}>
      ${h(Rail, {})}
      <div class="stage">
        ${h(Moment, {})}
        <main id="main" tabindex="-1">${h(Outlet, {})}</main>
      </div>
    </div>
    <footer class="print-only">${window.location.href}</footer>
    ${h(Toasts, {})}
    ${help && h(Help, { onClose: () => setHelp(false) })}
  `;
}

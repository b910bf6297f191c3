// @ts-check
// The head: which cluster, one field that finds ids, offsets and times, who one is, and how this browser shows things.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask } from "../api.js";
import { toast } from "../components/toast.js";
import { absolute, instantOf } from "../format.js";
import { h, html } from "../html.js";
import { at, go, href, pin } from "../moment.js";
import { archives } from "../source.js";
import { logPath } from "./asked.js";
import { identity, logOut } from "./identity.js";
import { density, theme, zone } from "./settings.js";
import { Zone } from "./zone.js";

const DAY_MS = 86_400_000;

/** What somebody typed: an offset, a time, or something to look for among the jobs. @param {string} typed */
async function find(typed) {
  const text = typed.trim();
  if (!text) return;
  const offset = text.replace(/,/g, "");
  if (/^@?\d{1,15}$/.test(offset) && logPath.peek()) return pin(Number(offset.replace("@", "")));
  if (/^(\d{1,2}:\d{2}|\d{4}-\d{2}-\d{2})/.test(text) && logPath.peek()) {
    const { body } = await ask(`${logPath.peek()}/position?at=${encodeURIComponent(timeOf(text))}`);
    return pin(body.offset);
  }
  if (archives) return findArchive(text);
  const { body } = await ask(`/jobs?limit=2&name=${encodeURIComponent(text)}`, { at: at.value });
  if (body.matching === 1) return go(`/jobs/${encodeURIComponent(body.jobs[0].job_id)}`);
  if (body.matching > 1) return go("/jobs", { name: text });
  try {
    await ask(`/jobs/${encodeURIComponent(text)}`, { at: at.value });
    return go(`/jobs/${encodeURIComponent(text)}`);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
  await ask(`/task_managers/${encodeURIComponent(text)}`, { at: at.value });
  go(`/taskmanagers/${encodeURIComponent(text)}`);
}

/** An archived job by a part of its name or id. @param {string} text */
async function findArchive(text) {
  const { body } = await ask(`/archives?limit=1&name=${encodeURIComponent(text)}`);
  const [job] = body.jobs;
  if (body.total === 1) go(`/jobs/${encodeURIComponent(job.job_id)}`, { cluster: job.cluster_id });
  else go("/jobs", { name: text });
}

/** A time as somebody types it, in ISO 8601: "03:12" is the last time that a clock of the zone of choice showed that. @param {string} text */
function timeOf(text) {
  const named = text.endsWith("Z") ? "UTC" : zone.value;
  const bare = text.replace(/Z$/, "").replace(" ", "T");
  if (bare.includes("-")) return new Date(instantOf(Date.parse(`${bare}${bare.includes("T") ? "" : "T00:00"}Z`), named)).toISOString();
  const now = Date.now();
  const shown = Date.parse(`${absolute(now, named).slice(0, 10)}T${bare.padStart(5, "0")}Z`);
  const then = instantOf(shown, named);
  return new Date(then > now ? instantOf(shown - DAY_MS, named) : then).toISOString();
}

function Search() {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  return html`<form class="search" role="search" onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    const typed = field.current?.value ?? "";
    find(typed).then(
      () => {
        if (field.current) field.current.value = "";
        field.current?.blur();
      },
      (error) => toast(error instanceof ApiError && error.status === 404 ? `Nothing is called '${typed}' at this moment.` : String(error.message ?? error), { kind: "failed" }),
    );
  }}>
    <input ref=${field} id="search" name="search" autocomplete="off" spellcheck="false" aria-label=${archives ? "Search a job, a moment or a time" : "Search an id, an offset or a time"} placeholder=${archives ? "job, moment, time" : "job, TaskManager, offset, time"} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && field.current?.blur()} />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
}

const THEMES = /** @type {const} */ ({ system: "light", light: "dark", dark: "system" });
const THEME_GLYPHS = { system: "◐", light: "☀", dark: "☾" };

/** @param {{onHelp: () => void}} props */
export function Head({ onHelp }) {
  const who = identity.value;
  const [small, setSmall] = useState(false);
  useEffect(() => {
    const narrow = window.matchMedia("(max-width: 720px)");
    const look = () => setSmall(narrow.matches);
    look();
    narrow.addEventListener("change", look);
    return () => narrow.removeEventListener("change", look);
  }, []);
  return html`<header class="head">
    <a class="brand" href=${href("/")} aria-label=${archives ? "eventflink, to the jobs" : "eventflink, to the cluster"}>
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true"><rect width="32" height="32" rx="7" class="brand-ground" /><path d="M7 21h5V11h6v14h7" fill="none" stroke="#fff" stroke-width="3" stroke-linejoin="round" stroke-linecap="round" /></svg>
      <b>eventflink</b>
    </a>
    ${h(Search, {})}
    <div class="head-end">
      ${who && !small ? html`<span class="who" title=${`You are ${who.name}; your role is ${who.role}.`}>${who.name}<small> ${who.role}</small></span>` : ""}
      ${who?.session ? html`<button class="icon-button" onClick=${logOut}>Log out</button>` : ""}
      ${h(Zone, {})}
      <button class="icon-button wide-only" title="Density of tables" aria-label=${`Rows are ${density.value}: switch`} onClick=${() => (density.value = density.value === "compact" ? "comfortable" : "compact")}>${density.value === "compact" ? "≡" : "☰"}</button>
      <button class="icon-button" title=${`Theme: ${theme.value}`} aria-label=${`The theme is ${theme.value}: switch to ${THEMES[theme.value]}`} onClick=${() => (theme.value = THEMES[theme.value])}>${THEME_GLYPHS[theme.value]}</button>
      <button class="icon-button wide-only" title="Keys (?)" aria-label="Keys" onClick=${onHelp}>?</button>
    </div>
  </header>`;
}

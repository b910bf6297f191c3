// @ts-check
// Where one is: the page, and the moment of the log. Both live in the URL and nowhere else, so a link shows what its sender saw.
//
// ?at= pins an offset (without it the page is live), ?vs= is the other side of a comparison, ?z= zooms the bar, ?log= names the log;
// every other parameter is the page's own. In archives a moment is one of a job's life, and ?cluster= says whose jobs and runs are shown.

import { batch, computed, signal } from "@preact/signals";
import { archives } from "./source.js";

export const BASE = "/ui";
const RESERVED = new Set(["at", "t", "vs", "z", "log"]);

/** @typedef {{offset: number, decided_at: string | null, epoch: number, leader_id?: string, master_id: string}} Head */

const url = signal(new URL(window.location.href));

/** The path of the page, without /ui. */
export const path = computed(() => url.value.pathname.slice(BASE.length).replace(/\/+$/, "") || "/");
/** The page's own parameters. */
export const query = computed(() => Object.fromEntries([...url.value.searchParams].filter(([name]) => !RESERVED.has(name))));
/** The pinned offset; null: live. */
export const at = computed(() => offsetOf(url.value.searchParams.get("at")));
/** The other offset of a comparison; null: nothing is compared. */
export const versus = computed(() => offsetOf(url.value.searchParams.get("vs")));
/** A time that somebody typed, until it has become an offset; null: none. */
export const asked_time = computed(() => url.value.searchParams.get("t"));
/** The four digits of the log that a link was made of; null: it does not say. */
export const asked_log = computed(() => url.value.searchParams.get("log"));
/** In archives, the cluster of the jobs that are shown; null: any, or all of them. */
export const cluster = computed(() => (archives ? url.value.searchParams.get("cluster") : null));
/** The stretch of the log that the bar shows; null: all of it. */
export const zoom = computed(() => {
  const [from, until] = (url.value.searchParams.get("z") ?? "").split("-").map(offsetOf);
  return from != null && until != null && from < until ? { from, until } : null;
});

/** The end of the log as far as it is known here. @type {import("@preact/signals").Signal<Head | null>} */
export const head = signal(/** @type {Head | null} */ (null));
/** What is on the screen: the moment of the drawn documents. @type {import("@preact/signals").Signal<(Head & {live: boolean}) | null>} */
export const shown = signal(/** @type {(Head & {live: boolean}) | null} */ (null));
/** The present, once a second. */
export const present = signal(Date.now());
/** What durations are counted to: the present when live, else the time of the decision that is shown. */
export const reference = computed(() => {
  const moment = shown.value;
  const decided = moment?.decided_at ? Date.parse(moment.decided_at) : NaN;
  if (at.value === null) return Number.isFinite(decided) ? Math.max(present.value, decided) : present.value;
  return Number.isFinite(decided) ? decided : present.value;
});
window.setInterval(() => {
  if (at.value === null && !document.hidden) present.value = Date.now();
}, 1000);
window.addEventListener("popstate", () => {
  url.value = new URL(window.location.href);
});

/** @param {string | null | undefined} text */
function offsetOf(text) {
  return text && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** The end of the log has moved; it never goes back. @param {Head} next */
export function advanceHead(next) {
  if (!head.value || next.offset > head.value.offset) head.value = next;
}

/** The job that a page is of. @param {string} place its path */
const jobOf = (place) => /^\/jobs\/([^/?]+)/.exec(place)?.[1];

/** What of the address a link to a page keeps: a moment of the log is every page's, one of a life is its job's. From a job to its runs and on to
 * another job one stays in a cluster. @param {string} to */
function keptOn(to) {
  if (!archives) return ["at", "vs", "z", "log"];
  const isOfOneCluster = (/** @type {string} */ place) => jobOf(place) !== undefined || /^\/runs\b/.test(place);
  if (!isOfOneCluster(to) || !isOfOneCluster(path.value)) return [];
  return jobOf(to) !== undefined && jobOf(to) === jobOf(path.value) ? ["at", "z", "cluster"] : ["cluster"];
}

/** A link to a page of this moment. A parameter that is null or empty is left out.
 * @param {string} to @param {Record<string, string | number | null | undefined>} [parameters] */
export function href(to, parameters = {}) {
  const next = new URL(BASE + to, window.location.origin);
  for (const name of keptOn(to)) {
    const value = url.value.searchParams.get(name);
    if (value !== null) next.searchParams.set(name, value);
  }
  set(next, parameters);
  return next.pathname + next.search;
}

/** Go to a page; the moment stays. @param {string} to @param {Record<string, string | number | null | undefined>} [parameters] */
export function go(to, parameters = {}) {
  visit(new URL(href(to, parameters), window.location.origin), false);
}

/** Change parameters of this page. @param {Record<string, string | number | null | undefined>} parameters @param {{replace?: boolean}} [how] */
export function change(parameters, { replace = false } = {}) {
  const next = new URL(url.value);
  set(next, parameters);
  visit(next, replace);
}

/** Pin a moment; null: follow the log. @param {number | null} offset @param {{replace?: boolean}} [how] */
export function pin(offset, how = {}) {
  change(offset === null ? { at: null, t: null, log: null, vs: null } : { at: offset, t: null }, how);
}

/** Follow a link of this application. @param {URL} next @param {boolean} replace */
export function visit(next, replace) {
  if (next.href === url.value.href) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", next);
  batch(() => {
    url.value = next;
  });
}

/** The address of what is on the screen: pinned, with the name of its log. What is of no log has no moment. @param {string} logName */
export function sharedAddress(logName) {
  const next = new URL(url.value);
  const offset = archives && jobOf(path.value) === undefined ? null : (at.value ?? shown.value?.offset);
  set(next, { at: offset, log: logName || null, t: null });
  return next.href;
}

/** @param {URL} next @param {Record<string, string | number | null | undefined>} parameters */
function set(next, parameters) {
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") next.searchParams.delete(name);
    else next.searchParams.set(name, String(value));
  }
}

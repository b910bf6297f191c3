// @ts-check
// Which page a path has. A page's module is fetched when it is opened first; patterns are matched in this order.
//
// A page module exports
//   title(params): string
//   questions(params, query): {name: path of the API, beside /eventflink/v1}    asked together, of one offset
//   concerns(params): {job} | {task_manager} | {}                               what [ and ] step by
//   Page({documents, moment, params, query})                                    draws; documents[name] is the body of an answer
// and may export `live`: names of questions that are not of the log, and are asked without an offset.

import { archives } from "./source.js";

/** @typedef {{title: (params: Record<string, string>) => string,
 *   questions: (params: Record<string, string>, query: Record<string, string>) => Record<string, string>,
 *   concerns: (params: Record<string, string>) => {job?: string, task_manager?: string},
 *   live?: string[], Page: (props: any) => any}} PageModule */

/** @typedef {{pattern: string, section: string, load: () => Promise<any>}} Route */

/** @type {Route[]} */
const OF_A_CLUSTER = [
  { pattern: "/", section: "/", load: () => import("./pages/cluster.js") },
  { pattern: "/jobs", section: "/jobs", load: () => import("./pages/jobs.js") },
  { pattern: "/jobs/:job/:vertex/:subtask/:attempt/:tab?", section: "/jobs", load: () => import("./pages/attempt.js") },
  { pattern: "/jobs/:job/:tab?", section: "/jobs", load: () => import("./pages/job.js") },
  { pattern: "/runs/:name?", section: "/jobs", load: () => import("./pages/runs.js") },
  { pattern: "/taskmanagers", section: "/taskmanagers", load: () => import("./pages/task_managers.js") },
  { pattern: "/taskmanagers/:task_manager/:tab?", section: "/taskmanagers", load: () => import("./pages/task_manager.js") },
  { pattern: "/submit", section: "/submit", load: () => import("./pages/submit.js") },
  { pattern: "/masters", section: "/masters", load: () => import("./pages/masters.js") },
  { pattern: "/schedules", section: "/schedules", load: () => import("./pages/schedules.js") },
  { pattern: "/schedules/:schedule", section: "/schedules", load: () => import("./pages/schedule.js") },
  { pattern: "/data", section: "/data", load: () => import("./pages/data.js") },
  { pattern: "/waits", section: "/waits", load: () => import("./pages/waits.js") },
  { pattern: "/why/:thing", section: "", load: () => import("./pages/why.js") },
  { pattern: "/log/:offset?", section: "/log", load: () => import("./pages/log.js") },
  { pattern: "/refused", section: "/refused", load: () => import("./pages/refused.js") },
  { pattern: "/diff", section: "", load: () => import("./pages/diff.js") },
];
/** @type {Route[]} */
const OF_ARCHIVES = [
  { pattern: "/", section: "/jobs", load: () => import("./pages/archives.js") },
  { pattern: "/jobs", section: "/jobs", load: () => import("./pages/archives.js") },
  ...OF_A_CLUSTER.filter(({ pattern }) => /^\/(jobs\/:job|runs)\//.test(pattern)),
];
export const routes = archives ? OF_ARCHIVES : OF_A_CLUSTER;

/** What a path means for a pattern; null: it is another's. @param {string} pattern @param {string} path */
export function match(pattern, path) {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (given.length > wanted.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index];
    if (part.startsWith(":")) {
      if (value !== undefined) params[part.replace(/^:|\?$/g, "")] = decoded(value);
      else if (!part.endsWith("?")) return null;
    } else if (part !== value) return null;
  }
  return params;
}

/** The route of a path with its parameters; null: there is none. @param {string} path */
export function routeOf(path) {
  for (const route of routes) {
    const params = match(route.pattern, path);
    if (params) return { route, params };
  }
  return null;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

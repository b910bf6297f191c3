// @ts-check
// What the server has: a cluster with its log, or archives of ended jobs alone. It says so in its document.

/** @type {DOMStringMap} */
const said = globalThis.document?.documentElement.dataset ?? {};

/** Whether there are archives alone. Then what the bar shows is the life of one job, and no page is of a cluster. */
export const archives = said.source === "archives";
/** How often archives are looked for. */
export const REFRESH_MS = Number(said.refreshMs ?? 10_000);
/** Where TaskManagers show Spark's own pages; 0: nowhere. */
export const SPARK_UI_PORT = Number(said.sparkUiPort ?? 0);
/** What one returns to from another moment. */
export const END = archives ? "its end" : "now";
/** What the numbers on the bar count. */
export const UNIT = archives ? "moment" : "offset";

// @ts-check
// Asking our own API. A page's answer is {offset, decided_at, epoch, leader_id, master_id, live, body}; what is not of one moment is its body alone.
// Of an offset an answer never changes, so the last 64 such answers are kept. What goes wrong is an ApiError, whose lines are the server's.

import { cluster } from "./moment.js";

export const API = "/eventflink/v1";
const KEPT = 64;
const TIMEOUT_MS = 20_000;
const UPLOAD_TIMEOUT_MS = 600_000;

/** @typedef {{offset: number, decided_at: string | null, epoch: number, leader_id: string, master_id: string, live: boolean, body: any}} Answer */

export class ApiError extends Error {
  /** @param {number} status 0: nobody answered @param {string[]} errors */
  constructor(status, errors) {
    super(errors.join("; "));
    this.status = status;
    this.errors = errors;
  }

  /** Whether asking again may help. */
  get passes() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** @type {Map<string, Answer>} */
const kept = new Map();

/** Ask a question. @param {string} path below /eventflink/v1 @param {{at?: number | string | null, signal?: AbortSignal, minOffset?: number}} [of]
 * @returns {Promise<Answer>} */
export async function ask(path, { at = null, signal, minOffset } = {}) {
  const address = addressOf(path, { at, cluster: path.startsWith("/jobs/") ? cluster.peek() : null });
  const known = kept.get(address);
  if (known) {
    kept.delete(address);
    kept.set(address, known);
    return known;
  }
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (minOffset !== undefined) headers["X-Eventflink-Min-Offset"] = String(minOffset);
  const found = await exchange(address, { headers }, signal);
  const answer = "body" in found ? found : { ...found, body: found };
  if (typeof at === "number" && answer.live !== true) keep(address, answer);
  return answer;
}

/** @param {string} path @param {Record<string, number | string | null>} parameters null: it is left out */
function addressOf(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null);
  return API + path + given.map(([name, value], index) => `${index || path.includes("?") ? "&" : "?"}${name}=${encodeURIComponent(String(value))}`).join("");
}

/** Order something. @param {string} path @param {any} [body] a FormData goes as one, with its files @param {{method?: string, signal?: AbortSignal}} [how] @returns {Promise<any>} */
export async function order(path, body = {}, { method = "POST", signal } = {}) {
  if (body instanceof FormData) return exchange(API + path, { method, body }, signal, UPLOAD_TIMEOUT_MS);
  return exchange(API + path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }, signal);
}

/** Ask what is not below /eventflink/v1, as text. @param {string} address @param {AbortSignal} [signal] @returns {Promise<string>} */
export async function text(address, signal) {
  return (await request(address, {}, signal)).text();
}

/** @param {string} address @param {RequestInit} init @param {AbortSignal} [signal] @param {number} [timeoutMs] @returns {Promise<any>} */
async function exchange(address, init, signal, timeoutMs) {
  const response = await request(address, init, signal, timeoutMs);
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, ["the answer broke off"]);
  }
}

/** @param {string} address @param {RequestInit} init @param {AbortSignal} [signal] @param {number} [timeoutMs] @returns {Promise<Response>} */
async function request(address, init, signal, timeoutMs = TIMEOUT_MS) {
  const limit = AbortSignal.timeout(timeoutMs);
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", ...init, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, [limit.aborted ? `no answer within ${timeoutMs / 1000} s` : "the server cannot be reached"]);
  }
  if (!response.ok) throw new ApiError(response.status, await errorsOf(response));
  return response;
}

/** @param {Response} response @returns {Promise<string[]>} */
async function errorsOf(response) {
  try {
    const { errors } = await response.json();
    if (Array.isArray(errors) && errors.length) return errors.map(String);
  } catch {
    // Not the server's shape: a proxy's page, for example. The status says what there is to say.
  }
  return [`${response.status} ${response.statusText}`.trim()];
}

/** @param {string} address @param {Answer} answer */
function keep(address, answer) {
  kept.set(address, answer);
  if (kept.size > KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
}

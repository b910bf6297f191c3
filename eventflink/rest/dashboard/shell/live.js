// @ts-check
// What changes, as the server sends it: one stream for all tabs of a browser, as a browser has few connections to give. The tab that holds the lock
// has the stream and tells the others; when it goes, another one takes over.

import { signal } from "@preact/signals";
import { API } from "../api.js";
import { advanceHead } from "../moment.js";

/** @typedef {{offset: number, decided_at: string, epoch: number, master_id: string, decisions_since?: number, jobs?: string[], more?: boolean}} Change */

/** The newest change that was heard of. @type {import("@preact/signals").Signal<Change | null>} */
export const change = signal(/** @type {Change | null} */ (null));
/** "connecting" | "live" | "broken" */
export const stream = signal("connecting");

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 15_000;
const channel = new BroadcastChannel("eventflink.changes");

/** @param {{kind: "at", change: Change} | {kind: "state", state: string} | {kind: "hello"}} message */
function take(message) {
  if (message.kind === "at") {
    stream.value = "live";
    advanceHead(message.change);
    change.value = message.change;
  } else if (message.kind === "state") stream.value = message.state;
}

/** Take it from time to time that there are other archives: nobody tells of them. A job in one never changes. @param {number} everyMs */
export function poll(everyMs) {
  let count = 0;
  window.setInterval(() => {
    change.value = { offset: (count += 1), decided_at: "", epoch: 0, master_id: "", jobs: [] };
  }, everyMs);
}

/** Hear of changes until the page goes. */
export function follow() {
  channel.onmessage = ({ data }) => {
    if (data.kind === "hello") {
      if (holds) channel.postMessage(change.value ? { kind: "at", change: change.value } : { kind: "state", state: stream.value });
    } else take(data);
  };
  channel.postMessage({ kind: "hello" });
  if (!navigator.locks) return void listen(FIRST_RETRY_MS);
  navigator.locks.request("eventflink.changes", () => {
    holds = true;
    listen(FIRST_RETRY_MS);
    return new Promise(() => {}); // held until the page goes
  });
}

let holds = false;

/** @param {{kind: "at", change: Change} | {kind: "state", state: string}} message */
function tell(message) {
  take(message);
  channel.postMessage(message);
}

/** @param {number} retryMs */
function listen(retryMs) {
  const source = new EventSource(`${API}/changes`);
  let delay = retryMs;
  source.onopen = () => {
    delay = FIRST_RETRY_MS;
    tell({ kind: "state", state: "live" });
  };
  source.addEventListener("at", (event) => tell({ kind: "at", change: JSON.parse(event.data) }));
  source.onerror = () => {
    tell({ kind: "state", state: "broken" });
    if (source.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
    window.setTimeout(() => listen(Math.min(delay * 2, LAST_RETRY_MS)), delay);
  };
}

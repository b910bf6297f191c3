// @ts-check
// What the bar knows of the log: its bounds, and counts, leaderships and marks of the stretch that is in sight. Asked of the server, kept until
// the log has grown by enough to matter.

import { batch, effect, signal } from "@preact/signals";
import { ask } from "../api.js";
import { advanceHead, cluster, head, shown, zoom } from "../moment.js";
import { logPath } from "../shell/asked.js";
import { archives } from "../source.js";

/** @typedef {{first_offset: number | null, last_offset: number, first_at: string | null, last_at: string, topic_id: string,
 *   indexed_to: number | null}} Bounds null: of the past nothing is known yet */
/** @typedef {{from_offset: number, until_offset: number, from_at: string, until_at: string, decisions: number, failures: number, rejected: number}} Bucket */
/** @typedef {{epoch: number, master_id: string, leader_id: string, from_offset: number, from_at: string, until_offset: number | null,
 *   until_at: string | null, gap_ms: number | null}} Leadership */
/** @typedef {{offset: number, at: string, kind: string, label: string, job_id: string | null, count?: number}} Mark */
/** @typedef {{from: number, until: number, from_at: string, until_at: string, buckets: Bucket[], leaderships: Leadership[], marks: Mark[]}} Histogram */

const REFRESH_MS = 1000;
const LAST_RETRY_MS = 16_000;
export const BUCKETS = 300;

/** @type {import("@preact/signals").Signal<Bounds | null>} */
export const bounds = signal(/** @type {Bounds | null} */ (null));
/** What is in sight. @type {import("@preact/signals").Signal<Histogram | null>} */
export const histogram = signal(/** @type {Histogram | null} */ (null));
/** All of the log, while the bar is zoomed. @type {import("@preact/signals").Signal<Histogram | null>} */
export const overview = signal(/** @type {Histogram | null} */ (null));
/** Why there is no histogram; empty: there is. */
export const missing = signal("");

/** @param {number | null} from @param {number | null} until @param {number} buckets @param {AbortSignal} [abort] @returns {Promise<Histogram>} */
export async function histogramOf(from, until, buckets, abort) {
  const range = from === null || until === null ? "" : `from=${from}&until=${until}&`;
  return (await ask(`${logPath.peek()}/histogram?${range}buckets=${buckets}`, { signal: abort })).body;
}

let known_of = "";

/** Forget what is known of another job's life, with where that ended. @param {string} of */
function begin(of) {
  if (!archives || of === known_of) return;
  known_of = of;
  batch(() => {
    for (const each of [bounds, histogram, overview, head, shown]) each.value = null;
  });
}

/** Keep it fresh, until what is returned is called. */
export function watch() {
  let controller = new AbortController();
  let timer = 0;
  let retryMs = REFRESH_MS;
  const load = async () => {
    window.clearTimeout(timer);
    controller.abort();
    if (logPath.peek() === null) return; // The page has just gone to one without a log, and with it goes the bar.
    const { signal: aborted } = (controller = new AbortController());
    const sight = zoom.peek();
    try {
      const [known, seen, all] = await Promise.all([
        ask(`${logPath.peek()}/bounds`, { signal: aborted }),
        histogramOf(sight?.from ?? null, sight?.until ?? null, BUCKETS, aborted),
        sight ? histogramOf(null, null, BUCKETS, aborted) : null,
      ]);
      if (aborted.aborted) return;
      bounds.value = known.body;
      if (archives) advanceHead({ offset: known.body.last_offset, decided_at: known.body.last_at, epoch: 0, master_id: "" });
      histogram.value = seen;
      overview.value = all;
      missing.value = "";
      retryMs = REFRESH_MS;
    } catch (error) {
      if (aborted.aborted) return;
      missing.value = String(/** @type {any} */ (error).message ?? error);
      timer = window.setTimeout(load, retryMs);
      retryMs = Math.min(retryMs * 2, LAST_RETRY_MS);
    }
  };
  let last = 0;
  const stops = [
    effect(() => {
      void zoom.value;
      begin(`${logPath.value} ${cluster.value}`);
      load();
    }),
    effect(() => {
      const offset = head.value?.offset ?? -1;
      if (!bounds.peek() || offset <= /** @type {Bounds} */ (bounds.peek()).last_offset || document.hidden) return;
      window.clearTimeout(timer);
      timer = window.setTimeout(
        () => {
          last = Date.now();
          load();
        },
        Math.max(0, REFRESH_MS - (Date.now() - last)),
      );
    }),
  ];
  return () => {
    controller.abort();
    window.clearTimeout(timer);
    for (const stop of stops) stop();
  };
}

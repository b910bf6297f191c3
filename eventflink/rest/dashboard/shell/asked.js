// @ts-check
// What pages and the bar tell the outlet, and it them, without knowing each other.

import { computed, signal } from "@preact/signals";
import { path } from "../moment.js";
import { archives } from "../source.js";

/** Counts orders to ask again. */
export const again = signal(0);
/** What the page is about: what [ and ] step by. */
export const concerns = signal(/** @type {{job?: string, task_manager?: string}} */ ({}));

/** Where the log is asked about; in archives it is the life of the job that is shown. null: there is none. */
export const logPath = computed(() => {
  if (!archives) return "/log";
  const [job] = /^\/jobs\/[^/]+/.exec(path.value) ?? [];
  return job ? `${job}/life` : null;
});

/** Ask again, now. */
export function refresh() {
  again.value += 1;
}

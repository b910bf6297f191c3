// @ts-check
// What pages and the bar tell the outlet, and it them, without knowing each other.

import { signal } from "@preact/signals";

/** Counts orders to ask again. */
export const again = signal(0);
/** What the page is about: what [ and ] step by. */
export const concerns = signal(/** @type {{job?: string, task_manager?: string}} */ ({}));

/** Ask again, now. */
export function refresh() {
  again.value += 1;
}

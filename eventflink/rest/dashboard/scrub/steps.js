// @ts-check
// Stepping through the log: to the event before or after that concerns what one looks at, to marks, record by record; and the other side of a
// comparison. What concerns a page is the server's rule.

import { computed, effect, signal } from "@preact/signals";
import { ask } from "../api.js";
import { toast } from "../components/toast.js";
import { at, change, go, head, pin, shown, versus } from "../moment.js";
import { bind } from "../shell/keys.js";
import { concerns, logPath } from "../shell/asked.js";
import { archives } from "../source.js";
import { bounds, histogram } from "./data.js";

/** @typedef {{previous: number | null, next: number | null, previous_label: string | null, next_label: string | null, label?: string | null,
 *   unchanged_since_at: string | null, unchanged_until_at: string | null}} Steps */

const REST_MS = 120;

/** Where the next steps lead from the moment that is shown. */
export const steps = signal(/** @type {(Steps & {of: string}) | null} */ (null));
/** The name of the event that one stands on. */
export const label = computed(() => steps.value?.label ?? "");

/** @param {Record<string, string | undefined>} of @param {number} offset @returns {string | null} null: the page has no log */
function question(of, offset) {
  if (archives) return logPath.value === null ? null : `${logPath.value}/steps?at=${offset}`;
  const about = of.job ? `&job=${encodeURIComponent(of.job)}` : of.task_manager ? `&task_manager=${encodeURIComponent(of.task_manager)}` : "";
  return `/log/steps?at=${offset}${about}`;
}

/** The offset that one stands on. */
function here() {
  return at.peek() ?? head.peek()?.offset ?? shown.peek()?.offset ?? null;
}

/** Go to the event before (-1) or after (1) that concerns this page. @param {1 | -1} way */
export async function step(way) {
  const offset = here();
  if (offset === null) return;
  const asked = question(concerns.peek(), offset);
  if (asked === null) return;
  try {
    const known = steps.peek();
    const found = known?.of === asked ? known : (await ask(asked)).body;
    const to = way < 0 ? found.previous : found.next;
    if (to !== null && to !== undefined) pin(to);
    else if (way > 0 && at.peek() !== null) pin(null);
    else toast(way < 0 ? "Nothing before this concerns what is shown." : "This is the newest that there is.");
  } catch (error) {
    toast(String(/** @type {any} */ (error).message ?? error), { kind: "failed" });
  }
}

/** Go to the record before or after. @param {1 | -1} way */
export function oneRecord(way) {
  const offset = here();
  const last = Math.max(head.peek()?.offset ?? 0, bounds.peek()?.last_offset ?? 0);
  if (offset === null) return;
  const to = offset + way;
  if (to > last) pin(null);
  else if (to >= (bounds.peek()?.first_offset ?? 0)) pin(to);
}

/** Go to the mark before or after. @param {1 | -1} way */
export function toMark(way) {
  const offset = here() ?? 0;
  const marks = (histogram.peek()?.marks ?? []).map((mark) => mark.offset).sort((a, b) => a - b);
  const to = way < 0 ? marks.findLast((mark) => mark < offset) : marks.find((mark) => mark > offset);
  if (to !== undefined) pin(to);
  else toast(way < 0 ? "There is no mark before this." : "There is no mark after this.");
}

/** Anchor this moment as A; what one goes to next is B. */
export function anchor() {
  const offset = here();
  if (offset === null) return;
  change({ vs: offset, at: at.peek() ?? offset });
  toast("This moment is A. Go to another one: that is B.", { link: undefined });
}

/** Let A and B change places. */
export function swap() {
  const [a, b] = [versus.peek(), here()];
  if (a !== null && b !== null) change({ vs: b, at: a });
}

/** Compare with an hour ago. */
export async function compareWithAnHourAgo() {
  const now = head.peek() ?? shown.peek();
  const from = at.peek() === null ? now : shown.peek();
  if (!from?.decided_at || !bounds.peek()?.first_at) return;
  const then = Math.max(Date.parse(from.decided_at) - 3_600_000, Date.parse(/** @type {any} */ (bounds.peek()).first_at));
  try {
    const { body } = await ask(`/log/position?at=${encodeURIComponent(new Date(then).toISOString())}`);
    go("/diff", { vs: body.offset, at: from.offset });
  } catch (error) {
    toast(String(/** @type {any} */ (error).message ?? error), { kind: "failed" });
  }
}

/** Bind the keys, and keep the next steps known. */
export function bindSteps() {
  let timer = 0;
  let controller = new AbortController();
  const stop = effect(() => {
    const offset = at.value ?? shown.value?.offset ?? null;
    const asked = offset === null ? null : question(concerns.value, offset);
    window.clearTimeout(timer);
    controller.abort();
    if (asked === null || steps.peek()?.of === asked) return;
    const { signal: aborted } = (controller = new AbortController());
    timer = window.setTimeout(async () => {
      try {
        const { body } = await ask(asked, { signal: aborted });
        if (!aborted.aborted) steps.value = { ...body, of: asked };
      } catch {
        if (!aborted.aborted) steps.value = null;
      }
    }, REST_MS);
  });
  const comparing = [
    { keys: "a", words: "anchor this moment as A of a comparison", act: anchor },
    { keys: "x", words: "let A and B change places", act: swap },
    { keys: "c", words: "compare with an hour ago", act: compareWithAnHourAgo },
  ];
  const unbind = bind(
    { keys: "[", words: "the event before that concerns this page", act: () => step(-1) },
    { keys: "]", words: "the event after that concerns this page", act: () => step(1) },
    { keys: "{", words: "the mark before", act: () => toMark(-1) },
    { keys: "}", words: "the mark after", act: () => toMark(1) },
    { keys: ",", words: "one record back", act: () => oneRecord(-1) },
    { keys: ".", words: "one record on", act: () => oneRecord(1) },
    ...(archives ? [] : comparing),
  );
  return () => {
    stop();
    unbind();
    controller.abort();
    window.clearTimeout(timer);
  };
}

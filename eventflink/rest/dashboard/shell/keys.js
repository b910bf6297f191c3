// @ts-check
// Keys: each is registered by who does it, with its words for the help. A single key is not a shortcut while somebody types, or where that is
// switched off; "g j" is two keys within a second.

import { shortcuts } from "./settings.js";

const SECOND_KEY_MS = 1000;

/** @typedef {{keys: string, words: string, act: (event: KeyboardEvent) => void}} Binding */

/** @type {Set<Binding>} */
const bindings = new Set();
let before = "";
let beforeAt = 0;

/** Bind keys until what is returned is called. @param {Binding[]} added */
export function bind(...added) {
  for (const binding of added) bindings.add(binding);
  return () => {
    for (const binding of added) bindings.delete(binding);
  };
}

/** What is bound now. */
export function bound() {
  return [...bindings];
}

/** @param {EventTarget | null} target */
function types(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (types(event.target) || (shortcuts.value === "off" && event.key !== "Escape")) return;
  if (document.querySelector("dialog[open]")) return;
  const pair = event.timeStamp - beforeAt < SECOND_KEY_MS ? `${before} ${event.key}` : "";
  const binding = [...bindings].reverse().find(({ keys }) => keys === pair) ?? [...bindings].reverse().find(({ keys }) => keys === event.key);
  [before, beforeAt] = [event.key, event.timeStamp];
  if (!binding) return;
  before = "";
  event.preventDefault();
  binding.act(event);
});

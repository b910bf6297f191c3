// @ts-check
// What this browser prefers: theme, zone of times, density, whether single keys are shortcuts. Kept in its local storage.

import { effect, signal } from "@preact/signals";

/** @template {string} T @param {string} name @param {T[]} choices the first is the default */
function preference(name, choices) {
  let stored = null;
  try {
    stored = window.localStorage.getItem(`eventflink.${name}`);
  } catch {
    // A browser may forbid storage: then the default holds for this visit.
  }
  const value = signal(choices.find((choice) => choice === stored) ?? /** @type {T} */ (choices[0]));
  effect(() => {
    try {
      window.localStorage.setItem(`eventflink.${name}`, value.value);
    } catch {
      // As above.
    }
  });
  return value;
}

export const theme = preference("theme", ["system", "light", "dark"]);
export const zone = preference("zone", ["local", "UTC"]);
export const density = preference("density", ["compact", "comfortable"]);
export const shortcuts = preference("shortcuts", ["on", "off"]);

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "system") delete dataset.theme;
  else dataset.theme = theme.value;
  dataset.density = density.value;
});

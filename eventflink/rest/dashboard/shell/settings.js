// @ts-check
// What this browser prefers: theme, zone of times, density, whether single keys are shortcuts. Kept in its local storage.

import { effect, signal } from "@preact/signals";
import { isZone } from "../format.js";

/** @template {string} T @param {string} name @param {T[]} choices the first is the default @param {(stored: string) => boolean} [isOther] whether it is another choice */
function preference(name, choices, isOther = () => false) {
  let stored = null;
  try {
    stored = window.localStorage.getItem(`eventflink.${name}`);
  } catch {
    // A browser may forbid storage: then the default holds for this visit.
  }
  const other = stored !== null && isOther(stored) ? /** @type {T} */ (stored) : undefined;
  const value = signal(choices.find((choice) => choice === stored) ?? other ?? /** @type {T} */ (choices[0]));
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
/** "local", "UTC", or the name of a zone, such as "Europe/Vienna". */
export const zone = preference("zone", /** @type {string[]} */ (["local", "UTC"]), isZone);
export const density = preference("density", ["compact", "comfortable"]);
export const shortcuts = preference("shortcuts", ["on", "off"]);

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "system") delete dataset.theme;
  else dataset.theme = theme.value;
  dataset.density = density.value;
});

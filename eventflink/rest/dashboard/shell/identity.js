// @ts-check
// Who one is for the server, and what one may do: {name, role, cluster_id}. Until it is known, and where the server does not tell, nobody.

import { signal } from "@preact/signals";
import { ask } from "../api.js";

const RANKS = ["viewer", "operator", "admin"];

/** @type {import("@preact/signals").Signal<{name: string, role: string, cluster_id?: string} | null>} */
export const identity = signal(/** @type {any} */ (null));

/** Ask who one is. */
export async function recognise() {
  try {
    identity.value = /** @type {any} */ (await ask("/identity"));
  } catch {
    identity.value = null;
  }
}

/** Whether one may do what a role may; the server decides in the end. @param {"viewer" | "operator" | "admin"} role */
export function may(role) {
  const own = identity.value;
  return own === null || RANKS.indexOf(own.role) >= RANKS.indexOf(role);
}

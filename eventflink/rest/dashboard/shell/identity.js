// @ts-check
// Who one is for the server, and what one may do; and the form with which somebody says so where the server asks for a token.

import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { ApiError, ask, order } from "../api.js";
import { html } from "../html.js";

const RANKS = ["viewer", "operator", "admin"];

/** @typedef {{name: string, role: string, session?: boolean, needs_tokens?: boolean}} Identity */

/** Nobody, until it is known, and where the server asks for a token first. @type {import("@preact/signals").Signal<Identity | null>} */
export const identity = signal(/** @type {Identity | null} */ (null));

/** Ask who one is. */
export async function recognise() {
  try {
    identity.value = (await ask("/identity")).body;
  } catch {
    identity.value = null;
  }
}

/** Whether one may do what a role may; the server decides in the end. @param {"viewer" | "operator" | "admin"} role */
export function may(role) {
  const own = identity.value;
  return own === null || RANKS.indexOf(own.role) >= RANKS.indexOf(role);
}

/** Say that one is nobody any more. */
export async function logOut() {
  await order("/logout");
  window.location.reload();
}

/** A token opens the dashboard: it becomes a cookie that no script can read. @param {{then: () => void}} props */
export function LogIn({ then }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [failure, setFailure] = useState("");
  const logIn = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await order("/login", { token: field.current?.value ?? "" });
      await recognise();
      then();
    } catch (error) {
      setFailure(error instanceof ApiError ? error.message : String(error));
    }
  };
  return html`<form class="empty log-in" onSubmit=${logIn}>
    <h1 class="empty-title">Log in to this cluster</h1>
    <p>It answers those alone who have a token. Whoever runs it makes one with <code>eventflink rest-token</code>.</p>
    <label>Token <input ref=${field} type="password" name="token" autocomplete="current-password" required /></label>
    ${failure && html`<p class="failed ink" role="alert">${failure}</p>`}
    <button class="button primary">Log in</button>
  </form>`;
}

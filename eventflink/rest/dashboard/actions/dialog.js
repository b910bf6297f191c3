// @ts-check
// Ordering something: the dialog shows what the leader would decide, which writes nothing to the log, and sends the command with the fencing token
// of that leader, so that another one refuses what was shown for this one. In the past only the first half is there.

import { useEffect, useId, useState } from "preact/hooks";

import { ApiError, order } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { toast } from "../components/toast.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, go, href, pin } from "../moment.js";
import { refresh } from "../shell/asked.js";
import { countedByType, initialValues } from "./commands.js";

const TYPING_MS = 300;
const MAX_SHOWN = 40;

/** @typedef {import("./commands.js").Command} Command */
/** @typedef {{accepted: boolean, refusal: {code: string, message: string} | null, sentence: string, events: {type: string, subject: string, details: string}[],
 *   events_total: number, leader_id: string | null, job_master_id: string | null}} DryRun */

/** @param {{command: Command, onClose: () => void}} props */
export function CommandDialog({ command, onClose }) {
  const [values, setValues] = useState(() => initialValues(command.fields));
  const [requestId, setRequestId] = useState(newId);
  const document = { ...command.document(values), request_id: requestId };
  const { dryRun, errors, asking } = useDryRun(document);
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState(/** @type {string[]} */ ([]));
  const past = at.value !== null;
  // Where nobody can tell what it would do, it can be ordered all the same: the leader decides.
  const possible = !sending && !asking && (dryRun ? dryRun.accepted : errors.length > 0);

  async function send() {
    setSending(true);
    setRefused([]);
    try {
      const tokens = { ...(dryRun?.leader_id && { leader_id: dryRun.leader_id }), ...(dryRun?.job_master_id && { job_master_id: dryRun.job_master_id }) };
      const { offset, subject } = await order("/commands", { ...document, ...tokens });
      toast(`${command.verb}: accepted at ${number(offset)}.`, { kind: "done", link: href(`/log/${offset}`), linkText: "See what it did" });
      refresh();
      onClose();
      if (command.leads) go(command.leads(subject));
    } catch (error) {
      if (!(error instanceof ApiError && error.passes)) setRequestId(newId()); // What was answered is answered so again under its id; what was not is done once.
      setRefused(error instanceof ApiError ? error.errors : [String(error)]);
      setSending(false);
    }
  }
  return h(
    Dialog,
    { title: command.title, onClose, wide: true },
    html`<form class="command-form" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (!past && possible) send();
    }}>
      ${command.about && html`<p>${command.about}</p>`}
      ${command.fields.map((field) => h(Input, { key: field.name, field, value: values[field.name] ?? "", onInput: (value) => setValues({ ...values, [field.name]: value }) }))}
      <section class="dry-run" aria-live="polite" aria-busy=${asking}>
        <h3>${past ? `What the leader would have decided at ${number(at.value)}` : "What the leader would decide now"}</h3>
        ${errors.map((line) => html`<p class="refused">This cannot be told: ${line}</p>`)}
        ${dryRun ? h(Outcome, { dryRun }) : !errors.length && html`<p class="muted">Asking…</p>`}
      </section>
      ${refused.map((line) => html`<p class="refused" role="alert">${line}</p>`)}
      <footer>
        ${past
          ? html`<span class="muted">Nothing can be ordered in the past.</span><button type="button" class="button" onClick=${() => {
              onClose();
              pin(null);
            }}>Return to now</button>`
          : html`<button type="button" class="button" onClick=${onClose}>${command.keep}</button>
              <button type="submit" class=${`button ${command.danger ? "danger" : "primary"}`} disabled=${!possible}>${sending ? "Asked…" : command.verb}</button>`}
      </footer>
    </form>`,
  );
}

/** An id that nobody has. The browser's own ids of this kind are for secure pages alone. */
function newId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Ask what would be decided, anew when the document changes. @param {Record<string, any>} document */
export function useDryRun(document) {
  const [found, setFound] = useState(/** @type {{dryRun: DryRun | null, errors: string[], asking: boolean}} */ ({ dryRun: null, errors: [], asking: true }));
  const text = JSON.stringify(document);
  const moment = at.value;
  useEffect(() => {
    const controller = new AbortController();
    setFound((before) => ({ ...before, asking: true }));
    const timer = window.setTimeout(async () => {
      try {
        const answer = await order(`/dry-run${moment === null ? "" : `?at=${moment}`}`, JSON.parse(text), { signal: controller.signal });
        setFound({ dryRun: "body" in answer ? answer.body : answer, errors: [], asking: false });
      } catch (error) {
        if (!controller.signal.aborted) setFound({ dryRun: null, errors: error instanceof ApiError ? error.errors : [String(error)], asking: false });
      }
    }, TYPING_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [text, moment]);
  return found;
}

/** @param {{dryRun: DryRun}} props */
export function Outcome({ dryRun }) {
  if (!dryRun.accepted) {
    return html`<p class="refused"><b>${dryRun.refusal?.code ?? "refused"}</b> ${dryRun.refusal?.message ?? dryRun.sentence}</p>`;
  }
  return html`<p class="outcome">${dryRun.sentence}</p>
    <p class="chips">${countedByType(dryRun.events).map(([type, count]) => html`<span key=${type} class="event-count"><b>${number(count)}</b> ${type}</span>`)}</p>
    <details>
      <summary>${plural(dryRun.events_total, "event")}</summary>
      <ol class="would">
        ${dryRun.events.slice(0, MAX_SHOWN).map((event) => html`<li><b>${event.type}</b> <span>${event.subject}</span> <span class="muted">${event.details}</span></li>`)}
      </ol>
      ${dryRun.events_total > MAX_SHOWN && html`<p class="muted">and ${number(dryRun.events_total - MAX_SHOWN)} more</p>`}
    </details>`;
}

/** @param {{field: import("./commands.js").Field, value: string, onInput: (value: string) => void}} props */
function Input({ field, value, onInput }) {
  const id = useId();
  const take = (/** @type {Event} */ event) => onInput(/** @type {HTMLInputElement} */ (event.target).value);
  return html`<p class="field">
    <label for=${id}>${field.label}</label>
    ${field.kind === "choice"
      ? html`<select id=${id} value=${value} onChange=${take}>${field.choices?.map(([each, words]) => html`<option key=${each} value=${each}>${words}</option>`)}</select>`
      : html`<input id=${id} type=${field.kind} value=${value} min=${field.min} max=${field.max} onInput=${take} autocomplete="off" aria-describedby=${field.hint ? `${id}-hint` : undefined} />`}
    ${field.hint && html`<small id=${`${id}-hint`} class="muted">${field.hint}</small>`}
  </p>`;
}

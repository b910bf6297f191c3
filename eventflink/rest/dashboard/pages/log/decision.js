// @ts-check
// One decision: who decided it, what it was because of, what it says, and what it led to.

import { useEffect, useRef, useState } from "preact/hooks";
import { Copy } from "../../components/copy.js";
import { kindOf } from "../../components/events.js";
import { Sentence } from "../../components/sentence.js";
import { Time } from "../../components/time.js";
import { number } from "../../format.js";
import { h, html } from "../../html.js";
import { href, pin } from "../../moment.js";
import { bind } from "../../shell/keys.js";

const OPEN = 3;

/** @param {{decision: any, back: () => void}} props */
export function Decision({ decision, back }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => heading.current?.focus({ preventScroll: true }), [decision.offset]);
  useEffect(() => bind({ keys: "Escape", words: "close the decision", act: back }), [back]);
  return html`<aside class="panel card" aria-label=${`Decision ${decision.offset}`}>
    <header>
      <h2 ref=${heading} tabindex="-1">${number(decision.offset)} <small class="muted">epoch ${decision.epoch}/${decision.sequence}</small></h2>
      <span>${h(Copy, { text: JSON.stringify(decision, null, 2), label: "the decision as JSON" })}<button class="icon-button" aria-label="Close" onClick=${back}>✕</button></span>
    </header>
    <div class="card-body panel-body">
      <p>${h(Time, { at: decision.decided_at, form: "full" })}${decision.master_id ? html`, decided by <b>${decision.master_id}</b>` : ""}${decision.actor ? html`, asked by <b>${decision.actor}</b>` : ""}</p>
      ${!decision.accepted && html`<p class="stale">It did not count: ${decision.rejection}.</p>`}
      ${h(Chain, { title: "Because of", links: [...decision.causes.map((/** @type {any} */ cause) => ({ sentence: cause.sentence })), ...decision.because_of] })}
      <h3>This</h3>
      <ul class="decided">${decision.events.map((/** @type {any} */ event, /** @type {number} */ index) => h(Said, { key: index, event, open: decision.events.length <= OPEN }))}</ul>
      ${decision.events_total > decision.events.length && html`<p class="muted">and ${number(decision.events_total - decision.events.length)} more events</p>`}
      ${h(Chain, { title: "It led to", links: decision.led_to, none: "nothing yet" })}
      <p class="actions start">
        <button class="button small" onClick=${() => pin(decision.offset)}>Show the cluster here</button>
        ${decision.offset > 0 && html`<a class="button small" href=${href("/diff", { vs: decision.offset - 1, at: decision.offset })}>What it changed</a>`}
      </p>
    </div>
  </aside>`;
}

/** @param {{title: string, links: {offset?: number, sentence: string}[], none?: string}} props */
function Chain({ title, links, none = "" }) {
  if (!links.length && !none) return null;
  return html`<h3>${title}</h3>
    <ul class="chain">
      ${links.map(
        ({ offset, sentence }) => html`<li>
          ${offset === undefined ? h(Sentence, { text: sentence }) : html`<a href=${href(`/log/${offset}`)}><span class="mono">${number(offset)}</span> ${h(Sentence, { text: sentence })}</a>`}
        </li>`,
      )}
      ${!links.length && html`<li class="muted">${none}</li>`}
    </ul>`;
}

/** An event in words; its fields when it is opened. @param {{event: any, open: boolean}} props */
function Said({ event, open }) {
  const [shown, setShown] = useState(open);
  const { glyph, family } = kindOf(event.type);
  return html`<li class=${family}>
    <button class="disclose" aria-expanded=${shown} onClick=${() => setShown(!shown)}>
      <span class="ink" aria-hidden="true">${glyph}</span>
      <span><b>${event.type}</b> ${event.subject} <span class="muted">${h(Sentence, { text: event.details })}</span></span>
    </button>
    ${shown && html`<pre class="code-block" tabindex="0" aria-label=${`Fields of ${event.type}`}>${JSON.stringify(event.payload, null, 2)}</pre>`}
  </li>`;
}

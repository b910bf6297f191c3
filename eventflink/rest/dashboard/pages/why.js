// @ts-check
// Why a thing is as it is, as `eventflink why` prints it: what it is, what it waits for, and the decisions that led there. All words are the server's.

import { Command, Copy } from "../components/copy.js";
import { Sentence } from "../components/sentence.js";
import { Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href } from "../moment.js";

/** The address of why a thing is as it is. @param {string} id */
export function whyOf(id) {
  return `/why/${encodeURIComponent(id)}`;
}

/** @param {Record<string, string>} params */
export function title(params) {
  return `why ${params.thing}`;
}

/** @param {Record<string, string>} params */
export function questions(params) {
  return { why: whyOf(params.thing ?? "") };
}

/** @param {Record<string, string>} params */
export function concerns(params) {
  return /^[^/]+\/.+\[\d+\]/.test(params.thing ?? "") ? { job: params.thing?.split("/")[0] } : {};
}

/** @param {{documents: Record<string, any>}} props */
export function Page({ documents }) {
  const { why } = documents;
  const facts = Object.entries(why.facts).map(([name, value]) => [name, inWords(value)]).filter(([, said]) => said !== "");
  return html`<header class="job-head">
      <p class="crumbs">Why is it so?</p>
      <div class="job-title"><h1>${why.id}</h1>${h(Copy, { text: why.id, label: "the id" })}<span>${why.type} <b>${why.state}</b></span></div>
      ${why.waits.map((/** @type {any} */ wait) => html`<p key=${wait.what} class="job-sentence waits"><b>${wait.what}</b> ${h(Sentence, { text: wait.why })}${wait.since && html` <span class="muted">since ${h(Time, { at: wait.since })}</span>`}</p>`)}
      ${why.cause && html`<p class="failure-message"><b>${why.cause.failure_type}</b>: ${why.cause.message}</p>`}
    </header>
    ${facts.length > 0 && html`<section class="card stacked" aria-label="What it is"><header><h2>What it is</h2></header>
      <dl class="pairs card-body">${facts.map(([name, said]) => html`<dt key=${name}>${name?.replaceAll("_", " ")}</dt><dd>${h(Sentence, { text: said })}</dd>`)}</dl>
    </section>`}
    <section class="card" aria-label="What led there"><header><h2>What led there</h2><span class="muted">the oldest first${why.omitted > 0 && `, without ${plural(why.omitted, "decision")} in the middle`}</span></header>
      <ol class="rows">${why.chain.map((/** @type {any} */ step) => h(Step, { key: step.offset, step }))}</ol>
    </section>
    ${at.value === null && html`<p class="muted below">The same on the command line:</p>${h(Command, { text: `eventflink why '${why.id}'` })}`}`;
}

/** One decision: what it was because of, and what it says of the thing. @param {{step: any}} props */
function Step({ step }) {
  return html`<li class="neutral">
    <span class="ink" aria-hidden="true">▸</span>
    <div>
      <p class="row-head">
        <a class="mono" href=${href(`/log/${step.offset}`)}>${number(step.offset)}</a>
        <span class="clamp one muted">${step.cause || "a candidacy"}</span>
        <span class="row-end">${h(Time, { at: step.decided_at })}</span>
      </p>
      ${step.events.map((/** @type {string} */ said) => html`<p key=${said} class="caption wrap">${h(Sentence, { text: said })}</p>`)}
    </div>
  </li>`;
}

/** @param {unknown} value @returns {string} */
function inWords(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return Object.entries(value).map(([name, each]) => `${name} ${inWords(each)}`).join(", ");
  return String(value);
}

// @ts-check
// A job as it was submitted: its document, to be copied, and what the cluster made of it.

import { Copy } from "../../components/copy.js";
import { duration } from "../../format.js";
import { h, html } from "../../html.js";

/** @param {string} job @returns {Record<string, string>} */
export function questions(job) {
  return { document: `/jobs/${job}/document` };
}

/** @param {{documents: Record<string, any>, job: any}} props */
export function Tab({ documents, job }) {
  const limited = job.vertices.filter((/** @type {any} */ each) => each.time_limit_ms);
  const text = JSON.stringify(documents.document.document, null, 2);
  return html`<div class="two-columns">
    <section class="card" aria-label="Document">
      <header><h2>The job graph as submitted</h2>${h(Copy, { text, label: "the document" })}</header>
      <pre class="code-block" tabindex="0"><code>${text}</code></pre>
    </section>
    <section class="card" aria-label="Settings">
      <header><h2>What holds for it</h2></header>
      <div class="card-body">
        <dl class="pairs">
          <dt>restarts</dt><dd>${wordsOf(job.restart_strategy)}</dd>
          <dt>what restarts</dt><dd>${word(job.failover_strategy)}</dd>
          <dt>scheduler</dt><dd>${word(job.scheduler)}${job.reactive ? ", reactive" : ""}</dd>
          <dt>slots</dt><dd>${job.slot_requirements.length === 0 ? "none are required now" : job.slot_requirements.map((/** @type {any} */ each) => html`<span class="line">${slotsInWords(each)}</span>`)}</dd>
          ${job.time_limit_ms && html`<dt>time limit</dt><dd>${duration(job.time_limit_ms)}</dd>`}
          ${limited.length > 0 && html`<dt>of each attempt</dt><dd>${limited.map((/** @type {any} */ each) => html`<span class="line">${each.vertex_id}: ${duration(each.time_limit_ms)}</span>`)}</dd>`}
          <dt>JobMaster</dt><dd><code>${job.job_master_id}</code></dd>
          <dt>graph digest</dt><dd><code>${job.graph_digest}</code></dd>
        </dl>
      </div>
    </section>
  </div>`;
}

/** @param {string | null} value */
function word(value) {
  return value ? value.toLowerCase().replaceAll("_", " ") : html`<span class="muted">–</span>`;
}

/** A restart strategy in words: what of it is 0 says nothing. @param {any} strategy */
function wordsOf(strategy) {
  if (!strategy) return html`<span class="muted">the cluster's</span>`;
  const { strategy_type, ...settings } = strategy;
  const told = Object.entries(settings).filter(([, value]) => value);
  const parts = told.map(([name, value]) => (name.endsWith("_ms") ? `${name.slice(0, -3).replaceAll("_", " ")} ${duration(/** @type {number} */ (value))}` : `${name.replaceAll("_", " ")} ${value}`));
  return [word(strategy_type), ...parts].join(", ");
}

/** @param {any} each */
function slotsInWords(each) {
  const group = each.slot_sharing_group ? ` for the group ${each.slot_sharing_group}` : "";
  const resources = each.resources ? ` of ${each.resources}` : "";
  return `${each.held} of ${each.required} held${group}${resources}${each.requested > 0 ? `, ${each.requested} requested` : ""}`;
}

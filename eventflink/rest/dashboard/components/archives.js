// @ts-check
// What stands beside any list of archives: of which clusters they are, and which of them cannot be read, with the reasons.

import { number, plural } from "../format.js";
import { html } from "../html.js";
import { change } from "../moment.js";

/** One cluster or all of them, with how many jobs each has. @param {{known: any, chosen: string | undefined}} props `known`: a page of archives */
export function ChoiceOfCluster({ known, chosen }) {
  return html`<select aria-label="Only this cluster" onChange=${(/** @type {any} */ event) => change({ cluster: event.target.value })}>
    <option value="" selected=${!chosen}>all clusters</option>
    ${Object.entries(known.by_cluster).map(([name, count]) => html`<option key=${name} value=${name} selected=${chosen === name}>${name} (${number(/** @type {number} */ (count))})</option>`)}
  </select>`;
}

/** The archives that cannot be read. @param {{known: {skipped: {location: string, reason: string}[], skipped_total: number}}} props */
export function Skipped({ known: { skipped, skipped_total: total } }) {
  if (total === 0) return null;
  return html`<details class="below">
    <summary>${plural(total, "archive")} cannot be read</summary>
    <ul class="reasons">${skipped.map(({ location, reason }) => html`<li key=${location}><code>${location}</code> ${reason}</li>`)}</ul>
  </details>`;
}

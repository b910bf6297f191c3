// @ts-check
// What jobs read and write: each topic, directory and result with who writes it and who reads it, as of their newest runs.

import { Empty } from "../components/empty.js";
import { StateChip } from "../components/state_chip.js";
import { Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { change, href } from "../moment.js";
import { pathOf } from "./runs.js";

const LIMIT = 500;
const KINDS = /** @type {Record<string, [string, string]>} */ ({
  KAFKA: ["≣", "Topics"],
  FILES: ["▤", "Directories"],
  PYTHON: ["ƒ", "Functions"],
  RESULT: ["▦", "Results of batch jobs"],
});

export const title = () => "Data";
export const concerns = () => ({});

/** @param {Record<string, string>} _params @param {Record<string, string>} query */
export function questions(_params, query) {
  return { catalogue: `/catalogue?limit=${LIMIT}${query.name ? `&name=${encodeURIComponent(query.name)}` : ""}` };
}

/** @param {{documents: any, query: Record<string, string>}} props */
export function Page({ documents, query }) {
  const { places, total } = documents.catalogue;
  const filtered = Boolean(query.name);
  /** @type {Map<string, any[]>} */
  const byKind = new Map();
  for (const place of places) byKind.set(place.connector, [...(byKind.get(place.connector) ?? []), place]);
  return html`
    <div class="title"><h1>Data</h1><span class="muted">${plural(total, "place")}</span></div>
    ${(total > 0 || filtered) &&
    html`<div class="filters"><input type="search" aria-label="Place, job or vertex" placeholder="place, job or vertex" value=${query.name ?? ""}
      onInput=${(/** @type {any} */ event) => change({ name: event.currentTarget.value || null }, { replace: true })} /></div>`}
    ${total === 0 &&
    (filtered
      ? h(Empty, { title: "No place fits.", small: true })
      : h(Empty, { title: "No job reads or writes anything yet." }, html`<p>This page lists the topics and directories of streams with the jobs that write and read them, and the results of batch jobs.</p>`))}
    ${[...byKind].map(
      ([kind, those]) => html`<section class="card stacked" key=${kind}>
        <header><h2>${KINDS[kind]?.[1] ?? kind}</h2><span class="muted">${number(those.length)}</span></header>
        <ul class="rows">${those.map((place) => h(PlaceRow, { key: `${place.location} ${place.bootstrap_servers}`, place }))}</ul>
      </section>`,
    )}
    ${total > places.length && html`<p class="muted">The first ${number(places.length)} of ${number(total)}.</p>`}
  `;
}

/** @param {{place: any}} props */
function PlaceRow({ place }) {
  return html`<li class="neutral">
    <span class="ink" aria-hidden="true">${KINDS[place.connector]?.[0] ?? "○"}</span>
    <div>
      <p class="row-head"><b>${place.location}</b>${place.bootstrap_servers && html` <span class="muted">at ${place.bootstrap_servers}</span>`}</p>
      ${place.written_by.map((/** @type {any} */ use) => h(UseLine, { key: `w${use.name}/${use.vertex_id}`, verb: "written by", use }))}
      ${h(More, { verb: "written by", count: place.written_by_total - place.written_by.length })}
      ${place.read_by.map((/** @type {any} */ use) => h(UseLine, { key: `r${use.name}/${use.vertex_id}`, verb: "read by", use }))}
      ${h(More, { verb: "read by", count: place.read_by_total - place.read_by.length })}
    </div>
  </li>`;
}

/** @param {{verb: string, use: any}} props */
function UseLine({ verb, use }) {
  return html`<p class="caption">
    <span class="muted">${verb}</span> <a href=${href(`/jobs/${encodeURIComponent(use.job_id)}`, { vertex: use.vertex_id })}>${use.name} / ${use.vertex_id}</a>
    ${" "}${h(StateChip, { state: use.status, of: "job" })}
    ${use.rows_written !== null && html` <span>${plural(use.rows_written, "row")}</span>`}
    ${use.at && html` <span class="muted">${h(Time, { at: use.at })}</span>`}
    ${use.runs > 1 && html` <a href=${href(pathOf(use.name))}>newest of ${number(use.runs)} runs</a>`}
  </p>`;
}

/** @param {{verb: string, count: number}} props */
function More({ verb, count }) {
  return count > 0 ? html`<p class="caption muted">${verb} ${number(count)} more</p>` : "";
}

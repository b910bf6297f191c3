// @ts-check
// Sentences of the server: its times, which are ISO 8601, in the zone of choice; and whose a failure is, in a word.

import { html } from "../html.js";
import { clock } from "../format.js";
import { reference } from "../moment.js";
import { zone } from "../shell/settings.js";
import { absolute } from "../format.js";

const TIME = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))/;
const DAY_MS = 86_400_000;

/** @param {{text: string | null | undefined}} props */
export function Sentence({ text }) {
  return html`${(text ?? "").split(TIME).map((part, index) => {
    if (index % 2 === 0) return part;
    const full = absolute(part, zone.value);
    const near = Math.abs(reference.value - Date.parse(part)) < DAY_MS;
    return html`<time datetime=${part} title=${full}>${near ? clock(part, zone.value).slice(0, 8) : full.slice(0, 19)}</time>`;
  })}`;
}

const WHOSE = /** @type {Record<string, string>} */ ({
  code: "your code",
  data: "your data",
  room: "no room",
  spark: "Spark",
  host: "the host",
  task_manager: "TaskManager",
  masters: "masters or Kafka",
  time_limit: "time limit",
});

/** Whose a failure is. @param {{kind: string}} props */
export function Whose({ kind }) {
  return html`<span class="whose">${WHOSE[kind] ?? kind}</span>`;
}

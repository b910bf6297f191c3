// @ts-check
// What was refused or could not be decided: requests with the reason that they were answered with, what is parked and waits for an operator, and
// records of topics that nobody could read, as far as they can be shown.

import { useEffect, useState } from "preact/hooks";
import { ask } from "../api.js";
import { Command, Copy } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { Sentence } from "../components/sentence.js";
import { Time } from "../components/time.js";
import { number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href } from "../moment.js";

const LIMIT = 200;
const PARKED = 20;

export const title = () => "Refused";
export const concerns = () => ({});
export const live = ["refused"];

export function questions() {
  const until = at.peek() === null ? "" : `&until=${at.peek()}`;
  return { parked: `/parked?limit=${PARKED}`, refused: `/log/events?type=RequestRejected&order=newest&limit=${LIMIT}${until}` };
}

/** @param {{documents: any}} props */
export function Page({ documents }) {
  const { parked, refused } = documents;
  return html`
    <div class="title"><h1>Refused</h1><span class="muted">${plural(refused.events.length, "request")}${refused.next ? " and more" : ""}</span></div>
    ${parked.total > 0 && h(Parked, { parked })}
    <section class="card stacked">
      <header><h2>Requests that were refused</h2><a href=${href("/log", { type: "RequestRejected" })}>in the log</a></header>
      ${refused.events.length
        ? html`<ul class="rows">
            ${refused.events.map(
              (/** @type {any} */ event) => html`<li class="neutral" key=${`${event.offset}.${event.index}`}>
                <span class="ink" aria-hidden="true">⊘</span>
                <div>
                  <p class="row-head"><a href=${href(`/log/${event.offset}`)}><b>${event.subject || "a request"}</b></a><span class="row-end">${h(Time, { at: event.decided_at })}</span></p>
                  <p class="caption muted wrap">${h(Sentence, { text: event.details })}</p>
                </div>
              </li>`,
            )}
          </ul>`
        : h(Empty, { title: "No request was refused.", small: true }, html`<p>A command or a submission that the leader refuses is listed here, with the code and the reason that its sender got.</p>`)}
    </section>
    ${h(DeadLetters, {})}
  `;
}

/** What could not be decided: an operator tries it again, or drops it. @param {{parked: any}} props */
function Parked({ parked }) {
  return html`<section class="card stacked">
    <header><h2>Parked <span class="muted">${number(parked.total)}</span></h2></header>
    <ul class="rows">
      ${parked.parked.map(
        (/** @type {any} */ each) => html`<li class="failed" key=${each.parked_id}>
          <span class="ink" aria-hidden="true">✖</span>
          <div>
            <p class="row-head">
              <b>${each.input_type}</b>
              ${each.job_id ? html`<a href=${href(`/jobs/${encodeURIComponent(each.job_id)}`)}>${each.job_id}</a>` : each.subject}
              <span class="row-end">${h(Time, { at: each.parked_at })}</span>
            </p>
            <p class="caption muted wrap">${h(Sentence, { text: each.reason })}</p>
            ${h(Command, { text: `eventflink parked ${each.wanted ? "retry" : "drop"} ${each.parked_id}` })}
          </div>
        </li>`,
      )}
    </ul>
  </section>`;
}

/** The dead letters are a topic of their own: what is there now is read now, beside the page. */
function DeadLetters() {
  const [letters, setLetters] = useState(/** @type {{records: any[], total: number} | null} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const leaving = new AbortController();
    ask("/dead-letters?limit=100", { signal: leaving.signal }).then(
      ({ body }) => setLetters(body),
      (error) => !leaving.signal.aborted && setFailure(error.message),
    );
    return () => leaving.abort();
  }, []);
  return html`<section class="card stacked">
    <header><h2>Dead letters${letters ? html` <span class="muted">${number(letters.total)}</span>` : ""}</h2>${at.value === null ? "" : html`<span class="not-recorded">not recorded; taken now</span>`}</header>
    ${failure
      ? h(Empty, { title: "The dead letters cannot be read.", small: true }, html`<p>${failure}</p>`)
      : !letters
        ? html`<p class="card-body muted">Reading the topic…</p>`
        : letters.records.length
          ? html`<ul class="rows">${letters.records.map((letter) => h(Letter, { key: letter.offset, letter }))}</ul>`
          : h(Empty, { title: "There is no dead letter.", small: true }, html`<p>A record of a topic that cannot be read, or that no master could decide, is put there whole, with the reason.</p>`)}
  </section>`;
}

/** @param {{letter: any}} props */
function Letter({ letter }) {
  const shown = letter.text ?? letter.hex ?? "";
  return html`<li class="failed">
    <span class="ink" aria-hidden="true">✖</span>
    <div>
      <p class="row-head">
        <b>${letter.topic}@${number(letter.input_offset ?? letter.offset)}</b>
        ${letter.key ? html`<code>${letter.key}</code>` : ""}
        <span class="row-end">${h(Time, { at: letter.at })}</span>
      </p>
      <p class="caption muted wrap">${h(Sentence, { text: letter.reason })}</p>
      <details><summary>${number(letter.length ?? shown.length)} bytes${letter.text == null ? ", in hex" : ""}</summary>
        <div class="command"><pre tabindex="0"><code>${shown}</code></pre>${h(Copy, { text: shown, label: "the record" })}</div>
        ${letter.topic?.endsWith("submissions") && letter.text != null ? html`<p class="caption"><a href="/ui/submit">Correct it and send it again</a></p>` : ""}
      </details>
    </div>
  </li>`;
}

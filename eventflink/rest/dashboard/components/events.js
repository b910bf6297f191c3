// @ts-check
// Events of the log in words: a glyph by what kind of thing happened, whom it is about, what it says.

import { Time } from "./time.js";
import { Sentence } from "./sentence.js";
import { Empty } from "./empty.js";
import { h, html } from "../html.js";
import { number } from "../format.js";
import { change, href } from "../moment.js";

/** @type {[RegExp, string, string][]} */
const KINDS = [
  [/Rejected|Refused/, "⊘", "neutral"],
  [/Failed|Lost|Death/, "✖", "failed"],
  [/Leadership/, "⬡", "running"],
  [/Restart|Rescal/, "⟲", "waits"],
  [/Deferred|Waits|Blocked/, "◔", "waits"],
  [/Checkpoint|Savepoint|Snapshot/, "▾", "done"],
  [/Finished|Completed|ResultStored/, "✔", "done"],
  [/Submitted|Registered|Accepted|Started/, "+", "running"],
  [/Cancel|Stop|Suspen|Shut/, "■", "neutral"],
];

/** Glyph and family of an event, by the name of its type. @param {string} type */
export function kindOf(type) {
  const found = KINDS.find(([pattern]) => pattern.test(type));
  return found ? { glyph: found[1], family: found[2] } : { glyph: "·", family: "neutral" };
}

/** @param {{type: string}} props */
export function EventType({ type }) {
  const { glyph, family } = kindOf(type);
  return html`<span class=${`event-type ${family}`}><span class="ink" aria-hidden="true">${glyph}</span> ${type}</span>`;
}

/** A few events, each a link to its decision. @param {{events: any[]}} props */
export function EventList({ events }) {
  if (!events.length) return h(Empty, { title: "Nothing has been decided.", small: true });
  return html`<ul class="rows events">
    ${events.map((event) => {
      const { glyph, family } = kindOf(event.type);
      return html`<li key=${`${event.offset}.${event.index}`} class=${`${family}${event.accepted ? "" : " rejected"}`}>
        <span class="ink" aria-hidden="true">${glyph}</span>
        <p class="row-head">
          <a href=${href(`/log/${event.offset}`)} title=${`offset ${number(event.offset)}`}>${event.type}</a>
          <span class="clamp one">${event.subject} <span class="muted">${h(Sentence, { text: event.details })}</span></span>
          <span class="row-end">${h(Time, { at: event.decided_at })}</span>
        </p>
      </li>`;
    })}
  </ul>`;
}

/** The switch that hides checkpoints that went well among events. @param {{query: Record<string, string>}} props */
export function HideCheckpoints({ query }) {
  const hidden = query.checkpoints === "hidden";
  return html`<label class="check"><input type="checkbox" checked=${hidden} onChange=${() => change({ checkpoints: hidden ? null : "hidden" })} /> hide checkpoints</label>`;
}

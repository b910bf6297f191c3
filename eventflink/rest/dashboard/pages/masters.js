// @ts-check
// The masters: who leads, who led when, and for how long nobody did; and who is there now to lead on.

import { useEffect, useState } from "preact/hooks";
import { ask } from "../api.js";
import { Empty } from "../components/empty.js";
import { Table } from "../components/table.js";
import { Since, Time } from "../components/time.js";
import { Copy } from "../components/copy.js";
import { duration, number, plural } from "../format.js";
import { h, html } from "../html.js";
import { at, href, reference } from "../moment.js";
import { masterColour } from "../scrub/drawing.js";

const EACH_MS = 3000;

export const title = () => "Masters";
export const concerns = () => ({});
export const questions = () => ({ masters: "/masters" });

/** @param {any} each */
const lasted = (each) => (each.until_at ? Date.parse(each.until_at) : reference.value) - Date.parse(each.from_at);

/** @type {import("../components/table.js").Column[]} */
const columns = [
  { key: "epoch", title: "Epoch", width: "80px", align: "end", render: (each) => html`<b>${number(each.epoch)}</b>` },
  { key: "master", title: "Master", width: "180px", render: (each) => html`<i class="swatch" style=${{ background: `var(${masterColour(each.master_id ?? "")})` }}></i> ${each.master_id ?? "–"}` },
  { key: "from", title: "Led from", render: (each) => html`${h(Time, { at: each.from_at, form: "full" })}` },
  { key: "lasted", title: "For", align: "end", render: (each) => (each.until_at ? duration(lasted(each)) : html`<b>${h(Since, { at: each.from_at })}</b>`) },
  { key: "gap", title: "Nobody before", align: "end", hint: "For how long, at most, nobody led before it", render: (each) => (each.gap_ms ? html`<span class="failed ink">${duration(each.gap_ms)}</span>` : html`<span class="muted">–</span>`) },
  { key: "decisions", title: "Decisions", align: "end", render: (each) => number(each.decisions) },
  { key: "rejected", title: "Did not count", align: "end", phone: false, render: (each) => (each.rejected ? number(each.rejected) : html`<span class="muted">0</span>`) },
  { key: "first", title: "Its records", align: "end", phone: false, render: (each) => html`<a class="mono" href=${href("/log", { from: each.from_offset, until: each.until_offset === null ? null : each.until_offset - 1 })}>${number(each.from_offset)} –${each.until_offset === null ? "" : ` ${number(each.until_offset - 1)}`}</a>` },
];

/** @param {{documents: any, moment: any}} props */
export function Page({ documents, moment }) {
  const { leader, masters, leaderships } = documents.masters;
  const gaps = leaderships.map((/** @type {any} */ each) => each.gap_ms ?? 0);
  const longest = Math.max(0, ...gaps.slice(1));
  return html`
    <div class="title"><h1 class="sentence">${leader ? html`${leader.master_id} leads in epoch ${number(leader.epoch)}.` : "Nobody leads."}</h1></div>
    ${!leader
      ? h(Empty, { title: "No master has led yet at this moment.", command: "eventflink master" })
      : html`
          <div class="numbers">
            <div class="headline card"><span class="caption muted">Leads for</span><b>${h(Since, { at: leader.from_at })}</b><span class="headline-below muted">since ${h(Time, { at: leader.from_at, form: "clock" })}</span></div>
            <div class="headline card"><span class="caption muted">Leaderships</span><b>${number(documents.masters.leaderships_total ?? leaderships.length)}</b><span class="headline-below muted">of ${plural(masters.length, "master")}</span></div>
            <div class="headline card"><span class="caption muted">Longest without a leader</span><b>${longest ? duration(longest) : "–"}</b><span class="headline-below muted">${longest ? "at most: reads went on, commands waited" : "there was no failover"}</span></div>
            <div class="headline card"><span class="caption muted">Fencing token</span><b class="headline-id mono">${leader.leader_id}</b><span class="headline-below">${h(Copy, { text: leader.leader_id, label: "the leader's id" })}</span></div>
          </div>
          <section class="card stacked">
            <header><h2>Who led when</h2><span class="muted caption">${plural(masters.length, "row of a master", "rows of masters")}, time from left to right</span></header>
            <div class="card-body">${h(Bands, { masters, leaderships, end: moment.decided_at })}</div>
          </section>
          ${h(Present, {})}
          ${h(Table, { label: "Leaderships", columns, rows: [...leaderships].reverse(), rowKey: (each) => String(each.epoch) })}
        `}
  `;
}

/** @param {any} each */
const standing = (each) =>
  each.silent ? ["✖", "failed", "silent"] : each.role === "LEADER" ? ["⬡", "running", "leads"] : each.ready ? ["✔", "done", "ready"] : ["◔", "waits", each.role === "STANDBY" ? "catches up" : each.role.toLowerCase()];

/** @type {import("../components/table.js").Column[]} */
const presentColumns = [
  { key: "master", title: "Master", width: "180px", render: (each) => html`<i class="swatch" style=${{ background: `var(${masterColour(each.master_id)})` }}></i> ${each.master_id}` },
  {
    key: "state",
    title: "Now",
    render: (each) => {
      const [glyph, family, word] = standing(each);
      return html`<span class=${family}><span class="ink" aria-hidden="true">${glyph}</span> ${word}</span>`;
    },
  },
  { key: "lag", title: "Records behind", align: "end", hint: "Behind the leader, when it spoke last", render: (each) => number(each.lag) },
  { key: "epoch", title: "Epoch", align: "end", render: (each) => number(each.epoch) },
  { key: "offset", title: "Has read to", align: "end", phone: false, render: (each) => number(each.log_offset) },
  { key: "heard", title: "Heard", align: "end", render: (each) => h(Time, { at: each.heard_at }) },
];

/** Who is there now, as Kafka has it: the log does not hold it. */
function Present() {
  const [masters, setMasters] = useState(/** @type {any[] | null} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    if (at.value !== null) return undefined;
    const leaving = new AbortController();
    let timer = 0;
    const look = async () => {
      if (!document.hidden) {
        try {
          setMasters((await ask("/masters/present", { signal: leaving.signal })).body.masters);
          setFailure("");
        } catch (error) {
          if (!leaving.signal.aborted) setFailure(/** @type {any} */ (error).message);
        }
      }
      if (!leaving.signal.aborted) timer = window.setTimeout(look, EACH_MS);
    };
    look();
    return () => {
      leaving.abort();
      window.clearTimeout(timer);
    };
  }, [at.value]);
  const ready = masters?.filter((each) => each.ready).length ?? 0;
  return html`<section class="card stacked">
    <header><h2>Who is there</h2><span class="muted caption">${masters && at.value === null ? `${plural(ready, "standby", "standbys")} ready to lead on` : ""}</span></header>
    ${at.value !== null
      ? html`<p class="card-body"><span class="not-recorded">Not recorded: it is told of the present alone.</span></p>`
      : failure
        ? html`<p class="card-body muted">${failure}</p>`
        : masters === null
          ? html`<p class="card-body muted">Listening to the masters…</p>`
          : h(Table, { label: "Masters that are there", columns: presentColumns, rows: masters, rowKey: (each) => each.master_id, empty: h(Empty, { title: "No master was heard of lately.", small: true, command: "eventflink master" }) })}
  </section>`;
}

/** A row for each master, a bar for each time that it led. @param {{masters: any[], leaderships: any[], end: string}} props */
function Bands({ masters, leaderships, end }) {
  const from = Date.parse(leaderships[0].from_at);
  const until = Math.max(Date.parse(end), ...leaderships.map((each) => Date.parse(each.until_at ?? end)), from + 1);
  /** @param {number} ms */
  const place = (ms) => `${(100 * (ms - from)) / (until - from)}%`;
  return html`<div class="bands">
    ${masters.map(
      (master) => html`<div class="band-row">
        <span>${master.master_id}</span>
        <div class="band-lane">
          ${leaderships
            .filter((each) => each.master_id === master.master_id)
            .map((each) => {
              const ended = Date.parse(each.until_at ?? end);
              return html`<a
                class="band"
                href=${href("/", { at: each.from_offset })}
                title=${`epoch ${each.epoch}: ${duration(ended - Date.parse(each.from_at))}${each.gap_ms ? `, after ${duration(each.gap_ms)} without a leader` : ""}`}
                style=${{ left: place(Date.parse(each.from_at)), width: `max(6px, ${(100 * (ended - Date.parse(each.from_at))) / (until - from)}%)`, background: `var(${masterColour(each.master_id ?? "")})` }}
              >e${each.epoch}</a>`;
            })}
        </div>
      </div>`,
    )}
  </div>`;
}

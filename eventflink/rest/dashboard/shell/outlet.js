// @ts-check
// The page of a place at a moment: asks its questions at one offset, keeps the last good view while it asks or when asking fails, and says when
// what was asked for is drawn (`<html data-settled="OFFSET">`). A page only draws.

import { effect, signal } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { ApiError, ask } from "../api.js";
import { Empty } from "../components/empty.js";
import { h, html } from "../html.js";
import { advanceHead, at, head as heard, href, path, query, shown, versus } from "../moment.js";
import { routeOf } from "../routes.js";
import { again, concerns, refresh } from "./asked.js";
import { END, archives } from "../source.js";
import { LogIn } from "./identity.js";
import { change } from "./live.js";

const REFETCH_MS = 500;
const ROUNDS = 3;
const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 16_000;

/** @typedef {import("../routes.js").PageModule} PageModule */
/** @typedef {{key: string, page: PageModule, params: Record<string, string>, query: Record<string, string>, documents: Record<string, any>,
 *   moment: import("../moment.js").Head & {live: boolean}}} View */

/** What is drawn. */
const view = signal(/** @type {View | null} */ (null));
/** Whether an answer is awaited for another place or moment than is drawn. */
const asking = signal(false);
/** What went wrong the last time; null: nothing. @type {import("@preact/signals").Signal<ApiError | null>} */
const failure = signal(/** @type {ApiError | null} */ (null));

/** Ask all questions of a page at one offset. @param {PageModule} page @param {Record<string, string>} params
 * @param {Record<string, string>} own @param {number | null} offset @param {AbortSignal} signal_ @param {number} [rounds]
 * @returns {Promise<{documents: Record<string, any>, moment: import("../api.js").Answer | undefined}>} */
async function answersOf(page, params, own, offset, signal_, rounds = ROUNDS) {
  const live = new Set(page.live ?? []);
  const questions = Object.entries(page.questions(params, own));
  /** @param {[string, string]} question @param {number | null} of */
  const one = async ([name, asked], of) => /** @type {const} */ ([name, await ask(asked, { at: live.has(name) ? null : of, signal: signal_ })]);
  let answers = await Promise.all(questions.map((question) => one(question, offset)));
  const ofTheLog = answers.filter(([name, answer]) => !live.has(name) && Number.isInteger(answer?.offset));
  const newest = Math.max(...ofTheLog.map(([, answer]) => answer.offset));
  const moment = ofTheLog.find(([, answer]) => answer.offset === newest)?.[1];
  if (offset === null && ofTheLog.some(([, answer]) => answer.offset !== newest)) {
    // The log moved between the answers: those that came before are asked again of the newest offset, so a page's numbers agree.
    const older = (/** @type {[string, string]} */ question, /** @type {number} */ index) => {
      const known = /** @type {typeof answers[0]} */ (answers[index]);
      return live.has(question[0]) || known[1]?.offset === newest ? known : one(question, newest);
    };
    try {
      answers = await Promise.all(questions.map(older));
    } catch (error) {
      // Who knows the past may lie a moment behind the present.
      if (rounds > 1 && error instanceof ApiError && error.passes) return answersOf(page, params, own, offset, signal_, rounds - 1);
      throw error;
    }
  }
  const documents = Object.fromEntries(answers.map(([name, answer]) => [name, answer.body]));
  return { documents, moment };
}

/** Follow place, moment and changes, until the shell goes. */
function start() {
  let controller = new AbortController();
  let timer = 0;
  let busy = false;
  let missed = false;
  let retryMs = FIRST_RETRY_MS;

  /** @param {boolean} anew another place or moment, and not only newer numbers */
  const load = async (anew) => {
    window.clearTimeout(timer);
    if (!anew && busy) {
      missed = true;
      return;
    }
    controller.abort();
    const { signal: signal_ } = (controller = new AbortController());
    const [place, own, offset] = [path.peek(), query.peek(), at.peek()];
    const found = routeOf(place);
    busy = true;
    missed = false;
    if (anew) {
      asking.value = true;
      delete document.documentElement.dataset.settled;
    }
    try {
      if (!found) throw new ApiError(404, [`There is no page at ${place}.`]);
      /** @type {PageModule} */
      const page = await found.route.load();
      if (signal_.aborted) return;
      concerns.value = page.concerns(found.params);
      const { documents, moment } = await answersOf(page, found.params, own, offset, signal_);
      if (signal_.aborted) return;
      const head = { offset: moment?.offset ?? offset ?? 0, decided_at: moment?.decided_at ?? null, epoch: moment?.epoch ?? 0, master_id: moment?.master_id ?? "" };
      if (offset === null && moment) {
        advanceHead(moment);
        // Whoever answered may have been a moment behind what was heard of.
        if (moment.offset < (heard.peek()?.offset ?? 0)) missed = true;
      }
      shown.value = { ...head, live: offset === null };
      view.value = { key: found.route.pattern, page, params: found.params, query: own, documents, moment: { ...head, live: offset === null } };
      failure.value = null;
      retryMs = FIRST_RETRY_MS;
    } catch (error) {
      if (signal_.aborted) return;
      const failed = error instanceof ApiError ? error : new ApiError(-1, [String(error)]);
      if (failed.status === -1) console.error(error);
      failure.value = failed;
      if (failed.passes) {
        timer = window.setTimeout(() => load(false), retryMs);
        retryMs = Math.min(retryMs * 2, LAST_RETRY_MS);
      }
    } finally {
      if (!signal_.aborted) {
        busy = false;
        asking.value = false;
        if (missed) timer = window.setTimeout(() => load(false), REFETCH_MS);
      }
    }
  };

  let last = 0;
  const stops = [
    effect(() => {
      void [path.value, JSON.stringify(query.value), at.value, versus.value, again.value];
      load(true);
    }),
    effect(() => {
      const frame = change.value;
      if (!frame || at.peek() !== null || document.hidden || (shown.peek()?.offset ?? -1) >= frame.offset) return;
      const { job } = concerns.peek();
      if (job && frame.jobs && !frame.more && !frame.jobs.includes(job)) return;
      const wait = Math.max(0, REFETCH_MS - (Date.now() - last));
      window.clearTimeout(timer);
      timer = window.setTimeout(() => {
        last = Date.now();
        load(false);
      }, wait);
    }),
  ];
  const seen = () => !document.hidden && at.peek() === null && load(false);
  document.addEventListener("visibilitychange", seen);
  return () => {
    controller.abort();
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    for (const stop of stops) stop();
  };
}

/** Keeps a page that cannot draw from taking the shell with it. */
class Guard extends Component {
  /** @param {any} props */
  constructor(props) {
    super(props);
    this.state = { error: null };
  }

  /** @param {any} error */
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render() {
    const { error } = /** @type {any} */ (this.state);
    if (!error) return /** @type {any} */ (this.props).children;
    return h(Empty, { title: "This page could not be drawn.", glyph: "✖" }, html`<p><code>${String(error)}</code></p>`);
  }
}

export function Outlet() {
  useEffect(start, []);
  const drawn = view.value;
  const failed = failure.value;
  useLayoutEffect(() => {
    if (drawn && !asking.peek() && !failure.peek()) document.documentElement.dataset.settled = String(drawn.moment.offset);
  });
  useLayoutEffect(() => {
    const worst = drawn?.documents.cluster?.problems?.some((/** @type {any} */ problem) => problem.severity === "failed") ? "✖ " : "";
    document.title = drawn ? `${worst}${drawn.page.title(drawn.params)} · eventflink` : "eventflink";
  }, [drawn]);
  const here = routeOf(path.value)?.route.pattern;
  if (failed && (!drawn || drawn.key !== here || !failed.passes)) return h(Failed, { failed });
  if (!drawn || drawn.key !== here) return html`<div class="skeleton" aria-hidden="true"><i></i><i></i><i></i><i></i></div>`;
  return html`
    ${failed && h(Stale, { failed })}
    <div class=${`page${asking.value ? " asking" : ""}`} aria-busy=${asking.value}>
      ${h(Guard, { key: `${drawn.key} ${JSON.stringify(drawn.page.concerns(drawn.params))}` }, h(drawn.page.Page, drawn))}
    </div>
  `;
}

/** @param {{failed: ApiError}} props */
function Stale({ failed }) {
  return html`<div class="stale" role="status">
    <span>As of ${shown.value?.offset.toLocaleString("en-US")}: ${failed.errors[0]}. Trying again.</span>
    <button class="button small" onClick=${refresh}>Try now</button>
  </div>`;
}

/** @param {{failed: ApiError}} props */
function Failed({ failed }) {
  useLayoutEffect(() => {
    document.documentElement.dataset.settled = "none";
  });
  if (failed.status === 401) return h(LogIn, { then: refresh });
  const gone = failed.status === 404 || failed.status === 410;
  const title = gone ? "There is nothing here at this moment." : failed.status === 0 ? "The server does not answer." : "This could not be read.";
  return h(
    Empty,
    { title, glyph: gone ? "○" : "✖" },
    html`${failed.errors.map((line) => html`<p>${line}</p>`)}
      <p class="actions">
        ${failed.passes && html`<button class="button" onClick=${refresh}>Try now</button>`}
        ${at.value !== null && html`<a class="button" href=${archives ? href(path.value, { at: null }) : "?"}>Return to ${END}</a>`}
        <a class="button" href="/ui/">${archives ? "Jobs" : "Cluster"}</a>
      </p>`,
  );
}

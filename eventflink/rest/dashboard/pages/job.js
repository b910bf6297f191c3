// @ts-check
// The page of one job: its head, and one of its tabs. What a tab asks and draws is in pages/job/.

import { useEffect } from "preact/hooks";

import { Tabs } from "../components/tabs.js";
import { h, html } from "../html.js";
import { go, href } from "../moment.js";
import { archives } from "../source.js";
import { bind } from "../shell/keys.js";
import * as bars from "./job/bars_tab.js";
import * as checkpoints from "./job/checkpoints_tab.js";
import * as config from "./job/config_tab.js";
import * as events from "./job/events_tab.js";
import * as exceptions from "./job/exceptions_tab.js";
import * as flow from "./job/flow_tab.js";
import * as graph from "./job/graph_tab.js";
import { JobHead } from "./job/head.js";
import * as results from "./job/results_tab.js";
import * as story from "./job/story_tab.js";

/** @typedef {{questions: (job: string, query: Record<string, string>) => Record<string, string>, Tab: (props: any) => any}} TabModule */

/** @type {Record<string, {name: string, tab: TabModule, counted?: (job: any) => number | undefined, streams?: boolean}>} `streams`: it says something only of those */
const TABS = {
  graph: { name: "Graph", tab: graph },
  bars: { name: "Bars", tab: bars },
  ...(archives ? {} : { story: { name: "Story", tab: story }, events: { name: "Events", tab: events } }),
  exceptions: { name: "Exceptions", tab: exceptions, counted: (job) => job.exceptions_total },
  checkpoints: { name: "Checkpoints", tab: checkpoints, counted: (job) => job.checkpoints.counts.completed, streams: true },
  flow: { name: "Flow", tab: flow, streams: true },
  config: { name: "Config", tab: config },
  results: { name: "Results", tab: results },
};

/** @param {Record<string, string>} params */
function tabOf(params) {
  return TABS[params.tab ?? "graph"] ?? /** @type {typeof TABS["graph"]} */ (TABS.graph);
}

/** Questions that are not of the log's state, and are asked without an offset. */
export const live = ["events", "histogram"];

/** @param {Record<string, string>} params */
export function title(params) {
  return params.job ?? "";
}

/** @param {Record<string, string>} params @param {Record<string, string>} query */
export function questions(params, query) {
  const job = encodeURIComponent(params.job ?? "");
  return { job: `/jobs/${job}`, ...tabOf(params).tab.questions(job, query) };
}

/** @param {Record<string, string>} params */
export function concerns(params) {
  return { job: params.job };
}

/** @param {{documents: Record<string, any>, params: Record<string, string>, query: Record<string, string>, moment: any}} props */
export function Page({ documents, params, query, moment }) {
  const { job } = documents;
  const shown = tabOf(params);
  const address = `/jobs/${encodeURIComponent(job.job_id)}`;
  const tabs = Object.entries(TABS).filter(([, each]) => job.stream || !each.streams || each === shown);
  useEffect(
    () =>
      bind(
        ...tabs.map(([name, each], index) => ({
          keys: String(index + 1),
          words: `${each.name} of the job`,
          act: () => go(name === "graph" ? address : `${address}/${name}`),
        })),
      ),
    [address, tabs.length],
  );
  return html`
    ${h(JobHead, { job, moment })}
    ${h(Tabs, {
      label: "Views of the job",
      views: tabs.map(([name, each]) => ({ name, words: each.name, to: name === "graph" ? address : `${address}/${name}`, count: each.counted?.(job) })),
      shown: tabs.find(([, each]) => each === shown)?.[0] ?? "",
    })}
    ${h(shown.tab.Tab, { documents, job, query, moment, address })}
  `;
}

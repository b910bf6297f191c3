// @ts-check
// Submitting a job: its document, checked and drawn while one types, its code, and what the leader would decide before the button.

import { signal } from "@preact/signals";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import { Outcome, useDryRun } from "../actions/dialog.js";
import { ApiError, order } from "../api.js";
import { Command } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { quoted } from "../components/rows.js";
import { toast } from "../components/toast.js";
import { bytes, number, plural } from "../format.js";
import { Graph } from "../graph/graph.js";
import { h, html } from "../html.js";
import { at, go, pin } from "../moment.js";
import { may } from "../shell/identity.js";

const TYPING_MS = 300;
const EXAMPLE = `name: hello
vertices:
  - {id: numbers, sql: "SELECT explode(sequence(1, 1000)) AS n", parallelism: 2}
  - id: remainders
    sql: "SELECT n % 3 AS remainder, count(*) AS how_many FROM numbers GROUP BY n % 3"
edges:
  - {from: numbers, to: remainders}
`;

/** What is being written: it stays while one looks at other pages. */
const draft = signal("");

export const title = () => "Submit";
export const concerns = () => ({});
export const questions = () => ({ cluster: "/cluster" });

/** @typedef {{valid: boolean, problems: string[], graph: {name: string, vertices: any[], edges: any[], parameters: Parameter[]} | null}} Checked */
/** @typedef {{name: string, type: string, value: string | null, description: string}} Parameter */
/** @typedef {{name: string, file: File}} CodeFile */

/** @param {{documents: Record<string, any>}} props */
export function Page({ documents }) {
  const [code, setCode] = useState(/** @type {CodeFile[]} */ ([]));
  const [jobId, setJobId] = useState("");
  const [savepoint, setSavepoint] = useState("");
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState(/** @type {string[]} */ ([]));
  const checked = useChecked(draft.value);
  const past = at.value !== null;
  const declared = checked?.graph?.parameters ?? [];
  const given = Object.fromEntries(declared.filter(({ name, value }) => (values[name] ?? value ?? "") !== (value ?? "")).map(({ name }) => [name, values[name] ?? ""]));
  const { slots } = documents.cluster;

  async function send() {
    setSending(true);
    setRefused([]);
    try {
      const form = new FormData();
      form.append("document", draft.value);
      if (jobId) form.append("job_id", jobId);
      if (savepoint) form.append("savepoint_path", savepoint);
      if (Object.keys(given).length > 0) form.append("parameters", JSON.stringify(given));
      for (const { name, file } of code) form.append("code", file, name);
      const { job_id, offset } = await order("/jobs", form);
      draft.value = "";
      toast(`${job_id} is accepted at ${number(offset)}.`, { kind: "done", link: `/ui/log/${offset}` });
      go(`/jobs/${encodeURIComponent(job_id)}`);
    } catch (error) {
      setRefused(error instanceof ApiError ? error.errors : [String(error)]);
      setSending(false);
    }
  }
  const ready = Boolean(checked?.valid) && !sending && may("operator");
  const command = ["eventflink submit job.yaml", ...code.slice(0, 1).map(({ name }) => `--code ${name}`), ...Object.entries(given).map(([name, value]) => `--param ${quoted(`${name}=${value}`)}`)].join(" ");
  return html`<div class="title"><h1>Submit a job</h1><p class="muted">${number(slots.free)} of ${plural(slots.total, "slot")} free</p></div>
    <div class="submit">
      <section aria-label="Document">
        <div class="panel-head"><h2>Document</h2>
          <span>${draft.value === "" && html`<button class="button small" onClick=${() => (draft.value = EXAMPLE)}>Begin with an example</button>`}</span></div>
        ${h(Editor, { problems: checked?.problems ?? [] })}
        ${h(Code, { code, onChange: setCode })}
        ${declared.length > 0 && html`<fieldset class="more-fields"><legend>Parameters</legend>
          ${declared.map(({ name, type, value, description }) => h(Field, {
            key: name, label: name, hint: [type.toLowerCase(), value === null && "it has to be given", description].filter(Boolean).join("; "),
            value: values[name] ?? value ?? "", onInput: (text) => setValues({ ...values, [name]: text }),
          }))}</fieldset>`}
        <details class="more-fields">
          <summary>Id and savepoint</summary>
          ${h(Field, { label: "Job id", hint: "empty: a new one", value: jobId, onInput: setJobId })}
          ${h(Field, { label: "Begin in the savepoint", hint: "its path; empty: streams begin where their sources say", value: savepoint, onInput: setSavepoint })}
        </details>
      </section>
      <section aria-label="What it is" class="submit-side">
        ${draft.value === ""
          ? h(Empty, { title: "A job is a graph of PySpark functions and SQL.", command, small: true }, html`<p>Write or paste its document, or submit it on the command line:</p>`)
          : h(Checks, { checked, document: draft.value, parameters: given })}
        ${refused.map((line) => html`<p class="refused" role="alert">${line}</p>`)}
        <p class="submit-actions">
          ${past
            ? html`<span class="muted">Nothing can be ordered in the past.</span> <button class="button" onClick=${() => pin(null)}>Return to now</button>`
            : html`<button class="button primary" disabled=${!ready} onClick=${send}>${sending ? "Asked…" : `Submit ${checked?.graph?.name ?? "the job"}`}</button>${may("operator") ? "" : html` <span class="muted">for the role operator</span>`}`}
        </p>
        ${draft.value !== "" && html`<p class="muted">The same on the command line:</p>${h(Command, { text: command })}`}
      </section>
    </div>`;
}

/** What the server says of a document, once nobody has typed for a moment; null: nothing yet. @param {string} document */
function useChecked(document) {
  const [checked, setChecked] = useState(/** @type {Checked | null} */ (null));
  useEffect(() => {
    if (document.trim() === "") return setChecked(null);
    const controller = new AbortController();
    const timer = window.setTimeout(async () => {
      try {
        setChecked(await order("/jobs/validate", { document }, { signal: controller.signal }));
      } catch (error) {
        if (!controller.signal.aborted) setChecked({ valid: false, problems: error instanceof ApiError ? error.errors : [String(error)], graph: null });
      }
    }, TYPING_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [document]);
  return checked;
}

/** The document with its line numbers. @param {{problems: string[]}} props */
function Editor({ problems }) {
  const id = useId();
  const numbers = useRef(/** @type {HTMLPreElement | null} */ (null));
  const lines = draft.value.split("\n").length;
  return html`<div class=${`editor ${problems.length > 0 ? "wrong" : ""}`}>
    <pre ref=${numbers} aria-hidden="true">${Array.from({ length: lines }, (_, index) => index + 1).join("\n")}</pre>
    <label class="visually-hidden" for=${id}>The document, in YAML or JSON</label>
    <textarea id=${id} spellcheck="false" autocapitalize="off" wrap="off" value=${draft.value} placeholder="name: …" aria-invalid=${problems.length > 0}
      onInput=${(/** @type {any} */ event) => (draft.value = event.target.value)}
      onScroll=${(/** @type {any} */ event) => numbers.current && (numbers.current.scrollTop = event.target.scrollTop)}></textarea>
  </div>`;
}

/** @param {{checked: Checked | null, document: string, parameters: Record<string, string>}} props */
function Checks({ checked, document, parameters }) {
  if (checked === null) return html`<p class="muted" role="status">Looking at it…</p>`;
  if (!checked.valid) return html`<div role="status">${checked.problems.map((line) => html`<p class="refused">${line}</p>`)}</div>`;
  const graph = /** @type {NonNullable<Checked["graph"]>} */ (checked.graph);
  const subtasks = graph.vertices.reduce((sum, each) => sum + each.parallelism, 0);
  const streams = new Set(graph.vertices.filter((each) => each.stream).map((each) => each.vertex_id));
  const job = {
    name: graph.name,
    vertices: graph.vertices.map((each) => ({ ...each, name: each.vertex_id, states: { CREATED: each.parallelism } })),
    edges: graph.edges.map((edge) => ({ ...edge, output: "default", input_name: edge.source, keys: edge.keys ?? [], pipelined: streams.has(edge.source) && streams.has(edge.target) })),
  };
  return html`<p class="outcome" role="status"><b class="ink-done">✔</b> <b>${graph.name}</b>: ${plural(graph.vertices.length, "vertex", "vertices")}, ${plural(subtasks, "subtask")}</p>
    ${h(Graph, { job, identity: JSON.stringify([graph.vertices.map((each) => each.vertex_id), graph.edges]), chosen: null, hrefOf: () => "#main", onChoose: () => {} })}
    ${h(WouldRun, { document, parameters })}`;
}

/** @param {{document: string, parameters: Record<string, string>}} props */
function WouldRun({ document, parameters }) {
  const { dryRun, errors, asking } = useDryRun({ type: "SubmitJob", document, parameters });
  return html`<section class="dry-run" aria-live="polite" aria-busy=${asking}>
    <h3>${at.value === null ? "What the leader would decide now" : `What the leader would have decided at ${number(at.value)}`}</h3>
    ${errors.map((line) => html`<p class="refused">${line}</p>`)}
    ${dryRun ? h(Outcome, { dryRun }) : !errors.length && html`<p class="muted">Asking…</p>`}
  </section>`;
}

/** @param {{code: CodeFile[], onChange: (code: CodeFile[]) => void}} props */
function Code({ code, onChange }) {
  const id = useId();
  /** @param {any} event */
  function take(event) {
    const files = [...event.target.files].map((/** @type {File} */ file) => ({ name: file.webkitRelativePath || file.name, file }));
    const names = new Set(files.map((file) => file.name));
    onChange([...code.filter((file) => !names.has(file.name)), ...files]);
    event.target.value = "";
  }
  return html`<div class="code-files">
    <label for=${id} class="button small">Add code…</label>
    <input id=${id} class="visually-hidden" type="file" multiple accept=".py,.zip,.sql,.json,.yaml,.txt" onChange=${take} />
    ${code.length === 0 && html`<span class="muted">the files that its tasks import, if any</span>`}
    ${code.map((each) => html`<span key=${each.name} class="file"><code>${each.name}</code> <span class="muted">${bytes(each.file.size)}</span>
      <button class="icon-button" aria-label=${`Leave ${each.name} out`} onClick=${() => onChange(code.filter((other) => other !== each))}>✕</button></span>`)}
  </div>`;
}

/** @param {{key?: string, label: string, hint: string, value: string, onInput: (value: string) => void}} props */
function Field({ label, hint, value, onInput }) {
  const id = useId();
  return html`<p class="field">
    <label for=${id}>${label}</label>
    <input id=${id} type="text" value=${value} autocomplete="off" aria-describedby=${`${id}-hint`} onInput=${(/** @type {any} */ event) => onInput(event.target.value)} />
    <small id=${`${id}-hint`} class="muted">${hint}</small>
  </p>`;
}

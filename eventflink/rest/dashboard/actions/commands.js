// @ts-check
// What one may order, as commands of the topic `commands` (docs/submitting.md), with the words of their dialogs. Pure; asking, sending and drawing
// is dialog.js's.

import { middle } from "../format.js";

/** @typedef {{name: string, label: string, kind: "text" | "number" | "choice", hint?: string, value?: string, choices?: [string, string][],
 *   min?: number, max?: number}} Field */
/**
 * @typedef {object} Command
 * @property {string} id
 * @property {string} verb what the button says, with what it does it to
 * @property {string} title
 * @property {string} [about] what it does, where the verb does not say all
 * @property {string} keep what the other button says
 * @property {boolean} [danger]
 * @property {string} [why] why it cannot be ordered now; undefined: it can
 * @property {"operator" | "admin"} role who may order it
 * @property {Field[]} fields
 * @property {(values: Record<string, string>) => Record<string, any>} document
 * @property {(subject: string) => string} [leads] the page that one wants to see afterwards; `subject`: what the answer says that it is about
 */

const LIVE = new Set(["INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "RECONCILING"]);
const ENDED = new Set(["FINISHED", "FAILED", "CANCELED"]);

/** The commands of a job, in the order of a menu: what changes least comes first. @param {any} job @returns {Command[]} */
export function commandsOf(job) {
  return orders(job).map((command) => ({ role: "operator", ...command }));
}

/**
 * Return what both ways to run a job again have in common.
 * @param {any} job @param {{failed?: boolean}} begin @returns {Pick<Command, "fields" | "document" | "leads">}
 */
function again(job, begin) {
  return {
    fields: [{ name: "job_id", label: "Job id", kind: "text", hint: "of the job that runs; empty: a new one" }, ...parametersOf(job)],
    document: (values) => {
      const changed = parametersOf(job).filter((field) => (values[field.name] ?? field.value) !== field.value);
      const parameters = Object.fromEntries(changed.map((field) => [field.label, values[field.name]]));
      return { type: "RerunJob", rerun_of: job.job_id, ...begin, ...(values.job_id && { job_id: values.job_id }), ...(changed.length > 0 && { parameters }) };
    },
    leads: (subject) => `/jobs/${encodeURIComponent(subject)}`,
  };
}

/** @param {any} job @returns {Omit<Command, "role">[]} */
function orders(job) {
  const [job_id, name] = [job.job_id, middle(job.name, 48)];
  const ended = ENDED.has(job.status) ? `it is ${job.status}` : undefined;
  const stopped = ended ?? (job.status === "SUSPENDED" ? "it is SUSPENDED" : undefined);
  const streams = job.stream ? undefined : "it has no streams";
  /** @type {Field} */
  const directory = { name: "target_directory", label: "Directory", kind: "text", hint: "a path that all TaskExecutors share, or a URL; empty: the cluster's" };
  return [
    {
      id: "rerun", verb: `Run ${name} again`, title: "Run the job again", keep: "Leave it ended",
      about: "With its graph and its code, from the beginning, as a job of its own; this one stays as it is.",
      why: ended === undefined ? "it has not ended" : undefined,
      ...again(job, {}),
    },
    {
      id: "rerun-failed", verb: `Run ${name} again from its failure`, title: "Run again from the failed step", keep: "Leave it ended",
      about: "As a job of its own, which takes the outputs of what had finished where nothing of it has changed; this one stays as it is.",
      why: ended === undefined ? "it has not ended" : job.status === "FINISHED" ? ended : undefined,
      ...again(job, { failed: true }),
    },
    {
      id: "rerun-from", verb: `Run ${name} again from a vertex`, title: "Run again from a vertex", keep: "Leave it ended",
      about: "As a job of its own: the vertex runs, and all that reads it; of what else had finished it takes the outputs. This one stays as it is.",
      why: ended === undefined ? "it has not ended" : streams === undefined ? "it has streams" : undefined,
      ...again(job, {}),
      fields: [
        { name: "from", label: "Vertex", kind: "choice", choices: job.vertices.map((/** @type {any} */ each) => [each.vertex_id, each.vertex_id]) },
        ...again(job, {}).fields,
      ],
      document: (values) => ({ ...again(job, {}).document(values), from_vertices: [values.from] }),
    },
    {
      id: "dismiss", verb: `Dismiss the failure of ${name}`, title: "Dismiss the failure", keep: "Leave it a problem",
      about: "The cluster no longer counts the job as a problem. The log keeps your name and the reason.",
      why: job.status !== "FAILED" ? "it has not failed" : job.failure_is_dismissed ? "it is dismissed" : undefined,
      fields: [{ name: "reason", label: "Reason", kind: "text", hint: "for the log" }],
      document: (values) => ({ type: "DismissJobFailure", job_id, ...given(values) }),
    },
    {
      id: "checkpoint", verb: `Take a checkpoint of ${name}`, title: "Take a checkpoint", keep: "Not now", why: stopped ?? streams, fields: [],
      document: () => ({ type: "TriggerCheckpoint", job_id }),
    },
    {
      id: "savepoint", verb: `Take a savepoint of ${name}`, title: "Take a savepoint", about: "The job goes on.", keep: "Not now", why: stopped ?? streams,
      fields: [directory], document: (values) => ({ type: "TriggerSavepoint", job_id, mode: "CONTINUE", ...given(values) }),
    },
    {
      id: "rescale", verb: `Rescale ${name}`, title: "Rescale a vertex", keep: "Keep as it is", why: stopped,
      fields: [
        { name: "vertex_id", label: "Vertex", kind: "choice", choices: job.vertices.map((/** @type {any} */ each) => [each.vertex_id, `${each.vertex_id} (now ${each.parallelism})`]) },
        { name: "parallelism", label: "Parallelism", kind: "number", min: 1, max: 4096, value: String(job.vertices[0]?.parallelism ?? 1) },
      ],
      document: (values) => ({ type: "RescaleJob", job_id, vertex_id: values.vertex_id, parallelism: Number(values.parallelism) }),
    },
    job.status === "SUSPENDED"
      ? {
          id: "resume", verb: `Resume ${name}`, title: "Resume the job", keep: "Leave it suspended", fields: [],
          document: () => ({ type: "ResumeJob", job_id }),
        }
      : {
          id: "suspend", verb: `Suspend ${name}`, title: "Suspend the job", about: "Its tasks stop and give their slots back; it can be resumed.", keep: "Keep running",
          why: ended ?? (LIVE.has(job.status) ? undefined : `it is ${job.status}`),
          fields: [{ name: "reason", label: "Reason", kind: "text", hint: "for the log" }],
          document: (values) => ({ type: "SuspendJob", job_id, ...given(values) }),
        },
    {
      id: "stop", verb: `Stop ${name} with a savepoint`, title: "Stop with a savepoint", keep: "Keep running", danger: true, why: stopped ?? streams,
      fields: [
        directory,
        {
          name: "mode", label: "Its last batches", kind: "choice",
          choices: [
            ["STOP", "stop: nothing is read any more"],
            ["DRAIN", "drain: what the sources have by then is read first"],
            ["CANCEL", "cancel: nothing is read any more, and the job is CANCELED"],
          ],
        },
      ],
      document: (values) => ({ type: "TriggerSavepoint", job_id, ...given(values) }),
    },
    {
      id: "cancel", verb: `Cancel ${name}`, title: "Cancel the job", about: "It ends as CANCELED and cannot be resumed.", keep: "Keep running", danger: true, why: ended,
      fields: [], document: () => ({ type: "CancelJob", job_id }),
    },
  ];
}

/** Blocking a TaskManager, or the end of it. @param {{task_manager_id: string, blocked: any}} taskManager @returns {Command} */
export function blockOf({ task_manager_id, blocked }) {
  if (blocked) {
    return {
      id: "unblock", verb: `Unblock ${task_manager_id}`, title: "Unblock the TaskManager", role: "admin", about: "It gets new tasks again.", keep: "Keep it blocked", fields: [],
      document: () => ({ type: "UnblockTaskManager", task_manager_id }),
    };
  }
  return {
    id: "block", verb: `Block ${task_manager_id}`, title: "Block the TaskManager", role: "admin", about: "It gets no new tasks. What runs there keeps running.", keep: "Leave it as it is",
    fields: [
      { name: "reason", label: "Reason", kind: "text", hint: "for the log, and for whoever waits" },
      {
        name: "duration_ms", label: "For", kind: "choice",
        choices: [["0", "until it is unblocked"], ["600000", "10 min"], ["3600000", "1 h"], ["28800000", "8 h"]],
      },
    ],
    document: (values) => ({ type: "BlockTaskManager", task_manager_id, reason: values.reason ?? "", duration_ms: Number(values.duration_ms ?? 0) }),
  };
}

/** The commands of a schedule, what changes least first. @param {any} schedule @returns {Command[]} */
export function commandsOfSchedule(schedule) {
  const schedule_id = schedule.schedule_id;
  /** @type {Omit<Command, "role">[]} */
  const orders = [
    {
      id: "fire", verb: `Start a job of ${schedule_id}`, title: "Start its job now", about: "For this moment, whatever else runs of the schedule.", keep: "Not now",
      fields: [{ name: "job_id", label: "Job id", kind: "text", hint: "of the job that runs; empty: a new one" }],
      document: (values) => ({ type: "FireSchedule", schedule_id, ...given(values) }),
      leads: (subject) => `/jobs/${encodeURIComponent(subject)}`,
    },
    schedule.paused_since
      ? {
          id: "resume-schedule", verb: `Resume ${schedule_id}`, title: "Resume the schedule", about: "From its next instant on; those of the pause are not caught up with.", keep: "Leave it paused",
          fields: [], document: () => ({ type: "ResumeSchedule", schedule_id }),
        }
      : {
          id: "pause-schedule", verb: `Pause ${schedule_id}`, title: "Pause the schedule", about: "Its instants start no jobs until it is resumed; what runs goes on.", keep: "Let it fire",
          fields: [{ name: "reason", label: "Reason", kind: "text", hint: "for the log, and for whoever looks" }],
          document: (values) => ({ type: "PauseSchedule", schedule_id, ...given(values) }),
        },
    {
      id: "cancel-backfill", verb: `Cancel the back-fill of ${schedule_id}`, title: "Cancel the back-fill", about: "Its jobs that run are cancelled; no further one is started.", keep: "Let it run", danger: true,
      why: schedule.backfill ? undefined : "it has no back-fill", fields: [], document: () => ({ type: "CancelBackfill", schedule_id }),
    },
    {
      id: "delete-schedule", verb: `Delete ${schedule_id}`, title: "Delete the schedule", about: "The jobs that it has started run on.", keep: "Keep it", danger: true,
      fields: [], document: () => ({ type: "DeleteSchedule", schedule_id }),
    },
  ];
  return orders.map((command) => ({ role: "operator", ...command }));
}

/** The parameters of a job, which another run may have otherwise. @param {any} job @returns {Field[]} */
function parametersOf(job) {
  return Object.entries(job.parameters ?? {}).map(([name, value]) => ({ name: `parameters.${name}`, label: name, kind: "text", value: String(value), hint: "a parameter; this is the value of the job that ended" }));
}

/** What a form begins with. @param {Field[]} fields @returns {Record<string, string>} */
export function initialValues(fields) {
  return Object.fromEntries(fields.map((field) => [field.name, field.value ?? field.choices?.[0]?.[0] ?? ""]));
}

/** How many events of each type a decision would have, the most frequent first. @param {{type: string}[]} events @returns {[string, number][]} */
export function countedByType(events) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one);
}

/** The values that are not empty. @param {Record<string, string>} values */
function given(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
}

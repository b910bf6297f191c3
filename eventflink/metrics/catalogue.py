"""Every metric there is. Collectors name them from here, and docs/generated/metrics.md is written from here; nothing else is exposed.

Names are those of Prometheus: base units, `_total` for counters, units last. Labels have bounded values: states, topics, event names, and
ids only where `metrics.max-jobs` or the number of slots bounds them.
"""

from typing import Final

from eventflink.metrics.definitions import Metric, MetricType
from eventflink.model.metric_settings import MetricScope

MAX_JOB_TASKS: Final = 10_000
"""How many subtasks are counted by job in one scrape: more would hold up decisions for milliseconds."""

METRICS: Final[list[Metric]] = []
"""All of them, in the order of the documentation."""


def _define(metric_type: MetricType, scope: MetricScope, name: str, meaning: str, *labels: str) -> Metric:
    metric = Metric(f"{scope.prefix}_{name}", metric_type, scope, meaning, labels)
    METRICS.append(metric)
    return metric


def _foreign(metric_type: MetricType, name: str, meaning: str, *labels: str) -> None:
    METRICS.append(Metric(name, metric_type, MetricScope.PROCESS, meaning, labels, is_foreign=True))


_COUNTER, _GAUGE, _HISTOGRAM = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM
_JM, _JOB, _TM, _TASK, _PROCESS = (
    MetricScope.JOBMANAGER,
    MetricScope.JOB,
    MetricScope.TASKMANAGER,
    MetricScope.TASK,
    MetricScope.PROCESS,
)

# -- masters: leadership -------------------------------------------------------------------------------------------

IS_LEADER = _define(_GAUGE, _JM, "is_leader", "1 while this master leads. Summed over the masters of a cluster it is 1, or for a moment 0.")
ROLE = _define(_GAUGE, _JM, "role", "1 for the role that it has; none has 1 while it builds its state from the log.", "role")
EPOCH = _define(_GAUGE, _JM, "epoch", "The newest epoch of the log that it has read: each change of leader adds one.")
RANK = _define(
    _GAUGE, _JM, "rank", "How many masters come before it where one of them has to do work such as a snapshot; the leader is the last."
)
MASTERS = _define(_GAUGE, _JM, "masters", "How many masters it heard of on `leadership` in the last three leases, itself included.")
HEARD_ITSELF_AGE = _define(
    _GAUGE,
    _JM,
    "heard_itself_age_seconds",
    "How long ago it last read a record of its own on `leadership`: if it grows, it is cut off from Kafka.",
)
LEADERSHIPS_BEGUN = _define(_COUNTER, _JM, "leaderships_begun_total", "How often it began to lead.")
LEADERSHIPS_ENDED = _define(
    _COUNTER,
    _JM,
    "leaderships_ended_total",
    "How often it ceased to lead, by reason: `Resigned` (in order), `Deposed` (somebody else leads), `AppendFailed`, `ApplyFailed`, "
    "`TailFailed`, `LeadershipEnded` (a decision was not read back within the lease), `TurnFailed` (a defect), or what was wrong with "
    "the log.",
    "reason",
)

# -- masters: the log and what is decided --------------------------------------------------------------------------

LOG_OFFSET = _define(_GAUGE, _JM, "log_offset", "The offset of the last record of the log that its state reflects.")
LOG_LAG = _define(_GAUGE, _JM, "log_lag_records", "How many records of the log, as far as it knows, are not in its state yet.")
LOG_QUEUED = _define(_GAUGE, _JM, "log_queued_records", "How many of those it has already received.")
ACCEPTED = _define(_COUNTER, _JM, "log_decisions_accepted_total", "Decisions of the whole log that were accepted.")
REJECTED = _define(
    _COUNTER,
    _JM,
    "log_decisions_rejected_total",
    "Decisions of the whole log that were rejected: of a deposed leader, or of a lost election.",
)
EVENTS = _define(
    _COUNTER,
    _JM,
    "events_total",
    "Events of accepted decisions, by name, since this process follows the log; what it replays at its start is not counted.",
    "event",
)
RESTARTS = _define(_COUNTER, _JM, "restarts_total", "Restarts of jobs or parts of them, counted like the events (`RegionRestarted`).")
DECISIONS = _define(_COUNTER, _JM, "decisions_total", "Decisions that this process made as the leader.")
DECIDE_LATENCY = _define(
    _HISTOGRAM, _JM, "decide_latency_seconds", "How long one decision took: decoding its input, deciding, applying, encoding."
)
READ_BACK_LATENCY = _define(
    _HISTOGRAM,
    _JM,
    "append_to_read_back_latency_seconds",
    "How long a decision took from its append until it was read back and accepted: before, nobody sees anything of it.",
)
UNCONFIRMED = _define(_GAUGE, _JM, "unconfirmed_decisions", "Decisions that were appended and not read back yet; 0 where it does not lead.")
UNCONFIRMED_AGE = _define(
    _GAUGE, _JM, "oldest_unconfirmed_decision_age_seconds", "The age of the oldest of them; a whole lease ends the leadership."
)
INBOX_LENGTH = _define(_GAUGE, _JM, "inbox_length", "Inputs that are held because no accepted decision answers them yet.", "topic")
INBOX_BYTES = _define(_GAUGE, _JM, "inbox_bytes", "Their size.", "topic")
INBOX_PAUSED = _define(_GAUGE, _JM, "inbox_paused", "1 while reading pauses because the inbox is full; Kafka keeps the rest.", "topic")
HELD_BACK = _define(
    _GAUGE, _JM, "inputs_held_back", "Inputs that cannot be read yet because they lie behind a client's open transaction.", "topic"
)
FOLLOW_UPS = _define(_GAUGE, _JM, "follow_ups", "Consequences in the state that wait to be decided.")
EFFECTS = _define(
    _COUNTER, _JM, "effects_released_total", "Effects of accepted decisions that were sent, those sent again included.", "effect"
)
EFFECTS_FAILED = _define(_COUNTER, _JM, "effect_records_failed_total", "Records of effects that Kafka did not take; they are sent again.")
FEATURE_LEVEL = _define(_GAUGE, _JM, "feature_level", "The cluster's feature level.")

# -- masters: resources and jobs -----------------------------------------------------------------------------------

TASK_MANAGERS = _define(_GAUGE, _JM, "task_managers", "Registered TaskManagers.")
HEARTBEAT_AGE = _define(
    _GAUGE, _JM, "oldest_heartbeat_age_seconds", "How long the TaskManager that was silent for longest has been silent; only at the leader."
)
SLOTS = _define(_GAUGE, _JM, "task_slots_registered", "Slots of the registered TaskManagers.")
FREE_SLOTS = _define(_GAUGE, _JM, "task_slots_free", "Those that are free.")
SLOT_REQUESTS = _define(_GAUGE, _JM, "pending_slot_requests", "Attempts that wait for a slot.")
SLOT_REQUEST_AGE = _define(
    _GAUGE, _JM, "oldest_pending_slot_request_age_seconds", "For how long the oldest of them has waited, by the log's time; 0: none waits."
)
JOBS = _define(_GAUGE, _JM, "jobs", "Jobs in memory by status: all live ones, and ended ones up to `jobstore.max-capacity`.", "status")
JOBS_DIRTY = _define(_GAUGE, _JM, "jobs_awaiting_clean_up", "Ended jobs whose intermediate data are not removed yet.")
UPLOADS = _define(_GAUGE, _JM, "file_uploads_pending", "Files that were asked of TaskExecutors and did not come yet.")
JOBS_LEFT_OUT = _define(
    _GAUGE,
    _JM,
    "jobs_without_metrics",
    "Live jobs that have no metrics of their own, because there are more than `metrics.max-jobs`, or tasks.",
)
SNAPSHOTS = _define(_GAUGE, _JM, "snapshots", "Snapshots that the log knows.")
SNAPSHOT_OFFSET = _define(_GAUGE, _JM, "newest_snapshot_offset", "The offset of the newest one; -1: there is none.")
CONFIRMED_OFFSET = _define(
    _GAUGE, _JM, "newest_confirmed_snapshot_offset", "The offset of the newest one that another master confirmed; -1: none."
)

JOB_STATUS = _define(_GAUGE, _JOB, "status", "1 for the status that the job has.", "status")
JOB_TASKS = _define(
    _GAUGE, _JOB, "tasks", "The job's subtasks by the state of their current attempt; states without any are left out.", "state"
)
JOB_RESTARTS = _define(_COUNTER, _JOB, "restarts_total", "How often the job, or a part of it, was restarted.")
JOB_AGE = _define(_GAUGE, _JOB, "age_seconds", "How long ago it was submitted, by the log's time.")

# -- TaskExecutors -------------------------------------------------------------------------------------------------

PHASE = _define(_GAUGE, _TM, "phase", "1 for the phase that its instance is in; `REGISTERED` is the one in which it works.", "phase")
TM_EPOCH = _define(_GAUGE, _TM, "epoch", "The newest epoch that a leader named to it; -1: none yet.")
TM_SLOTS = _define(_GAUGE, _TM, "task_slots", "Its slots.")
TM_FREE_SLOTS = _define(_GAUGE, _TM, "task_slots_free", "Those that are free.")
TM_TASKS = _define(_GAUGE, _TM, "tasks", "Attempts that are not terminal, by state.", "state")
TASK_STARTS = _define(_COUNTER, _TM, "task_starts_total", "Attempts that got a process.")
TASK_ENDS = _define(
    _COUNTER,
    _TM,
    "task_ends_total",
    "Attempts that ended, by state: `FAILED` counts the failures, those of an instance's end included.",
    "state",
)
TASK_REFUSALS = _define(_COUNTER, _TM, "task_refusals_total", "Deployments that it refused: the slot was taken, or no task can be started.")
INSTANCES = _define(_COUNTER, _TM, "instances_total", "Instances that it began: one at its start, and one after each fence.")
FENCES = _define(_COUNTER, _TM, "self_fences_total", "How often it ended its tasks and its instance itself.")
BEATS_SENT = _define(_COUNTER, _TM, "heartbeats_sent_total", "Heartbeats that it sent.")
BEATS_ACKNOWLEDGED = _define(_COUNTER, _TM, "heartbeats_acknowledged_total", "Those that Kafka has acknowledged.")
BEAT_AGE = _define(
    _GAUGE,
    _TM,
    "acknowledged_heartbeat_age_seconds",
    "How long ago the newest heartbeat (or registration) that Kafka has was sent; at `taskmanager.self-fence-timeout` it fences itself.",
)
TASK_PROCESSES = _define(_GAUGE, _TM, "task_processes", "Processes of its pool: the fork server, tasks, and those that wait for one.")
FORK_SERVER_STARTS = _define(_COUNTER, _TM, "fork_server_starts_total", "How often a fork server was started.")
FORK_SERVER_UP = _define(_GAUGE, _TM, "fork_server_up", "1 while there is a fork server.")
SPARK_UP = _define(
    _GAUGE, _TM, "spark_server_up", "1 while the local Spark server of this host runs or starts; left out with `spark.remote`."
)
TM_UPLOADS = _define(_GAUGE, _TM, "file_uploads", "Uploads of task files under way.")
TM_INBOX = _define(_GAUGE, _TM, "inbox_length", "Things that happened and wait for its main loop.")

TASK_AGE = _define(_GAUGE, _TASK, "age_seconds", "How long ago the attempt was deployed.")
TASK_CPU = _define(_COUNTER, _TASK, "cpu_seconds_total", "Processor time of the task's process; what Spark does for it is not in it.")
TASK_MEMORY = _define(_GAUGE, _TASK, "resident_memory_bytes", "Memory of the task's process.")

# -- every process -------------------------------------------------------------------------------------------------

THREADS = _define(_GAUGE, _PROCESS, "process_threads", "Threads of the process.")
HOST_CPUS = _define(_GAUGE, _PROCESS, "host_cpus", "Processors that the system sees.")
HOST_CPU = _define(_COUNTER, _PROCESS, "host_cpu_seconds_total", "Time of all processors together, by what it went to.", "mode")
HOST_LOAD = _define(_GAUGE, _PROCESS, "host_load_average", "The system's load average.", "minutes")
HOST_MEMORY = _define(_GAUGE, _PROCESS, "host_memory_bytes", "Memory of the host.")
HOST_MEMORY_AVAILABLE = _define(_GAUGE, _PROCESS, "host_memory_available_bytes", "Memory that could be had without swapping.")
DISK = _define(_GAUGE, _PROCESS, "host_data_directory_bytes", "Size of the file system that holds `data.directory`.")
DISK_FREE = _define(_GAUGE, _PROCESS, "host_data_directory_free_bytes", "What is free of it.")
COLLECTOR_FAILURES = _define(
    _COUNTER,
    _PROCESS,
    "metrics_collector_failures_total",
    "Scrapes without the metrics of a collector, which failed or was too late.",
    "collector",
)
COLLECT_SECONDS = _define(
    _GAUGE, _PROCESS, "metrics_collect_seconds", "How long collecting took in the last scrape, by the thread it took it from.", "source"
)

_foreign(_COUNTER, "process_cpu_seconds_total", "Processor time of the process.")
_foreign(_GAUGE, "process_resident_memory_bytes", "Its resident memory.")
_foreign(_GAUGE, "process_virtual_memory_bytes", "Its virtual memory.")
_foreign(_GAUGE, "process_start_time_seconds", "When it was started, in seconds since 1970.")
_foreign(_GAUGE, "process_open_fds", "Open file descriptors.")
_foreign(_GAUGE, "process_max_fds", "How many it may open.")
_foreign(_COUNTER, "python_gc_objects_collected_total", "Objects that the garbage collector freed.", "generation")
_foreign(_COUNTER, "python_gc_objects_uncollectable_total", "Objects that it could not free.", "generation")
_foreign(_COUNTER, "python_gc_collections_total", "How often it ran.", "generation")
_foreign(_GAUGE, "python_info", "1, labelled with the version of Python.", "implementation", "major", "minor", "patchlevel", "version")

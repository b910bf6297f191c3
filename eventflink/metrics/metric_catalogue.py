"""Every metric there is. Collectors name them from here, and docs/generated/metrics.md is written from here; nothing else is exposed.

Names are those of Prometheus: base units, `_total` for counters, units last. Labels have bounded values: states, topics, event names, and
ids only where `metrics.max-jobs` or the number of slots bounds them.
"""

from functools import partial
from typing import Final

from eventflink.metrics.definitions import Metric, MetricType
from eventflink.model.metric_settings import MetricScope
from eventflink.model.stream_progress import MAX_PARTITION_LAGS

MAX_JOB_TASKS: Final = 10_000
"""How many subtasks are counted by job in one scrape: more would hold up decisions for milliseconds."""

MAX_STREAM_SUBTASKS: Final = 1_000
"""How many subtasks of streams have metrics of their own, over all jobs: each has twelve series, and one of each partition it tells of."""

METRICS: Final[list[Metric]] = []
"""All of them, in the order of the documentation."""


class _Scope:
    """Defines metrics of one scope: name without its prefix, meaning, labels."""

    def __init__(self, scope: MetricScope) -> None:
        self._scope = scope
        self.counter = partial(self._define, MetricType.COUNTER)
        self.gauge = partial(self._define, MetricType.GAUGE)
        self.histogram = partial(self._define, MetricType.HISTOGRAM)

    def _define(self, metric_type: MetricType, name: str, meaning: str, *labels: str) -> Metric:
        metric = Metric(f"{self._scope.prefix}_{name}", metric_type, self._scope, meaning, labels)
        METRICS.append(metric)
        return metric


def _foreign(metric_type: MetricType, name: str, meaning: str, *labels: str) -> None:
    METRICS.append(Metric(name, metric_type, MetricScope.PROCESS, meaning, labels, is_foreign=True))


_jm, _job, _tm, _task, _process = map(
    _Scope, (MetricScope.JOBMANAGER, MetricScope.JOB, MetricScope.TASKMANAGER, MetricScope.TASK, MetricScope.PROCESS)
)

# -- masters: leadership -------------------------------------------------------------------------------------------

IS_LEADER = _jm.gauge("is_leader", "1 while this master leads. Summed over the masters of a cluster it is 1, or for a moment 0.")
ROLE = _jm.gauge("role", "1 for the role that it has; none has 1 while it builds its state from the log.", "role")
EPOCH = _jm.gauge("epoch", "The newest epoch of the log that it has read: each change of leader adds one.")
RANK = _jm.gauge("rank", "How many masters come before it where one of them has to do work such as a snapshot; the leader is the last.")
MASTERS = _jm.gauge("masters", "How many masters it heard of on `leadership` in the last three leases, itself included.")
HEARD_ITSELF_AGE = _jm.gauge(
    "heard_itself_age_seconds", "How long ago it last read a record of its own on `leadership`: if it grows, it is cut off from Kafka."
)
LEADERSHIPS_BEGUN = _jm.counter("leaderships_begun_total", "How often it began to lead.")
LEADERSHIPS_ENDED = _jm.counter(
    "leaderships_ended_total",
    "How often it ceased to lead, by reason: `Resigned` (in order), `Deposed` (somebody else leads), `AppendFailed`, `ApplyFailed`, "
    "`TailFailed`, `LeadershipEnded` (a decision was not read back within the lease), `TurnFailed` (a defect), or what was wrong with "
    "the log.",
    "reason",
)

# -- masters: the log and what is decided --------------------------------------------------------------------------

LOG_OFFSET = _jm.gauge("log_offset", "The offset of the last record of the log that its state reflects.")
LOG_LAG = _jm.gauge("log_lag_records", "How many records of the log, as far as it knows, are not in its state yet.")
LOG_QUEUED = _jm.gauge("log_queued_records", "How many of those it has already received.")
ACCEPTED = _jm.counter("log_decisions_accepted_total", "Decisions of the whole log that were accepted.")
REJECTED = _jm.counter(
    "log_decisions_rejected_total", "Decisions of the whole log that were rejected: of a deposed leader, or of a lost election."
)
EVENTS = _jm.counter(
    "events_total",
    "Events of accepted decisions, by name, since this process follows the log; what it replays at its start is not counted.",
    "event",
)
RESTARTS = _jm.counter("restarts_total", "Restarts of jobs or parts of them, counted like the events (`RegionRestarted`).")
DECISIONS = _jm.counter("decisions_total", "Decisions that this process made as the leader.")
DECIDE_LATENCY = _jm.histogram("decide_latency_seconds", "How long one decision took: decoding its input, deciding, applying, encoding.")
READ_BACK_LATENCY = _jm.histogram(
    "append_to_read_back_latency_seconds",
    "How long a decision took from its append until it was read back and accepted: before, nobody sees anything of it.",
)
UNCONFIRMED = _jm.gauge("unconfirmed_decisions", "Decisions that were appended and not read back yet; 0 where it does not lead.")
UNCONFIRMED_AGE = _jm.gauge("oldest_unconfirmed_decision_age_seconds", "The age of the oldest of them; a whole lease ends the leadership.")
INBOX_LENGTH = _jm.gauge("inbox_length", "Inputs that are held because no accepted decision answers them yet.", "topic")
INBOX_BYTES = _jm.gauge("inbox_bytes", "Their size.", "topic")
INBOX_PAUSED = _jm.gauge("inbox_paused", "1 while reading pauses because the inbox is full; Kafka keeps the rest.", "topic")
HELD_BACK = _jm.gauge("inputs_held_back", "Inputs that cannot be read yet because they lie behind a client's open transaction.", "topic")
FOLLOW_UPS = _jm.gauge("follow_ups", "Follow-ups in the state that wait to be decided.")
EFFECTS = _jm.counter("effects_released_total", "Effects of accepted decisions that were sent, those resent included.", "effect")
EFFECTS_FAILED = _jm.counter("effect_records_failed_total", "Records of effects that Kafka did not take; they are resent.")
FEATURE_LEVEL = _jm.gauge("feature_level", "The cluster's feature level.")

# -- masters: resources and jobs -----------------------------------------------------------------------------------

TASK_MANAGERS = _jm.gauge("task_managers", "Registered TaskManagers.")
HEARTBEAT_AGE = _jm.gauge(
    "oldest_heartbeat_age_seconds", "How long the TaskManager that was silent for longest has been silent; only at the leader."
)
SLOTS = _jm.gauge("task_slots_registered", "Slots of the registered TaskManagers.")
FREE_SLOTS = _jm.gauge("task_slots_free", "Those that are free.")
SLOT_REQUESTS = _jm.gauge("pending_slot_requests", "Attempts that wait for a slot.")
SLOT_REQUEST_AGE = _jm.gauge(
    "oldest_pending_slot_request_age_seconds", "For how long the oldest of them has waited, by the log's time; 0: none waits."
)
DEFERRED_SLOT_REQUESTS = _jm.gauge(
    "deferred_slot_requests", "Those of them of which the log says why they wait (`SlotRequestDeferred`), by reason.", "reason"
)
QUEUE_QUOTA = _jm.gauge(
    "queue_nominal_quota_slots", "How many slots a queue of jobs is entitled to; left out without configured queues.", "queue"
)
QUEUE_HELD = _jm.gauge("queue_held_slots", "How many slots the jobs of a queue hold.", "queue")
QUEUE_REQUESTS = _jm.gauge("queue_pending_slot_requests", "Attempts of the jobs of a queue that wait for a slot.", "queue")
JOBS = _jm.gauge("jobs", "Jobs in memory by status: all live ones, and ended ones up to `jobstore.max-capacity`.", "status")
JOBS_DIRTY = _jm.gauge("jobs_awaiting_clean_up", "Ended jobs whose intermediate data are not removed yet.")
JOBS_KEPT = _jm.gauge("jobs_kept", "Jobs that have ended, and whose intermediate outputs are kept so that they can be reused.")
UPLOADS = _jm.gauge("file_uploads_pending", "Files that were asked of TaskExecutors and did not come yet.")
JOBS_LEFT_OUT = _jm.gauge(
    "jobs_without_metrics", "Live jobs that have no metrics of their own, because there are more than `metrics.max-jobs`, or tasks."
)
STREAM_SUBTASKS_LEFT_OUT = _jm.gauge(
    "stream_subtasks_without_metrics",
    f"Subtasks of streams that have no metrics of their own, because jobs that have metrics have more than {MAX_STREAM_SUBTASKS:,}.",
)
SNAPSHOTS = _jm.gauge("snapshots", "Snapshots that the log knows.")
SNAPSHOT_OFFSET = _jm.gauge("newest_snapshot_offset", "The offset of the newest one; -1: there is none.")
CONFIRMED_OFFSET = _jm.gauge("newest_confirmed_snapshot_offset", "The offset of the newest one that another master confirmed; -1: none.")

JOB_STATUS = _job.gauge("status", "1 for the status that the job has.", "status")
JOB_TASKS = _job.gauge("tasks", "The job's subtasks by the state of their current attempt; states without any are left out.", "state")
JOB_RESTARTS = _job.counter("restarts_total", "How often the job, or a part of it, was restarted.")
JOB_AGE = _job.gauge("age_seconds", "How long ago it was submitted, by the log's time.")
JOB_TIME_LEFT = _job.gauge(
    "time_limit_left_seconds", "How long from now it fails that has not ended, by the log's time; left out where it has no time limit."
)

# -- masters: checkpoints and streams; a subtask's numbers are those of the last completed checkpoint ---------------

CHECKPOINTS_COMPLETED = _job.counter("completed_checkpoints_total", "Checkpoints that completed; Flink's `numberOfCompletedCheckpoints`.")
CHECKPOINTS_FAILED = _job.counter("failed_checkpoints_total", "Checkpoints that were aborted; Flink's `numberOfFailedCheckpoints`.")
CHECKPOINTS_IN_PROGRESS = _job.gauge(
    "checkpoints_in_progress", "Checkpoints that are under way, at most one; Flink's `numberOfInProgressCheckpoints`."
)
CHECKPOINT_DURATION = _job.gauge(
    "last_checkpoint_duration_seconds",
    "From the trigger of the last completed checkpoint to its completion; Flink's `lastCheckpointDuration`.",
)
CHECKPOINT_SIZE = _job.gauge(
    "last_checkpoint_size_bytes",
    "The state of all subtasks that the last completed checkpoint asked, as Spark tells it; Flink's `lastCheckpointSize`.",
)
CHECKPOINT_AGE = _job.gauge("last_checkpoint_age_seconds", "How long ago the last completed checkpoint was triggered, by the log's time.")

_SUBTASK: Final = ("task_id", "subtask_index")
STREAM_BATCH = _job.gauge("stream_last_committed_batch", "The last committed batch, from 0; left out before the first.", *_SUBTASK)
STREAM_INPUT_RATE = _job.gauge("stream_input_rows_per_second", "Rows that came per second, in the last batch.", *_SUBTASK)
STREAM_PROCESSED_RATE = _job.gauge("stream_processed_rows_per_second", "Rows that it processed per second, in that batch.", *_SUBTASK)
STREAM_BATCH_DURATION = _job.gauge("stream_batch_duration_seconds", "How long that batch took.", *_SUBTASK)
STREAM_STATE_ROWS = _job.gauge("stream_state_rows", "Rows of its state.", *_SUBTASK)
STREAM_STATE_BYTES = _job.gauge("stream_state_bytes", "Memory of its state, as Spark tells it.", *_SUBTASK)
STREAM_LATE_ROWS = _job.gauge("stream_late_rows_dropped", "Rows that came behind the watermark, in this attempt.", *_SUBTASK)
STREAM_WATERMARK_LAG = _job.gauge(
    "stream_watermark_lag_seconds",
    "How far the watermark was behind the log's time when the subtask answered; left out while there is no watermark.",
    *_SUBTASK,
)
STREAM_WATERMARK_STANDS = _job.gauge(
    "stream_watermark_stands_seconds", "For how long rows have come and the watermark has not moved; 0: it moves.", *_SUBTASK
)
STREAM_ROWS_WRITTEN = _job.gauge(
    "stream_rows_written",
    "Rows that an output has got from this attempt; left out where not all batches were seen, and in real time.",
    *_SUBTASK,
    "output",
    "location",
)
STREAM_RECORDS_BEHIND = _job.gauge(
    "stream_records_behind",
    "Records that were there and not read yet, summed over the sources that tell it, as Kafka does; left out where none does.",
    *_SUBTASK,
)
STREAM_PARTITIONS_BEHIND = _job.gauge(
    "stream_partitions_behind",
    "Partitions with records that were there and not read yet, over these sources; left out where none tells it.",
    *_SUBTASK,
)
STREAM_PARTITION_LAG = _job.gauge(
    "stream_partition_records_behind",
    f"Records of a partition that were there and not read yet; only of the {MAX_PARTITION_LAGS} of a subtask that are furthest behind.",
    *_SUBTASK,
    "source",
    "topic",
    "partition",
)
STREAM_BACK_PRESSURE = _job.gauge(
    "stream_back_pressure_ratio", "The part by which it does not keep up: up to 0.1 is ok, up to 0.5 low, above it high.", *_SUBTASK
)

# -- TaskExecutors -------------------------------------------------------------------------------------------------

PHASE = _tm.gauge("phase", "1 for the phase that its instance is in; `REGISTERED` is the one in which it works.", "phase")
TM_EPOCH = _tm.gauge("epoch", "The newest epoch that a leader named to it; -1: none yet.")
TM_SLOTS = _tm.gauge("task_slots", "Its slots.")
TM_FREE_SLOTS = _tm.gauge("task_slots_free", "Those that are free.")
TM_TASKS = _tm.gauge("tasks", "Attempts that are not terminal, by state.", "state")
TASK_STARTS = _tm.counter("task_starts_total", "Attempts that got a process.")
TASK_ENDS = _tm.counter(
    "task_ends_total", "Attempts that ended, by state: `FAILED` counts the failures, those of an instance's end included.", "state"
)
TASK_REFUSALS = _tm.counter("task_refusals_total", "Deployments that it refused: the slot was taken, or no task can be started.")
INCOMPLETE_DEPLOYMENTS = _tm.counter(
    "incomplete_deployments_total", "Deployments left alone until they come again, since a list of locations that they name was not whole."
)
INSTANCES = _tm.counter("instances_total", "Instances that it began: one at its start, and one after each fence.")
FENCES = _tm.counter("self_fences_total", "How often it ended its tasks and its instance itself.")
HEARTBEATS_SENT = _tm.counter("heartbeats_sent_total", "Heartbeats that it sent.")
HEARTBEATS_ACKNOWLEDGED = _tm.counter("heartbeats_acknowledged_total", "Those that Kafka has acknowledged.")
ACKNOWLEDGED_HEARTBEAT_AGE = _tm.gauge(
    "acknowledged_heartbeat_age_seconds",
    "How long ago the newest heartbeat (or registration) that Kafka has was sent; at `taskmanager.self-fence-timeout` it fences itself.",
)
TASK_PROCESSES = _tm.gauge("task_processes", "Processes of its pool: two fork servers, tasks, and those that wait for one.")
FORK_SERVER_STARTS = _tm.counter("fork_server_starts_total", "How often a fork server was started.")
FORK_SERVER_UP = _tm.gauge("fork_server_up", "1 while there is a fork server.")
SPARK_UP = _tm.gauge("spark_server_up", "1 while the local Spark server of this host runs or starts; left out with `spark.remote`.")
SPARK_ENDS = _tm.counter("spark_server_ends_total", "How often the local Spark ended by itself, or was ended as it did not answer.")
TM_UPLOADS = _tm.gauge("file_uploads", "Uploads of task files under way.")
TM_INBOX = _tm.gauge("inbox_length", "Things that happened and wait for its main loop.")

TASK_AGE = _task.gauge("age_seconds", "How long ago the attempt was deployed.")
TASK_CPU = _task.counter("cpu_seconds_total", "Processor time of the task's process; what Spark does for it is not in it.")
TASK_MEMORY = _task.gauge("resident_memory_bytes", "Memory of the task's process.")

# -- every process -------------------------------------------------------------------------------------------------

THREADS = _process.gauge("process_threads", "Threads of the process.")
HOST_CPUS = _process.gauge("host_cpus", "Processors that the system sees.")
HOST_CPU = _process.counter("host_cpu_seconds_total", "Time of all processors together, by what it went to.", "mode")
HOST_LOAD = _process.gauge("host_load_average", "The system's load average.", "minutes")
HOST_MEMORY = _process.gauge("host_memory_bytes", "Memory of the host.")
HOST_MEMORY_AVAILABLE = _process.gauge("host_memory_available_bytes", "Memory that could be had without swapping.")
DISK = _process.gauge("host_data_directory_bytes", "Size of the file system that holds `data.directory`.")
DISK_FREE = _process.gauge("host_data_directory_free_bytes", "What is free of it.")
COLLECTOR_FAILURES = _process.counter(
    "metrics_collector_failures_total", "Scrapes without the metrics of a collector, which failed or was too late.", "collector"
)
COLLECT_SECONDS = _process.gauge(
    "metrics_collect_seconds", "How long collecting took in the last scrape, by the thread it took it from.", "source"
)

_foreign(MetricType.COUNTER, "process_cpu_seconds_total", "Processor time of the process.")
_foreign(MetricType.GAUGE, "process_resident_memory_bytes", "Its resident memory.")
_foreign(MetricType.GAUGE, "process_virtual_memory_bytes", "Its virtual memory.")
_foreign(MetricType.GAUGE, "process_start_time_seconds", "When it was started, in seconds since 1970.")
_foreign(MetricType.GAUGE, "process_open_fds", "Open file descriptors.")
_foreign(MetricType.GAUGE, "process_max_fds", "How many it may open.")
_foreign(MetricType.COUNTER, "python_gc_objects_collected_total", "Objects that the garbage collector freed.", "generation")
_foreign(MetricType.COUNTER, "python_gc_objects_uncollectable_total", "Objects that it could not free.", "generation")
_foreign(MetricType.COUNTER, "python_gc_collections_total", "How often it ran.", "generation")
_foreign(
    MetricType.GAUGE, "python_info", "1, labelled with the version of Python.", "implementation", "major", "minor", "patchlevel", "version"
)

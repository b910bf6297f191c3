"""The words for where a thing stands, and the tables of the transitions between them.

Each state machine is one table: what it does not list is illegal, and the caller that tries it gets `IllegalTransition` and an
untouched state. The diagrams in docs/generated/state-machines.md are drawn from these tables (`python -m docs.generate`).
JobStatus and ExecutionState are Flink's.
"""

from collections.abc import Mapping
from enum import StrEnum, auto


class UpperStrEnum(StrEnum):
    """A string enumeration whose values are its names."""

    __hash__ = str.__hash__  # Enum's own is written in Python; every transition looks states up several times.

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:  # noqa: ARG004 - enum's signature
        return name


class JobStatus(UpperStrEnum):
    """Where a job stands."""

    INITIALIZING = auto()
    CREATED = auto()
    RUNNING = auto()
    FAILING = auto()
    FAILED = auto()
    CANCELLING = auto()
    CANCELED = auto()
    FINISHED = auto()
    RESTARTING = auto()
    SUSPENDED = auto()
    RECONCILING = auto()


class ExecutionState(UpperStrEnum):
    """Flink's ExecutionState: where one attempt of one subtask stands."""

    CREATED = auto()
    SCHEDULED = auto()
    DEPLOYING = auto()
    INITIALIZING = auto()
    RUNNING = auto()
    FINISHED = auto()
    CANCELING = auto()
    CANCELED = auto()
    FAILED = auto()
    RECONCILING = auto()


class SlotState(UpperStrEnum):
    """Where one slot of one TaskManager stands."""

    FREE = auto()
    PENDING = auto()
    ALLOCATED = auto()


class Role(UpperStrEnum):
    """What a master is to the log."""

    STANDBY = auto()
    CANDIDATE = auto()
    LEADER = auto()
    DEPOSED = auto()


class ApplicationStatus(UpperStrEnum):
    """Flink's ApplicationStatus: how what a cluster was started for came out."""

    SUCCEEDED = auto()
    FAILED = auto()
    CANCELED = auto()
    UNKNOWN = auto()

    @property
    def exit_code(self) -> int:
        """Flink's exit code, 0, 1443 or 1445, in the eight bits that a process has for it: 0, 163 or 165."""
        return _EXIT_CODES[self] & 0xFF


_EXIT_CODES = {
    ApplicationStatus.SUCCEEDED: 0,
    ApplicationStatus.FAILED: 1443,
    ApplicationStatus.CANCELED: 0,
    ApplicationStatus.UNKNOWN: 1445,
}


class TaskType(UpperStrEnum):
    """What a vertex runs."""

    PYTHON = auto()
    SQL = auto()
    SQL_FILE = auto()
    """SQL as well, of which the record has the path of its file in the job's code archives."""


class ParameterType(UpperStrEnum):
    """What the values of a parameter of a job are."""

    STRING = auto()
    INTEGER = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    DATE = auto()
    TIMESTAMP = auto()


class StreamConnector(UpperStrEnum):
    """What a stream reads from, or writes to."""

    KAFKA = auto()
    FILES = auto()
    RATE = auto()
    PYTHON = auto()
    EDGE = auto()
    """A pipelined edge of the job; nobody declares it as a source or a sink."""
    TABLE = auto()


class StreamFormat(UpperStrEnum):
    """How the rows of a source or sink are written; NONE: what is read or written has rows already."""

    NONE = auto()
    JSON = auto()
    TEXT = auto()
    BYTES = auto()
    CSV = auto()
    PARQUET = auto()
    AVRO = auto()
    DELTA = auto()
    ICEBERG = auto()


class StreamTrigger(UpperStrEnum):
    """When a stream begins its next batch."""

    PROCESSING_TIME = auto()
    AVAILABLE_NOW = auto()
    REAL_TIME = auto()


class StreamOutputMode(UpperStrEnum):
    """Which rows of its result each batch of a stream writes."""

    APPEND = auto()
    UPDATE = auto()
    COMPLETE = auto()


class CheckpointRetention(UpperStrEnum):
    """What becomes of a job's checkpoints when it is cancelled; those of a failed job stay, those of a finished one go."""

    DELETE_ON_CANCELLATION = auto()
    RETAIN_ON_CANCELLATION = auto()


class CheckpointStatus(UpperStrEnum):
    """Where a checkpoint stands."""

    IN_PROGRESS = auto()
    COMPLETED = auto()
    FAILED = auto()


class CheckpointFailureReason(UpperStrEnum):
    """Why a checkpoint was aborted; only the first two count as failures of checkpoints."""

    EXPIRED = auto()
    DECLINED = auto()
    TASK_ENDED = auto()
    JOB_NOT_RUNNING = auto()
    SAVEPOINT_TRIGGERED = auto()


class SavepointMode(UpperStrEnum):
    """What becomes of a job with its savepoint: it goes on, stops, stops when it has read what is there, or is cancelled."""

    CONTINUE = auto()
    STOP = auto()
    DRAIN = auto()
    CANCEL = auto()


class BackPressureLevel(UpperStrEnum):
    """How far a stream does not keep up, in Flink's three levels."""

    OK = auto()
    LOW = auto()
    HIGH = auto()


class ShipStrategy(UpperStrEnum):
    """How the rows of an edge are shared out among the subtasks that read it."""

    FORWARD = auto()
    HASH = auto()
    REBALANCE = auto()
    BROADCAST = auto()
    EACH = auto()
    """Each row to a subtask of its own: there are as many subtasks as rows."""


class VertexSkipReason(UpperStrEnum):
    """Why a vertex was skipped."""

    NO_ROWS = auto()
    """The output that its condition names has none, and it runs when there are some."""
    ROWS = auto()
    """The output that its condition names has some, and it runs when there are none."""
    CONDITION_SKIPPED = auto()
    """The vertex that its condition names was skipped."""
    INPUT_SKIPPED = auto()
    """A vertex that it reads was skipped."""


class VertexRuns(UpperStrEnum):
    """When a vertex runs: in its turn, or, as a closing vertex, when all others have come to their end, and how they did."""

    IN_TURN = auto()
    """When its inputs are complete."""
    ON_SUCCESS = auto()
    """At the end of a job whose graph has finished."""
    ON_FAILURE = auto()
    """At the end of a job whose graph has failed."""
    ALWAYS = auto()
    """At the end of a job, also of one that is cancelled."""


class RestartStrategyType(UpperStrEnum):
    """What happens when an attempt fails."""

    CLUSTER_DEFAULT = auto()
    NONE = auto()
    FIXED_DELAY = auto()
    EXPONENTIAL_DELAY = auto()
    FAILURE_RATE = auto()


class FailoverStrategy(UpperStrEnum):
    """Which subtasks of a job start again when an attempt fails."""

    REGION = auto()
    FULL = auto()


class SchedulerType(UpperStrEnum):
    """Which scheduler a job has."""

    CLUSTER_DEFAULT = auto()
    DEFAULT = auto()
    ADAPTIVE = auto()


class RescaleReason(UpperStrEnum):
    """Why a vertex gets another parallelism."""

    FEWER_SLOTS = auto()
    MORE_SLOTS = auto()
    REQUESTED = auto()
    INPUT_ROWS = auto()
    """It has a subtask for each row of an input."""


class ReuseReason(UpperStrEnum):
    """Why a vertex of a job that runs another one again is reused (UNCHANGED), or runs (all others)."""

    UNCHANGED = auto()
    """It is reused."""
    REQUESTED = auto()
    STREAM = auto()
    ADDED = auto()
    """The job that runs again has no such vertex."""
    CHANGED = auto()
    """Its document says something else of it."""
    CODE_CHANGED = auto()
    READERS_CHANGED = auto()
    """Other outputs of it are read, or an edge reads one that a condition named."""
    PARAMETER_CHANGED = auto()
    INPUT_RUNS = auto()
    NOT_FINISHED = auto()
    OUTPUTS_REMOVED = auto()
    CLOSING = auto()
    """It runs at the end of its job."""
    SKIPPED = auto()
    """It was skipped, and whether it is skipped is decided again."""


class CatchUp(UpperStrEnum):
    """Which instants of a schedule still fire that are late, since no master led, or Kafka was away."""

    NONE = auto()
    """None that is more than a minute late."""
    LAST = auto()
    """The last one."""
    ALL = auto()
    """All, the oldest first."""


class OverlapPolicy(UpperStrEnum):
    """What a schedule does at an instant while a job that it started still runs."""

    SKIP = auto()
    """It starts no job."""
    QUEUE = auto()
    """It starts the job when the ones before it have ended."""
    CANCEL = auto()
    """It cancels that job, and starts the new one when it has ended."""
    ALLOW = auto()
    """It starts the job: several run at once."""


class InstantValue(UpperStrEnum):
    """What a parameter of a scheduled job is given of the instant for which it runs."""

    DATE = auto()
    """The day of the instant, in the schedule's time zone."""
    PREVIOUS_DATE = auto()
    """The day of the instant before it by the timing."""
    TIMESTAMP = auto()
    """The instant itself: the end of the time that has passed since those before it."""
    PREVIOUS_TIMESTAMP = auto()
    """Up to where the instants before it reach: the begin of that time."""
    RUN = auto()
    """Of a schedule that follows a job: the id of the run whose end is the instant."""
    PARAMETER = auto()
    """Of a schedule that follows a job: the value that the run had of the parameter of the same name."""
    PARTITIONS = auto()
    """Of a schedule that takes the records of a topic: where they are, as `assign` of Spark's reader of Kafka has it."""
    STARTING_OFFSETS = auto()
    """Of a schedule that takes the records of a topic: where they begin, as its `startingOffsets`."""
    ENDING_OFFSETS = auto()
    """Of a schedule that takes the records of a topic: behind the last of them, as its `endingOffsets`."""
    STARTING_VERSION = auto()
    """Of a schedule that takes the versions of a table of Delta: the first of them, as `startingVersion` of Spark's reader has it."""
    ENDING_VERSION = auto()
    """Of a schedule that takes the versions of a table of Delta: the last of them, as its `endingVersion`."""
    START_SNAPSHOT = auto()
    """Of a schedule that takes the versions of a table of Iceberg: the snapshot before them, as its `start-snapshot-id`; 0: none was, or it
    is not known any more."""
    END_SNAPSHOT = auto()
    """Of a schedule that takes the versions of a table of Iceberg: the last of them, as its `end-snapshot-id`."""


class TopicBegin(UpperStrEnum):
    """Where the cursor of a schedule begins that takes the records of a topic, or the versions of a table."""

    EARLIEST = auto()
    """At the first record, or version, that is there."""
    LATEST = auto()
    """With what has come since the schedule was stored, by the time that Kafka, or the table's store, has of each."""


class CursorMove(UpperStrEnum):
    """Why the cursor of a table stands where no job has read up to."""

    BEGUN = auto()
    """It had stood nowhere."""
    REPLACED = auto()
    """Another table has taken the place of the one before: all of its versions are new."""
    REWOUND = auto()
    """The table has gone back to an older version: what comes after that is new."""
    CLEANED = auto()
    """The table has forgotten versions that no job has had: the cursor passes over them."""


class RunOutcome(UpperStrEnum):
    """Which ends of a job's runs a schedule follows."""

    FINISHED = auto()
    FAILED = auto()
    CANCELED = auto()
    ANY = auto()


class InstantOrigin(UpperStrEnum):
    """Why it was decided about an instant of a schedule."""

    DUE = auto()
    """It had come."""
    QUEUED = auto()
    """It had waited for the job before it."""
    MANUAL = auto()
    """Somebody asked for its job."""
    BACKFILL = auto()
    """It is one of a range for whose jobs somebody asked."""
    FILE = auto()
    """It had waited for a file."""


class SkipReason(UpperStrEnum):
    """Why a schedule started no job for an instant."""

    OVERLAP = auto()
    """A job that it started still ran."""
    QUEUE_FULL = auto()
    """As many instants wait as may."""
    REPLACED = auto()
    """A later instant came while it waited."""
    LATE = auto()
    """It could not be decided in time, or before a pause, and late instants are not caught up with."""
    FINISHED_BEFORE = auto()
    """A back-fill came to it, and the job of the instant had finished."""
    REFUSED = auto()
    """The job could not be submitted."""
    CHANGED = auto()
    """The schedule was changed before it was decided, and has no such instant any more."""
    FILE_MISSING = auto()
    """The file for which it waited was not seen in time."""
    PAUSED = auto()
    """It came while the schedule was paused."""


class FailureReaction(UpperStrEnum):
    """What the failure of an attempt led to."""

    RESTART = auto()
    NEW_SLOT = auto()
    JOB_FAILURE = auto()
    NOTED = auto()
    """Nothing: it is of a closing vertex, and how the job ends was decided before."""


class JobStoreType(UpperStrEnum):
    """Where ended jobs are, as Flink's: in the memory of the masters, or in files."""

    MEMORY = auto()
    FILE = auto()


class TaskFile(UpperStrEnum):
    """A file that a task attempt writes on the host of its TaskExecutor."""

    LOG = auto()
    STDOUT = auto()
    STDERR = auto()


class TaskManagerFile(UpperStrEnum):
    """What a TaskExecutor can be asked to upload of itself; of its tasks, see TaskFile."""

    LOG = auto()
    STDOUT = auto()
    NAMED = auto()
    LOG_LIST = auto()
    THREAD_DUMP = auto()


class DrillStepType(UpperStrEnum):
    """What a drill asks of a master: to leave in order, to freeze for a while, to die."""

    STOP = auto()
    FREEZE = auto()
    KILL = auto()


class FollowUpType(UpperStrEnum):
    """A consequence that waits in the state to be decided."""

    SCHEDULE_TASKS = auto()
    MATCH_SLOTS = auto()
    CANCEL_TASKS = auto()
    COMPLETE_JOB = auto()
    FAIL_ALLOCATION = auto()
    RESTART_TASKS = auto()
    ABORT_CHECKPOINT = auto()
    FAIL_JOB = auto()


class SlotRequestDeferralReason(UpperStrEnum):
    """Why no slot was given to a request."""

    NO_TASK_MANAGER = auto()
    NO_FITTING_SLOT = auto()
    NO_FREE_SLOT = auto()
    TASK_MANAGERS_BLOCKED = auto()
    WORKER_REQUESTED = auto()
    QUEUE_SHARE = auto()


class IllegalTransition(Exception):
    """A transition that its table does not list; nothing was changed."""


Table = Mapping[StrEnum, frozenset[StrEnum]]


def _table(rows: dict[StrEnum, tuple[StrEnum, ...]]) -> Table:
    return {state: frozenset(targets) for state, targets in rows.items()}


JOB_TRANSITIONS: Table = _table(
    {
        JobStatus.INITIALIZING: (JobStatus.CREATED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED),
        JobStatus.CREATED: (JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED),
        JobStatus.RUNNING: (
            JobStatus.FINISHED,
            JobStatus.FAILING,
            JobStatus.CANCELLING,
            JobStatus.RESTARTING,
            JobStatus.SUSPENDED,
        ),
        JobStatus.RESTARTING: (
            JobStatus.RUNNING,
            JobStatus.CREATED,
            JobStatus.FAILING,
            JobStatus.CANCELLING,
            JobStatus.SUSPENDED,
        ),
        JobStatus.FAILING: (JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.SUSPENDED),
        JobStatus.CANCELLING: (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED),
        JobStatus.RECONCILING: (JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED),
        JobStatus.SUSPENDED: (JobStatus.RECONCILING, JobStatus.CANCELLING),
        JobStatus.FINISHED: (),
        JobStatus.FAILED: (),
        JobStatus.CANCELED: (),
    }
)

_ENDS_WITHOUT_RESULT = (ExecutionState.CANCELED, ExecutionState.FAILED)

EXECUTION_TRANSITIONS: Table = _table(
    {
        ExecutionState.CREATED: (ExecutionState.SCHEDULED, ExecutionState.RECONCILING, *_ENDS_WITHOUT_RESULT),
        ExecutionState.SCHEDULED: (ExecutionState.DEPLOYING, *_ENDS_WITHOUT_RESULT),
        ExecutionState.DEPLOYING: (ExecutionState.INITIALIZING, ExecutionState.CANCELING, *_ENDS_WITHOUT_RESULT),
        ExecutionState.INITIALIZING: (ExecutionState.RUNNING, ExecutionState.CANCELING, *_ENDS_WITHOUT_RESULT),
        ExecutionState.RUNNING: (ExecutionState.FINISHED, ExecutionState.CANCELING, *_ENDS_WITHOUT_RESULT),
        ExecutionState.CANCELING: _ENDS_WITHOUT_RESULT,
        ExecutionState.RECONCILING: (ExecutionState.RUNNING, ExecutionState.FINISHED, *_ENDS_WITHOUT_RESULT),
        ExecutionState.FINISHED: (),
        ExecutionState.CANCELED: (),
        ExecutionState.FAILED: (),
    }
)

SLOT_TRANSITIONS: Table = _table(
    {
        SlotState.FREE: (SlotState.PENDING,),
        SlotState.PENDING: (SlotState.ALLOCATED, SlotState.FREE),
        SlotState.ALLOCATED: (SlotState.FREE,),
    }
)

ROLE_TRANSITIONS: Table = _table(
    {
        Role.STANDBY: (Role.CANDIDATE,),
        Role.CANDIDATE: (Role.LEADER, Role.STANDBY),
        Role.LEADER: (Role.STANDBY, Role.DEPOSED),
        Role.DEPOSED: (Role.STANDBY,),
    }
)


def check_transition(table: Table, subject: object, before: StrEnum, after: StrEnum) -> None:
    """Raise `IllegalTransition`, naming the subject, unless the table lists `before` → `after`."""
    if after not in table[before]:
        message = f"{subject}: {type(before).__name__} cannot go from {before} to {after}"
        raise IllegalTransition(message)


def is_terminal(table: Table, state: StrEnum) -> bool:
    """Tell whether nothing follows the state."""
    return not table[state]


TERMINAL_JOB_STATUSES = frozenset(s for s in JobStatus if is_terminal(JOB_TRANSITIONS, s))
TERMINAL_EXECUTION_STATES = frozenset(s for s in ExecutionState if is_terminal(EXECUTION_TRANSITIONS, s))

RUNNING_JOB_STATUSES = (JobStatus.RUNNING, JobStatus.RESTARTING)
"""Attempts of the job are made, and their results count."""

ENDING_JOB_STATUSES = (JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED)
"""Its attempts end, and no new ones are made; a job that is SUSPENDED may be resumed later."""

SUSPENDABLE_JOB_STATUSES = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RECONCILING)
"""A job that fails or is cancelled ends instead: suspended, it would forget that it was to end."""

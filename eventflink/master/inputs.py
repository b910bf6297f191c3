"""Inputs of the master that do not come from a client or a TaskExecutor: timers, follow-ups, ends of what the leader started.

Times, like every id that is not derived, enter here; nothing in this room reads a clock.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from eventflink.events.inputs import REQUESTS, Request, TaskManagerReport
from eventflink.model.schedules import FollowedTable, OffsetRange, PartitionOffset, TableVersion
from eventflink.model.statuses import FollowUpType


class Blamed(Exception):
    """Deciding what concerns several jobs failed at one of them: that one fails, and not the others (P10)."""

    def __init__(self, job_id: str, error: Exception) -> None:
        super().__init__(repr(error))
        self.job_id = job_id


@dataclass(slots=True)
class InternalInput:
    """What nobody sent; its classes are in this module."""

    repeats: ClassVar[bool] = False
    """Each decision is about one thing of many: it is decided again in the same record, on the state after it, while that is small."""


@dataclass(slots=True)
class UnreadableInput(InternalInput):
    """A record that no decoder takes, or whose content is invalid."""

    code: str
    message: str
    subject: str
    request_id: str = ""
    reply_partition: int = -1


@dataclass(slots=True)
class PoisonedInput(InternalInput):
    """An input that cannot be decided, or that ended a leadership: it is refused, so that it cannot end the next one (P10)."""

    topic: str
    offset: int
    error: str
    request_id: str
    reply_partition: int
    subject: str


@dataclass(slots=True)
class AttemptInputs(InternalInput):
    """A new leader is about to decide these inputs (P10)."""

    topic: str
    first_offset: int
    last_offset: int
    deaths: int = 0
    """So many leaders died at the first of them, by their guardians' word, and had not announced it alone."""


@dataclass(slots=True)
class AttemptInternalInputs(InternalInput):
    """A leader after some that ended early is about to decide these internal inputs (P10)."""

    names: tuple[str, ...]
    deaths: int = 0
    """As of `AttemptInputs`."""


@dataclass(slots=True)
class RaiseFeatureLevel(InternalInput):
    """Every master that was heard of can read the events of this level (P19)."""

    to_level: int


@dataclass(slots=True)
class BindInputs(InternalInput):
    """Where an inbound partition begins: for a cluster that has never read it, or after an operator's `--rebind` (P9)."""

    topic: str
    topic_id: str
    next_offset: int


@dataclass(slots=True)
class LoseInputs(InternalInput):
    """Retention removed inputs that were not decided yet."""

    topic: str
    first_kept_offset: int


@dataclass(slots=True)
class FollowUp(InternalInput):
    """The head of the state's queue of follow-ups."""

    follow_up_type: FollowUpType
    subject: str


@dataclass(slots=True)
class HeartbeatTimeout(InternalInput):
    """An instance of a TaskManager missed its heartbeats."""

    task_manager_id: str
    instance_id: str
    silence_ms: int


@dataclass(slots=True)
class SlotRequestTimeout(InternalInput):
    """The oldest slot request has waited too long."""

    repeats: ClassVar[bool] = True


@dataclass(slots=True)
class ConfigureQueues(InternalInput):
    """The queues of the leader's configuration are not those of the state."""


@dataclass(slots=True)
class ReclaimSlots(InternalInput):
    """Requests of a queue below its quota have waited for so long that it takes slots back from queues that borrow."""


@dataclass(slots=True)
class FailUnfulfillableRequests(InternalInput):
    """Requests wait that no registered slot can ever satisfy, and the start-up period is over."""


@dataclass(slots=True)
class UnblockTaskManagers(InternalInput):
    """TaskManagers were blocked for a time, and it is over."""


@dataclass(slots=True)
class UploadsOverdue(InternalInput):
    """TaskExecutors were asked for something of themselves, and have not answered for too long."""


@dataclass(slots=True)
class RestartsDue(InternalInput):
    """Failed subtasks of a job have waited long enough."""

    job_id: str


@dataclass(slots=True)
class CheckpointDue(InternalInput):
    """A checkpoint of a job is to be triggered, or has taken too long."""

    job_id: str


@dataclass(slots=True)
class TimeLimitsDue(InternalInput):
    """A job, or attempts of its tasks, have used up their time."""

    job_id: str
    reports_ms: int
    """All reports that were there at this time are decided: what had ended by then has ended, and a limit counts up to then."""


@dataclass(slots=True)
class AdaptJob(InternalInput):
    """Slots or time allow something to be scheduled or rescaled of an adaptive job, or a vertex of it has waited too long."""

    job_id: str


@dataclass(slots=True)
class CleanupsCompleted(InternalInput):
    """The intermediate data of these jobs are gone."""

    job_ids: tuple[str, ...]


@dataclass(slots=True)
class CleanupFailed(InternalInput):
    """The intermediate data of a job could not be removed."""

    job_id: str
    message: str


@dataclass(slots=True)
class WrittenArchive:
    """The archive of one job, as it lies in the archive directory."""

    job_id: str
    location: str
    digest: str
    byte_count: int


@dataclass(slots=True)
class ArchivesWritten(InternalInput):
    """The archives of these jobs are written."""

    archives: tuple[WrittenArchive, ...]


@dataclass(slots=True)
class ArchiveFailed(InternalInput):
    """The archive of a job could not be written."""

    job_id: str
    message: str


@dataclass(slots=True)
class ReleaseOutputs(InternalInput):
    """The outputs of ended jobs were kept for long enough, or there are more such jobs than the store holds."""


@dataclass(slots=True)
class EvictJobs(InternalInput):
    """More ended jobs are retained than the store holds, or for longer than it holds them."""


@dataclass(slots=True)
class FireSchedules(InternalInput):
    """Instants of schedules have come, or wait for what has ended now."""

    repeats: ClassVar[bool] = True


@dataclass(slots=True)
class RecordsSeen(InternalInput):
    """The topic of a schedule has records that the cursor has not passed, or has not been seen by it."""

    repeats: ClassVar[bool] = True

    schedule_id: str
    topic: str
    topic_id: str
    bounds: tuple[OffsetRange, ...]
    """All partitions, each from its first record on."""
    since: tuple[PartitionOffset, ...] = ()
    """In each partition the first record that is not older than the time asked for; empty: no time was asked for."""


@dataclass(slots=True)
class VersionsSeen(InternalInput):
    """The table of a schedule has versions that the cursor has not passed, or has not been seen by it."""

    repeats: ClassVar[bool] = True

    schedule_id: str
    table: FollowedTable
    cursor: TableVersion | None
    """Where the cursor stood when the table was looked at; None: nowhere."""
    table_id: str
    base: TableVersion
    """The version from which on all is known that came: the cursor, unless there is a reason against it."""
    last: TableVersion
    """The newest version, the same as `base` where there is nothing new."""
    had_id: str = ""
    """The id that the table had where the cursor stands, if it has another one since; its versions go on."""


@dataclass(slots=True)
class TableNotSeen(InternalInput):
    """The table of a schedule could not be looked at, several times."""

    repeats: ClassVar[bool] = True

    schedule_id: str
    table: FollowedTable
    fault: str


@dataclass(slots=True)
class FileSeen(InternalInput):
    """The file for which an instant of a schedule waits is there."""

    repeats: ClassVar[bool] = True

    schedule_id: str
    instant_ms: int
    file: str


@dataclass(slots=True)
class FileMissed(InternalInput):
    """The file for which an instant of a schedule waits was looked for when its time was over, and is not there."""

    repeats: ClassVar[bool] = True

    schedule_id: str
    instant_ms: int
    file: str
    fault: str = ""
    """Why it could not be looked for; empty: it could."""


@dataclass(slots=True)
class ExpireAnswers(InternalInput):
    """Answers or job ids are beyond the horizon: there are too many of them, or they are too old."""

    decided_until_ms: int
    """All requests that were there at this time are decided: only from here on, back in time, the horizon counts."""


@dataclass(slots=True)
class RequestWorkers(InternalInput):
    """Slot requests wait that workers of the resource driver could serve."""


@dataclass(slots=True)
class FailWorkerRequests(InternalInput):
    """Workers did not register in time."""


@dataclass(slots=True)
class ReleaseTaskManagers(InternalInput):
    """Workers have been idle for long enough."""


@dataclass(slots=True)
class WorkerTerminated(InternalInput):
    """The resource driver could not start a worker, or its process has ended."""

    worker_id: str
    reason: str


@dataclass(slots=True)
class ContinueShutdown(InternalInput):
    """The cluster ends, or starts again after an end, and a step of that may be due."""


@dataclass(slots=True)
class StartCluster(InternalInput):
    """A master leads the log of a cluster that had ended before the master was started."""


MasterInput = InternalInput | Request | TaskManagerReport

INPUT_CLASSES: Final[tuple[type, ...]] = (
    *(c for c in tuple(globals().values()) if isinstance(c, type) and issubclass(c, InternalInput) and c is not InternalInput),
    *REQUESTS,
    *get_args(TaskManagerReport),
)
"""Every kind of input."""

"""What kind of failure a failure's type is: the stable words of `docs/job-graph.md`, and what follows from them.

Whose a failure is, whether it has a restart of its own, and whether it can heal at all. The rule: a type that is not listed is the
code's, and its restart strategy decides.
"""

from enum import StrEnum
from typing import Final

from eventflink.model.attempts import FailureCause


class FailureKind(StrEnum):
    """Whose a failure is."""

    CODE = "code"
    DATA = "data"
    ROOM = "room"
    """There was no slot."""
    SPARK = "spark"
    HOST = "host"
    """Too slow, or its disk is full."""
    TASK_MANAGER = "task_manager"
    MASTERS = "masters"
    """Also Kafka's."""
    TIME_LIMIT = "time_limit"
    """Of a task or a job that was not done in the time that its document gives it."""


SPARK_LOST: Final = "SparkLost"
SPARK_HEAP_FULL: Final = "SparkHeapFull"
"""The failure type of a job that filled the heap of a Spark of its own. Its kind is CODE: the job's code fills that heap."""
TASK_TIME_LIMIT: Final = "TaskTimeLimitExceeded"
JOB_TIME_LIMIT: Final = "JobTimeLimitExceeded"
HOST_TOO_SLOW: Final = "HostTooSlow"
DISK_FULL: Final = "DiskFull"
TOO_MANY_ROWS: Final = "TooManyRows"
"""The failure type of a mapped vertex that would have more subtasks than it may."""

_KINDS: Final = {
    **dict.fromkeys(("NoResourceAvailable", "UnfulfillableSlotRequest", "SlotOfferRejected"), FailureKind.ROOM),
    **dict.fromkeys((SPARK_LOST, "SparkUnavailable"), FailureKind.SPARK),
    "StreamStopped": FailureKind.SPARK,
    **dict.fromkeys((TASK_TIME_LIMIT, JOB_TIME_LIMIT), FailureKind.TIME_LIMIT),
    **dict.fromkeys(
        (HOST_TOO_SLOW, DISK_FULL, "CheckpointLost", "InputInvisible", "OutputsUnusable", "SecretUnavailable", "WorkingDirectoryUnfit"),
        FailureKind.HOST,
    ),
    **dict.fromkeys(
        (
            "AttemptMissing",
            "CheckpointFailureThresholdExceeded",
            "ClientSilent",
            "ForkServerDied",
            "InputLost",
            "SinkFenced",
            "TaskManagerDisconnected",
            "TaskManagerLost",
            "TaskManagerReleased",
            "TaskProcessBroken",
            "TaskProcessDied",
            "TaskProcessNotStarted",
            "UnexpectedCancellation",
        ),
        FailureKind.TASK_MANAGER,
    ),
    **dict.fromkeys(
        (
            "ArithmeticException",
            "DateTimeException",
            "InputUnusable",
            "NumberFormatException",
            "RowUnusable",
            TOO_MANY_ROWS,
            "UnicodeDecodeError",
        ),
        FailureKind.DATA,
    ),
    **dict.fromkeys(
        (
            "BlobDamaged",
            "BlobNotFound",
            "BlobStorageFailed",
            "BlobStorageUnusable",
            "BlobUnavailable",
            "BlobsFull",
            "InputParked",
            "KafkaException",
            "RegistryUnavailable",
            "SinkUnavailable",
            "SourceUnavailable",
            "StoreFailed",
            "TlsUnusable",
            "Unknown",
        ),
        FailureKind.MASTERS,
    ),
}

_RESTARTED_BY_ITSELF: Final = frozenset({SPARK_LOST, HOST_TOO_SLOW, "ForkServerDied", "TaskProcessNotStarted"})
"""Types of failures in which no code of a job has a part, and which the next attempt mostly does not meet."""

_LOST_WITH_TASK_MANAGER: Final = frozenset({"AttemptMissing", "TaskManagerDisconnected", "TaskManagerLost", "TaskManagerReleased"})
"""Types of failures of attempts whose TaskManager is gone, or has lost them."""

_CANNOT_HEAL: Final = frozenset(
    {
        "AnalysisException",
        "ImportError",
        "IndentationError",
        "ModuleNotFoundError",
        "ParametersUnusable",
        "ParseException",
        "SinkTaken",
        "SyntaxError",
        TOO_MANY_ROWS,
        "UnknownFunction",
        "WorkingDirectoryUnfit",
    }
)
_MAY_COME: Final = ("[PATH_NOT_FOUND]", "[TABLE_OR_VIEW_NOT_FOUND]")
"""What a statement did not find may be there for the next attempt."""


def kind_of(cause: FailureCause) -> FailureKind:
    """Return whose a failure is: by its type, else by that of the exception that it goes back to."""
    return _KINDS.get(cause.failure_type) or _KINDS.get(cause.root_type, FailureKind.CODE)


def is_restarted_by_itself(cause: FailureCause) -> bool:
    """Tell whether a failure is restarted whatever the restart strategy says, some times."""
    return cause.failure_type in _RESTARTED_BY_ITSELF


def is_lost_with_task_manager(cause: FailureCause) -> bool:
    """Tell whether an attempt failed since its TaskManager is gone, or has lost it."""
    return cause.failure_type in _LOST_WITH_TASK_MANAGER


def cannot_heal(cause: FailureCause) -> bool:
    """Tell whether every further attempt would fail in the same way: a column, a module or a function that is not there."""
    return cause.failure_type in _CANNOT_HEAL and not any(code in cause.message for code in _MAY_COME)

"""What is said of one attempt of a subtask: who it is, where it stands, what it left, why it failed.

These classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from eventflink.model.statuses import ExecutionState

UNKNOWN_COUNT: Final = -1


class SubtaskId(NamedTuple):
    """One parallel subtask of one vertex of one job."""

    job_id: str
    vertex_id: str
    subtask_index: int

    def __str__(self) -> str:
        """Return it as logs and messages show it: `job/vertex[2]`."""
        return f"{self.job_id}/{self.vertex_id}[{self.subtask_index}]"


class AttemptId(NamedTuple):
    """One attempt of one subtask; attempts count from 1."""

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int

    def __str__(self) -> str:
        """Return it as logs and messages show it: `job/vertex[2]#1`."""
        return f"{self.job_id}/{self.vertex_id}[{self.subtask_index}]#{self.attempt}"


class HasAttemptId:
    """What says in four of its fields which attempt it is about."""

    __slots__ = ()

    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt it is about."""
        return AttemptId(self.job_id, self.vertex_id, self.subtask_index, self.attempt)


@dataclass(slots=True)
class AttemptRecord(HasAttemptId):
    """A record that begins with the attempt that it is about."""

    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""


@dataclass(slots=True)
class FailureCause:
    """Why something failed: a type for programs, a message for people, and the stack trace where there is one."""

    failure_type: str
    """A stable word, such as TaskProcessDied, or the class of the exception that user code raised."""
    message: str
    """One sentence that names what is wrong and where."""
    stack_trace: str | None = None
    """The trace of user code, bounded in length."""
    root_type: str = ""
    """The class of the exception that the failure goes back to; empty: it goes back to none but itself."""
    root_message: str = ""
    """What that exception said."""


@dataclass(slots=True)
class LostInput:
    """What one subtask published for an input, and is not there any more or cannot be read."""

    input_name: str
    """The input, as the task that reads it calls it."""
    subtask_index: int
    """Which subtask of the vertex that writes it: its place among the locations of the deployment."""


@dataclass(slots=True)
class SubtaskReference:
    """A subtask within its job."""

    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""


@dataclass(slots=True)
class OutputLocation:
    """Where the accepted attempt of a subtask left one of its outputs, and what it wrote there."""

    output: str
    """The output's name."""
    location: str
    """A directory of Parquet files."""
    rows: int = UNKNOWN_COUNT
    """How many rows Spark wrote; -1: it is not known."""
    files: int = UNKNOWN_COUNT
    """How many files they are in; -1: it is not known."""
    size_bytes: int = UNKNOWN_COUNT
    """The size of these files; -1: it is not known."""
    digest: str = ""
    """Of the list of these files, their names and sizes; empty: it is not known."""


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """Which snapshot of a table an attempt has read."""

    source: str
    """What the task calls the table; at most 64 characters."""
    snapshot_id: int
    """The snapshot; -1: the table had none yet."""


MAX_SNAPSHOTS: Final = 16
"""Of an attempt."""
MAX_SOURCE_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """What an attempt read over its edges, or a stream from its sources, and what it published or wrote to a sink; -1: it is not known."""

    read_records: int = UNKNOWN_COUNT
    """Rows that its edges shipped to it, or that the batches of a stream have read."""
    read_bytes: int = UNKNOWN_COUNT
    """Bytes of the files that these are in."""
    write_records: int = UNKNOWN_COUNT
    """Rows of its outputs, and of its sink."""
    write_bytes: int = UNKNOWN_COUNT
    """Bytes of their files."""
    snapshots: tuple[SourceSnapshot, ...] = ()
    """Of the tables that are sources of a batch task, as far as it has read them; at most 16."""


@dataclass(frozen=True, slots=True)
class LongCounter:
    """A sum of whole numbers that a task's code has kept under a name."""

    name: str
    """At most 128 characters."""
    value: int
    """The sum."""


@dataclass(frozen=True, slots=True)
class DoubleCounter:
    """A sum of numbers with fractions that a task's code has kept under a name."""

    name: str
    """At most 128 characters."""
    value: float
    """The sum."""


@dataclass(frozen=True, slots=True)
class Accumulators:
    """What the code of an attempt has counted: at most 64 sums."""

    longs: tuple[LongCounter, ...] = ()
    """Sums of whole numbers."""
    doubles: tuple[DoubleCounter, ...] = ()
    """Sums of numbers with fractions."""


MAX_ACCUMULATORS: Final = 64
"""Of an attempt."""
MAX_ACCUMULATOR_NAME_LENGTH: Final = 128
MAX_LONG: Final = 2**63 - 1
MIN_LONG: Final = -(2**63)
MAX_DOUBLE: Final = 1e300
"""Of a counter of one attempt: the sum over all subtasks of a job is a number as well."""


@dataclass(slots=True)
class SlotStatus:
    """One slot as its TaskExecutor sees it."""

    slot_index: int
    """From 0."""
    allocation_id: str | None = None
    """What occupies it, if anything."""


@dataclass(slots=True)
class AttemptStatus(AttemptRecord):
    """One attempt as its TaskExecutor sees it."""

    execution_state: ExecutionState
    """Where it stands."""

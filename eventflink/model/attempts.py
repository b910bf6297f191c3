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
    vertex_id: str
    subtask_index: int
    attempt: int


@dataclass(slots=True)
class FailureCause:
    """Why something failed: a type for programs, a message for people, and the stack trace where there is one."""

    failure_type: str
    message: str
    stack_trace: str | None = None
    root_type: str = ""
    """The class of the exception that it goes back to; empty: to none but itself."""
    root_message: str = ""


@dataclass(slots=True)
class LostInput:
    """What one subtask published for an input, and is not there any more or cannot be read."""

    input_name: str
    subtask_index: int


@dataclass(slots=True)
class SubtaskReference:
    """A subtask within its job."""

    vertex_id: str
    subtask_index: int


@dataclass(slots=True)
class OutputLocation:
    """Where the accepted attempt of a subtask left one of its outputs, and what it wrote there."""

    output: str
    location: str
    rows: int = UNKNOWN_COUNT
    files: int = UNKNOWN_COUNT
    size_bytes: int = UNKNOWN_COUNT
    digest: str = ""
    """The digest of the list of the files (`jobs/published.py`)."""


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """What an attempt read over its edges, or a stream from its sources, and what it published; -1: it is not known."""

    read_records: int = UNKNOWN_COUNT
    read_bytes: int = UNKNOWN_COUNT
    write_records: int = UNKNOWN_COUNT
    write_bytes: int = UNKNOWN_COUNT


@dataclass(frozen=True, slots=True)
class LongCounter:
    """A sum of whole numbers that a task's code has kept under a name."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class DoubleCounter:
    """The same of numbers with fractions."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Accumulators:
    """What the code of an attempt has counted, in the order in which it began to."""

    longs: tuple[LongCounter, ...] = ()
    doubles: tuple[DoubleCounter, ...] = ()


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
    allocation_id: str | None = None


@dataclass(slots=True)
class AttemptStatus(AttemptRecord):
    """One attempt as its TaskExecutor sees it."""

    execution_state: ExecutionState

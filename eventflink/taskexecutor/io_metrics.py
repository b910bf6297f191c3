"""What a task that has finished read and wrote, counted from what was published: the rows and the bytes of outputs, and of a sink.

Rows are counted where they are whole: an edge that deals the rows of each writer out to several subtasks has Spark filter them, and how
many each of these got is known to nobody. What is not known is said to be so.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import UNKNOWN_COUNT, IOMetrics, OutputLocation, SourceSnapshot
from eventflink.model.statuses import ShipStrategy

_WHOLE = (ShipStrategy.FORWARD, ShipStrategy.BROADCAST)


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What a commit wrote to a table; -1: it is not known any more."""

    rows: int = UNKNOWN_COUNT
    size_bytes: int = UNKNOWN_COUNT


@dataclass(frozen=True, slots=True)
class TableRead:
    """What is read of a table: the rows and the bytes of its files (-1: it is not known), and which snapshot."""

    rows: int
    size_bytes: int
    snapshot: SourceSnapshot


def io_metrics_of(deployment: TaskDeployment, opened: Collection[str], outputs: Iterable[OutputLocation]) -> IOMetrics:
    """Return the counts of a subtask that has opened these of its inputs, and published these outputs."""
    read = [each for each in deployment.inputs if each.input_name in opened]
    is_known = all(each.ship in _WHOLE or deployment.parallelism == 1 for each in read)
    return IOMetrics(*_sizes([left for each in read for left in each.locations] if is_known else None), *_sizes(outputs))


def _sizes(outputs: Iterable[OutputLocation] | None) -> tuple[int, int]:
    """Return rows and bytes of all that was published there."""
    if outputs is None:
        return UNKNOWN_COUNT, UNKNOWN_COUNT
    sizes = [(each.rows, each.size_bytes) for each in outputs]
    return sum(rows for rows, _ in sizes), sum(size_bytes for _, size_bytes in sizes)


def with_commit(io: IOMetrics, commit: TableCommit) -> IOMetrics:
    """Return the counts of a subtask that has written to a table besides."""
    return replace(io, write_records=_plus(io.write_records, commit.rows), write_bytes=_plus(io.write_bytes, commit.size_bytes))


def with_reads(io: IOMetrics, reads: Iterable[TableRead]) -> IOMetrics:
    """Return the counts of a subtask that has read tables besides."""
    for each in reads:
        rows, size_bytes = _plus(io.read_records, each.rows), _plus(io.read_bytes, each.size_bytes)
        io = replace(io, read_records=rows, read_bytes=size_bytes, snapshots=(*io.snapshots, each.snapshot))
    return io


def _plus(one: int, other: int) -> int:
    return UNKNOWN_COUNT if UNKNOWN_COUNT in (one, other) else one + other

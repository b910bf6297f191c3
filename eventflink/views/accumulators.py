"""What the code of tasks has counted: of an attempt, and added up over the subtasks of a vertex or of a job.

Only the attempts count whose results do: those that finished, and that no other one is to follow.
"""

from collections.abc import Iterable

from eventflink.documents.one_job import AccumulatorInfo
from eventflink.master.execution_graph import Subtask
from eventflink.model.attempts import Accumulators, DoubleCounter, LongCounter


def accumulators_view(counted: Accumulators | None) -> list[AccumulatorInfo]:
    """Return each accumulator with Flink's name of its type."""
    if counted is None:
        return []
    named: tuple[LongCounter | DoubleCounter, ...] = (*counted.longs, *counted.doubles)
    return [AccumulatorInfo(name=each.name, type=type(each).__name__, value=each.value) for each in named]


def added_up(counted: Iterable[list[AccumulatorInfo]]) -> list[AccumulatorInfo]:
    """Return the sums of what several attempts have counted, by name and type."""
    sums: dict[tuple[str, str], float] = {}
    for each in (each for of_attempt in counted for each in of_attempt):
        sums[each.name, each.type] = sums.get((each.name, each.type), 0) + each.value
    return [AccumulatorInfo(name=name, type=kind, value=value) for (name, kind), value in sorted(sums.items())]


def accumulators_of(subtasks: Iterable[Subtask]) -> list[AccumulatorInfo]:
    """Return what subtasks have counted together."""
    counting = (subtask for subtask in subtasks if subtask.executions and not subtask.revoked)
    return added_up(accumulators_view(subtask.executions[-1].accumulators) for subtask in counting)

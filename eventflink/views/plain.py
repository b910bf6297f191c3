"""Plain values for views: what everything that is shown is made of, and how a point in time or a reaction is written."""

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from eventflink.documents.failures import FailureOfJob
from eventflink.model.statuses import FailureReaction
from eventflink.model.texts import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_EXCEPTIONS: Final = 1_000
"""How many failures of a job are shown at once, at most."""

MAX_SENTENCE: Final = 500


@lru_cache(maxsize=4_096)
def iso_time(at_ms: int) -> str | None:
    """Return a point in time as text; None for 0, which stands for never. Thousands of tasks have few times: those are kept."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds") if at_ms else None


def fields_of(record: "DataclassInstance", cls: "type[DataclassInstance] | None" = None) -> dict[str, Any]:
    """Return the fields of a record by name, or those alone that a class has which it is one of."""
    return {name: getattr(record, name) for name in _names_of(cls or type(record))}


@cache
def _names_of(cls: "type[DataclassInstance]") -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls))


def reaction_of(exception: FailureOfJob) -> str:
    """Return in a few words what a failure, as `exception_view` shows it, led to."""
    if restart := exception.restart:
        tasks = restart.tasks[0] if restart.task_count == 1 else f"{restart.task_count} tasks"
        by = f", by rule {restart.retry_rule} of the retries of '{exception.vertex_id}'" if restart.retry_rule else ""
        return f"restart {restart.restarts} of {tasks} after {restart.delay_ms} ms{by}"
    if exception.reaction is FailureReaction.JOB_FAILURE:
        return f"the job failed ({exception.reason})" if exception.reason else "the job failed"
    if exception.reaction is FailureReaction.NOTED:
        return "nothing: it is of a closing vertex"
    return "another slot" if exception.reaction is FailureReaction.NEW_SLOT else ""


def one_sentence(text: str) -> str:
    """Return a text that may hold anybody's words as one sentence of bounded length that moves no cursor."""
    line = printable(text.partition("\n")[0].strip())
    return (line if len(line) < MAX_SENTENCE else line[: MAX_SENTENCE - 1] + "…").removesuffix(".") + "."


def sum_of_known(counts: Iterable[int]) -> int | None:
    """Return the sum of counts; None if one of them is unknown (-1), or if there are none: a sum of the others would be wrong."""
    found = list(counts)
    return sum(found) if found and min(found) >= 0 else None

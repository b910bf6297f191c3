"""Why a task failed through no fault of its own: what other subtasks published for it is gone or damaged.

An input is checked when the task opens it, and all that it had opened once more when the task has written its outputs, or fails whatever
way: what is lost meanwhile may be missing from what Spark has read. What Spark says it could not read of a file is believed, as its own
checksums find what a length does not tell; a store says itself whether an object is the one that was written. Runs in the process of the
task.
"""

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from eventflink.jobs.published import MUST_BE_SHARED, find_damage, place_of
from eventflink.jobs.shipping import InputUnusable
from eventflink.jobs.stored_files import StoreFailed
from eventflink.model.attempts import FailureCause, LostInput, OutputLocation
from eventflink.taskexecutor.failure_causes import MESSAGE_LIMIT, bounded, cause_of, text_of

MAX_LOST_INPUTS: Final = 1_000
"""In one report; what else is lost shows when the task runs again."""

_NAMED: Final = 3
_DEPTH: Final = 10
_UNREADABLE: Final = "[FAILED_READ_FILE"
_UNSEEN: Final = "[FAILED_READ_FILE.FILE_NOT_EXIST]"
_NOT_DAMAGED: Final = "PARQUET_COLUMN_DATA_TYPE_MISMATCH"
"""The writers of the input disagree about a column: each of them would write the same again."""


class InputLost(InputUnusable):
    """What a subtask published for an input is gone or damaged."""


@dataclass(slots=True)
class OpenedInput:
    """An input that a task has opened: what was written for it, by the subtask of the vertex that wrote it."""

    input_name: str
    outputs: dict[int, OutputLocation]


@dataclass(slots=True)
class OpenedInputs:
    """What a task has opened so far."""

    inputs: list[OpenedInput] = field(default_factory=list)

    def open(self, opened: OpenedInput) -> None:
        """Take note of an input that the task is about to read.

        Raises:
            InputLost: something of it is gone or damaged.
            StoreFailed: its store does not say.

        """
        self.inputs.append(opened)
        _refuse_losses([opened])

    def check_again(self) -> None:
        """Find out whether all is still there that a task has read, so that it has read it all.

        Raises:
            InputLost: something of it is gone or damaged.
            StoreFailed: its store does not say.

        """
        _refuse_losses(self.inputs)


def _refuse_losses(inputs: Iterable[OpenedInput]) -> None:
    lost = {(each.input_name, index): what for each in inputs for index, what in _lost_of(each, "")}
    if lost:
        raise InputLost(_describe(lost))


def failure_of(error: BaseException, vertex_id: str, opened: OpenedInputs) -> tuple[FailureCause, tuple[LostInput, ...]]:
    """Return why a task of the vertex failed, and what was lost of its inputs, if that is why."""
    cause = cause_of(error, vertex_id)
    said = unquote("\n".join(_texts_of(error)))
    try:
        lost = {(each.input_name, index): what for each in opened.inputs for index, what in _lost_of(each, said)}
    except StoreFailed:  # What is there nobody knows, so nothing is written again.
        return cause, ()
    if not lost:
        return cause, ()
    message = bounded(f"vertex '{vertex_id}': {_describe(lost)}", MESSAGE_LIMIT)
    found = [LostInput(name, index) for name, index in lost][:MAX_LOST_INPUTS]
    return FailureCause(InputLost.__name__, message, cause.stack_trace), tuple(found)


def _lost_of(opened: OpenedInput, said: str) -> Iterator[tuple[int, str]]:
    """Yield the subtasks whose output is lost, each with what is wrong with it; `said`: by Spark."""
    is_about_files = _UNREADABLE in said and _NOT_DAMAGED not in said
    for index, output in opened.outputs.items():
        damage = find_damage(output)
        place = place_of(output)
        if damage is None and is_about_files and not place.scheme and f"{place}/" in said:
            unseen = f", which host {socket.gethostname()} sees whole: {MUST_BE_SHARED}" if _UNSEEN in said else ""
            damage = f"Spark cannot read {place}{unseen}"
        if damage is not None:
            yield index, damage


def _describe(lost: dict[tuple[str, int], str]) -> str:
    named = [f"input '{name}' has lost what subtask {index} published: {what}" for (name, index), what in lost.items()]
    more = len(named) - _NAMED
    return "; ".join(named[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _texts_of(error: BaseException) -> Iterable[str]:
    """Yield what an error, and those that it was raised from, say."""
    current: BaseException | None = error
    for _ in range(_DEPTH):
        if current is None:
            return
        yield text_of(current)
        current = current.__cause__ or current.__context__

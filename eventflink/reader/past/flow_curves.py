"""How the streams of a job have flowed over time: what their subtasks said at its checkpoints, as curves.

Of many checkpoints some are read, at equal distances in the log, the newest always. The rule: a point is of one checkpoint, and adds up the
subtasks that have answered it; nothing is made up between two of them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from eventflink.audit.entries import Entry
from eventflink.documents.log import FlowOfJob, FlowOfStream, FlowPoint
from eventflink.events.log_events import CheckpointAcknowledged
from eventflink.model.stream_progress import StreamProgress
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import INDEX_BITS
from eventflink.views.plain import iso_time, sum_of_known

MAX_READ: Final = 2_000
"""How many answers of subtasks are read for one job; a job whose checkpoints have more has no curves."""

_INDEX: Final = (1 << INDEX_BITS) - 1


@dataclass(slots=True)
class _Point:
    """What the subtasks of a vertex have answered to one checkpoint."""

    offset: int
    at_ms: int
    answers: list[StreamProgress] = field(default_factory=list)

    def view(self) -> FlowPoint:
        """Return the sums; null: unknown."""
        answers = self.answers
        behind = [source.records_behind for answer in answers for source in answer.sources if source.records_behind >= 0]
        watermark_ms = min((answer.watermark_ms for answer in answers if answer.watermark_ms > 0), default=0)
        return FlowPoint(
            offset=self.offset,
            at=iso_time(self.at_ms),
            subtasks=len(answers),
            input_rows_per_second=sum(answer.input_rows_per_second for answer in answers),
            processed_rows_per_second=sum(answer.processed_rows_per_second for answer in answers),
            records_behind=sum(behind) if behind else None,
            batch_duration_ms=max(answer.batch_duration_ms for answer in answers),
            state_rows=sum(answer.state_rows for answer in answers),
            state_bytes=sum(answer.state_bytes for answer in answers),
            rows_written=sum_of_known(output.rows_written for answer in answers for output in answer.outputs),
            watermark=iso_time(watermark_ms),
        )


def flow_curves(book: LogBook, offset: int, job_id: str, points: int) -> FlowOfJob:
    """Return for each stream of a job how it flowed at up to so many checkpoints, the oldest first, up to a record."""
    answers = _places(book.index.by_job.get(job_id, ()), book.index.by_type.get(CheckpointAcknowledged.__name__, ()), offset)
    curves: dict[str, list[FlowPoint]] = {}
    for checkpoint in _checkpoints(_Answers(book, answers), points):
        of_checkpoint: dict[str, _Point] = {}
        for entry, event in checkpoint:
            point = of_checkpoint.setdefault(event.vertex_id, _Point(entry.offset, entry.decision.decided_at_ms))
            point.offset, point.at_ms = entry.offset, entry.decision.decided_at_ms
            if event.progress.sources:  # Else no batch of its query has ended.
                point.answers.append(event.progress)
        for vertex_id, point in of_checkpoint.items():
            if point.answers:
                curves.setdefault(vertex_id, []).append(point.view())
    vertices = [FlowOfStream(vertex_id=vertex_id, points=of_vertex) for vertex_id, of_vertex in curves.items()]
    return FlowOfJob(job_id=job_id, answers=len(answers), vertices=vertices)


class _Answers:
    """The answers of a job's subtasks, in the order of the log, each read when it is looked at. Those of a checkpoint follow each other."""

    def __init__(self, book: LogBook, places: list[int]) -> None:
        self._book = book
        self._places = places
        self._entry: Entry | None = None
        """The record that was read last: many answers may be in one."""
        self.count = len(places)

    def read(self, number: int) -> tuple[Entry, CheckpointAcknowledged]:
        place = self._places[number]
        offset = place >> INDEX_BITS
        if self._entry is None or self._entry.offset != offset:
            self._entry = self._book.entry(offset)
        entry = self._entry
        event = entry.decision.events[place & _INDEX]
        assert isinstance(event, CheckpointAcknowledged)  # noqa: S101 - so the index says
        return entry, event

    def checkpoint_around(self, number: int) -> tuple[int, list[tuple[Entry, CheckpointAcknowledged]]]:
        """Return all answers to the checkpoint of this one, and the number of the first of them; no answers: there are too many."""
        checkpoint_id = self.read(number)[1].checkpoint_id
        first = last = number
        while first > 0 and last - first < MAX_READ and self.read(first - 1)[1].checkpoint_id == checkpoint_id:
            first -= 1
        while last + 1 < self.count and last - first < MAX_READ and self.read(last + 1)[1].checkpoint_id == checkpoint_id:
            last += 1
        if last - first >= MAX_READ:
            return first, []
        return first, [answer for answer in map(self.read, range(first, last + 1)) if answer[0].accepted]


def _checkpoints(answers: _Answers, points: int) -> list[list[tuple[Entry, CheckpointAcknowledged]]]:
    """Return the answers to some checkpoints, the oldest first: the newest, and others at equal distances before it."""
    found: list[list[tuple[Entry, CheckpointAcknowledged]]] = []
    known_from = answers.count
    number = answers.count - 1
    while number >= 0:
        first, checkpoint = answers.checkpoint_around(number)
        if not checkpoint and answers.count - first >= MAX_READ:
            break
        if not found:  # How many subtasks there are decides how many checkpoints can be read.
            points = max(1, min(points, MAX_READ // (answers.count - first + 2)))
        known_from = min(known_from, first)
        found.append(checkpoint)
        number = min(known_from - 1, answers.count - 1 - len(found) * answers.count // points) if len(found) < points else -1
    return found[::-1]


def _places(of_job: Sequence[int], of_type: Sequence[int], offset: int) -> list[int]:
    """Return the places that both lists have, up to a record."""
    behind = (offset + 1) << INDEX_BITS
    shorter, longer = sorted((of_job[: bisect_left(of_job, behind)], of_type[: bisect_left(of_type, behind)]), key=len)
    found = []
    start = 0
    for place in shorter:
        start = bisect_left(longer, place, start)
        if start < len(longer) and longer[start] == place:
            found.append(place)
    return found

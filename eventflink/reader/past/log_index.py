"""Where what is in a log: times, leaderships, and for each type, job, TaskManager and mark the places of its events.

A place is an offset and the index of an event in that record, as one number, so that lists of places are arrays in the order of the log and
are searched by halves. Nothing here reads records: whoever does gives each entry in, in order.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from eventflink.audit.attribution import Attribution
from eventflink.audit.cause_chain import Origins
from eventflink.audit.entries import Entry
from eventflink.documents.log import MarkKind
from eventflink.events.log_events import (
    CheckpointCompleted,
    ClusterShutdownRequested,
    GlobalFailureOccurred,
    JobCancellationRequested,
    JobRescaled,
    JobRestartScheduled,
    JobSubmitted,
    JobSuspensionRequested,
    LeadershipGranted,
    LogEvent,
    RestartScheduled,
    TaskFailed,
    TaskManagerLost,
)
from eventflink.leadership.acceptance import is_grant
from eventflink.master.follow_ups import FollowUps
from eventflink.reader.past.links import Links

INDEX_BITS: Final = 20
"""Of a place: no record has so many events."""

MAX_SUBJECTS: Final = 10_000
"""Anybody may ask for anything, also for what does not exist: of so many that are no jobs it is known where they are told of."""

_MARKS: Final[dict[type[LogEvent], MarkKind]] = {
    TaskFailed: MarkKind.FAILURE,
    GlobalFailureOccurred: MarkKind.FAILURE,
    TaskManagerLost: MarkKind.TASK_MANAGER_LOST,
    RestartScheduled: MarkKind.RESTART,
    JobRestartScheduled: MarkKind.RESTART,
    JobRescaled: MarkKind.RESCALE,
    JobCancellationRequested: MarkKind.STOP,
    JobSuspensionRequested: MarkKind.STOP,
    ClusterShutdownRequested: MarkKind.STOP,
}


@dataclass(slots=True)
class Leadership:
    """Who led from one record on."""

    epoch: int
    leader_id: str
    master_id: str
    """Empty: its grant is not in the log any more."""
    from_offset: int
    granted_at_ms: int
    """Kafka's time of the grant: its leader had no clock yet."""
    quiet_since_ms: int
    """Kafka's time of the last accepted record before it; 0: there was none."""


class LogIndex:
    """The index of the records from `first_offset` up to, without, `end_offset`."""

    def __init__(self, first_offset: int) -> None:
        """Hold nothing yet; the first record to come is that at `first_offset`."""
        self.first_offset = first_offset
        self.times_ms = array("q")
        """By record: when the last accepted decision up to it was made."""
        self.rejected = array("q")
        """The offsets of the records that do not count."""
        self.leaderships: list[Leadership] = []
        self.by_type: dict[str, array[int]] = {}
        self.by_job: dict[str, array[int]] = {}
        self.by_subject: dict[str, array[int]] = {}
        """Places by the id of a job that an event names and that no job had: of the ids that were named last, the newest at the end."""
        self.by_task_manager: dict[str, array[int]] = {}
        """Each of its instances has a list as well."""
        self.marks: dict[MarkKind, array[int]] = {kind: array("q") for kind in MarkKind}
        self.links = Links(first_offset)
        self.origins = Origins()
        self._attribution = Attribution()
        self._last_timestamp_ms = 0

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.first_offset + len(self.times_ms)

    def follow_entry(self, entry: Entry, follow_ups: FollowUps | None) -> None:
        """Take the next record in; `follow_ups` is the state's queue after it, None where there is no state."""
        offset, decision, accepted = entry.offset, entry.decision, entry.accepted
        now_ms = self.times_ms[-1] if self.times_ms else 0
        self.times_ms.append(max(now_ms, entry.log_time_ms))  # What was guessed of a log without its beginning may be set right.
        origins: Iterable[int] = ()
        if accepted:
            self._note_leadership(entry)
            if follow_ups is not None:
                self.origins.follow_entry(entry, follow_ups)
                origins = self.origins.within(offset).values()
            self._last_timestamp_ms = entry.timestamp_ms
        else:
            self.rejected.append(offset)
        self.links.follow(offset, decision.events if accepted else (), origins)
        for event in decision.events:
            if type(event) is JobSubmitted:
                self.by_job.setdefault(event.job_id, array("q"))
        for place, event in enumerate(decision.events, offset << INDEX_BITS):
            self._post(place, event, counts=accepted)

    def _note_leadership(self, entry: Entry) -> None:
        decision = entry.decision
        if self.leaderships and self.leaderships[-1].epoch == decision.epoch:
            return
        grant = decision.events[0] if is_grant(decision) else None
        master_id = grant.master_id if isinstance(grant, LeadershipGranted) else ""
        self.leaderships.append(
            Leadership(decision.epoch, decision.leader_id, master_id, entry.offset, entry.timestamp_ms, self._last_timestamp_ms)
        )

    def _post(self, place: int, event: LogEvent, *, counts: bool) -> None:
        name = type(event).__name__
        posted = self.by_type.get(name)
        if posted is None:
            posted = self.by_type[name] = array("q")
        posted.append(place)
        jobs, holder = self._attribution.follow_event(event, counts=counts)
        for job_id in jobs:
            posted = self.by_job.get(job_id)
            if posted is None and hasattr(event, "job_id"):
                posted = self.by_job[job_id] = array("q")
            (posted if posted is not None else self._of_subject(job_id)).append(place)
        for name in filter(None, dict.fromkeys(holder or ())):
            self.by_task_manager.setdefault(name, array("q")).append(place)
        if counts and (kind := _mark_of(event)) is not None:
            self.marks[kind].append(place)

    def _of_subject(self, subject: str) -> "array[int]":
        posted = self.by_subject.pop(subject, None)
        if posted is None and len(self.by_subject) >= MAX_SUBJECTS:
            del self.by_subject[next(iter(self.by_subject))]
        self.by_subject[subject] = posted = posted if posted is not None else array("q")
        return posted

    def of_jobs(self, text: str) -> "list[array[int]]":
        """Return the lists of the job with an id, or else of whatever has been taken for a job and has an id that begins so."""
        if text in self.by_job:
            return [self.by_job[text], self.by_subject.get(text, array("q"))]
        return [places for job_id, places in chain(self.by_job.items(), self.by_subject.items()) if job_id.startswith(text)]

    def leadership_at(self, offset: int) -> Leadership | None:
        """Return who led when the record at an offset was appended; None: nobody."""
        number = bisect_right(self.leaderships, offset, key=lambda each: each.from_offset) - 1
        return self.leaderships[number] if number >= 0 else None

    def time_at(self, offset: int) -> int:
        """Return when the last accepted decision up to a record was made, in milliseconds since 1970."""
        return self.times_ms[offset - self.first_offset]

    def offset_at(self, at_ms: int) -> int:
        """Return the last record that was decided until a time; the one before the first, if there is none."""
        return self.first_offset + bisect_right(self.times_ms, at_ms) - 1

    def is_rejected(self, offset: int) -> bool:
        """Tell whether a record does not count."""
        return count_between(self.rejected, offset, offset + 1) > 0

    def drop_before(self, offset: int) -> None:
        """Forget the records before an offset, which is kept."""
        del self.times_ms[: offset - self.first_offset], self.rejected[: bisect_left(self.rejected, offset)]
        first = offset << INDEX_BITS
        by_name = (self.by_type, self.by_job, self.by_subject, self.by_task_manager)
        for lists in by_name:
            for name in [name for name, places in lists.items() if not places or places[-1] < first]:
                del lists[name]
        for places in (*chain.from_iterable(lists.values() for lists in by_name), *self.marks.values()):
            del places[: bisect_left(places, first)]
        while len(self.leaderships) > 1 and self.leaderships[1].from_offset <= offset:
            del self.leaderships[0]
        self.links.drop_before(offset)
        self.first_offset = offset

    def byte_count(self) -> int:
        """Return the size of the arrays."""
        lists = (self.by_type, self.by_job, self.by_subject, self.by_task_manager, self.marks)
        places = sum(each.__sizeof__() for named in lists for each in named.values())
        return places + self.times_ms.__sizeof__() + self.rejected.__sizeof__() + self.links.byte_count()


def _mark_of(event: LogEvent) -> MarkKind | None:
    if type(event) is CheckpointCompleted:
        return MarkKind.SAVEPOINT if event.savepoint_path else MarkKind.CHECKPOINT
    return _MARKS.get(type(event))


def count_between(offsets: Sequence[int], first_offset: int, end_offset: int) -> int:
    """Return how many of some offsets are from `first_offset` up to, without, `end_offset`."""
    return bisect_left(offsets, end_offset) - bisect_left(offsets, first_offset)


def places_between(places: Sequence[int], first_offset: int, end_offset: int) -> tuple[int, int]:
    """Return where in a list of places those begin and end that are in these records."""
    return bisect_left(places, first_offset << INDEX_BITS), bisect_left(places, end_offset << INDEX_BITS)


def offsets_between(lists: Iterable[Sequence[int]], first_offset: int, end_offset: int) -> Iterator[int]:
    """Yield the records of lists of places from `first_offset` up to, without, `end_offset`, each once and in order."""
    last = -1
    for place in heapq.merge(*(islice(each, *places_between(each, first_offset, end_offset)) for each in lists)):
        if place >> INDEX_BITS != last:
            last = place >> INDEX_BITS
            yield last

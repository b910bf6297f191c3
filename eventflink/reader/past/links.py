"""What followed from what, record by record: each decision is linked to the earlier ones that it continues.

An event continues threads: of its subtask, its slot, its job, its checkpoint, the instance of a TaskManager, an upload, the
end of the cluster. It is linked to the
last decision on each of them, and the first of a subtask to the last one on its job. Decisions that answer a follow-up are linked to the
one that queued it, by whoever knows that (`Origins` of the audit).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    CheckpointAborted,
    CheckpointAcknowledged,
    CheckpointCompleted,
    CheckpointSubsumed,
    CheckpointTriggered,
    ClusterShutdownRequested,
    ClusterStarted,
    ClusterStopped,
    FileUploaded,
    FileUploadRequested,
    JobEvicted,
    LogEvent,
    SlotAllocated,
    SlotFreed,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequestTimedOut,
    TaskManagerFileUploadRequested,
)

MAX_LINKS: Final = 16
"""Of one decision to earlier ones, and how many of its consequences are told, the first."""

MAX_FOLLOWED: Final = 10_000
"""Consequences that are looked at to find the first of them."""

Thread = tuple[Any, ...]
"""What it is of, and which one; of a job, its id comes second."""

_OF_A_CHECKPOINT: Final = (CheckpointTriggered, CheckpointAcknowledged, CheckpointCompleted, CheckpointAborted, CheckpointSubsumed)
_OF_AN_UPLOAD: Final = (FileUploadRequested, TaskManagerFileUploadRequested, FileUploaded)
_OF_THE_CLUSTER: Final = (ClusterShutdownRequested, ApplicationStatusRecorded, ClusterStopped, ClusterStarted)
_OF_A_JOB: Final = frozenset({"job", "subtask", "checkpoint"})
_LAST_OF_AN_UPLOAD: Final = (FileUploaded,)
_LAST_OF_A_CHECKPOINT: Final = (CheckpointAborted, CheckpointSubsumed)
_LAST_OF_A_SLOT: Final = (SlotFreed, SlotOfferRejected, SlotRequestCancelled, SlotRequestTimedOut)


def threads_of(event: LogEvent) -> Iterator[Thread]:
    """Yield the threads that an event continues."""
    job_id = getattr(event, "job_id", None)
    if isinstance(event, _OF_A_CHECKPOINT):
        yield "checkpoint", job_id, event.checkpoint_id
        return
    if isinstance(event, _OF_AN_UPLOAD):
        yield "upload", event.request_id
        return
    if isinstance(event, _OF_THE_CLUSTER):
        yield ("cluster",)
    if (allocation_id := getattr(event, "allocation_id", None)) is not None:
        yield "slot", allocation_id
    if (instance_id := getattr(event, "instance_id", None)) is not None:
        yield "instance", instance_id
    if job_id is not None:
        index = getattr(event, "subtask_index", None)
        yield ("job", job_id) if index is None else ("subtask", job_id, getattr(event, "vertex_id", None), index)


class Links:
    """Collects links in the order of the log."""

    def __init__(self, first_offset: int) -> None:
        """Begin with no records; the first to come is that at `first_offset`."""
        self._first = first_offset
        self._last: dict[str, dict[Thread, int]] = {}
        """The last decision on each thread, by its job; "" for those of no job."""
        self._later, self._earlier, self._next = array("q"), array("q"), array("q")
        """The links, in the order of their later ends; `_next` is the one before that has the same earlier end."""
        self._heads = array("q")
        """By record: its newest link to a later one; -1: none."""

    def follow(self, offset: int, events: Iterable[LogEvent], origins: Iterable[int]) -> None:
        """Take the events of the next record in, none if it does not count, and the offsets of what queued its follow-ups."""
        self._heads.append(-1)
        earlier: dict[int, None] = dict.fromkeys(origins)
        ended: list[str] = []
        for event in events:
            for thread in threads_of(event):
                known = self._last.setdefault(thread[1] if thread[0] in _OF_A_JOB else "", {})
                before = known.get(thread)
                if before is None and thread[0] == "subtask":
                    before = known.get(("job", thread[1]))
                if before is not None:
                    earlier[before] = None
                if isinstance(event, _LAST_OF_A_SLOT + _LAST_OF_A_CHECKPOINT + _LAST_OF_AN_UPLOAD):
                    known.pop(thread, None)
                elif not (thread[0] == "instance" and isinstance(event, SlotAllocated)):  # An instance gives a slot, and goes on as before.
                    known[thread] = offset
            if isinstance(event, JobEvicted):
                ended.append(event.job_id)
        for job_id in ended:
            self._last.pop(job_id, None)
        for before in islice((each for each in earlier if self._first <= each < offset), MAX_LINKS):
            self._later.append(offset)
            self._earlier.append(before)
            self._next.append(self._heads[before - self._first])
            self._heads[before - self._first] = len(self._later) - 1

    def before(self, offset: int) -> list[int]:
        """Return the offsets of what a decision continues, in their order."""
        return sorted(self._earlier[bisect_left(self._later, offset) : bisect_right(self._later, offset)])

    def after(self, offset: int, end_offset: int) -> list[int]:
        """Return the offsets before `end_offset` of the first decisions that continue one, in their order."""
        return sorted(each for each in islice(self._followers(offset), MAX_FOLLOWED) if each < end_offset)[:MAX_LINKS]

    def _followers(self, offset: int) -> Iterator[int]:
        link = self._heads[offset - self._first]
        while link >= 0:
            yield self._later[link]
            link = self._next[link]

    def drop_before(self, offset: int) -> None:
        """Forget the records before an offset."""
        kept = [(later, earlier) for later, earlier in zip(self._later, self._earlier, strict=True) if earlier >= offset]
        self._heads = array("q", [-1]) * (len(self._heads) - (offset - self._first))
        self._first = offset
        self._later, self._earlier, self._next = array("q"), array("q"), array("q")
        for later, earlier in kept:
            self._later.append(later)
            self._earlier.append(earlier)
            self._next.append(self._heads[earlier - offset])
            self._heads[earlier - offset] = len(self._later) - 1

    def byte_count(self) -> int:
        """Return the size of the arrays."""
        return sum(each.itemsize * len(each) for each in (self._later, self._earlier, self._next, self._heads))

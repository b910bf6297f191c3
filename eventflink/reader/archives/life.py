"""The life of an archived job as a time line: its moments are numbered from 0, its submission, and take the place of offsets in a log.

A moment is a millisecond in which something of the job changed. The documents are those of the log, so that one bar shows both.
"""

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any, Final

from eventflink.audit.filters import LogPlace
from eventflink.documents.log import LabelledRecord, LogBounds, MarkKind, MarkOfLog, StepsFromMoment, StretchOfLog, TimeLine
from eventflink.documents.one_job import JobArchive
from eventflink.views.archive_moments import ChangeOfJob, changes_of

MAX_MARKS: Final = 500
MAX_LABEL: Final = 200
MAX_LIVES: Final = 4


class LifeHasNoSuchMoment(Exception):
    """A place is beyond the end of a job's life; the message says where that is."""


class Life:
    """The moments of one job."""

    def __init__(self, archive: JobArchive) -> None:
        """Take an archive."""
        changes = [(at, list(those)) for at, those in groupby(changes_of(archive), key=lambda change: change.at)]
        self.times = [at for at, _ in changes]
        self._times_ms = [_ms(at) for at in self.times]
        self._changes = [those for _, those in changes]
        self._job_id = archive.job_id

    @property
    def last(self) -> int:
        """The moment at which the job ended."""
        return len(self.times) - 1

    def moment_at(self, place: LogPlace | None) -> int:
        """Return the number of the moment at a place, or the last one before a time.

        Raises:
            LifeHasNoSuchMoment: the place is beyond the end.

        """
        if place is None:
            return self.last
        if place.offset is not None:
            if place.offset > self.last:
                raise LifeHasNoSuchMoment(f"the life of job '{self._job_id}' ends at {self.last}")
            return place.offset
        return max(0, bisect_right(self._times_ms, place.at_ms or 0) - 1)

    def bounds(self) -> LogBounds:
        """Return from where to where it goes."""
        last, last_at = self.last, self.times[-1]
        first = {"first_offset": 0, "first_at": self.times[0], "states_from": 0}
        return LogBounds(**first, last_offset=last, last_at=last_at, indexed_to=last, indexed_to_at=last_at)

    def time_line(self, first: LogPlace | None, until: LogPlace | None, buckets: int) -> TimeLine:
        """Return how much changed in each of some stretches of time, equally long, and what there is to mark; both ends are included."""
        start = 0 if first is None else self.moment_at(first) if first.at_ms is None else bisect_left(self._times_ms, first.at_ms)
        end = self.moment_at(until) + 1 if until is None or until.at_ms is None else bisect_right(self._times_ms, until.at_ms)
        if start >= end:
            at = self.times[min(start, self.last)]
            return TimeLine(begins=start, until=start, from_at=at, until_at=at)
        from_ms, until_ms = self._times_ms[start], self._times_ms[end - 1]
        count = min(buckets, until_ms - from_ms + 1)
        times = [from_ms + number * (until_ms + 1 - from_ms) // count for number in range(count)]
        edges = [(bisect_right(self._times_ms, at_ms - 1, start, end), at_ms) for at_ms in times] + [(end, until_ms)]
        marked = [
            (number, change, change.kind) for number in range(start, end) for change in self._changes[number] if change.kind is not None
        ]
        return TimeLine(
            begins=start,
            until=end,
            from_at=self.times[start],
            until_at=self.times[end - 1],
            buckets=[self._stretch(*edge, *after) for edge, after in pairwise(edges)],
            marks=[self._mark(*each) for each in marked[-MAX_MARKS:]],
            marks_total=len(marked),
        )

    def _stretch(self, start: int, from_ms: int, end: int, until_ms: int) -> StretchOfLog:
        changes = [change for those in self._changes[start:end] for change in those]
        return StretchOfLog(
            from_offset=start,
            until_offset=end,
            from_at=_iso(from_ms),
            until_at=_iso(until_ms),
            decisions=end - start,
            failures=sum(change.kind is MarkKind.FAILURE for change in changes),
            rejected=0,
        )

    def _mark(self, number: int, change: ChangeOfJob, kind: MarkKind) -> MarkOfLog:
        return MarkOfLog(offset=number, at=change.at, kind=kind, label=change.label[:MAX_LABEL], job_id=self._job_id, count=1)

    def steps(self, number: int) -> StepsFromMoment:
        """Return the moments before and after one."""
        before, after = (number - 1 if number > 0 else None), (number + 1 if number < self.last else None)
        return StepsFromMoment(
            previous=before,
            next=after,
            previous_label=None if before is None else self.label(before),
            next_label=None if after is None else self.label(after),
            unchanged_since_at=self.times[number],
            unchanged_until_at=None if after is None else self.times[after],
        )

    def position(self, number: int) -> LabelledRecord:
        """Return what a moment is."""
        return LabelledRecord(offset=number, decided_at=self.times[number], label=self.label(number))

    def label(self, number: int) -> str:
        """Return in words what happened at a moment: what there is to mark, else the last of it."""
        those = self._changes[number]
        change = next((each for each in reversed(those) if each.kind is not None), those[-1])
        more = f", and {len(those) - 1} more" if len(those) > 1 else ""
        return change.label[:MAX_LABEL] + more


class Lives:
    """The lives that were asked for last: a page and its bar ask for one several times. For any threads."""

    def __init__(self) -> None:
        """Hold none."""
        self._kept: tuple[tuple[JobArchive, Life], ...] = ()

    def of(self, archive: JobArchive) -> Life:
        """Return the life of an archive, which nobody changes; known again is the same object."""
        for known, life in self._kept:
            if known is archive:
                return life
        life = Life(archive)
        self._kept = ((archive, life), *self._kept)[:MAX_LIVES]
        return life


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def moment_of(number: int, life: Life, body: Any, *, live: bool) -> dict[str, Any]:
    """Return the fields of a `Moment`: nobody leads in an archive."""
    return {"offset": number, "decided_at": life.times[number], "epoch": 0, "leader_id": "", "master_id": "", "live": live, "body": body}

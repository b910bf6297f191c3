"""Why a thing is as it is: the decisions that led there, oldest first, back to the request and who made it.

Of all decisions only those are kept that concern the thing. A decision that was a consequence (a follow-up from the state's
queue) names the one that put it into the queue; that one belongs to the chain as well, whatever it was about. Chains are
bounded: of a long one the middle is left out, and counted.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from eventflink.audit.entries import Entry
from eventflink.audit.relevance import relevance_of
from eventflink.audit.subjects import Subject
from eventflink.documents.explanation import StepOfChain
from eventflink.events.decision import FollowUpCause
from eventflink.events.log_events import FollowUpDecided, LogEvent
from eventflink.events.wording import describe, describe_cause, describe_causes, iso_time
from eventflink.master.follow_ups import FollowUps
from eventflink.model.statuses import FollowUpType

KEPT_OLDEST: Final = 40
KEPT_NEWEST: Final = 60
MAX_ORIGINS: Final = 16
"""Decisions that are in a chain only because others follow from them."""

_SHOWN_OF_A_KIND: Final = 4

_FollowUps = dict[tuple[FollowUpType, int] | None, None]
"""An ordered set of late follow-ups, each with its origin; None stands for the decision's own cause."""


class Origins:
    """Where follow-ups come from that were decided later than they were queued: which decision put them into the queue.

    A leader decides the queue's head with whatever comes next, so a follow-up may stand in a decision about something else.
    """

    def __init__(self) -> None:
        self._queued: dict[tuple[FollowUpType, str], int] = {}
        self._offsets, self._indexes, self._origins = array("q"), array("q"), array("q")

    def follow_entry(self, entry: Entry, follow_ups: FollowUps) -> None:
        """Take an entry in; `follow_ups` is the queue after it. Entries come from offset 0 on, one for each offset."""
        if not entry.accepted:
            return
        for index, event in enumerate(entry.decision.events):
            if isinstance(event, FollowUpDecided):
                origin = self._queued.pop((event.follow_up_type, event.subject), None)
                if origin is not None:
                    self._offsets.append(entry.offset)
                    self._indexes.append(index)
                    self._origins.append(origin)
        # New consequences are at the end of the queue, so the first known one from there ends the search.
        for queued in reversed(follow_ups.entries):
            if queued in self._queued:
                break
            self._queued[queued] = entry.offset
        if len(self._queued) > 2 * len(follow_ups.entries) + 64:
            self._queued = {queued: at for queued, at in self._queued.items() if queued in follow_ups.entries}

    def within(self, offset: int) -> dict[int, int]:
        """Return, of the decision at `offset`, the indexes of the late `FollowUpDecided`, each with the offset of its origin."""
        first, last = bisect_left(self._offsets, offset), bisect_right(self._offsets, offset)
        return dict(zip(self._indexes[first:last], self._origins[first:last], strict=True))


class ChainBuilder:
    """Collects the steps of one subject from all entries of a log, in order."""

    def __init__(self, subject: Subject, origins: Origins) -> None:
        self._relevant = relevance_of(subject)
        self._origins = origins
        self._oldest: list[StepOfChain] = []
        self._newest: deque[StepOfChain] = deque(maxlen=KEPT_NEWEST)
        self._count = 0

    def follow_entry(self, entry: Entry) -> None:
        """Take one entry in."""
        if not entry.accepted:
            return
        events = self._relevant(entry.decision)
        if not events:
            return
        self._count += 1
        step = self._step(entry, events)
        if len(self._oldest) < KEPT_OLDEST:
            self._oldest.append(step)
        else:
            self._newest.append(step)

    def _step(self, entry: Entry, events: list[LogEvent]) -> StepOfChain:
        decision = entry.decision
        follow_ups = self._follow_ups_behind(entry, events)
        direct = None in follow_ups
        causes = [describe_causes(decision)] if direct else []
        causes += [f"{describe_cause(FollowUpCause(late[0]))} of log@{late[1]}" for late in follow_ups if late is not None]
        return StepOfChain(
            offset=entry.offset,
            epoch=decision.epoch,
            sequence=decision.sequence,
            decided_at=iso_time(decision.decided_at_ms),
            cause=", ".join(causes),
            actor=decision.actor if direct else "",
            follows_from=tuple(late[1] for late in follow_ups if late is not None),
            events=tuple(_describe_all(events)),
        )

    def _follow_ups_behind(self, entry: Entry, events: list[LogEvent]) -> _FollowUps:
        """Return the late follow-ups (type, origin) that events of a decision come from; None stands for its own cause."""
        late = self._origins.within(entry.offset)
        wanted = {id(event) for event in events}
        own = not any(isinstance(cause, FollowUpCause) for cause in entry.decision.causes)
        behind: _FollowUps = {}
        so_far: _FollowUps = {None: None} if own else {}
        current = so_far
        for index, event in enumerate(entry.decision.events):
            if isinstance(event, FollowUpDecided) and index in late:
                current = {(event.follow_up_type, late[index]): None}
                so_far = so_far | current
            elif isinstance(event, FollowUpDecided):
                current = so_far  # Anything before it in this decision may have queued it.
            if id(event) in wanted:
                behind |= current
        return behind

    def chain(self, entry_at: Callable[[int], Entry]) -> tuple[list[StepOfChain], int]:
        """Return the steps, oldest first, and how many were left out in the middle; `entry_at` reads one entry of the log again."""
        steps = {step.offset: step for step in (*self._oldest, *self._newest)}
        wanted = deque(origin for step in reversed(steps.values()) for origin in step.follows_from)
        added = 0
        while wanted and added < MAX_ORIGINS:
            offset = wanted.popleft()
            if offset in steps:
                continue
            entry = entry_at(offset)
            step = self._step(entry, [e for e in entry.decision.events if not isinstance(e, FollowUpDecided)])
            steps[offset] = step
            added += 1
            wanted.extend(step.follows_from)
        omitted = self._count - len(self._oldest) - len(self._newest)
        return [steps[offset] for offset in sorted(steps)], omitted


def _describe_all(events: Iterable[LogEvent]) -> Iterator[str]:
    """Yield a line for each event, in order; of many of one kind the first few, and at the end how many more there are."""
    kinds: Counter[str] = Counter()
    for event in events:
        kind = type(event).__name__
        kinds[kind] += 1
        if kinds[kind] <= _SHOWN_OF_A_KIND:
            yield describe(event)
    yield from (f"{kind}: {count - _SHOWN_OF_A_KIND} more" for kind, count in kinds.items() if count > _SHOWN_OF_A_KIND)

"""Looking at the topics whose records start jobs: where they end, each second, or sooner while jobs take them, handed back as inputs.

What follows from a look is in `leadership/topic_sightings.py`. The rule: what is reported is committed, so that a job finds what it was
started for; and a topic that cannot be read keeps no other one waiting.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from eventflink.leadership.log_lines import one_line
from eventflink.leadership.topic_sightings import SeenTopic, news_of
from eventflink.log.admin_connection import AdminConnection, AdministrationError, KafkaUnreachable
from eventflink.master.effects import CursorWatch
from eventflink.master.inputs import MasterInput, RecordsSeen
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.schedules import OffsetRange, PartitionOffset

_logger = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
_BUSY_INTERVAL_S: Final = 0.1
"""Where a cursor has moved since the last look, and there are records behind it: a decision starts only so many jobs."""
_LONGEST_PAUSE_S: Final = 60.0
"""Between two looks at a topic that cannot be read."""
_ANSWER_TIMEOUT_S: Final = 10.0


class Look(Protocol):
    """How topics are looked at. Both calls wait, and raise `AdministrationError`."""

    def topics(self, names: Sequence[str]) -> dict[str, SeenTopic]:
        """Return what these topics have."""

    def offsets_at(self, bounds: Sequence[OffsetRange], topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
        """Return as `OffsetsAt` does, for the partitions that a topic was seen with."""


class KafkaLook:
    """Asks Kafka, over a connection that is made when it is needed first."""

    def __init__(self, access: ClusterAccess) -> None:
        """Take where Kafka is, and whose topics the masters write to themselves."""
        self._access = access
        self._own = f"{access.cluster_id}."
        self._connection: AdminConnection | None = None

    def topics(self, names: Sequence[str]) -> dict[str, SeenTopic]:
        """Return what these topics have.

        Raises:
            AdministrationError: one is not there, or may not be described, or no broker answers; or it is the cluster's own.

        """
        if own := [name for name in names if name.startswith(self._own)]:
            raise AdministrationError(f"{own[0]} is the cluster's own: a job for its records would make more of them")
        if self._connection is None:
            self._connection = AdminConnection(self._access.kafka, _ANSWER_TIMEOUT_S)
        topics = self._connection.read_topics(names)
        partitions = [(name, each) for name, (_, count) in topics.items() for each in range(count)]
        found = self._connection.read_watermarks(partitions, is_committed=True)
        bounds: dict[str, list[OffsetRange]] = defaultdict(list)
        for name, partition in partitions:
            bounds[name].append(OffsetRange(partition, found[name, partition].low, found[name, partition].high))
        return {name: SeenTopic(topic_id, tuple(bounds[name])) for name, (topic_id, _) in topics.items()}

    def offsets_at(self, bounds: Sequence[OffsetRange], topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
        """Return as `OffsetsAt` does; raises as `topics`."""
        if self._connection is None:
            raise AdministrationError(f"{topic} was not looked at")
        found = self._connection.read_offsets_at([(topic, each.partition) for each in bounds], time_ms)
        at = ((each, found[topic, each.partition]) for each in bounds)
        return tuple(PartitionOffset(each.partition, each.end_offset if offset is None else offset) for each, offset in at)


class TopicWatcher:
    """Looks at the topics of a term."""

    def __init__(self, look: Look, on_outcome: Callable[[MasterInput], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Look with `look`, in a thread; hand outcomes to `on_outcome`, in the event loop's; `clock` gives seconds."""
        self._look = look
        self._on_outcome = on_outcome
        self._clock = clock
        self._watches: list[CursorWatch] = []
        self._wake = asyncio.Event()
        self._looks_at_s = 0.0
        """When it is time for the next look."""
        self._passed: dict[str, Mapping[int, int]] = {}
        """By schedule: its cursor at the last look."""
        self._failed: dict[str, tuple[float, Backoff[float]]] = {}
        """By topic: until when it is not looked at, and the pauses after that."""

    def watch(self, watches: Iterable[CursorWatch]) -> None:
        """Look soon, unless that was done a moment ago."""
        if not self._wake.is_set() and self._clock() >= self._looks_at_s:
            self._watches = [replace(each, offsets=dict(each.offsets)) for each in watches]
            self._wake.set()

    async def run(self) -> None:
        """Look when told, until cancelled."""
        while True:
            await self._wake.wait()
            names = {watch.topic for watch in self._watches}
            self._failed = {name: each for name, each in self._failed.items() if name in names}
            now_s = self._clock()
            seen = await self._look_at([name for name in sorted(names) if name not in self._failed or now_s >= self._failed[name][0]])
            news = await asyncio.to_thread(self._news_of, self._watches, seen)
            for outcome in news:
                self._on_outcome(outcome)
            passed = {watch.schedule_id: watch.offsets for watch in self._watches}
            is_busy = any(passed[each.schedule_id] != self._passed.get(each.schedule_id) for each in news)
            self._passed = passed
            self._looks_at_s = self._clock() + (_BUSY_INTERVAL_S if is_busy else LOOK_INTERVAL_S)
            self._wake.clear()

    def _news_of(self, watches: Sequence[CursorWatch], seen: Mapping[str, SeenTopic]) -> list[RecordsSeen]:
        def offsets_at(topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
            return self._look.offsets_at(seen[topic].bounds, topic, time_ms)

        news: list[RecordsSeen] = []
        read = set(seen)
        for watch in watches:
            try:
                news += news_of([watch], seen, offsets_at)
            except AdministrationError as error:
                self._leave_out(watch.topic, error)
                read.discard(watch.topic)
        for topic in read:
            self._failed.pop(topic, None)
        return news

    def _leave_out(self, topic: str, error: AdministrationError) -> None:
        """Look at a topic less and less often, as long as it cannot be read."""
        _, pauses = self._failed.get(topic, (0.0, Backoff(LOOK_INTERVAL_S, _LONGEST_PAUSE_S)))
        pause_s = pauses.next()
        _logger.warning("TopicNotSeen topic=%s again_in_s=%.0f error=%s", topic, pause_s, one_line(str(error)))
        self._failed[topic] = self._clock() + pause_s, pauses

    async def _look_at(self, topics: list[str]) -> dict[str, SeenTopic]:
        """Return what these topics have; where not all can be read, each is asked about by itself, and others are left out for a while."""
        if not topics:
            return {}
        try:
            seen = await asyncio.to_thread(self._look.topics, topics)
        except AdministrationError as error:
            if len(topics) > 1 and not isinstance(error, KafkaUnreachable):
                return {name: each for topic in topics for name, each in (await self._look_at([topic])).items()}
            for topic in topics:
                self._leave_out(topic, error)
            return {}
        return seen

"""Looking at what others write: topics whose records start jobs, tables whose versions do, and files for which instants wait.

Where topics end is asked each second, or sooner while jobs take their records; a table is looked at every five seconds, a file less and
less often. What there is comes back as an input, by `leadership/topic_sightings.py` and `table_sightings.py`. The rule: what is reported is
committed, so that a job finds what it was started for; and what cannot be read, or does not answer, keeps no other one waiting.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from eventflink.entrypoint.outside_looks import LookFailed
from eventflink.leadership.log_lines import one_line
from eventflink.leadership.topic_sightings import SeenTopic, news_of
from eventflink.log.admin_connection import AdminConnection, AdministrationError, KafkaUnreachable
from eventflink.master.effects import CursorWatch, FileWatch, TableWatch
from eventflink.master.inputs import FileMissed, FileSeen, MasterInput, RecordsSeen, TableNotSeen, VersionsSeen
from eventflink.master.requests import MAX_MESSAGE_LENGTH
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.schedules import OffsetRange, PartitionOffset
from eventflink.model.texts import cut_bytes

_logger = logging.getLogger(__name__)

R = TypeVar("R")
W = TypeVar("W")

LOOK_INTERVAL_S: Final = 1.0
_BUSY_INTERVAL_S: Final = 0.1
"""Where a cursor has moved since the last look, and there are records behind it: a decision starts only so many jobs."""
_LONGEST_PAUSE_S: Final = 60.0
"""Between two looks at what cannot be read, or at a file that is not there."""
_ANSWER_TIMEOUT_S: Final = 10.0
TABLE_INTERVAL_S: Final = 5.0
_LOOK_TIMEOUT_S: Final = 90.0
"""Longer than a store that does not answer is asked again."""
_AT_ONCE: Final = 32
_MOST_KNOWN: Final = 5_000
"""So many tables and files are remembered, before those are forgotten that no schedule names any more."""
_SAID_AFTER: Final = 3
"""Looks at a table that have failed one after the other: what passes sooner is not worth a decision."""
TOPICS: Final = ""
"""What the look at all topics is called among those at tables and files."""


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


class OutsideReader(Protocol):
    """How tables and files are looked at. The first two wait, and raise `LookFailed`."""

    def look(self, watches: Sequence[TableWatch]) -> list[VersionsSeen]:
        """Return what schedules have to learn of the table that all of them name."""

    def is_there(self, file: str) -> bool:
        """Tell whether there is such a file."""

    def forget_others(self, names: Collection[str]) -> None:
        """Keep nothing of other tables than these."""


def _grouped(watches: Iterable[W], name_of: Callable[[W], str]) -> dict[str, list[W]]:
    found: dict[str, list[W]] = defaultdict(list)
    for watch in watches:
        found[name_of(watch)].append(watch)
    return found


class OutsideWatcher:
    """Looks for the leader of a term: at the topics together, at each table and each file by itself."""

    def __init__(
        self, look: Look, outside: OutsideReader, on_outcome: Callable[[MasterInput], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Look at topics with `look`, at all else with `outside`, in threads.

        Outcomes go to `on_outcome`, in the event loop's; `clock` gives seconds.
        """
        self._look = look
        self._outside = outside
        self._on_outcome = on_outcome
        self._clock = clock
        self._due: list[Coroutine[Any, Any, None]] = []
        """The looks that are to begin."""
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "look")
        """Those of tables and files: one that does not answer holds none that asks Kafka."""
        self._under_way: set[str] = set()
        """The tables and files that a look is at, and `TOPICS`."""
        self._silent: set[str] = set()
        """Those of them that have not answered in time."""
        self._looks_at_s: dict[str, float] = {}
        """When it is time for the next look at these."""
        self._passed: dict[str, Mapping[int, int]] = {}
        """By schedule: its cursor at the last look at topics."""
        self._failed: dict[str, tuple[float, Backoff[float]]] = {}
        """By topic: until when it is not looked at, and the pauses after that."""
        self._failing: dict[str, tuple[int, Backoff[float]]] = {}
        """By table or file: how often in a row there was nothing to see, and the pauses after that."""
        self._over: set[str] = set()
        """The files that are looked for once more, since the time of an instant is over."""
        self._glances_at_s = 0.0
        """When tables and files are gone through again."""

    def watch(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """Look soon, unless that was done a moment ago."""
        now_s = self._clock()
        if self._is_due(TOPICS, now_s):
            self._looks_at_s[TOPICS] = now_s + _BUSY_INTERVAL_S
            if watches := [replace(each, offsets=dict(each.offsets)) for each in topics]:
                self._begin(TOPICS, self._look_at_topics(watches))
        if now_s < self._glances_at_s:
            return
        self._glances_at_s = now_s + _BUSY_INTERVAL_S
        by_table = _grouped(tables, lambda watch: str(watch.table))
        by_file = _grouped(files, lambda watch: watch.file)
        due = [(name, self._look_at_table(name, each)) for name, each in by_table.items() if self._is_due(name, now_s)]
        over = {name for name, each in by_file.items() if any(watch.is_over for watch in each)}
        for name in (over & self._silent) - self._over:
            self._miss(by_file[name], f"{name} does not answer")
        for name in over - self._over - (self._under_way - self._silent):  # The last look is at once, and begins after the time is over.
            self._looks_at_s[name] = now_s
            self._over.add(name)
        self._over &= over
        due += [(name, self._look_at_file(name, each)) for name, each in by_file.items() if self._is_due(name, now_s)]
        for name, look in due:
            self._begin(name, look)
        if len(self._looks_at_s) > _MOST_KNOWN:
            self._forget_others({TOPICS, *by_table, *by_file, *self._under_way})

    def _forget_others(self, names: Collection[str]) -> None:
        self._looks_at_s = {name: each for name, each in self._looks_at_s.items() if name in names}
        self._failing = {name: each for name, each in self._failing.items() if name in names}
        self._outside.forget_others(names)

    def _is_due(self, name: str, now_s: float) -> bool:
        return name not in self._under_way and now_s >= self._looks_at_s.get(name, 0.0)

    def _begin(self, name: str, look: Coroutine[Any, Any, None]) -> None:
        self._under_way.add(name)
        self._due.append(look)
        self._wake.set()

    async def run(self) -> None:
        """Look when told, until cancelled."""
        looks: set[asyncio.Task[None]] = set()
        waking = asyncio.create_task(self._wake.wait())
        try:
            while True:
                done, _ = await asyncio.wait({waking, *looks}, return_when=asyncio.FIRST_COMPLETED)
                for look in done & looks:
                    look.result()
                looks -= done
                if waking in done:
                    self._wake.clear()
                    waking = asyncio.create_task(self._wake.wait())
                    looks |= {asyncio.create_task(look) for look in self._due}
                    self._due = []
        finally:
            for task in (waking, *looks):
                task.cancel()
            for begun in self._due:
                begun.close()
            self._threads.shutdown(wait=False, cancel_futures=True)

    # -- tables and files ------------------------------------------------------------------------------------------

    async def _look_at_table(self, name: str, watches: list[TableWatch]) -> None:
        def note(error: str) -> None:
            """Let the log say why, when that lasts."""
            if self._leave(name, error) == _SAID_AFTER:
                said = cut_bytes(" ".join(error.split()), MAX_MESSAGE_LENGTH)
                for watch in watches:
                    self._on_outcome(TableNotSeen(watch.schedule_id, watch.table, said))

        news = await self._ask(name, partial(self._outside.look, watches), note)
        if news is not None:
            self._failing.pop(name, None)
            self._looks_at_s[name] = self._clock() + TABLE_INTERVAL_S
            for outcome in news:
                self._on_outcome(outcome)
        self._under_way.discard(name)

    async def _look_at_file(self, name: str, watches: list[FileWatch]) -> None:
        def note(fault: str) -> None:
            self._leave(name, fault)
            self._miss(watches, fault)

        is_there = await self._ask(name, partial(self._outside.is_there, name), note)
        if is_there:
            self._failing.pop(name, None)
            self._looks_at_s[name] = self._clock() + LOOK_INTERVAL_S
            for watch in watches:
                self._on_outcome(FileSeen(watch.schedule_id, watch.instant_ms, name))
        elif is_there is not None:
            self._leave(name, "")
            self._miss(watches, "")
        self._under_way.discard(name)

    def _miss(self, watches: Iterable[FileWatch], fault: str) -> None:
        """Say of those whose time is over that this was the last look."""
        said = cut_bytes(" ".join(fault.split()), MAX_MESSAGE_LENGTH)
        for watch in watches:
            if watch.is_over:
                self._on_outcome(FileMissed(watch.schedule_id, watch.instant_ms, watch.file, said))

    async def _ask(self, name: str, look: Callable[[], R], note: Callable[[str], object]) -> R | None:
        """Return what a look has shown; None: it failed, which is noted. One that is late is waited for: none begins beside it."""
        answer = asyncio.get_running_loop().run_in_executor(self._threads, look)
        try:
            async with asyncio.timeout(_LOOK_TIMEOUT_S):
                return await asyncio.shield(answer)
        except LookFailed as error:
            note(str(error))
        except TimeoutError:
            note(f"{name} did not answer within {_LOOK_TIMEOUT_S:.0f} s")
            self._silent.add(name)
            await asyncio.wait([answer])
            self._silent.discard(name)
            answer.exception()
        return None

    def _leave(self, name: str, error: str) -> int:
        """Look less and less often; return how often in a row there was nothing to see."""
        count, pauses = self._failing.get(name, (0, Backoff(LOOK_INTERVAL_S, _LONGEST_PAUSE_S)))
        pause_s = pauses.next()
        if error:
            _logger.warning("LookFailed at=%s again_in_s=%.0f error=%s", name, pause_s, one_line(error))
        self._failing[name] = count + 1, pauses
        self._looks_at_s[name] = self._clock() + pause_s
        return count + 1

    # -- topics ----------------------------------------------------------------------------------------------------

    async def _look_at_topics(self, watches: list[CursorWatch]) -> None:
        names = {watch.topic for watch in watches}
        self._failed = {name: each for name, each in self._failed.items() if name in names}
        now_s = self._clock()
        seen = await self._look_at([name for name in sorted(names) if name not in self._failed or now_s >= self._failed[name][0]])
        news = await asyncio.to_thread(self._news_of, watches, seen)
        for outcome in news:
            self._on_outcome(outcome)
        passed = {watch.schedule_id: watch.offsets for watch in watches}
        is_busy = any(passed[each.schedule_id] != self._passed.get(each.schedule_id) for each in news)
        self._passed = passed
        self._looks_at_s[TOPICS] = self._clock() + (_BUSY_INTERVAL_S if is_busy else LOOK_INTERVAL_S)
        self._under_way.discard(TOPICS)

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

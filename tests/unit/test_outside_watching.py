"""The leader's looks at topics and tables: one that cannot be read keeps no other one waiting, and is asked about less and less often.

One whose records become jobs is looked at again soon.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import count

import pytest

from eventflink.entrypoint import outside_watching
from eventflink.entrypoint.outside_looks import LookFailed
from eventflink.entrypoint.outside_watching import TOPICS, OutsideWatcher
from eventflink.leadership.topic_sightings import SeenTopic
from eventflink.log.admin_connection import AdministrationError
from eventflink.master.effects import CursorWatch, FileWatch, TableWatch
from eventflink.master.inputs import FileMissed, FileSeen, MasterInput, RecordsSeen, TableNotSeen, VersionsSeen
from eventflink.model.schedules import FollowedTable, OffsetRange, PartitionOffset, TableVersion

FILES = [FileWatch(f"of {file}", 1, f"/{file}/file") for file in ("there", "gone", "silent", "later")]
OVER = [FileWatch(f"over at {file}", 2, f"/{file}/file", is_over=True) for file in ("gone", "never")]
WATCHED = [("b", "/there"), ("c", "/there"), ("d", "/gone"), ("e", "/silent")]


class PlainTopics:
    """Kafka, of which nothing is asked but where topics end that are there."""

    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked

    def topics(self, names: Sequence[str]) -> dict[str, SeenTopic]:
        self._asked.update(names)
        return {name: SeenTopic(f"id of {name}", (OffsetRange(0, 0, 5),)) for name in names}

    def offsets_at(self, bounds: Sequence[OffsetRange], topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
        raise AdministrationError(f"nobody asked for offsets of {topic} at {time_ms}: {bounds}")


class NoTables:
    """A cluster without tables."""

    def look(self, watches: Sequence[TableWatch]) -> list[VersionsSeen]:
        raise LookFailed(f"nobody asked for {watches}")

    def is_there(self, file: str) -> bool:
        raise LookFailed(f"nobody asked for {file}")

    def forget_others(self, names: Collection[str]) -> None:
        """There are none."""


def test_a_topic_that_cannot_be_read_keeps_no_other_one_waiting() -> None:
    asked: list[tuple[str, ...]] = []
    seen: list[MasterInput] = []
    seconds = count(0.0, 0.1)  # Each glance at the clock takes a tenth of a second, on every machine.

    class Kafka:
        def topics(self, names: Sequence[str]) -> dict[str, SeenTopic]:
            asked.append(tuple(names))
            if "gone" in names and len(asked) < 60:
                raise AdministrationError("there is no topic 'gone'")
            return {name: SeenTopic(f"id of {name}", (OffsetRange(0, 0, 5),)) for name in names}

        def offsets_at(self, bounds: Sequence[OffsetRange], topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
            raise AdministrationError(f"nobody asked for offsets of {topic} at {time_ms}: {bounds}")

    async def run() -> None:
        watcher = OutsideWatcher(Kafka(), NoTables(), seen.append, lambda: next(seconds))
        running = asyncio.create_task(watcher.run())
        watches = [CursorWatch("a", "there", "id of there", {0: 3}), CursorWatch("b", "gone", "", {})]
        async with asyncio.timeout(120):
            while not any(isinstance(each, RecordsSeen) and each.schedule_id == "b" for each in seen):
                watcher.watch(iter(watches), (), ())
                await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(run())
    assert asked[:3] == [("gone", "there"), ("gone",), ("there",)]
    before = asked[:59]
    assert before.count(("there",)) > 2 * before.count(("gone",))
    assert before.count(("gone", "there")) < 10
    first = next(each for each in seen if isinstance(each, RecordsSeen))
    assert (first.schedule_id, first.topic_id, first.bounds) == ("a", "id of there", (OffsetRange(0, 0, 5),))
    assert {each.schedule_id for each in seen if isinstance(each, RecordsSeen)} == {"a", "b"}


def test_a_table_or_a_file_that_cannot_be_read_or_does_not_answer_keeps_nothing_else_waiting() -> None:
    asked: Counter[str] = Counter()
    seen: list[MasterInput] = []
    seconds = count(0.0, 0.1)
    is_over = threading.Event()
    version = TableVersion(1)

    class Tables(NoTables):
        def look(self, watches: Sequence[TableWatch]) -> list[VersionsSeen]:
            path = watches[0].table.path
            asked[path] += 1
            if path == "/silent":
                is_over.wait()
            if path == "/gone":
                raise LookFailed("it is\nnot there")
            return [VersionsSeen(each.schedule_id, each.table, None, "id", version, version) for each in watches]

        def is_there(self, file: str) -> bool:
            asked[file] += 1
            if file == "/silent/file":
                is_over.wait()
            if file == "/gone/file":
                raise LookFailed("its store refuses")
            return file == "/there/file" or (file == "/later/file" and asked[file] == 3)

    tables = [TableWatch(schedule_id, FollowedTable(path), "", None) for schedule_id, path in WATCHED]

    async def run() -> None:
        watcher = OutsideWatcher(PlainTopics(asked), Tables(), seen.append, lambda: next(seconds))
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(120):
            while asked["/there"] < 20 or asked["orders"] < 20 or asked["/gone"] < 5 or asked["/later/file"] < 3:
                watcher.watch([CursorWatch("a", "orders", "id of orders", {0: 3})], iter(tables), iter([*FILES, *OVER]))
                await asyncio.sleep(0.001)
        is_over.set()
        running.cancel()

    try:
        asyncio.run(run())
    finally:
        is_over.set()
    assert asked["/silent"] == asked["/silent/file"] == 1, "a look that has not ended is not begun again"
    assert {(each.schedule_id, each.instant_ms) for each in seen if isinstance(each, FileSeen)} == {("of there", 1), ("of later", 1)}
    missed = {(each.schedule_id, each.file, each.fault) for each in seen if isinstance(each, FileMissed)}
    assert missed == {("over at gone", "/gone/file", "its store refuses"), ("over at never", "/never/file", "")}
    assert asked["/gone/file"] < asked["orders"] / 2
    assert asked["/gone"] < asked["orders"] / 2
    assert {each.schedule_id for each in seen if isinstance(each, VersionsSeen)} == {"b", "c"}, "both schedules of the table"
    said = [(each.schedule_id, each.table.path, each.fault) for each in seen if isinstance(each, TableNotSeen)]
    assert said == [("d", "/gone", "it is not there")], "after several looks, and once"


def test_a_table_that_does_not_answer_in_time_is_said_and_looked_at_again_when_that_look_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_watching, "_LOOK_TIMEOUT_S", 0.0)
    monkeypatch.setattr(outside_watching, "_SAID_AFTER", 1)
    seen: list[MasterInput] = []
    seconds, looks, may_end = count(0.0, 10.0), list[str](), threading.Event()

    class Tables(NoTables):
        def look(self, watches: Sequence[TableWatch]) -> list[VersionsSeen]:
            looks.append(watches[0].schedule_id)
            may_end.wait()
            raise LookFailed(f"{watches[0].table} is gone meanwhile")

    async def run() -> None:
        watcher = OutsideWatcher(PlainTopics(Counter()), Tables(), seen.append, lambda: next(seconds))
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(120):
            while len(looks) < 2:
                watcher.watch((), [TableWatch("s", FollowedTable("/slow"), "", None)], ())
                await asyncio.sleep(0.001)
                if seen:
                    may_end.set()
        running.cancel()

    try:
        asyncio.run(run())
    finally:
        may_end.set()
    assert [(each.schedule_id, each.fault) for each in seen if isinstance(each, TableNotSeen)][:1] == [
        ("s", "/slow did not answer within 0 s")
    ]


def test_an_instant_is_missed_whose_file_is_where_a_look_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_watching, "_LOOK_TIMEOUT_S", 0.0)
    seen: list[MasterInput] = []
    seconds, may_end = count(0.0, 10.0), threading.Event()

    class Files(NoTables):
        def is_there(self, file: str) -> bool:
            return may_end.wait() and bool(file)

    async def run() -> None:
        watcher = OutsideWatcher(PlainTopics(Counter()), Files(), seen.append, lambda: next(seconds))
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(120):
            while not seen:
                watcher.watch((), (), [FileWatch("s", 1, "/hangs/file", is_over="/hangs/file" in watcher._silent)])
                await asyncio.sleep(0.001)
        may_end.set()
        running.cancel()

    try:
        asyncio.run(run())
    finally:
        may_end.set()
    assert seen[0] == FileMissed("s", 1, "/hangs/file", "/hangs/file does not answer")


def test_where_a_look_has_moved_a_cursor_the_next_one_comes_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_watching, "_BUSY_INTERVAL_S", 0.0)
    monkeypatch.setattr(outside_watching, "LOOK_INTERVAL_S", 3_600.0)
    passed = {0: 0}
    seen: list[MasterInput] = []

    class Kafka:
        def topics(self, names: Sequence[str]) -> dict[str, SeenTopic]:
            return {name: SeenTopic(f"id of {name}", (OffsetRange(0, 0, 50),)) for name in names}

        def offsets_at(self, bounds: Sequence[OffsetRange], topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
            raise AdministrationError(f"nobody asked for offsets of {topic} at {time_ms}: {bounds}")

    def decide(value: MasterInput) -> None:
        """Take a few records, up to those that wait for more to come."""
        seen.append(value)
        passed[0] = min(passed[0] + 10, 45)

    async def run() -> None:
        watcher = OutsideWatcher(Kafka(), NoTables(), decide)
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(120):
            while watcher._looks_at_s.get(TOPICS, 0.0) < time.monotonic() + 60:
                watcher.watch([CursorWatch("a", "there", "id of there", passed)], (), ())
                await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(run())
    assert len(seen) == 7, "six with another cursor each, and the one that finds the last of them again"

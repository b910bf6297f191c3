"""The leader's looks at topics: one that cannot be read keeps no other one waiting, and is asked about less and less often.

One whose records become jobs is looked at again soon.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import count

import pytest

from eventflink.entrypoint import topic_watching
from eventflink.entrypoint.topic_watching import TopicWatcher
from eventflink.leadership.topic_sightings import SeenTopic
from eventflink.log.admin_connection import AdministrationError
from eventflink.master.effects import CursorWatch
from eventflink.master.inputs import MasterInput, RecordsSeen
from eventflink.model.schedules import OffsetRange, PartitionOffset


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
        watcher = TopicWatcher(Kafka(), seen.append, lambda: next(seconds))
        running = asyncio.create_task(watcher.run())
        watches = [CursorWatch("a", "there", "id of there", {0: 3}), CursorWatch("b", "gone", "", {})]
        async with asyncio.timeout(120):
            while not any(isinstance(each, RecordsSeen) and each.schedule_id == "b" for each in seen):
                watcher.watch(iter(watches))
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


def test_where_a_look_has_moved_a_cursor_the_next_one_comes_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watching, "_BUSY_INTERVAL_S", 0.0)
    monkeypatch.setattr(topic_watching, "LOOK_INTERVAL_S", 3_600.0)
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
        watcher = TopicWatcher(Kafka(), decide)
        running = asyncio.create_task(watcher.run())
        async with asyncio.timeout(120):
            while watcher._looks_at_s < time.monotonic() + 60:
                watcher.watch([CursorWatch("a", "there", "id of there", passed)])
                await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(run())
    assert len(seen) == 7, "six with another cursor each, and the one that finds the last of them again"

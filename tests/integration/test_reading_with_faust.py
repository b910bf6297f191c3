"""What a master reads with Faust, on a real broker: every record of a topic once and in order, also over a pause."""

import asyncio
from typing import Any

from confluent_kafka import Producer

from eventflink.entrypoint.faust_application import FaustApplication
from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import ensure_topics

RECORDS = 6_000
PAUSE_EVERY = 500
TIMEOUT_S = 60
QUIET_S = 1.5


def _produce(bootstrap: str, cluster_id: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(topic_name(cluster_id, Topic.TASKMANAGERS), str(number).encode(), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


class _Reading:
    """One application that reads `taskmanagers` and pauses as a test wants it."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self.read: list[int] = []
        self.pause_every = 0
        self.pauses = 0
        offsets = {Topic.TASKMANAGERS: 0, Topic.LOG: 0}
        self.application = FaustApplication(bootstrap, cluster_id, f"{cluster_id}-reader", offsets, self._on_record)

    def _on_record(self, topic: Topic, message: Any) -> None:
        self.read.append(int(message.value))
        if self.pause_every and len(self.read) % self.pause_every == 0:
            self.pauses += 1
            self.application.pause(topic)

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.read) < count:
                await asyncio.sleep(0.05)
                self.application.resume(Topic.TASKMANAGERS)


def test_a_pause_in_the_middle_of_what_was_fetched_loses_nothing(bootstrap: str, cluster_id: str) -> None:
    """A flood larger than an inbox: the leader pauses the topic again and again, and goes on where it stopped."""
    ensure_topics(bootstrap, cluster_id)
    _produce(bootstrap, cluster_id, 0, RECORDS)

    async def scenario() -> _Reading:
        reading = _Reading(bootstrap, cluster_id)
        reading.pause_every = PAUSE_EVERY
        await reading.application.start()
        try:
            await reading.wait_for(RECORDS)
        finally:
            await reading.application.stop()
        return reading

    reading = asyncio.run(scenario())
    assert reading.read == list(range(RECORDS))
    assert reading.pauses == RECORDS // PAUSE_EVERY


def test_a_paused_topic_is_not_read_on_until_it_is_resumed(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(bootstrap, cluster_id)
    _produce(bootstrap, cluster_id, 0, 10)

    async def scenario() -> None:
        reading = _Reading(bootstrap, cluster_id)
        await reading.application.start()
        try:
            await reading.wait_for(10)
            reading.application.pause(Topic.TASKMANAGERS)
            await asyncio.sleep(QUIET_S)  # What was under way has arrived.
            await asyncio.to_thread(_produce, bootstrap, cluster_id, 10, 10)
            await asyncio.sleep(QUIET_S)
            assert reading.read == list(range(10))
            await reading.wait_for(20)
        finally:
            await reading.application.stop()
        assert reading.read == list(range(20))

    asyncio.run(scenario())

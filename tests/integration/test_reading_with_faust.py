"""What a master reads with Faust, on a real broker: every record of a topic once and in order, whatever another topic does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Message, Producer

from eventflink.entrypoint.faust_application import FaustApplication
from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import ensure_topics
from eventflink.log.topic_reader import BATCH_RECORDS, MAX_BATCHES
from eventflink.model.cluster_access import access_to

RECORDS = 6_000
PAUSE_EVERY = 500
TIMEOUT_S = 120
QUIET_S = 1.5


def _produce(bootstrap: str, cluster_id: str, first: int, count: int, topic: Topic = Topic.TASKMANAGERS) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(topic_name(cluster_id, topic), str(number).encode(), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


class _Reading:
    """One application that reads `taskmanagers` and `log`, and does with each record what a test wants."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self.read: dict[Topic, list[int]] = {Topic.TASKMANAGERS: [], Topic.LOG: []}
        self.on_read: Callable[[Topic], Awaitable[None] | None] = lambda _topic: None
        self.application = FaustApplication(access_to(bootstrap, cluster_id), dict.fromkeys(self.read, 0), self._on_record)

    def _on_record(self, topic: Topic, message: Message) -> Awaitable[None] | None:
        self.read[topic].append(int(message.value()))
        return self.on_read(topic)

    async def wait_for(self, count: int, topic: Topic = Topic.TASKMANAGERS) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.read[topic]) < count:  # noqa: ASYNC110 - records signal nothing
                await asyncio.sleep(0.02)


@asynccontextmanager
async def _running(reading: _Reading) -> AsyncIterator[_Reading]:
    await reading.application.start()
    try:
        yield reading
    finally:
        await reading.application.stop()


@pytest.mark.rule("L3")
def test_a_pause_in_the_middle_of_what_was_fetched_loses_nothing(bootstrap: str, cluster_id: str) -> None:
    """A flood larger than an inbox: the leader pauses the topic again and again, and continues where it stopped."""
    ensure_topics(access_to(bootstrap, cluster_id))
    _produce(bootstrap, cluster_id, 0, RECORDS)
    pauses = 0

    async def scenario() -> list[int]:
        nonlocal pauses
        reading = _Reading(bootstrap, cluster_id)

        def pause(topic: Topic) -> None:
            nonlocal pauses
            if len(reading.read[topic]) % PAUSE_EVERY == 0:
                pauses += 1
                reading.application.pause(topic)

        reading.on_read = pause
        async with _running(reading):
            for count in range(PAUSE_EVERY, RECORDS + 1, PAUSE_EVERY):
                await reading.wait_for(count)
                reading.application.resume(Topic.TASKMANAGERS)
        return reading.read[Topic.TASKMANAGERS]

    assert asyncio.run(scenario()) == list(range(RECORDS))
    assert pauses == RECORDS // PAUSE_EVERY


def test_a_paused_topic_is_not_read_on_until_it_is_resumed_and_others_are(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id))
    _produce(bootstrap, cluster_id, 0, 10)

    async def scenario() -> None:
        async with _running(_Reading(bootstrap, cluster_id)) as reading:
            await reading.wait_for(10)
            reading.application.pause(Topic.TASKMANAGERS)
            await asyncio.sleep(QUIET_S)  # What was under way has arrived.
            await asyncio.to_thread(_produce, bootstrap, cluster_id, 10, 10)
            await asyncio.to_thread(_produce, bootstrap, cluster_id, 0, 10, Topic.LOG)
            await reading.wait_for(10, Topic.LOG)
            await asyncio.sleep(QUIET_S)
            assert reading.read[Topic.TASKMANAGERS] == list(range(10))
            reading.application.resume(Topic.TASKMANAGERS)
            await reading.wait_for(20)
        assert reading.read[Topic.TASKMANAGERS] == list(range(20))

    asyncio.run(scenario())


@pytest.mark.rule("L3")
def test_while_an_agent_waits_its_topic_is_held_within_bounds_and_another_is_read(bootstrap: str, cluster_id: str) -> None:
    """As where a schema is fetched behind a flood. What waits in the process is what was handed out, and no more (L3)."""
    ensure_topics(access_to(bootstrap, cluster_id))
    count = 20_000
    _produce(bootstrap, cluster_id, 0, count)

    async def scenario() -> list[int]:
        opened = asyncio.Event()
        reading = _Reading(bootstrap, cluster_id)
        reading.on_read = lambda topic: _wait(opened) if topic is Topic.TASKMANAGERS and not opened.is_set() else None
        async with _running(reading):
            await reading.wait_for(1)
            await asyncio.sleep(QUIET_S)  # For what would be too much.
            await asyncio.to_thread(_produce, bootstrap, cluster_id, 0, 100, Topic.LOG)
            await reading.wait_for(100, Topic.LOG)
            waiting = _waiting_batches(reading.application)
            assert 0 < len(waiting) < MAX_BATCHES
            assert sum(waiting) <= (MAX_BATCHES - 1) * BATCH_RECORDS
            assert len(reading.read[Topic.TASKMANAGERS]) == 1
            opened.set()
            await reading.wait_for(count)
        return reading.read[Topic.TASKMANAGERS]

    assert asyncio.run(scenario()) == list(range(count))


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _waiting_batches(application: FaustApplication) -> list[int]:
    """Return the lengths of the batches that wait before the agents."""
    queues = [actor.stream.channel.queue for agent in application._app.agents.values() for actor in agent._actors]
    return [len(batch) for queue in queues for batch in queue._queue]


@pytest.mark.rule("P11")
def test_what_a_transaction_aborted_never_reaches_an_agent(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": cluster_id})
    producer.init_transactions(TIMEOUT_S)
    for number, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic_name(cluster_id, Topic.TASKMANAGERS), str(number).encode(), partition=0)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)

    async def scenario() -> list[int]:
        async with _running(_Reading(bootstrap, cluster_id)) as reading:
            await reading.wait_for(1)
            await asyncio.sleep(QUIET_S)
            assert reading.application.held_back() == {}
        return reading.read[Topic.TASKMANAGERS]

    assert asyncio.run(scenario()) == [2]


@pytest.mark.rule("P11")
def test_what_lies_behind_an_open_transaction_is_counted_and_comes_in_order_when_it_ends(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": cluster_id})
    producer.init_transactions(TIMEOUT_S)

    async def scenario() -> list[int]:
        async with _running(_Reading(bootstrap, cluster_id)) as reading:
            for begun, end in ((0, producer.commit_transaction), (3, producer.abort_transaction)):
                producer.begin_transaction()
                producer.produce(topic_name(cluster_id, Topic.TASKMANAGERS), str(begun).encode(), partition=0)
                await asyncio.to_thread(producer.flush, TIMEOUT_S)
                await asyncio.to_thread(_produce, bootstrap, cluster_id, begun + 1, 2)
                async with asyncio.timeout(TIMEOUT_S):
                    while reading.application.held_back() != {Topic.TASKMANAGERS: 3}:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(0.05)
                assert len(reading.read[Topic.TASKMANAGERS]) == begun
                await asyncio.to_thread(end, TIMEOUT_S)
                await reading.wait_for(begun + 3 if begun == 0 else begun + 2)
                await asyncio.sleep(QUIET_S)
                assert reading.application.held_back() == {}
        return reading.read[Topic.TASKMANAGERS]

    assert asyncio.run(scenario()) == [0, 1, 2, 4, 5]


def test_an_agent_that_fails_ends_the_reading(bootstrap: str, cluster_id: str) -> None:
    """The next record of its topic would be read without it."""
    ensure_topics(access_to(bootstrap, cluster_id))
    _produce(bootstrap, cluster_id, 0, 2)

    async def scenario() -> None:
        reading = _Reading(bootstrap, cluster_id)

        def fail(_topic: Topic) -> None:
            raise ValueError("a defect")

        reading.on_read = fail
        async with _running(reading):
            async with asyncio.timeout(TIMEOUT_S):
                while not reading.application.failure:  # noqa: ASYNC110 - Faust signals nothing
                    await asyncio.sleep(0.01)
            assert reading.application.failure == "Faust has stopped"
        assert reading.read[Topic.TASKMANAGERS] == [0]

    asyncio.run(scenario())

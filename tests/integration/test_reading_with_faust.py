"""What a master reads with Faust, on a real broker: every record of a topic once and in order, also over a pause."""

import asyncio
import time
from typing import Any

from aiokafka.protocol.fetch import FetchRequest
from confluent_kafka import Producer

from eventflink.entrypoint.faust_application import BUFFER_RECORDS, FaustApplication
from eventflink.entrypoint.fetch_pace import GATHERING_MS, PATIENT_WAIT_MS
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


def test_what_a_transaction_aborted_never_reaches_an_agent(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(bootstrap, cluster_id)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": cluster_id})
    producer.init_transactions(TIMEOUT_S)
    for number, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic_name(cluster_id, Topic.TASKMANAGERS), str(number).encode(), partition=0)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)

    async def scenario() -> list[int]:
        reading = _Reading(bootstrap, cluster_id)
        await reading.application.start()
        try:
            await reading.wait_for(1)
            await asyncio.sleep(QUIET_S)
        finally:
            await reading.application.stop()
        return reading.read

    assert asyncio.run(scenario()) == [2]


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


def test_what_does_not_fit_into_the_buffer_of_an_agent_waits_and_comes_in_order(bootstrap: str, cluster_id: str) -> None:
    """An agent that waits fills its buffer; the record that finds it full has begun to be handed on, and is so when there is room."""
    ensure_topics(bootstrap, cluster_id)
    count = BUFFER_RECORDS + 2_000
    _produce(bootstrap, cluster_id, 0, count)
    read: list[int] = []

    async def scenario() -> tuple[int, int]:
        opened = asyncio.Event()

        def on_record(_topic: Topic, message: Any) -> Any:
            read.append(int(message.value))
            return None if opened.is_set() else opened.wait()

        offsets = {Topic.TASKMANAGERS: 0, Topic.LOG: 0}
        application = FaustApplication(bootstrap, cluster_id, f"{cluster_id}-reader", offsets, on_record)
        await application.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while _buffered(application) < BUFFER_RECORDS:  # noqa: ASYNC110 - Faust signals nothing
                    await asyncio.sleep(0.01)
            await asyncio.sleep(QUIET_S)  # For what would be too much.
            while_closed, buffered = len(read), _buffered(application)
            opened.set()
            async with asyncio.timeout(TIMEOUT_S):
                while len(read) < count:  # noqa: ASYNC110 - Faust signals nothing
                    await asyncio.sleep(0.01)
        finally:
            await application.stop()
        return while_closed, buffered

    while_closed, buffered = asyncio.run(scenario())
    assert (while_closed, buffered) == (1, BUFFER_RECORDS)
    assert read == list(range(count))


def _buffered(application: FaustApplication) -> int:
    """Return how many records wait before the agents."""
    channels_of_partitions = application._app.topics._tp_index.values()  # Faust hands the queues out nowhere else.
    return sum(channel.queue.qsize() for channels in channels_of_partitions for channel in channels)


class _CountedReading:
    """One application that reads a log and beats, with what it asks the broker for."""

    def __init__(self, bootstrap: str, cluster_id: str) -> None:
        self.read: dict[Topic, int] = {Topic.LOG: 0, Topic.HEARTBEATS: 0}
        self.fetches: list[set[str]] = []
        self.application = FaustApplication(bootstrap, cluster_id, f"{cluster_id}-reader", dict.fromkeys(self.read, 0), self._on_record)

    def _on_record(self, topic: Topic, _message: Any) -> None:
        self.read[topic] += 1

    async def start(self) -> None:
        await self.application.start()
        client = self.application._app.consumer._thread._consumer._client
        send = client.send

        async def counted(node_id: Any, request: Any, **keywords: Any) -> Any:
            if isinstance(request, FetchRequest):
                self.fetches.append({topic for topic, _ in request.topics})
            return await send(node_id, request, **keywords)

        client.send = counted

    async def wait_for(self, topic: Topic, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.read[topic] < count:  # noqa: ASYNC110 - a record a millisecond is what is to be seen
                await asyncio.sleep(0.001)


def test_silent_topics_are_asked_for_seldom_and_what_comes_then_is_read_at_once(bootstrap: str, cluster_id: str) -> None:
    """The broker holds a fetch that finds nothing, and ends it with the first record; no record waits for the end of a silent fetch."""
    ensure_topics(bootstrap, cluster_id)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    async def scenario() -> tuple[int, float]:
        reading = _CountedReading(bootstrap, cluster_id)
        await reading.start()
        try:
            await asyncio.sleep(QUIET_S)
            reading.fetches.clear()
            await asyncio.sleep(QUIET_S)
            silent = len(reading.fetches)
            began_s = time.monotonic()
            for number in range(1, 101):
                producer.produce(topic_name(cluster_id, Topic.LOG), b"record", partition=0)
                producer.poll(0)
                await reading.wait_for(Topic.LOG, number)
            return silent, time.monotonic() - began_s
        finally:
            await reading.application.stop()

    silent, passed_s = asyncio.run(scenario())
    assert 0 < silent <= 2 * QUIET_S * 1000 / PATIENT_WAIT_MS
    assert passed_s < 100 * PATIENT_WAIT_MS / 1000  # As long as it would take if each record came with the end of a wait.


def test_beats_are_read_many_at_a_time_and_the_log_does_not_wait_for_them(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(bootstrap, cluster_id)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    beats = 1_000

    async def scenario() -> tuple[list[set[str]], float]:
        reading = _CountedReading(bootstrap, cluster_id)
        await reading.start()
        try:
            began_s = time.monotonic()
            for number in range(beats):  # A beat each millisecond, and a record of the log with every tenth.
                producer.produce(topic_name(cluster_id, Topic.HEARTBEATS), b"beat", partition=0)
                if number % 10 == 0:
                    producer.produce(topic_name(cluster_id, Topic.LOG), b"record", partition=0)
                producer.poll(0)
                await asyncio.sleep(0.001)
            await reading.wait_for(Topic.HEARTBEATS, beats)
            await reading.wait_for(Topic.LOG, beats // 10)
            return list(reading.fetches), time.monotonic() - began_s
        finally:
            await reading.application.stop()

    fetches, passed_s = asyncio.run(scenario())
    with_beats = [names for names in fetches if topic_name(cluster_id, Topic.HEARTBEATS) in names]
    assert 0 < len(with_beats) <= passed_s * 1000 / GATHERING_MS + 1
    assert len(fetches) > len(with_beats)  # The log is asked for in between.

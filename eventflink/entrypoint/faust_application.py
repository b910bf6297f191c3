"""The Faust application of a master: one agent per topic, each of which only hands its records on.

Faust reads uncommitted records unless its own exactly-once mode is on; the transport below makes its consumer read committed
ones, so that an aborted submission never reaches an agent. One application serves one term of a master after the other, as long
as it keeps up. It has a consumer group of its own, and the group knows no positions: wherever Faust would ask for committed
offsets, at the start and after each rebalance, it gets the offset after the last record that was handed on.
"""

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import Any

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.services import WaitResults

from eventflink.entrypoint.fetch_pace import FetchPace
from eventflink.events.topics import Topic, topic_name

_logger = logging.getLogger(__name__)

OnRecord = Callable[[Topic, Any], Awaitable[None] | None]
"""Called with the topic and Faust's message: offset, timestamp (seconds), key, value."""

BUFFER_RECORDS = 16_384
FETCH_BYTES = 4 * 1024 * 1024
START_TIMEOUT_S = 60.0


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    async def seek_to_committed(self) -> Mapping[TP, int]:
        return await self.call_thread(self._seek_to_positions)  # type: ignore[no-any-return]

    async def _seek_to_positions(self) -> Mapping[TP, int]:
        consumer = self._ensure_consumer()
        positions = {
            TP(partition.topic, partition.partition): self.app.next_offsets[partition.topic] for partition in consumer.assignment()
        }
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        return positions

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust does not pass it on, and aiokafka reads it only when the consumer starts.
        consumer._isolation_level = "read_committed"  # noqa: SLF001
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        FetchPace(self._ensure_consumer()._fetcher, self.app.gathered_topic)  # noqa: SLF001


async def _go_on(begun: Any, awaited: Any) -> Any:
    """Run a coroutine to its end that was begun elsewhere, and awaits something."""
    return await _Rest(begun, awaited)


class _Rest:
    def __init__(self, begun: Any, awaited: Any) -> None:
        self._begun = begun
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        awaited = self._awaited
        while True:
            step: Callable[[], Any]
            try:
                step = partial(self._begun.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001 - a cancellation as well is for the coroutine
                step = partial(self._begun.throw, error)
            try:
                awaited = step()
            except StopIteration as finished:
                return finished.value


class _ReadCommittedConsumer(driver.Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> Any:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)

    async def _wait_next_records(self, timeout: float) -> tuple[Any, None]:  # noqa: ASYNC109 - the signature of Faust
        """Return what was fetched, all of it to be handed on.

        Faust would drop the rest of a batch whose partition is paused meanwhile, and continue behind it after the resume.
        """
        records, _ = await super()._wait_next_records(timeout)
        return records, None

    async def wait_first(self, *waits: Any, timeout: Any = None) -> Any:  # noqa: ASYNC109 - the signature of Faust
        """Wait for the first of several ends, as Faust does with each record: that it is handed on, or that a rebalance begins.

        Faust makes a task of each, and of two ends of its own. A record that is handed on without waiting needs none of the four.
        """
        first, *others = waits
        if not others or not asyncio.iscoroutine(first) or self.should_stop:
            return await super().wait_first(*waits, timeout=timeout)
        try:
            awaited = first.send(None)
        except StopIteration as finished:
            for other in filter(asyncio.iscoroutine, others):
                other.close()
            return WaitResults([first], [finished.value], stopped=False)
        return await super().wait_first(_go_on(first, awaited), *others, timeout=timeout)


class _ReadCommittedTransport(driver.Transport):  # type: ignore[misc]
    Consumer = _ReadCommittedConsumer


class _Application(faust.App):  # type: ignore[misc]
    next_offsets: dict[str, int]
    """By the topic's name in Kafka: the offset at which reading continues."""
    gathered_topic: str
    """The name in Kafka of the topic whose records come often, and can wait for each other."""

    def _new_transport(self) -> Any:
        return _ReadCommittedTransport(self.conf.broker_consumer, self)


class FaustApplication:
    """Reads all topics of a master from given offsets on and hands each record to `on_record`."""

    def __init__(self, bootstrap: str, cluster_id: str, group: str, offsets: Mapping[Topic, int], on_record: OnRecord) -> None:
        """Declare the agents; `offsets` says where each topic begins."""
        self._topics = {topic: topic_name(cluster_id, topic) for topic in offsets}
        self._on_record = on_record
        self._directory = tempfile.TemporaryDirectory(prefix="eventflink-faust-")  # Faust wants one, and keeps nothing in it here.
        self._app = _Application(
            group,
            datadir=self._directory.name,
            broker=[f"kafka://{server.strip()}" for server in bootstrap.split(",")],
            store="memory://",
            web_enabled=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            topic_partitions=1,
            consumer_auto_offset_reset="none",
            consumer_max_fetch_size=FETCH_BYTES,
            stream_buffer_maxsize=BUFFER_RECORDS,
            stream_wait_empty=False,
            broker_commit_interval=3600.0,  # positions live in the state, never in the group (P6)
            broker_commit_livelock_soft_timeout=10 * 365 * 86_400.0,
            broker_heartbeat_interval=3.0,
            broker_session_timeout=30.0,
            key_serializer="raw",
            value_serializer="raw",
        )
        self._app.gathered_topic = topic_name(cluster_id, Topic.HEARTBEATS)
        self._app.next_offsets = {self._topics[topic]: offset for topic, offset in offsets.items()}
        for topic, name in self._topics.items():
            self._declare_agent(topic, name)

    @property
    def has_failed(self) -> bool:
        """Tell whether Faust has given up."""
        return bool(self._app.crashed or self._app.should_stop)

    def _declare_agent(self, topic: Topic, name: str) -> None:
        channel = self._app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", partitions=1)
        on_record, next_offsets = self._on_record, self._app.next_offsets

        async def read(stream: Any) -> None:
            async for event in stream.events():
                message = event.message
                next_offsets[name] = max(next_offsets[name], message.offset + 1)
                waiting = on_record(topic, message)
                if waiting is not None:
                    await waiting

        self._app.agent(channel, name=f"read-{topic}")(read)

    async def start(self) -> None:
        """Start and wait until every partition is assigned.

        Raises:
            TimeoutError: they were not within a minute.

        """
        self._app.finalize()
        await self._app.start()
        wanted = {TP(name, 0) for name in self._topics.values()}
        async with asyncio.timeout(START_TIMEOUT_S):
            while not wanted <= set(self._app.consumer.assignment()) or not self._app.flow_control.is_active():  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # Faust signals neither of the two.

    def held_back(self) -> dict[Topic, int]:
        """Return how many offsets of each topic lie behind a client's open transaction, and are not read before it ends (P11)."""
        consumer = self._app.consumer._thread._consumer  # noqa: SLF001 - Faust hands out neither of the two offsets
        found: dict[Topic, int] = {}
        for topic, name in self._topics.items():
            partition = TP(name, 0)
            if consumer is None or partition not in consumer.assignment():
                continue
            stable, end = consumer.last_stable_offset(partition), consumer.highwater(partition)
            if stable is not None and end is not None and 0 <= stable < end:
                found[topic] = end - stable
        return found

    def end_offset(self, topic: Topic) -> int | None:
        """Return the topic's end offset in the broker's last answer; None before the first one."""
        consumer = self._app.consumer._thread._consumer  # noqa: SLF001 - Faust does not hand it out
        partition = TP(self._topics[topic], 0)
        if consumer is None or partition not in consumer.assignment():
            return None
        end: int | None = consumer.highwater(partition)
        return end

    def pause(self, topic: Topic) -> None:
        """Fetch no more of a topic: its inbox is full. What was fetched already still comes."""
        self._app.consumer.pause_partitions({TP(self._topics[topic], 0)})

    def resume(self, topic: Topic) -> None:
        """Fetch a topic again."""
        self._app.consumer.resume_partitions({TP(self._topics[topic], 0)})

    async def stop(self) -> None:
        """Leave the group and close every connection."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._app.stop()
        except TimeoutError:
            _logger.warning("FaustStopTimedOut seconds=%s", START_TIMEOUT_S)
        self._directory.cleanup()

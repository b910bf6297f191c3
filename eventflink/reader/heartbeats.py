"""When each TaskManager was heard of last: what the topic `heartbeats` says while this process runs, by Kafka's stamps.

Heartbeats are no events: no state holds them, and nothing is decided here. What came before this process began is not read.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from confluent_kafka import OFFSET_END, Message

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.inputs import Heartbeat
from eventflink.events.seal import Seals
from eventflink.events.topics import Topic, topic_name
from eventflink.log.topic_reader import TopicReader
from eventflink.model.cluster_access import ClusterAccess

MAX_INSTANCES: Final = 20_000
"""The most of which it is remembered; those that were silent for longest are forgotten."""

_GATHERING_MS: Final = 500
_LOOK_S: Final = 0.5
_PAUSE_S: Final = 5.0
_CLOSE_TIMEOUT_S: Final = 5.0

_logger = logging.getLogger(__name__)


class Heartbeats:
    """The newest heartbeat of each instance. One thread takes, and any may ask."""

    def __init__(self, seals: Seals) -> None:
        """Know of none."""
        self._codec = PayloadCodec("HeartbeatEnvelope", seal=seals.of(Topic.HEARTBEATS))
        self._heard_ms: OrderedDict[str, int] = OrderedDict()

    def take(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Take records as (timestamp, value); those that are no heartbeats are passed over."""
        for stamped_at_ms, value in records:
            with suppress(UndecodableRecord):
                payload, _ = self._codec.decode(value)
                if isinstance(payload, Heartbeat):
                    self._heard_ms[payload.instance_id] = stamped_at_ms
                    self._heard_ms.move_to_end(payload.instance_id)
        while len(self._heard_ms) > MAX_INSTANCES:
            self._heard_ms.popitem(last=False)

    def newest_of(self, instance_id: str) -> int | None:
        """Return when the newest heartbeat of an instance was stamped, in milliseconds since 1970; None: none was read."""
        return self._heard_ms.get(instance_id)


class HeartbeatFollower:
    """Has `Heartbeats` take what comes. For one event loop."""

    def __init__(self, access: ClusterAccess, heartbeats: Heartbeats) -> None:
        """Prepare; nothing is read before `start`."""
        self._access = access
        self._topic = topic_name(access.cluster_id, Topic.HEARTBEATS)
        self._heartbeats = heartbeats
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the topic from its present end on; where it cannot be read, it is tried again after a pause."""
        self._keeper = asyncio.create_task(self._keep(), name="heartbeats")

    async def stop(self) -> None:
        """Let the topic go."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper

    async def _keep(self) -> None:
        reader = self._read()
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                if not reader.failure:
                    continue
                _logger.warning("HeartbeatsNotRead retry_s=%g reason=%s", _PAUSE_S, reader.failure)
                await asyncio.sleep(_PAUSE_S)
                reader = self._read()
        finally:
            reader.close()
            await asyncio.to_thread(reader.join, _CLOSE_TIMEOUT_S)

    def _read(self) -> TopicReader:
        """Return a reader that has begun; one that has failed has ended."""
        reader = TopicReader(self._access.kafka, self._topic, OFFSET_END, gathering_ms=_GATHERING_MS)
        reader.start(partial(self._take, reader))
        return reader

    def _take(self, reader: TopicReader, messages: list[Message]) -> None:
        self._heartbeats.take((message.timestamp()[1], message.value() or b"") for message in messages)
        reader.give_back()

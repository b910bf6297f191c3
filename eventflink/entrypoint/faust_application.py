"""The Faust application of a master: one agent per topic, each of which only hands its records on.

An agent reads batches from a channel in memory, and a `TopicReader` of its own puts them there. So a topic never waits for another one,
neither for its fetch nor for its agent, and Faust's own consumer, producer, tables and rebalances are never started. What an agent has
not taken yet is bounded by its reader's credit (L3).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import faust
from confluent_kafka import Message
from faust.app.base import BootStrategy
from mode.supervisors import CrashingSupervisor

from eventflink.events.topics import INBOUND, Topic, topic_name
from eventflink.log.topic_reader import GATHERING_MS, TopicReader
from eventflink.model.cluster_access import ClusterAccess

_logger = logging.getLogger(__name__)

OnRecord = Callable[[Topic, Message], Awaitable[None] | None]
"""Called with a topic and each of its records, in order; the next one waits until what it returns has ended."""

STOP_TIMEOUT_S = 10.0

_LEADERSHIP_GATHERING_MS: Final = 500
"""How long a leader gathers records of `leadership`: most are its own heartbeats, ten a second, and none is urgent."""

_LEADERSHIP_SETTINGS: Final = {"queued.min.messages": 100}
"""What is gathered there is fetched as it comes: else librdkafka would look each millisecond whether it may fetch again."""


class _AgentsOnly(BootStrategy):  # type: ignore[misc]
    enable_kafka = False
    enable_sensors = False


class _Application(faust.App):  # type: ignore[misc]
    BootStrategy = _AgentsOnly

    def _create_directories(self) -> None:
        """Make none: there are no tables. A master that is killed would leave them behind."""


class FaustApplication:
    """Reads all topics of a master from given offsets on and hands each record to `on_record`."""

    def __init__(self, access: ClusterAccess, offsets: Mapping[Topic, int], on_record: OnRecord) -> None:
        """Declare the agents; `offsets` says where each topic begins."""
        self._on_record = on_record
        self._app = _Application(access.cluster_id, store="memory://", web_enabled=False, agent_supervisor=CrashingSupervisor)
        self._readers = {
            topic: TopicReader(
                access.kafka,
                topic_name(access.cluster_id, topic),
                offset,
                _LEADERSHIP_SETTINGS if topic is Topic.LEADERSHIP else {},
                gathering_ms=_LEADERSHIP_GATHERING_MS if topic is Topic.LEADERSHIP else GATHERING_MS,
                is_committed=topic in INBOUND,
                is_dense=topic is Topic.LOG,
            )
            for topic, offset in offsets.items()
        }
        for topic, reader in self._readers.items():
            reader.be_prompt(is_waited_for=topic is Topic.LEADERSHIP)
            self._declare_agent(topic, reader)

    @property
    def failure(self) -> str:
        """Why nothing more is to be expected; empty while it is."""
        if self._app.crashed or self._app.should_stop:
            return "Faust has stopped"
        return next((reader.failure for reader in self._readers.values() if reader.failure), "")

    def _declare_agent(self, topic: Topic, reader: TopicReader) -> None:
        on_record = self._on_record

        async def read(batches: Any) -> None:
            loop, put = asyncio.get_running_loop(), batches.channel.queue.put_nowait
            reader.start(lambda messages: loop.call_soon_threadsafe(put, messages))
            async for messages in batches:
                for message in messages:
                    waiting = on_record(topic, message)
                    if waiting is not None:
                        await waiting
                reader.give_back()

        # As the decorator `agent` does, which also has Venusian look in all modules for where the function stands: 10 ms for each of them.
        agent = self._app.conf.Agent(read, name=f"read-{topic}", app=self._app, channel=self._app.channel(maxsize=0))
        self._app.agents[agent.name] = agent

    async def start(self) -> None:
        """Start the agents, and each of them its reader."""
        self._app.finalize()
        await self._app.start()

    def held_back(self) -> dict[Topic, int]:
        """Return how many offsets of each topic lie behind a client's open transaction, and are not read before it ends (P11)."""
        return {topic: reader.held_back for topic, reader in self._readers.items() if reader.held_back}

    def end_offset(self, topic: Topic) -> int | None:
        """Return the topic's end offset in the broker's last answer; None before the first one."""
        return self._readers[topic].end_offset

    def be_prompt(self, *, is_waited_for: bool) -> None:
        """Say whether somebody waits for the log and the inputs; if not, for what masters say. The others come together, and later."""
        for topic in {Topic.LOG, Topic.LEADERSHIP, *INBOUND} & self._readers.keys():
            self._readers[topic].be_prompt(is_waited_for=is_waited_for is not (topic is Topic.LEADERSHIP))

    def pause(self, topic: Topic) -> None:
        """Read no more of a topic: its inbox is full. What was handed out already still comes."""
        self._readers[topic].pause()

    def resume(self, topic: Topic) -> None:
        """Read a topic again."""
        self._readers[topic].resume()

    async def stop(self) -> None:
        """Close every connection."""
        await self._app.stop()
        if not await asyncio.to_thread(self._end_readers):
            _logger.warning("ReadersNotClosed seconds=%s", STOP_TIMEOUT_S)

    def _end_readers(self) -> bool:
        for reader in self._readers.values():
            reader.close()
        return all(reader.join(STOP_TIMEOUT_S) for reader in self._readers.values())

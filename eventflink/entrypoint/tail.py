"""What a master reads: every topic, through Faust, from where the state says. Its records go to an `Intake`, in the order of each topic.

A tail may outlive terms; when it is closed is decided in `leadership/master_life.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from confluent_kafka import KafkaException, Message

from eventflink.entrypoint.clocks import monotonic_ms
from eventflink.entrypoint.faust_application import FaustApplication
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.entrypoint.transaction_aborter import TransactionAborter
from eventflink.events.topics import INBOUND, Topic, topic_name
from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import HEARD_BACK_RECORDS, InboundTopic, Intake, TailFailed
from eventflink.leadership.known_log import place_inbound
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import AdministrationError, topic_ids
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.processes.trace import stamp

_logger = logging.getLogger(__name__)

HELD_BACK_CHECK_MS = 1_000
HELD_BACK_ALARM_MS = 10_000
"""A transaction that holds a topic back for so long is logged, again and again."""

TOPIC_CHECK_S = 10.0
"""How often a master looks whether the inbound topics are still the same."""


class Tail:
    """The reading half of a master."""

    def __init__(
        self, configuration: Configuration, access: ClusterAccess, registry: SchemaRegistryClient, rebound: Collection[str]
    ) -> None:
        """Prepare; nothing is read yet. `rebound` names inbound topics whose cursors an operator rebinds."""
        self._configuration = configuration
        self._access = access
        self._registry = registry
        self._rebound = rebound
        self._application: FaustApplication | None = None
        self._is_prompt = False
        self._held_back_since: dict[Topic, int] = {}
        self._next_held_back_check_ms = 0
        self._aborter = TransactionAborter(access.kafka, configuration.abort_transactions_after_ms, monotonic_ms)
        self._topics: dict[str, InboundTopic] = {}
        self._watch: asyncio.Task[None] | None = None
        self._replaced = ""
        """Which inbound topic was deleted and created again since the start; empty: none, as far as is known."""
        self.intake = Intake(self._topics, configuration.inbox_size, self._pause, self._resume)
        self.on_progress: Callable[[], None] = nothing

    async def start(self, fold: Fold) -> None:
        """Begin to read: the log behind the fold, inputs at its cursors, heartbeats at their end, what masters said a little before.

        Raises:
            TopicReplaced: an inbound topic was deleted and created again.
            LogTruncated: an inbound topic ends before its cursor.
            KafkaException, AdministrationError, TimeoutError: Kafka does not answer.

        """
        access = self._access
        ids = await asyncio.to_thread(topic_ids, access)
        names = {topic: topic_name(access.cluster_id, topic) for topic in (*INBOUND, Topic.HEARTBEATS, Topic.LEADERSHIP)}
        marks = await asyncio.to_thread(AdminConnection(access.kafka).read_watermarks, [(name, 0) for name in names.values()])
        said = marks[names[Topic.LEADERSHIP], 0]
        offsets = {
            Topic.LOG: fold.last_offset + 1,
            Topic.HEARTBEATS: marks[names[Topic.HEARTBEATS], 0].high,
            Topic.LEADERSHIP: max(said.low, said.high - HEARD_BACK_RECORDS),
        }
        for topic in INBOUND:
            found = InboundTopic(ids[topic], marks[names[topic], 0].low, marks[names[topic], 0].high)
            cursor = fold.master.requests.cursors.get(topic)
            self._topics[topic], offsets[topic] = place_inbound(topic, cursor, found, may_rebind=topic in self._rebound)
        self._application = FaustApplication(access, offsets, self._on_record)
        await self._application.start()
        self._watch = asyncio.create_task(self._watch_topics())

    async def _watch_topics(self) -> None:
        """See an inbound topic replaced while it is read: where the new one has records, reading on fails for nobody (P9)."""
        while not self._replaced:
            await asyncio.sleep(TOPIC_CHECK_S)
            try:
                ids = await asyncio.to_thread(topic_ids, self._access)
            except (AdministrationError, KafkaException, TimeoutError):
                continue  # Whether it can be read is for the readers to say.
            changed = [topic for topic in INBOUND if (known := self._topics[topic].topic_id) and ids[topic] not in ("", known)]
            self._replaced = ", ".join(changed)

    def check(self) -> None:
        """Raise `TailFailed` if nothing more is to be expected, or what comes is not what the cursors mean: a new start says more."""
        if self._application is not None and (failure := self._application.failure):
            raise TailFailed(failure)
        if self._replaced:
            raise TailFailed(f"topics deleted and created again: {self._replaced}")
        now = monotonic_ms()
        if now >= self._next_held_back_check_ms:
            self._next_held_back_check_ms = now + HELD_BACK_CHECK_MS
            self._check_transactions(now)

    def _check_transactions(self, now: int) -> None:
        """Raise the alarm where a client's open transaction keeps others' records from being read; a leader ends it (P11)."""
        held_back = self.held_back()
        listener = self.intake.listener
        leads = listener is not None and listener.decides
        self._aborter.look([topic_name(self._configuration.cluster_id, topic) for topic in held_back] if leads else [])
        self._held_back_since = {topic: self._held_back_since.get(topic, now) for topic in held_back}
        for topic, since in self._held_back_since.items():
            if now - since >= HELD_BACK_ALARM_MS:
                _logger.warning(
                    "TransactionHangs topic=%s held_back=%d seconds=%d: a client's open transaction holds the topic back",
                    topic,
                    held_back[topic],
                    (now - since) // 1000,
                )

    def log_end_offset(self) -> int | None:
        """Return where the log ended by the broker's last answer; None before there was one."""
        return self._application.end_offset(Topic.LOG) if self._application is not None else None

    def held_back(self) -> dict[Topic, int]:
        """Return how many records of which topics a client's open transaction holds back now (P11)."""
        return self._application.held_back() if self._application is not None else {}

    def be_prompt(self, *, is_waited_for: bool) -> None:
        """Say whether this master leads, or is about to: a standby's records may come together, and what masters say to a leader."""
        if self._application is not None and is_waited_for != self._is_prompt:
            self._is_prompt = is_waited_for
            self._application.be_prompt(is_waited_for=is_waited_for)

    def _pause(self, topic: Topic) -> None:
        if self._application is not None:
            self._application.pause(topic)

    def _resume(self, topic: Topic) -> None:
        if self._application is not None:
            self._application.resume(topic)

    async def stop(self) -> None:
        """Close every connection."""
        self._aborter.close()
        if self._watch is not None:
            self._watch.cancel()
        if self._application is not None:
            await self._application.stop()

    def _on_record(self, topic: Topic, message: Message) -> Awaitable[None] | None:
        """Hand one record in; agents call this in the event loop."""
        if topic in INBOUND and (schema_id := self._registry.needs(message.value())) is not None:
            return self._fetch_then_enqueue(schema_id, topic, message)
        self._enqueue(topic, message)
        return None

    async def _fetch_then_enqueue(self, schema_id: int, topic: Topic, message: Message) -> None:
        await self._registry.fetch(schema_id)
        self._enqueue(topic, message)

    def _enqueue(self, topic: Topic, message: Message) -> None:
        offset, (_, timestamp_ms) = message.offset(), message.timestamp()
        stamp("received", topic, offset=offset)
        if self.intake.on_record(topic, offset, timestamp_ms, message.key(), message.value(), monotonic_ms()):
            self.on_progress()


def nothing() -> None:
    """Do nothing: no term runs."""

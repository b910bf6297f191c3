"""The TaskExecutor's three threads to Kafka: effects in, reports and heartbeats out.

Everything that Kafka delivers is put into one bounded inbox as an `Input`, to be called by the main loop with the time; nothing is
decided here. Effects are read from the end of this TaskManager's partition of `deployments` on (P12) with positions that are never
committed; a hole is reported, and what is for others is dropped by its key.

The reader of effects stands apart from those of `log`: it chooses its partition again behind a hole, and an error costs it the records of
that hole alone, never those that came with the error. So do the producers: each record's fate is an input of the protocol, and
one that delivers nothing is replaced.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from eventflink.events.codec import UndecodableRecord
from eventflink.events.inputs import Heartbeat, TaskManagerReport
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic, deployment_partition, topic_name
from eventflink.log.clients import new_consumer, new_producer
from eventflink.log.refusals import explain
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.texts import is_told
from eventflink.processes.trace import stamp
from eventflink.taskexecutor.protocol import Action, Input, TaskExecutorProtocol
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for

_LOGGER = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_FETCH_WAIT_MS: Final = 500
"""How long the broker holds a fetch that finds nothing, and the first record ends it: an idle host asks seldom."""
_METADATA_TIMEOUT_S: Final = 5.0
_RETRY_S: Final = 0.5
_REPORT_TIMEOUT_MS: Final = 10_000
_STUCK_AFTER_MS: Final = 5_000
_PROMPT_MS: Final = 1_000
_TROUBLE_INTERVAL_S: Final = 10.0


def client_configuration(client_id: str) -> dict[str, Any]:
    """Return what every client of this process wants beside the settings of all: to find a broker soon that comes back, and to say so."""
    return {"client.id": client_id, "reconnect.backoff.ms": 50, "retry.backoff.ms": 50, "error_cb": _Troubles()}


class Inbox:
    """The bounded queue before the main loop; a thread that is faster than the loop waits, until the inbox is closed."""

    def __init__(self, capacity: int = 10_000) -> None:
        self._queue: queue.Queue[Input] = queue.Queue(capacity)
        self._closed = threading.Event()

    def put_input(self, item: Input) -> None:
        """Hand the item to the main loop; without effect once closed."""
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return

    def take_inputs(self, timeout_s: float, limit: int) -> list[Input]:
        """Return what is there, at most `limit`; wait for the first at most `timeout_s`."""
        items: list[Input] = []
        try:
            items.append(self._queue.get(timeout=timeout_s))
            while len(items) < limit:
                items.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return items

    def try_put_input(self, item: Input) -> bool:
        """Hand the item to the main loop if there is room for it; tell whether there was."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return False
        return not self._closed.is_set()

    def __len__(self) -> int:
        return self._queue.qsize()

    def close(self) -> None:
        """Take nothing more, and release the threads that wait."""
        self._closed.set()


class _Troubles:
    """Logs what a client complains of, at most once in a while: it repeats itself many times a second."""

    def __init__(self) -> None:
        self._last_s = -_TROUBLE_INTERVAL_S

    def __call__(self, error: KafkaError) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= _TROUBLE_INTERVAL_S:
            self._last_s = now_s
            _LOGGER.warning("KafkaTrouble error=%s", error)


class EffectsReader:
    """Reads its partition of `deployments` in a thread of its own, from the end that it had when the thread began."""

    def __init__(self, access: ClusterAccess, task_manager_id: str, inbox: Inbox, protocol: TaskExecutorProtocol) -> None:
        """Prepare the consumer; nothing is read yet."""
        self._access = access
        self._topic = topic_name(access.cluster_id, Topic.DEPLOYMENTS)
        self._task_manager_id = task_manager_id
        self._partition = 0
        """Its own; the protocol tells the master."""
        self._inbox = inbox
        self._protocol = protocol
        self._codecs = TaskExecutorCodecs(seals_of(access))
        self._undecodable = 0
        self._closing = threading.Event()
        # Masters write in no transactions, and those of others hold nobody up: what is uncommitted is read.
        own = client_configuration(task_manager_id) | {"fetch.wait.max.ms": _FETCH_WAIT_MS}
        self._consumer = new_consumer(access.kafka, own)
        self._thread = threading.Thread(target=self._run, name="effects-reader", daemon=True)

    def start(self) -> None:
        """Begin; `on_positioned` is the first input, as soon as no later effect can be missed."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End the thread."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        self._position()
        self._inbox.put_input(partial(self._protocol.on_positioned, self._partition))
        while not self._closing.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._deliver(message)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001 - public, named so
                self._skip_hole(str(error))
            else:
                _LOGGER.warning("EffectsUnreadable topic=%s error=%s", self._topic, self._explain(error))
        self._consumer.close()

    def _position(self) -> None:
        """Choose a partition and stand at its end. The offset is asked for here: `OFFSET_END` would be looked up at some later time."""
        while not self._closing.is_set():
            try:
                partition = self._choose_partition()
                _, end = self._consumer.get_watermark_offsets(partition, timeout=_METADATA_TIMEOUT_S)
            except KafkaException as error:
                _LOGGER.warning("EffectsNotPositioned topic=%s error=%s", self._topic, self._explain(self._ask_why(error.args[0])))
                self._closing.wait(_RETRY_S)
                continue
            partition.offset = end
            self._partition = partition.partition
            self._consumer.assign([partition])
            _LOGGER.info("EffectsPositioned topic=%s partition=%d offset=%d", self._topic, partition.partition, end)
            return

    def _ask_why(self, error: KafkaError) -> KafkaError:
        """Return what Kafka says of a topic that the client does not know; asked so, the client learns of it when it may see it."""
        if error.code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - public, named so
            return error
        try:
            return self._consumer.list_topics(self._topic, timeout=_METADATA_TIMEOUT_S).topics[self._topic].error or error
        except KafkaException as unanswered:
            cause: KafkaError = unanswered.args[0]
            return cause

    def _explain(self, error: KafkaError) -> str:
        return explain(error, self._access.kafka, "Read", self._topic)

    def _choose_partition(self) -> TopicPartition:
        """Return one of those that the topic has now; it may get more at any time.

        Raises:
            KafkaException: Kafka does not answer, or there is no such topic.

        """
        metadata = self._consumer.list_topics(self._topic, timeout=_METADATA_TIMEOUT_S).topics[self._topic]
        if metadata.error is not None or not metadata.partitions:
            raise KafkaException(metadata.error or KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return TopicPartition(self._topic, deployment_partition(self._task_manager_id, len(metadata.partitions)))

    def _skip_hole(self, reason: str) -> None:
        _LOGGER.error("EffectsLost topic=%s reason=%s", self._topic, reason)
        self._position()
        text = f"effects of {self._topic} may have been missed: {reason}"
        self._inbox.put_input(partial(self._protocol.on_effects_lost, text, self._partition))

    def _deliver(self, message: Message) -> None:
        if not is_for(message.key(), self._task_manager_id):
            return
        stamp("received", Topic.DEPLOYMENTS, offset=message.offset() or 0)
        try:
            envelope = self._codecs.decode_deployment(message.value() or b"")
        except UndecodableRecord as error:
            self._undecodable += 1
            if is_told(self._undecodable):
                where = f"topic={self._topic} offset={message.offset()} count={self._undecodable}"
                _LOGGER.warning("EffectUndecodable %s reason=%s", where, error)
            return
        self._inbox.put_input(partial(self._protocol.on_deployment, envelope))


class _PolledProducer:
    """A producer with the thread that serves its delivery callbacks."""

    def __init__(self, make: Callable[[], Producer], name: str) -> None:
        self._make = make
        self._producer = make()
        self._broken = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def produce(self, topic: str, key: str, value: bytes, on_delivery: Callable[[KafkaError | None], None]) -> None:
        """Append a record; the callback comes in any case, with the error if there is one."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            self._broken = self._broken or (error is not None and error.fatal())
            on_delivery(error)

        try:
            self._producer.produce(topic, value, key, partition=0, on_delivery=delivered)
        except BufferError:
            on_delivery(KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001 - public, named so
        except KafkaException as error:
            # One that Kafka gave no producer id, for want of a right, says so of each record, by another code than that of the fatal error.
            self._broken = self._broken or error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL  # noqa: SLF001 - public, named so
            on_delivery(error.args[0])

    def renew(self) -> None:
        """Replace the producer soon; records that wait come back as not delivered."""
        self._broken = True

    def close(self, timeout_s: float) -> int:
        """Deliver what is waiting; return how many records were not delivered in time."""
        left = int(self._producer.flush(timeout_s))
        self._closing.set()
        self._thread.join(timeout_s)
        return left

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as error:  # A fatal one is raised here, where no record waits that it could be told of.
                _LOGGER.warning("ProducerFailed thread=%s error=%s", self._thread.name, error)
                self._broken = True
                self._closing.wait(_POLL_S)
            if self._broken:
                self._replace()

    def _replace(self) -> None:
        """Replace the producer: after a fatal error (a fenced or confused idempotent producer), or stuck, it delivers nothing more."""
        _LOGGER.error("ProducerReplaced thread=%s", self._thread.name)
        old, self._producer = self._producer, self._make()
        self._broken = False
        old.purge()
        old.flush(_POLL_S)


class ReportsWriter:
    """Appends reports and heartbeats, and tells the protocol what became of them."""

    def __init__(
        self,
        access: ClusterAccess,
        task_manager_id: str,
        heartbeat_timeout_ms: int,
        inbox: Inbox,
        protocol: TaskExecutorProtocol,
    ) -> None:
        """Open the producers; a heartbeat that is not delivered within `heartbeat_timeout_ms` is given up."""
        self._access = access
        self._task_manager_id = task_manager_id
        self._inbox = inbox
        self._protocol = protocol
        self._codecs = TaskExecutorCodecs(seals_of(access))
        self._reports_topic = topic_name(access.cluster_id, Topic.TASKMANAGERS)
        self._heartbeats_topic = topic_name(access.cluster_id, Topic.HEARTBEATS)
        self._prompt_heartbeat_sent_at_ms = 0
        """When the newest heartbeat was sent that Kafka acknowledged at once."""
        common = client_configuration(task_manager_id)
        self._reports = _PolledProducer(partial(new_producer, access.kafka, _REPORT_TIMEOUT_MS, common), "reports-producer")
        # A producer of its own: heartbeats neither wait behind reports nor keep them waiting.
        unordered = common | {"enable.idempotence": False}
        self._heartbeats = _PolledProducer(partial(new_producer, access.kafka, heartbeat_timeout_ms, unordered), "heartbeats-producer")

    def send_reports(self, reports: Sequence[TaskManagerReport], sent_at_ms: int) -> None:
        """Append the reports, in order."""
        for record, value in self._codecs.encode_reports(reports):
            self._send_record(record, value, sent_at_ms)

    def _send_record(self, reports: Sequence[TaskManagerReport], value: bytes, sent_at_ms: int) -> None:
        def on_delivery(error: KafkaError | None) -> None:
            if error is None:
                self._inbox.put_input(lambda now_ms: self._protocol.on_reports_delivered(reports, now_ms))
                return
            _LOGGER.warning("ReportsNotDelivered reports=%d error=%s", len(reports), self._explain(error, self._reports_topic))
            is_late = error.code() == KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - public, named so
            self._inbox.put_input(lambda now_ms: self._on_reports_failed(reports, sent_at_ms if is_late else None, now_ms))

        stamp("produced", Topic.TASKMANAGERS)
        self._reports.produce(self._reports_topic, self._task_manager_id, value, on_delivery)

    def send_heartbeat(self, heartbeat: Heartbeat, sent_at_ms: int) -> None:
        """Append the heartbeat."""

        def on_delivery(error: KafkaError | None) -> None:
            if error is None:
                self._inbox.put_input(lambda now_ms: self._on_heartbeat_acknowledged(sent_at_ms, now_ms))
            else:
                reason = self._explain(error, self._heartbeats_topic)
                _LOGGER.warning("HeartbeatNotDelivered instance=%s sequence=%d error=%s", heartbeat.instance_id, heartbeat.sequence, reason)

        self._heartbeats.produce(self._heartbeats_topic, self._task_manager_id, self._codecs.encode_heartbeat(heartbeat), on_delivery)

    def _explain(self, error: KafkaError, topic: str) -> str:
        return explain(error, self._access.kafka, "Write", topic)

    def _on_reports_failed(self, reports: Sequence[TaskManagerReport], late_since_ms: int | None, now_ms: int) -> list[Action]:
        """Tell the protocol; where heartbeats that were sent well after the reports got through at once, the producer of reports is stuck.

        An idempotent producer of librdkafka that lost its broker at the wrong moment delivers nothing more, and says so of nothing but each
        record. Kafka serves others meanwhile, so nothing of the old producer still waits there to come behind what the new one sends.
        """
        if late_since_ms is not None and self._prompt_heartbeat_sent_at_ms >= late_since_ms + _STUCK_AFTER_MS:
            self._reports.renew()
        return self._protocol.on_reports_failed(reports, now_ms)

    def _on_heartbeat_acknowledged(self, sent_at_ms: int, now_ms: int) -> list[Action]:
        if now_ms - sent_at_ms <= _PROMPT_MS:
            self._prompt_heartbeat_sent_at_ms = max(self._prompt_heartbeat_sent_at_ms, sent_at_ms)
        return self._protocol.on_heartbeat_acknowledged(sent_at_ms, now_ms)

    def close(self, timeout_s: float) -> int:
        """Deliver what is waiting, for at most `timeout_s`; return how many reports were not delivered."""
        left = self._reports.close(timeout_s)
        self._heartbeats.close(0.2)
        return left

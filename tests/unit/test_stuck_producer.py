"""A producer of reports that delivers nothing although Kafka takes heartbeats is replaced; one that waits for Kafka itself is not."""

import logging
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from eventflink.events.inputs import Disconnection
from eventflink.leadership.ports import AppendFailed
from eventflink.log.producers import EffectProducer, LogAppender
from eventflink.model.cluster_access import access_to
from eventflink.taskexecutor import kafka_links
from eventflink.taskexecutor.kafka_links import Inbox, ReportsWriter
from eventflink.taskexecutor.protocol import ProtocolSettings, TaskExecutorProtocol
from tests.support.hand import NOWHERE

SENT_AT_MS = 10_000
REPORT = Disconnection("tm", "instance", "stopped in order")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.close()


@pytest.fixture
def writer(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReportsWriter]:
    """One whose Kafka is not there, so what it sends comes back as late after half a second."""
    monkeypatch.setattr(kafka_links, "_REPORT_TIMEOUT_MS", 500)
    settings = ProtocolSettings(
        task_manager_id="tm",
        host="here",
        process_id=1,
        slot_count=1,
        heartbeat_interval_ms=1_000,
        self_fence_timeout_ms=3_500,
        kill_timeout_ms=1_000,
    )
    writer = ReportsWriter(access_to(NOWHERE, "nowhere"), "tm", 500, inbox, TaskExecutorProtocol(settings))
    yield writer
    writer.close(0)


def _send_in_vain(writer: ReportsWriter, inbox: Inbox) -> None:
    """Send a report and take the word that it was not delivered."""
    writer.send_reports([REPORT], SENT_AT_MS)
    [told] = inbox.take_inputs(10, 1)
    told(SENT_AT_MS + 10_000)


def test_a_producer_is_replaced_that_delivers_nothing_while_later_heartbeats_get_through(
    writer: ReportsWriter, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    writer._on_heartbeat_acknowledged(SENT_AT_MS + 6_000, SENT_AT_MS + 6_010)
    stuck = writer._reports._producer
    with caplog.at_level(logging.ERROR):
        _send_in_vain(writer, inbox)
        deadline = time.monotonic() + 10
        while writer._reports._producer is stuck and time.monotonic() < deadline:
            time.sleep(0.02)
    assert writer._reports._producer is not stuck
    assert "ProducerReplaced thread=reports-producer" in caplog.text


@pytest.mark.parametrize(
    ("heartbeat_sent_at_ms", "acknowledged_at_ms"),
    [(SENT_AT_MS + 1_000, SENT_AT_MS + 1_010), (SENT_AT_MS + 6_000, SENT_AT_MS + 9_000)],
    ids=["Kafka may have gone since", "Kafka has only just come back"],
)
def test_a_producer_is_kept_where_kafka_itself_may_be_what_is_waited_for(
    writer: ReportsWriter, inbox: Inbox, heartbeat_sent_at_ms: int, acknowledged_at_ms: int
) -> None:
    writer._on_heartbeat_acknowledged(heartbeat_sent_at_ms, acknowledged_at_ms)
    patient = writer._reports._producer
    _send_in_vain(writer, inbox)
    assert not writer._reports._broken
    assert writer._reports._producer is patient


class _Failed:
    """A producer in which librdkafka has met a fatal error while no record waited: it raises where it is polled."""

    def poll(self, _timeout_s: float) -> int:
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no producer id", fatal=True))

    def purge(self) -> None: ...

    def flush(self, _timeout_s: float) -> int:
        return 0


def test_a_producer_that_fails_while_nothing_waits_is_replaced(writer: ReportsWriter) -> None:
    writer._reports._producer = failed = _Failed()
    deadline = time.monotonic() + 60
    while writer._reports._producer is failed:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert isinstance(writer._reports._producer, Producer)
    assert writer._reports._thread.is_alive()


def test_a_leader_hears_of_a_producer_that_fails_while_nothing_waits() -> None:
    appender = LogAppender(access_to(NOWHERE, "nowhere"), 500)
    appender._producer = _Failed()
    with pytest.raises(AppendFailed, match="no producer id"):
        appender.poll()
    effects = EffectProducer(access_to(NOWHERE, "nowhere"))
    effects._producer = _Failed()
    effects.poll()
    assert effects.failed_count == 1

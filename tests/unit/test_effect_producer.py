"""The producers of a leader, with nothing to connect to: an effect that cannot be sent ends nothing."""

import logging

import pytest
from confluent_kafka import Producer

from eventflink.events.topics import Topic
from eventflink.log import clients
from eventflink.log.clients import producer_settings
from eventflink.log.producers import EffectProducer, LogAppender
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import build_configuration
from eventflink.model.kafka_settings import KafkaAccess

NOWHERE = "127.0.0.1:9"


def test_an_effect_that_is_too_large_to_be_sent_is_noted_and_the_next_one_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """A leader that ended at it would be followed by one that has to send the same."""
    producer = EffectProducer(access_to(NOWHERE, "cluster"))
    with caplog.at_level(logging.WARNING, "eventflink.log.producers"):
        producer.produce(Topic.DEPLOYMENTS, "tm", b"x" * 5 * 1024 * 1024)
        producer.produce(Topic.DEPLOYMENTS, "tm", b"small")
    assert producer.failed_count == 1
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("EffectNotDelivered topic=cluster.deployments error=")
    assert "too large" in line


def test_a_queue_that_is_full_costs_the_leader_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait in the loop of the master, for each effect, would be longer than its lease."""
    waits: list[float] = []

    class Watched(Producer):  # type: ignore[misc]  # it has no types
        def poll(self, timeout: float = -1) -> int:
            waits.append(timeout)
            return int(super().poll(0))

    small = producer_settings(KafkaAccess(NOWHERE), 30_000) | {"queue.buffering.max.messages": 1}
    monkeypatch.setattr(clients, "producer_settings", lambda *_: small)
    monkeypatch.setattr(clients, "Producer", Watched)
    producer = EffectProducer(access_to(NOWHERE, "cluster"))
    for _ in range(3):
        producer.produce(Topic.REPLIES, "request", b"answer")
    assert producer.failed_count == 2
    assert set(waits) == {0}


def test_the_longest_lease_is_one_within_which_decisions_can_be_written() -> None:
    """Else a master would begin one term after the other, and never lead."""
    LogAppender(access_to(NOWHERE, "cluster"), build_configuration({"high-availability.lease-timeout": 900_000}, "f").lease_timeout_ms)

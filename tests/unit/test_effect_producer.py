"""The producer of effects, with nothing to connect to: what it cannot send ends nothing."""

import logging

import pytest

from eventflink.events.topics import Topic
from eventflink.log.producers import EffectProducer

NOWHERE = "127.0.0.1:9"


def test_an_effect_that_is_too_large_to_be_sent_is_noted_and_the_next_one_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """A leader that ended at it would be followed by one that has to send the same."""
    producer = EffectProducer(NOWHERE, "cluster")
    with caplog.at_level(logging.WARNING, "eventflink.log.producers"):
        producer.produce(Topic.DEPLOYMENTS, "tm", b"x" * 5 * 1024 * 1024)
        producer.produce(Topic.DEPLOYMENTS, "tm", b"small")
    assert producer.failed_count == 1
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("EffectNotDelivered topic=cluster.deployments error=")
    assert "too large" in line

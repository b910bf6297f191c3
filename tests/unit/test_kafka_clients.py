"""Clients of Kafka are made in one place, and what the configuration says of Kafka comes before what that place says."""

import ast
from pathlib import Path

from confluent_kafka import Producer

from eventflink.log.clients import consumer_settings, new_consumer, new_producer, producer_settings
from eventflink.model.kafka_settings import KafkaAccess
from tests.support.hand import NOWHERE

PACKAGE = Path(__file__).parents[2] / "eventflink"
MAKERS = {
    "log/clients.py": {"Consumer", "Producer"},
    "log/transactions.py": {"Producer"},
    "streams/edges.py": {"Consumer"},
    "streams/kafka_sink.py": {"Consumer", "Producer"},
}
"""Which files make clients themselves; the head of the first says why the others do."""


def made_in(source: str) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {name for call in calls if (name := getattr(call, "id", getattr(call, "attr", ""))) in ("Consumer", "Producer")}


def test_clients_are_made_in_one_place() -> None:
    made = {path.relative_to(PACKAGE).as_posix(): made_in(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in made.items() if names} == MAKERS


def test_the_configuration_comes_before_what_a_client_wants_and_that_before_what_all_have() -> None:
    kafka = KafkaAccess(NOWHERE, {"reconnect.backoff.max.ms": "7000"})
    own = {"reconnect.backoff.max.ms": 50, "linger.ms": 5}
    assert consumer_settings(kafka, {"fetch.wait.max.ms": 1_000})["fetch.wait.max.ms"] == 1_000
    assert consumer_settings(kafka, own)["reconnect.backoff.max.ms"] == "7000"
    assert producer_settings(kafka, 1_000, own)["reconnect.backoff.max.ms"] == "7000"
    assert producer_settings(kafka, 1_000, own)["linger.ms"] == 5


def test_nothing_that_is_uncommitted_is_waited_for_unless_that_is_said() -> None:
    assert consumer_settings(KafkaAccess(NOWHERE))["isolation.level"] == "read_uncommitted"
    assert consumer_settings(KafkaAccess(NOWHERE), isolation="read_committed")["isolation.level"] == "read_committed"


def test_librdkafka_takes_the_settings() -> None:
    new_consumer(KafkaAccess(NOWHERE)).close()
    assert isinstance(new_producer(KafkaAccess(NOWHERE), 1_000, {"enable.idempotence": False}), Producer)

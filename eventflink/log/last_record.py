"""One record of a process that does nothing else with Kafka: what a guardian says when its owner has died."""

import logging
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from eventflink.events.topics import Topic, topic_name
from eventflink.model.kafka_settings import client_settings

_client_logger: Final = logging.getLogger(__name__)


def produce_last_record(bootstrap: str, cluster_id: str, topic: Topic, key: str, value: bytes, timeout_s: float) -> bool:
    """Append a record to the topic's first partition, perhaps twice; return whether Kafka has it, after `timeout_s` at the latest."""
    outcome: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        outcome.append(error)

    producer = Producer(
        client_settings(bootstrap)
        | {
            "client.id": f"guardian-{key}",
            # Not idempotent, for that takes the first record up to half a second longer; a death that is told twice is the same death.
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": int(timeout_s * 1000),
            "reconnect.backoff.max.ms": 1000,
        },
        logger=_client_logger,
    )
    producer.produce(topic_name(cluster_id, topic), value, key, partition=0, on_delivery=on_delivery)
    producer.flush(timeout_s)
    return outcome == [None]

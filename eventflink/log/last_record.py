"""One record of a process that does nothing else with Kafka: what a guardian says when its owner has died.

It stands apart from `producers`, because a guardian lives beside every master and TaskExecutor, and loads no codec to wait.
"""

from confluent_kafka import KafkaError, Message

from eventflink.events.topics import Topic, topic_name
from eventflink.log.clients import new_producer
from eventflink.model.cluster_access import ClusterAccess


def produce_last_record(access: ClusterAccess, topic: Topic, key: str, value: bytes, timeout_s: float) -> bool:
    """Append a record to the topic's first partition, perhaps twice; return whether Kafka has it, after `timeout_s` at the latest."""
    outcome: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        outcome.append(error)

    # Not idempotent, for that takes the first record up to half a second longer; a death that is told twice is the same death.
    producer = new_producer(access.kafka, int(timeout_s * 1000), {"client.id": f"guardian-{key}", "enable.idempotence": False})
    producer.produce(topic_name(access.cluster_id, topic), value, key, partition=0, on_delivery=on_delivery)
    producer.flush(timeout_s)
    return outcome == [None]

"""What a stream asks Kafka before it starts: whether a topic is there, and which partitions it has."""

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eventflink.streams.failures import StreamUnusable

_TIMEOUT_S: Final = 15.0


def partition_count(bootstrap: str, topic: str, what: str) -> int:
    """Return how many partitions a topic has.

    Args:
        bootstrap: the Kafka to ask.
        topic: its name.
        what: the source or sink that names it, for the message.

    Raises:
        StreamUnusable: there is no such topic, or Kafka does not answer.

    """
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        metadata = client.list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise StreamUnusable(f"{what}: Kafka at {bootstrap} does not answer: {error.args[0].str()}") from error
    found = metadata.topics.get(topic)
    if found is None or not found.partitions:
        raise StreamUnusable(f"{what}: Kafka at {bootstrap} has no topic '{topic}'")
    return len(found.partitions)

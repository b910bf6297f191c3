"""What a stream asks Kafka before it starts, and when it has failed: whether a topic is there, and which partitions it has."""

from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eventflink.model.kafka_settings import KafkaAccess, client_settings, principal_of
from eventflink.streams.failures import StreamUnusable

_TIMEOUT_S: Final = 15.0


def find_missing_topic(topics: Iterable[tuple[KafkaAccess, str, str]]) -> str:
    """Return what a stream that has failed reads or writes and Kafka does not have any more; empty: nothing that is known.

    Args:
        topics: of each source and sink the Kafka, the topic, and what names it, for the message.

    """
    asked: dict[KafkaAccess, Collection[str]] = {}
    for kafka, topic, what in topics:
        try:
            if kafka not in asked:
                asked[kafka] = _client(kafka).list_topics(timeout=_TIMEOUT_S).topics.keys()
        except KafkaException:
            return ""  # Then that is why it failed, and the failure says it.
        if topic not in asked[kafka]:
            return f"{what}: topic not found: '{topic}' at {kafka.bootstrap}"
    return ""


def partition_count(kafka: KafkaAccess, topic: str, what: str) -> int:
    """Return how many partitions a topic has.

    Args:
        kafka: the Kafka to ask.
        topic: its name.
        what: the source or sink that names it, for the message.

    Raises:
        StreamUnusable: there is no such topic, or Kafka does not answer.

    """
    try:
        metadata = _client(kafka).list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise StreamUnusable(f"{what}: Kafka at {kafka.bootstrap} does not answer: {error.args[0].str()}") from error
    found = metadata.topics.get(topic)
    if found is None or not found.partitions:
        settings = kafka.settings  # Kafka does not tell a topic that is not there from one that somebody may not see.
        unseen = f", or {principal_of(settings) or 'the user of these settings'} may not Describe it" if settings else ""
        raise StreamUnusable(f"{what}: topic not found: '{topic}' at {kafka.bootstrap}{unseen}")
    return len(found.partitions)


def _client(kafka: KafkaAccess) -> AdminClient:
    return AdminClient(client_settings(kafka, {"log_level": 0}))

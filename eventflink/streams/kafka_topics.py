"""What a stream asks Kafka before it starts, and when it has failed: whether a topic is there, and which partitions it has."""

from collections.abc import Collection, Iterable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eventflink.model.kafka_settings import client_settings, principal_of, settings_of
from eventflink.streams.failures import StreamUnusable

_TIMEOUT_S: Final = 15.0


def find_missing_topic(topics: Iterable[tuple[str, str, str]]) -> str:
    """Return what a stream that has failed reads or writes and Kafka does not have any more; empty: nothing that is known.

    Args:
        topics: of each source and sink the Kafka, the topic, and what names it, for the message.

    """
    asked: dict[str, Collection[str]] = {}
    for bootstrap, topic, what in topics:
        try:
            if bootstrap not in asked:
                asked[bootstrap] = _client(bootstrap).list_topics(timeout=_TIMEOUT_S).topics.keys()
        except KafkaException:
            return ""  # Then that is why it failed, and the failure says it.
        if topic not in asked[bootstrap]:
            return f"{what}: topic not found: '{topic}' at {bootstrap}"
    return ""


def partition_count(bootstrap: str, topic: str, what: str) -> int:
    """Return how many partitions a topic has.

    Args:
        bootstrap: the Kafka to ask.
        topic: its name.
        what: the source or sink that names it, for the message.

    Raises:
        StreamUnusable: there is no such topic, or Kafka does not answer.

    """
    try:
        metadata = _client(bootstrap).list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise StreamUnusable(f"{what}: Kafka at {bootstrap} does not answer: {error.args[0].str()}") from error
    found = metadata.topics.get(topic)
    if found is None or not found.partitions:
        settings = settings_of(bootstrap)  # Kafka does not tell a topic that is not there from one that somebody may not see.
        unseen = f", or {principal_of(settings) or 'the user of these settings'} may not Describe it" if settings else ""
        raise StreamUnusable(f"{what}: topic not found: '{topic}' at {bootstrap}{unseen}")
    return len(found.partitions)


def _client(bootstrap: str) -> AdminClient:
    return AdminClient(client_settings(bootstrap, {"log_level": 0}))

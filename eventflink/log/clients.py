"""How a client of Kafka is made: every consumer and every producer, each with one set of settings.

A consumer is assigned, and never subscribes: it joins no group and commits nothing, so where it begins is for its user to say. A producer
sends at once and has Kafka acknowledge by all replicas. What the configuration says of Kafka comes before what is said here, but for what
the protocol rests on. What librdkafka would log of each failed connection comes back as the error of a call, and is not logged.

One that keeps a place for others to see names a group, still without joining it (`group_offset.py`). Made elsewhere are only clients of a
stream that keep places (`streams/edges.py`, `streams/kafka_sink.py`), and the one that ends a transaction in another's name
(`transactions.py`).
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Producer

from eventflink.model.kafka_settings import KafkaAccess, client_settings

_quiet: Final = logging.getLogger(f"{__name__}.librdkafka")
_quiet.setLevel(logging.CRITICAL)

_COMMON: Final = {"socket.nagle.disable": True, "reconnect.backoff.max.ms": 1_000, "logger": _quiet}
_NOTHING: Final[Mapping[str, Any]] = {}


def consumer_settings(kafka: KafkaAccess, own: Mapping[str, Any] = _NOTHING, *, isolation: str = "read_uncommitted") -> dict[str, Any]:
    """Return the settings of a consumer that reads assigned partitions, from where it is told, for itself alone.

    What others write in transactions is read as it comes, unless `isolation` says otherwise: who reads what masters and TaskExecutors say
    waits for nobody else (P11).
    """
    common = {
        "group.id": "eventflink-reader",  # never joined, nothing is committed: librdkafka wants a name
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "allow.auto.create.topics": False,
        "enable.partition.eof": False,
        "queued.max.messages.kbytes": 65_536,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "fetch.message.max.bytes": 4 * 1024 * 1024,
        "check.crcs": True,
    }
    return client_settings(kafka, {**_COMMON, **common, **own})


def new_consumer(kafka: KafkaAccess, own: Mapping[str, Any] = _NOTHING, *, isolation: str = "read_uncommitted") -> Consumer:
    """Return a consumer with `consumer_settings`.

    Raises:
        KafkaException: librdkafka takes no such settings.

    """
    return Consumer(consumer_settings(kafka, own, isolation=isolation))


def producer_settings(kafka: KafkaAccess, message_timeout_ms: int, own: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Return the settings of a producer that sends at once, and is idempotent unless its `own` settings say otherwise.

    An idempotent one keeps the order of records that are in flight together, and sends its first record up to half a second late:
    librdkafka asks for the id that it needs before it is connected, and again only after that.
    """
    common = {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": message_timeout_ms,
        "queue.buffering.max.messages": 1_000_000,
        "message.max.bytes": 4 * 1024 * 1024,
        "compression.type": "none",
    }
    return client_settings(kafka, {**_COMMON, **common, **own})


def new_producer(kafka: KafkaAccess, message_timeout_ms: int, own: Mapping[str, Any] = _NOTHING) -> Producer:
    """Return a producer with `producer_settings`.

    Raises:
        KafkaException: librdkafka takes no such settings.

    """
    return Producer(producer_settings(kafka, message_timeout_ms, own))

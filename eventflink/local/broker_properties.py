"""What the embedded broker is configured with: its server.properties.

Plain text from values; nothing is started here. The rule: the broker is reachable from this machine only, and makes no topic
that was not asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

LOOPBACK: Final = "127.0.0.1"

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Twice the largest record of any topic."""

TRANSACTION_MAX_TIMEOUT_MS: Final = 60_000
"""The longest that a client's hanging transaction can hold up readers of committed records (P11)."""


_LISTS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def render_server_properties(
    data_directory: Path, port: int, controller_port: int, further: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return server.properties of a one-node KRaft broker that keeps its data in `data_directory`.

    Args:
        data_directory: where that is.
        port: of the listener without authentication.
        controller_port: of the broker's own.
        further: what it is told besides; listeners are added to ours, everything else comes before it.

    Raises:
        ValueError: Kafka takes a comma in a path for a separator, and this path has one.

    """
    if "," in str(data_directory):
        raise ValueError(f"the broker's data directory must have no comma in its path: {data_directory}")
    values: dict[str, str | int] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data_directory),
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "transaction.max.timeout.ms": TRANSACTION_MAX_TIMEOUT_MS,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
        # A week, as for most topics of a cluster; the topics say what they need themselves.
        "log.retention.hours": 168,
        "log.segment.bytes": 256 * 1024 * 1024,
        # The default, 128 MiB, is allocated at the start and would be a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        # After an end by force the next start is refused until the registration of the one before has run out.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        # Twice a second the controller would write a record of nothing, which tells other nodes how far behind they are: there are none.
        "metadata.max.idle.interval.ms": 0,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }
    for key, value in further.items():
        values[key] = f"{values[key]},{value}" if key in _LISTS else value
    return "".join(f"{key}={_escape(str(value))}\n" for key, value in values.items())


def _escape(value: str) -> str:
    """Escape a value as Java's Properties reads it: backslashes doubled, what is not ASCII as UTF-16 units."""
    return "".join(_escape_character(character) for character in value)


def _escape_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isascii():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))

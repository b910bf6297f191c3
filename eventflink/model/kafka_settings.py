"""How this process connects to Kafka: the keys `kafka.*`, by the names of librdkafka, and what is made of them for a client.

Every client takes its settings from `client_settings`, by a `KafkaAccess` that it is given: the settings of one Kafka never go to another,
as to one that a job names. A secret is never a value here, only a reference to a file or a variable, which is resolved where a client is
made: so nothing that is printed, logged or passed on holds one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from eventflink.model.references import SecretMissing, check_reference, resolve

MAX_SETTINGS: Final = 100
MAX_VALUE_LENGTH: Final = 4_096

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*")
_SECRET: Final = ("password", "secret", "passphrase", "key.pem")
"""What the name of a secret has in it."""

_PROTOCOL: Final = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.broker.list",
        "partitioner",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
"""What the rules of docs/protocol.md rest on, with librdkafka's other names of it: nobody else sets it."""


class KafkaRole(StrEnum):
    """Which processes have settings of their own beside those of all, below `kafka.<role>.`."""

    CLIENT = ""
    """Commands, and programs that connect: the settings of all are theirs."""
    JOBMANAGER = "jobmanager"
    TASKMANAGER = "taskmanager"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """How this process reaches one Kafka: what its clients are made of."""

    bootstrap: str
    """Its bootstrap servers, as host:port."""
    settings: dict[str, str] = field(default_factory=dict, hash=False)
    """By the names of librdkafka, with references in place of secrets; empty: as anybody connects."""
    role: KafkaRole = KafkaRole.CLIENT
    """As whom: it is said of a right that is lacking how this role gets it."""

    def at(self, bootstrap: str | None) -> "KafkaAccess":
        """Return how a Kafka is reached that a job names: empty is this one, and another has none of its settings."""
        return self if not bootstrap or bootstrap == self.bootstrap else KafkaAccess(bootstrap, role=self.role)


def checked_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys below `kafka.` as texts.

    Raises:
        ValueError: a name is none, or is eventflink's own; a secret stands there in the clear; a reference is none; or there is too much.

    """
    if len(settings) > MAX_SETTINGS:
        raise ValueError(f"more than {MAX_SETTINGS} keys")
    texts = {key: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    for key, value in texts.items():
        name = _name_of(key)
        if not _NAME.fullmatch(name):
            raise ValueError(f"kafka.{key}: not a name of a setting")
        if name in _PROTOCOL:
            raise ValueError(f"kafka.{key}: eventflink sets '{name}' itself")
        if len(value) > MAX_VALUE_LENGTH:
            raise ValueError(f"kafka.{key}: longer than {MAX_VALUE_LENGTH} characters")
        check_reference(f"kafka.{key}", value, is_needed=is_secret(name))
    return texts


def _name_of(key: str) -> str:
    role, _, name = key.partition(".")
    return name if role in (KafkaRole.JOBMANAGER, KafkaRole.TASKMANAGER, KafkaRole.REST) else key


def is_secret(name: str) -> bool:
    """Tell whether a setting of this name holds a secret."""
    return any(part in name for part in _SECRET)


def settings_of_role(settings: Mapping[str, str], role: KafkaRole) -> dict[str, str]:
    """Return the settings of a process, of the keys below `kafka.`: those of all, and over them those of its role."""
    of_all = {key: value for key, value in settings.items() if _name_of(key) == key}
    return of_all | ({key[len(role) + 1 :]: value for key, value in settings.items() if key.startswith(f"{role}.")} if role else {})


def client_settings(kafka: KafkaAccess, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a client of librdkafka is made with.

    Args:
        kafka: what it connects to, and how.
        own: what this client wants; what the configuration says comes before it.

    Raises:
        SecretMissing: what a setting refers to cannot be read.

    """
    resolved = {name: resolve(f"kafka.{name}", value, may_have_lines=name.endswith(".pem")) for name, value in kafka.settings.items()}
    return {"bootstrap.servers": kafka.bootstrap, **(own or {}), **resolved}


def principal_of(settings: Mapping[str, str]) -> str:
    """Return as whom Kafka knows who connects so; empty where only Kafka can tell, as with certificates and tokens."""
    protocol = settings.get("security.protocol", "plaintext").lower()
    has_certificate = protocol == "ssl" and any(name.startswith(("ssl.certificate.", "ssl.keystore.")) for name in settings)
    if has_certificate or (protocol.startswith("sasl_") and mechanism_of(settings) in ("OAUTHBEARER", "GSSAPI")):
        return ""
    if not protocol.startswith("sasl_"):
        return "User:ANONYMOUS"
    try:
        return f"User:{resolve('kafka.sasl.username', settings.get('sasl.username', ''))}"
    except SecretMissing:
        return ""


def mechanism_of(settings: Mapping[str, str]) -> str:
    """Return the mechanism of SASL, by either of its two names."""
    return settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI"))

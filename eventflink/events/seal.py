"""Seals: by which the cluster's own processes know each other's records among those of everybody else who may write to its topics (P3a).

A seal is a keyed BLAKE2b (RFC 7693: a hash that is a MAC by itself) over all bytes of the record before it, with a key for each topic that
follows from the cluster secret. It is the last field of each envelope: the record stays Avro, which anybody reads without the secret. The
rule: who has the secret believes no record of a sealed topic without a valid seal; who has none believes all.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hmac import compare_digest
from typing import Final

from eventflink.events.topics import Topic
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.cluster_secret import secrets_of

SEAL_BYTES: Final = 16
_BEGINNING: Final = bytes([2, 2 * SEAL_BYTES])
"""How Avro begins a seal: the branch of the union, and the length. No seal is its first branch, which is one byte."""

_TAIL_BYTES: Final = len(_BEGINNING) + SEAL_BYTES

SEALED: Final = frozenset(
    {
        Topic.LOG,
        Topic.LEADERSHIP,
        Topic.DEPLOYMENTS,
        Topic.REPLIES,
        Topic.SNAPSHOTS,
        Topic.HEARTBEATS,
        Topic.TASKMANAGERS,
        Topic.COMMANDS,
        Topic.SUBMISSIONS,
    }
)
"""The topics to which the cluster's own processes write. Clients write to two of them too: a seal there proves who asks (L6)."""


class Seal:
    """The seal of one topic."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Seal with the first key; a record with the seal of any of them is genuine."""
        # Copied for each record: what a hash makes of its key costs as much as a short record.
        self._hashes = [hashlib.blake2b(key=key, digest_size=SEAL_BYTES) for key in keys]

    def sealed(self, value: bytes) -> bytes:
        """Return an encoded envelope, whose last field is no seal, with its seal."""
        body, digest = value[:-1], self._hashes[0].copy()
        digest.update(body)
        return body + _BEGINNING + digest.digest()

    def is_genuine(self, value: bytes) -> bool:
        """Tell whether somebody who has the secret has written the record."""
        body, tail = value[:-_TAIL_BYTES], value[-_TAIL_BYTES:]
        for keyed in self._hashes:
            digest = keyed.copy()
            digest.update(body)
            if compare_digest(tail, _BEGINNING + digest.digest()):
                return True
        return False


@dataclass(frozen=True)
class Seals:
    """The seals of a cluster, made of its secrets; none, where it has none."""

    secrets: tuple[bytes, ...] = ()
    """The first seals; the others are those before it, whose records are still believed."""

    @cached_property
    def _by_topic(self) -> dict[Topic, Seal]:
        if not self.secrets:
            return {}
        return {topic: Seal([_key_of(secret, topic) for secret in self.secrets]) for topic in SEALED}

    def of(self, topic: Topic) -> Seal | None:
        """Return the seal of a topic; None where its records have none, or the cluster has no secret."""
        return self._by_topic.get(topic)


NO_SEALS: Final = Seals()


def has_seal(value: bytes) -> bool:
    """Tell whether an encoded envelope has a seal, valid or not: whoever has no secret cannot know."""
    return value[-_TAIL_BYTES:-SEAL_BYTES] == _BEGINNING


def _key_of(secret: bytes, topic: Topic) -> bytes:
    """Return the key of a topic: what is said on one says nothing on another. The cluster's id is no part of it, for logs are copied."""
    return hashlib.blake2b(topic.encode(), key=hashlib.sha256(secret).digest(), digest_size=32).digest()


def seals_of(access: ClusterAccess) -> Seals:
    """Return the seals of a cluster by the secret that this process has for it.

    Raises:
        SecretMissing: the secret cannot be read.

    """
    return Seals(secrets_of(access.secret_reference))

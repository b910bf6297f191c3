"""Fuzzing where the cluster has a secret: who has sealed an input, and what that is worth.

A message says by whom it is sealed, and the target puts that seal on its value when it reads the case: so a case of the corpus is what it
was also after a change of the schemas.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from hypothesis import strategies as st

from eventflink.events.seal import SEAL_BYTES, SEALED, Seals, has_seal
from eventflink.events.topics import Topic
from tests.fuzz.corpus_files import Message

SEALS: Final = Seals((b"the secret of this cluster, 32 chars",))
OTHERS: Final = Seals((b"the secret of other people, 32 chars",))


class Sealer(StrEnum):
    """Who has sealed a record."""

    NOBODY = ""
    CLUSTER = "cluster"
    STRANGER = "stranger"
    CLUSTER_ELSEWHERE = "cluster, for another topic"
    CLUSTER_CHANGED = "cluster, and changed since"


_DRAWN: Final = (Sealer.CLUSTER, Sealer.CLUSTER, *Sealer)


def name_of(name: str, seals: Seals) -> str:
    """Return what a target is called that has these seals."""
    return f"sealed_{name}" if seals.secrets else name


def sealed_messages(messages: st.SearchStrategy[Message], seals: Seals) -> st.SearchStrategy[Message]:
    """Return these messages, each sealed by somebody where there is a secret."""
    if not seals.secrets:
        return messages
    return st.builds(lambda message, sealer: replace(message, sealed_by=sealer), messages, st.sampled_from(_DRAWN))


def as_written(case: Sequence[Message], seals: Seals) -> list[Message]:
    """Return a case with the seals that it says; without a secret, as it is."""
    return [_as_written(message) for message in case] if seals.secrets else list(case)


def _as_written(message: Message) -> Message:
    topic = Topic(message.to)
    if not message.sealed_by or topic not in SEALED or not message.value:
        return message
    elsewhere = Topic.LOG if topic is not Topic.LOG else Topic.SNAPSHOTS
    sealing = OTHERS if message.sealed_by == Sealer.STRANGER else SEALS
    seal = sealing.of(elsewhere if message.sealed_by == Sealer.CLUSTER_ELSEWHERE else topic)
    assert seal is not None
    value = seal.sealed(_unsealed(message.value))
    if message.sealed_by == Sealer.CLUSTER_CHANGED:
        at = len(value) * 2 // 3
        value = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    return replace(message, value=value)


def _unsealed(value: bytes) -> bytes:
    """Return a record without the seal that a simulated run has put on it."""
    return value[: -(SEAL_BYTES + 2)] + b"\0" if has_seal(value) else value


def is_believed(message: Message, seals: Seals) -> bool:
    """Tell whether a record is to be believed by those who have these seals, as far as its seal goes."""
    seal = seals.of(Topic(message.to))
    return seal is None or seal.is_genuine(message.value)

"""The canonical digest of a state: two masters that have folded the same records are equal, byte for byte.

A state is slotted dataclasses, dictionaries, sequences and scalars. Dictionaries count in stored order: `apply` iterates in
stored order, so a different order is a different state. Fields marked `derived` are indexes over other fields; `validate`
compares them, the digest leaves them out.
"""

import dataclasses
import hashlib
import json
from collections import deque
from functools import cache
from typing import Any

DERIVED = {"derived": True}
"""Metadata of a field that can be computed from the others."""


class InvariantBroken(Exception):
    """The state contradicts itself; the message says where."""


@cache
def _fields_of(cls: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls) if not f.metadata.get("derived"))


def to_plain(value: Any) -> Any:
    """Return the value as JSON values: records by field order, dictionaries as lists of pairs."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return [[to_plain(k), to_plain(v)] for k, v in value.items()]
    if isinstance(value, list | tuple | deque):
        return [to_plain(v) for v in value]
    return [to_plain(getattr(value, name)) for name in _fields_of(value.__class__)]


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(json.dumps(to_plain(value), separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise `InvariantBroken` unless the condition holds."""
    if not condition:
        raise InvariantBroken(message)

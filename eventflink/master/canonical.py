"""The canonical digest of a state: two masters that have folded the same records are equal, byte for byte.

A state is slotted dataclasses, dictionaries, sequences and scalars. Dictionaries count in stored order: `apply` iterates in
stored order, so a different order is a different state. Fields marked `derived` are indexes over other fields; `validate`
compares them, the digest leaves them out. The last fields of a record, and whole parts of the state, are left out as well while they are as
they begin: what a later version adds there changes no digest before it is used (P19).
"""

import dataclasses
import hashlib
import json
from collections import deque
from collections.abc import Mapping
from functools import cache
from typing import Any

DERIVED = {"derived": True}
"""Metadata of a field that can be computed from the others."""


class InvariantBroken(Exception):
    """The state contradicts itself; the message says where."""


_NO_DEFAULT = object()


@cache
def _fields_of(cls: type[Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the names of the fields that count, and what each of them is in plain values as it begins."""
    fields = [f for f in dataclasses.fields(cls) if not f.metadata.get("derived")]
    return tuple(f.name for f in fields), tuple(_plain_default(f) for f in fields)


def _plain_default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return to_plain(field.default_factory())
    return _NO_DEFAULT if field.default is dataclasses.MISSING else to_plain(field.default)


def to_plain(value: Any) -> Any:
    """Return the value as JSON values: records by field order up to the last that is not as it begins, dictionaries as lists of pairs."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return [[to_plain(k), to_plain(v)] for k, v in value.items()]
    if isinstance(value, list | tuple | deque):
        return [to_plain(v) for v in value]
    names, defaults = _fields_of(value.__class__)
    plain = [to_plain(getattr(value, name)) for name in names]
    while plain and plain[-1] == defaults[len(plain) - 1]:
        plain.pop()
    return plain


def digest_of(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form of a state, given by its parts, in hexadecimal."""
    plain = [[name, said] for name, part in parts.items() if (said := to_plain(part))]
    return hashlib.sha256(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise `InvariantBroken` unless the condition holds."""
    if not condition:
        raise InvariantBroken(message)

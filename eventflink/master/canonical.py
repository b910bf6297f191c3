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
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

DERIVED = {"derived": True}
"""Metadata of a field that can be computed from the others."""


class InvariantBroken(Exception):
    """The state contradicts itself; the message says where."""


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)
_NO_DEFAULT = object()
_AS_THEY_ARE = frozenset({str, int, bool, float, type(None)})
"""The classes of most values; such a value is not worth a call."""

Way = Callable[[Any], Any]
"""How values of a class become JSON values."""


class _Ways(dict[type[Any], Way]):
    """The way of each class, found when the first value of it comes."""

    def __missing__(self, cls: type[Any]) -> Way:
        self[cls] = way = _way_of(cls)
        return way


_WAYS = _Ways()


def _way_of(cls: type[Any]) -> Way:
    if cls in _AS_THEY_ARE or issubclass(cls, str | int | float):
        return lambda value: value
    if issubclass(cls, bytes):
        return bytes.hex
    if issubclass(cls, dict):
        return lambda value: [
            [_WAYS[k.__class__](k), v if v.__class__ in _AS_THEY_ARE else _WAYS[v.__class__](v)] for k, v in value.items()
        ]
    if issubclass(cls, list | tuple | deque):
        return lambda value: [v if v.__class__ in _AS_THEY_ARE else _WAYS[v.__class__](v) for v in value]
    return _way_of_records(cls)


def _way_of_records(cls: type[Any]) -> Way:
    """Return the way of a dataclass: by field order, up to the last field that is not as it begins."""
    fields = [f for f in dataclasses.fields(cls) if not f.metadata.get("derived")]
    values = _values_of([f.name for f in fields])
    defaults = [_plain_default(f) for f in fields]

    def plain_of(record: Any) -> list[Any]:
        plain = [v if v.__class__ in _AS_THEY_ARE else _WAYS[v.__class__](v) for v in values(record)]
        while plain and plain[-1] == defaults[len(plain) - 1]:
            plain.pop()
        return plain

    return plain_of


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the values of the fields of a record."""
    if len(names) > 1:
        return attrgetter(*names)  # Of one name it would give the value alone, and of none nothing.
    return lambda record: tuple(getattr(record, name) for name in names)


def _plain_default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return to_plain(field.default_factory())
    return _NO_DEFAULT if field.default is dataclasses.MISSING else to_plain(field.default)


def to_plain(value: Any) -> Any:
    """Return the value as JSON values: records by field order up to the last that is not as it begins, dictionaries as lists of pairs."""
    return _WAYS[value.__class__](value)


def digest_of(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form of a state, given by its parts, in hexadecimal."""
    plain = [[name, said] for name, part in parts.items() if (said := to_plain(part))]
    return hashlib.sha256(_JSON.encode(plain).encode()).hexdigest()


def require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise `InvariantBroken` unless the condition holds."""
    if not condition:
        raise InvariantBroken(message)

"""The keys of the configuration as text: type, default, bounds and meaning of each, as its model has them.

Nothing is described here that `configuration.py` does not say itself.
"""

import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from eventflink.model.configuration import Configuration
from eventflink.model.resources import parse_cpu_cores, parse_memory_size


def _type_of(annotation: Any) -> str:
    """Return what a person calls the type."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _type_of(next(a for a in typing.get_args(annotation) if a is not type(None)))
    if typing.get_origin(annotation) is dict:
        return "texts"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "word"
    return {str: "text", int: "integer", Path: "path"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


_PARSED: Final = {parse_memory_size: "size", parse_cpu_cores: "number"}


def _parsed_type(field: FieldInfo) -> str:
    """Return what a person calls a value that is read from a text; "" for the others."""
    return next((_PARSED[m.func] for m in field.metadata if isinstance(m, BeforeValidator) and m.func in _PARSED), "")


def _bounds_of(field: FieldInfo) -> str:
    """Return the bounds of a number, and the pattern of a text, as one phrase."""
    low = next(
        (str(m.ge) for m in field.metadata if isinstance(m, Ge)), next((f"> {m.gt}" for m in field.metadata if isinstance(m, Gt)), "")
    )
    high = next(
        (str(m.le) for m in field.metadata if isinstance(m, Le)), next((f"< {m.lt}" for m in field.metadata if isinstance(m, Lt)), "")
    )
    pattern = next((m.pattern for m in field.metadata if getattr(m, "pattern", None)), None)
    if low and high:
        return f"{low} to {high}"
    if low:
        return f"from {low}"
    if high:
        return f"up to {high}"
    return f"`{pattern}`" if pattern else ""


def plain_value(value: Any) -> Any:
    """Return a value as a configuration file would have it."""
    if isinstance(value, StrEnum):
        return value.lower().replace("_", "-")
    return str(value) if isinstance(value, Path) else value


class DescribedKey(NamedTuple):
    """What there is to say about a key."""

    key: str
    type_name: str
    default: Any
    bounds: str
    meaning: str


def describe_keys() -> Iterator[DescribedKey]:
    """Yield every key, in the order of the model."""
    for name, field in Configuration.model_fields.items():
        yield DescribedKey(
            field.alias or name,
            _parsed_type(field) or _type_of(field.annotation),
            field.default,
            _bounds_of(field),
            field.description or "",
        )

"""Reads run events with the classes of OpenLineage's own client: another shape, a value of another type or an unknown key fails."""

import importlib
import pkgutil
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

import attrs
from openlineage.client import generated
from openlineage.client.event_v2 import RunEvent
from openlineage.client.generated.base import BaseFacet

BASE = {"_producer", "_schemaURL"}


def read_run_event(document: Mapping[str, Any]) -> RunEvent:
    """Return the event that a document is."""
    assert document["schemaURL"] == RunEvent._get_schema()
    event = _read(RunEvent, {name: value for name, value in document.items() if name != "schemaURL"}, "event")
    assert isinstance(event, RunEvent)
    return event


@cache
def facet_classes() -> dict[str, type[Any]]:
    """Return the published facets by their names."""
    modules = [importlib.import_module(f"{generated.__name__}.{each.name}") for each in pkgutil.iter_modules(generated.__path__)]
    found = [cls for module in modules for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, BaseFacet)]
    return {cls.__name__: cls for cls in found}


def _read(hint: Any, value: Any, place: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _read(next(each for each in inner if each is not types.NoneType), value, place)
    if origin is list:
        return [_read(inner[0], each, f"{place}[{number}]") for number, each in enumerate(value)]
    if origin is dict:
        return {name: _read_facet(each, f"{place}.{name}") for name, each in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if attrs.has(hint):
        hints = typing.get_type_hints(hint)
        unknown = value.keys() - hints.keys()
        assert not unknown, f"{place}: {unknown}"
        return hint(**{name: _read(hints[name], each, f"{place}.{name}") for name, each in value.items()})
    assert isinstance(value, hint), f"{place}: {value!r}"
    return value


def _read_facet(value: Mapping[str, Any], place: str) -> Any:
    """Return a published facet; of one that is not published only what each has is checked."""
    assert value.keys() >= BASE, place
    assert all(isinstance(value[name], str) and ":" in value[name] for name in BASE), place
    url = value["_schemaURL"]
    if url.startswith("urn:eventflink:"):
        return value
    cls = facet_classes()[url.rpartition("/")[2]]
    assert url.partition("/facets/")[0] == cls._get_schema().partition("/facets/")[0], place
    return _read(cls, {name: each for name, each in value.items() if name not in BASE}, place)

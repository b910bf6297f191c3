"""Documents as plain values, ready for JSON: an object for each, with the names of its fields in their order.

The way back is `parse`: what a master or an archive said, as the class that it was made of.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

UNTOLD: Final = {"untold": True}
"""The metadata of a field that is None where there is nothing to tell, and left out of plain values then."""


def written_as(name: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in plain values: one that Python does not allow."""
    return {"alias": name}  # pydantic's word for it.


_AS_THEY_ARE: Final[set[type]] = {str, int, float, bool, type(None)}
"""The classes whose values are plain; the enumerations that are texts join them when one is met."""


def plain(value: Any) -> Any:
    """Return a document, or what is part of one, as dictionaries, lists, texts and numbers; it shares nothing that changes with it."""
    cls: Any = type(value)
    return value if cls in _AS_THEY_ARE else _converter(cls)(value)


@cache
def _converter(cls: Any) -> Callable[[Any], Any]:
    if is_dataclass(cls):
        return _converter_of_document(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return lambda named: {name: plain(each) for name, each in named._asdict().items()}
    if issubclass(cls, Mapping):
        return lambda mapping: {name: plain(each) for name, each in mapping.items()}
    if issubclass(cls, list | tuple):
        return lambda values: [plain(each) for each in values]
    _AS_THEY_ARE.add(cls)
    return lambda value: value


def _converter_of_document(cls: Any) -> Callable[[Any], dict[str, Any]]:
    names = tuple((each.name, each.metadata.get("alias", each.name)) for each in fields(cls))
    left_out = frozenset(each.name for each in fields(cls) if each.metadata == UNTOLD)

    def convert(document: Any) -> dict[str, Any]:
        found = {}
        for name, written in names:
            value = getattr(document, name)
            if value is not None or name not in left_out:
                found[written] = value if type(value) in _AS_THEY_ARE else plain(value)
        return found

    return convert


def part_of(cls: type[T], document: Any) -> T:
    """Return what a document has of the fields of another class."""
    make: Any = cls
    part: T = make(**{each.name: getattr(document, each.name) for each in fields(make)})
    return part


@cache
def _adapter(cls: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # noqa: PLC0415 - a tenth of a second, which a command that prints what it got does not wait for

    return TypeAdapter(cls)


def parse(cls: type[T], value: Any) -> T:
    """Return plain values as the document that they were; what its class does not know is passed over.

    Raises:
        pydantic.ValidationError: they do not fit the class; the error says where.

    """
    document: T = _adapter(cast("Any", cls)).validate_python(value)
    return document

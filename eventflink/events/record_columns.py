"""The columns of dataclasses, and which codec a type gets: from its annotation alone.

A record is written as one column for each field, by the field's name. A column of nothing but the field's default is left out: so a reader
that does not know the field, or a writer that did not, makes no difference (P19). A field that is derived from others is not written but
computed again. Nothing here knows which classes there are.
"""

import dataclasses
import functools
import types
import typing
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from eventflink.events.columns import (
    Column,
    ColumnsUnreadable,
    Mappings,
    Nones,
    Optionals,
    Scalars,
    Sequences,
    Texts,
    Tuples,
    Unions,
    require,
)

Derivation = Callable[[Mapping[str, list[Any]], int], list[Any]]
"""Computes a derived field of `count` records from their other fields, each a column by its name."""


class NotStorable(TypeError):
    """An annotation is of no kind that can be written; the message names it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """A field of a record: stored with its column, or derived from the others."""

    name: str
    column: Column | None
    derivation: Derivation | None
    make_default: Callable[[], Any] | None

    def begins(self, values: list[Any]) -> bool:
        """Tell whether all of these are the field's default."""
        if self.make_default is None:
            return False
        default = self.make_default()
        return all(value == default for value in values)


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """Instances of one dataclass: one column for each field, by its name."""

    cls: type[Any]
    fields: tuple[_Field, ...]
    keyword_only: bool

    def write(self, values: list[Any]) -> Any:
        """Return the columns by field name; one is always there, for defaults alone would be any number of records."""
        written = self.write_changed(values)
        if not written:
            first, column = next((f, f.column) for f in self.fields if f.column is not None)
            written[first.name] = column.write(list(map(attrgetter(first.name), values)))
        return written

    def write_changed(self, values: list[Any]) -> dict[str, Any]:
        """Return the columns of fields that are not as they begin, by field name; derived fields are left out."""
        written = {}
        for f in self.fields:
            if f.column is not None and not f.begins(column := list(map(attrgetter(f.name), values))):
                written[f.name] = f.column.write(column)
        return written

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the instances; a field that the writer did not know takes its default."""
        columns = self.read_columns(plain, count)
        names = [f.name for f in self.fields]
        if self.keyword_only:
            rows = zip(*(columns[name] for name in names), strict=True)
            return [self.cls(**dict(zip(names, row, strict=True))) for row in rows]
        return list(map(self.cls, *(columns[name] for name in names)))

    def read_columns(self, plain: Any, count: int) -> dict[str, list[Any]]:
        """Return the values of all fields, by field name."""
        name = self.cls.__name__
        require(type(plain) is dict, f"{name}: its fields are wanted")
        known = {f.name for f in self.fields if f.column is not None}
        if unknown := plain.keys() - known:
            raise ColumnsUnreadable(f"{name}: unknown fields: {', '.join(sorted(unknown))}")
        # Defaults alone would make any number of records out of nothing.
        require(count == 0 or plain, f"{name}: no field of it is there")
        columns = {f.name: self._read_field(f, plain, count) for f in self.fields if f.derivation is None}
        for f in self.fields:
            if f.derivation is not None:
                columns[f.name] = f.derivation(columns, count)
        return columns

    def _read_field(self, field: _Field, plain: Mapping[str, Any], count: int) -> list[Any]:
        if field.name not in plain:
            make_default = field.make_default
            if make_default is None:
                raise ColumnsUnreadable(f"{self.cls.__name__}.{field.name} is missing, and has no default")
            return [make_default() for _ in range(count)]
        if field.column is None:
            raise ColumnsUnreadable(f"{self.cls.__name__}.{field.name} is not stored")
        try:
            return field.column.read(plain[field.name], count)
        except ColumnsUnreadable as error:
            raise ColumnsUnreadable(f"{self.cls.__name__}.{field.name}: {error}") from error


_MAKERS: Final[dict[Any, Callable[[Iterable[Any]], Any]]] = {list: list, tuple: tuple, deque: deque}
_SCALARS: Final = (int, float, str, bool)
_OTHERS: Final[dict[Any, Column]] = {
    bytes: Texts("bytes", bytes.hex, bytes.fromhex),
    Path: Texts("path", str, Path),
    None: Nones(),
    types.NoneType: Nones(),
}


_hints_of: Final = functools.cache(typing.get_type_hints)
"""To evaluate the annotations of a class is half of what its codec costs, and each fold that is restored has codecs of its own."""


class Columns:
    """Makes the codec of each annotation, once."""

    def __init__(self, derivations: Mapping[tuple[type[Any], str], Derivation]) -> None:
        """Take what computes the derived fields, by class and name."""
        self._derivations = derivations
        self._made: dict[Any, Column] = {}

    def of(self, annotation: Any) -> Column:
        """Return the codec of a type.

        Raises:
            NotStorable: values of it cannot be written.

        """
        made = self._made.get(annotation)
        if made is None:
            made = self._made[annotation] = self._make(annotation)
        return made

    def _make(self, annotation: Any) -> Column:
        if typing.get_origin(annotation) is not None:
            return self._make_generic(annotation)
        if annotation in _SCALARS:
            return Scalars(annotation)
        if annotation in _OTHERS:
            return _OTHERS[annotation]
        return self._make_class(annotation)

    def _make_class(self, annotation: Any) -> Column:
        if isinstance(annotation, type):
            if issubclass(annotation, StrEnum):
                return Texts(annotation.__name__, attrgetter("name"), annotation.__members__.__getitem__)
            if dataclasses.is_dataclass(annotation):
                return self.records(annotation)
            if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
                return Tuples(annotation, tuple(self.of(hint) for hint in _hints_of(annotation).values()))
        raise NotStorable(f"a value of {annotation} cannot be written")

    def _make_generic(self, annotation: Any) -> Column:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Union, types.UnionType):
            return self._make_union(annotation, arguments)
        if origin in (dict, OrderedDict):
            return Mappings(self.of(arguments[0]), self.of(arguments[1]), origin)
        if origin is tuple and Ellipsis not in arguments:
            return Tuples(lambda *values: values, tuple(self.of(argument) for argument in arguments))
        if origin in _MAKERS:
            return Sequences(self.of(arguments[0]), _MAKERS[origin])
        raise NotStorable(f"a value of {annotation} cannot be written")

    def _make_union(self, annotation: Any, arguments: tuple[Any, ...]) -> Column:
        members = [argument for argument in arguments if argument is not types.NoneType]
        if len(members) == 1:
            return Optionals(self.of(members[0]))
        if len(members) < len(arguments) or not all(map(dataclasses.is_dataclass, members)):
            raise NotStorable(f"a value of {annotation} cannot be written: only unions of records can")
        return Unions({member.__name__: self.of(member) for member in members})

    def records(self, cls: type[Any], leave_out: frozenset[str] = frozenset()) -> Records:
        """Return the codec of a dataclass, without the fields named in `leave_out`.

        Raises:
            NotStorable: a field cannot be stored, or is derived and nothing says from what.

        """
        if hasattr(cls, "__post_init__"):
            raise NotStorable(f"{cls.__name__} does more than to take its fields when it is made")
        hints = _hints_of(cls)  # type: ignore[arg-type] # a class is hashable
        fields = [f for f in dataclasses.fields(cls) if f.name not in leave_out]
        if not fields:
            raise NotStorable(f"{cls.__name__} has no field to store")
        keyword_only = any(f.kw_only for f in fields)
        return Records(cls, tuple(self._field(cls, f, hints[f.name]) for f in fields), keyword_only)

    def _field(self, cls: type[Any], field: "dataclasses.Field[Any]", annotation: Any) -> _Field:
        if field.metadata.get("derived"):
            derivation = self._derivations.get((cls, field.name))
            if derivation is None:
                raise NotStorable(f"{cls.__name__}.{field.name} is derived, and nothing says from what")
            return _Field(field.name, None, derivation, None)
        try:
            column = self.of(annotation)
        except NotStorable as error:
            raise NotStorable(f"{cls.__name__}.{field.name}: {error}") from error
        return _Field(field.name, column, None, _default_of(field))


def _default_of(field: "dataclasses.Field[Any]") -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is not dataclasses.MISSING:
        default = field.default
        return lambda: default
    return None

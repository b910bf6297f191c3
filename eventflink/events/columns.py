"""Columns: how many values of one type are written as JSON values side by side, and read again. Snapshots and local pipes use them.

One codec for each kind of type; that of dataclasses, and which one a type gets, is in `record_columns`. Nested collections become their
lengths and one flat list: that is read and built by loops in C, where value by value would cost a call for each.

What is read may be anybody's bytes. The rule: a column that does not fit its type or its length raises `ColumnsUnreadable`, no class is
built that the annotations do not name, and nothing is allocated that the bytes do not hold.
"""

import dataclasses
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any, Final, Protocol

_SAMPLE: Final = 256
"""How many values of a column tell whether they repeat."""


class ColumnsUnreadable(Exception):
    """What was written does not fit the classes of this version; the message says where."""


class Column(Protocol):
    """Writes and reads any number of values of one type."""

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return `count` values.

        Raises:
            ColumnsUnreadable: `plain` is not what `write` makes of as many values.

        """


def require(condition: object, what: str) -> None:
    """Raise `ColumnsUnreadable` unless the condition holds."""
    if not condition:
        raise ColumnsUnreadable(what)


def as_list(plain: Any, count: int, what: str) -> list[Any]:
    """Return a JSON array of this length, or raise `ColumnsUnreadable`."""
    if type(plain) is list and len(plain) == count:  # Not by `require`: each column comes here, and mostly no message is needed.
        return plain
    raise ColumnsUnreadable(f"{what}: {count} values are wanted")


def as_fields(plain: Any, names: set[str], what: str) -> dict[str, Any]:
    """Return a JSON object with these names, or raise `ColumnsUnreadable`."""
    if type(plain) is dict and plain.keys() == names:  # As above.
        return plain
    raise ColumnsUnreadable(f"{what}: the parts {', '.join(sorted(names))} are wanted")


def read_some(column: Column, plain: Any, count: int) -> list[Any]:
    """Return `count` values of a column; for none it is compared with what is written of none, which takes no look at its parts.

    Raises:
        ColumnsUnreadable: as the column.

    """
    return [] if not count and plain == column.write([]) else column.read(plain, count)


@dataclasses.dataclass(frozen=True, slots=True)
class Scalars:
    """Numbers, strings and truth values, as they are."""

    scalar_type: type[Any]

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        return values

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        name = self.scalar_type.__name__
        values = as_list(plain, count, name)
        require(set(map(type, values)) <= {self.scalar_type}, f"{name}: a value is of another type")
        if self.scalar_type is not str or len(set(values[:_SAMPLE])) == min(len(values), _SAMPLE):
            return values
        # The same text is kept once, however often it stands in the column; a column of names has nothing to share.
        memo: dict[str, str] = {}
        return list(map(memo.setdefault, values, values))


@dataclasses.dataclass(frozen=True, slots=True)
class Texts:
    """Values that are written as text: bytes in hexadecimal, paths, members of an enumeration by name."""

    name: str
    to_text: Callable[[Any], str]
    from_text: Callable[[str], Any]

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        return list(map(self.to_text, values))

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        texts = as_list(plain, count, self.name)
        require(set(map(type, texts)) <= {str}, f"{self.name}: a value is not a text")
        try:
            return list(map(self.from_text, texts))
        except (KeyError, ValueError) as error:
            raise ColumnsUnreadable(f"{self.name}: not a valid value: {error}") from error


class Nones:
    """Nothing but None: the values of a dictionary that is an ordered set."""

    def write(self, _values: list[Any]) -> Any:
        """Return the values as JSON values."""
        return None

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        require(plain is None, "a value stands where only None can")
        return [None] * count


@dataclasses.dataclass(frozen=True, slots=True)
class Optionals:
    """Values or None: where the values stand, and they."""

    inner: Column

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        at = [index for index, value in enumerate(values) if value is not None]
        return {"at": at, "values": self.inner.write([values[index] for index in at])}

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        fields = as_fields(plain, {"at", "values"}, "optional")
        at = fields["at"]
        require(type(at) is list and set(map(type, at)) <= {int}, "optional: a place is not a number")
        require(len(set(at)) == len(at) and all(0 <= index < count for index in at), "optional: a place is out of range")
        values: list[Any] = [None] * count
        for index, value in zip(at, read_some(self.inner, fields["values"], len(at)), strict=True):
            values[index] = value
        return values


def _read_lengths(plain: Any, count: int) -> list[int]:
    lengths = as_list(plain, count, "lengths")
    require(set(map(type, lengths)) <= {int} and min(lengths, default=0) >= 0, "a length is not a natural number")
    return lengths


@dataclasses.dataclass(frozen=True, slots=True)
class Sequences:
    """Lists, tuples and deques of one type of element."""

    inner: Column
    make: Callable[[Iterable[Any]], Any]

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        return {"lengths": [len(value) for value in values], "elements": self.inner.write(list(chain.from_iterable(values)))}

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        fields = as_fields(plain, {"lengths", "elements"}, "sequence")
        lengths = _read_lengths(fields["lengths"], count)
        elements = iter(read_some(self.inner, fields["elements"], sum(lengths)))
        make = self.make
        return [make(islice(elements, length)) for length in lengths]


@dataclasses.dataclass(frozen=True, slots=True)
class Mappings:
    """Dictionaries, in stored order."""

    keys: Column
    values: Column
    make: Callable[..., Any] = dict

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        return {
            "lengths": [len(value) for value in values],
            "keys": self.keys.write(list(chain.from_iterable(values))),
            "values": self.values.write(list(chain.from_iterable(value.values() for value in values))),
        }

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        fields = as_fields(plain, {"lengths", "keys", "values"}, "mapping")
        lengths = _read_lengths(fields["lengths"], count)
        total = sum(lengths)
        if isinstance(self.keys, Optionals):  # None takes no bytes: the values say whether there are as many as the lengths claim.
            values = self.values.read(fields["values"], total)
            keys = self.keys.read(fields["keys"], total)
        else:
            keys = self.keys.read(fields["keys"], total)
            values = self.values.read(fields["values"], total)
        left, right = iter(keys), iter(values)
        made = [self.make(zip(islice(left, length), islice(right, length), strict=True)) for length in lengths]
        require(sum(map(len, made)) == total, "a mapping has a key twice")
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples of a fixed length, named or not: one column for each place."""

    make: Callable[..., Any]
    inner: tuple[Column, ...]

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        columns = list(map(list, zip(*values, strict=True))) or [[] for _ in self.inner]
        return [column.write(of_place) for column, of_place in zip(self.inner, columns, strict=True)]

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        columns = as_list(plain, len(self.inner), "tuple")
        return list(map(self.make, *(column.read(of_place, count) for column, of_place in zip(self.inner, columns, strict=True))))


@dataclasses.dataclass(frozen=True, slots=True)
class Unions:
    """Records of several classes: which one each is, and the records class by class."""

    members: dict[str, Column]

    def write(self, values: list[Any]) -> Any:
        """Return the values as JSON values."""
        kinds = [type(value).__name__ for value in values]
        return {
            "kinds": kinds,
            "values": {
                name: column.write([value for kind, value in zip(kinds, values, strict=True) if kind == name])
                for name, column in self.members.items()
            },
        }

    def read(self, plain: Any, count: int) -> list[Any]:
        """Return the values, or raise `ColumnsUnreadable`."""
        fields = as_fields(plain, {"kinds", "values"}, "union")
        kinds = as_list(fields["kinds"], count, "kinds")
        require(all(type(kind) is str and kind in self.members for kind in kinds), "union: a kind is not of it")
        parts = as_fields(fields["values"], set(self.members), "union")
        values = {name: iter(read_some(column, parts[name], kinds.count(name))) for name, column in self.members.items()}
        return [next(values[kind]) for kind in kinds]

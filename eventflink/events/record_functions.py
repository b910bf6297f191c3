"""The functions that write and read the records of one schema: source text made of the schema, compiled when a record first comes.

Avro's binary encoding, no more of it than the project's schemas use. A generic interpreter asks for each value what its type is; here that
was asked once. Schemas are the project's own files: of any other no text may be made. What a function makes of hostile bytes is an
instance or an error, in time that is bounded by their length.

A writer takes an instance and returns its bytes. A reader takes bytes and where to begin, and returns the instance and where it ends: that
may be behind the end of the bytes, if the last text is cut off, so whoever calls it compares the two.
"""

import dataclasses
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

from eventflink.events import decision, effects, inputs, log_events, snapshot_records
from eventflink.events.schemas import NAMESPACE, Schema
from eventflink.model import attempts, job_graph, resources, schedules, statuses, stream_progress

Writer = Callable[[Any], bytes]
Reader = Callable[[bytes, int], tuple[Any, int]]

_MODULES: Final[tuple[ModuleType, ...]] = (
    attempts,
    job_graph,
    resources,
    schedules,
    stream_progress,
    log_events,
    decision,
    inputs,
    effects,
    snapshot_records,
)

_SEVEN_BITS: Final = 0x7F
_LONG_BITS: Final = 64
_MAX_SYMBOLS: Final = 64
"""Numbers up to it are one byte."""


def record_classes() -> list[type[Any]]:
    """Return every class that mirrors a schema; the base classes of several of them do not."""
    found = {value for module in _MODULES for value in vars(module).values() if isinstance(value, type) and dataclasses.is_dataclass(value)}
    return sorted((cls for cls in found if not cls.__subclasses__()), key=lambda cls: cls.__name__)


@cache
def _classes() -> dict[str, type[Any]]:
    return {tag_of(cls): cls for cls in record_classes()}


def tag_of(cls: type[Any]) -> str:
    """Return the full name of the record that a class mirrors."""
    return f"{NAMESPACE}.{cls.__name__}"


# -- numbers ----------------------------------------------------------------------------------------------------------


class _Longs(dict[int, bytes]):
    """Numbers as Avro writes them: those that are frequent are held, others are made."""

    def __missing__(self, number: int) -> bytes:
        rest = number << 1 ^ number >> _LONG_BITS - 1
        if rest >> _LONG_BITS or rest < 0:
            raise OverflowError(f"{number} has more than 64 bits")
        written = bytearray()
        while rest > _SEVEN_BITS:
            written.append(rest & _SEVEN_BITS | _SEVEN_BITS + 1)
            rest >>= 7
        written.append(rest)
        return bytes(written)


LONGS: Final = _Longs()
LONGS.update({number: LONGS[number] for number in range(-1, 1024)})


def read_unsigned(data: bytes, i: int) -> tuple[int, int]:
    """Return the number at `i` before its sign is taken from its last bit, and where it ends.

    Raises:
        IndexError: the bytes end before it.
        ValueError: it is longer than 64 bits.

    """
    byte = data[i]
    number, shift = byte & _SEVEN_BITS, 7
    while byte > _SEVEN_BITS:
        i += 1
        if shift >= _LONG_BITS:
            raise ValueError("a number is longer than 64 bits")
        byte = data[i]
        number |= (byte & _SEVEN_BITS) << shift
        shift += 7
    return number, i + 1


def read_count(data: bytes, i: int) -> tuple[int, int]:
    """Return the number at `i`, which must not be negative, and where it ends.

    Raises:
        IndexError: the bytes end before it.
        ValueError: it is negative, or longer than 64 bits.

    """
    number, i = read_unsigned(data, i)
    if number & 1:
        raise ValueError("a number is negative")
    return number >> 1, i


# -- what generated functions call --------------------------------------------------------------------------------------


def _read_string(data: bytes, i: int) -> tuple[str, int]:
    size, i = read_count(data, i)
    return data[i : i + size].decode(), i + size


def _read_bytes(data: bytes, i: int) -> tuple[bytes, int]:
    size, i = read_count(data, i)
    return data[i : i + size], i + size


def _read_null(_data: bytes, i: int) -> tuple[None, int]:
    return None, i


def _read_double(data: bytes, i: int) -> tuple[float, int]:
    if i + 8 > len(data):
        raise EOFError("a number is cut off")
    return struct.unpack_from("<d", data, i)[0], i + 8


def _read_array(data: bytes, i: int, read: Reader) -> tuple[tuple[Any, ...], int]:
    values: list[Any] = []
    while data[i]:
        count, i = read_unsigned(data, i)
        if count & 1:  # The block says how long it is, too.
            count += 1
            _, i = read_count(data, i)
        for _ in range(count >> 1):
            value, i = read(data, i)
            values.append(value)
    return tuple(values), i + 1


def _write_array(values: Sequence[Any], write: Writer) -> bytes:
    return b"".join((LONGS[len(values)], *map(write, values), b"\0")) if values else b"\0"


_pack_double: Final = struct.Struct("<d").pack

_TRUTH: Final = {False: b"\0", True: b"\1"}
_READ_TRUTH: Final = {0: False, 1: True}


# -- the functions of a schema --------------------------------------------------------------------------------------------


_READERS: Final[Mapping[str, Reader]] = {"string": _read_string, "bytes": _read_bytes, "null": _read_null}

_LENGTH: Final = ("n = b[i]", "if n & 129: n, i = count(b, i)", "else: n >>= 1; i += 1")
_NUMBER: Final = ("n = b[i]", "if n & 128: n, i = unsigned(b, i)", "else: i += 1", "{target} = n >> 1 ^ -(n & 1)")
_LINES_THAT_READ: Final[Mapping[str, Sequence[str]]] = {
    "string": (*_LENGTH, "{target} = b[i:(i := i + n)].decode()"),
    "bytes": (*_LENGTH, "{target} = b[i:(i := i + n)]"),
    "int": _NUMBER,
    "long": _NUMBER,
    "boolean": ("{target} = truth[b[i]]; i += 1",),
    "double": ("{target}, i = double(b, i)",),
}
_PARTS_THAT_WRITE: Final = {"int": "L[{value}]", "long": "L[{value}]", "boolean": "true[{value}]", "double": "pack({value})"}


def _kind_of(schema: Schema) -> str:
    kind: str = "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]
    return kind


class UnknownBranch(ValueError):
    """A union has no such record; the message is its full name."""


class BranchReaders(dict[int, Reader]):
    """The readers of a union's branches, by what stands before each: its number without its sign."""

    def __init__(self, functions: "RecordFunctions", union: Sequence[Schema]) -> None:
        self._functions, self._union = functions, union

    def __missing__(self, twice: int) -> Reader:
        if twice & 1 or twice >> 1 >= len(self._union):
            raise IndexError(f"a union of {len(self._union)} has no branch {twice >> 1}")
        self[twice] = read = self._functions.reader_of(self._union[twice >> 1])
        return read


class BranchWriters(dict[type[Any], Writer]):
    """The writers of a union's records, by class; each writes the number of its branch too."""

    def __init__(self, functions: "RecordFunctions", union: Sequence[Schema]) -> None:
        self._functions = functions
        self._branches = {branch["name"]: (LONGS[number], branch) for number, branch in enumerate(union)}

    def __missing__(self, cls: type[Any]) -> Writer:
        if (tag := tag_of(cls)) not in self._branches:
            raise UnknownBranch(tag)
        number, branch = self._branches[tag]
        self[cls] = written = self._functions.writer_of(branch, number)
        return written


class RecordFunctions:
    """The writers and readers of everything in one schema, in which a name means one thing."""

    def __init__(self) -> None:
        """Compile nothing yet."""
        self._readers: dict[str, Reader] = {}
        self._writers: dict[str, Writer] = {}

    def record_reader(self, schema: Schema, own: Mapping[str, Reader] | None = None) -> Reader:
        """Return the reader of a record whose class mirrors it; `own` are other readers of some of its fields.

        Raises:
            TypeError: there is no such class, or it has not all of the fields, or more that have no default.

        """
        text, cls = _Text(self), _class_of(schema)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        lines = []
        for number, part in enumerate(schema["fields"]):
            name = part["name"]
            lines += text.use(f"v{number}", (own or {})[name]) if name in (own or {}) else text.read(part["type"], f"v{number}")
        given = {part["name"]: f"v{number}" for number, part in enumerate(schema["fields"]) if part["name"] != SEAL}
        if unknown := given.keys() - fields.keys():
            raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        values = {name: given[name] if name in given else _default(text, cls, field) for name, field in fields.items()}
        if cls.__dataclass_params__.frozen or hasattr(cls, "__post_init__"):
            lines.append(f"o = {text.constant(cls)}({', '.join(f'{name}={value}' for name, value in values.items())})")
        else:  # Set one by one: a call of the class costs more than to read what it is called with.
            lines.append(f"o = new({text.constant(cls)})")
            lines += [f"o.{name} = {value}" for name, value in values.items()]
        return text.reader(f"read_{cls.__name__}", lines, "o")

    def fields_reader(self, schema: Schema) -> Reader:
        """Return the reader of an envelope, which has no class: of its fields by name, without the seal."""
        text = _Text(self)
        lines = [line for number, part in enumerate(schema["fields"]) for line in text.read(part["type"], f"v{number}")]
        named = [f"{part['name']!r}: v{number}" for number, part in enumerate(schema["fields"]) if part["name"] != SEAL]
        return text.reader("read_fields", lines, f"{{{', '.join(named)}}}")

    def fields_writer(self, fields: Sequence[Schema]) -> Writer:
        """Return the writer of an envelope's fields, which are given by name; one that is left out has its default."""
        text = _Text(self)
        return text.writer("write_fields", fields, lambda part: _field_of_dictionary(text, part))

    def reader_of(self, schema: Schema) -> Reader:
        """Return the reader of a value: of a record, of what stands in an array or a union."""
        kind = _kind_of(schema)
        if kind == "record":
            if (known := self._readers.get(schema["name"])) is None:
                known = self._readers[schema["name"]] = self.record_reader(schema)
            return known
        if kind in _READERS:
            return _READERS[kind]
        text = _Text(self)
        return text.reader("read_value", text.read(schema, "v"), "v")

    def writer_of(self, schema: Schema, prefix: bytes = b"") -> Writer:
        """Return the writer of a value that stands in an array or a union, behind a `prefix`."""
        if _kind_of(schema) != "record":
            return _Text(self).writer("write_value", [{"name": "v", "type": schema}], lambda _part: "v", prefix)
        if prefix:
            return self._record_writer(schema, prefix)
        if (known := self._writers.get(schema["name"])) is None:
            known = self._writers[schema["name"]] = self._record_writer(schema)
        return known

    def _record_writer(self, schema: Schema, prefix: bytes = b"") -> Writer:
        cls = _class_of(schema)
        return _Text(self).writer(f"write_{cls.__name__}", schema["fields"], lambda part: f"v.{part['name']}", prefix)


SEAL: Final = "seal"
"""The field of an envelope that its class does not have: it is put behind the record."""


def _class_of(schema: Schema) -> type[Any]:
    try:
        return _classes()[schema["name"]]
    except KeyError:
        raise TypeError(f"no class mirrors {schema['name']}") from None


def _default(text: "_Text", cls: type[Any], field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{text.constant(field.default_factory)}()"
    if field.default is dataclasses.MISSING:
        raise TypeError(f"{cls.__name__} has to have a field {field.name}")
    return text.constant(field.default)


def _field_of_dictionary(text: "_Text", part: Schema) -> str:
    if "default" not in part:
        return f"v[{part['name']!r}]"
    default = part["default"]
    return f"v.get({part['name']!r}, {text.constant(tuple(default) if isinstance(default, list) else default)})"


class _Text:
    """The text of one function in the making, and what its names stand for."""

    def __init__(self, functions: RecordFunctions) -> None:
        self._functions = functions
        self._names: dict[str, Any] = {
            "new": object.__new__,
            "array": _read_array,
            "count": read_count,
            "unsigned": read_unsigned,
            "double": _read_double,
            "truth": _READ_TRUTH,
            "write_array": _write_array,
            "pack": _pack_double,
            "true": _TRUTH,
            "L": LONGS,
            "join": b"".join,
        }

    def constant(self, value: Any) -> str:
        """Return a name for a value."""
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def _compiled(self, name: str, parameters: str, lines: Sequence[str]) -> Callable[..., Any]:
        text = "\n ".join([f"def {name}({parameters}):", *lines])
        exec(compile(text, f"<{name} of a schema>", "exec"), self._names)  # noqa: S102 - of the project's own schemas, whose names are words
        function: Callable[..., Any] = self._names[name]
        return function

    # -- reading: `b` are the bytes, `i` is where it stands ---------------------------------------------------------------

    def reader(self, name: str, lines: Sequence[str], value: str) -> Reader:
        """Return the function of these lines, which gives this value."""
        return self._compiled(name, "b, i", [*lines, f"return {value}, i"])

    def use(self, target: str, read: Reader) -> list[str]:
        """Return the lines by which a reader gives the value."""
        return [f"{target}, i = {self.constant(read)}(b, i)"]

    def read(self, schema: Schema, target: str) -> list[str]:
        """Return the lines that read a value of a type."""
        match kind := _kind_of(schema):
            case "record":
                return self.use(target, self._functions.reader_of(schema))
            case "enum":
                return [f"{target} = {self.constant(_read_symbols(schema))}[b[i]]; i += 1"]
            case "array":
                read = self.constant(self._functions.reader_of(schema["items"]))
                return [f"if b[i]: {target}, i = array(b, i, {read})", f"else: {target} = (); i += 1"]
            case "union":
                readers = self.constant(BranchReaders(self._functions, schema))
                read = f"{target}, i = {readers}[b[i]](b, i + 1)"
                return ["if b[i]:", f" {read}", "else:", f" {target} = None; i += 1"] if schema[0] == "null" else [read]
        return [line.format(target=target) for line in _LINES_THAT_READ[kind]]

    # -- writing: `v` is the value ----------------------------------------------------------------------------------------

    def writer(self, name: str, fields: Sequence[Schema], access: Callable[[Schema], str], prefix: bytes = b"") -> Writer:
        """Return a function that writes fields behind a prefix."""
        lines: list[str] = []
        parts = [self.constant(prefix)] if prefix else []
        for number, part in enumerate(fields):
            parts += self._write(part["type"], access(part), f"v{number}", lines)
        return self._compiled(name, "v", [*lines, f"return join(({', '.join(parts)},))" if parts else "return b''"])

    def _write(self, schema: Schema, value: str, local: str, lines: list[str]) -> list[str]:
        """Return the parts that a value is written as; lines that come before are added."""
        match kind := _kind_of(schema):
            case "string" | "bytes":
                lines.append(f"{local} = {value}{'.encode()' if kind == 'string' else ''}")
                return [f"L[len({local})]", local]
            case "record":
                return [f"{self.constant(self._functions.writer_of(schema))}({value})"]
            case "enum":
                return [f"{self.constant({symbol: LONGS[number] for number, symbol in enumerate(schema['symbols'])})}[{value}]"]
            case "array":
                return [f"write_array({value}, {self.constant(self._functions.writer_of(schema['items']))})"]
            case "union":
                return [self._write_union(schema, value)]
        return [_PARTS_THAT_WRITE[kind].format(value=value)]

    def _write_union(self, union: Sequence[Schema], value: str) -> str:
        others = [(LONGS[number], branch) for number, branch in enumerate(union) if branch != "null"]
        if len(others) == len(union):
            writers = self.constant(BranchWriters(self._functions, union))
            return f"{writers}[({value}).__class__]({value})"
        [(prefix, branch)] = others
        none = self.constant(LONGS[union.index("null")])
        return f"({none} if {value} is None else {self.constant(self._functions.writer_of(branch, prefix))}({value}))"


def _read_symbols(schema: Schema) -> dict[int, Any]:
    """Return the members of an enumeration by the byte that says them."""
    members = getattr(statuses, schema["name"].removeprefix(f"{NAMESPACE}.")).__members__
    if len(schema["symbols"]) > _MAX_SYMBOLS:
        raise TypeError(f"{schema['name']} has more symbols than a byte says")
    return {2 * number: members[symbol] for number, symbol in enumerate(schema["symbols"]) if symbol in members}

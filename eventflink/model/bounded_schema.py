"""Avro schemas of others by which what is decoded is bounded by the bytes that it is decoded from (P10).

The rule it keeps: a schema is refused before its first record is decoded, if a few bytes of it could say a billion values, or nest without
end. Nothing is decoded here, and nothing is written out: a type that is used by its name is looked at once.
"""

from typing import Any, Final, NamedTuple, NoReturn

MAX_SCHEMA_BYTES: Final = 512 * 1024
"""Of the text; the envelopes of ours with all that is said in them have less."""

MAX_DEPTH: Final = 64
"""Of types in types, also where a name stands for one: whatever decodes them calls itself as deeply."""

MAX_VALUES_PER_BYTE: Final = 2
"""As many as an array of the smallest records has, which our envelopes are far from. To decode 256 KiB of these takes half a second of a
processor; with 8, it would take two, and the leader has a lease of one."""

MAX_VALUES_WITHOUT_BYTES: Final = 1_000
"""Beyond what is paid for by bytes; in our envelopes it is one, the record itself."""

_LEAST: Final = -(2**31)
"""No value pays for more: the numbers stay small, however often types use each other."""

_SHOWN: Final = 200
"""How much of a place is said, from its end."""

_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_HINTS: Final = ("logicalType", "__fastavro_parsed", "__named_schemas")
"""What values mean; and what makes fastavro believe other types than those that are looked at here."""


class _Made(NamedTuple):
    """How many values one value of a type becomes, less `MAX_VALUES_PER_BYTE` for each byte of it."""

    whole: int
    """When it has been decoded, at most."""
    most: int
    """At any moment before, for the bytes may end in it."""
    height: int = 0
    """How deeply types nest in it."""


_FREE: Final = _Made(1, 1)
_PAID: Final = _Made(1 - MAX_VALUES_PER_BYTE, 0)
"""One value of one byte; of more bytes it is less."""


def bounded_schema(document: Any) -> Any:
    """Return a schema without its logical types: what is decoded are plain values, whatever they mean.

    Raises:
        ValueError: values are not bounded by their bytes, a type holds itself, or types nest too deeply; the message says where. Whether it
            is a schema otherwise is not checked.

    """
    return _Walk().walk(document, 0, "")[0]


class _Walk:
    """What is known of the types by name, while a schema is walked."""

    def __init__(self) -> None:
        self._known: dict[str, _Made | None] = {}
        """None: the type holds the place where the walk is."""
        self._place: list[str] = []

    def walk(self, schema: Any, depth: int, namespace: str) -> tuple[Any, _Made]:
        """Return a schema as it is used, and what a value of it becomes."""
        if depth > MAX_DEPTH:
            self._refuse(f"types nest more than {MAX_DEPTH} deep")
        if isinstance(schema, list):  # A union: the index of the branch has a byte, and its name may be a value more.
            branches = [self.walk(each, depth + 1, namespace) for each in schema]
            made = [(_PAID.whole + each.whole, _PAID.whole + each.most, each.height + 1) for _, each in branches]
            return [branch for branch, _ in branches], _Made(*map(max, zip((_LEAST, 0, 0), *made, strict=True)))
        if isinstance(schema, str):
            return schema, self._named(schema, depth, namespace)
        if not isinstance(schema, dict):
            self._refuse(f"{type(schema).__name__} is not a type")
        plain = {key: value for key, value in schema.items() if key not in _HINTS}
        kind = plain.get("type")
        if kind == "array":
            plain["items"], made_of_item = self._walk_into("[]", plain.get("items"), depth, namespace)
            return plain, self._repeated(made_of_item)
        if kind == "map":
            plain["values"], value = self._walk_into("[]", plain.get("values"), depth, namespace)
            return plain, self._repeated(_Made(_PAID.whole + value.whole, max(0, _PAID.whole + value.most), value.height))
        if kind in _NAMED:
            return self._defined(plain, depth, namespace)
        plain["type"], inner = self.walk(kind, depth + 1, namespace)
        return plain, inner

    def _walk_into(self, place: str, schema: Any, depth: int, namespace: str) -> tuple[Any, _Made]:
        self._place.append(place)
        walked = self.walk(schema, depth + 1, namespace)
        self._place.pop()
        return walked

    def _repeated(self, item: _Made) -> _Made:
        """Return what an array becomes, which ends with a byte; items have to pay for themselves, for their number has no bound."""
        if item.whole > 0:
            self._refuse(f"an array of items that have no bytes, or more than {MAX_VALUES_PER_BYTE} values for a byte, has no bound")
        return _Made(_PAID.whole, max(1, _PAID.whole + item.most), item.height + 1)

    def _defined(self, schema: dict[str, Any], depth: int, namespace: str) -> tuple[Any, _Made]:
        name, namespace = _full_name(schema, namespace)
        if name in self._known:
            self._refuse(f"{name} is there twice")
        if schema["type"] in ("enum", "fixed"):
            size = schema.get("size")
            is_empty = schema["type"] == "fixed" and not (isinstance(size, int) and size > 0)
            self._known[name] = made = _FREE if is_empty else _PAID
            return schema, made
        self._known[name] = None
        fields, whole, most, height = [], 1, 1, 0
        for field in schema.get("fields") or ():
            if not isinstance(field, dict):
                self._refuse(f"{type(field).__name__} is not a field")
            inner, made = self._walk_into(f".{field.get('name')}", field.get("type"), depth, namespace)
            fields.append({**field, "type": inner})
            most, whole, height = max(most, whole + made.most), max(_LEAST, whole + made.whole), max(height, made.height + 1)
        if most > MAX_VALUES_WITHOUT_BYTES:
            self._refuse(f"{name} has more than {MAX_VALUES_WITHOUT_BYTES} values that no byte pays for")
        self._known[name] = made = _Made(whole, most, height)
        return {**schema, "fields": fields}, made

    def _named(self, name: str, depth: int, namespace: str) -> _Made:
        if name in _PRIMITIVE:
            return _FREE if name == "null" else _PAID
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        if full_name not in self._known:
            self._refuse(f"unknown type: {name}")
        if (made := self._known[full_name]) is None:
            self._refuse(f"{name} holds itself, so it may nest without end")
        if depth + made.height > MAX_DEPTH:
            self._refuse(f"types nest more than {MAX_DEPTH} deep")
        return made

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(f"{''.join(self._place).lstrip('.')[-_SHOWN:] or 'it'}: {why}")


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a type, and the namespace of what is in it, as fastavro has them: both have to know the same types."""
    name = str(schema.get("name"))
    if "." in name:
        return name, name.rpartition(".")[0]
    namespace = str(schema.get("namespace", namespace) or "")
    return f"{namespace}.{name}" if namespace else name, namespace

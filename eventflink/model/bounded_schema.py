"""Avro schemas of others by which what is decoded is bounded by the bytes that it is decoded from (P10).

The rule it keeps: a schema is refused before its first record is decoded, if a few bytes of it could say a billion items, or nest without
end. Nothing is decoded here.
"""

from typing import Any, Final

MAX_SCHEMA_BYTES: Final = 512 * 1024
"""Of the text; the envelopes of ours with all that is said in them have less."""

MAX_DEPTH: Final = 64
_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def bounded_schema(document: Any) -> Any:
    """Return a schema without its logical types: what is decoded are plain values, whatever they mean.

    Raises:
        ValueError: an array has items of no bytes, a type holds itself, or types nest too deeply; the message says where. Whether it is a
            schema otherwise is not checked.

    """
    return _Walk().walk(document, "", 0)[0]


class _Walk:
    """What is known of the types by name, while a schema is walked."""

    def __init__(self) -> None:
        self._can_be_empty: dict[str, bool] = {}
        self._open: set[str] = set()
        """Types that hold the place where the walk is."""

    def walk(self, schema: Any, place: str, depth: int, namespace: str = "") -> tuple[Any, bool]:
        """Return a schema as it is used, and whether a value of it may have no bytes."""
        if depth > MAX_DEPTH:
            raise ValueError(f"{place}: types nest more than {MAX_DEPTH} deep")
        if isinstance(schema, list):  # A union: the index of the branch has a byte.
            return [self.walk(each, place, depth + 1, namespace)[0] for each in schema], False
        if isinstance(schema, str):
            return schema, self._is_empty(schema, place, namespace)
        if not isinstance(schema, dict):
            raise ValueError(f"{place or 'it'}: {type(schema).__name__} is no type")  # noqa: TRY004 - one error for all that a schema may be
        plain = {key: value for key, value in schema.items() if key != "logicalType"}
        kind = plain.get("type")
        if kind == "array":
            plain["items"], is_empty = self.walk(plain.get("items"), f"{place}[]", depth + 1, namespace)
            if is_empty:
                raise ValueError(f"{place or 'it'}: an array of items that have no bytes has no bound")
            return plain, False
        if kind == "map":  # A key has a byte.
            plain["values"], _ = self.walk(plain.get("values"), f"{place}[]", depth + 1, namespace)
            return plain, False
        if kind in _NAMED:
            return self._named(plain, place, depth, namespace)
        plain["type"], is_empty = self.walk(kind, place, depth + 1, namespace)
        return plain, is_empty

    def _named(self, schema: dict[str, Any], place: str, depth: int, namespace: str) -> tuple[Any, bool]:
        name, namespace = _full_name(schema, namespace)
        if schema["type"] in ("enum", "fixed"):
            self._can_be_empty[name] = schema["type"] == "fixed" and not schema.get("size")
            return schema, self._can_be_empty[name]
        self._open.add(name)
        fields, is_empty = [], True
        for field in schema.get("fields") or ():
            if not isinstance(field, dict):
                raise ValueError(f"{place or name}: {type(field).__name__} is no field")  # noqa: TRY004 - as above
            inner, may_be_empty = self.walk(field.get("type"), f"{place}.{field.get('name')}".lstrip("."), depth + 1, namespace)
            fields.append({**field, "type": inner})
            is_empty = is_empty and may_be_empty
        self._open.discard(name)
        self._can_be_empty[name] = is_empty
        return {**schema, "fields": fields}, is_empty

    def _is_empty(self, name: str, place: str, namespace: str) -> bool:
        if name in _PRIMITIVE:
            return name == "null"
        names = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        if any(each in self._open for each in names):
            raise ValueError(f"{place or 'it'}: {name} holds itself, so it may nest without end")
        return any(self._can_be_empty.get(each, False) for each in names)


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a type, and the namespace of what is in it."""
    name = str(schema.get("name"))
    namespace = name.rpartition(".")[0] if "." in name else str(schema.get("namespace") or namespace)
    return (name if "." in name or not namespace else f"{namespace}.{name}"), namespace

"""The Avro schemas, made of the classes of the records, and their releases.

Name, fields, types, defaults and words of a schema are those of its class: an attribute's docstring is the field's `doc`. A whole number
is a `long`. For each envelope whose canonical form changed, `release` writes the next `schemas/eventflink.<Envelope>.<n>.avsc`, whole and
with its references inlined, and pins it in `schemas/FINGERPRINTS`. A released file is never changed: logs are read with it for ever. A
change that would make older records unreadable is refused: fields may be added with a default, branches of unions and symbols of enums
may be added, nothing else. The newest release can be taken back, also for its words alone; that is right only while nobody has written
anything with it.
"""

import ast
import dataclasses
import enum
import hashlib
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastavro

from eventflink.events.decision import LogEvent
from eventflink.events.envelopes import ENVELOPES, SEALS
from eventflink.events.inputs import COMMANDS, Command
from eventflink.events.log_events import EVENTS
from eventflink.events.oldest_release import PAYLOAD
from eventflink.events.record_functions import SEAL, record_classes, tag_of
from eventflink.events.schemas import NAMESPACE, fingerprint_of

FINGERPRINTS: Final = "FINGERPRINTS"
_FILE_NAME: Final = re.compile(rf"{NAMESPACE}\.(?P<name>\w+)\.(?P<number>\d+)\.avsc")

Document = Any
"""A schema as its JSON document holds it."""

_BASES: Final[Mapping[type[Any], Iterable[type[Any]]]] = {LogEvent: EVENTS.values(), Command: COMMANDS.values()}
"""Base classes that stand for all of their records."""

_PLAIN: Final[Mapping[Any, str]] = {str: "string", bool: "boolean", bytes: "bytes", int: "long", float: "double", type(None): "null"}


class IncompatibleChange(Exception):
    """A schema no longer reads what a released one wrote; the message says where and why."""


# -- of classes ---------------------------------------------------------------------------------------------------------


def documents() -> dict[str, Document]:
    """Return the schema of each record, enumeration and envelope by its name; they refer to each other by their full names.

    Raises:
        TypeError: a field is of a type that no schema has.
        ValueError: a class or a field has no docstring.

    """
    made: dict[str, Document] = {}
    for cls in (*ENVELOPES.values(), *record_classes()):
        _add(cls, made)
    for topic, envelope in ENVELOPES.items():
        for field in made[envelope.__name__]["fields"]:
            if field["name"] == PAYLOAD and not isinstance(field["type"], list):
                field["type"] = [field["type"]]  # A later release can add another record to a union only.
        if topic in SEALS:
            seal = {"name": SEAL, "type": ["null", "bytes"], "doc": SEALS[topic], "default": None}
            made[envelope.__name__]["fields"].append(seal)
    return dict(sorted(made.items()))


def _add(cls: type[Any], made: dict[str, Document]) -> str:
    """Add the document of a class, and of what it refers to; return its full name."""
    if cls.__name__ in made:
        return tag_of(cls)
    head = {"name": cls.__name__, "namespace": NAMESPACE, "doc": " ".join((cls.__doc__ or "").split())}
    if not head["doc"] or head["doc"].startswith(f"{cls.__name__}("):
        raise ValueError(f"{cls.__name__} has no docstring")
    if issubclass(cls, enum.Enum):
        made[cls.__name__] = {"type": "enum", **head, "symbols": [member.value for member in cls]}
        return tag_of(cls)
    fields: list[Document] = []
    made[cls.__name__] = {"type": "record", **head, "fields": fields}
    hints = typing.get_type_hints(cls)
    fields += [_field_of(cls, field, hints[field.name], made) for field in dataclasses.fields(cls)]
    return tag_of(cls)


def _field_of(cls: type[Any], field: "dataclasses.Field[Any]", hint: Any, made: dict[str, Document]) -> Document:
    try:
        avro_type = _type_of(hint, made)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{field.name}: {error}") from error
    document = {"name": field.name, "type": avro_type, "doc": _doc_of(cls, field.name)}
    if field.default is dataclasses.MISSING:
        return document
    return document | {"default": list(field.default) if isinstance(field.default, tuple) else field.default}


def _type_of(hint: Any, made: dict[str, Document]) -> Document:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": _type_of(arguments[0], made)}
    if origin in (typing.Union, types.UnionType):
        # A null comes first: it is the default of what may be missing.
        return sorted((_type_of(argument, made) for argument in arguments), key=lambda branch: branch != "null")
    if hint in _BASES:
        return [_add(cls, made) for cls in _BASES[hint]]
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, enum.Enum)):
        return _add(hint, made)
    raise TypeError(f"no schema has a {hint}")


def _doc_of(cls: type[Any], name: str) -> str:
    """Return the docstring of a field, in the class that declares it."""
    for declaring in cls.__mro__:
        docs = _docs_of_fields(declaring.__module__).get(declaring.__name__, {})
        if name in docs:
            if not docs[name]:
                raise ValueError(f"{declaring.__name__}.{name} has no docstring")
            return docs[name]
    raise ValueError(f"{cls.__name__}.{name} is declared nowhere")


@cache
def _docs_of_fields(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of the annotated attributes of each class of a module; an empty one where there is none."""
    if not module.startswith(f"{NAMESPACE}."):
        return {}
    classes = (node for node in ast.parse(inspect.getsource(sys.modules[module])).body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_docs_in(node)) for node in classes}


def _docs_in(node: ast.ClassDef) -> Iterable[tuple[str, str]]:
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = following.value if isinstance(following, ast.Expr) else None
            yield statement.target.id, " ".join(str(value.value).split()) if isinstance(value, ast.Constant) else ""


# -- releases -----------------------------------------------------------------------------------------------------------


def envelope_names() -> list[str]:
    """Return the names of the envelopes."""
    return sorted(envelope.__name__ for envelope in ENVELOPES.values())


def inlined(documents: Mapping[str, Document], name: str) -> Document:
    """Return an envelope's document with every named type written out where it is first used."""
    return _inline(documents, f"{NAMESPACE}.{name}", set())


def _inline(documents: Mapping[str, Document], node: Document, seen: set[str]) -> Document:
    if isinstance(node, str):
        if node in seen or not node.startswith(f"{NAMESPACE}."):
            return node
        seen.add(node)
        return _inline(documents, documents[node.removeprefix(f"{NAMESPACE}.")], seen)
    if isinstance(node, list):
        return [_inline(documents, branch, seen) for branch in node]
    result = dict(node)
    if node["type"] == "record":
        result["fields"] = [field | {"type": _inline(documents, field["type"], seen)} for field in node["fields"]]
    elif node["type"] == "array":
        result["items"] = _inline(documents, node["items"], seen)
    return result


def incompatibilities(older: Document, newer: Document) -> list[str]:
    """Return why records of `older` could not be read as `newer`, each with its place; nothing when they can."""
    return list(_Comparison(older, newer).problems())


class _Comparison:
    """Compares two documents; every pair of named types once."""

    def __init__(self, older: Document, newer: Document) -> None:
        self._named: tuple[dict[str, Document], dict[str, Document]] = ({}, {})
        self._roots = [fastavro.parse_schema(d, named_schemas=n) for d, n in zip((older, newer), self._named, strict=True)]
        self._compared: set[str] = set()

    def problems(self) -> Iterable[str]:
        older, newer = self._roots
        yield from self._compare(older, newer, "")

    def _compare(self, older: Document, newer: Document, place: str) -> Iterable[str]:
        older, newer = (named.get(_key(node), node) for node, named in zip((older, newer), self._named, strict=True))
        if isinstance(older, list) and isinstance(newer, list):
            yield from self._compare_unions(older, newer, place)
        elif _kind(older) != _kind(newer) or _key(older) != _key(newer):
            yield f"{place or 'the schema'}: {_label(older)} became {_label(newer)}"
        elif _kind(older) == "array":
            yield from self._compare(older["items"], newer["items"], f"{place}[]")
        elif _kind(older) in ("record", "enum") and _key(older) not in self._compared:
            self._compared.add(_key(older))
            yield from self._compare_records(older, newer) if _kind(older) == "record" else _compare_enums(older, newer)

    def _compare_unions(self, older: list[Document], newer: list[Document], place: str) -> Iterable[str]:
        branches = {_key(branch): branch for branch in newer}
        for branch in older:
            if _key(branch) not in branches:
                yield f"{place}: the branch {_label(branch)} is gone"
            else:
                yield from self._compare(branch, branches[_key(branch)], place)

    def _compare_records(self, older: Document, newer: Document) -> Iterable[str]:
        before = {field["name"]: field for field in older["fields"]}
        after = {field["name"]: field for field in newer["fields"]}
        for name, field in before.items():
            if name not in after:
                yield f"{_label(older)}.{name}: the field is gone"
            else:
                yield from self._compare(field["type"], after[name]["type"], f"{_label(older)}.{name}")
        for name, field in after.items():
            if name not in before and "default" not in field:
                yield f"{_label(older)}.{name}: a new field needs a default"


def _compare_enums(older: Document, newer: Document) -> Iterable[str]:
    for symbol in older["symbols"]:
        if symbol not in newer["symbols"]:
            yield f"{_label(older)}: the symbol {symbol} is gone"


def _kind(node: Document) -> str:
    if isinstance(node, list):
        return "union"
    return str(node["type"]) if isinstance(node, dict) else str(node)


def _key(node: Document) -> str:
    """Return what names a type: its full name, or what kind of type it is."""
    return str(node["name"]) if isinstance(node, dict) and "name" in node else _kind(node)


def _label(node: Document) -> str:
    return _key(node).removeprefix(f"{NAMESPACE}.")


def released_files(folder: Path, name: str) -> list[Path]:
    """Return the released schemas of an envelope, the oldest first."""
    found = [
        (int(match["number"]), path)
        for path in folder.glob("*.avsc")
        if (match := _FILE_NAME.fullmatch(path.name)) and match["name"] == name
    ]
    return [path for _, path in sorted(found)]


def read_document(path: Path) -> Document:
    """Return the document of a schema file."""
    return json.loads(path.read_text(encoding="utf-8"))


def fingerprint_of_document(document: Document) -> str:
    """Return the CRC-64-AVRO fingerprint of a document, in hexadecimal as single-object encoding has it."""
    return fingerprint_of(fastavro.parse_schema(document, named_schemas={})).hex()


def pins_of(folder: Path) -> dict[str, str]:
    """Return what FINGERPRINTS should say of the files of a folder: file name → CRC-64-AVRO and SHA-256 of its bytes."""
    return {
        path.name: f"{fingerprint_of_document(read_document(path))} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.glob("*.avsc"))
    }


def read_pins(folder: Path) -> dict[str, str]:
    """Return what FINGERPRINTS says."""
    path = folder / FINGERPRINTS
    if not path.is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name: pin.strip() for name, pin in lines}


def release(folder: Path, documents: Mapping[str, Document], *, replace_newest: bool = False) -> list[str]:
    """Release every envelope of these documents that changed into a folder; return the names of the files written.

    Raises:
        IncompatibleChange: a schema no longer reads what a released one wrote; nothing was written.

    """
    planned: list[tuple[Path, Document]] = []
    for name in envelope_names():
        document = inlined(documents, name)
        files = released_files(folder, name)
        newest = read_document(files[-1]) if files else None
        if newest == document or (newest and not replace_newest and fingerprint_of_document(newest) == fingerprint_of_document(document)):
            continue
        number = len(files) + 1
        if replace_newest and files:
            number = len(files)
            files.pop()
        for path in files:
            if problems := incompatibilities(read_document(path), document):
                raise IncompatibleChange(f"{name} cannot be released, it would not read {path.name}: {'; '.join(problems)}")
        planned.append((folder / f"{NAMESPACE}.{name}.{number}.avsc", document))
    for path, document in planned:
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = [f"{name} {pin}\n" for name, pin in pins_of(folder).items()]
    (folder / FINGERPRINTS).write_text("".join(lines), encoding="utf-8")
    return [path.name for path, _ in planned]

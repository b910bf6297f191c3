"""Releases of the schemas: `python -m eventflink.events.release` freezes what the cluster writes from now on.

For each envelope whose canonical form changed it writes the next `schemas/released/eventflink.<Envelope>.<n>.avsc`, whole and
with its references inlined, and pins it in `schemas/released/FINGERPRINTS`. A released file is never changed: logs are read
with it for ever. A change that would make older records unreadable is refused: fields may be added with a default, branches
of unions and symbols of enums may be added, nothing else. `--replace-newest` takes back the newest release of an
envelope that changed, also in its words alone; that is right only while nobody has written anything with it.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro

from eventflink.events.schemas import NAMESPACE, fingerprint_of, schema_directory

FINGERPRINTS: Final = "FINGERPRINTS"
_FILE_NAME: Final = re.compile(rf"{NAMESPACE}\.(?P<name>\w+)\.(?P<number>\d+)\.avsc")

Document = Any
"""A schema as its JSON document holds it."""


class IncompatibleChange(Exception):
    """A schema no longer reads what a released one wrote; the message says where and why."""


def envelope_names(folder: Path) -> list[str]:
    """Return the names of the envelopes among the schemas of a folder."""
    names = (path.name.removeprefix(f"{NAMESPACE}.").removesuffix(".avsc") for path in folder.glob(f"{NAMESPACE}.*.avsc"))
    return sorted(name for name in names if name.endswith("Envelope") or name == "Decision")


def inlined(folder: Path, name: str) -> Document:
    """Return an envelope's document with every named type written out where it is first used."""
    return _inline(folder, f"{NAMESPACE}.{name}", set())


def _inline(folder: Path, node: Document, seen: set[str]) -> Document:
    if isinstance(node, str):
        path = folder / f"{node}.avsc"
        if node in seen or not path.is_file():
            return node
        seen.add(node)
        return _inline(folder, json.loads(path.read_text(encoding="utf-8")), seen)
    if isinstance(node, list):
        return [_inline(folder, branch, seen) for branch in node]
    result = dict(node)
    if node["type"] == "record":
        seen.add(f"{node.get('namespace', NAMESPACE)}.{node['name']}")
        result["fields"] = [field | {"type": _inline(folder, field["type"], seen)} for field in node["fields"]]
    elif node["type"] == "array":
        result["items"] = _inline(folder, node["items"], seen)
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


def release(folder: Path, *, replace_newest: bool = False) -> list[str]:
    """Release every envelope that changed; return the names of the files written.

    Raises:
        IncompatibleChange: a schema no longer reads what a released one wrote; nothing was written.

    """
    released = folder / "released"
    planned: list[tuple[Path, Document]] = []
    for name in envelope_names(folder):
        document = inlined(folder, name)
        files = released_files(released, name)
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
        planned.append((released / f"{NAMESPACE}.{name}.{number}.avsc", document))
    released.mkdir(exist_ok=True)
    for path, document in planned:
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = [f"{name} {pin}\n" for name, pin in pins_of(released).items()]
    (released / FINGERPRINTS).write_text("".join(lines), encoding="utf-8")
    return [path.name for path, _ in planned]


def main(arguments: Sequence[str] | None = None) -> int:
    """Release from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m eventflink.events.release", description="Freeze the schemas that changed.")
    parser.add_argument("--replace-newest", action="store_true", help="take back the newest release: nobody has written with it yet")
    options = parser.parse_args(arguments)
    try:
        written = release(schema_directory(), replace_newest=options.replace_newest)
    except IncompatibleChange as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"released {name}\n" for name in written) or "nothing changed since the newest release\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

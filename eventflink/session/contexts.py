"""Clusters by name: a file of the user's that says, for each name, where its Kafka is, which cell it is, and where its configuration lies.

The file is `$XDG_CONFIG_HOME/eventflink/contexts.yaml` (default ~/.config). Only `eventflink context` writes it. The rule: what a command
line says itself counts more than a context, and a context counts more than ./conf.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from eventflink.session.errors import SessionInvalid

MAX_CONTEXTS: Final = 1_000
_MAX_FILE_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS: Final = ("bootstrap", "cluster-id", "config")


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A cluster; what is empty is left to the configuration."""

    bootstrap: str = ""
    cluster_id: str = ""
    config: str = ""
    """A configuration directory, or its file; absolute."""

    def to_document(self) -> dict[str, str]:
        """Return it as it stands in the file."""
        return {key: value for key, value in zip(_KEYS, (self.bootstrap, self.cluster_id, self.config), strict=True) if value}


@dataclass(slots=True)
class Contexts:
    """The contexts of one user."""

    path: Path
    current: str = ""
    """Which one commands use that name none; empty: none."""
    contexts: dict[str, ClusterContext] = field(default_factory=dict)

    def find(self, name: str) -> ClusterContext:
        """Return a context.

        Raises:
            SessionInvalid: there is none of this name.

        """
        if name not in self.contexts:
            raise SessionInvalid(f"context not found: '{name}' in {self.path}{_near(name, self.contexts)}")
        return self.contexts[name]

    def put(self, name: str, context: ClusterContext) -> None:
        """Set a context.

        Raises:
            SessionInvalid: the name is not valid, or there are too many.

        """
        if not _NAME.fullmatch(name):
            raise SessionInvalid(f"invalid name of a context: '{name[:80]}'; use 1-64 letters, digits, '.', '_' and '-'")
        if name not in self.contexts and len(self.contexts) >= MAX_CONTEXTS:
            raise SessionInvalid(f"{self.path} has {MAX_CONTEXTS} contexts already")
        self.contexts[name] = context

    def remove(self, name: str) -> None:
        """Remove a context; raises as `find` does."""
        self.find(name)
        del self.contexts[name]
        if self.current == name:
            self.current = ""

    def save(self) -> None:
        """Write the file, whole or not at all."""
        import yaml  # noqa: PLC0415 - most commands have no such file

        document = {"current": self.current, "contexts": {name: context.to_document() for name, context in self.contexts.items()}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}")
        temporary.write_text(yaml.safe_dump(document, sort_keys=True), encoding="utf-8")
        temporary.replace(self.path)


def _near(name: str, known: Mapping[str, object]) -> str:
    from eventflink.model.texts import did_you_mean  # noqa: PLC0415 - only what failed pays for that

    return did_you_mean(name, known)


def contexts_file(environment: Mapping[str, str]) -> Path:
    """Return where the contexts of this user stand."""
    home = environment.get("XDG_CONFIG_HOME") or ""
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".config") / "eventflink" / "contexts.yaml"


def load_contexts(path: Path) -> Contexts:
    """Return the contexts of a file; none where it does not exist.

    Raises:
        SessionInvalid: it cannot be read, or is no file of contexts.

    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise SessionInvalid(f"{path}: {error.strerror or error}") from error
    from eventflink.model.document_text import read_document  # noqa: PLC0415 - most commands have no such file

    if len(data) > _MAX_FILE_BYTES:
        raise SessionInvalid(f"invalid contexts file {path}: it is longer than {_MAX_FILE_BYTES} bytes")
    try:
        return _read(path, read_document(data.decode()))
    except ValueError as error:
        raise SessionInvalid(f"invalid contexts file {path}: {error}") from error


def _read(path: Path, document: Any) -> Contexts:
    if document is None:
        return Contexts(path)
    if not isinstance(document, dict) or not document.keys() <= {"current", "contexts"}:
        raise ValueError("it has to be a mapping with 'current' and 'contexts'")
    listed = document.get("contexts") or {}
    if not isinstance(listed, dict) or len(listed) > MAX_CONTEXTS:
        raise ValueError(f"'contexts' has to be a mapping of at most {MAX_CONTEXTS} names")
    found = {str(name): _read_one(str(name), values) for name, values in listed.items()}
    return Contexts(path, str(document.get("current") or ""), found)


def _read_one(name: str, values: Any) -> ClusterContext:
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError(f"'{name}' has to be a mapping of texts")
    if unknown := [key for key in values if key not in _KEYS]:
        raise ValueError(f"'{name}': unknown key: '{unknown[0]}'; known: {', '.join(_KEYS)}{_near(str(unknown[0]), dict.fromkeys(_KEYS))}")
    return ClusterContext(*(values.get(key, "") for key in _KEYS))

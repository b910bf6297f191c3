"""Where the embedded broker and the REST process of a data directory listen, each left in a file there.

A file counts only while the process that wrote it lives: one that was killed leaves a file, but no address.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import psutil


class Announced(StrEnum):
    """What listens; the file has its name."""

    BROKER = "broker"
    REST = "rest"

    @property
    def key(self) -> str:
        """Under which key the address stands in the file."""
        return "bootstrap" if self is Announced.BROKER else "url"


def _file(data_path: Path, what: Announced) -> Path:
    return data_path / "run" / f"{what}.json"


@contextlib.contextmanager
def announced(data_path: Path, what: Announced, address: str, *, of_cluster: str = "") -> Iterator[None]:
    """Announce what this process owns while the block runs, and for which cluster, where that matters."""
    path = _file(data_path, what)
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = psutil.Process()
    temporary = path.with_suffix(f".{os.getpid()}")
    said = {what.key: address, "cluster": of_cluster, "process_id": owner.pid, "started_at": owner.create_time()}
    temporary.write_text(json.dumps(said), encoding="utf-8")
    temporary.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read(data_path: Path, what: Announced, process_id: int | None = None, *, of_cluster: str | None = None) -> str | None:
    """Return the address of what runs now on this data directory, of this very process or for this cluster alone; None: there is none."""
    try:
        found = json.loads(_file(data_path, what).read_text(encoding="utf-8"))
        owner = psutil.Process(int(found["process_id"]))
        alive = owner.create_time() == float(found["started_at"]) and process_id in (None, owner.pid)
        return str(found[what.key]) if alive and of_cluster in (None, found.get("cluster")) else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None

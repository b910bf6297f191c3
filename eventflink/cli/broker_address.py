"""Where the embedded broker of a data directory listens, left in a file by `up` and `broker` for the other commands.

The file counts only while the process that wrote it lives: a broker that was killed leaves a file, but no address.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil


def _file(data_path: Path) -> Path:
    return data_path / "run" / "broker.json"


@contextlib.contextmanager
def announced(data_path: Path, bootstrap: str) -> Iterator[None]:
    """Announce the broker that this process owns while the block runs."""
    path = _file(data_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = psutil.Process()
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"bootstrap": bootstrap, "process_id": owner.pid, "started_at": owner.create_time()}), encoding="utf-8")
    temporary.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read(data_path: Path) -> str | None:
    """Return the address of the broker that runs now on this data directory, or None."""
    try:
        found = json.loads(_file(data_path).read_text(encoding="utf-8"))
        owner = psutil.Process(int(found["process_id"]))
        alive = owner.create_time() == float(found["started_at"])
        return str(found["bootstrap"]) if alive else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None

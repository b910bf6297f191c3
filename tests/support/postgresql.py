"""A PostgreSQL server of the tests' own, on a socket in a directory of its own; it is Debian's, which `.ci/run` installs."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.running_cluster import wait_until

USER = "postgres"
"""Whom root becomes: PostgreSQL refuses to run as root."""


def find_binaries() -> Path | None:
    """Return where `initdb` and `postgres` are; Debian leaves them off the path."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), shutil.which("initdb")]
    return next((Path(initdb).parent for initdb in found if initdb is not None), None)


@contextmanager
def postgresql(binaries: Path) -> Iterator[str]:
    """Run a server; yield what a client connects with."""
    directory = Path(tempfile.mkdtemp(prefix="eventflink-postgresql-"))
    as_user: dict[str, Any] = {"cwd": directory, "stdout": subprocess.DEVNULL}
    if os.geteuid() == 0:
        shutil.chown(directory, USER, USER)
        as_user |= {"user": USER, "group": USER, "extra_groups": []}
    data, conninfo = directory / "data", f"host={directory} user={USER} dbname={USER}"
    subprocess.run([binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "--no-sync"], check=True, **as_user)
    with subprocess.Popen([binaries / "postgres", "-D", data, "-k", directory, "-h", ""], **as_user) as server:
        try:
            wait_until(lambda: server.poll() is not None or _answers(conninfo), "PostgreSQL")
            yield conninfo
        finally:
            server.send_signal(signal.SIGQUIT)  # It waits for no client.
    shutil.rmtree(directory)


def _answers(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True

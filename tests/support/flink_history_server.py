"""Flink's own history server, unmodified, from the set of jars that its clients are in."""

import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventflink.log.jars import ensure_jars
from eventflink.log.java import find_java
from tests.support.flink_client import FLINK
from tests.support.running_cluster import wait_until

_CLASS: Final = "org.apache.flink.runtime.webmonitor.history.HistoryServer"


@contextmanager
def flink_history_server(archives: Path, directory: Path) -> Iterator[str]:
    """Run one over a directory of archives; give its URL once it has read what is there. It keeps its own files in `directory`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {
        "historyserver.web.address": "127.0.0.1",
        "historyserver.web.port": port,
        "historyserver.web.tmpdir": directory / "web",
        "historyserver.archive.fs.dir": archives.as_uri(),
        "historyserver.archive.fs.refresh-interval": 100,
        # Without these its dashboard asks for what it has not, and says so on the console.
        "historyserver.log.jobmanager.url-pattern": "http://localhost/<jobid>",
        "historyserver.log.taskmanager.url-pattern": "http://localhost/<jobid>/<tmid>",
    }
    directory.mkdir()
    (directory / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    java = find_java()
    command = [str(java), "-cp", f"{ensure_jars(FLINK, java)}/*", _CLASS, "--configDir", str(directory)]
    url = f"http://127.0.0.1:{port}"
    with (
        (directory / "output.txt").open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=os.environ) as process,
    ):
        try:

            def has_read() -> bool:
                assert process.poll() is None, (directory / "output.txt").read_text(encoding="utf-8")
                return b'"jid"' in _get(f"{url}/jobs/overview")

            wait_until(has_read, "Flink's history server")
            yield url
        finally:
            process.terminate()
            process.wait(120)


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, ConnectionError):
        return b""

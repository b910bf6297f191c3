"""Flink's own command line, unmodified: flink-clients of Maven Central, in a Java of its own for each command."""

import os
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from eventflink.log.jars import JarSet, ensure_jars
from eventflink.log.java import find_java

FLINK_CLIENTS: Final = JarSet(
    "Flink's clients",
    "2.3.0",
    "flink-clients",
    (("org.apache.flink", "flink-clients", "2.3.0"), ("org.slf4j", "slf4j-nop", "1.7.36")),
    jar_count=40,
    megabytes=80,
)
_TIMEOUT_S: Final = 180


class FlinkCommandLine:
    """The command `flink` for the cluster behind one REST process."""

    def __init__(self, url: str, directory: Path) -> None:
        """Fetch its jars, once for this machine; `directory` is for its configuration."""
        place = urlsplit(url)
        directory.mkdir()
        (directory / "config.yaml").write_text(f"rest.address: {place.hostname}\nrest.port: {place.port}\n", encoding="utf-8")
        java = find_java()
        self._command = [str(java), "-cp", f"{ensure_jars(FLINK_CLIENTS, java)}/*", "org.apache.flink.client.cli.CliFrontend"]
        self._environment = {**os.environ, "FLINK_CONF_DIR": str(directory)}

    def run(self, *arguments: str, exit_code: int = 0) -> str:
        """Run a command; return what it prints."""
        finished = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        assert finished.returncode == exit_code, finished.stdout + finished.stderr
        return finished.stdout + finished.stderr

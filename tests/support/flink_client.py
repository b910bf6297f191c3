"""What Flink itself has for its users, unmodified, from Maven Central: its command line, in a Java of its own for each command.

Its dashboard is in the same set of jars; `flink_dashboard.py` shows it.
"""

import os
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from eventflink.local.jars import JarSet, ensure_jars
from eventflink.local.java import find_java

FLINK: Final = JarSet(
    "Flink's clients and dashboard",
    "2.3.0",
    "flink",
    (
        ("org.apache.flink", "flink-clients", "2.3.0"),
        ("org.apache.flink", "flink-runtime-web", "2.3.0"),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ),
    jar_count=41,
    megabytes=85,
)
_TIMEOUT_S: Final = 360


class FlinkCommandLine:
    """The command `flink` for the cluster behind one REST process."""

    def __init__(self, url: str, directory: Path) -> None:
        """Fetch its jars, once for this machine; `directory` is for its configuration."""
        place = urlsplit(url)
        directory.mkdir()
        (directory / "config.yaml").write_text(f"rest.address: {place.hostname}\nrest.port: {place.port}\n", encoding="utf-8")
        java = find_java()
        self._command = [str(java), "-cp", f"{ensure_jars(FLINK, java)}/*", "org.apache.flink.client.cli.CliFrontend"]
        self._environment = {**os.environ, "FLINK_CONF_DIR": str(directory)}

    def run(self, *arguments: str, exit_code: int = 0) -> str:
        """Run a command; return what it prints."""
        finished = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        assert finished.returncode == exit_code, finished.stdout + finished.stderr
        return finished.stdout + finished.stderr

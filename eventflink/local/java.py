"""Finds a Java runtime that the embedded broker and Spark can run on.

Nothing is installed here. The rule: where Java is missing, the error says what was looked at and which command installs it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

MINIMUM_JAVA_VERSION: Final = 17
"""Spark 4 and Kafka 4 both need at least this."""

INSTALL_COMMANDS: Final = (
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless (where that is missing: openjdk-21-jre-headless); "
    "Fedora, RHEL: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17; then set JAVA_HOME or PATH"
)

_VERSION_TIMEOUT_S: Final = 20.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaMissing(Exception):
    """No Java runtime of the needed version was found; the message says where it was looked for and how to install one."""


def parse_java_version(text: str) -> int | None:
    """Return the major version in what `java -version` printed, or None where there is none."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major, minor = int(match.group(1)), int(match.group(2) or 0)
    # Up to Java 8 the version was written 1.8.
    return minor if major == 1 else major


def _candidates() -> list[tuple[str, Path | None]]:
    """Return the places to look at, best first, each with how a message calls it."""
    places: list[tuple[str, Path | None]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        places.append((f"JAVA_HOME={home}", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    places.append(("PATH", Path(on_path) if on_path else None))
    return places


def _describe_problem(java: Path | None) -> str | None:
    """Return what is wrong with a candidate, or None where it is usable."""
    if java is None or not java.is_file():
        return "no java"
    try:
        finished = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} cannot be run: {error}"
    printed = finished.stderr + finished.stdout
    version = parse_java_version(printed)
    if finished.returncode != 0 or version is None:
        first_line = next(iter(printed.strip().splitlines()), f"exit code {finished.returncode}")
        return f"{java} does not work: {first_line}"
    if version < MINIMUM_JAVA_VERSION:
        return f"{java} is Java {version}"
    return None


def find_java() -> Path:
    """Return the path of a usable `java`: the one of JAVA_HOME, or else the first on PATH.

    Raises:
        JavaMissing: neither is Java 17 or newer.

    """
    problems = []
    for place, java in _candidates():
        problem = _describe_problem(java)
        if problem is None and java is not None:
            return java
        problems.append(f"{place}: {problem}")
    raise JavaMissing(f"Java {MINIMUM_JAVA_VERSION} or newer is needed and was not found ({'; '.join(problems)}). {INSTALL_COMMANDS}")

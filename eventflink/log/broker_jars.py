"""Brings the jars of Apache Kafka to this machine, once, into a cache.

The resolver is Ivy, whose jar pyspark ships; it verifies checksums. It works with settings and a cache of its own, since a broken
file in a user's Maven cache would break it. The rule: the directory of jars appears complete or not at all (it is fetched beside
its place and renamed), and of many processes that need it only one fetches.
"""

import importlib.util
import os
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eventflink.processes import die_with_parent
from eventflink.processes.file_lock import locked

KAFKA_VERSION: Final = "4.1.0"
_SCALA_VERSION: Final = "2.13"
_SLF4J_VERSION: Final = "1.7.36"
_JARS_EXPECTED: Final = 46
_FETCH_TIMEOUT_S: Final = 900.0
_TELL_EVERY_S: Final = 2.0
IVY_SETTINGS_VARIABLE: Final = "EVENTFLINK_IVY_SETTINGS"
"""Names an Ivy settings file: where jars are fetched from instead of Maven Central."""

_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

_DEPENDENCIES: Final = f"""\
<ivy-module version="2.0">
  <info organisation="eventflink" module="broker"/>
  <configurations><conf name="broker"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{_SCALA_VERSION}" rev="{KAFKA_VERSION}" conf="broker->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{_SLF4J_VERSION}" conf="broker->default"/>
  </dependencies>
</ivy-module>
"""

Progress = Callable[[str], None]
"""Takes one line for a person each time something has moved."""


class BrokerUnavailable(Exception):
    """The embedded broker cannot be had or does not start; the message says why and what to do."""


def ignore_progress(_line: str) -> None:
    """Take progress and show none."""


def default_cache_directory() -> Path:
    """Return where this user's jars are kept: below XDG_CACHE_HOME, or else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eventflink"


def ensure_broker_jars(java: Path, cache_directory: Path | None = None, progress: Progress = ignore_progress) -> Path:
    """Return the directory that holds Kafka's jars, fetching them first where they are missing (about 43 MB).

    Raises:
        BrokerUnavailable: they are not in the cache and cannot be fetched within 15 minutes.

    """
    cache = cache_directory if cache_directory is not None else default_cache_directory()
    jars = cache / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return jars
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock_path = cache / f"kafka-{KAFKA_VERSION}.lock"
        busy = BrokerUnavailable(f"another process has held {lock_path} for {_FETCH_TIMEOUT_S:.0f} s; end it and try again")
        with locked(lock_path, _FETCH_TIMEOUT_S, busy, lambda: progress("waiting for another process that fetches the Kafka jars")):
            if not jars.is_dir():
                _fetch(java, cache, jars, progress)
    except OSError as error:
        raise BrokerUnavailable(f"Kafka's jars cannot be kept in {cache}: {error}") from error
    return jars


def _fetch(java: Path, cache: Path, jars: Path, progress: Progress) -> None:
    """Fetch beside the final place, check, and rename; the lock is held."""
    partial = cache / f"kafka-{KAFKA_VERSION}.partial"
    # Ivy's own cache outlives a failed attempt, so that the next one continues where this one ended.
    ivy_cache = cache / "ivy"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    settings, dependencies = partial / "ivysettings.xml", partial / "ivy.xml"
    settings.write_text(_SETTINGS, encoding="utf-8")
    dependencies.write_text(_DEPENDENCIES, encoding="utf-8")
    chosen_settings = os.environ.get(IVY_SETTINGS_VARIABLE) or str(settings)
    progress(f"resolving Apache Kafka {KAFKA_VERSION} (once; about 43 MB)")
    command = [str(java), "-jar", str(_find_ivy_jar()), "-settings", chosen_settings, "-ivy", str(dependencies), "-confs", "broker"]
    command += ["-cache", str(ivy_cache), "-retrieve", str(partial / "jars" / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"]
    exit_code, last_lines = _run_ivy(command, progress)
    found = sorted((partial / "jars").glob("*.jar"))
    if exit_code != 0 or not (partial / "jars" / f"kafka_{_SCALA_VERSION}-{KAFKA_VERSION}.jar").is_file():
        shutil.rmtree(partial, ignore_errors=True)
        raise BrokerUnavailable(
            f"Apache Kafka {KAFKA_VERSION} is not in the cache ({jars}) and could not be fetched; is there a network? Either connect this "
            f"machine once, or name a running cluster in bootstrap.servers, or name a repository that this machine reaches in an Ivy "
            f"settings file and that file in {IVY_SETTINGS_VARIABLE}. Ivy ended with exit code {exit_code} and said:\n{last_lines}"
        )
    (partial / "jars").rename(jars)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(ivy_cache, ignore_errors=True)
    progress(f"Kafka's {len(found)} jars are in {jars}")


def _run_ivy(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run Ivy, tell progress every two seconds from what it prints, and return its exit code and its last lines."""
    meaningful: deque[str] = deque(maxlen=12)
    found = fetched = 0
    told_at = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only calls prctl, which is safe after fork
    ) as process:
        watchdog = threading.Timer(_FETCH_TIMEOUT_S, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            for line in process.stdout or ():
                if line.startswith("downloading ") and ".jar" in line:
                    fetched += 1
                elif line.strip(" \t\n.:-|="):
                    found += line.startswith("\tfound ")
                    meaningful.append(line.rstrip())
                if time.monotonic() - told_at >= _TELL_EVERY_S:
                    told_at = time.monotonic()
                    done = f"fetched {fetched}" if fetched else f"found {found}"
                    progress(f"{done} of {_JARS_EXPECTED} Kafka jars")
            exit_code = process.wait()
        finally:
            watchdog.cancel()
            process.kill()
    return exit_code, "\n".join(meaningful)


def _find_ivy_jar() -> Path:
    specification = importlib.util.find_spec("pyspark")
    places = (specification.submodule_search_locations or []) if specification is not None else []
    for place in places:
        for jar in sorted((Path(place) / "jars").glob("ivy-*.jar")):
            return jar
    raise BrokerUnavailable("pyspark, whose jar of Ivy fetches Kafka, is not complete: install it again")

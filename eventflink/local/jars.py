"""Brings sets of jars to this machine, once, into a cache: the broker's, Spark's connector to Kafka, what it has for S3.

The resolver is Ivy, whose jar pyspark ships; it verifies checksums. It works with settings and a cache of its own, since a broken
file in a user's Maven cache would break it. The rule: the directory of a set appears complete or not at all (it is fetched beside
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventflink.processes import die_with_parent
from eventflink.processes.file_lock import locked

SCALA_VERSION: Final = "2.13"
FETCH_TIMEOUT_S: Final = 900.0
_TELL_EVERY_S: Final = 2.0
IVY_SETTINGS_VARIABLE: Final = "EVENTFLINK_IVY_SETTINGS"
"""Names an Ivy settings file: where jars are fetched from instead of Maven Central."""

_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that belong together, with all that they depend on."""

    name: str
    """For people, such as `Apache Kafka`."""
    version: str
    directory: str
    """Below the cache, without the version."""
    dependencies: tuple[tuple[str, str, str], ...]
    """Organisation, artifact and version of each; the first one is checked to have come."""
    jar_count: int
    megabytes: int
    provided: tuple[str, ...] = ()
    """Organisations whose jars are there already, where these will be used."""
    alone: tuple[str, ...] = ()
    """Artifacts of the dependencies that come without what they depend on themselves."""

    def path(self, cache: Path) -> Path:
        """Return where the jars are in a cache."""
        return cache / f"{self.directory}-{self.version}"


KAFKA_VERSION_VARIABLE: Final = "EVENTFLINK_KAFKA_VERSION"
"""Names another version of Kafka for brokers that are started here, 4.0.0 or later: what is tested with each version is tested so."""

_KAFKA_VERSION: Final = os.environ.get(KAFKA_VERSION_VARIABLE) or "4.1.0"

KAFKA_BROKER: Final = JarSet(
    "Apache Kafka",
    _KAFKA_VERSION,
    "kafka",
    (("org.apache.kafka", f"kafka_{SCALA_VERSION}", _KAFKA_VERSION), ("org.slf4j", "slf4j-simple", "1.7.36")),
    jar_count=46,
    megabytes=43,
)

Progress = Callable[[str], None]
"""Takes one line for a person each time something has moved."""


class JarsUnavailable(Exception):
    """A set of jars is not in the cache and cannot be fetched; the message says why and what to do."""


def ignore_progress(_line: str) -> None:
    """Take progress and show none."""


def default_cache_directory() -> Path:
    """Return where this user's jars are kept: below XDG_CACHE_HOME, or else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eventflink"


def ensure_jars(
    jar_set: JarSet,
    java: Path,
    cache_directory: Path | None = None,
    progress: Progress = ignore_progress,
    timeout_s: float = FETCH_TIMEOUT_S,
) -> Path:
    """Return the directory that holds the jars of a set, fetching them first where they are missing.

    Raises:
        JarsUnavailable: they are not in the cache and cannot be fetched in time.

    """
    cache = cache_directory if cache_directory is not None else default_cache_directory()
    jars = jar_set.path(cache)
    if jars.is_dir():
        return jars
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock_path = jars.with_name(f"{jars.name}.lock")
        busy = JarsUnavailable(f"another process has held {lock_path} for {timeout_s:.0f} s; end it and try again")
        with locked(lock_path, timeout_s, busy, lambda: progress(f"waiting for another process that fetches {jar_set.name}")):
            if not jars.is_dir():
                _fetch(jar_set, java, jars, progress, timeout_s)
    except OSError as error:
        raise JarsUnavailable(f"the jars of {jar_set.name} cannot be kept in {cache}: {error}") from error
    return jars


def _fetch(jar_set: JarSet, java: Path, jars: Path, progress: Progress, timeout_s: float) -> None:
    """Fetch beside the final place, check, and rename; the lock is held."""
    partial = jars.with_name(f"{jars.name}.partial")
    # Ivy's own cache outlives a failed attempt, so that the next one continues where this one ended.
    ivy_cache = jars.with_name(f"{jars.name}.ivy")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    settings, dependencies = partial / "ivysettings.xml", partial / "ivy.xml"
    settings.write_text(_SETTINGS, encoding="utf-8")
    dependencies.write_text(_module_of(jar_set), encoding="utf-8")
    chosen_settings = os.environ.get(IVY_SETTINGS_VARIABLE) or str(settings)
    progress(f"resolving {jar_set.name} {jar_set.version} (once; about {jar_set.megabytes} MB)")
    command = [str(java), "-jar", str(_find_ivy_jar()), "-settings", chosen_settings, "-ivy", str(dependencies), "-confs", "all"]
    command += ["-cache", str(ivy_cache), "-retrieve", str(partial / "jars" / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"]
    exit_code, last_lines = _run_ivy(command, jar_set, progress, timeout_s)
    found = sorted((partial / "jars").glob("*.jar"))
    _, artifact, version = jar_set.dependencies[0]
    if exit_code != 0 or not (partial / "jars" / f"{artifact}-{version}.jar").is_file():
        shutil.rmtree(partial, ignore_errors=True)
        raise JarsUnavailable(
            f"{jar_set.name} {jar_set.version} is not in the cache ({jars}) and could not be fetched; is there a network? Connect this "
            f"machine once, or name a repository that this machine reaches in an Ivy settings file and that file in "
            f"{IVY_SETTINGS_VARIABLE}. Ivy ended with exit code {exit_code} and said:\n{last_lines}"
        )
    (partial / "jars").rename(jars)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(ivy_cache, ignore_errors=True)
    progress(f"the {len(found)} jars of {jar_set.name} are in {jars}")


def _module_of(jar_set: JarSet) -> str:
    """Return what Ivy is asked for."""
    wanted = ""
    for organisation, name, version in jar_set.dependencies:
        follows = "false" if name in jar_set.alone else "true"
        wanted += f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="all->default" transitive="{follows}"/>'
    wanted += "".join(f'<exclude org="{org}"/>' for org in jar_set.provided)
    return (
        f'<ivy-module version="2.0"><info organisation="eventflink" module="{jar_set.directory}"/>'
        f'<configurations><conf name="all"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _run_ivy(command: list[str], jar_set: JarSet, progress: Progress, timeout_s: float) -> tuple[int, str]:
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
        watchdog = threading.Timer(timeout_s, process.kill)
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
                    progress(f"{done} of {jar_set.jar_count} jars of {jar_set.name}")
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
    raise JarsUnavailable("pyspark, whose jar of Ivy fetches others, is not complete: install it again")

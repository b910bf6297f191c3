"""A Spark server starts from an archive of its classes, which the first start on a machine leaves, and without one where that fails."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from eventflink.local.jars import default_cache_directory
from eventflink.taskexecutor.spark_jars import kafka_connector
from eventflink.taskexecutor.spark_server import LOG_FILE, SparkLease, SparkServerSettings, ensure_server, is_server_alive

pytestmark = pytest.mark.slow

SETTINGS = SparkServerSettings("local[2]", "1g")
ENSURE_HOME = """
import sys
from pathlib import Path
from eventflink.taskexecutor.spark_supervisor import _ensure_home
sys.stdin.readline()
home = _ensure_home(Path(sys.argv[1]), Path(sys.argv[2]))
print(home, *sorted(entry.name for entry in home.iterdir()))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, with the connector if this machine has it."""
    connector = kafka_connector().path(default_cache_directory())
    cache = tmp_path / "cache" / "eventflink"
    cache.mkdir(parents=True)
    if connector.is_dir():
        shutil.copytree(connector, cache / connector.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    return cache


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300.0
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def processes_that_map(archive: Path) -> list[str]:
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text(encoding="utf-8")
        except OSError:  # It has ended, or is somebody else's.
            continue
        if str(archive) in text:
            found.append(maps.parent.name)
    return found


def counts(directory: Path) -> int:
    """Start a server, and let it do something."""
    spark = SparkSession.builder.remote(ensure_server(directory, SETTINGS)).create()
    try:
        return int(spark.range(100).count())
    finally:
        spark.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="what a JVM runs with is read from /proc")
def test_the_first_start_leaves_an_archive_of_classes_that_a_server_of_another_directory_maps(tmp_path: Path, cache: Path) -> None:
    archives = cache / "class-data"
    with SparkLease(tmp_path / "first-run"):
        assert counts(tmp_path / "first-run") == 100
    # The server ends here, and so does its supervisor: the archive comes nevertheless.
    wait_until(lambda: {path.suffix for path in archives.iterdir()} == {".jsa", ".lock"})
    [archive] = archives.glob("*.jsa")
    with SparkLease(tmp_path / "second-run"):
        assert counts(tmp_path / "second-run") == 100
        assert len(processes_that_map(archive)) == 1
        assert "[cds]" not in (tmp_path / "second-run" / LOG_FILE).read_text(encoding="utf-8")
    wait_until(lambda: not is_server_alive(tmp_path / "second-run"))


def test_where_there_can_be_no_cache_spark_starts_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no directory", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with SparkLease(tmp_path / "run"):
        assert counts(tmp_path / "run") == 100


def test_processes_that_make_the_home_at_once_have_the_same_and_whole_one(tmp_path: Path, cache: Path) -> None:
    package = tmp_path / "package"
    names = sorted(f"entry-{number}" for number in range(200))
    for name in [*names, "python"]:
        (package / name).mkdir(parents=True)
    command = [sys.executable, "-c", ENSURE_HOME, str(package), str(tmp_path / "run")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = {process.communicate(timeout=60)[0].strip() for process in started}
    [home] = [entry for entry in cache.iterdir() if entry.name.startswith("spark-") and "connector" not in entry.name]
    assert said == {" ".join([str(home), *names])}

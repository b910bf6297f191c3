"""A Spark server starts from an archive of its classes, which the first start on a machine leaves, and without one where that fails."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from pyspark.sql.connect.session import SparkSession

from eventflink.local.class_data import ClassData
from eventflink.local.jars import default_cache_directory
from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, ensure_server
from tests.support.spark_work import find_spark

pytestmark = pytest.mark.slow

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
    """A cache of this test's own."""
    cache = tmp_path / "cache" / "eventflink"
    cache.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    return cache


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300.0
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="what a JVM runs with is read from /proc")
def test_the_first_start_on_a_machine_leaves_an_archive_of_classes_that_others_map(spark_directory: Path, tmp_path: Path) -> None:
    """Before a run of all tests there was a start on this machine (`tests.support.class_archives`), and what it left is mapped here."""
    archives = default_cache_directory() / "class-data"
    directory = spark_directory
    with ExitStack() as lease:
        if not archives_that_are_mapped(find_spark(directory), archives):  # This is the first, and makes one when it is asked something.
            spark = SparkSession.builder.remote((spark_directory / ADDRESS_FILE).read_text(encoding="utf-8")).create()
            assert spark.range(100).count() == 100
            spark.stop()
            wait_until(lambda: any(archives.glob("spark-*.jsa")))
            directory = tmp_path
            lease.enter_context(SparkLease(directory))
            ensure_server(directory, SparkServerSettings("local[2]", "1g"))
        assert len(archives_that_are_mapped(find_spark(directory), archives)) == 1
        assert "[cds]" not in (directory / LOG_FILE).read_text(encoding="utf-8")


def archives_that_are_mapped(process: psutil.Process, directory: Path) -> set[str]:
    lines = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").splitlines()
    return {line.split()[-1] for line in lines if f"{directory}{os.sep}spark-" in line}


def test_where_there_can_be_no_cache_spark_starts_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a home beside what it writes, and no archive."""
    (tmp_path / "cache").write_text("no directory", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "package" / "jars").mkdir(parents=True)
    run = [sys.executable, "-c", ENSURE_HOME, str(tmp_path / "package"), str(tmp_path / "run")]
    (tmp_path / "run").mkdir()
    said = subprocess.run(run, input="\n", stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    assert said == f"{tmp_path / 'run' / 'home'} jars\n"
    assert ClassData("spark", Path(sys.executable), (), "Main").options == ()


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
    said = {process.communicate(timeout=120)[0].strip() for process in started}
    [home] = [entry for entry in cache.iterdir() if entry.name.startswith("spark-") and "connector" not in entry.name]
    assert said == {" ".join([str(home), *names])}

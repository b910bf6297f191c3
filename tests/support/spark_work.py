"""Whether a Spark server computes: whether threads of its executor want a processor, however few of them a busy machine gives it.

And sessions of servers that end, and the processes that Spark has beside it.
"""

import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.sql.connect.session import SparkSession

from eventflink.local.java import find_java
from eventflink.taskexecutor.spark_worker import FORKS_MODULE
from tests.support.running_cluster import wait_until

_WRITERS = Path(__file__).parent / "spark_files" / "WritersOfOneBatch.java"
_COMMITTERS = _WRITERS.with_name("CommittersOfOneVersion.java")
_WRITERS_TIMEOUT_S = 360
_THREADS = "Executor task l"
"""What the kernel keeps of "Executor task launch worker"."""


def wait_until_it_computes(spark: psutil.Process, timeout_s: float = 120) -> None:
    """A short query does not do, nor what Spark does besides."""
    wait_until(lambda: all(_samples(spark)), "Spark computes", timeout_s)


def wait_until_it_rests(spark: psutil.Process, timeout_s: float = 120) -> None:
    """A query that nobody ended would take all the processors for hours."""
    wait_until(lambda: not any(_samples(spark)), "Spark computes nothing", timeout_s)


def _samples(spark: psutil.Process) -> list[bool]:
    samples = []
    for _ in range(5):
        samples.append(any(map(_runs, Path(f"/proc/{spark.pid}/task").glob("*/stat"))))
        time.sleep(0.1)
    return samples


def _runs(stat: Path) -> bool:
    try:
        name, _, state = stat.read_text(encoding="utf-8").partition("(")[2].rpartition(")")
    except OSError:
        return False  # The thread has ended.
    return name == _THREADS and state.split()[0] == "R"


@contextmanager
def session_of_a_mortal(remote: str) -> Iterator[SparkSession]:
    """A session of a Spark that ends in the test: a client that is left would try to reach it in all tests that follow in this process."""
    session = SparkSession.builder.remote(remote).create()
    session.client.set_retry_policies([])
    try:
        yield session
    finally:
        with warnings.catch_warnings(action="ignore"):
            session.stop()


def find_spark(directory: Path) -> psutil.Process:
    """The server whose files are below the directory."""
    javas = [p for p in psutil.process_iter(["name", "cmdline"]) if p.info["name"] == "java"]
    commands = [(p, " ".join(p.info["cmdline"] or ())) for p in javas]
    (server,) = [p for p, command in commands if "SparkConnectServer" in command and str(directory) in command]
    return server


def sink_workers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes in which Spark calls sinks: each was forked by the fork server of its Spark."""
    return [each for each in processes if _is_of_forks(each) and (parent := _parent_of(each)) is not None and _is_of_forks(parent)]


def _is_of_forks(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return FORKS_MODULE in process.cmdline()
    return False


def _parent_of(process: psutil.Process) -> psutil.Process | None:
    with suppress(psutil.Error):
        return process.parent()
    return None


def count_writers(class_path: str, directory: str, batches: int, settings: Mapping[str, str]) -> list[int]:
    """Let two writers note each of some batches at the same moment; return how many have noted each, and 1 if a cancelled file is there.

    Args:
        class_path: of a Spark.
        directory: where they write.
        batches: how many.
        settings: of Hadoop, and of what Spark writes checkpoints by.

    """
    return [int(each) for each in _run_java(_WRITERS, class_path, [directory, str(batches)], settings)]


def count_committers(class_path: str, directory: str, versions: int, log_store: str, settings: Mapping[str, str]) -> list[str]:
    """Let two Sparks commit each of some versions of a table at the same moment, by a log store of Delta.

    Return how many have committed each; how many of a commit, the same once more, and another, of one version; and what a commit that
    goes over another leaves there.
    """
    return _run_java(_COMMITTERS, class_path, [directory, str(versions), log_store], settings)


def _run_java(source: Path, class_path: str, arguments: list[str], settings: Mapping[str, str]) -> list[str]:
    program = ["org.codehaus.janino.SimpleCompiler", str(source), source.stem, *arguments]
    command = [str(find_java()), "-cp", class_path, *program, *[f"{key}={value}" for key, value in settings.items()]]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_WRITERS_TIMEOUT_S, check=False)
    assert finished.returncode == 0, finished.stderr[-4_000:]
    return finished.stdout.splitlines()

"""The Python processes that Spark starts: where their modules come from decides how long they take to start, and how long they may take."""

import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery
from pyspark.sql.types import StringType

from eventflink.model.spark_engines import shown
from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, ensure_server
from tests.support.spark_work import find_spark, session_of_a_mortal
from tests.support.task_host import is_running, wait_until

pytestmark = pytest.mark.slow


def test_python_workers_take_the_installed_pyspark_and_not_a_zip_of_its_sources(spark: str) -> None:
    session = SparkSession.builder.remote(spark).create()

    def place(_number: int) -> str:
        import pyspark  # noqa: PLC0415 - where Spark runs it

        return str(pyspark.__file__)

    try:
        [row] = session.range(1).select(udf(place, StringType())("id").alias("place")).collect()
        assert row.place == pyspark.__file__
    finally:
        session.stop()


WORKER = "eventflink.taskexecutor.spark_worker"

_LOADS_SLOWLY = """
import os, sys, time

class SlowPyspark:
    def find_spec(self, name, path=None, target=None):
        if name == "pyspark":
            sys.meta_path.remove(self)
            time.sleep(12)

if "PYTHON_WORKER_FACTORY_PORT" in os.environ:
    sys.meta_path.insert(0, SlowPyspark())
"""
"""What an interpreter runs first; a worker that Spark waits for then loads for longer than Spark waits for it to connect."""


def run_sink(session: SparkSession, function: Callable[[DataFrame, int], None], checkpoints: Path) -> StreamingQuery:
    """Start a stream of one batch with a function as its sink."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    return rows.writeStream.foreachBatch(function).trigger(once=True).option("checkpointLocation", str(checkpoints)).start()


def test_the_worker_of_a_sink_may_load_for_longer_than_spark_waits_for_it_to_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_LOADS_SLOWLY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with SparkLease(tmp_path):
        remote = ensure_server(tmp_path, SparkServerSettings("local[2]", "1g", environment=("PYTHONPATH",)))
        session = SparkSession.builder.remote(remote).create()
        written = tmp_path / "written"
        try:
            query = run_sink(session, lambda batch, _batch_id: batch.write.parquet(str(written), mode="append"), tmp_path / "checkpoints")
            assert query.awaitTermination(120)
            assert session.read.parquet(str(written)).count() == 3
        finally:
            session.stop()


class Told:
    """A file in which the worker of a sink says who it is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self, *, for_ever: bool) -> Callable[[DataFrame, int], None]:
        path = self.path

        def tell(_batch: DataFrame, _batch_id: int) -> None:
            import numpy as np  # noqa: PLC0415 - where Spark runs it

            path.with_suffix(".new").write_text(f"{os.getpid()} {os.getppid()} {np.random.random()}")  # noqa: NPY002 - as users do
            path.with_suffix(".new").rename(path)
            if for_ever:
                time.sleep(3600)

        return tell

    def wait(self) -> tuple[int, int, str]:
        """Return the process of the worker, that of the fork server, and a number that the worker has drawn."""
        wait_until(self.path.exists, 120)
        worker, server, number = self.path.read_text().split()
        return int(worker), int(server), number


def test_the_workers_of_sinks_are_forked_from_one_process_that_has_all_loaded(spark: str, tmp_path: Path) -> None:
    session = SparkSession.builder.remote(spark).create()
    try:
        seen = []
        for name in ("one", "other"):
            told = Told(tmp_path / name)
            query = run_sink(session, told.sink(for_ever=True), tmp_path / f"{name}.checkpoints")
            seen.append(told.wait())
            query.stop()
            wait_until(lambda: not is_running(seen[-1][0]), 30)
        (one, server, number), (other, same_server, other_number) = seen
        assert one != other
        assert number != other_number
        assert server == same_server
    finally:
        session.stop()


@pytest.mark.parametrize("which", ["worker", "who asked for it", "fork server"])
def test_spark_hears_of_a_sink_whose_worker_or_what_belongs_to_it_was_killed(spark: str, tmp_path: Path, which: str) -> None:
    session = SparkSession.builder.remote(spark).create()
    try:
        told = Told(tmp_path / "told")
        query = run_sink(session, told.sink(for_ever=True), tmp_path / "checkpoints")
        worker, server, _ = told.wait()
        place = psutil.Process(server).cwd()
        asking = [each.pid for each in psutil.process_iter(["cmdline"]) if WORKER in (each.info["cmdline"] or ()) and each.cwd() == place]
        for process_id in {"worker": [worker], "who asked for it": asking, "fork server": [server]}[which]:
            os.kill(process_id, signal.SIGKILL)
        with pytest.raises(Exception, match=r"(?i)python|worker|EOF|reset"):
            query.awaitTermination(120)
        wait_until(lambda: not is_running(worker), 30)
        told.path.unlink()
        assert run_sink(session, told.sink(for_ever=False), tmp_path / "checkpoints").awaitTermination(120)
        assert told.wait()[0] != worker
    finally:
        session.stop()


def test_the_worker_of_a_sink_ends_with_its_spark(tmp_path: Path) -> None:
    """It would go on asking for a Spark that is gone; and so does what has forked it."""
    told = Told(tmp_path / "told")
    with SparkLease(tmp_path), session_of_a_mortal(ensure_server(tmp_path, SparkServerSettings("local[2]", "1g"))) as session:
        run_sink(session, told.sink(for_ever=True), tmp_path / "checkpoints")
        worker, server, _ = told.wait()
        find_spark(tmp_path).kill()
        wait_until(lambda: not (is_running(worker) or is_running(server)), 30)


ENDS_WITH_3 = "import os, sys; print(os.getpid(), os.getppid()); sys.exit(3)"


def test_a_worker_that_is_forked_is_to_who_asked_as_if_that_had_loaded_it_itself(tmp_path: Path) -> None:
    """What it prints and how it ends; one for which the interpreter is to begin otherwise is not forked."""
    (tmp_path / "told.py").write_text(ENDS_WITH_3, encoding="utf-8")
    server = 0
    try:
        for more, is_forked in (({}, True), ({}, True), ({"PYTHONUTF8": "1"}, False)):
            asking, (worker, parent) = run_worker_as_spark_does(tmp_path, more)
            assert (worker != asking, parent != os.getpid()) == (is_forked, is_forked)
            if is_forked:
                assert parent == (server or parent)
                server = parent
    finally:
        if server:
            os.kill(server, signal.SIGKILL)


def run_worker_as_spark_does(directory: Path, more: dict[str, str]) -> tuple[int, list[int]]:
    """Run the worker `told`, and return the process that was started, and what the worker has printed of itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spark = {"PYTHON_WORKER_FACTORY_PORT": str(listening.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": "secret"}
        command = [sys.executable, "-m", WORKER, "told"]
        with subprocess.Popen(command, cwd=directory, env=os.environ | spark | more, stdout=subprocess.PIPE, text=True) as asking:
            connected, _ = listening.accept()
            with connected:
                assert connected.recv(10, socket.MSG_WAITALL) == b"\0\0\0\6secret"
                connected.sendall(b"\0\0\0\2ok")
                printed, _ = asking.communicate(timeout=120)
    assert asking.returncode == 3
    return asking.pid, [int(word) for word in printed.split()]


@pytest.mark.parametrize("parameters", ["", "/;token=wrong"])
def test_who_does_not_know_its_token_is_not_answered(spark: str, parameters: str) -> None:
    session = SparkSession.builder.remote(f"{shown(spark)}{parameters}").create()
    session.client.set_retry_policies([])
    try:
        with pytest.raises(Exception, match=r"(?i)unauthenticated"):
            session.range(1).count()
    finally:
        with warnings.catch_warnings(action="ignore"):
            session.stop()


def test_its_token_stands_in_no_command_line_and_only_its_user_reads_the_file(spark: str, spark_directory: Path) -> None:
    token = spark.partition("token=")[2]
    assert len(token) > 40
    assert (spark_directory / ADDRESS_FILE).stat().st_mode & 0o077 == 0
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert any(str(spark_directory) in command for command in commands)
    assert not any(token in command for command in commands)
    assert token not in (spark_directory / LOG_FILE).read_text(encoding="utf-8")

"""The Python processes that Spark starts: where their modules come from decides how long they take to start, and how long they may take."""

import os
import time
import warnings
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StringType

from eventflink.taskexecutor.spark_release import shown
from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, ensure_server
from tests.support.spark_work import session_of_a_mortal
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
            rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
            sink = rows.writeStream.foreachBatch(lambda batch, _batch_id: batch.write.parquet(str(written), mode="append"))
            query = sink.trigger(once=True).option("checkpointLocation", str(tmp_path / "checkpoints")).start()
            assert query.awaitTermination(120)
            assert session.read.parquet(str(written)).count() == 3
        finally:
            session.stop()


def test_the_worker_of_a_sink_ends_with_its_spark(tmp_path: Path) -> None:
    """It would go on asking for a Spark that is gone."""
    told = tmp_path / "worker"

    def wait(_batch: DataFrame, _batch_id: int) -> None:
        told.write_text(str(os.getpid()))
        time.sleep(3600)

    with SparkLease(tmp_path), session_of_a_mortal(ensure_server(tmp_path, SparkServerSettings("local[2]", "1g"))) as session:
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        sink = rows.writeStream.foreachBatch(wait)
        sink.trigger(once=True).option("checkpointLocation", str(tmp_path / "checkpoints")).start()
        wait_until(lambda: told.exists() and told.read_text() != "", 120)
        worker = psutil.Process(int(told.read_text()))
        spark = worker.parent()
        assert spark is not None
        spark.kill()
        wait_until(lambda: not is_running(worker.pid), 30)


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


def test_its_token_stands_in_no_command_line_and_only_its_user_reads_the_file(tmp_path: Path) -> None:
    with SparkLease(tmp_path):
        remote = ensure_server(tmp_path, SparkServerSettings("local[1]", "512m"))
        token = remote.partition("token=")[2]
        assert len(token) > 40
        assert (tmp_path / ADDRESS_FILE).stat().st_mode & 0o077 == 0
        commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        assert any(str(tmp_path) in command for command in commands)
        assert not any(token in command for command in commands)
        assert token not in (tmp_path / LOG_FILE).read_text(encoding="utf-8")

"""What Spark does for the files it writes: it starts no process for them, and no batch of a checkpoint is committed twice."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql.connect import functions
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

from eventflink.taskexecutor.spark_file_system import file_system_settings
from eventflink.taskexecutor.spark_release import channel_target
from tests.support.running_cluster import wait_until
from tests.support.spark_work import count_writers

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360


@pytest.fixture
def session(spark: str) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(spark).create()
    yield session
    session.stop()


def start(session: SparkSession, directory: Path) -> StreamingQuery:
    """Start a query with state, whose batches write offsets, commits, state and rows."""
    rows = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    counted = rows.withWatermark("timestamp", "1 second").groupBy(functions.window("timestamp", "1 second")).count()
    writer = counted.writeStream.format("parquet").option("path", str(directory / "rows"))
    return writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(processingTime="200 milliseconds").start()


def wait_for_batches(query: StreamingQuery, count: int) -> int:
    """Wait until so many more batches are committed, and return the number of the last one."""

    def last() -> int:
        progress = query.lastProgress
        return -1 if progress is None else int(progress["batchId"])

    first = last()
    wait_until(lambda: last() >= first + count, f"{count} batches", SPARK_TIMEOUT_S)
    return last()


def faults_of_children(spark: psutil.Process) -> int:
    """Return the page faults of all processes that it started and that have ended: no process is without any."""
    return int(Path(f"/proc/{spark.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[8])


def process_of(spark: str) -> psutil.Process:
    port = int(channel_target(spark).rpartition(":")[2])
    [pid] = {each.pid for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN and each.laddr.port == port}
    return psutil.Process(pid)


def test_spark_starts_no_process_for_the_files_of_streams_and_batches(session: SparkSession, spark: str, tmp_path: Path) -> None:
    query = start(session, tmp_path)
    process, faults = process_of(spark), []
    for batches in (2, 5, 8, 11):  # What a JVM does once in its life, and on a busy machine late, is not of interest.
        wait_for_batches(query, batches)
        session.range(100).repartition(2).write.mode("overwrite").parquet(str(tmp_path / "batch"))
        faults.append(faults_of_children(process))
    query.stop()
    assert session.read.parquet(str(tmp_path / "batch")).count() == 100
    assert any(before == after for before, after in itertools.pairwise(faults)), faults


def test_of_two_writers_of_a_batch_one_commits_it(tmp_path: Path) -> None:
    spark_jars = Path(str(pyspark.__file__)).parent / "jars"
    settings = file_system_settings(spark_jars)
    class_path = f"{settings['spark.driver.extraClassPath']}:{spark_jars}/*"
    impl = "fs.AbstractFileSystem.file.impl"
    assert count_writers(class_path, str(tmp_path), 200, {impl: settings[f"spark.hadoop.{impl}"]}) == [1] * 200 + [0]

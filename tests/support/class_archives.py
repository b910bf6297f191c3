"""Has the archives of classes of the embedded broker and of Spark made before the tests run, where this machine has none.

A start that finds no archive has one made in the background with the lowest priority (`eventflink/local/class_data.py`). A run of tests
leaves the processors nothing: the archive would come when the run is over, and until then each Spark would start, and compile its first
queries, at twice the cost. Here the first starts do what tests do, so that the archives have the classes of that, and what makes them is
waited for.
"""

import contextlib
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Final

import psutil
from pyspark.sql.connect import functions as F  # noqa: N812 - as Spark's users call it
from pyspark.sql.connect.session import SparkSession

from eventflink.local.embedded_broker import BrokerUnavailable, EmbeddedBroker
from eventflink.local.java import JavaMissing
from eventflink.taskexecutor.spark_server import SparkLease, SparkServerSettings, SparkUnavailable, ensure_server
from eventflink.taskexecutor.task_spark import session_address
from eventflink.testing.fast_java import fast_java
from tests.support.topics import CommittedReader, create_topic, feed

_MAKER: Final = "eventflink.local.class_data"
_LIMIT_S: Final = 300.0
_ROWS: Final = 20


def main() -> None:
    """Make what is missing; tests run without it too, and say more about what else is."""
    try:
        _make()
    except (BrokerUnavailable, JavaMissing, SparkUnavailable) as error:
        print(f"==> no archives of classes: {error}")


def _make() -> None:
    with tempfile.TemporaryDirectory() as name, fast_java(), EmbeddedBroker(Path(name, "broker")) as broker:
        directory = Path(name, "spark")
        directory.mkdir()
        with SparkLease(directory):
            remote = ensure_server(directory, SparkServerSettings("local[2]", "1g"))
            if makers := _makers():
                print("==> making archives of classes of the broker and of Spark: once, for half a minute", flush=True)
                _work(remote, broker.bootstrap_servers, directory)
                _wait_for(makers)


def _makers() -> list[psutil.Process]:
    """Return the processes that make archives of what this one has started."""
    started = {str(process.pid) for process in psutil.Process().children(recursive=True)}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if _MAKER in command and started.intersection(command):
                found.append(process)
    return found


def _wait_for(makers: list[psutil.Process]) -> None:
    """Wait for them, and let them have the processors: nothing is gained before they are done."""
    deadline = time.monotonic() + _LIMIT_S
    while any(map(_runs, makers)) and time.monotonic() < deadline:
        for maker in makers:
            with contextlib.suppress(psutil.Error):  # Who is not root may not.
                for process in (maker, *maker.children()):
                    process.nice(0)
        time.sleep(0.2)


def _runs(process: psutil.Process) -> bool:
    """Tell whether a process does anything; one that has ended may wait long for its parent to take note."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _work(remote: str, bootstrap: str, directory: Path) -> None:
    """Do what tasks of tests do: queries, tables, functions in Python, streams of Kafka and of files with state."""
    spark = SparkSession.builder.remote(session_address(remote, str(uuid.uuid4()))).create()
    try:
        _query(spark, directory)
        source, target = create_topic(bootstrap), create_topic(bootstrap)
        feed(bootstrap, source, [{"key": f"k{number % 7}", "number": number} for number in range(_ROWS)])
        _stream(spark, bootstrap, source, target, directory)
        reader = CommittedReader(bootstrap, target)
        reader.read_until(lambda rows: len(rows) >= _ROWS)
        reader.close()
    finally:
        spark.stop()


def _query(spark: SparkSession, directory: Path) -> None:
    assert spark.sql("SELECT 6 * 7 AS answer").collect()[0].answer == 42
    rows = spark.range(_ROWS).select((F.col("id") % 7).alias("k"), "id", F.col("id").cast("string").alias("s"))
    rows.write.parquet(str(directory / "rows"))
    stored = spark.read.parquet(str(directory / "rows"))
    names = spark.createDataFrame([(number, f"name-{number}") for number in range(7)], "k BIGINT, name STRING")
    joined = stored.join(names, "k").groupBy("name").agg(F.count("*").alias("n"), F.sum("id").alias("total")).orderBy("name")
    assert joined.count() == len(joined.toPandas()) == 7
    assert stored.repartition(3, "k").mapInArrow(_same, stored.schema).distinct().count() == _ROWS


def _same(batches: Any) -> Any:
    yield from batches


def _stream(spark: SparkSession, bootstrap: str, source: str, target: str, directory: Path) -> None:
    kafka = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    read = spark.readStream.format("kafka").options(**kafka, subscribe=source).load()
    rows = read.select(F.from_json(F.col("value").cast("string"), "key STRING, number BIGINT").alias("row")).select("row.*")
    counted = rows.groupBy("key").count()
    to_kafka = rows.select(F.to_json(F.struct("key", "number")).alias("value")).writeStream.format("kafka")
    writers = (
        to_kafka.options(**{"kafka.bootstrap.servers": bootstrap, "topic": target}),
        rows.writeStream.format("parquet").option("path", str(directory / "out")),
        counted.writeStream.outputMode("update").foreachBatch(_take),
    )
    for number, writer in enumerate(writers):
        query = writer.option("checkpointLocation", str(directory / f"checkpoint-{number}")).trigger(availableNow=True).start()
        query.awaitTermination(60)


def _take(batch: Any, _batch_id: int) -> None:
    batch.collect()


if __name__ == "__main__":
    main()

"""Files that streams read and write, on a real Spark: each file is read once, and each row is read as it was written."""

import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eventflink.model.attempts import AttemptId
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.stream_document import StreamSinkDocument, StreamSourceDocument
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.sinks import SinkWriter, write_to_sinks
from eventflink.streams.sources import SubtaskShare, read_source
from tests.support.spark_sessions import own_session

pytestmark = pytest.mark.slow
WAIT_S = 120
NOWHERE = KafkaAccess("localhost:1")


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


def read(session: SparkSession, directory: Path, kind: str, schema: str | None, location: Path) -> DataFrame:
    document = {"files": {"path": str(directory)}, "format": kind} | ({"schema": schema} if schema else {})
    source = StreamSourceDocument.model_validate(document).to_record("in")
    return read_source(session, source, SubtaskShare(0, 1), NOWHERE, lambda _: lambda: None, Place(str(location))).rows


def run(rows: DataFrame, directory: Path, kind: str, location: Path) -> None:
    """Have a stream write what is there, with its checkpoints at a location."""
    sink = StreamSinkDocument.model_validate({"files": {"path": str(directory)}, "format": kind}).to_record("")
    writer = SinkWriter("cell", AttemptId("job", "v", 0, 1), 1, Place(str(location)), NOWHERE)
    to = write_to_sinks({"": rows}, [sink], writer, lambda _: lambda: None, is_counted=False)
    query = to.outputMode("append").option("checkpointLocation", str(location)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)


def put(directory: Path, name: str, *rows: dict[str, Any], age_s: float = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.utime(file, (time.time() - age_s,) * 2)


def numbers_in(session: SparkSession, directory: Path) -> list[int]:
    return sorted(row["n"] for row in session.read.json(str(directory)).collect())


def test_each_file_is_read_once_however_old_it_is(session: SparkSession, tmp_path: Path) -> None:
    for number, age_s in ((1, 0), (2, 8 * 86_400), (3, 10_000 * 86_400)):
        put(tmp_path / "in", f"{number}.json", {"n": number}, age_s=age_s)
        run(read(session, tmp_path / "in", "json", "n INT", tmp_path / "cp"), tmp_path / "out", "json", tmp_path / "cp")
    assert numbers_in(session, tmp_path / "out") == [1, 2, 3]


def test_a_stream_that_would_begin_with_batches_that_another_one_has_written_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Spark leaves out a batch whose number the directory has, and says nothing."""
    for number in (1, 2):
        put(tmp_path / "in", f"{number}.json", {"n": number})
        run(read(session, tmp_path / "in", "json", "n INT", tmp_path / "cp"), tmp_path / "out", "json", tmp_path / "cp")
    rows = read(session, tmp_path / "in", "json", "n INT", tmp_path / "other")
    with pytest.raises(StreamUnusable, match="has batches up to 1 of another stream, and this one would begin with batch 0"):
        run(rows, tmp_path / "out", "json", tmp_path / "other")
    assert numbers_in(session, tmp_path / "out") == [1, 2]


TEXTS = ["plain", "a\\", 'q"uote', '\\"', "  spaces  ", "\ttab", "two\nlines", "two\r\nlines\n", "a,b;c", "#no comment", "ünïcode", None]
AT = dt.datetime(2024, 2, 29, 23, 59, 59, 123_456, tzinfo=dt.UTC)
COLUMNS = "id INT, t STRING, at TIMESTAMP, plain TIMESTAMP_NTZ, day DATE, d DECIMAL(9,2)"


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_what_a_sink_has_written_a_source_reads_as_it_was(session: SparkSession, tmp_path: Path, kind: str) -> None:
    from pyspark.sql import functions as f  # noqa: PLC0415 - as in the tasks themselves

    put(tmp_path / "in", "rows.json", *[{"id": number, "t": text} for number, text in enumerate(TEXTS)])
    values = {
        "at": f.lit(AT).cast("timestamp"),
        "plain": f.lit("2024-02-29T23:59:59.123456").cast("timestamp_ntz"),
        "day": f.lit("2024-02-29").cast("date"),
        "d": f.lit("-1234567.89").cast("decimal(9,2)"),
    }
    rows = read(session, tmp_path / "in", "json", "id INT, t STRING", tmp_path / "one")
    rows = rows.select("*", *[value.alias(name) for name, value in values.items()])
    run(rows, tmp_path / "written", kind, tmp_path / "one")
    back = read(session, tmp_path / "written", kind, COLUMNS, tmp_path / "two")
    run(back, tmp_path / "out", "parquet", tmp_path / "two")
    found = session.read.parquet(str(tmp_path / "out"))
    assert {row["id"]: row["t"] for row in found.collect()} == dict(enumerate(TEXTS))
    expected = session.range(1).select(*[value.alias(name) for name, value in values.items()])
    assert found.select(*values).distinct().collect() == expected.collect()

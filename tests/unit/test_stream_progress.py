"""Where a stream stands, from Spark's own report of its last batch."""

from pathlib import Path

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from eventflink.model.stream_progress import StreamProgress, StreamSourceProgress
from eventflink.streams.progress import MAX_OFFSET_LENGTH, last_committed_batch, progress_of

UUID = "6454d22b-3619-444f-b4f7-6dd9562e0f63"
SOURCE = {
    "description": "KafkaV2[Subscribe[orders]]",
    "startOffset": None,
    "endOffset": {"orders": {"0": 10, "1": 20}},
    "latestOffset": {"orders": {"0": 15, "1": 20, "2": 7}},
    "numInputRows": 30,
    "inputRowsPerSecond": 3.0,
    "processedRowsPerSecond": 6.0,
    "metrics": {"maxOffsetsBehindLatest": "7"},
}


def reported(**more: object) -> StreamingQueryProgress:
    """Return what Spark says of a batch."""
    batch = {
        "id": UUID,
        "runId": UUID,
        "name": "orders",
        "timestamp": "2026-11-23T00:00:00.000Z",
        "batchId": 4,
        "batchDuration": 500,
        "durationMs": {"addBatch": 300, "walCommit": 50, "triggerExecution": 500},
        "eventTime": {"watermark": "2026-11-23T00:00:00.000Z"},
        "stateOperators": [],
        "sources": [SOURCE],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "numInputRows": 30,
        "inputRowsPerSecond": 3.0,
        "processedRowsPerSecond": 6.0,
        "observedMetrics": {},
    }
    return StreamingQueryProgress.fromJson(batch | more)


def test_it_is_what_spark_says_of_the_batch_and_what_is_behind_over_all_partitions() -> None:
    source = StreamSourceProgress(name="orders", end_offset='{"orders": {"0": 10, "1": 20}}', records_behind=5 + 0 + 7)
    assert progress_of(reported(), ["orders"], 4) == StreamProgress(
        batch_id=4,
        sources=(source,),
        input_rows=30,
        input_rows_per_second=3.0,
        processed_rows_per_second=6.0,
        batch_duration_ms=500,
        slowest_phase="addBatch",
        slowest_phase_ms=300,
        watermark_ms=1_795_392_000_000,
    )


def test_before_the_first_batch_of_a_run_only_the_last_committed_one_is_known() -> None:
    assert progress_of(None, ["orders"], 7) == StreamProgress(batch_id=7)


def test_what_is_not_known_is_said_to_be_so() -> None:
    """A source that is not Kafka, and the watermark before the first row."""
    rate = SOURCE | {"endOffset": 12, "latestOffset": 15}
    progress = progress_of(reported(sources=[rate], eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), [], 4)
    assert [(source.name, source.end_offset, source.records_behind) for source in progress.sources] == [
        ("KafkaV2[Subscribe[orders]]", "12", -1)
    ]
    assert progress.watermark_ms == -1


def test_an_offset_that_is_too_long_is_left_out() -> None:
    offsets = {"orders": {str(number): 10**9 for number in range(MAX_OFFSET_LENGTH // 10)}}
    [source] = progress_of(reported(sources=[SOURCE | {"endOffset": offsets}]), ["orders"], 4).sources
    assert source.end_offset == ""


@pytest.mark.parametrize(("names", "last"), [((), -1), (("0",), 0), (("9", "10", ".11.crc", "12.tmp"), 10)])
def test_the_last_committed_batch_is_the_newest_that_the_directory_notes(tmp_path: Path, names: tuple[str, ...], last: int) -> None:
    (tmp_path / "commits").mkdir()
    for name in names:
        (tmp_path / "commits" / name).touch()
    assert last_committed_batch(tmp_path) == last
    assert last_committed_batch(tmp_path / "nowhere") == -1

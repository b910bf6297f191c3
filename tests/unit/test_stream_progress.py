"""Where a stream stands, from Spark's own report of its last batch."""

import contextlib
from pathlib import Path

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from eventflink.model.job_graph import StreamSink
from eventflink.model.places import Place
from eventflink.model.statuses import StreamConnector
from eventflink.model.stream_progress import PartitionLag, StreamOutputProgress, StreamProgress, StreamSourceProgress
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.progress import MAX_OFFSET_LENGTH, OBSERVED, SeenBatches, last_committed_batch, progress_of
from eventflink.streams.sinks import check_directory

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

STATE = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 3,
    "numRowsUpdated": 1,
    "numRowsRemoved": 0,
    "allUpdatesTimeMs": 1,
    "allRemovalsTimeMs": 1,
    "commitTimeMs": 1,
    "memoryUsedBytes": 100,
    "numRowsDroppedByWatermark": 0,
    "numShufflePartitions": 1,
    "numStateStoreInstances": 1,
    "customMetrics": {},
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


def seen(rows: int = 0) -> SeenBatches:
    """Return what is known of an attempt that has read these rows."""
    batches = SeenBatches(-1)
    batches.rows_read = rows
    return batches


def lag(topic: str, partition: int, records_behind: int, source: str = "orders") -> PartitionLag:
    return PartitionLag(source=source, topic=topic, partition=partition, records_behind=records_behind)


def test_it_is_what_spark_says_of_the_batch_and_what_is_behind_over_all_partitions() -> None:
    source = StreamSourceProgress(name="orders", end_offset='{"orders": {"0": 10, "1": 20}}', records_behind=5 + 0 + 7)
    assert progress_of(reported(), ["orders"], 4, seen(70)) == StreamProgress(
        batch_id=4,
        sources=(source,),
        input_rows=30,
        input_rows_per_second=3.0,
        processed_rows_per_second=6.0,
        batch_duration_ms=500,
        slowest_phase="addBatch",
        slowest_phase_ms=300,
        watermark_ms=1_795_392_000_000,
        partitions_behind=2,
        partition_lags=(lag("orders", 2, 7), lag("orders", 0, 5)),
        rows_read=70,
    )


def batch(batch_id: int, rows: int, watermark: str = "", at: str = "00:00:00.000", late: int = 0) -> StreamingQueryProgress:
    return reported(
        batchId=batch_id,
        timestamp=f"2026-11-23T{at}Z",
        eventTime={"watermark": watermark} if watermark else {},
        stateOperators=[STATE | {"numRowsDroppedByWatermark": late}],
        numInputRows=rows,
        sources=[SOURCE | {"numInputRows": rows}],
    )


def test_rows_are_counted_once_for_each_batch_however_often_spark_tells_of_it() -> None:
    rows = SeenBatches(6)
    rows.take([])
    assert rows.rows_read == 0
    newest = [batch(6, 100), batch(7, 0), batch(7, 30), batch(8, 0)]
    rows.take(newest)
    rows.take([*newest, batch(8, 5)])
    rows.take([*newest, batch(8, 5), batch(9, 7), batch(10, 0)])
    assert rows.rows_read == 42


def test_the_sum_of_rows_is_unknown_for_good_when_a_batch_was_not_seen() -> None:
    rows = SeenBatches(-1)
    rows.take([batch(0, 1), batch(2, 1)])
    rows.take([batch(3, 1)])
    assert rows.rows_read == -1
    assert progress_of(None, [], 3, rows).rows_read == -1
    assert progress_of(batch(3, 1), ["orders"], 3, rows).rows_read == -1


def test_late_rows_are_those_of_all_batches_each_counted_once() -> None:
    batches = SeenBatches(-1)
    newest = [batch(0, 9), batch(1, 5, late=3), batch(2, 0), batch(2, 4, late=1)]
    batches.take(newest)
    batches.take([*newest, batch(3, 0)])
    assert batches.late_rows_dropped == 4
    assert progress_of(batch(3, 0), ["orders"], 3, batches).late_rows_dropped == 4


BEGINNING, NOON, LATER = "1970-01-01T00:00:00.000Z", "2026-11-23T12:00:00.000Z", "2026-11-23T12:10:00.000Z"


@pytest.mark.parametrize(
    ("newest", "rows", "stands_ms"),
    [
        ([batch(0, 5)], 0, 0),
        ([batch(0, 5), batch(1, 5, at="01:00:00.000")], 0, 0),
        ([batch(0, 5, BEGINNING), batch(1, 5, NOON, "00:00:02.000"), batch(2, 5, LATER, "00:00:04.000")], 0, 0),
        ([batch(0, 5, BEGINNING), batch(1, 7, BEGINNING, "00:01:02.500"), batch(2, 1, BEGINNING, "00:02:00.000")], 8, 120_000),
        ([batch(0, 5, BEGINNING), batch(1, 5, NOON, "00:00:02.000"), batch(2, 6, NOON, "00:00:05.000")], 6, 3_000),
        ([batch(0, 5, NOON), batch(1, 6, NOON, "00:00:05.000"), batch(2, 0, LATER, "00:00:07.000")], 0, 0),
        ([batch(0, 5, NOON), batch(1, 6, NOON, "00:00:05.000"), batch(2, 0, NOON, "09:00:00.000")], 6, 5_000),
        ([batch(0, 5, NOON), batch(1, 0, NOON, "00:00:05.000"), batch(1, 0, NOON, "00:00:15.000")], 0, 0),
        ([batch(0, 5, NOON), batch(9, 6, NOON, "00:00:05.000")], 6, 5_000),
    ],
    ids=["none", "none for long", "moves", "not begun", "stands", "no more", "no rows since", "never any rows", "some unseen"],
)
def test_a_watermark_stands_from_its_last_move_until_the_last_batch_with_rows(
    newest: list[StreamingQueryProgress], rows: int, stands_ms: int
) -> None:
    batches = SeenBatches(-1)
    for count in range(len(newest) + 1):
        batches.take(newest[:count])
    progress = progress_of(newest[-1], ["orders"], 2, batches)
    assert (progress.rows_since_watermark, progress.watermark_stands_ms) == (rows, stands_ms)


def with_state(batch_id: int, rows: int, at: str, removed: int = 0) -> StreamingQueryProgress:
    states = [STATE | {"numRowsTotal": rows, "numRowsRemoved": removed}, STATE | {"numRowsTotal": 0}]
    return reported(batchId=batch_id, timestamp=f"2026-11-23T{at}Z", stateOperators=states)


@pytest.mark.parametrize(
    ("newest", "rows", "grows_ms"),
    [
        ([with_state(0, 5, "00:00:00.000")], 0, 0),
        ([with_state(0, 5, "00:00:00.000"), with_state(1, 9, "01:00:00.000"), with_state(2, 9, "02:00:00.000")], 4, 3_600_000),
        ([with_state(0, 5, "00:00:00.000"), with_state(1, 9, "00:00:01.000"), with_state(2, 8, "00:00:02.000")], 0, 0),
        ([with_state(0, 5, "00:00:00.000"), with_state(1, 9, "00:00:01.000", 3), with_state(2, 11, "00:00:03.500")], 2, 2_500),
        ([with_state(7, 500, "00:00:00.000"), with_state(9, 501, "00:00:01.000")], 1, 1_000),
        ([with_state(0, 5, "00:00:09.000"), with_state(1, 9, "00:00:01.000")], 4, 0),
    ],
    ids=["begins", "grows and rests", "shrinks", "loses rows and grows", "of an earlier attempt", "a clock that went back"],
)
def test_a_state_grows_from_its_last_loss_until_the_last_batch_that_added_to_it(
    newest: list[StreamingQueryProgress], rows: int, grows_ms: int
) -> None:
    batches = SeenBatches(-1)
    for count in range(len(newest) + 1):
        batches.take(newest[:count])
    progress = progress_of(newest[-1], ["orders"], 2, batches)
    assert (progress.state_grown_rows, progress.state_grows_ms) == (rows, grows_ms)


def with_outputs(batch_id: int, rows: int, at: str, *written: int, connect: bool = True) -> StreamingQueryProgress:
    counts = [{"values": [each], "schema": {}} if connect else {"rows": each} for each in written]
    return reported(
        batchId=batch_id,
        timestamp=f"2026-11-23T{at}Z",
        numInputRows=rows,
        observedMetrics={OBSERVED.format(number): each for number, each in enumerate(counts)} | {"the user's": {"n": 5}},
        sources=[SOURCE | {"numInputRows": rows}],
    )


def got(rows_written: int, written_at_s: int | None, rows_since: int, silent_ms: int, name: str = "default") -> StreamOutputProgress:
    at_ms = -1 if written_at_s is None else 1_795_392_000_000 + written_at_s * 1000
    return StreamOutputProgress(
        name=name, location="t", rows_written=rows_written, written_at_ms=at_ms, rows_since=rows_since, silent_ms=silent_ms
    )


@pytest.mark.parametrize(
    ("newest", "output"),
    [
        ([], got(0, None, 0, 0)),
        ([with_outputs(0, 5, "00:00:00.000", 3), with_outputs(1, 5, "00:00:02.000", 4)], got(7, 2, 0, 0)),
        ([with_outputs(0, 5, "00:00:00.000", 3, connect=False)], got(3, 0, 0, 0)),
        ([with_outputs(0, 5, "00:00:00.000", 0), with_outputs(1, 6, "00:00:02.000", 0)], got(0, None, 11, 2_000)),
        ([with_outputs(0, 5, "00:00:00.000", 3), with_outputs(1, 6, "00:00:02.000", 0)], got(3, 0, 6, 2_000)),
        ([with_outputs(0, 5, "00:00:00.000", 0), with_outputs(1, 0, "00:00:02.000", 2)], got(2, 2, 0, 0)),
        ([with_outputs(0, 5, "00:00:00.000", 0), with_outputs(1, 0, "00:00:02.000")], got(0, None, 5, 0)),
        ([with_outputs(0, 5, "00:00:00.000", 3), with_outputs(1, 5, "00:00:02.000")], got(-1, 0, 5, 2_000)),
        ([with_outputs(0, 5, "00:00:00.000", 3), with_outputs(2, 5, "00:00:02.000", 4)], got(-1, 2, 0, 0)),
    ],
    ids=[
        "nothing yet",
        "writes",
        "as classic Spark tells it",
        "never writes",
        "wrote",
        "a window ends without rows",
        "idle",
        "not observed",
        "some unseen",
    ],
)
def test_an_output_has_got_what_spark_observed_of_each_batch_once(
    newest: list[StreamingQueryProgress], output: StreamOutputProgress
) -> None:
    batches = SeenBatches(-1, [StreamSink(connector=StreamConnector.KAFKA, location="t")])
    for count in range(len(newest) + 1):
        batches.take(newest[:count])
    [told] = progress_of(newest[-1] if newest else reported(), ["orders"], 2, batches).outputs
    assert told == output


def test_each_output_is_counted_for_itself() -> None:
    sinks = [StreamSink(name=name, connector=StreamConnector.KAFKA, location="t") for name in ("a", "b")]
    batches = SeenBatches(-1, sinks)
    newest = [with_outputs(0, 5, "00:00:00.000", 3, 0), with_outputs(1, 5, "00:00:02.000", 1, 0)]
    batches.take(newest)
    assert progress_of(newest[-1], ["orders"], 1, batches).outputs == (got(4, 2, 0, 0, "a"), got(0, None, 10, 2_000, "b"))


def test_before_the_first_batch_of_a_run_only_the_last_committed_one_is_known() -> None:
    assert progress_of(None, ["orders"], 7, seen()) == StreamProgress(batch_id=7, rows_read=0)


def test_what_is_not_known_is_said_to_be_so() -> None:
    """A source that is not Kafka, and the watermark before the first row."""
    rate = SOURCE | {"endOffset": 12, "latestOffset": 15}
    progress = progress_of(reported(sources=[rate], eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), [], 4, seen())
    assert [(source.name, source.end_offset, source.records_behind) for source in progress.sources] == [
        ("KafkaV2[Subscribe[orders]]", "12", -1)
    ]
    assert (progress.watermark_ms, progress.partitions_behind, progress.partition_lags) == (-1, 0, ())


def test_of_many_partitions_those_that_are_furthest_behind_are_told_over_all_sources_and_the_others_counted() -> None:
    many = SOURCE | {
        "endOffset": {"orders": dict.fromkeys(map(str, range(1_000)), 50)},
        "latestOffset": {"orders": {str(number): 50 + (number if number < 900 else -number) for number in range(1_000)}},
    }
    other = SOURCE | {"endOffset": {"a": {"0": 1}, "b": {"7": 1}}, "latestOffset": {"a": {"0": 890}, "b": {"7": 891}}}
    progress = progress_of(reported(sources=[many, other]), ["orders", "two"], 4, seen())
    assert progress.partitions_behind == 899 + 2, "partition 0 and those from 900 on have nothing that was not read"
    own = [lag("orders", number, number) for number in (899, 898, 897, 896, 895, 894, 893, 892, 891, 890, 889, 888, 887, 886)]
    assert list(progress.partition_lags) == [*own[:10], lag("b", 7, 890, "two"), own[10], lag("a", 0, 889, "two"), *own[11:]]
    assert [source.records_behind for source in progress.sources] == [sum(range(900)), 890 + 889]


def test_offsets_that_are_not_those_of_partitions_tell_no_lag() -> None:
    named = SOURCE | {"endOffset": {"shard": {"left": 1}}, "latestOffset": {"shard": {"left": 9}}}
    progress = progress_of(reported(sources=[named]), ["orders"], 4, seen())
    assert (progress.sources[0].records_behind, progress.partition_lags) == (-1, ())


def test_an_offset_that_is_too_long_is_left_out() -> None:
    offsets = {"orders": {str(number): 10**9 for number in range(MAX_OFFSET_LENGTH // 10)}}
    [source] = progress_of(reported(sources=[SOURCE | {"endOffset": offsets}]), ["orders"], 4, seen()).sources
    assert source.end_offset == ""


@pytest.mark.parametrize(("names", "last"), [((), -1), (("0",), 0), (("9", "10", ".11.crc", "12.tmp"), 10)])
def test_the_last_committed_batch_is_the_newest_that_the_directory_notes(tmp_path: Path, names: tuple[str, ...], last: int) -> None:
    (tmp_path / "commits").mkdir()
    for name in names:
        (tmp_path / "commits" / name).touch()
    assert last_committed_batch(Place(str(tmp_path))) == last
    assert last_committed_batch(Place(str(tmp_path / "nowhere"))) == -1


@pytest.mark.parametrize(
    ("in_log", "begun", "is_refused"),
    [
        ((), None, False),
        (("0",), None, True),
        (("0",), 0, False),
        (("0", "9.compact", "10"), 9, True),
        (("0", "9.compact", ".10.crc", ".10.x.tmp"), 9, False),
        (("0", "9.compact", "10"), 10, False),
        (("0", "1"), 4, False),  # The stream from whose savepoint it begins has written up to it.
        (("0", "1", "5"), 4, True),  # That stream went on.
    ],
)
def test_a_directory_with_batches_that_this_stream_has_not_begun_is_refused(
    tmp_path: Path, in_log: tuple[str, ...], begun: int | None, *, is_refused: bool
) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    for name in in_log:
        (tmp_path / "out" / "_spark_metadata" / name).touch()
    location = tmp_path / "checkpoint"
    (location / "offsets").mkdir(parents=True)
    for number in range(0 if begun is None else begun + 1):
        (location / "offsets" / str(number)).touch()
    with pytest.raises(StreamUnusable, match="of another stream") if is_refused else contextlib.nullcontext():
        check_directory(Place(str(tmp_path / "out")), Place(str(location)))

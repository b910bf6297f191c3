"""What ends a stream says so in one sentence; and what else a stream can be: SQL, tables beside it, several subtasks, other sinks."""

import contextlib
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from eventflink.events.log_events import CheckpointAcknowledged, TaskFailed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.log.admin_connection import AdminConnection
from eventflink.model.job_graph import LateRows
from eventflink.model.places import Place
from eventflink.model.statuses import JobStatus
from eventflink.model.stream_progress import StreamProgress
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.watermarks import with_late_rows_apart
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import own_session
from tests.support.topics import CommittedReader, add_partitions, create_topic, feed

pytestmark = pytest.mark.slow

CODE = Path(stream_tasks.__file__)
TIMEOUT_S = 360
NOW = {"available_now": True}


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("streams"), **{"spark.remote": spark}) as running:
        running.start_master()
        running.start_task_executor(slots=4)
        yield running


@pytest.fixture
def topics(bootstrap: str) -> tuple[str, str]:
    """A source with 100 records, and a target."""
    source, target = create_topic(bootstrap), create_topic(bootstrap)
    feed(bootstrap, source, [{"key": f"k{number % 7}", "number": number} for number in range(100)])
    return source, target


def source_of(topic: str, **more: Any) -> dict[str, Any]:
    kafka = {"topic": topic} | more.pop("kafka", {})
    return {"kafka": kafka, "format": "json", "schema": "key STRING, number BIGINT", **more}


def json_sink(topic: str, *key: str) -> dict[str, Any]:
    return {"kafka": {"topic": topic, "key": list(key)}, "format": "json"}


def vertex(source: dict[str, Any], sink: dict[str, Any], function: str = "copy", **more: Any) -> dict[str, Any]:
    stream = {"sources": {"source": source}, "sink": sink, "trigger": NOW} | more.pop("stream", {})
    task = {"python": f"stream_tasks:{function}"} if "sql" not in more else {}
    return {"id": "stream", **task, "stream": stream, **more}


def run(cluster: RunningCluster, *vertices: dict[str, Any], **more: Any) -> str:
    graph = cluster.graph(*vertices, restart_strategy={"type": "none"}, code_archives=[cluster.user_code(CODE)], **more)
    return cluster.submit(graph)


def cause_of(cluster: RunningCluster, job_id: str) -> str:
    cause = cluster.wait_for_status(job_id, JobStatus.FAILED, TIMEOUT_S).cause
    assert cause is not None
    return f"{cause.failure_type}: {cause.message}"


def committed(cluster: RunningCluster, topic: str, count: int) -> list[dict[str, Any]]:
    reader = CommittedReader(cluster.bootstrap, topic)
    rows = list(reader.read_until(lambda rows: len(rows) >= count))
    reader.close()
    return rows


TARGET = "the target"


def in_place(value: Any, topics: tuple[str, str]) -> Any:
    """Return a document with the name of the target topic in it."""
    if isinstance(value, dict):
        return {key: in_place(inner, topics) for key, inner in value.items()}
    return topics[1] if value == TARGET else value


def test_a_function_of_the_job_s_module_is_found_where_spark_runs_it(cluster: RunningCluster) -> None:
    source, target, bad = (create_topic(cluster.bootstrap) for _ in range(3))
    feed(cluster.bootstrap, source, [{"key": "k", "number": number} for number in range(5)])
    feed(cluster.bootstrap, bad, [{"key": "k", "number": -1}])
    job_id = run(cluster, vertex(source_of(source), json_sink(target), "doubled"))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    assert sorted(row["number"] for row in committed(cluster, target, 5)) == [0, 2, 4, 6, 8]
    failed = run(
        cluster, vertex(source_of(bad), json_sink(target), "doubled", retries=[{"errors": ["Unusable"], "attempts": 1, "delay": "10ms"}])
    )
    assert "a Python function that Spark ran raised stream_tasks.Unusable: -1" in cause_of(cluster, failed)
    assert [each["cause"]["root_type"] for each in cluster.exceptions_of(failed)["exceptions"]] == ["Unusable"] * 2


@pytest.mark.parametrize(
    ("function", "more", "says"),
    [
        ("returns_a_table", {}, "OutputUnusable: vertex 'stream': it returned a DataFrame that reads no stream: "),
        ("raises", {}, r"vertex 'stream': a Python function that Spark ran raised LookupError: no use for \d+"),
        ("copy", {"sink": json_sink("none")}, "StreamUnusable: vertex 'stream': the sink: topic not found: 'none' at .*"),
        ("copy", {"sink": json_sink(TARGET, "colour")}, "the sink names column 'colour', which the rows do not have: key, number"),
        ("large", {}, "SinkUnavailable: vertex 'stream': Kafka at .* did not take batch 0 for topic .*too large"),
        ("copy", {"sources": {"source": source_of("none")}}, "source 'source': topic not found: 'none' at .*"),
        ("copy", {"sources": {"source": source_of(TARGET, event_time="at", watermark_delay_ms=5)}}, "event_time names 'at', .*key, number"),
        (
            "copy",
            {"sources": {"source": source_of(TARGET, schema="key STRIN, number BIGINT")}},
            "StreamUnusable: .*source 'source': its 'schema' is not the columns as Spark's DDL: .*STRIN.*: key STRIN, number BIGINT",
        ),
        ("copy", {"sources": {"other": source_of(TARGET)}}, "InputUnusable: .*input not found: 'source'; this vertex has other"),
        ("count_by_key", {}, "AnalysisException: .*STREAMING_OUTPUT_MODE.* append"),
    ],
)
def test_what_ends_a_stream_is_said(
    cluster: RunningCluster, topics: tuple[str, str], function: str, more: dict[str, Any], says: str
) -> None:
    job_id = run(cluster, vertex(source_of(topics[0]), json_sink(topics[1]), function, stream=in_place(more, topics)))
    assert re.search(says, cause_of(cluster, job_id))


@pytest.mark.parametrize("late", [None, LateRows(output="late", window_ms=1_000)])
@pytest.mark.parametrize("kind", ["TIMESTAMP_NTZ", "DATE"])
def test_an_event_time_is_a_timestamp(spark: str, tmp_path: Path, kind: str, late: LateRows | None) -> None:
    says = f"event_time: column 'at' is {kind}, and Spark has watermarks of a TIMESTAMP alone: declare it as one"
    with own_session(spark) as session:
        rows = session.readStream.format("rate").load().selectExpr(f"CAST(timestamp AS {kind}) AS at")
        with pytest.raises(StreamUnusable, match=says):
            with_late_rows_apart(rows, "at", 0, late, Place(str(tmp_path)))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("copy", "OutputUnusable: .*it returned DataFrame: this stream returns a mapping of even, other to streaming DataFrames"),
        (
            "split",
            "OutputUnusable: .*it returned even, odd, without other: this stream returns a mapping of even, other to streaming DataFrames",
        ),
    ],
)
def test_a_stream_with_several_sinks_returns_rows_for_each_of_them(
    cluster: RunningCluster, topics: tuple[str, str], function: str, says: str
) -> None:
    sinks = {"even": json_sink(topics[1]), "other": json_sink(topics[1])}
    job_id = run(cluster, vertex(source_of(topics[0]), {}, function, stream={"sink": None, "sinks": sinks}))
    assert re.search(says, cause_of(cluster, job_id))


def test_a_bad_record_ends_the_stream_with_its_place_unless_it_may_be_left_out(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    source, target = topics
    feed(cluster.bootstrap, source, [b"not json", b'{"key": "k", "number": "seven"}'])
    job_id = run(cluster, vertex(source_of(source), json_sink(target)))
    assert re.search(f"source 'source': the record at {source}-[01]@\\d+ is not what its schema says: ", cause_of(cluster, job_id))
    job_id = run(cluster, vertex(source_of(source, kafka={"bad_records": "column"}), json_sink(target)))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    rows = committed(cluster, target, 102)
    assert sorted(row["_bad_record"] for row in rows if row["_bad_record"] is not None) == ["not json", '{"key": "k", "number": "seven"}']
    assert sorted(row["number"] for row in rows if row["_bad_record"] is None) == list(range(100))


STRICT = "v STRING, x DOUBLE, t TINYINT, f FLOAT, s STRUCT<y: ARRAY<DOUBLE>>, m MAP<STRING, TINYINT>"
NO_JSON = [
    *(b'{"v": "a"}' + behind for behind in (b'{"v": "b"}', b" garbage", b', {"v": "b"}', b"] x", b"} x", b"}}{", b"//c", b"\0", b"\x0b")),
    b'{"v": "a", "s": {}}{"v": "b"}',
    *(b"[" + record + b"]" for record in (b"", b'{"v": "a"}')),
    *(b'{"v": "a", "x": ' + number + b"}" for number in (b"NaN", b'"NaN"', b"Infinity", b"-INF", b"1e400", b"-1e400", b"01", b"+1", b".5")),
    *(b'{"v": "a", "t": ' + number + b"}" for number in (b"200", b"-129", b"1.0")),
    *(b'{"v": "a", ' + member + b"}" for member in (b'"f": 1e39', b'"s": {"y": [1, null, 1e999]}', b'"m": {"k": 200}', b"'x': 1", b"x: 1")),
    *(
        b'{"v": "' + text + b'"}'
        for text in (b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\\ud800", b"\\udc00\\ud800", b"\\\\\\ud800", b"tab\t")
    ),
    *(b'{"v": ' + number + b"}" for number in (b"1e400", b"-1e400", b'{"a": [1, 1e400]}')),
    b'{"v": "a", "unknown": "\\uD83D"}',
    b"{'v': 'a'}",
    b"/**/{}",
    b"\xef\xbb\xbf{}",
    b"null",
    b"",
    b" ",
]
JSON: dict[bytes, dict[str, Any]] = {
    b' {"v": "a", "x": 1e308} \r\n': {"v": "a", "x": 1e308},
    b'{"v": "\\ud83d\\ude00 \\\\ud800 {}"}': {"v": "\U0001f600 \\ud800 {}"},
    b'{"v": {"a": [1.5, "}"]}}': {"v": '{"a":[1.5,"}"]}'},
    b'{"t": -128, "m": {"k": 127, "n": null}}': {"t": -128, "m": {"k": 127, "n": None}},
    b'{"f": 3.4e38, "s": {"y": [1, null]}}': {"f": 3.4e38, "s": {"y": [1.0, None]}},
    b'{"v": "Infinity"}': {"v": "Infinity"},
    b'{"v": "\\u0049nfinity"}': {"v": "Infinity"},
    b'{"v": 1e308}': {"v": "1.0E308"},
    b"{}": {},
}


def test_a_record_is_one_json_document_that_its_columns_fit_or_it_is_bad(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [*NO_JSON, *JSON])
    kept = source_of(source, schema=STRICT, kafka={"bad_records": "column"})
    sql = "SELECT hex(_bad_record) AS bad, struct(v, x, t, f, s, m) AS row FROM source"
    job_id = run(cluster, vertex(kept, json_sink(target), sql=sql))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    rows = committed(cluster, target, len(NO_JSON) + len(JSON))
    nothing: dict[str, Any] = dict.fromkeys(("v", "x", "t", "f", "s", "m"))
    assert sorted(bytes.fromhex(row["bad"]) for row in rows if row["bad"] is not None) == sorted(NO_JSON)
    assert [row["row"] for row in rows if row["bad"] is not None and row["row"] != nothing] == []
    good = [row["row"] for row in rows if row["bad"] is None]
    assert sorted(good, key=str) == sorted((nothing | row for row in JSON.values()), key=str)


def test_a_line_of_a_file_is_one_json_document_or_it_ends_the_stream(cluster: RunningCluster, tmp_path: Path) -> None:
    target = create_topic(cluster.bootstrap)
    (tmp_path / "day=2026-11-26").mkdir()
    (tmp_path / "day=2026-11-26" / "a.json").write_bytes(b'{"v": "a"}\n\n  \r\n{"v": "b", "n": 1}')
    files = {"files": {"path": str(tmp_path)}, "format": "json", "schema": "n BIGINT, v STRING, day STRING, value INT"}
    job_id = run(cluster, vertex(files, json_sink(target)))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    rows = sorted(committed(cluster, target, 2), key=lambda row: str(row["v"]))
    assert rows == [{"n": n, "v": v, "value": None, "day": "2026-11-26"} for n, v in ((None, "a"), (1, "b"))]
    (tmp_path / "day=2026-11-26" / "b.json").write_bytes(b'{"v": "c"}{"v": "d"}\n')
    says = r"source 'source': a line of file:/.*/b\.json is not what its schema says: {\"v\": \"c\"}{\"v\": \"d\"}"
    assert re.search(says, cause_of(cluster, run(cluster, vertex(files, json_sink(target)))))


def test_the_names_of_directories_give_columns_of_the_types_that_are_declared(cluster: RunningCluster, tmp_path: Path) -> None:
    target = create_topic(cluster.bootstrap)
    for number, code in enumerate(("007", "042")):
        (tmp_path / f"code={code}" / "year=2026").mkdir(parents=True)
        (tmp_path / f"code={code}" / "year=2026" / "a.json").write_text(f'{{"n": {number}}}')
    files = {"files": {"path": str(tmp_path)}, "format": "json", "schema": "code STRING, n INT"}
    job_id = run(cluster, vertex(files, json_sink(target)))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    rows = sorted(committed(cluster, target, 2), key=lambda row: row["n"])
    assert rows == [{"n": 0, "code": "007", "year": 2026}, {"n": 1, "code": "042", "year": 2026}]


@pytest.mark.parametrize(
    "value", ["double('NaN')", "float('-Infinity')", "array(1.5D, double('Infinity'))", "map('k', struct(double('NaN')))"]
)
def test_a_number_that_json_does_not_have_is_not_written(
    cluster: RunningCluster, topics: tuple[str, str], value: str, tmp_path: Path
) -> None:
    sql = f"SELECT number AS n, {value} AS x, 1.5D AS y FROM source"
    says = "the sink: a row has NaN or an infinite number in column 'x', which JSON cannot hold: make it null, or a text"
    files = {"files": {"path": str(tmp_path / "out")}, "format": "json"}
    keys = {"kafka": {"topic": topics[1], "key": ["n", "x"]}, "format": "text"}
    for sink in (json_sink(topics[1]), files, keys) if value.startswith("double") else (json_sink(topics[1]),):
        assert says in cause_of(cluster, run(cluster, vertex(source_of(topics[0]), sink, sql=sql)))


def test_a_stream_may_be_sql_and_have_a_table_that_another_vertex_made(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    source, target = topics
    sql = "SELECT name, number FROM source JOIN names USING (key) WHERE number >= :least"
    stream = vertex(source_of(source), json_sink(target, "name", "number"), sql=sql, parameters={"least": 90})
    job_id = run(
        cluster, {"id": "names", "python": "stream_tasks:names"}, stream, edges=[{"from": "names", "to": "stream", "ship": "broadcast"}]
    )
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    rows = committed(cluster, target, 10)
    assert sorted((row["number"], row["name"]) for row in rows) == [(number, f"name-{number % 7}") for number in range(90, 100)]


def test_subtasks_share_out_the_partitions_of_a_topic(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    source, target = topics
    job_id = run(cluster, vertex(source_of(source), json_sink(target), parallelism=2))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    assert sorted(row["number"] for row in committed(cluster, target, 100)) == list(range(100))
    job_id = run(cluster, vertex(source_of(source), json_sink(target), parallelism=3))
    assert f"topic '{source}' has 2 partitions for 3 subtasks" in cause_of(cluster, job_id)


@pytest.mark.parametrize("function", ["windows", "windows_of_edge"])
def test_a_branch_that_gets_no_rows_does_not_keep_the_windows_of_others_open(cluster: RunningCluster, function: str) -> None:
    source, targets = create_topic(cluster.bootstrap), [create_topic(cluster.bootstrap) for _ in range(3)]
    event_time = {"event_time": "at", "watermark_delay_ms": 60_000}
    reads = source_of(source, schema="number BIGINT, at TIMESTAMP", kafka={"bad_records": "column"}, **event_time)
    sinks = {"even": json_sink(targets[0]), "odd": json_sink(targets[1]), "bad": {"kafka": {"topic": targets[2]}, "format": "text"}}
    settings = {"spark.sql.shuffle.partitions": 1}
    end = {"sources": {"source": reads}, "sink": None, "sinks": sinks, "trigger": {"processing_time_ms": 0}, "settings": settings}
    if function == "windows_of_edge":
        first = {"sources": {"source": reads}, "trigger": {"processing_time_ms": 0}}
        edge = {
            "from": "pass_on",
            "to": "stream",
            "ship": "hash",
            "keys": ["number"],
            "schema": "number BIGINT, at TIMESTAMP",
            **event_time,
        }
        vertices = [
            {"id": "pass_on", "python": "stream_tasks:pass_on", "stream": first},
            {"id": "stream", "python": f"stream_tasks:{function}", "stream": {**end, "sources": {}}},
        ]
        job_id = run(cluster, *vertices, edges=[edge])
    else:
        job_id = run(cluster, vertex({}, {}, function, stream=end))
    for minute in range(6):
        feed(cluster.bootstrap, source, [b"bad", {"number": 2 * minute, "at": f"2026-11-26T10:{10 * minute:02}:00Z"}])
    feed(cluster.bootstrap, source, [{"number": 1_000, "at": "2026-11-26T12:00:00Z"}])
    ended = [row["start"] % 86_400 for row in committed(cluster, targets[0], 6)]
    assert sorted(ended) == [36_000 + 600 * minute for minute in range(6)]
    cancel(cluster, job_id)


def test_a_watermark_that_stands_still_while_rows_come_and_late_rows_are_told(cluster: RunningCluster) -> None:
    source, targets = create_topic(cluster.bootstrap), [create_topic(cluster.bootstrap) for _ in range(3)]
    reads = source_of(source, schema="number BIGINT, at TIMESTAMP", event_time="at", watermark_delay_ms=0, kafka={"bad_records": "column"})
    sinks = {"even": json_sink(targets[0]), "odd": json_sink(targets[1]), "bad": {"kafka": {"topic": targets[2]}, "format": "text"}}
    stream = {"sources": {"source": reads}, "sink": None, "sinks": sinks, "trigger": {"processing_time_ms": 0}}
    stream["settings"] = {"spark.sql.shuffle.partitions": 1}
    job_id = run(cluster, vertex({}, {}, "windows", stream=stream), checkpointing={"interval_ms": 300})

    def feed_until(at: str, holds: Callable[[StreamProgress], bool], what: str) -> StreamProgress:
        def fed() -> StreamProgress | None:
            feed(cluster.bootstrap, source, [{"number": 2, "at": at}])
            answers = [e.progress for e in cluster.events_of(job_id) if isinstance(e, CheckpointAcknowledged)]
            return answers[-1] if answers and holds(answers[-1]) else None

        found = wait_until(fed, what, TIMEOUT_S)
        assert isinstance(found, StreamProgress)
        return found

    stood = feed_until("2026-11-26T10:00:00Z", lambda told: told.rows_since_watermark > 0 < told.watermark_ms, "a watermark that stands")
    assert stood.watermark_stands_ms > 0 < stood.state_rows
    assert stood.late_rows_dropped == 0
    moved = feed_until("2026-11-26T11:00:00Z", lambda told: told.watermark_ms > stood.watermark_ms, "a watermark that moved")
    late = feed_until("2026-11-26T10:00:00Z", lambda told: told.late_rows_dropped > 0, "rows that were dropped")
    assert late.watermark_ms == moved.watermark_ms
    assert late.rows_since_watermark > 0, "late rows move no watermark"
    even, odd, bad = late.outputs
    assert [(each.name, each.location, each.written_at_ms > 0) for each in late.outputs] == [
        ("even", targets[0], True),
        ("odd", targets[1], False),
        ("bad", targets[2], False),
    ]
    assert (even.rows_written, odd.rows_written, bad.rows_written) == (1, 0, 0), "one window has ended"
    assert odd.rows_since >= late.rows_since_watermark > 0
    cancel(cluster, job_id)


@pytest.mark.parametrize("kind", ["exactly_once", "at_least_once", "files", "function"])
def test_rows_are_counted_for_each_kind_of_sink(cluster: RunningCluster, topics: tuple[str, str], tmp_path: Path, kind: str) -> None:
    source, target = topics
    sinks: dict[str, dict[str, Any]] = {
        "files": {"files": {"path": str(tmp_path / "out")}, "format": "parquet"},
        "function": {"python": "stream_tasks:append_to_file"},
    }
    sink = sinks.get(kind, {"kafka": {"topic": target, "guarantee": kind}, "format": "json"})
    sql = f"SELECT number, '{tmp_path / 'lines'}' AS path FROM source WHERE number % 4 = 0"
    stream = {"trigger": {"processing_time_ms": 0}}
    job_id = run(cluster, vertex(source_of(source), sink, sql=sql, stream=stream), checkpointing={"interval_ms": 300})

    def rows_written() -> list[int]:
        answers = [e.progress for e in cluster.events_of(job_id) if isinstance(e, CheckpointAcknowledged)]
        return [output.rows_written for output in answers[-1].outputs] if answers else []

    wait_until(lambda: sum(rows_written()) >= 25, "the rows are counted", TIMEOUT_S)
    assert rows_written() == [25]
    cancel(cluster, job_id)


def test_outputs_with_watermarks_of_their_own_are_refused(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    reads = source_of(topics[0], schema="number BIGINT, at TIMESTAMP", kafka={"bad_records": "column"})
    sinks = {"even": json_sink(topics[1]), "odd": json_sink(topics[1]), "bad": {"kafka": {"topic": topics[1]}, "format": "text"}}
    stream = {"sources": {"source": reads}, "sink": None, "sinks": sinks}
    says = "StreamUnusable: .*its outputs even, odd, bad have watermarks that the function sets itself: "
    assert re.search(says, cause_of(cluster, run(cluster, vertex({}, {}, "windows_by_own_watermark", stream=stream))))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_partitions_that_are_added_while_a_stream_runs_are_read(cluster: RunningCluster, topics: tuple[str, str], parallelism: int) -> None:
    source, target = topics
    stream = vertex(source_of(source), json_sink(target), parallelism=parallelism, stream={"trigger": {"processing_time_ms": 0}})
    job_id = run(cluster, stream)
    committed(cluster, target, 100)
    add_partitions(cluster.bootstrap, source, 5)
    feed(cluster.bootstrap, source, [{"number": number} for number in range(100, 105)], range(5))
    rows = committed(cluster, target, 105)
    assert sorted(row["number"] for row in rows) == list(range(105))
    assert [e for e in cluster.events_of(job_id) if isinstance(e, TaskFailed)] == []
    cancel(cluster, job_id)


def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    source, target = topics
    one_at_a_time = {"trigger": {"processing_time_ms": 3_600_000}}
    job_id = run(cluster, vertex(source_of(source), json_sink(target), stream=one_at_a_time))
    committed(cluster, target, 100)
    connection = AdminConnection(cluster.access.kafka)
    connection.delete_topics([source])
    wait_until(lambda: source not in connection.find_topics(), "it is gone")
    connection.create_topics([NewTopic(source, 2, 1)])
    feed(cluster.bootstrap, source, [{"key": "k", "number": number} for number in range(300)])
    says = f"StreamUnusable: vertex 'stream': source 'source': topic '{source}' of Kafka at {cluster.bootstrap} was deleted and made again"
    assert says in cause_of(cluster, job_id)


def cancel(cluster: RunningCluster, job_id: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)


def test_a_directory_is_a_sink_and_a_source(cluster: RunningCluster, topics: tuple[str, str], tmp_path: Path) -> None:
    source, target = topics
    sink = {"files": {"path": str(tmp_path / "out"), "partition_by": ["key"]}, "format": "parquet"}
    cluster.wait_for_status(run(cluster, vertex(source_of(source), sink)), JobStatus.FINISHED, TIMEOUT_S)
    again = run(cluster, vertex(source_of(source), sink))
    assert f"the sink's directory {tmp_path / 'out'} has batches up to " in cause_of(cluster, again)
    files = {"files": {"path": str(tmp_path / "out")}, "format": "parquet", "schema": "number BIGINT, key STRING"}
    cluster.wait_for_status(run(cluster, vertex(files, json_sink(target))), JobStatus.FINISHED, TIMEOUT_S)
    assert sorted(row["number"] for row in committed(cluster, target, 100)) == list(range(100))


def test_a_function_of_the_user_is_a_sink(cluster: RunningCluster, topics: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    sql = f"SELECT number, '{path}' AS path FROM source"
    cluster.wait_for_status(
        run(cluster, vertex(source_of(topics[0]), {"python": "stream_tasks:append_to_file"}, sql=sql)), JobStatus.FINISHED, TIMEOUT_S
    )
    assert sorted(path.read_text().split()[1::2], key=int) == [str(number) for number in range(100)]


def test_a_cancelled_stream_writes_no_more(cluster: RunningCluster, topics: tuple[str, str]) -> None:
    source, target = topics
    job_id = run(cluster, vertex(source_of(source), json_sink(target), stream={"trigger": {"processing_time_ms": 0}}))
    committed(cluster, target, 100)
    cancel(cluster, job_id)
    feed(cluster.bootstrap, source, [{"key": "late", "number": 1}])
    reader = CommittedReader(cluster.bootstrap, target)
    reader.read_until(lambda rows: len(rows) >= 100)
    reader.read(2.0)
    assert len(reader.rows) == 100
    reader.close()


@pytest.mark.parametrize("which", ["source", "sink"])
def test_a_topic_that_is_deleted_while_a_stream_runs_is_named(cluster: RunningCluster, topics: tuple[str, str], which: str) -> None:
    source, target = topics
    sink = {"kafka": {"topic": target, "transaction_timeout_ms": 15_000}, "format": "json"}
    job_id = run(cluster, vertex(source_of(source), sink, stream={"trigger": {"processing_time_ms": 0}}))
    committed(cluster, target, 100)
    gone = source if which == "source" else target
    AdminConnection(cluster.access.kafka).delete_topics([gone])
    if which == "sink":
        feed(cluster.bootstrap, source, [{"key": "k", "number": 1}])
    what = "source 'source'" if which == "source" else "the sink"
    says = f"StreamUnusable: vertex 'stream': {what}: topic not found: '{gone}' at {cluster.bootstrap}"
    assert cause_of(cluster, job_id) == says


def test_a_full_disk_fails_attempts_with_that_reason_and_the_stream_goes_on_when_there_is_room(
    cluster: RunningCluster, topics: tuple[str, str]
) -> None:
    source, target = topics
    job_id = uuid.uuid4().hex
    directory = cluster.directory / "data" / "jobs" / cluster.cluster_id / job_id
    directory.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)], capture_output=True, check=False).returncode:
        pytest.skip("a disk that can be filled has to be mounted, which needs root")
    try:
        stream = vertex(source_of(source), json_sink(target), stream={"trigger": {"processing_time_ms": 0}})
        strategy = {"type": "fixed-delay", "attempts": 100, "delay_ms": 500}
        archives = [cluster.user_code(CODE)]
        cluster.submit(cluster.graph(stream, restart_strategy=strategy, code_archives=archives), job_id)
        committed(cluster, target, 100)
        fill(directory / "filler")
        feed(cluster.bootstrap, source, [{"key": "k", "number": number} for number in range(100, 200)])
        failures = wait_until(lambda: [e for e in cluster.events_of(job_id) if isinstance(e, TaskFailed)], "it fails", TIMEOUT_S)
        assert "No space left on device" in failures[0].cause.message
        (directory / "filler").unlink()
        assert sorted(row["number"] for row in committed(cluster, target, 200)) == list(range(200))
        cancel(cluster, job_id)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(path: Path) -> None:
    """Write until nothing more fits on the disk."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1_024))


def test_records_that_are_gone_before_they_were_read_end_the_stream(cluster: RunningCluster) -> None:
    source, target = create_topic(cluster.bootstrap, 1), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [{"key": "x" * 900_000, "number": number} for number in range(12)])
    one_at_a_time = {
        "trigger": {"processing_time_ms": 3_000},
        "sources": {"source": source_of(source, kafka={"max_offsets_per_trigger": 1})},
    }
    job_id = run(cluster, vertex({}, json_sink(target), sql="SELECT number FROM source", stream=one_at_a_time))
    committed(cluster, target, 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for gone in admin.delete_records([TopicPartition(source, 0, 10)]).values():
        gone.result(120)
    assert re.search(f"Some data may have been lost .*{source}", cause_of(cluster, job_id))

"""Streams whose late rows go to an output of their own."""

from pathlib import Path
from typing import Any

from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster
from tests.support.topics import CommittedReader, create_topic, feed

BATCH = 20
DELAY_MS = 120_000
SCHEMA = "number BIGINT, at TIMESTAMP"
EVENT_TIME = {"event_time": "at", "watermark_delay_ms": DELAY_MS}


def stream(name: str, sql: str, inputs: dict[str, Any], targets: list[str], trigger: dict[str, Any]) -> dict[str, Any]:
    """Return a vertex that reads `source`, and whose outputs are the result and, with a second target, the late rows."""
    sinks = {output: {"kafka": {"topic": topic}, "format": "json"} for output, topic in zip(("default", "late"), targets, strict=False)}
    settings = {"spark.sql.shuffle.partitions": 1}
    what = {"sql": sql} if sql else {"python": "stream_tasks:distinct"}
    return {"id": name, **what, "stream": {"sources": inputs, "sinks": sinks, "trigger": trigger, "settings": settings}}


def reads(topic: str, **more: Any) -> dict[str, Any]:
    return {"source": {"kafka": {"topic": topic, "max_offsets_per_trigger": BATCH}, "format": "json", "schema": SCHEMA, **more}}


def check_told_apart(cluster: RunningCluster, of: str) -> None:
    """Let a stream put late rows of a `source` or an `edge` apart, kill its task in the middle, and see each row where it belongs."""
    source, apart, late = (create_topic(cluster.bootstrap, 1) for _ in range(3))
    at_once, more = {"processing_time_ms": 0}, {**EVENT_TIME, "late_rows": "late"}
    vertices, edges = [stream("apart", "", reads(source, **more) if of == "source" else {}, [apart, late], at_once)], []
    if of == "edge":
        settings = vertices[0]["stream"]["settings"]
        vertices.append({"id": "copy", "python": "stream_tasks:copy"})
        vertices[1]["stream"] = {"sources": reads(source), "trigger": at_once, "settings": settings}
        edges.append({"from": "copy", "to": "apart", "name": "source", "ship": "forward", "schema": SCHEMA, **more})
    code, restart = cluster.user_code(Path(stream_tasks.__file__)), {"type": "fixed-delay", "attempts": 3, "delay_ms": 100}
    job_id = cluster.submit(cluster.graph(*vertices, edges=edges, code_archives=[code], restart_strategy=restart))
    reader, late_reader = CommittedReader(cluster.bootstrap, apart, 1), CommittedReader(cluster.bootstrap, late, 1)

    def come(minute: int, numbers: range, to: CommittedReader, count: int) -> None:
        feed(cluster.bootstrap, source, [{"number": each, "at": f"2026-11-26T10:{minute:02}:00Z"} for each in numbers])
        to.read_until(lambda rows: len(rows) >= count)

    come(0, range(2), reader, 2)
    come(30, range(2, 4), reader, 4)
    come(31, range(4, 6), reader, 6)  # The watermark by which rows are late is that of the batch before.
    cluster.wait_for_task_process(job_id, "apart").kill()
    come(10, range(6, 8), late_reader, 2)
    come(31, range(8, 10), reader, 8)
    assert sorted(row["number"] for row in reader.rows) == [0, 1, 2, 3, 4, 5, 8, 9]
    assert sorted(row["number"] for row in late_reader.rows) == [6, 7]
    reader.close()
    late_reader.close()
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    cluster.wait_for_status(job_id, JobStatus.CANCELED)

"""The package flink-rest-client, which knows of Flink alone, asks for everything that it can, and gets it or the reason why not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flink_rest_client import FlinkRestClient
from flink_rest_client.common import RestException

from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.bundles import SQL_ONLY, bundle
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, stream, vertex
from tests.support.rest_server import Served, served

STREAMS = "a" * 32
OVER = "b" * 32


@pytest.fixture
def serving() -> Iterator[Served]:
    """A cluster with a job of streams, one checkpoint old, and one that is over."""
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    cluster.run(cluster.submit(graph(vertex("a")), job_id=OVER))
    document = graph(stream("s", 2), vertex("b"), checkpointing={"interval_ms": 100})
    first, second, other = deployments(cluster.submit(document, job_id=STREAMS))
    cluster.start_stream(first)
    cluster.start_stream(second)
    cluster.report(other, ExecutionState.RUNNING)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3, state_bytes=10, input_rows_per_second=2.0, watermark_ms=5)
    with served(cluster) as started:
        yield started


@pytest.fixture
def client(serving: Served) -> Any:
    return FlinkRestClient.get("localhost", int(serving.url.rpartition(":")[2]))


def test_the_cluster_is_read(client: Any) -> None:
    assert (client.overview()["taskmanagers"], client.overview()["slots-total"], client.datasets()) == (1, 4, [])
    assert client.config()["features"]["web-submit"] is True
    assert "cluster.id" in client.jobmanager.config()
    assert client.jobmanager.logs() == []
    assert client.jobmanager.metrics()["taskSlotsTotal"] == "4"
    assert client.jars.all()["files"] == []
    assert client.taskmanagers.taskmanager_ids() == ["tm"]
    assert client.taskmanagers.metrics()["taskSlotsTotal"] == {"min": 4, "max": 4, "sum": 4, "avg": 4}
    assert client.taskmanagers.get("tm")["slotsNumber"] == 4
    assert client.taskmanagers.get_metrics("tm")["taskSlotsAvailable"] == "1"


def test_jobs_are_read(client: Any) -> None:
    jobs = client.jobs
    assert jobs.job_ids() == [row["jid"] for row in jobs.overview()] == [OVER, STREAMS]
    assert jobs.metrics(["numRestarts"])["numRestarts"]["max"] == 0
    assert jobs.get_metrics(STREAMS)["numRestarts"] == "0"
    assert (jobs.get(STREAMS)["state"], jobs.get_vertex_ids(STREAMS)) == ("RUNNING", ["s", "b"])
    assert jobs.get_config(STREAMS)["jid"] == jobs.get_plan(STREAMS)["jid"] == STREAMS
    assert jobs.get_exceptions(STREAMS)["exceptionHistory"]["entries"] == []
    assert jobs.get_execution_result(OVER)["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert jobs.get_accumulators(STREAMS, include_serialized_value=True)["user-task-accumulators"] == []
    assert jobs.get_checkpointing_configuration(STREAMS)["interval"] == 100
    assert jobs.get_checkpoint_ids(STREAMS) == [1]
    details = jobs.get_checkpoint_details(STREAMS, 1, show_subtasks=True)
    assert {name: len(part["subtasks"]) for name, part in details["subtasks"].items()} == {"s": 2, "b": 0}


def test_vertices_and_subtasks_are_read(client: Any) -> None:
    one = client.jobs.get_vertex(STREAMS, "s")
    assert (one.details()["parallelism"], one.backpressure()["status"]) == (2, "ok")
    assert one.metrics()["0.numRecordsInPerSecond"] == "2.0"
    assert len(one.subtasktimes()["subtasks"]) == 2
    assert [row["taskmanager-id"] for row in one.taskmanagers()["taskmanagers"]] == ["tm"]
    assert one.watermarks()[0] == {"id": "0.currentInputWatermark", "value": "5"}
    assert one.subtasks.subtask_ids() == [0, 1]
    assert one.subtasks.metrics(["numRecordsInPerSecond"], ["sum"], [0, 1]) == {"numRecordsInPerSecond": {"sum": 4.0}}
    assert one.subtasks.get(1)["status"] == one.subtasks.get_attempt(1, 0)["status"] == "RUNNING"
    assert one.subtasks.get_attempt_accumulators(1)["user-accumulators"] == []


def test_jobs_are_saved_stopped_and_cancelled(client: Any, serving: Served) -> None:
    trigger = client.jobs.create_savepoint(STREAMS, "/savepoints")
    assert trigger.status["status"] == {"id": "IN_PROGRESS"}
    with pytest.raises(RestException, match=r"409.*SavepointInProgress"):
        client.jobs.stop(STREAMS, "/savepoints", drain=True)
    assert client.jobs.terminate(STREAMS)
    assert serving.cluster.job(STREAMS).status is JobStatus.CANCELLING
    with pytest.raises(RestException, match="409"):
        client.jobs.terminate(OVER)
    assert client.delete_cluster() == {}
    assert serving.cluster.master.shutdown.request is not None


def test_a_bundle_is_uploaded_planned_run_and_deleted(client: Any, serving: Served, tmp_path: Path) -> None:
    document = "name: rows\nvertices: [{id: v, sql: SELECT 1, parameters: {limit: 10}}]\n"
    (tmp_path / "rows.jar").write_bytes(bundle({"rows.yaml": document, "another.yaml": SQL_ONLY}))
    uploaded = client.jars.upload(str(tmp_path / "rows.jar"))
    jar = uploaded["filename"].rpartition("/")[2]
    [listed] = client.jars.all()["files"]
    assert (uploaded["status"], listed["id"], listed["name"]) == ("success", jar, "rows.jar")
    job_id = client.jars.run(jar, arguments={"limit": 5}, entry_class="rows", parallelism=2)
    [vertex] = serving.cluster.job(job_id).execution_graph.graph.vertices
    assert (vertex.parallelism, vertex.parameters_json) == (2, '{"limit":5}')
    assert client.jars.delete(jar)
    assert client.jars.all()["files"] == []
    (tmp_path / "one.jar").write_bytes(bundle())
    assert client.jars.upload_and_run(str(tmp_path / "one.jar")) in client.jobs.job_ids()
    [one] = client.jars.all()["files"]
    assert client.jars.get_plan(one["id"])["name"] == "numbers"


def test_what_makes_no_sense_here_says_why(client: Any) -> None:
    refused: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: client.jars.upload(__file__), "400.*invalid name of a job bundle"),
        (lambda: client.jars.get_plan("a.jar"), "404.*jar not found"),
        (lambda: client.jars.run("a.jar", {"a": 1}, "Main", 2), "404.*jar not found"),
        (lambda: client.jars.delete("a.jar"), "404.*jar not found"),
        (lambda: client.jobs.rescale(STREAMS, 3), "501.*resource-requirements"),
        (lambda: client.delete_dataset("c" * 32), "404.*data set not found"),
        (lambda: client.jobmanager.get_log("a.log"), "404.*shows no logs"),
        (lambda: client.jobs.get("d" * 32), "404.*job not found"),
    )
    for ask, says in refused:
        with pytest.raises(RestException, match=says):
            ask()

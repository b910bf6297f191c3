"""Checkpoints and the metrics of streams are those of the state, in Flink's shapes; what is not known of older ones is not made up."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from eventflink.model.stream_progress import StreamSourceProgress
from tests.support.cluster import START_MS, ScriptedCluster, decline, deployments, graph, orders, stream, vertex
from tests.support.rest_client import rest_client

INTERVAL_MS = 100
SETTINGS = {"interval_ms": INTERVAL_MS, "tolerable_failed_checkpoints": 5, "retention": "retain-on-cancellation"}


def streaming_cluster() -> ScriptedCluster:
    """Return a cluster with a job of one stream: checkpoint 1 completed, 2 failed, 3 completed."""
    cluster = ScriptedCluster()
    cluster.register()
    first, second, _ = deployments(cluster.submit(graph(stream("s", 2), vertex("b"), checkpointing=SETTINGS)))
    cluster.start_stream(first)
    cluster.start_stream(second)
    cluster.acknowledge(*orders(cluster.pass_time(INTERVAL_MS)), batch_id=1, state_bytes=10)
    cluster.say(decline(orders(cluster.pass_time(INTERVAL_MS))[0]))
    asked = orders(cluster.pass_time(INTERVAL_MS))
    rates = {"input_rows": 60, "input_rows_per_second": 30.0, "processed_rows_per_second": 20.0, "batch_duration_ms": 3_000}
    behind = (StreamSourceProgress(name="numbers", end_offset="9", records_behind=40),)
    cluster.acknowledge(asked[0], batch_id=3, state_bytes=30, state_rows=4, watermark_ms=START_MS, sources=behind, **rates)
    cluster.pass_time(7)
    cluster.acknowledge(asked[1], batch_id=2, state_bytes=50, state_rows=2)
    return cluster


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return streaming_cluster()


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[TestClient]:
    with rest_client(cluster.fold) as client:
        yield client


def test_checkpoints_are_counted_summed_up_and_listed_the_newest_first(client: TestClient) -> None:
    answer = client.get("/jobs/job/checkpoints").json()
    assert answer["counts"] == {"restored": 0, "total": 3, "in_progress": 0, "completed": 2, "failed": 1}
    assert [(row["id"], row["className"]) for row in answer["history"]] == [(3, "completed"), (2, "failed"), (1, "completed")]
    newest, failed, oldest = answer["history"]
    assert (newest["state_size"], newest["end_to_end_duration"], newest["num_acknowledged_subtasks"]) == (80, 7, 2)
    assert newest["latest_ack_timestamp"] - newest["trigger_timestamp"] == 7
    assert (newest["discarded"], oldest["discarded"], newest["external_path"]) == (False, True, "<checkpoint-not-externally-addressable>")
    assert failed["failure_message"] == "DECLINED: s[0]#1 declined: the query has stopped"
    assert answer["latest"] == {"completed": newest, "savepoint": None, "failed": failed, "restored": None}
    size = answer["summary"]["state_size"]
    assert (size["min"], size["max"], size["avg"], size["p50"]) == (20, 80, 50, 80.0)


def test_the_newest_completed_checkpoint_has_the_part_of_each_subtask(client: TestClient) -> None:
    details = client.get("/jobs/job/checkpoints/details/3").json()
    part = details["tasks"]["s"]
    assert (part["state_size"], part["num_subtasks"], part["end_to_end_duration"]) == (80, 2, 7)
    assert (details["tasks"]["b"]["state_size"], details["tasks"]["b"]["num_subtasks"]) == (0, 0), "it is no stream, and had no part"
    answer = client.get("/jobs/job/checkpoints/details/3/subtasks/s").json()
    assert {key: answer[key] for key in part} == part
    assert [(row["index"], row["status"], row["state_size"], row["end_to_end_duration"]) for row in answer["subtasks"]] == [
        (0, "completed", 30, 0),
        (1, "completed", 50, 7),
    ]
    assert (answer["summary"]["state_size"]["min"], answer["summary"]["end_to_end_duration"]["max"]) == (30, 7)


def test_a_checkpoint_that_is_pending_tells_who_has_answered() -> None:
    cluster = streaming_cluster()
    cluster.acknowledge(orders(cluster.pass_time(INTERVAL_MS))[0], batch_id=4, state_bytes=5)
    with rest_client(cluster.fold) as client:
        pending = client.get("/jobs/job/checkpoints").json()["history"][0]
        answer = client.get("/jobs/job/checkpoints/details/4/subtasks/s").json()
        completed = client.get("/jobs/job/checkpoints/details/3").json()
    assert (pending["id"], pending["status"], pending["num_subtasks"], pending["num_acknowledged_subtasks"]) == (4, "IN_PROGRESS", 2, 1)
    assert [row["status"] for row in answer["subtasks"]] == ["completed", "pending_or_failed"]
    assert (answer["num_subtasks"], answer["num_acknowledged_subtasks"], answer["state_size"]) == (2, 1, 5)
    part = completed["tasks"]["s"]
    assert (part["num_subtasks"], part["state_size"]) == (0, -1), "one of its answers has been replaced by a newer one"


def test_a_savepoint_is_one_and_has_its_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster, path = streaming_cluster(), str(tmp_path_factory.mktemp("savepoints"))
    effects = cluster.command(type="TriggerSavepoint", job_id="job", target_directory=path, mode="CONTINUE")
    cluster.acknowledge(*orders(effects), batch_id=5)
    with rest_client(cluster.fold) as client:
        answer = client.get("/jobs/job/checkpoints").json()
    savepoint = answer["latest"]["savepoint"]
    assert (savepoint["is_savepoint"], savepoint["checkpoint_type"], savepoint["discarded"]) == (True, "SAVEPOINT", False)
    assert savepoint["external_path"].startswith(path)
    assert answer["history"][0] == savepoint


@pytest.mark.parametrize(("path", "size"), [("details/3/subtasks/b", 0), ("details/1/subtasks/s", -1)])
def test_a_vertex_without_a_part_and_one_whose_part_is_not_known_have_no_subtasks(client: TestClient, path: str, size: int) -> None:
    part = client.get(f"/jobs/job/checkpoints/{path}").json()
    assert (part["num_subtasks"], part["num_acknowledged_subtasks"], part["state_size"], part["subtasks"]) == (0, 0, size, [])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("details/9", "Could not find checkpointing statistics for checkpoint 9."),
        ("details/3/subtasks/c", "JobVertex c not found"),
    ],
)
def test_what_is_not_known_of_a_checkpoint_is_not_found(client: TestClient, path: str, says: str) -> None:
    answer = client.get(f"/jobs/job/checkpoints/{path}")
    assert answer.status_code == 404
    assert answer.json()["errors"][0].startswith(says)


def test_the_configuration_of_checkpoints_is_the_job_s(client: TestClient) -> None:
    config = client.get("/jobs/job/checkpoints/config").json()
    assert (config["mode"], config["interval"], config["timeout"], config["max_concurrent"]) == ("exactly_once", 100, 600_000, 1)
    assert (config["externalization"], config["tolerable_failed_checkpoints"]) == ({"enabled": True, "delete_on_cancellation": False}, 5)


def test_where_no_checkpoints_are_due_the_interval_is_flinks_for_never() -> None:
    cluster = ScriptedCluster()
    cluster.submit(graph(stream("s"), checkpointing={"interval_ms": 0}))
    with rest_client(cluster.fold) as client:
        assert client.get("/jobs/job/checkpoints/config").json()["interval"] == 2**63 - 1


# -- what the streams said at the last checkpoint ------------------------------------------------------------------------


def values(client: TestClient, path: str) -> dict[str, str]:
    return {metric["id"]: metric["value"] for metric in client.get(path).json()}


def test_metrics_of_subtasks_are_what_they_said_at_the_last_checkpoint(client: TestClient) -> None:
    names = "0.numRecordsInPerSecond,1.stateRows,0.pendingRecords,1.pendingRecords,0.lastBatchDurationMs,0.none"
    expected = {"0.numRecordsInPerSecond": "30.0", "1.stateRows": "2", "0.pendingRecords": "40", "0.lastBatchDurationMs": "3000"}
    assert values(client, f"/jobs/job/vertices/s/metrics?get={names}") == expected
    listed = client.get("/jobs/job/vertices/s/subtasks/1/metrics").json()
    assert {"id": "stateBytes"} in listed
    assert values(client, "/jobs/job/vertices/s/subtasks/1/metrics?get=stateBytes,pendingRecords") == {"stateBytes": "50"}
    assert client.get("/jobs/job/vertices/b/metrics").json() == client.get("/jobs/job/vertices/b/watermarks").json() == []
    assert values(client, "/jobs/job/vertices/s/watermarks") == {"0.currentInputWatermark": str(START_MS)}


def test_metrics_of_subtasks_are_taken_together(client: TestClient) -> None:
    path = "/jobs/job/vertices/s/subtasks/metrics"
    assert {"id": "stateRows"} in client.get(path).json()
    [rows] = client.get(f"{path}?get=stateRows&agg=min,max,sum").json()
    assert rows == {"id": "stateRows", "min": 2.0, "max": 4.0, "sum": 6.0}
    [one] = client.get(f"{path}?get=stateRows,none&agg=sum&subtasks=1,5-9").json()
    assert one == {"id": "stateRows", "sum": 2.0}
    for query in ("subtasks=a-b", "agg=most"):
        assert client.get(f"{path}?{query}").status_code == 400


def test_metrics_of_a_job_count_its_checkpoints_and_restarts(client: TestClient) -> None:
    names = "numRestarts,numberOfCompletedCheckpoints,lastCheckpointSize,lastCheckpointDuration,none"
    expected = {"numRestarts": "0", "numberOfCompletedCheckpoints": "2", "lastCheckpointSize": "80", "lastCheckpointDuration": "7"}
    assert values(client, f"/jobs/job/metrics?get={names}") == expected
    assert client.get("/jobs/metrics?get=numRestarts&agg=max&jobs=job,nobody").json() == [{"id": "numRestarts", "max": 0.0}]
    assert client.get("/jobs/metrics?get=numRestarts&jobs=nobody").json() == []


def test_back_pressure_is_that_of_the_worst_subtask(client: TestClient) -> None:
    answer = client.get("/jobs/job/vertices/s/backpressure").json()
    assert (answer["status"], answer["backpressureLevel"]) == ("ok", "low")
    assert [(row["subtask"], row["backpressureLevel"], row["ratio"]) for row in answer["subtasks"]] == [(0, "low", 0.4), (1, "ok", 0.0)]
    assert answer["end-timestamp"] == client.get("/jobs/job/checkpoints").json()["latest"]["completed"]["latest_ack_timestamp"]
    assert client.get("/jobs/job/vertices/b/backpressure").json() == {"status": "deprecated"}

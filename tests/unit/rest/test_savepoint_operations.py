"""A savepoint or checkpoint that is asked for over REST is taken once under its trigger id, and any process tells what became of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from eventflink.events.effects import CheckpointOrder
from eventflink.events.log_events import CheckpointTriggered
from eventflink.master.effects import Deployment
from tests.support.cluster import ScriptedCluster, decline, deployments, graph, orders, replay, stream, vertex
from tests.support.rest_client import commanding_client, rest_client

TRIGGER = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32


def streaming_cluster(*job_ids: str) -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    for job_id in job_ids or ("job",):
        for deployment in deployments(cluster.submit(graph(stream("s", 2)), job_id=job_id)):
            cluster.start_stream(deployment)
    return cluster


def last_orders(cluster: ScriptedCluster) -> list[Deployment]:
    """Return what the newest checkpoint asks of the streams."""
    asked = orders(effect for released in cluster.released for effect in released.effects)
    newest = max(order.payload.checkpoint_id for order in asked if isinstance(order.payload, CheckpointOrder))
    return [order for order in asked if isinstance(order.payload, CheckpointOrder) and order.payload.checkpoint_id == newest]


@contextmanager
def another_process(cluster: ScriptedCluster) -> Iterator[TestClient]:
    """Give a client of a process that was started only now."""
    with rest_client(replay(cluster.log, timestamps=cluster.timestamps)) as client:
        yield client


def status_of(cluster: ScriptedCluster, path: str) -> Any:
    with another_process(cluster) as client:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def post(cluster: ScriptedCluster, path: str, **body: Any) -> Response:
    with commanding_client(cluster) as client:
        return client.post(path, json=body)


def test_a_savepoint_is_under_way_until_it_is_complete_and_any_process_says_where_it_is() -> None:
    cluster = streaming_cluster()
    answer = post(cluster, "/jobs/job/savepoints", **{"target-directory": "/savepoints", "cancel-job": False, "triggerId": TRIGGER})
    assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER})
    path = f"/jobs/job/savepoints/{TRIGGER}"
    assert status_of(cluster, path) == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    cluster.acknowledge(*last_orders(cluster))
    [triggered] = cluster.events(CheckpointTriggered)
    assert triggered.savepoint is not None
    assert status_of(cluster, path) == {"status": {"id": "COMPLETED"}, "operation": {"location": triggered.savepoint.path}}
    assert (triggered.actor, triggered.savepoint.mode) == ("rest (declared)", "CONTINUE")


def test_the_same_trigger_takes_no_second_savepoint_also_when_the_first_is_complete() -> None:
    cluster = streaming_cluster()
    for _ in range(2):
        assert post(cluster, "/jobs/job/savepoints", **{"target-directory": "/s", "triggerId": TRIGGER.upper()}).json() == {
            "request-id": TRIGGER
        }
    assert status_of(cluster, f"/jobs/job/savepoints/{TRIGGER.upper()}") == status_of(cluster, f"/jobs/job/savepoints/{TRIGGER}")
    cluster.acknowledge(*last_orders(cluster))
    cluster.fail_over()
    assert post(cluster, "/jobs/job/savepoints", **{"target-directory": "/s", "triggerId": TRIGGER}).status_code == 202
    assert len(cluster.events(CheckpointTriggered)) == 1


def test_without_a_trigger_id_each_request_gets_one() -> None:
    cluster = streaming_cluster()
    trigger_id = post(cluster, "/jobs/job/checkpoints").json()["request-id"]
    assert len(trigger_id) == 32
    assert status_of(cluster, f"/jobs/job/checkpoints/{trigger_id}") == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    cluster.acknowledge(*last_orders(cluster))
    assert post(cluster, "/jobs/job/checkpoints").json()["request-id"] != trigger_id


@pytest.mark.parametrize(
    ("path", "body", "mode", "place"),
    [
        ("savepoints", {"target-directory": "/s/", "cancel-job": True}, "CANCEL", "/s/savepoint-job-1-"),
        ("savepoints", {"target-directory": "file:/s", "formatType": "NATIVE"}, "CONTINUE", "file:///s/savepoint-job-1-"),
        ("stop", {"targetDirectory": "s3://b/s", "drain": True, "formatType": "CANONICAL"}, "DRAIN", "s3://b/s/savepoint-job-1-"),
        ("stop", {"targetDirectory": "/s", "drain": None, "triggerId": None}, "STOP", "/s/savepoint-job-1-"),
    ],
)
def test_a_request_says_what_becomes_of_the_job(path: str, body: dict[str, Any], mode: str, place: str) -> None:
    cluster = streaming_cluster()
    assert post(cluster, f"/jobs/job/{path}", **body).status_code == 202
    [triggered] = cluster.events(CheckpointTriggered)
    assert triggered.savepoint is not None
    assert triggered.savepoint.mode == mode
    assert triggered.savepoint.path.startswith(place)


def test_a_checkpoint_that_was_asked_for_says_which_it_was() -> None:
    cluster = streaming_cluster()
    assert post(cluster, "/jobs/job/checkpoints", checkpointType="FULL", triggerId=TRIGGER).status_code == 202
    cluster.acknowledge(*last_orders(cluster))
    completed = {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 1}}
    assert status_of(cluster, f"/jobs/job/checkpoints/{TRIGGER}") == completed
    with another_process(cluster) as client:
        assert client.get(f"/jobs/job/savepoints/{TRIGGER}").status_code == 404


def test_what_was_aborted_is_complete_with_the_reason() -> None:
    cluster = streaming_cluster()
    post(cluster, "/jobs/job/savepoints", **{"target-directory": "/s", "triggerId": TRIGGER})
    cluster.say(decline(last_orders(cluster)[0], "no space left"))
    status = status_of(cluster, f"/jobs/job/savepoints/{TRIGGER}")
    assert status["status"] == {"id": "COMPLETED"}
    cause = status["operation"]["failure-cause"]
    assert cause["class"] == "CheckpointFailed"
    assert cause["stack-trace"] == "CheckpointFailed: declined: s[0]#1 declined: no space left"


def test_a_trigger_of_another_job_is_no_trigger_of_this_one() -> None:
    cluster = streaming_cluster("one", "two")
    post(cluster, "/jobs/one/checkpoints", triggerId=TRIGGER)
    answer = post(cluster, "/jobs/two/checkpoints", triggerId=TRIGGER)
    assert answer.status_code == 409
    assert answer.json() == {"errors": [f"the trigger id {TRIGGER} belongs to an operation of 'one'"]}
    with another_process(cluster) as client:
        for path in (f"/jobs/two/checkpoints/{TRIGGER}", f"/jobs/one/checkpoints/{OTHER}", f"/jobs/nobody/checkpoints/{TRIGGER}"):
            assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/jobs/nobody/savepoints", {"target-directory": "/s"}, 404, "nobody"),
        ("/jobs/job/savepoints", {}, 400, "has no target directory"),
        ("/jobs/job/savepoints", {"target-directory": "relative"}, 400, "invalid target directory"),
        ("/jobs/batch/stop", {"targetDirectory": "/s"}, 400, "has no stream"),
        ("/jobs/job/stop", {"target-directory": "/s"}, 400, "body.target-directory: unknown key"),
        ("/jobs/job/savepoints", {"triggerId": "short"}, 400, "body.triggerId"),
        ("/jobs/job/savepoints", {"formatType": "PARQUET"}, 400, "body.formatType"),
        ("/jobs/job/checkpoints", {"checkpointType": "INCREMENTAL"}, 400, "no checkpoint is incremental"),
    ],
)
def test_what_cannot_be_taken_is_refused_at_once(path: str, body: dict[str, Any], status: int, says: str) -> None:
    cluster = streaming_cluster()
    cluster.submit(graph(vertex("a")), job_id="batch")
    answer = post(cluster, path, **body)
    assert answer.status_code == status
    assert says in answer.json()["errors"][0]
    assert not cluster.events(CheckpointTriggered)


def test_a_second_savepoint_waits_for_the_first() -> None:
    cluster = streaming_cluster()
    post(cluster, "/jobs/job/savepoints", **{"target-directory": "/s", "triggerId": TRIGGER})
    assert post(cluster, "/jobs/job/stop", targetDirectory="/s", triggerId=OTHER).status_code == 409
    assert len(cluster.events(CheckpointTriggered)) == 1

"""A dry run by HTTP says what the leader would decide now, or would have decided then, and writes nothing."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_client import client_of_log

DRY_RUN = "/eventflink/v1/dry-run"


@pytest.fixture
def cluster() -> ScriptedCluster:
    made = ScriptedCluster()
    made.register("tm", slots=3)
    made.submit(graph(vertex("a", 5)), job_id="job")
    return made


def ask(client: TestClient, body: Any, query: str = "") -> tuple[int, Any]:
    answer = client.post(DRY_RUN + query, content=json.dumps(body), headers={"Content-Type": "application/json"})
    return answer.status_code, answer.json()


def test_what_would_come_of_a_command_is_told_in_a_sentence_event_by_event_and_as_a_difference(cluster: ScriptedCluster) -> None:
    with client_of_log(cluster.log, cluster.timestamps) as client:
        status, answer = ask(client, {"type": "CancelJob", "job_id": "job"})
    assert (status, answer["offset"], answer["live"]) == (200, len(cluster.log) - 1, True)
    told = answer["body"]
    assert told["accepted"]
    assert told["sentence"] == "CancelJob job would be accepted: 3 tasks are cancelled, 1 job is cancelled"
    assert told["events_total"] == len(told["events"])
    assert {"type": "JobCancellationRequested", "subject": "job", "details": "by rest (declared)"} in told["events"]
    changed = {(row["thing"], row["field"]): (row["before"], row["after"]) for row in told["differences"]["rows"]}
    assert changed["job", "status"] == ("RUNNING", "CANCELLING")
    assert (told["leader_id"], told["job_master_id"]) == (cluster.fold.acceptance.leader_id, cluster.job("job").job_master_id)
    with client_of_log(cluster.log, cluster.timestamps) as client:
        assert client.get("/jobs").json()["jobs"] == [{"id": "job", "status": "RUNNING"}]


def test_what_would_have_come_of_it_then_is_another_thing(cluster: ScriptedCluster) -> None:
    before = len(cluster.log) - 1
    cluster.cancel("job")
    with client_of_log(cluster.log, cluster.timestamps) as client:
        then = ask(client, {"type": "SuspendJob", "job_id": "job"}, f"?at={before}")[1]
        now = ask(client, {"type": "SuspendJob", "job_id": "job"})[1]
    assert (then["live"], then["offset"], then["body"]["accepted"]) == (False, before, True)
    assert not now["body"]["accepted"]
    assert now["body"]["refusal"]["code"] == "JobEnding"
    assert now["body"]["sentence"] == f"SuspendJob job would be refused: {now['body']['refusal']['message']}"


def test_a_submission_is_told_how_many_of_its_tasks_would_wait(cluster: ScriptedCluster) -> None:
    document = {"name": "n", "vertices": [{"id": "a", "sql": "SELECT 1", "parallelism": 2}]}
    with client_of_log(cluster.log, cluster.timestamps) as client:
        told = ask(client, {"type": "SubmitJob", "document": document, "job_id": "new"})[1]["body"]
        assert told["sentence"] == "the submission of new would be accepted: 2 tasks are scheduled, 2 slot requests wait"
        again = ask(client, {"type": "SubmitJob", "document": document, "job_id": "job"})[1]["body"]
    assert again["refusal"]["code"] == "DuplicateJobSubmission"


@pytest.mark.parametrize(
    ("body", "query", "status", "says"),
    [
        ({"type": "SubmitJob", "document": {"name": "n", "vertices": []}}, "", 400, "vertices"),
        ({"type": "SubmitJob"}, "", 400, "document"),
        ({"type": "CancelJobs", "job_id": "job"}, "", 400, "did you mean 'CancelJob'"),
        ([], "", 400, "a request is a JSON object"),
        ({"type": "CancelJob", "job_id": "job"}, "?at=yesterday", 400, "yesterday"),
        ({"type": "CancelJob", "job_id": "job"}, "?at=999999", 404, "ends at"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(cluster: ScriptedCluster, body: Any, query: str, status: int, says: str) -> None:
    with client_of_log(cluster.log, cluster.timestamps) as client:
        got, answer = ask(client, body, query)
    assert got == status
    assert says in answer["errors"][0]

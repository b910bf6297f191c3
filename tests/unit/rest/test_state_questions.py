"""A REST process answers the questions of clients as a client does that folds the log itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.plain import plain
from eventflink.documents.runs import MAX_RUNS
from eventflink.reader.questions import MAX_WAIT_MS, QuestionRefused, answer_of, look_up, question_of
from eventflink.rest.application import build_application
from eventflink.rest.own.state import MAX_JOBS
from eventflink.views.archive import archive_view
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.queries import TaskManagerNotFound
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.recorded_cluster import recorded_cluster
from tests.support.rest_client import dispatcher_of, services_with

JOB = "nightly-4"
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("/cluster", {}),
    ("/overview", {}),
    ("/job-statuses", {}),
    ("/taskmanagers", {}),
    ("/taskmanagers/tm-4", {}),
    ("/jobs", {}),
    ("/jobs", {"status": ["FINISHED", "FAILED"], "limit": 2}),
    (f"/jobs/{JOB}", {}),
    (f"/jobs/{JOB}/status", {}),
    (f"/jobs/{JOB}/exceptions", {"limit": 1}),
    (f"/jobs/{JOB}/checkpoints", {}),
    (f"/jobs/{JOB}/document", {}),
    ("/names", {"name": "NIGHTLY", "limit": 3}),
    ("/runs", {"name": "nightly report", "first": 1, "limit": 2}),
    ("/runs", {"name": "nobody/has ..\n this"}),
    (f"/jobs/{JOB}/result", {}),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/nothing", {}, "unknown question: '/nothing'"),
    ("/cluster", {"limit": 1}, "/cluster: unknown parameter: 'limit'"),
    ("/jobs", {"limit": 0}, "invalid limit: '0' is not a whole number from 1 to 100000"),
    ("/jobs", {"status": "DANCING"}, "unknown status: 'DANCING'; known: "),
    ("/runs", {}, "invalid name: '' is no name of a job"),
    ("/runs", {"name": "x", "limit": MAX_RUNS + 1}, "invalid limit: '101' is not a whole number from 1 to 100"),
    ("/names", {"first": -1}, "invalid first: '-1'"),
    ("/runs", {"name": ["a", "b"]}, "invalid name: one is expected, and 2 are given"),
    ("/jobs", {"limit": [1, 2]}, "invalid limit: one is expected, and 2 are given"),
    ("/jobs/one/result", {"wait_ms": MAX_WAIT_MS + 1}, "invalid wait_ms"),
]


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return recorded_cluster()


@pytest.fixture(scope="module")
def client(cluster: ScriptedCluster) -> TestClient:
    dispatcher = dispatcher_of(cluster)
    return TestClient(build_application(services_with(dispatcher.state, dispatcher, {})), base_url="http://localhost")


def get(client: TestClient, path: str, parameters: dict[str, Any]) -> Any:
    return client.get(f"/eventflink/v1/state{path}", params=parameters, headers={"X-Eventflink-Min-Offset": "latest"})


@pytest.mark.parametrize(("path", "parameters"), QUESTIONS)
def test_the_answer_is_that_of_the_fold(cluster: ScriptedCluster, client: TestClient, path: str, parameters: dict[str, Any]) -> None:
    question = question_of(path, parameters)
    answer = get(client, path, parameters)
    assert answer.status_code == 200, answer.text
    assert answer.json() == json.loads(json.dumps(answer_of(question, look_up(question, cluster.fold), None)))
    assert answer.headers["X-Eventflink-Offset"] == str(cluster.fold.last_offset) == str(answer.json()["log_offset"])


@pytest.mark.parametrize(("path", "parameters", "message"), REFUSED)
def test_a_wrong_question_is_refused_alike(client: TestClient, path: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionRefused) as refused:
        question_of(path, parameters)
    assert str(refused.value).startswith(message)
    answer = get(client, path, parameters)
    assert (answer.status_code, answer.json()["errors"]) == (400, [str(refused.value)])


def test_what_is_not_there_is_told_with_the_offset_of_the_state(cluster: ScriptedCluster, client: TestClient) -> None:
    for path, error in (("/jobs/nobody", JobNotFound), ("/jobs/a/b/status", JobNotFound), ("/taskmanagers/nobody", TaskManagerNotFound)):
        question = question_of(path, {})
        with pytest.raises(error) as missing:
            answer_of(question, look_up(question, cluster.fold), None)
        answer = get(client, path, {})
        assert (answer.status_code, answer.json()["errors"]) == (404, [str(missing.value)])
        assert answer.headers["X-Eventflink-Offset"] == str(cluster.fold.last_offset)


def test_more_rows_than_a_process_gives_at_once_are_left_to_the_client(client: TestClient) -> None:
    question_of("/jobs", {"limit": MAX_JOBS + 1})
    assert get(client, "/jobs", {"limit": MAX_JOBS + 1}).status_code == 413


def test_the_end_of_a_job_is_waited_for_as_long_as_was_asked() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    cluster.submit(graph(vertex("a")), job_id="goes-on")
    dispatcher = dispatcher_of(cluster)
    client = TestClient(build_application(services_with(dispatcher.state, dispatcher, {})), base_url="http://localhost")
    answer = get(client, "/jobs/goes-on/result", {"wait_ms": 50})
    assert (answer.status_code, answer.json()["result"]["is_terminal"]) == (200, False)


@pytest.mark.parametrize("part", ["", "/status", "/exceptions", "/checkpoints", "/result"])
def test_a_job_that_has_left_the_memory_is_answered_for_from_its_archive(cluster: ScriptedCluster, tmp_path: Path, part: str) -> None:
    archives = JobArchives(open_storage(str(tmp_path)), 0)
    archives.write(plain(archive_view(cluster.fold, JOB)))
    question = question_of(f"/jobs/{JOB}{part}", {})
    before = look_up(question, cluster.fold)
    empty = ScriptedCluster()
    empty.register()
    missing = look_up(question_of(f"/jobs/{JOB}", {}), empty.fold)
    assert missing.missing is not None
    told = answer_of(question, missing, archives)
    wanted = json.loads(json.dumps(before.view))
    if "outputs_kept_until" in wanted.get("job", ()):
        wanted["job"]["outputs_kept_until"] = None  # It is the cluster's, which may let the outputs go before.
    assert {name: told[name] for name in before.view} == wanted

"""The answers about one job have its values in Flink's shapes, from the state and from its archive alike, and say what is not there."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.plain import plain
from eventflink.master.inputs import ArchivesWritten, CleanupsCompleted, WrittenArchive
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState
from eventflink.views.archive import archive_view
from tests.support.cluster import (
    START_MS,
    ScriptedCluster,
    decline,
    deployments,
    fixed_delay,
    graph,
    orders,
    replay,
    stream,
    vertex,
)
from tests.support.ended_jobs import cancel_streams
from tests.support.rest_client import client_with_archives, rest_client
from tests.support.scenarios import restarting_cluster

ABOUT_ONE = {"jobid": "job", "rescaleuuid": "7", "vertexid": "s", "subtaskindex": "0", "attempt": "0", "checkpointid": "1"}
ELSEWHERE = ("{triggerid}", "{taskmanagerid}", "/yarn-cancel")
"""Where commands and their answers are, and what is refused."""


def reads_of_one_job(client: TestClient) -> list[str]:
    """Return the paths of all reads of one job that are answered, as the application describes itself."""
    paths = client.get("/eventflink/v1/openapi.json").json()["paths"]
    about_one = [path.removeprefix("/v1") for path, operations in paths.items() if "get" in operations and "{jobid}" in path]
    return [path for path in about_one if not any(part in path for part in ELSEWHERE)]


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return restarting_cluster().log


@pytest.fixture
def client(log: list[bytes]) -> Iterator[TestClient]:
    with rest_client(replay(log)) as client:
        yield client


def errors(client: TestClient, path: str, status: int = 404) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    [error] = answer.json()["errors"]
    assert isinstance(error, str)
    return error


def test_a_job_has_its_vertices_with_their_tasks_and_its_plan(client: TestClient) -> None:
    job = client.get("/jobs/rewriting").json()
    assert (job["jid"], job["state"], job["job-type"], job["schedulerType"]) == ("rewriting", "RESTARTING", "BATCH", "Default")
    assert (job["start-time"], job["end-time"], job["now"]) == (START_MS + 1, -1, START_MS + 1 + job["duration"])
    first, second = job["vertices"]
    assert (first["id"], first["parallelism"], first["tasks"]["FINISHED"]) == ("a", 2, 2)
    assert (second["id"], sum(second["tasks"].values())) == ("b", 3)
    assert sum(job["status-counts"].values()) == 2
    assert job["status-counts"][first["status"]] >= 1
    reader, writer = job["plan"]["nodes"]
    assert reader["inputs"] == [{"id": "a", "num": 0, "exchange": "blocking", "ship_strategy": "HASH"}]
    assert (writer["id"], writer["parallelism"], "inputs" in writer) == ("a", 2, False)
    assert client.get("/jobs/rewriting/plan").json() == {"plan": job["plan"]}
    assert client.get("/jobs/rewriting/status").json() == {"status": "RESTARTING"}


def test_a_job_says_how_it_restarts_and_what_it_requires(client: TestClient) -> None:
    config = client.get("/jobs/whole/config").json()
    assert (config["jid"], config["execution-config"]["restart-strategy"]) == ("whole", "fixed-delay, attempts 1, delay_ms 500")
    assert client.get("/jobs/whole/resource-requirements").json() == {"a": {"parallelism": {"lowerBound": 2, "upperBound": 2}}}
    assert client.get("/jobs/rescaling/resource-requirements").json() == {"a": {"parallelism": {"lowerBound": 1, "upperBound": 3}}}
    assert client.get("/jobs/rescaling").json()["schedulerType"] == "Adaptive"


def test_chained_streams_are_one_node_with_the_operators_below_each_other() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    streams = stream("s")["stream"]
    writing, middle = vertex("s") | {"stream": {"sources": streams["sources"]}}, vertex("t") | {"stream": {}}
    reading = vertex("u", 2) | {"stream": {"sink": streams["sink"]}}
    edges = [
        {"from": "s", "to": "t", "ship": "forward", "schema": "n INT"},
        {"from": "t", "to": "u", "ship": "rebalance", "schema": "n INT"},
    ]
    cluster.submit(graph(writing, middle, reading) | {"edges": edges})
    with rest_client(cluster.fold) as client:
        job = client.get("/jobs/job").json()
    assert job["job-type"] == job["plan"]["type"] == "STREAMING"
    reader, writer = job["plan"]["nodes"]
    assert reader["inputs"] == [{"id": "s", "num": 0, "exchange": "pipelined", "ship_strategy": "REBALANCE"}]
    assert (writer["id"], writer["description"], reader["description"]) == ("s", "s<br/>+- t<br/>", "u<br/>")


@pytest.mark.parametrize(
    ("end", "status"),
    [(ExecutionState.FINISHED, "SUCCEEDED"), (ExecutionState.FAILED, "FAILED"), (ExecutionState.CANCELED, "CANCELED")],
)
def test_a_result_is_there_when_the_job_has_ended_and_says_why_it_failed(end: ExecutionState, status: str) -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [task] = deployments(cluster.submit(graph(vertex("a"))))
    with rest_client(cluster.fold) as client:
        assert client.get("/jobs/job/execution-result").json() == {"status": {"id": "IN_PROGRESS"}}
    cluster.pass_time(7)
    if end is ExecutionState.CANCELED:
        cluster.run(cluster.cancel())
    cause = FailureCause("KeyError", "no 'x'", "Traceback") if end is ExecutionState.FAILED else None
    if end is not ExecutionState.CANCELED:
        cluster.report(task, end, cause=cause)
    with rest_client(cluster.fold) as client:
        answer = client.get("/jobs/job/execution-result").json()
    assert answer["status"] == {"id": "COMPLETED"}
    result = answer["job-execution-result"]
    assert (result["application-status"], result["name"], result["net-runtime"]) == (status, "test job", 7)
    assert result["end-time"] - result["start-time"] == 7
    told = result.get("failure-cause", {})
    assert (told.get("class"), told.get("stack-trace")) == (("KeyError", "Traceback") if cause else (None, None))
    assert (b"no 'x'" in base64.b64decode(told.get("serialized-throwable", ""))) == (cause is not None)


def test_exceptions_are_the_newest_with_those_that_came_with_them() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    strategy = fixed_delay(3, 0)
    first, second = deployments(cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=strategy)))
    cluster.report(second, ExecutionState.RUNNING)
    cluster.report(first, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    [again] = deployments(cluster.pass_time(1))
    cluster.report(again, ExecutionState.FAILED)
    with rest_client(cluster.fold) as client:
        history = client.get("/jobs/job/exceptions").json()["exceptionHistory"]
        newest = client.get("/jobs/job/exceptions?maxExceptions=1").json()["exceptionHistory"]
        labelled = client.get("/jobs/job/exceptions?failureLabelFilter=type:user").json()["exceptionHistory"]
        refused = errors(client, "/jobs/job/exceptions?failureLabelFilter=user", 400)
    assert [(each["exceptionName"], each["taskName"]) for each in history["entries"]] == [("ValueError", "a[0]#2"), ("KeyError", "a[0]#1")]
    assert [each["stacktrace"] for each in history["entries"]] == ["ValueError: no such column", "Traceback"]
    assert (history["entries"][1]["taskManagerId"], history["entries"][1]["failureLabels"]) == ("tm", {})
    assert (history["truncated"], newest["truncated"], newest["entries"]) == (False, True, history["entries"][:1])
    assert labelled == {"entries": [], "truncated": False}
    assert refused.startswith("query.failureLabelFilter: ")


def test_what_the_job_as_a_whole_failed_of_has_no_task() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [task] = deployments(cluster.submit(graph(stream("s"), checkpointing={"interval_ms": 100})))
    cluster.start_stream(task)
    [order] = orders(cluster.pass_time(100))
    cluster.say(decline(order))
    with rest_client(cluster.fold) as client:
        [failure] = client.get("/jobs/job/exceptions").json()["exceptionHistory"]["entries"]
    assert failure["exceptionName"] == "CheckpointFailureThresholdExceeded"
    assert not failure.keys() & {"taskName", "taskManagerId", "endpoint"}


def test_a_job_without_accumulators_has_flinks_empty_answers(client: TestClient) -> None:
    empty: dict[str, object] = {"job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {}}
    assert client.get("/jobs/rated/accumulators").json() == empty
    assert client.get("/jobs/rated/vertices/a/accumulators").json() == {"id": "a", "user-accumulators": []}
    [subtask] = client.get("/jobs/rated/vertices/a/subtasks/accumulators").json()["subtasks"]
    assert subtask == {"subtask": 0, "attempt": 1, "endpoint": "tm1", "user-accumulators": []}
    answer = client.get("/jobs/rated/vertices/a/subtasks/0/attempts/0/accumulators").json()
    assert answer == {"subtask": 0, "attempt": 0, "id": "rated_a_0_0", "user-accumulators": []}


def test_flame_graphs_are_disabled_in_flinks_way(client: TestClient) -> None:
    assert client.get("/jobs/rated/vertices/a/flamegraph?type=FULL").json() == {"endTimestamp": -2}


def test_every_read_of_a_job_that_is_not_there_says_so(client: TestClient) -> None:
    paths = reads_of_one_job(client)
    assert len(paths) > 25
    for path in paths:
        assert errors(client, path.format_map(ABOUT_ONE)) == "job not found: 'job'"
    assert errors(client, "/jobs/rewritin") == "job not found: 'rewritin'", "the beginning of an id means nothing"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/vertices/c", "JobVertex c not found"),
        ("/vertices/c/subtasks/0/attempts/1", "JobVertex c not found"),
        ("/vertices/a/subtasks/2", "Invalid subtask index for vertex a: 2"),
        ("/vertices/a/subtasks/-1", "Invalid subtask index for vertex a: -1"),
        ("/vertices/a/subtasks/0/attempts/9", "Could not find attempt 9 of subtask 0"),
        ("/vertices/a/subtasks/0/attempts/9/accumulators", "Could not find attempt 9 of subtask 0"),
        ("/vertices/a/subtasks/2/metrics", "Invalid subtask index for vertex a: 2"),
        ("/checkpoints", "Checkpointing is not enabled for this job (rewriting)"),
        ("/checkpoints/config", "Checkpointing is not enabled for this job (rewriting)"),
        ("/checkpoints/details/1", "Checkpointing is not enabled for this job (rewriting)"),
    ],
)
def test_what_a_job_does_not_have_is_not_found(client: TestClient, path: str, says: str) -> None:
    assert errors(client, f"/jobs/rewriting{path}").startswith(says)


@pytest.mark.parametrize(
    "path",
    [
        "/vertices/a/jm-operator-metrics",
        "/jobmanager/log-url",
        "/taskmanagers/tm1/log-url",
        "/rescales/config",
        "/rescales/history",
        "/rescales/details/7",
    ],
)
def test_what_has_no_meaning_here_is_refused_with_the_reason(client: TestClient, path: str) -> None:
    assert len(errors(client, f"/jobs/rewriting{path}", 501).split()) > 5
    assert errors(client, f"/jobs/nobody{path}") == "job not found: 'nobody'"


def test_a_job_that_has_left_the_memory_is_answered_for_as_before(tmp_path: Path) -> None:
    archives = JobArchives(open_storage(str(tmp_path / "archives")), 10)
    cluster = ScriptedCluster(MasterSettings(archives=True, job_store_cache_size=0))
    cluster.register(slots=8)
    cancel_streams(cluster)
    with rest_client(replay(cluster.log, cluster.settings)) as client:
        before = {path: client.get(path.format_map(ABOUT_ONE)) for path in reads_of_one_job(client)}
    file = archives.write(plain(archive_view(cluster.fold, "job")))
    cluster.timer(CleanupsCompleted(("job",)), ArchivesWritten((WrittenArchive("job", file.location, file.digest, file.byte_count),)))
    cluster.pass_time(1)
    assert "job" in cluster.master.dispatcher.forgotten
    answered = 0
    with client_with_archives(cluster.fold, archives) as client:
        for path, answer in before.items():
            after = client.get(path.format_map(ABOUT_ONE))
            assert (after.status_code, after.json()) == (answer.status_code, answer.json()), (path, after.text)
            answered += answer.status_code == 200
        assert answered > 25
        assert client.get("/jobs/job/checkpoints").json()["counts"]["completed"] == 1
    with rest_client(cluster.fold) as client:
        assert client.get("/jobs/job/status").json() == {"status": "CANCELED"}, "that is known without the archive"
        assert "evicted from memory" in errors(client, "/jobs/job")


def test_how_a_job_ended_is_known_without_an_archive() -> None:
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=0))
    cluster.register()
    cluster.run(cluster.submit(graph(vertex("a"))))
    cluster.pass_time(1)
    with rest_client(cluster.fold) as client:
        result = client.get("/jobs/job/execution-result").json()["job-execution-result"]
        assert (result["application-status"], result["name"]) == ("SUCCEEDED", "")
        assert errors(client, "/jobs/job/plan").endswith("and it has no archive")

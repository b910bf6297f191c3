"""Vertices, subtasks and attempts have the states and places of the state, in Flink's shapes."""

import base64
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.documents.one_job import AttemptInfo, SubtaskInfo
from eventflink.model.attempts import Accumulators, DoubleCounter, IOMetrics, LongCounter
from eventflink.model.statuses import ExecutionState
from eventflink.rest.flink.attempts import AttemptTimes, aggregate_state, standing_of
from eventflink.rest.flink.io_metrics import statistics_of
from eventflink.rest.flink.java_throwables import serialized_accumulator
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, state_report, vertex
from tests.support.rest_client import rest_client


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    """Return a cluster with a job on two TaskManagers: one subtask runs, one has failed and waits for a slot again."""
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=1)
    cluster.register("tm2", slots=1)
    first, second = deployments(cluster.submit(graph(vertex("a", 3), restart_strategy=fixed_delay(3))))
    cluster.report(first, ExecutionState.RUNNING)
    cluster.report(second, ExecutionState.RUNNING)
    cluster.report(second, ExecutionState.FAILED)
    cluster.pass_time(500)
    return cluster


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[TestClient]:
    with rest_client(cluster.fold) as client:
        yield client


def test_a_vertex_has_the_current_attempt_of_each_subtask(client: TestClient, cluster: ScriptedCluster) -> None:
    vertex = client.get("/jobs/job/vertices/a").json()
    assert (vertex["id"], vertex["name"], vertex["parallelism"], vertex["maxParallelism"]) == ("a", "a", 3, 4096)
    subtasks = cluster.job("job").execution_graph.vertices["a"].subtasks
    rows = [(row["subtask"], row["attempt"], row["status"]) for row in vertex["subtasks"]]
    assert rows == [(subtask.subtask_index, subtask.attempt - 1, subtask.state) for subtask in subtasks]
    assert vertex["subtasks"][0]["taskmanager-id"] == vertex["subtasks"][0]["endpoint"] == "tm1"
    for row in vertex["subtasks"]:
        assert client.get(f"/jobs/job/vertices/a/subtasks/{row['subtask']}").json() == row
    assert set(vertex["aggregated"]) == {"metrics", "status-duration"}


def test_an_earlier_attempt_is_shown_where_it_was(client: TestClient) -> None:
    current = client.get("/jobs/job/vertices/a/subtasks/1").json()
    assert (current["attempt"], current["taskmanager-id"]) == (1, "(unassigned)")
    earlier = client.get("/jobs/job/vertices/a/subtasks/1/attempts/0").json()
    assert (earlier["attempt"], earlier["status"], earlier["taskmanager-id"]) == (0, "FAILED", "tm2")
    assert client.get("/jobs/job/vertices/a/subtasks/1/attempts/1").json() == current


def test_the_task_managers_of_a_vertex_share_its_subtasks_out(client: TestClient) -> None:
    vertex = client.get("/jobs/job").json()["vertices"][0]
    answer = client.get("/jobs/job/vertices/a/taskmanagers").json()
    rows = {row["taskmanager-id"]: row for row in answer["taskmanagers"]}
    assert (rows["tm1"]["status"], rows["tm1"]["status-counts"]["RUNNING"]) == ("RUNNING", 1)
    assert "(unassigned)" in rows
    for state, count in vertex["tasks"].items():
        assert sum(row["status-counts"][state] for row in rows.values()) == count


def test_the_times_of_subtasks_are_under_all_of_flinks_states(client: TestClient) -> None:
    answer = client.get("/jobs/job/vertices/a/subtasktimes").json()
    assert [row["subtask"] for row in answer["subtasks"]] == [0, 1, 2]
    assert set(answer["subtasks"][0]["timestamps"]) == set(ExecutionState)


def test_attempts_have_the_times_of_the_log() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3))))
    start = START_MS
    cluster.pass_time(10)
    cluster.report(first, ExecutionState.RUNNING)
    cluster.pass_time(30)
    cluster.report(first, ExecutionState.FAILED)
    [second] = deployments(cluster.pass_time(500))
    cluster.pass_time(7)
    cluster.report(second, ExecutionState.RUNNING)
    with rest_client(cluster.fold) as client:
        ended = client.get("/jobs/job/vertices/a/subtasks/0/attempts/0").json()
        running = client.get("/jobs/job/vertices/a/subtasks/0").json()
        job = client.get("/jobs/job").json()
    assert (ended["status"], ended["start-time"], ended["end-time"], ended["duration"]) == ("FAILED", start, start + 40, 40)
    assert ended["status-duration"] == {"CREATED": -1, "SCHEDULED": 0, "DEPLOYING": 10, "INITIALIZING": -1, "RUNNING": 30}
    assert (running["start-time"], running["end-time"], running["duration"]) == (start + 540, -1, 7)
    times = {status: at for status, at in job["timestamps"].items() if at}
    assert times == {"INITIALIZING": start, "CREATED": start, "RESTARTING": start + 40, "RUNNING": start + 540}
    assert (job["vertices"][0]["start-time"], job["vertices"][0]["duration"], job["now"]) == (start + 540, 7, start + 547)
    cluster.report(second, ExecutionState.FINISHED)
    with rest_client(cluster.fold) as client:
        [row] = client.get("/jobs/job/vertices/a/subtasktimes").json()["subtasks"]
        over = client.get("/jobs/job").json()
    assert (row["duration"], row["timestamps"]["SCHEDULED"], row["timestamps"]["FINISHED"]) == (7, start + 540, start + 547)
    assert (over["vertices"][0]["end-time"], over["end-time"], over["timestamps"]["FINISHED"]) == (start + 547,) * 3


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"FAILED": 1, "RUNNING": 2}, "FAILED"),
        ({"CANCELING": 1, "CANCELED": 2}, "CANCELING"),
        ({"CANCELED": 1, "FINISHED": 1}, "CANCELED"),
        ({"INITIALIZING": 1, "RUNNING": 1}, "INITIALIZING"),
        ({"RUNNING": 1, "FINISHED": 1}, "RUNNING"),
        ({"FINISHED": 1, "CREATED": 1}, "RUNNING"),
        ({"FINISHED": 2}, "FINISHED"),
        ({"SCHEDULED": 1, "DEPLOYING": 1}, "CREATED"),
    ],
)
def test_the_state_of_a_vertex_follows_from_its_subtasks_by_flinks_rule(counts: dict[str, int], state: str) -> None:
    assert aggregate_state(dict.fromkeys(ExecutionState, 0) | counts) == state


def test_durations_count_to_the_end_and_where_there_is_none_to_now() -> None:
    runs = AttemptTimes(scheduled_ms=100, deployed_ms=110, running_ms=130)
    assert (runs.duration_ms(200), AttemptTimes().duration_ms(200)) == (90, -1)
    assert runs.status_durations(200) == {"CREATED": -1, "SCHEDULED": 10, "DEPLOYING": 20, "INITIALIZING": -1, "RUNNING": 70}
    never_ran = AttemptTimes(scheduled_ms=100, deployed_ms=110, ended_ms=115)
    assert never_ran.status_durations(200) == {"CREATED": -1, "SCHEDULED": 10, "DEPLOYING": 5, "INITIALIZING": -1, "RUNNING": -1}
    stamps = never_ran.timestamps(ExecutionState.FAILED)
    assert {state: time for state, time in stamps.items() if time} == {"SCHEDULED": 100, "DEPLOYING": 110, "FAILED": 115}


def test_a_vertex_spans_from_its_first_deployment_to_its_last_end() -> None:
    def subtask(state: str, deployed_ms: int, ended_ms: int | None) -> SubtaskInfo:
        told = AttemptInfo(attempt=1, state=ExecutionState(state), deployed_at=at(deployed_ms), ended_at=at(ended_ms) if ended_ms else None)
        nothing: dict[str, Any] = dict.fromkeys(each.name for each in fields(SubtaskInfo))
        return SubtaskInfo(**nothing | {"state": told.state, "attempt": 1, "attempts": [told]})

    def at(time_ms: int) -> str:
        return f"1970-01-01T00:00:00.{time_ms:03}+00:00"

    ended = standing_of([subtask("FINISHED", 20, 50), subtask("FINISHED", 10, 70)], 900)
    assert (ended.start_ms, ended.end_ms, ended.duration_ms, ended.state) == (10, 70, 60, ExecutionState.FINISHED)
    going_on = standing_of([subtask("FINISHED", 20, 50), subtask("RUNNING", 10, None)], 900)
    assert (going_on.start_ms, going_on.end_ms, going_on.duration_ms) == (10, -1, 890)


def test_counts_are_of_the_attempts_that_have_said_them_and_complete_when_all_have() -> None:
    counted = ScriptedCluster()
    counted.register(slots=3)
    reports = [state_report(each, ExecutionState.FINISHED) for each in deployments(counted.submit(graph(vertex("a", 3))))]
    reports[0].io, reports[1].io = IOMetrics(10, 100, 7, 70), IOMetrics(-1, -1, 3, 30)
    reports[2].io = IOMetrics(5, 50, 1, 10)
    for said, is_known in ((reports[:2], False), (reports[2:], True)):
        counted.say(*said)
        with rest_client(counted.fold) as client:
            [row] = client.get("/jobs/job").json()["vertices"]
            vertex_of = client.get("/jobs/job/vertices/a").json()
            [place] = client.get("/jobs/job/vertices/a/taskmanagers").json()["taskmanagers"][:1]
            page = client.get("/eventflink/v1/jobs/job/vertices/a/subtasks?sort=index").json()["body"]
        assert row["metrics"] == place["metrics"]
        assert row["metrics"]["write-records-complete"] == row["metrics"]["write-bytes-complete"] == is_known
        assert not row["metrics"]["read-records-complete"]
    assert {name: row["metrics"][name] for name in ("read-records", "read-bytes", "write-records", "write-bytes")} == {
        "read-records": 15,
        "read-bytes": 150,
        "write-records": 11,
        "write-bytes": 110,
    }
    assert [each["metrics"]["write-records"] for each in vertex_of["subtasks"]] == [7, 3, 1]
    assert [each["metrics"]["read-bytes-complete"] for each in vertex_of["subtasks"]] == [True, False, True]
    statistics = vertex_of["aggregated"]["metrics"]["read-records"]
    assert {name: statistics[name] for name in ("min", "max", "sum")} == {"min": 5, "max": 10, "sum": 15}
    assert [subtask["attempts"][-1]["io"]["write_bytes"] for subtask in page["subtasks"]] == [70, 30, 10]


def test_accumulators_are_those_of_the_attempts_whose_results_count() -> None:
    counting = ScriptedCluster()
    counting.register(slots=3)
    document = graph(vertex("a", 2), vertex("b"), restart_strategy=fixed_delay(1, delay_ms=0))
    first, *others = deployments(counting.submit(document))
    for number, deployment in enumerate([first, *others], 1):
        report = state_report(deployment, ExecutionState.FAILED if deployment is first else ExecutionState.FINISHED)
        report.accumulators = Accumulators((LongCounter("rows", number),), (DoubleCounter("weight", number / 2),))
        counting.say(report)
    [again] = deployments(counting.pass_time(1))
    report = state_report(again, ExecutionState.FINISHED)
    report.accumulators = Accumulators((LongCounter("rows", 10),))
    counting.say(report)
    with rest_client(counting.fold) as client:
        job = client.get("/jobs/job/accumulators?includeSerializedValue=true").json()
        vertex_a = client.get("/jobs/job/vertices/a/accumulators").json()["user-accumulators"]
        subtasks = client.get("/jobs/job/vertices/a/subtasks/accumulators").json()["subtasks"]
        attempts = [client.get(f"/jobs/job/vertices/a/subtasks/0/attempts/{number}/accumulators").json() for number in (0, 1)]
        result = client.get("/jobs/job/execution-result").json()["job-execution-result"]
        page = client.get("/eventflink/v1/jobs/job/result").json()["body"]
        plain = client.get("/jobs/job/accumulators").json()
    assert job["user-task-accumulators"] == [
        {"name": "rows", "type": "LongCounter", "value": "15"},
        {"name": "weight", "type": "DoubleCounter", "value": "2.5"},
    ]
    assert {name: base64.b64decode(value) for name, value in job["serialized-user-task-accumulators"].items()} == {
        "rows": serialized_accumulator(15),
        "weight": serialized_accumulator(2.5),
    }
    assert plain == job | {"serialized-user-task-accumulators": {}}
    assert result["accumulator-results"] == job["serialized-user-task-accumulators"]
    assert {row["name"]: row["value"] for row in vertex_a} == {"rows": "12", "weight": "1.0"}
    assert [[row["value"] for row in subtask["user-accumulators"]] for subtask in subtasks] == [["10"], ["2", "1.0"]]
    assert [[row["value"] for row in attempt["user-accumulators"]] for attempt in attempts] == [[], ["10"]]
    assert {row["name"]: row["value"] for row in page["accumulators"]} == {"rows": 15, "weight": 2.5}


def test_statistics_are_of_all_numbers() -> None:
    numbers = statistics_of([*range(1, 101)])
    assert (numbers.min, numbers.max, numbers.avg, numbers.sum) == (1, 100, 50, 5050)
    assert (numbers.p25, numbers.median, numbers.p75, numbers.p95) == (26, 51, 76, 96)
    assert statistics_of([]).max == 0

"""What REST has the leader do with a job is decided once, is seen by who reads next, and a refusal has the status that Flink gives it."""

from typing import Any

import pytest

from eventflink.events.log_events import JobCancellationRequested
from eventflink.gateways.errors import refusal_of
from eventflink.model.statuses import ExecutionState
from eventflink.rest.errors import status_of
from tests.support.cluster import ScriptedCluster, deployments, graph, vertex
from tests.support.rest_client import commanding_client


def cluster_of(*vertices: dict[str, Any], job_id: str = "job", **more: Any) -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    cluster.submit(graph(*vertices, **more), job_id=job_id)
    return cluster


def test_a_job_is_cancelled_and_who_reads_next_sees_it() -> None:
    cluster = cluster_of(vertex("a"))
    with commanding_client(cluster) as client:
        answer = client.patch("/jobs/job?mode=cancel")
        assert (answer.status_code, answer.json()) == (202, {})
        decided_at = int(answer.headers["X-Eventflink-Offset"])
        read = client.get("/jobs")
        assert read.json()["jobs"] == [{"id": "job", "status": "CANCELLING"}]
        assert int(read.headers["X-Eventflink-Offset"]) >= decided_at
    assert [event.actor for event in cluster.events(JobCancellationRequested)] == ["rest (declared)"]


@pytest.mark.parametrize("path", ["/jobs/job", "/v1/jobs/job", "/jobs/job?mode=CANCEL"])
def test_cancel_is_what_happens_unless_something_else_is_said(path: str) -> None:
    with commanding_client(cluster_of(vertex("a"))) as client:
        assert client.patch(path).status_code == 202
        assert client.get("/jobs").json()["jobs"][0]["status"] == "CANCELLING"


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/jobs/nobody?mode=cancel", 404, "nobody"),
        ("/jobs/job?mode=xyz", 400, "unknown mode: 'xyz'; known: cancel"),
        ("/jobs/job?mode=stop", 308, "POST /jobs/:jobid/stop"),
    ],
)
def test_a_cancellation_that_cannot_be_says_why(path: str, status: int, says: str) -> None:
    cluster = cluster_of(vertex("a"))
    with commanding_client(cluster) as client:
        answer = client.patch(path)
    assert answer.status_code == status
    assert says in answer.json()["errors"][0]
    assert not cluster.job("job").status.startswith("CANCEL")


def test_a_job_that_has_ended_is_not_cancelled_any_more_but_one_that_was_cancelled_is() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    cluster.run(cluster.submit(graph(vertex("a")), job_id="done"))
    cluster.submit(graph(vertex("a")), job_id="cancelled")
    cluster.run(cluster.cancel("cancelled"))
    with commanding_client(cluster) as client:
        answer = client.patch("/jobs/done")
        assert (answer.status_code, client.patch("/jobs/cancelled").status_code) == (409, 202)
    assert "FINISHED" in answer.json()["errors"][0]


def test_a_dashboard_cancels_by_get_and_no_link_of_another_site_does() -> None:
    path = "/jobs/job/yarn-cancel"
    with commanding_client(cluster_of(vertex("a"))) as client:
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {"Referer": "http://evil.example/page"},
        ):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 403
            assert "another site" in answer.json()["errors"][0]
        assert client.get("/jobs").json()["jobs"][0]["status"] == "RUNNING"
        ours = {"Sec-Fetch-Site": "same-origin", "Referer": "http://localhost/index.html"}
        assert client.get(path, headers=ours).status_code == 202
        assert client.get("/jobs").json()["jobs"][0]["status"] == "CANCELLING"


def parallelism(lower: int, upper: int) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def test_the_vertices_of_a_job_get_their_upper_bounds() -> None:
    cluster = cluster_of(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")])
    with commanding_client(cluster) as client:
        answer = client.put("/jobs/job/resource-requirements", json={"a": parallelism(1, 2), "b": parallelism(3, 3)})
        assert (answer.status_code, answer.json()) == (200, {})
    assert [len(each.subtasks) for each in cluster.job("job").execution_graph.vertices.values()] == [2, 3]
    count = len(cluster.log)
    with commanding_client(cluster) as client:
        assert client.put("/jobs/job/resource-requirements", json={"a": parallelism(1, 2), "b": parallelism(3, 3)}).status_code == 200
    assert len(cluster.log) == count


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"a": parallelism(1, 2)}, "vertex 'b' has no requirements"),
        ({"a": parallelism(1, 2), "b": parallelism(1, 2), "c": parallelism(1, 1)}, "vertex not found: 'c'"),
        ({"a": parallelism(3, 2), "b": parallelism(1, 2)}, "not 1 <= lowerBound 3 <= upperBound 2"),
        ({"a": parallelism(1, 5000), "b": parallelism(1, 2)}, "<= maximum parallelism 4096"),
        ({"a": parallelism(1, 0), "b": parallelism(1, 2)}, "body.a.parallelism.upperBound"),
        ({"a": {"parallelism": {"lowerBound": True, "upperBound": 2}}, "b": parallelism(1, 2)}, "body.a.parallelism.lowerBound: must be"),
        ({"a": {"parallel": 2}, "b": parallelism(1, 2)}, "body.a.parallelism: it is missing"),
    ],
)
def test_bounds_that_cannot_be_change_nothing(body: dict[str, Any], says: str) -> None:
    cluster = cluster_of(vertex("a", 2), vertex("b"))
    count = len(cluster.log)
    with commanding_client(cluster) as client:
        answer = client.put("/jobs/job/resource-requirements", json=body)
    assert answer.status_code == 400
    assert says in " ".join(answer.json()["errors"])
    assert len(cluster.log) == count


def test_an_adaptive_job_makes_do_with_one_subtask() -> None:
    with commanding_client(cluster_of(vertex("a", 2), scheduler="adaptive")) as client:
        answer = client.put("/jobs/job/resource-requirements", json={"a": parallelism(2, 3)})
        assert answer.status_code == 400
        assert "lowerBound has to be 1" in answer.json()["errors"][0]
        assert client.put("/jobs/job/resource-requirements", json={"a": parallelism(1, 3)}).status_code == 200


def test_a_job_that_has_ended_or_is_not_there_is_not_rescaled() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    cluster.run(cluster.submit(graph(vertex("a")), job_id="done"))
    with commanding_client(cluster) as client:
        for job_id, status in (("done", 409), ("nobody", 404)):
            assert client.put(f"/jobs/{job_id}/resource-requirements", json={"a": parallelism(1, 2)}).status_code == status


def test_a_vertex_that_has_begun_is_rescaled_once_at_a_time() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    [one, _] = deployments(cluster.submit(graph(vertex("a", 2)), job_id="job"))
    cluster.report(one, ExecutionState.RUNNING)
    with commanding_client(cluster) as client:
        assert client.put("/jobs/job/resource-requirements", json={"a": parallelism(3, 3)}).status_code == 200
        answer = client.put("/jobs/job/resource-requirements", json={"a": parallelism(4, 4)})
    assert answer.status_code == 409
    assert answer.json()["errors"][0].endswith("(RescaleInProgress)")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("UnknownJob", 404),
        ("FileNotAvailable", 404),
        ("JobTerminated", 409),
        ("StreamsNotReady", 409),
        ("ClusterShuttingDown", 409),
        ("NoStream", 400),
        ("InvalidSavepointDirectory", 400),
        ("TooManyUploads", 503),
        ("InternalError", 500),
    ],
)
def test_a_refusal_has_a_status_of_its_own(code: str, status: int) -> None:
    assert status_of(refusal_of(code, "why")) == status

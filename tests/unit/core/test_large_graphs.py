"""The largest graphs: what makes them large are their vertices, and no decision of them is."""

from typing import Any

import pytest

from eventflink.events.inputs import JobSubmission, RerunJob
from eventflink.events.log_events import JobSubmitted, RequestRejected
from eventflink.events.request_sizes import find_size_fault
from eventflink.events.topics import MAX_INBOUND_BYTES, MAX_REQUEST_BYTES, Topic
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import MAX_EDGES, MAX_SUBTASKS, MAX_VERTICES, InvalidJobGraph, check_job_graph
from eventflink.model.statuses import JobStatus
from tests.support.cluster import REQUESTS, ScriptedCluster, replay

WIDTH = 50


def lattice(vertices: int, **more: Any) -> JobGraph:
    """Return a graph in rows, each vertex of which reads two of the row before."""
    names = [f"stg_orders_of_{number:05d}" for number in range(vertices)]
    made = [{"id": each, "sql_file": f"models/staging/{each}.sql", "code_digest": "ab" * 32, **more} for each in names]
    edges = [
        {"from": names[number - WIDTH - number % WIDTH + (number + of) % WIDTH], "to": names[number]}
        for number in range(WIDTH, vertices)
        for of in (0, 1)
    ]
    return check_job_graph({"name": "models", "vertices": made, "edges": edges, "code_archives": ["ab" * 32]})


def encoded(graph: JobGraph, topic: Topic = Topic.SUBMISSIONS) -> bytes:
    return REQUESTS[topic].encode(JobSubmission(job_id="job", job_graph=graph, request_id="r"), sent_at_ms=1)


def test_a_graph_of_as_many_vertices_as_may_be_runs_in_decisions_of_which_one_alone_is_large() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register("tm", slots=64)
    cluster.run(cluster.send(JobSubmission(job_id="job", job_graph=lattice(MAX_VERTICES), request_id="r")))
    assert cluster.job("job").status is JobStatus.FINISHED
    assert len([value for value in cluster.log if len(value) > MAX_INBOUND_BYTES]) == 1, "its submission"
    cluster.master.validate()
    assert replay(cluster.log, cluster.settings).master.digest() == cluster.master.digest()


@pytest.mark.parametrize("size", [2 * MAX_INBOUND_BYTES, MAX_REQUEST_BYTES])
def test_what_a_large_request_says_beside_its_vertices_and_edges_is_bounded_as_any_record_is(size: int) -> None:
    """Both its client and a leader say so, and what to do."""
    graph = lattice(2_000, parameters={"note": "x" * (size // 2_000)})
    request = JobSubmission(job_id="job", job_graph=graph, request_id="r")
    told = "masters take at most" if size == MAX_REQUEST_BYTES else "by 'sql_file'"
    assert told in find_size_fault(request, len(encoded(graph)))
    assert told in find_size_fault(RerunJob(rerun_of="other", job_graph=graph), len(encoded(graph)))
    cluster = ScriptedCluster(check_digests=False)
    cluster.put(Topic.SUBMISSIONS, encoded(graph))
    cluster.settle()
    assert not cluster.events(JobSubmitted)
    [refused] = cluster.events(RequestRejected)
    assert ("at most" if size == MAX_REQUEST_BYTES else "by 'sql_file'") in refused.message
    assert not find_size_fault(JobSubmission(job_id="job", job_graph=lattice(2_000)), len(encoded(lattice(2_000))))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"vertices": [{"id": f"v{n}", "sql": "SELECT 1"} for n in range(MAX_VERTICES + 1)]}, "vertices"),
        ({"edges": [{"from": "a", "to": "b", "name": f"n{n}"} for n in range(MAX_EDGES + 1)]}, "edges"),
        (
            {"vertices": [{"id": f"v{n}", "sql": "SELECT 1", "parallelism": 4_001, "max_parallelism": 4_001} for n in range(25)]},
            f"100025 subtasks are more than the {MAX_SUBTASKS}",
        ),
    ],
)
def test_more_than_that_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=says):
        check_job_graph({"name": "n", "vertices": [{"id": "a", "sql": "SELECT 1"}, {"id": "b", "sql": "SELECT 1"}], **document})

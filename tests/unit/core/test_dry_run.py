"""A dry run says what the leader then decides, event by event, and leaves no trace."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from eventflink.events.inputs import (
    BlockTaskManager,
    CancelJob,
    JobSubmission,
    Request,
    RerunJob,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SuspendJob,
    TriggerSavepoint,
)
from eventflink.events.log_events import RequestRejected
from eventflink.leadership.dry_run import dry_run
from eventflink.model.actors import declared
from eventflink.model.job_graph_document import check_job_graph
from tests.support.cluster import ScriptedCluster, graph, replay, stream, vertex

FORWARD = ("a", "b", "forward")


def cluster_with_jobs() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=6)
    cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[FORWARD]), job_id="running")
    cluster.submit(graph(vertex("a", 40)), job_id="waiting")
    cluster.submit(graph(stream("s", 2)), job_id="stream")
    cluster.submit(graph(vertex("a")), job_id="suspended")
    cluster.suspend("suspended")
    cluster.submit(graph(vertex("a")), job_id="done")
    cluster.cancel("done")
    return cluster


REQUESTS: dict[str, Callable[[ScriptedCluster], Request]] = {
    "submit": lambda _: JobSubmission(job_id="new", job_graph=check_job_graph(graph(vertex("a", 2)))),
    "submit again": lambda _: JobSubmission(job_id="running", job_graph=check_job_graph(graph(vertex("a", 2)))),
    "cancel": lambda _: CancelJob(job_id="running"),
    "cancel what waits": lambda _: CancelJob(job_id="waiting"),
    "cancel nothing": lambda _: CancelJob(job_id="nobody"),
    "cancel by another leader": lambda _: CancelJob(job_id="running", leader_id="another"),
    "suspend": lambda _: SuspendJob(job_id="running"),
    "run again what runs": lambda _: RerunJob(job_id="new", rerun_of="running"),
    "run again": lambda _: RerunJob(job_id="new", rerun_of="done"),
    "resume": lambda _: ResumeJob(job_id="suspended"),
    "rescale": lambda _: RescaleJob(job_id="waiting", vertex_id="a", parallelism=2),
    "savepoint before the streams run": lambda _: TriggerSavepoint(job_id="stream", target_directory="/tmp/savepoints"),
    "block": lambda _: BlockTaskManager(task_manager_id="tm", reason="its disk is full"),
    "shut down": lambda _: ShutDownCluster(),
}

REFUSED = {"submit again", "run again what runs", "cancel nothing", "cancel by another leader", "savepoint before the streams run"}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_a_dry_run_says_is_what_the_leader_decides(name: str) -> None:
    cluster = cluster_with_jobs()
    request = REQUESTS[name](cluster)
    request.request_id, request.actor = "ask-1", "ann"
    length, digest = len(cluster.log), cluster.master.digest()
    fold = replay(cluster.log, timestamps=cluster.timestamps)
    predicted = dry_run(fold, replace(request, actor=declared("ann")))
    assert predicted.is_whole
    assert (len(cluster.log), cluster.master.digest()) == (length, digest)
    cluster.send(request)
    decided = [event for decision in list(cluster.decisions())[length:] for event in decision.events]
    assert predicted.events == decided
    assert (type(decided[0]) is RequestRejected) == (name in REFUSED)
    fold.master.requests.cursors = cluster.master.requests.cursors  # A dry run answers no record of a topic.
    assert fold.master.digest() == cluster.master.digest()

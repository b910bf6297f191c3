"""Which blobs jobs refer to follows from the log alone: from the submission until the job has ended, is cleaned up, and runs no more."""

import sys

from eventflink.blob.keys import blob_key
from eventflink.events.log_events import JobCleanedUp
from eventflink.master.inputs import CleanupsCompleted
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.cluster import ScriptedCluster, deployments, graph, vertex

OWN, SHARED = blob_key(b"own"), blob_key(b"shared")


def references(cluster: ScriptedCluster) -> dict[str, int]:
    """Return what is referred to by jobs that run, or are to be cleaned up; of who may run again none."""
    return dict(cluster.master.dispatcher.blob_references(rerun_since_ms=sys.maxsize))


def test_a_job_refers_to_its_archives_until_it_has_ended_and_is_clean(cluster: ScriptedCluster) -> None:
    cluster.register()
    assert references(cluster) == {}
    first = deployments(cluster.submit(graph(vertex("a"), code_archives=[OWN, SHARED]), job_id="first"))
    second = deployments(cluster.submit(graph(vertex("a"), code_archives=[SHARED]), job_id="second"))
    assert references(cluster) == {OWN: 1, SHARED: 2}
    cluster.report(first[0], ExecutionState.FINISHED)
    assert cluster.job("first").status is JobStatus.FINISHED
    assert references(cluster) == {OWN: 1, SHARED: 2}, "its clean-up is not done"
    cluster.timer(CleanupsCompleted(("first",)))
    assert cluster.events(JobCleanedUp) == [JobCleanedUp("first")]
    assert references(cluster) == {SHARED: 1}
    cluster.fail_over()
    assert references(cluster) == {SHARED: 1}
    cluster.report(second[0], ExecutionState.FINISHED)
    cluster.timer(CleanupsCompleted(("second",)))
    assert references(cluster) == {}


def test_an_archive_that_a_job_names_twice_is_one_reference(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a"), code_archives=[OWN, OWN]))
    assert references(cluster) == {OWN: 1}

"""When a job entered its statuses and an attempt its states: by the log's clock, so whoever folds the log says the same."""

import json

import pytest

from eventflink.gateways.results import ExecutionGraphInfo, read_as
from eventflink.leadership.fold import Fold
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.snapshots.state_codec import document_of, restore_fold
from eventflink.views.jobs_and_cluster import job_view
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, new_fold, vertex


def _job_times(fold: Fold) -> dict[JobStatus, int]:
    """Return when the job entered its statuses, in milliseconds from the first decision on."""
    return {status: at_ms - START_MS for status, at_ms in fold.master.dispatcher.jobs["job"].status_times_ms.items()}


def _restored(fold: Fold) -> Fold:
    """Return the fold by way of a snapshot."""
    restored = new_fold()
    restore_fold(json.loads(json.dumps(document_of(fold))), restored)
    return restored


def _replace_leader(cluster: ScriptedCluster, how: str) -> None:
    """Kill the leader; the next one has replayed the log, or begun in a snapshot."""
    if how == "snapshot":
        cluster.participant = cluster.new_participant(_restored(cluster.fold))
        cluster.lead()
    else:
        cluster.fail_over()
    cluster.settle()


@pytest.mark.parametrize("failover", ["replay", "snapshot"])
def test_a_job_knows_when_it_entered_each_status_last_whoever_leads(cluster: ScriptedCluster, failover: str) -> None:
    cluster.register(slots=1)
    cluster.pass_time(1_000)
    first = cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, 500)))
    assert _job_times(cluster.fold) == dict.fromkeys((JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING), 1_000)
    cluster.pass_time(100)
    cluster.report(deployments(first)[0], ExecutionState.FAILED)
    _replace_leader(cluster, failover)
    again = cluster.pass_time(500)
    cluster.pass_time(30)
    cluster.run(again)
    job = cluster.job("job")
    assert (job.submitted_at_ms, job.status_since_ms, job.ended_at_ms) == (START_MS + 1_000, START_MS + 1_630, START_MS + 1_630)
    assert _job_times(cluster.fold) == {
        JobStatus.INITIALIZING: 1_000,
        JobStatus.CREATED: 1_000,
        JobStatus.RUNNING: 1_600,
        JobStatus.RESTARTING: 1_100,
        JobStatus.FINISHED: 1_630,
    }
    assert _job_times(_restored(cluster.fold)) == _job_times(cluster.fold)
    view = job_view(cluster.fold, "job")
    assert view["status_times"]["RESTARTING"] == "2027-01-15T08:00:01.100+00:00"
    shown = read_as(ExecutionGraphInfo, {**json.loads(json.dumps(view)), "log_offset": 1}).status_times
    assert {status: round(at.timestamp() * 1000) - START_MS for status, at in shown.items()} == _job_times(cluster.fold)


def test_a_job_that_was_suspended_has_the_times_of_both_lives(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    [running] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.pass_time(10)
    cluster.suspend()
    cluster.pass_time(10)
    cluster.report(running, ExecutionState.CANCELED)
    assert cluster.job("job").ended_at_ms == 0
    cluster.pass_time(10)
    cluster.resume()
    assert _job_times(cluster.fold) == {
        JobStatus.INITIALIZING: 0,
        JobStatus.CREATED: 0,
        JobStatus.RUNNING: 30,
        JobStatus.SUSPENDED: 10,
        JobStatus.RECONCILING: 30,
    }

"""When a job entered its statuses and an attempt its states: by the log's clock, so whoever folds the log says the same."""

import json

import pytest

from eventflink.documents.one_job import JobInfo
from eventflink.documents.plain import parse, plain
from eventflink.events.inputs import TaskStateReport
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import MAX_REMEMBERED_ATTEMPTS
from eventflink.model.attempts import LostInput
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.snapshots.state_codec import document_of, restore_fold
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.plain import iso_time
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, new_fold, reports_of, vertex

Attempt = tuple[int, str, ExecutionState | None, int | None, int | None, int | None, int | None]


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


def _attempts(fold: Fold, vertex_id: str = "a", index: int = 0) -> list[Attempt]:
    """Return of each attempt its number, TaskManager, how it ended, and when it was scheduled, deployed, running and over."""
    subtask = fold.master.dispatcher.jobs["job"].execution_graph.subtask(vertex_id, index)
    assert subtask is not None
    shown = []
    for e in subtask.executions:
        scheduled, deployed, running, ended = map(_since_start, (e.scheduled_at_ms, e.deployed_at_ms, e.running_at_ms, e.ended_at_ms))
        shown.append((e.attempt, e.task_manager_id, e.end_state, scheduled, deployed, running, ended))
    return shown


def _since_start(at_ms: int) -> int | None:
    return at_ms - START_MS if at_ms else None


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
    assert view.status_times[JobStatus.RESTARTING] == "2027-01-15T08:00:01.100+00:00"
    shown = parse(JobInfo, json.loads(json.dumps(plain(view)))).status_times
    assert {status: iso_time(START_MS + at_ms) for status, at_ms in _job_times(cluster.fold).items()} == shown


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


@pytest.mark.parametrize("failover", ["replay", "snapshot"])
def test_an_attempt_knows_when_it_was_scheduled_deployed_running_and_over_whoever_leads(cluster: ScriptedCluster, failover: str) -> None:
    cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, 500)))
    cluster.pass_time(100)
    [first] = deployments(cluster.register("one", slots=1))
    cluster.pass_time(10)
    cluster.report(first, ExecutionState.RUNNING)
    assert _attempts(cluster.fold) == [(1, "one", None, 0, 100, 110, None)]
    _replace_leader(cluster, failover)
    cluster.pass_time(10)
    cluster.report(first, ExecutionState.FAILED)
    [second] = deployments(cluster.pass_time(500))
    _replace_leader(cluster, failover)
    cluster.pass_time(1)
    cluster.report(second, ExecutionState.RUNNING)
    cluster.pass_time(1)
    cluster.report(second, ExecutionState.FINISHED)
    attempts = [(1, "one", ExecutionState.FAILED, 0, 100, 110, 120), (2, "one", ExecutionState.FINISHED, 620, 620, 621, 622)]
    assert _attempts(cluster.fold) == attempts
    assert _attempts(_restored(cluster.fold)) == attempts


def test_attempts_of_a_region_have_times_of_their_own(cluster: ScriptedCluster) -> None:
    """The reader that is restarted with its writer keeps what was of both; what it left behind in CREATED is not remembered."""
    cluster.register(slots=2)
    writer, other = deployments(
        cluster.submit(graph(vertex("a"), vertex("b"), vertex("c"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(5)))
    )
    cluster.pass_time(5)
    cluster.report(other, ExecutionState.RUNNING)
    cluster.pass_time(5)
    [reader] = deployments(cluster.report(writer, ExecutionState.FINISHED))
    cluster.pass_time(5)
    offer, lost = reports_of(reader, ExecutionState.FAILED)
    assert isinstance(lost, TaskStateReport)
    lost.lost_inputs = (LostInput("a", 0),)
    cluster.say(offer, lost)
    [again] = deployments(cluster.pass_time(500))
    cluster.pass_time(5)
    cluster.report(again, ExecutionState.RUNNING)
    assert _attempts(cluster.fold, "a") == [(1, "tm", ExecutionState.FINISHED, 0, 0, 10, 10), (2, "tm", None, 515, 515, 520, None)]
    assert _attempts(cluster.fold, "b") == [(1, "tm", ExecutionState.FAILED, 10, 10, None, 15)]
    assert _attempts(cluster.fold, "c") == [(1, "tm", None, 0, 0, 5, None)]


def test_what_became_of_attempts_is_kept_when_their_vertex_is_rescaled(cluster: ScriptedCluster) -> None:
    """Of two subtasks one is left, and then there are two again."""
    cluster.register(slots=2)
    live = deployments(cluster.submit(graph(vertex("a", 2))))
    for parallelism in (1, 2):
        cluster.pass_time(10)
        cluster.rescale("a", parallelism)
        cluster.pass_time(10)
        for deployment in live:
            cluster.report(deployment, ExecutionState.CANCELED)
        live = deployments(cluster.pass_time(0))
        assert _attempts(_restored(cluster.fold)) == _attempts(cluster.fold)
    assert _attempts(cluster.fold, "a", 0) == [
        (1, "tm", ExecutionState.CANCELED, 0, 0, None, 20),
        (2, "tm", ExecutionState.CANCELED, 20, 20, None, 40),
        (3, "tm", None, 40, 40, None, None),
    ]
    assert _attempts(cluster.fold, "a", 1) == [(1, "tm", ExecutionState.CANCELED, 0, 0, None, 20), (3, "tm", None, 40, 40, None, None)]
    subtask = cluster.job("job").execution_graph.vertices["a"].subtasks[1]
    assert subtask.execution is subtask.executions[-1]


def test_an_attempt_that_got_no_slot_or_was_never_scheduled_has_an_end_and_no_place(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")]))
    assert cluster.job("job").execution_graph.vertices["b"].subtasks[0].execution is None
    cluster.pass_time(10)
    cluster.cancel()
    assert _attempts(cluster.fold, "a") == [(1, "", ExecutionState.CANCELED, 0, None, None, 10)]
    assert _attempts(cluster.fold, "b") == [(1, "", ExecutionState.CANCELED, None, None, None, 10)]
    [shown] = job_view(cluster.fold, "job").vertices[0].subtasks
    assert (shown.task_manager_id, shown.attempts[0].task_manager_id) == (None, None)


def test_no_more_attempts_of_a_subtask_are_remembered_than_flink_remembers(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    effects = cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(30, 0)))
    for _ in range(20):
        effects = cluster.report(deployments(effects)[0], ExecutionState.FAILED) + cluster.pass_time(1)
    assert [attempt[0] for attempt in _attempts(cluster.fold)] == list(range(6, 22))
    assert len(_attempts(cluster.fold)) == MAX_REMEMBERED_ATTEMPTS


def test_callers_are_shown_the_times_and_the_state_of_each_attempt(cluster: ScriptedCluster) -> None:
    cluster.register("one", slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, 0))))
    cluster.pass_time(1_000)
    [second] = deployments(cluster.report(first, ExecutionState.FAILED) + cluster.pass_time(0))
    cluster.pass_time(1_000)
    cluster.report(second, ExecutionState.RUNNING)
    view = json.loads(json.dumps(plain(job_view(cluster.fold, "job"))))
    [subtask] = view["vertices"][0]["subtasks"]
    [failed, running] = subtask["attempts"]
    assert failed == {
        "attempt": 1,
        "state": "FAILED",
        "task_manager_id": "one",
        "instance_id": "one-1",
        "scheduled_at": "2027-01-15T08:00:00.000+00:00",
        "deployed_at": "2027-01-15T08:00:00.000+00:00",
        "running_at": None,
        "ended_at": "2027-01-15T08:00:01.000+00:00",
        "io": None,
        "accumulators": [],
        "reused_from": None,
    }
    assert (running["state"], running["running_at"], running["ended_at"]) == ("RUNNING", "2027-01-15T08:00:02.000+00:00", None)
    assert subtask["task_manager_id"] == "one"
    read = parse(JobInfo, view).vertices[0].subtasks[0].attempts
    assert [(a.attempt, a.state, a.ended_at is None) for a in read] == [
        (1, ExecutionState.FAILED, False),
        (2, ExecutionState.RUNNING, True),
    ]

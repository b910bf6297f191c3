"""A cluster ends in order, under any leader: first its jobs, then its TaskManagers, then its masters; and it starts again on its log."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.effects import StopTaskManager
from eventflink.events.inputs import MAX_DIAGNOSTICS_LENGTH, Disconnection
from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    ClusterShutdownRequested,
    ClusterStarted,
    ClusterStopped,
    JobResultStored,
    RequestRejected,
    TaskManagerLost,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.effects import CleanUp, Deployment, Effect, unacknowledged
from eventflink.master.inputs import CleanupsCompleted, StartCluster
from eventflink.model.statuses import ApplicationStatus, ExecutionState, IllegalTransition, JobStatus
from tests.support.cluster import ScriptedCluster, cancellations, deployments, graph, replies, tasks, vertex
from tests.support.hand import Hand

TIMEOUT_MS = 30_000


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager with four slots, at the newest feature level; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    yield scripted
    scripted.check()


def _answer(effects: list[Effect]) -> str:
    """Return the code of the only refusal; "" for what was accepted."""
    [reply] = replies(effects)
    return reply.payload.code if isinstance(reply.payload, RequestRejected) else ""


def _stops(effects: list[Effect]) -> list[tuple[str, str]]:
    """Return which instances are told to stop."""
    return [(e.task_manager_id, e.instance_id) for e in effects if isinstance(e, Deployment) and isinstance(e.payload, StopTaskManager)]


def _leave(cluster: ScriptedCluster, name: str = "tm", instance_id: str = "tm-1") -> list[Effect]:
    cluster.say(Disconnection(name, instance_id, "the cluster is shut down"))
    return cluster.pass_time(100)


def _statuses(cluster: ScriptedCluster) -> dict[str, JobStatus]:
    return {job_id: job.status for job_id, job in cluster.master.dispatcher.jobs.items()}


def test_jobs_are_suspended_then_task_managers_stop_and_then_the_cluster_is_over(cluster: ScriptedCluster) -> None:
    [running] = deployments(cluster.submit(graph(vertex("a"))))
    assert _answer(cluster.shut_down(diagnostics="maintenance")) == ""
    effects = cluster.pass_time(100)
    assert len(cancellations(effects)) == 1
    assert not cluster.events(ApplicationStatusRecorded), "an attempt is alive"
    cluster.report(running, ExecutionState.CANCELED)
    assert _stops(cluster.pass_time(100)) == [("tm", "tm-1")]
    assert cluster.events(ApplicationStatusRecorded) == [ApplicationStatusRecorded(ApplicationStatus.SUCCEEDED, "maintenance")]
    assert not cluster.events(ClusterStopped), "a TaskManager is there"
    _leave(cluster)
    assert cluster.events(ClusterStopped) == [ClusterStopped(ApplicationStatus.SUCCEEDED)]
    assert _statuses(cluster) == {"job": JobStatus.SUSPENDED}
    assert not cluster.pass_time(600_000), "nothing more happens"


def test_jobs_are_cancelled_where_that_is_wanted_and_what_fails_fails(cluster: ScriptedCluster) -> None:
    cluster.register("two", slots=2)
    effects = cluster.submit(graph(vertex("a")), job_id="running")
    effects += cluster.submit(graph(vertex("a", 2)), job_id="failing")
    effects += cluster.submit(graph(vertex("a")), job_id="suspended")
    by_job = {d.payload.job_id: d for d in deployments(effects)}  # type: ignore[union-attr] # deployments of tasks
    cluster.report(by_job["failing"], ExecutionState.FAILED)
    cluster.suspend("suspended")
    cluster.shut_down("CANCELED", cancel_jobs=True)
    done = cluster.run(effects + cluster.pass_time(100), lambda _: ExecutionState.CANCELED)
    cluster.timer(*[CleanupsCompleted((e.job_id,)) for e in done if isinstance(e, CleanUp)])
    cluster.pass_time(100)
    assert _statuses(cluster) == {"running": JobStatus.CANCELED, "failing": JobStatus.FAILED, "suspended": JobStatus.CANCELED}
    assert len(cluster.events(JobResultStored)) == 3
    _leave(cluster)
    _leave(cluster, "two", "two-1")
    assert cluster.events(ClusterStopped) == [ClusterStopped(ApplicationStatus.CANCELED)]


def test_nothing_new_is_taken_from_the_request_on(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), request_id="before")
    cluster.shut_down()
    for _ in range(2):
        refused = cluster.submit(graph(vertex("a")), job_id="late")
        assert _answer(refused) == "ClusterShuttingDown"
        assert _answer(cluster.resume()) == "ClusterShuttingDown"
        cluster.pass_time(100)
    assert _answer(cluster.submit(graph(vertex("a")), request_id="before")) == "", "what was answered is answered again"
    assert set(_statuses(cluster)) == {"job"}


def test_a_failover_at_any_step_goes_on_with_the_end(cluster: ScriptedCluster) -> None:
    [running] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.shut_down("FAILED")
    cluster.fail_over()
    cluster.pass_time(100)
    cluster.fail_over()
    cluster.report(running, ExecutionState.CANCELED)
    cluster.fail_over()
    cluster.pass_time(100)
    first = cluster.fail_over()
    assert _stops(first.effects) == [("tm", "tm-1")], "a new leader says it again"
    _leave(cluster)
    assert cluster.events(ClusterStopped) == [ClusterStopped(ApplicationStatus.FAILED)]
    assert len(cluster.events(ApplicationStatusRecorded)) == len(cluster.events(ClusterShutdownRequested)) == 1


def test_a_task_manager_that_does_not_answer_holds_nothing_up_for_ever(cluster: ScriptedCluster) -> None:
    """Neither while its attempts are to end, nor when it is to end itself: it sends heartbeats, and does nothing."""
    cluster.register("idle")
    [running] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.shut_down()
    cluster.pass_time(TIMEOUT_MS - 1_000)
    assert not cluster.events(TaskManagerLost)
    cluster.pass_time(1_000)
    [lost] = cluster.events(TaskManagerLost)
    assert lost.task_manager_id == running.task_manager_id, "the other one has nothing to end"
    assert (lost.task_manager_id, lost.instance_id) in _stops([e for r in cluster.released for e in r.effects])
    assert "within 30000 ms" in lost.reason
    cluster.pass_time(100)
    assert len(cluster.events(ApplicationStatusRecorded)) == 1
    cluster.pass_time(TIMEOUT_MS)
    assert len(cluster.events(TaskManagerLost)) == 2
    assert cluster.events(ClusterStopped) == [ClusterStopped(ApplicationStatus.SUCCEEDED)]


@pytest.mark.parametrize("passed_ms", [0, 100])
def test_who_registers_from_the_request_on_is_told_to_stop(cluster: ScriptedCluster, passed_ms: int) -> None:
    cluster.shut_down()
    if passed_ms:
        cluster.pass_time(passed_ms)
    assert _stops(cluster.register("late")) == [("late", "late-1")]
    assert "late" not in cluster.master.resource_manager.task_managers


def test_until_their_data_are_gone_ended_jobs_hold_the_end_up_but_not_for_ever(cluster: ScriptedCluster) -> None:
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(one, ExecutionState.FINISHED)
    cluster.shut_down()
    cluster.pass_time(100)
    _leave(cluster)
    assert not cluster.events(ClusterStopped)
    cluster.pass_time(TIMEOUT_MS)
    assert len(cluster.events(ClusterStopped)) == 1
    assert any(isinstance(effect, CleanUp) for effect in unacknowledged(cluster.master)), "the next leader cleans up"


def _stopped(cluster: ScriptedCluster) -> None:
    """Shut down a cluster that runs `job` and holds `kept`, which somebody suspended."""
    effects = cluster.submit(graph(vertex("a"))) + cluster.submit(graph(vertex("a")), job_id="kept")
    cluster.suspend("kept")
    cluster.shut_down()
    cluster.run(effects + cluster.pass_time(100), lambda _: ExecutionState.CANCELED)
    cluster.pass_time(100)
    _leave(cluster)
    assert cluster.master.shutdown.is_over


def test_begun_anew_the_cluster_goes_on_with_what_was_suspended_for_its_end(cluster: ScriptedCluster) -> None:
    _stopped(cluster)
    cluster.fail_over()
    assert tasks(cluster.timer(StartCluster())) == []
    assert cluster.events(ClusterStarted) == [ClusterStarted(ApplicationStatus.SUCCEEDED, 1)]
    cluster.register(instance="2")
    assert [task.job_id for task in tasks(cluster.pass_time(100))] == ["job"]
    assert _statuses(cluster) == {"job": JobStatus.RUNNING, "kept": JobStatus.SUSPENDED}
    assert _answer(cluster.submit(graph(vertex("a")), job_id="new")) == ""
    assert not cluster.timer(StartCluster()), "it has begun already"
    assert _answer(cluster.shut_down()) == "", "and can be shut down again"


def test_a_job_that_somebody_suspends_or_cancels_meanwhile_does_not_go_on_by_itself(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a")), job_id="one") + cluster.submit(graph(vertex("a")), job_id="other")
    cluster.shut_down()
    cluster.run(effects + cluster.pass_time(100), lambda _: ExecutionState.CANCELED)
    assert list(cluster.master.shutdown.suspended) == ["one", "other"]
    assert _answer(cluster.suspend("one")) == _answer(cluster.cancel("other")) == ""
    assert not cluster.master.shutdown.suspended


def test_many_jobs_are_suspended_and_go_on_in_bounded_decisions() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    for number in range(300):
        cluster.submit(graph(vertex("a")), job_id=f"{number}-{'x' * 120}")
    cluster.shut_down(actor="a" * 256, diagnostics="\N{SNOWMAN}" * MAX_DIAGNOSTICS_LENGTH)
    cluster.pass_time(100)
    assert len(cluster.events(ClusterStopped)) == 1
    cluster.fail_over()
    cluster.timer(StartCluster())
    cluster.pass_time(100)
    assert set(_statuses(cluster).values()) == {JobStatus.RUNNING}
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    cluster.check()


def test_asked_for_the_same_end_again_it_is_accepted_for_another_one_refused(cluster: ScriptedCluster) -> None:
    assert _answer(cluster.shut_down("FAILED", request_id="r")) == ""
    assert _answer(cluster.shut_down("FAILED")) == _answer(cluster.shut_down("FAILED", request_id="r")) == ""
    assert _answer(cluster.shut_down("SUCCEEDED")) == _answer(cluster.shut_down("FAILED", cancel_jobs=True)) == "ClusterShuttingDown"
    assert len(cluster.events(ClusterShutdownRequested)) == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"application_status": "NONSENSE"}, "InvalidRequest"),
        ({"diagnostics": "x" * (MAX_DIAGNOSTICS_LENGTH + 1)}, "InvalidRequest"),
        ({"jobs": "all"}, "InvalidRequest"),
        ({"leader_id": "nobody"}, "FencingTokenMismatch"),
    ],
)
def test_a_wrong_command_is_refused(cluster: ScriptedCluster, command: dict[str, Any], code: str) -> None:
    assert _answer(cluster.command(type="ShutDownCluster", **command)) == code
    assert not cluster.master.shutdown.is_under_way


def test_the_steps_of_an_end_come_in_order(cluster: ScriptedCluster) -> None:
    succeeded = ApplicationStatus.SUCCEEDED
    for event in (ApplicationStatusRecorded(succeeded, ""), ClusterStopped(succeeded), ClusterStarted(succeeded, 0)):
        with pytest.raises(IllegalTransition):
            cluster.master.apply(event, 1)
    cluster.shut_down()
    for misfit in (
        ClusterShutdownRequested(succeeded, "", cancel_jobs=False, actor=""),
        ApplicationStatusRecorded(ApplicationStatus.FAILED, ""),
        ClusterStopped(succeeded),
        ClusterStarted(succeeded, 0),
    ):
        with pytest.raises(IllegalTransition):
            cluster.master.apply(misfit, 1)


def test_exit_codes_are_flinks_in_the_eight_bits_of_a_process() -> None:
    codes = {status: status.exit_code for status in ApplicationStatus}
    assert codes == {
        ApplicationStatus.SUCCEEDED: 0,
        ApplicationStatus.CANCELED: 0,
        ApplicationStatus.FAILED: 1443 % 256,
        ApplicationStatus.UNKNOWN: 1445 % 256,
    }


# -- masters ----------------------------------------------------------------------------------------------------------


def test_a_master_that_reads_the_end_has_an_outcome_and_one_that_was_started_later_starts_empty() -> None:
    cluster = ScriptedCluster()
    cluster.shut_down("FAILED")
    cluster.pass_time(100)
    standby, later = Hand(), Hand()
    later.participant.known_shutdowns = 1
    for hand in (standby, later):
        hand.follow(list(cluster.log))
        hand.participant.tick(hand.now_ms, 0)
    assert standby.participant.outcome is ApplicationStatus.FAILED
    assert not standby.wires.appended, "it does not campaign any more"
    assert later.participant.outcome is None
    later.settle_all()
    assert later.participant.leader is not None
    assert not later.participant.fold.master.shutdown.is_under_way


def test_a_candidate_that_reads_the_end_behind_its_campaign_ends_as_well() -> None:
    """Its grant stands behind the end: it does not start again, for it was there before."""
    cluster = ScriptedCluster()
    candidate = Hand()
    candidate.follow(list(cluster.log))
    candidate.participant.tick(0, 0)
    [grant] = candidate.wires.appended
    candidate.wires.appended.clear()
    before = len(cluster.log)
    cluster.shut_down()
    cluster.pass_time(100)
    candidate.follow([*cluster.log[before:], grant])
    candidate.decide()
    assert candidate.participant.outcome is ApplicationStatus.SUCCEEDED
    assert candidate.participant.fold.master.shutdown.is_over
    assert not candidate.wires.appended

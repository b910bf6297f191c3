"""Savepoints of streams: when one is triggered, what becomes of the job with it, and of streams that were stopped when it fails."""

from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.effects import (
    CheckpointOrder,
    FinishStream,
    ResumeStream,
    SavepointOrder,
    SavepointStream,
    StreamRestore,
    TaskDeployment,
)
from eventflink.master.checkpoints import Checkpoints
from eventflink.master.effects import Deployment, Effect, unacknowledged
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import CheckpointFailureReason, ExecutionState, JobStatus, SavepointMode
from eventflink.views.checkpoints import checkpoints_view
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    decline,
    deployments,
    fixed_delay,
    graph,
    orders,
    replies,
    state_report,
    stream,
    stream_start,
    vertex,
)

TARGET = "/savepoints"


def checkpoints_of(cluster: ScriptedCluster) -> Checkpoints:
    checkpoints = cluster.job("job").checkpoints
    assert checkpoints is not None
    return checkpoints


def run_streams(cluster: ScriptedCluster, parallelism: int = 2, **more: Any) -> list[Deployment]:
    cluster.register(slots=8)
    deployed = deployments(cluster.submit(graph(stream("s", parallelism), **more)))
    for deployment in deployed:
        cluster.start_stream(deployment)
    return deployed


def trigger(cluster: ScriptedCluster, mode: SavepointMode = SavepointMode.STOP, directory: str = TARGET) -> list[Deployment]:
    return orders(cluster.command(type="TriggerSavepoint", job_id="job", target_directory=directory, mode=mode))


def refusal(cluster: ScriptedCluster, directory: str = TARGET) -> str:
    [reply] = replies(cluster.command(type="TriggerSavepoint", job_id="job", target_directory=directory))
    assert isinstance(reply.payload, e.RequestRejected)
    return f"{reply.payload.code}: {reply.payload.message}"


def told(effects: list[Effect], kind: type[ResumeStream | FinishStream]) -> list[tuple[int, int]]:
    """Return of which subtask, and for which checkpoint, streams are told what follows."""
    payloads = [effect.payload for effect in effects if isinstance(effect, Deployment)]
    return [(payload.subtask_index, payload.checkpoint_id) for payload in payloads if isinstance(payload, kind)]


def fail(cluster: ScriptedCluster, deployment: Deployment) -> list[Effect]:
    return cluster.say(state_report(deployment, ExecutionState.FAILED, FailureCause("T", "m")))


def resume(cluster: ScriptedCluster, deployment: Deployment) -> None:
    """Have the query of an attempt run again."""
    start = stream_start(deployment, 4)
    start.run_id += "-again"
    cluster.say(start)


def test_each_subtask_is_told_where_the_savepoint_goes_and_what_it_has(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    asked = trigger(cluster, SavepointMode.DRAIN)
    [triggered] = cluster.events(e.CheckpointTriggered)
    at_ms = checkpoints_of(cluster).triggered_at_ms
    path = f"{TARGET}/savepoint-job-1-{at_ms}"
    order = SavepointOrder(path, SavepointMode.DRAIN, at_ms, (SavepointStream("s", 2),), stops_stream=True, timeout_ms=600_000)
    assert [a.payload for a in asked] == [CheckpointOrder("job", "s", index, 1, checkpoint_id=1, savepoint=order) for index in (0, 1)]
    assert triggered.savepoint == e.SavepointRequest(path, SavepointMode.DRAIN, stops_streams=True)


def test_a_job_that_goes_on_is_told_nothing_more_and_the_savepoint_is_not_subsumed(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    effects = cluster.acknowledge(*trigger(cluster, SavepointMode.CONTINUE), batch_id=4)
    assert not told(effects, ResumeStream)
    checkpoints = checkpoints_of(cluster)
    assert (checkpoints.completed, checkpoints.latest_savepoint) == ([], checkpoints.history[-1])
    cluster.acknowledge(*orders(cluster.pass_time(10_000)), batch_id=5)
    cluster.acknowledge(*orders(cluster.pass_time(10_000)), batch_id=6)
    assert [checkpoint.checkpoint_id for checkpoint in checkpoints.completed] == [3]
    assert checkpoints.latest_savepoint is not None
    assert checkpoints.latest_savepoint.checkpoint_id == 1
    latest = checkpoints_view(cluster.job("job")).latest
    assert latest.completed is not None
    assert latest.completed.savepoint is None
    assert latest.savepoint is not None
    assert latest.savepoint.savepoint is not None
    assert latest.savepoint.savepoint.path.startswith(TARGET)


@pytest.mark.rule("S3")
@pytest.mark.parametrize("mode", [SavepointMode.STOP, SavepointMode.DRAIN])
def test_a_job_that_stops_with_it_finishes_when_all_of_it_is_written(cluster: ScriptedCluster, mode: SavepointMode) -> None:
    first, second = run_streams(cluster)
    one, other = trigger(cluster, mode)
    assert not told(cluster.acknowledge(one), FinishStream)
    assert told(cluster.acknowledge(other), FinishStream) == [(0, 1), (1, 1)]
    assert told(list(unacknowledged(cluster.master)), FinishStream) == [(0, 1), (1, 1)]
    cluster.report(first, ExecutionState.FINISHED)
    assert told(list(unacknowledged(cluster.master)), FinishStream) == [(1, 1)]
    cluster.report(second, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("S3")
def test_an_attempt_that_dies_when_its_job_stops_is_replaced_by_one_that_finishes_at_once(cluster: ScriptedCluster) -> None:
    [first] = run_streams(cluster, 1, restart_strategy=fixed_delay(1))
    cluster.acknowledge(*trigger(cluster))
    fail(cluster, first)
    [again] = deployments(cluster.pass_time(1_000))
    assert isinstance(again.payload, TaskDeployment)
    assert again.payload.is_stopped
    assert not orders(cluster.pass_time(100_000))
    cluster.report(again, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("S3")
def test_a_job_is_cancelled_with_the_last_answer_and_not_before(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    one, other = trigger(cluster, SavepointMode.CANCEL)
    assert not cancellations(cluster.acknowledge(one))
    effects = cluster.acknowledge(other)
    assert len(cancellations(effects)) == 2
    assert not told(effects, ResumeStream)
    assert cluster.job("job").status is JobStatus.CANCELLING


@pytest.mark.rule("S3")
def test_streams_that_were_stopped_or_may_have_been_resume_when_the_savepoint_fails(cluster: ScriptedCluster) -> None:
    deployed = run_streams(cluster, 3)
    one, other, _ = trigger(cluster)
    cluster.acknowledge(one)
    assert told(cluster.say(decline(other, "the disk is full")), ResumeStream) == [(0, 1), (1, 1), (2, 1)]
    assert cluster.job("job").status is JobStatus.RUNNING
    assert refusal(cluster).startswith("StreamsNotReady")
    resume(cluster, deployed[0])
    assert told(list(unacknowledged(cluster.master)), ResumeStream) == [(1, 1), (2, 1)]
    assert not orders(cluster.pass_time(20_000))
    resume(cluster, deployed[1])
    resume(cluster, deployed[2])
    assert len(orders(cluster.pass_time(0))) == 3


def test_the_first_start_that_is_told_again_is_not_taken_for_a_resumption(cluster: ScriptedCluster) -> None:
    deployed = run_streams(cluster, 1)
    [order] = trigger(cluster)
    cluster.say(decline(order))
    cluster.say(stream_start(deployed[0]))
    assert told(list(unacknowledged(cluster.master)), ResumeStream) == [(0, 1)]


def test_a_stream_that_ends_fails_the_savepoint_and_the_others_resume(cluster: ScriptedCluster) -> None:
    first, second = run_streams(cluster, restart_strategy=fixed_delay(5))
    one, _ = trigger(cluster)
    cluster.acknowledge(one)
    effects = fail(cluster, second)
    assert cluster.events(e.CheckpointAborted)[0].reason is CheckpointFailureReason.JOB_NOT_RUNNING
    assert told(effects, ResumeStream) == [(0, 1)]
    fail(cluster, first)
    assert not told(list(unacknowledged(cluster.master)), ResumeStream)


def test_a_savepoint_that_takes_too_long_fails_and_fails_no_job(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"timeout_ms": 1_000, "interval_ms": 0})
    for checkpoint_id in (1, 2):
        trigger(cluster, SavepointMode.CONTINUE)
        cluster.pass_time(1_000)
        assert cluster.events(e.CheckpointAborted)[-1].checkpoint_id == checkpoint_id
    assert checkpoints_of(cluster).consecutive_failures == 0
    assert cluster.job("job").status is JobStatus.RUNNING


def test_a_savepoint_comes_before_a_checkpoint_that_is_under_way(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    assert len(orders(cluster.pass_time(10_000))) == 2
    assert len(trigger(cluster)) == 2
    [aborted] = cluster.events(e.CheckpointAborted)
    assert (aborted.checkpoint_id, aborted.reason) == (1, CheckpointFailureReason.SAVEPOINT_TRIGGERED)
    assert refusal(cluster) == "SavepointInProgress: savepoint 2 of 'job' is under way"


def test_a_savepoint_that_cannot_be_is_refused_with_the_reason(cluster: ScriptedCluster) -> None:
    first, _ = run_streams(cluster)
    not_set = "the request has no target directory, and execution.checkpointing.savepoint-dir is not set: give one of them"
    assert refusal(cluster, "") == f"InvalidSavepointDirectory: {not_set}"
    for odd in ("here", "a\tb"):
        assert refusal(cluster, odd) == f"InvalidSavepointDirectory: invalid target directory: {odd!r}; give an absolute path or a URL"
    cluster.report(first, ExecutionState.FINISHED)
    assert refusal(cluster) == "StreamFinished: a stream of 'job' has finished, and a savepoint has all of them"


def test_without_a_directory_it_goes_where_the_configuration_says() -> None:
    cluster = ScriptedCluster(MasterSettings(savepoint_directory="s3://bucket/savepoints/"))
    run_streams(cluster)
    [order, _] = trigger(cluster, directory="")
    assert isinstance(order.payload, CheckpointOrder)
    assert order.payload.savepoint is not None
    assert order.payload.savepoint.path.startswith("s3://bucket/savepoints/savepoint-job-1-")
    cluster.check()


def test_the_streams_of_a_restored_job_know_the_savepoint_and_all_streams_and_its_batch_vertices_do_not(cluster: ScriptedCluster) -> None:
    cluster.register(slots=8)
    restore = {"savepoint": "/savepoints/one", "allow_non_restored_state": True}
    deployed = deployments(cluster.submit(graph(vertex("a"), stream("s"), stream("t"), restore=restore)))
    known = {d.payload.vertex_id: d.payload.restore for d in deployed if isinstance(d.payload, TaskDeployment)}
    expected = StreamRestore("/savepoints/one", allow_non_restored_state=True, vertices=("s", "t"))
    assert known == {"a": None, "s": expected, "t": expected}

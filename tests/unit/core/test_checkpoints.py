"""Checkpoints of streams: when one is triggered, what completes and what aborts it, what is retained, and when failures fail the job."""

from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.effects import CheckpointOrder
from eventflink.master.checkpoints import Checkpoints
from eventflink.master.effects import CleanUp, Deployment, Effect, unacknowledged
from eventflink.master.settings import AdaptiveSettings, MasterSettings
from eventflink.model.attempts import FailureCause, IOMetrics
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import (
    CheckpointFailureReason,
    CheckpointStatus,
    ExecutionState,
    IllegalTransition,
    JobStatus,
    RestartStrategyType,
    SchedulerType,
)
from eventflink.model.stream_progress import MAX_NUMBER, MAX_OFFSET_LENGTH, MAX_PARTITION_LAGS, PartitionLag, StreamSourceProgress
from eventflink.snapshots.state_codec import document_of, restore_fold
from eventflink.views.checkpoints import checkpoints_view
from tests.support.cluster import (
    ScriptedCluster,
    acknowledgement,
    cancellations,
    decline,
    deployments,
    fixed_delay,
    graph,
    new_fold,
    orders,
    replies,
    state_report,
    stream,
    stream_start,
    tasks,
    vertex,
)

INTERVAL_MS = 10_000
TIMEOUT_MS = 600_000


def checkpoints_of(cluster: ScriptedCluster, job_id: str = "job") -> Checkpoints:
    checkpoints = cluster.job(job_id).checkpoints
    assert checkpoints is not None
    return checkpoints


def run_streams(cluster: ScriptedCluster, parallelism: int = 1, **more: Any) -> list[Deployment]:
    """Submit a job of one stream, and have all its queries run; return the deployments."""
    cluster.register(slots=8)
    deployed = deployments(cluster.submit(graph(stream("s", parallelism), **more)))
    for deployment in deployed:
        cluster.start_stream(deployment)
    return deployed


def trigger(cluster: ScriptedCluster) -> list[Deployment]:
    """Let the interval pass; return what is asked."""
    return orders(cluster.pass_time(INTERVAL_MS))


def restart(cluster: ScriptedCluster, effects: list[Effect], restored_batch_id: int) -> list[Deployment]:
    """Run what is deployed among the effects, after a batch."""
    again = deployments(effects)
    for deployment in again:
        cluster.start_stream(deployment, restored_batch_id)
    return again


def reasons(cluster: ScriptedCluster) -> list[str]:
    return [event.reason for event in cluster.events(e.InputsSkipped)]


# -- triggering -----------------------------------------------------------------------------------------------------


def test_the_first_checkpoint_is_triggered_an_interval_after_the_job_runs(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    assert not orders(cluster.pass_time(INTERVAL_MS - 1))
    asked = orders(cluster.pass_time(1))
    assert [(a.task_manager_id, a.instance_id) for a in asked] == [("tm", "tm-1")] * 2
    assert [a.payload for a in asked] == [CheckpointOrder("job", "s", index, 1, checkpoint_id=1) for index in (0, 1)]
    assert cluster.events(e.CheckpointTriggered) == [e.CheckpointTriggered("job", 1, 2)]


def test_none_is_triggered_before_the_query_of_every_stream_runs(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    first, second = deployments(cluster.submit(graph(stream("s", 2))))
    cluster.start_stream(first)
    cluster.report(second, ExecutionState.RUNNING)
    assert not trigger(cluster)
    cluster.say(stream_start(second))
    assert len(orders(cluster.pass_time(0))) == 2


def test_a_stream_that_has_finished_is_not_asked_and_keeps_its_last_word(cluster: ScriptedCluster) -> None:
    first, _ = run_streams(cluster, 2)
    cluster.acknowledge(*trigger(cluster), batch_id=4)
    cluster.report(first, ExecutionState.FINISHED)
    [order] = trigger(cluster)
    cluster.acknowledge(order, batch_id=9)
    latest = checkpoints_of(cluster)
    assert {key: answer.progress.batch_id for key, answer in latest.progress.items()} == {("s", 0): 4, ("s", 1): 9}
    assert latest.history[-1].subtasks == 1


def test_the_rows_that_an_attempt_has_read_are_those_of_its_last_word(cluster: ScriptedCluster) -> None:
    first, _ = run_streams(cluster, 2, restart_strategy=fixed_delay(1, delay_ms=0))
    cluster.acknowledge(*trigger(cluster), rows_read=70)
    one, other = trigger(cluster)
    cluster.acknowledge(one, rows_read=90)
    cluster.acknowledge(other, rows_read=-1)
    subtasks = cluster.job("job").execution_graph.vertices["s"].subtasks
    assert [subtask.executions[-1].io for subtask in subtasks] == [IOMetrics(read_records=90), None]
    cluster.report(first, ExecutionState.FAILED)
    restart(cluster, cluster.pass_time(1), 0)
    assert [execution.io for execution in subtasks[0].executions] == [IOMetrics(read_records=90), None]
    cluster.check()


@pytest.mark.rule("C3")
def test_one_is_pending_at_a_time_however_long_it_takes(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    assert len(trigger(cluster)) == 1
    assert not orders(cluster.pass_time(5 * INTERVAL_MS))


def test_the_interval_is_counted_from_the_trigger_and_the_pause_from_the_end(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"interval_ms": 1_000, "min_pause_ms": 400})
    [order] = orders(cluster.pass_time(1_000))
    cluster.pass_time(900)
    cluster.acknowledge(order)
    assert not orders(cluster.pass_time(399))
    [order] = orders(cluster.pass_time(1))
    cluster.acknowledge(order)
    assert not orders(cluster.pass_time(999))
    assert orders(cluster.pass_time(1))


def test_with_an_interval_of_zero_none_is_triggered(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"interval_ms": 0})
    assert not orders(cluster.pass_time(10**9))


def test_a_job_without_streams_has_no_checkpoints(cluster: ScriptedCluster) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(deployment, ExecutionState.RUNNING)
    cluster.pass_time(10 * INTERVAL_MS)
    assert cluster.job("job").checkpoints is None
    assert cluster.events(e.JobMasterStarted)[0].checkpointing is None
    assert not cluster.events(e.CheckpointTriggered)


def test_what_applies_is_the_graphs_and_else_the_clusters_and_stands_in_the_log() -> None:
    settings = MasterSettings(checkpoint_history_size=3)
    cluster = ScriptedCluster(settings)
    run_streams(cluster)
    [deployment] = deployments(cluster.submit(graph(stream("t"), checkpointing={"interval_ms": 5, "max_retained": 7}), job_id="own"))
    cluster.start_stream(deployment)
    assert checkpoints_of(cluster).settings == settings.checkpointing
    own = checkpoints_of(cluster, "own")
    assert (own.settings.interval_ms, own.settings.max_retained, own.history_size) == (5, 7, 3)
    cluster.check()


def test_a_job_with_streams_that_names_no_strategy_has_the_one_for_streams() -> None:
    always = RestartStrategy(RestartStrategyType.EXPONENTIAL_DELAY, delay_ms=1_000, max_delay_ms=2_000, multiplier=2.0)
    cluster = ScriptedCluster(MasterSettings(stream_restart_strategy=always))
    cluster.register(slots=8)
    for job_id, document in (
        ("stream", graph(stream("s"), restart_strategy={"type": "cluster-default"})),
        ("own", graph(stream("s"), restart_strategy={"type": "none"})),
        ("batch", graph(vertex("a"), restart_strategy={"type": "cluster-default"})),
    ):
        cluster.submit(document, job_id=job_id)
    strategies = {event.job_id: event.restart_strategy.strategy_type for event in cluster.events(e.JobMasterStarted)}
    assert strategies == {"stream": "EXPONENTIAL_DELAY", "own": "NONE", "batch": "NONE"}


# -- asking for one ------------------------------------------------------------------------------------------------


def test_one_that_is_asked_for_is_triggered_at_once_and_names_who_asked(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"interval_ms": 0})
    effects = cluster.command(type="TriggerCheckpoint", job_id="job", request_id="now")
    [reply] = replies(effects)
    assert isinstance(reply.payload, e.RequestAccepted)
    assert cluster.events(e.CheckpointTriggered) == [e.CheckpointTriggered("job", 1, 1, "test (declared)", "now")]
    cluster.acknowledge(*orders(effects))
    assert checkpoints_of(cluster).completed_count == 1
    cluster.command(type="TriggerCheckpoint", job_id="job", request_id="now")
    assert len(cluster.events(e.CheckpointTriggered)) == 1


def test_the_request_that_asked_for_one_tells_what_became_of_it_whoever_leads(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": 1})
    cluster.acknowledge(*trigger(cluster))
    cluster.say(decline(orders(cluster.command(type="TriggerCheckpoint", job_id="job", request_id="first"))[0]))
    cluster.command(type="TriggerSavepoint", job_id="job", target_directory="/savepoints", request_id="second")
    cluster.acknowledge(*orders(cluster.fail_over().effects), batch_id=4)
    cluster.command(type="TriggerCheckpoint", job_id="job", request_id="third")
    fold = new_fold()
    restore_fold(document_of(cluster.fold), fold)
    for job in (cluster.job("job"), fold.master.dispatcher.jobs["job"]):
        view = checkpoints_view(job)
        shown = [view.pending, *view.history]
        assert [(each.request_id, each.status) for each in shown if each is not None] == [
            ("third", CheckpointStatus.IN_PROGRESS),
            ("second", CheckpointStatus.COMPLETED),
            ("first", CheckpointStatus.FAILED),
            (None, CheckpointStatus.COMPLETED),
        ]


def test_one_that_cannot_be_is_refused_with_the_reason(cluster: ScriptedCluster) -> None:
    def refusal(job_id: str) -> str:
        [reply] = replies(cluster.command(type="TriggerCheckpoint", job_id=job_id))
        assert isinstance(reply.payload, e.RequestRejected)
        return f"{reply.payload.code}: {reply.payload.message}"

    assert refusal("none") == "UnknownJob: job not found: 'none'"
    [deployment] = run_streams(cluster)
    [batch] = deployments(cluster.submit(graph(vertex("a")), job_id="batch"))
    assert refusal("batch") == "NoStream: job 'batch' has no stream"
    cluster.report(batch, ExecutionState.FINISHED)
    assert refusal("batch") == "JobTerminated: job 'batch' is FINISHED"
    cluster.submit(graph(stream("s")), job_id="young")
    assert refusal("young") == "StreamsNotReady: some streams of job 'young' do not run yet, or all of them have finished"
    trigger(cluster)
    assert refusal("job") == "CheckpointInProgress: checkpoint 1 of 'job' is under way"
    cluster.cancel()
    assert refusal("job") == "JobNotRunning: job 'job' is CANCELLING"
    cluster.report(deployment, ExecutionState.CANCELED)
    assert len(cluster.events(e.CheckpointTriggered)) == 1


# -- completing ----------------------------------------------------------------------------------------------------


def test_the_last_answer_completes_it_in_the_same_decision(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    first, second = trigger(cluster)
    cluster.acknowledge(first, batch_id=3, state_rows=5, state_bytes=50)
    assert not cluster.events(e.CheckpointCompleted)
    cluster.pass_time(40)
    cluster.acknowledge(second, batch_id=7, state_rows=2, state_bytes=20)
    assert [type(event) for event in cluster.last_events()] == [e.CheckpointAcknowledged, e.CheckpointCompleted]
    assert cluster.events(e.CheckpointCompleted) == [e.CheckpointCompleted("job", 1, 40, 7, 70)]
    checkpoints = checkpoints_of(cluster)
    assert checkpoints.pending is None
    assert {key: answer.progress.batch_id for key, answer in checkpoints.progress.items()} == {("s", 0): 3, ("s", 1): 7}
    assert (checkpoints.triggered_count, checkpoints.completed_count, checkpoints.failed_count) == (1, 1, 0)


def test_no_more_are_retained_than_is_said_and_the_oldest_is_subsumed_with_the_newest(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"max_retained": 2})
    for batch_id in range(4):
        cluster.acknowledge(*trigger(cluster), batch_id=batch_id)
    assert [c.checkpoint_id for c in checkpoints_of(cluster).completed] == [3, 4]
    assert [event.checkpoint_id for event in cluster.events(e.CheckpointSubsumed)] == [1, 2]
    assert [type(event) for event in cluster.last_events()] == [e.CheckpointAcknowledged, e.CheckpointCompleted, e.CheckpointSubsumed]


def test_the_history_is_bounded_and_holds_the_newest() -> None:
    cluster = ScriptedCluster(MasterSettings(checkpoint_history_size=2))
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": -1})
    for batch_id in range(3):
        cluster.acknowledge(*trigger(cluster), batch_id=batch_id)
    cluster.say(decline(trigger(cluster)[0]))
    checkpoints = checkpoints_of(cluster)
    assert [(c.checkpoint_id, c.status) for c in checkpoints.history] == [(3, CheckpointStatus.COMPLETED), (4, CheckpointStatus.FAILED)]
    assert checkpoints.latest is not None
    assert checkpoints.latest.checkpoint_id == 3
    cluster.check()


@pytest.mark.rule("C1")
def test_a_stale_late_double_or_foreign_answer_is_skipped_by_name(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    first, second = trigger(cluster)
    cluster.acknowledge(first)
    cluster.acknowledge(first)
    foreign = acknowledgement(second)
    foreign.instance_id = "tm-0"
    cluster.say(foreign)
    older = acknowledgement(second)
    older.checkpoint_id = 0
    cluster.say(older)
    cluster.acknowledge(second)
    cluster.acknowledge(second)
    assert reasons(cluster) == [
        "CheckpointAcknowledgement 1 of job/s[0]#1: it was answered before, or was not asked",
        "CheckpointAcknowledgement 1 of job/s[1]#1: not a live attempt of a stream of that instance",
        "CheckpointAcknowledgement 0 of job/s[1]#1: that checkpoint is not pending",
        "CheckpointAcknowledgement 1 of job/s[1]#1: that checkpoint is not pending",
    ]
    assert len(cluster.events(e.CheckpointCompleted)) == 1


@pytest.mark.rule("C1")
def test_an_answer_of_an_attempt_that_was_replaced_counts_for_nothing(cluster: ScriptedCluster) -> None:
    [deployment] = run_streams(cluster, restart_strategy=fixed_delay(3, 100))
    [order] = trigger(cluster)
    cluster.report(deployment, ExecutionState.FAILED)
    restart(cluster, cluster.pass_time(100), 2)
    cluster.acknowledge(order, batch_id=1)
    assert reasons(cluster)[-1] == "CheckpointAcknowledgement 1 of job/s[0]#1: not a live attempt of a stream of that instance"
    assert not cluster.events(e.CheckpointAcknowledged)


def test_numbers_beyond_all_bounds_are_cut_and_their_sum_can_be_written(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    cluster.acknowledge(*trigger(cluster), batch_id=2**63 - 1, state_rows=2**63 - 1, state_bytes=2**63 - 1, input_rows=-5)
    assert cluster.events(e.CheckpointCompleted)[0].state_bytes == 2 * MAX_NUMBER
    assert checkpoints_of(cluster).progress["s", 0].progress.input_rows == 0


def test_what_is_too_long_in_an_answer_is_left_out(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    lengths = [5, MAX_OFFSET_LENGTH + 1, *[MAX_OFFSET_LENGTH] * 4, *[5] * 20]
    many = tuple(StreamSourceProgress(name="n" * 1_000, end_offset="x" * length, records_behind=-1) for length in lengths)
    cluster.acknowledge(*trigger(cluster), sources=many, processed_rows_per_second=float("inf"), input_rows_per_second=float("nan"))
    [event] = cluster.events(e.CheckpointAcknowledged)
    lengths = [len(source.end_offset) for source in event.progress.sources]
    assert lengths == [5, 0, *[MAX_OFFSET_LENGTH] * 2, 0, 0, *[5] * 10]
    assert max(len(source.name) for source in event.progress.sources) == 128
    assert (event.progress.processed_rows_per_second, event.progress.input_rows_per_second) == (0.0, 0.0)


def test_of_the_partitions_that_an_answer_tells_no_more_are_kept_than_a_subtask_may_tell(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    many = [PartitionLag(source="s" * 999, topic="t" * 999, partition=2**40, records_behind=2**60) for _ in range(MAX_PARTITION_LAGS + 1)]
    cluster.acknowledge(*trigger(cluster), partitions_behind=2**40, partition_lags=tuple(many))
    [event] = cluster.events(e.CheckpointAcknowledged)
    kept = PartitionLag(source="s" * 128, topic="t" * 249, partition=2**31 - 1, records_behind=MAX_NUMBER)
    assert (event.progress.partitions_behind, event.progress.partition_lags) == (2**31 - 1, (kept,) * MAX_PARTITION_LAGS)


# -- aborting ------------------------------------------------------------------------------------------------------


def test_one_that_takes_too_long_is_aborted_and_says_who_has_not_answered(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2, checkpointing={"timeout_ms": 500, "tolerable_failed_checkpoints": 1})
    first, _ = trigger(cluster)
    cluster.acknowledge(first)
    cluster.pass_time(499)
    assert not cluster.events(e.CheckpointAborted)
    cluster.pass_time(1)
    expected = e.CheckpointAborted("job", 1, CheckpointFailureReason.EXPIRED, "not answered within 500 ms by s[1]#1")
    assert cluster.events(e.CheckpointAborted) == [expected]
    assert checkpoints_of(cluster).progress == {}
    assert cluster.job("job").status is JobStatus.RUNNING


def test_one_that_is_declined_is_aborted(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": 1})
    [order] = trigger(cluster)
    cluster.say(decline(order))
    message = "s[0]#1 declined: the query has stopped"
    assert cluster.events(e.CheckpointAborted) == [e.CheckpointAborted("job", 1, CheckpointFailureReason.DECLINED, message)]
    cluster.say(decline(order))
    assert reasons(cluster) == ["CheckpointDecline 1 of job/s[0]#1: that checkpoint is not pending"]


def test_a_stream_that_declines_because_its_task_ends_is_no_failure_of_the_checkpoint(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    said = decline(trigger(cluster)[0], "the attempt is CANCELED")
    said.task_ended = True
    cluster.say(said)
    assert [event.reason for event in cluster.events(e.CheckpointAborted)] == [CheckpointFailureReason.TASK_ENDED]
    assert (cluster.job("job").status, checkpoints_of(cluster).consecutive_failures) == (JobStatus.RUNNING, 0)


@pytest.mark.rule("C2")
def test_an_answer_behind_an_earlier_checkpoint_is_never_part_of_one(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": 1})
    cluster.acknowledge(*trigger(cluster), batch_id=9)
    cluster.acknowledge(*trigger(cluster), batch_id=8)
    [aborted] = cluster.events(e.CheckpointAborted)
    assert aborted.message == "s[0] is at batch 8, behind batch 9 of an earlier checkpoint"
    assert checkpoints_of(cluster).progress["s", 0].progress.batch_id == 9


@pytest.mark.rule("C3")
@pytest.mark.parametrize("how", ["fails", "is lost", "is cancelled", "is suspended"])
def test_the_end_of_what_runs_aborts_it_in_the_decision_that_ends_it(cluster: ScriptedCluster, how: str) -> None:
    [deployment] = run_streams(cluster, restart_strategy=fixed_delay(3, 100))
    trigger(cluster)
    match how:
        case "fails":
            cluster.report(deployment, ExecutionState.FAILED)
        case "is lost":
            cluster.register(instance="2")
        case "is cancelled":
            cluster.cancel()
        case "is suspended":
            cluster.suspend()
    status = {"is cancelled": JobStatus.CANCELLING, "is suspended": JobStatus.SUSPENDED}.get(how, JobStatus.RESTARTING)
    assert cluster.job("job").status is status
    [aborted] = cluster.events(e.CheckpointAborted)
    assert (aborted.reason, aborted.message) == (CheckpointFailureReason.JOB_NOT_RUNNING, f"the job is {status}")
    assert checkpoints_of(cluster).consecutive_failures == 0


@pytest.mark.rule("C3")
def test_the_end_of_a_stream_that_has_not_answered_aborts_it_and_the_next_one_asks_the_others(cluster: ScriptedCluster) -> None:
    first, second = run_streams(cluster, 2)
    trigger(cluster)
    cluster.report(first, ExecutionState.FINISHED)
    expected = e.CheckpointAborted("job", 1, CheckpointFailureReason.TASK_ENDED, "job/s[0]#1 is FINISHED")
    assert cluster.events(e.CheckpointAborted) == [expected]
    assert len(trigger(cluster)) == 1
    cluster.report(second, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED
    assert len(cluster.events(e.CheckpointAborted)) == 2


def test_the_end_of_a_stream_that_has_answered_leaves_it_as_it_is(cluster: ScriptedCluster) -> None:
    first, _ = run_streams(cluster, 2)
    one, other = trigger(cluster)
    cluster.acknowledge(one)
    cluster.report(first, ExecutionState.FINISHED)
    cluster.acknowledge(other)
    assert len(cluster.events(e.CheckpointCompleted)) == 1


# -- failures in a row ---------------------------------------------------------------------------------------------


def test_one_failure_too_many_in_a_row_fails_a_job_without_restarts_and_names_the_last(cluster: ScriptedCluster) -> None:
    [deployment] = run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": 1})
    cluster.say(decline(trigger(cluster)[0]))
    assert cluster.job("job").status is JobStatus.RUNNING
    effects = cluster.say(decline(trigger(cluster)[0], "its disk is full"))
    [cancellation] = cancellations(effects)
    cluster.say(state_report(cancellation, ExecutionState.CANCELED))
    [stored] = cluster.events(e.JobResultStored)
    assert stored.status is JobStatus.FAILED
    assert stored.cause == FailureCause(
        "CheckpointFailureThresholdExceeded",
        "Exceeded checkpoint tolerable failure threshold: 2 in a row failed, 1 may; "
        "the last one, 2, was declined: s[0]#1 declined: its disk is full",
    )
    root = cluster.job("job").exceptions.roots[-1]
    assert (root.failure.vertex_id, root.failure.cause) == ("", stored.cause)
    assert deployment.instance_id == cancellation.instance_id


def test_a_job_whose_checkpoints_fail_restarts_its_streams_as_its_strategy_says(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2, restart_strategy=fixed_delay(1, 100))
    effects = cluster.say(decline(trigger(cluster)[0]))
    assert cluster.job("job").status is JobStatus.RESTARTING
    [scheduled] = cluster.events(e.JobRestartScheduled)
    assert (scheduled.restarts, scheduled.delay_ms, scheduled.task_count) == (1, 100, 2)
    cluster.say(*[state_report(cancellation, ExecutionState.CANCELED) for cancellation in cancellations(effects)])
    again = restart(cluster, cluster.pass_time(100), 5)
    assert [d.payload.attempt for d in again if hasattr(d.payload, "attempt")] == [2, 2]
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.say(decline(trigger(cluster)[0]))  # One restart was allowed.
    assert cluster.job("job").status is JobStatus.FAILING


def test_one_that_completes_ends_the_row(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": 1})
    for number in range(4):
        [order] = trigger(cluster)
        cluster.say(decline(order) if number % 2 else acknowledgement(order, number))
    assert cluster.job("job").status is JobStatus.RUNNING


def test_any_number_may_fail_where_it_says_so(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"tolerable_failed_checkpoints": -1})
    for _ in range(20):
        cluster.say(decline(trigger(cluster)[0]))
    assert cluster.job("job").status is JobStatus.RUNNING


def test_a_failure_of_the_job_as_a_whole_is_forgotten_by_the_next_row(cluster: ScriptedCluster) -> None:
    run_streams(cluster, restart_strategy=fixed_delay(5, 100), checkpointing={"tolerable_failed_checkpoints": 1})
    for _ in range(2):
        effects = cluster.say(decline(trigger(cluster)[0]))
    cluster.say(*[state_report(cancellation, ExecutionState.CANCELED) for cancellation in cancellations(effects)])
    restart(cluster, cluster.pass_time(100), 5)
    cluster.say(decline(trigger(cluster)[0]))
    assert cluster.job("job").status is JobStatus.RUNNING


# -- restoring, and a change of leader -----------------------------------------------------------------------------


@pytest.mark.rule("C2")
def test_a_restarted_stream_says_after_which_batch_it_goes_on(cluster: ScriptedCluster) -> None:
    [deployment] = run_streams(cluster, restart_strategy=fixed_delay(3, 100))
    cluster.acknowledge(*trigger(cluster), batch_id=11)
    cluster.report(deployment, ExecutionState.FAILED)
    restart(cluster, cluster.pass_time(100), 12)
    checkpoints = checkpoints_of(cluster)
    start = checkpoints.starts["s", 0]
    assert (start.attempt, start.restored_batch_id, checkpoints.restored_count) == (2, 12, 1)
    assert start.run_id == "run-2-of-s-0"
    [order] = trigger(cluster)
    assert isinstance(order.payload, CheckpointOrder)
    assert (order.payload.attempt, order.payload.checkpoint_id) == (2, 2)


def test_the_start_of_a_query_is_told_once_however_often_it_is_said(cluster: ScriptedCluster) -> None:
    [deployment] = run_streams(cluster)
    cluster.say(stream_start(deployment))
    foreign = stream_start(deployment)
    foreign.instance_id = "tm-0"
    long = stream_start(deployment)
    long.run_id, long.location = "another", "x" * 4_097
    cluster.say(foreign, long)
    assert len(cluster.events(e.StreamStarted)) == 1
    assert reasons(cluster) == [
        "StreamStartReport of job/s[0]#1: it was told before",
        "StreamStartReport of job/s[0]#1: not a live attempt of a stream of that instance",
        "StreamStartReport of job/s[0]#1: its location has 4097 characters; it may have 4096",
    ]


def test_a_query_that_begins_while_it_is_cancelled_is_noted_and_its_directory_retained(cluster: ScriptedCluster) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(stream("s"), checkpointing={"retention": "retain-on-cancellation"})))
    cluster.report(deployment, ExecutionState.RUNNING)
    cluster.cancel()
    cluster.say(stream_start(deployment))
    effects = cluster.report(deployment, ExecutionState.CANCELED)
    [clean_up] = [effect for effect in effects if isinstance(effect, CleanUp)]
    assert "/outputs/job/checkpoints/s-0" in clean_up.kept


def test_a_batch_task_starts_no_stream(cluster: ScriptedCluster) -> None:
    cluster.register()
    batch, _ = deployments(cluster.submit(graph(vertex("a"), stream("s"))))
    cluster.start_stream(batch)
    assert reasons(cluster) == ["StreamStartReport of job/a[0]#1: not a live attempt of a stream of that instance"]


@pytest.mark.rule("C3")
def test_a_checkpoint_survives_a_change_of_leader_in_its_middle(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    first, second = trigger(cluster)
    cluster.acknowledge(first, batch_id=3)
    cluster.fail_over()
    again = orders(unacknowledged(cluster.master))
    assert again == [second]
    cluster.acknowledge(second, batch_id=4)
    assert len(cluster.events(e.CheckpointCompleted)) == 1
    assert not orders(unacknowledged(cluster.master))


def test_a_resumed_job_goes_on_with_its_settings_and_numbers(cluster: ScriptedCluster) -> None:
    run_streams(cluster, checkpointing={"interval_ms": 100})
    cluster.acknowledge(*orders(cluster.pass_time(100)))
    [cancellation] = cancellations(cluster.suspend())
    cluster.say(state_report(cancellation, ExecutionState.CANCELED))
    restart(cluster, cluster.resume(), 3)
    assert cluster.events(e.JobMasterStarted)[-1].checkpointing == checkpoints_of(cluster).settings
    [order] = orders(cluster.pass_time(100))
    assert isinstance(order.payload, CheckpointOrder)
    assert order.payload.checkpoint_id == 2


# -- what is around them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retention", "stay"),
    [
        (JobStatus.FINISHED, "retain-on-cancellation", False),
        (JobStatus.CANCELED, "delete-on-cancellation", False),
        (JobStatus.CANCELED, "retain-on-cancellation", True),
        (JobStatus.FAILED, "delete-on-cancellation", True),
    ],
)
def test_checkpoints_outlive_a_job_that_failed_or_is_to_retain_them(
    cluster: ScriptedCluster, status: JobStatus, retention: str, *, stay: bool
) -> None:
    [deployment] = run_streams(cluster, checkpointing={"retention": retention})
    end = {JobStatus.FINISHED: ExecutionState.FINISHED, JobStatus.FAILED: ExecutionState.FAILED}.get(status, ExecutionState.CANCELED)
    if status is JobStatus.CANCELED:
        cluster.cancel()
    effects = cluster.report(deployment, end)
    assert cluster.job("job").status is status
    [clean_up] = [effect for effect in effects if isinstance(effect, CleanUp)]
    assert ("/outputs/job/checkpoints/s-0" in clean_up.kept) == stay


def test_a_job_with_a_stream_has_the_default_scheduler_whatever_the_clusters_is() -> None:
    cluster = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(SchedulerType.ADAPTIVE, reactive=True)))
    run_streams(cluster)
    assert (cluster.job("job").scheduler, cluster.job("job").reactive) == (SchedulerType.DEFAULT, False)


def test_a_stream_is_not_rescaled(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    [reply] = replies(cluster.rescale("s", 2))
    assert isinstance(reply.payload, e.RequestRejected)
    assert reply.payload.code == "StreamVertex"
    assert reply.payload.message == "vertex 's' is a stream, whose state is kept by subtask: its parallelism stays"


def test_a_vertex_is_not_rescaled_that_a_forward_edge_binds_to_a_stream(cluster: ScriptedCluster) -> None:
    """A stream that starts again has not begun for a moment; with another parallelism its subtasks would not find their state."""
    cluster.register()
    cluster.submit(graph(vertex("a"), stream("s"), edges=[("a", "s", "forward")]))
    [reply] = replies(cluster.rescale("a", 2))
    assert isinstance(reply.payload, e.RequestRejected)
    assert reply.payload.message.startswith("vertex 'a' is bound by forward edges to a stream")


def test_a_vertex_with_a_sink_keeps_its_parallelism_since_each_subtask_has_written_a_part() -> None:
    cluster = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(SchedulerType.ADAPTIVE)))
    cluster.register()
    sink = {"table": {"path": "/data/sales"}, "format": "delta"}
    [deployment] = tasks(cluster.submit(graph(vertex("a") | {"sink": sink})))
    assert deployment.sink is not None
    assert (deployment.sink.location, cluster.job("job").scheduler) == ("/data/sales", SchedulerType.DEFAULT)
    [reply] = replies(cluster.rescale("a", 2))
    assert isinstance(reply.payload, e.RequestRejected)
    assert reply.payload.code == "SinkVertex"
    says = "vertex 'a' has a sink, to which each subtask writes its part once: its parallelism stays"
    assert reply.payload.message == says


def test_a_vertex_with_a_source_keeps_its_parallelism_since_each_subtask_reads_all_rows() -> None:
    cluster = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(SchedulerType.ADAPTIVE)))
    cluster.register()
    source = {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}
    [deployment] = tasks(cluster.submit(graph(vertex("a") | {"sources": {"sales": source}})))
    assert [each.location for each in deployment.sources] == ["lake.shop.sales"]
    assert cluster.job("job").scheduler is SchedulerType.DEFAULT
    [reply] = replies(cluster.rescale("a", 2))
    assert isinstance(reply.payload, e.RequestRejected)
    assert reply.payload.code == "SourceVertex"
    assert reply.payload.message == "vertex 'a' has a source, of which each subtask reads all rows: its parallelism stays"


# -- events that do not fit ----------------------------------------------------------------------------------------


def test_an_event_that_does_not_fit_the_checkpoints_is_refused_and_changes_nothing(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2)
    cluster.acknowledge(trigger(cluster)[0])
    progress = checkpoints_of(cluster).pending
    assert progress is not None
    said = progress.acknowledged["s", 0].progress
    for event in (
        e.CheckpointTriggered("job", 2, 2),
        e.CheckpointTriggered("job", 1, 2),
        e.CheckpointAcknowledged("job", "s", 0, 1, 1, said),
        e.CheckpointAcknowledged("job", "s", 1, 2, 1, said),
        e.CheckpointAcknowledged("job", "s", 2, 1, 1, said),
        e.CheckpointAcknowledged("job", "s", 1, 1, 2, said),
        e.CheckpointCompleted("job", 1, 0, 0, 0),
        e.CheckpointCompleted("job", 2, 0, 0, 0),
        e.CheckpointAborted("job", 2, CheckpointFailureReason.EXPIRED, ""),
        e.CheckpointSubsumed("job", 1),
        e.StreamStarted("job", "s", 0, 2, "q", "r", "x", "/l", -1),
        e.StreamStarted("job", "none", 0, 1, "q", "r", "x", "/l", -1),
    ):
        before = cluster.master.digest()
        with pytest.raises(IllegalTransition):
            cluster.master.apply(event, 1)
        assert cluster.master.digest() == before, event


def test_the_state_of_checkpoints_is_the_same_from_a_snapshot(cluster: ScriptedCluster) -> None:
    run_streams(cluster, 2, checkpointing={"tolerable_failed_checkpoints": 3})
    cluster.acknowledge(*trigger(cluster), sources=(StreamSourceProgress(name="n", end_offset="{}", records_behind=3),))
    cluster.say(decline(trigger(cluster)[0]))
    cluster.acknowledge(trigger(cluster)[1])
    fold = new_fold()
    restore_fold(document_of(cluster.fold), fold)
    assert fold.master.digest() == cluster.master.digest()

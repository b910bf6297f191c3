"""What a job remembers of its failures: each with its place, its cause and what it led to; bounded, and the same for every leader."""

import pytest

from eventflink.events.inputs import TaskManagerDeath, TaskStateReport
from eventflink.master.exception_history import MAX_CONCURRENT, MAX_NAMED_TASKS, MESSAGE_LIMIT, STACK_TRACE_LIMIT
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause, LostInput
from eventflink.model.statuses import ExecutionState, FailoverStrategy, FailureReaction
from eventflink.views.exceptions import exceptions_view
from eventflink.views.plain import reaction_of
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, reports_of, vertex


def _fail(cluster: ScriptedCluster, times: int, strategy: dict[str, object]) -> None:
    effects = cluster.submit(graph(vertex("a"), restart_strategy=strategy))
    for number in range(times):
        cluster.report(deployments(effects)[0], ExecutionState.FAILED, cause=FailureCause("E", f"failure {number}", "Traceback"))
        effects = cluster.pass_time(700)


def test_each_failure_is_kept_with_its_place_its_cause_and_what_it_led_to(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    _fail(cluster, 2, fixed_delay(1, 700))
    first, second = cluster.job("job").exceptions.roots
    failure = first.failure
    assert (failure.at_ms, failure.vertex_id, failure.subtask_index, failure.attempt) == (START_MS, "a", 0, 1)
    assert (failure.task_manager_id, failure.instance_id) == ("tm", "tm-1")
    assert failure.cause == FailureCause("E", "failure 0", "Traceback")
    assert (first.reaction, first.restarts, first.delay_ms, first.tasks, first.task_count) == (
        FailureReaction.RESTART,
        1,
        700,
        [("a", 0)],
        1,
    )
    assert (second.failure.attempt, second.reaction) == (2, FailureReaction.JOB_FAILURE)
    assert second.reason == "fixed-delay: 1 restarts are allowed, and there were 1"


def test_the_newest_are_kept_and_all_are_counted() -> None:
    cluster = ScriptedCluster(MasterSettings(exception_history_size=3))
    cluster.register(slots=1)
    _fail(cluster, 6, fixed_delay(10, 0))
    view = exceptions_view(cluster.job("job"), 2)
    assert [e.cause.message for e in view.exceptions] == ["failure 5", "failure 4"]
    assert (view.total, view.truncated) == (6, True)
    assert [r.failure.attempt for r in cluster.job("job").exceptions.roots] == [4, 5, 6]
    cluster.check()


def test_a_history_of_size_zero_only_counts() -> None:
    cluster = ScriptedCluster(MasterSettings(exception_history_size=0))
    cluster.register(slots=1)
    _fail(cluster, 3, fixed_delay(10, 0))
    assert (cluster.job("job").exceptions.roots, cluster.job("job").exceptions.root_count) == ([], 3)
    cluster.check()


def test_what_comes_with_a_restart_of_the_whole_job_is_concurrent_to_its_cause() -> None:
    cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL))
    cluster.register("tm1", slots=30)
    deployed = deployments(cluster.submit(graph(vertex("a", 30), restart_strategy=fixed_delay(1))))
    for deployment in deployed:
        cluster.report(deployment, ExecutionState.RUNNING)
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "killed"))
    [root] = cluster.job("job").exceptions.roots
    assert (root.concurrent_count, len(root.concurrent)) == (29, MAX_CONCURRENT)
    assert (root.task_count, len(root.tasks)) == (30, MAX_NAMED_TASKS)
    assert {f.cause.failure_type for f in root.concurrent} == {"TaskManagerLost"}
    [shown] = exceptions_view(cluster.job("job"), 10).exceptions
    assert reaction_of(shown) == "restart 1 of 30 tasks after 500 ms"
    cluster.check()


def test_what_fails_while_the_job_fails_is_concurrent_to_its_cause(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    one, other = deployments(cluster.submit(graph(vertex("a", 2))))
    cluster.say(*reports_of(one, ExecutionState.FAILED, FailureCause("First", "1", "T")), *reports_of(other, ExecutionState.FAILED))
    [root] = cluster.job("job").exceptions.roots
    assert (root.failure.cause.failure_type, root.reaction, root.reason) == (
        "First",
        FailureReaction.JOB_FAILURE,
        "the restart strategy is none",
    )
    assert [f.cause for f in root.concurrent] == [FailureCause("ValueError", "no such column")]


def test_regions_that_fail_one_after_the_other_are_roots_of_their_own(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    one, other = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(5))))
    cluster.report(one, ExecutionState.FAILED)
    cluster.report(other, ExecutionState.FAILED)
    assert [(r.failure.subtask_index, r.restarts) for r in cluster.job("job").exceptions.roots] == [(0, 1), (1, 2)]


def test_what_comes_with_a_restart_of_many_is_told_with_it_although_another_region_failed_since(cluster: ScriptedCluster) -> None:
    cluster.register(slots=4)
    document = graph(vertex("a"), vertex("b", 2), vertex("c"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(5))
    a0, c0 = deployments(cluster.submit(document))
    b0, b1 = deployments(cluster.report(a0, ExecutionState.FINISHED))
    offer, lost = reports_of(b0, ExecutionState.FAILED)
    assert isinstance(lost, TaskStateReport)
    lost.lost_inputs = (LostInput("a", 0),)
    cluster.say(offer, lost, *reports_of(c0, ExecutionState.FAILED), *reports_of(b1, ExecutionState.FAILED))
    of_b, of_c = cluster.job("job").exceptions.roots
    assert (of_b.task_count, [f.subtask_index for f in of_b.concurrent]) == (3, [1])
    assert (of_c.failure.vertex_id, of_c.concurrent) == ("c", [])


def test_slots_refused_in_a_row_are_one_entry(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    effects = cluster.submit(graph(vertex("a")))
    for _ in range(4):
        effects = cluster.refuse(deployments(effects)[0])
    [root] = cluster.job("job").exceptions.roots
    assert (root.reaction, root.concurrent_count) == (FailureReaction.NEW_SLOT, 3)
    assert reaction_of(exceptions_view(cluster.job("job"), 1).exceptions[0]) == "another slot"


def test_the_root_cause_is_kept_with_the_cause(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(one, ExecutionState.FAILED, cause=FailureCause("RuntimeError", "it failed", "T", "KeyError", "k" * 5_000))
    [shown] = exceptions_view(cluster.job("job"), 1).exceptions
    assert shown.cause.root_type == "KeyError"
    assert MESSAGE_LIMIT < len(shown.cause.root_message) < MESSAGE_LIMIT + 100


def test_messages_and_traces_are_bounded_and_keep_both_ends(cluster: ScriptedCluster) -> None:
    cluster.register(slots=1)
    [one] = deployments(cluster.submit(graph(vertex("a"))))
    cause = FailureCause("E", "begin" + "m" * 9_000 + "end", "Traceback" + "t" * 90_000 + "KeyError: 'x'")
    cluster.report(one, ExecutionState.FAILED, cause=cause)
    [root] = cluster.job("job").exceptions.roots
    kept = root.failure.cause
    assert kept.message.startswith("begin")
    assert kept.message.endswith("end")
    assert len(kept.message) < MESSAGE_LIMIT + 100
    assert kept.stack_trace is not None
    assert kept.stack_trace.startswith("Traceback")
    assert kept.stack_trace.endswith("KeyError: 'x'")
    assert len(kept.stack_trace) < STACK_TRACE_LIMIT + 100
    assert cluster.job("job").cause == cause, "the job's own cause is whole"


@pytest.mark.parametrize("hops", [0, 1])
def test_the_history_is_the_same_after_a_change_of_leader(cluster: ScriptedCluster, hops: int) -> None:
    cluster.register(slots=1)
    _fail(cluster, 2, fixed_delay(5, 0))
    before = exceptions_view(cluster.job("job"), 100)
    for _ in range(hops):
        cluster.fail_over()
    assert exceptions_view(cluster.job("job"), 100) == before
    assert before.total == 2

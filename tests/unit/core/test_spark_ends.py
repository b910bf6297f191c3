"""A Spark that ended by itself is an event of its own, once for each end; it is a problem for an hour, and who lost it twice is named."""

import pytest

from eventflink.documents.task_managers import SparkEndOfHost
from eventflink.events.inputs import SlotReport, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.log_events import SparkEnded
from eventflink.master.effects import Effect
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import SPARK_LOST
from eventflink.model.resources import MAX_AMOUNT
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.statuses import ExecutionState, IllegalTransition
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.task_managers import task_manager_page
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, vertex

FULL = "its heap of 1g was full (spark.local.memory, or the job's spark.memory)"
SAID_AT = "2027-01-15T08:00:00.000+00:00"


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A host with two TaskManagers that share a Spark."""
    running = ScriptedCluster()
    for name in ("one", "two"):
        running.say(TaskManagerRegistration(name, f"{name}-1", "host", 1, 2))
    return running


def _say(cluster: ScriptedCluster, number: int, end: SparkEnd | None, name: str = "one", instance: str = "1") -> list[Effect]:
    return cluster.say(SlotReport(name, f"{name}-{instance}", (), (), number, ready=True, spark_end=end))


def _lose_spark(cluster: ScriptedCluster, effects: list[Effect]) -> list[Effect]:
    """Have the only attempt of a job fail since its Spark ended; return what follows once its restart is due."""
    [attempt] = deployments(effects)
    for state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
        cluster.report(attempt, state)
    cluster.report(attempt, ExecutionState.FAILED, cause=FailureCause(SPARK_LOST, "gone"))
    return cluster.pass_time(20_000)


def test_an_end_is_told_once_and_counted_by_instance(cluster: ScriptedCluster) -> None:
    first, second = SparkEnd(START_MS, FULL), SparkEnd(START_MS + 1, FULL)
    for number, end in enumerate([None, first, first, second, first, None], start=1):
        _say(cluster, number, end)
    assert cluster.events(SparkEnded) == [SparkEnded("one", "one-1", each.ended_at_ms, FULL) for each in (first, second)]
    assert cluster.master.resource_manager.task_managers["one"].spark_ends == 2
    cluster.say(TaskManagerDeath("one", "one-1", "killed"))
    cluster.register("one", 2, "2")
    assert cluster.master.resource_manager.task_managers["one"].spark_end is None
    _say(cluster, 1, second, instance="1")
    assert cluster.master.resource_manager.task_managers["one"].spark_ends == 0


@pytest.mark.parametrize("at_ms", [-1, MAX_AMOUNT + 1])
def test_a_time_that_no_clock_has_is_not_believed(cluster: ScriptedCluster, at_ms: int) -> None:
    _say(cluster, 1, SparkEnd(at_ms, FULL))
    assert not cluster.events(SparkEnded)


def test_a_reason_is_bounded(cluster: ScriptedCluster) -> None:
    _say(cluster, 1, SparkEnd(START_MS, "ä" * 100_000))
    assert len(cluster.events(SparkEnded)[0].reason.encode()) <= 1_024


def test_an_end_on_an_instance_that_is_not_registered_is_no_event(cluster: ScriptedCluster) -> None:
    with pytest.raises(IllegalTransition, match="the instance other is not registered"):
        cluster.master.apply(SparkEnded("one", "other", START_MS, FULL), 1)


def test_it_is_a_problem_of_the_cluster_for_an_hour_once_for_all_who_share_it(cluster: ScriptedCluster) -> None:
    for name in ("one", "two"):
        _say(cluster, 1, SparkEnd(START_MS, FULL), name)
    page = cluster_page(cluster.fold)
    [problem] = page.problems
    assert (problem.severity, problem.link) == ("spark_ended", "/taskmanagers/one")
    assert problem.sentence == f"The Spark of 2 TaskManagers 'one', 'two' ended at {SAID_AT}: {FULL}."
    assert page.sentence.startswith("1 Spark ended by itself.")
    shown = task_manager_page(cluster.fold, "one")
    assert (shown.spark_ends, shown.spark_end) == (1, SparkEndOfHost(ended_at=SAID_AT, reason=FULL))
    cluster.pass_time(3_600_001)
    _say(cluster, 2, None)
    assert not cluster_page(cluster.fold).problems


def test_a_job_that_lost_it_twice_is_named(cluster: ScriptedCluster) -> None:
    cluster.say(TaskManagerDeath("two", "two-1", "killed"))
    effects = cluster.submit(graph(vertex("a")), job_id="greedy")
    effects = _lose_spark(cluster, effects)
    _say(cluster, 1, SparkEnd(START_MS, FULL))
    [problem] = cluster_page(cluster.fold).problems
    assert "greedy" not in problem.sentence
    _lose_spark(cluster, effects)
    _say(cluster, 2, SparkEnd(START_MS + 1, FULL))
    sentence = cluster_page(cluster.fold).problems[-1].sentence
    assert "(the last of 2 times since the TaskManager registered)" in sentence
    assert sentence.endswith("; lost again and again by job 'greedy' (2 times).")

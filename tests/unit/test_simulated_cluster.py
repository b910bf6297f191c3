"""The simulated cluster as its users see it: a job is scheduled, fails, restarts and ends, in virtual time."""

from itertools import pairwise
from typing import Any

import pytest

from eventflink.gateways.errors import DuplicateJobSubmission
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus
from eventflink.testing.failures import CannotCrash, Unexpected
from eventflink.testing.simulated_cluster import SimulatedCluster

TWICE = {"type": "fixed-delay", "attempts": 2, "delay_ms": 500}


def graph(strategy: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": "orders",
        "vertices": [{"id": "orders", "python": "orders:read", "parallelism": 2}, {"id": "totals", "sql": "SELECT 1"}],
        "edges": [{"from": "orders", "to": "totals"}],
        "restart_strategy": strategy or {"type": "none"},
    }


def test_a_job_that_nobody_disturbs_finishes_in_its_first_attempts(eventflink_simulated_cluster: SimulatedCluster) -> None:
    job = eventflink_simulated_cluster.submit(graph())
    assert job.wait_until_running("orders").details().vertices[1].subtasks[0].state is ExecutionState.CREATED
    assert job.wait().attempts() == {"orders": [1, 1], "totals": [1]}
    assert job.exceptions() == []


def test_failures_restart_what_the_strategy_says_and_no_more(eventflink_simulated_cluster: SimulatedCluster) -> None:
    cluster = eventflink_simulated_cluster
    job = cluster.submit(graph(TWICE))
    failed_at_ms = []
    for attempt in (1, 2, 3):
        job.wait_until_running("orders", 1, attempt=attempt)
        failed_at_ms.append(cluster.now_ms)
        cluster.fail_task(job, "orders", 1, "ValueError", f"bad row {attempt}")
    with pytest.raises(Unexpected, match=r"is FAILED, and was to be FINISHED; orders\[1\]#3: ValueError: bad row 3"):
        job.wait()
    assert all(later - earlier >= 500 for earlier, later in pairwise(failed_at_ms))
    assert [failure.task for failure in job.exceptions()] == ["orders[1]#3", "orders[1]#2", "orders[1]#1"]


def test_crashes_cost_a_job_only_what_died(eventflink_simulated_cluster: SimulatedCluster) -> None:
    cluster = eventflink_simulated_cluster
    job = cluster.submit(graph(TWICE)).wait_until_running("orders", 0)
    epoch = cluster.fold.acceptance.epoch
    cluster.crash("leader")
    cluster.run_until(lambda: cluster.fold.acceptance.epoch > epoch, "another leader")
    assert job.attempts() == {"orders": [1, 1], "totals": [1]}
    job.wait_until_running("totals")
    cluster.crash("task", job=job, vertex="totals")
    assert job.wait().attempts() == {"orders": [1, 1], "totals": [2]}
    assert job.details().restarts == 1
    assert job.exceptions()[0].cause.failure_type == "TaskProcessDied"


def test_the_tasks_of_a_task_executor_that_dies_run_again(eventflink_simulated_cluster: SimulatedCluster) -> None:
    job = eventflink_simulated_cluster.submit(graph(TWICE)).wait_until_running("totals")
    eventflink_simulated_cluster.crash("taskexecutor", job=job, vertex="totals")
    assert job.wait().attempts()["totals"] == [2]


def test_the_settings_of_the_masters_count() -> None:
    cluster = SimulatedCluster(slots=4, settings=MasterSettings(failover_strategy=FailoverStrategy.FULL))
    job = cluster.submit(graph(TWICE)).wait_until_running("totals")
    cluster.fail_task(job, "totals")
    assert job.wait().attempts() == {"orders": [2, 2], "totals": [2]}


def test_a_job_is_cancelled_or_refused_as_on_a_real_cluster(eventflink_simulated_cluster: SimulatedCluster) -> None:
    cluster = eventflink_simulated_cluster
    job = cluster.submit(graph(), "mine").wait_until_running("orders")
    job.cancel()
    assert job.status is JobStatus.CANCELED
    with pytest.raises(CannotCrash, match=r"orders\[0\]#1 is CANCELED"):
        cluster.crash("task", job=job, vertex="orders")
    with pytest.raises(DuplicateJobSubmission):
        cluster.submit({**graph(), "name": "another"}, "mine")
    with pytest.raises(InvalidJobGraph, match="vertex not found: 'nothing'"):
        cluster.submit({**graph(), "edges": [{"from": "nothing", "to": "totals"}]})


def test_what_there_is_not_is_named(eventflink_simulated_cluster: SimulatedCluster) -> None:
    cluster = eventflink_simulated_cluster
    job = cluster.submit(graph()).wait_until_running("orders", 1)
    for what in ("broker", "spark", ""):
        with pytest.raises(ValueError, match=f"unknown process to crash: '{what}'; known: leader, standby, taskexecutor, task$"):
            cluster.crash(what)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"has no orders\[-1\]"):
        cluster.fail_task(job, "orders", -1)
    assert job.wait().attempts() == {"orders": [1, 1], "totals": [1]}


def test_a_job_without_an_id_gets_one_that_is_free(eventflink_simulated_cluster: SimulatedCluster) -> None:
    cluster = eventflink_simulated_cluster
    assert [cluster.submit(graph(), job_id).job_id for job_id in ("job-2", None, None)] == ["job-2", "job-3", "job-4"]


def test_a_run_depends_on_its_seed_alone() -> None:
    def ended_at_ms(seed: int) -> int:
        cluster = SimulatedCluster(seed=seed)
        cluster.submit(graph()).wait()
        return cluster.now_ms

    assert ended_at_ms(1) == ended_at_ms(1) != ended_at_ms(2)

"""The job's own tests: `pytest examples/revenue` with eventflink installed. The fixtures come from its pytest plugin (docs/testing.md)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from eventflink.testing.job_handle import JobHandle
from eventflink.testing.mini_cluster import MiniCluster
from eventflink.testing.simulated_cluster import SimulatedCluster

HERE = Path(__file__).parent
GRAPH = (HERE / "revenue.yaml").read_text()
ORDERS = "ada,10\nada,32\ngrace,7\n"
REVENUE = [{"customer": "ada", "orders": 2, "revenue": 42}, {"customer": "grace", "orders": 1, "revenue": 7}]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Return a directory with orders that is not complete yet."""
    (tmp_path / "orders.csv").write_text(ORDERS)
    return tmp_path


def submit(cluster: MiniCluster, orders: Path) -> JobHandle:
    graph = yaml.safe_load(GRAPH)
    graph["vertices"][0]["parameters"]["directory"] = str(orders)
    return cluster.submit(graph, code=[HERE / "revenue.py"])


def revenue_of(job: JobHandle) -> list[dict[str, Any]]:
    return sorted(job.result("revenue"), key=lambda row: str(row["customer"]))


def test_the_revenue_of_each_customer_is_summed_up(eventflink_cluster: MiniCluster, orders: Path) -> None:
    (orders / "_SUCCESS").touch()
    assert revenue_of(submit(eventflink_cluster, orders)) == REVENUE


def test_the_job_in_python_comes_to_the_same(eventflink_cluster: MiniCluster, orders: Path) -> None:
    (orders / "_SUCCESS").touch()
    assert revenue_of(eventflink_cluster.submit(HERE / "revenue_job.py", parameters={"directory": str(orders)})) == REVENUE


def test_nothing_is_lost_or_counted_twice_when_processes_die(eventflink_cluster: MiniCluster, orders: Path) -> None:
    job = submit(eventflink_cluster, orders).wait_until_running("orders")
    eventflink_cluster.crash("leader")
    eventflink_cluster.crash("task", job=job, subtask=1)
    (orders / "_SUCCESS").touch()
    assert revenue_of(job) == REVENUE
    assert job.details().restarts == 1


def test_a_failure_restarts_the_subtask_alone(eventflink_simulated_cluster: SimulatedCluster) -> None:
    job = eventflink_simulated_cluster.submit(HERE / "revenue_job.py").wait_until_running("orders", 1)
    eventflink_simulated_cluster.fail_task(job, "orders", 1, "ValueError", "bad row")
    eventflink_simulated_cluster.crash("leader")
    assert job.wait().attempts() == {"orders": [1, 2], "revenue": [1]}

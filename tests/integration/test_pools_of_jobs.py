"""Jobs with a Spark of their own: what one does to its Spark, no other feels, and a Spark that no task uses ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.events.log_events import SparkEnded
from eventflink.model.statuses import JobStatus
from eventflink.taskexecutor.spark_pools import pool_directory
from eventflink.taskexecutor.spark_server import is_server_alive
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360
FULL = "its heap of 512m was full"


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path, **{"spark.pool.idle-timeout": 2_000}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


def test_a_job_that_fills_the_heap_of_its_own_spark_ends_no_other(cluster: RunningCluster, tmp_path: Path) -> None:
    neighbour = cluster.run_task("patient_query", path=str(tmp_path / "runs"))
    wait_until((tmp_path / "runs.0.1").exists, "the neighbour's query runs", SPARK_TIMEOUT_S)
    fills = {"id": "fills", "sql": "SELECT size(sequence(1L, 200000000L))"}
    own = {"pool": "job", "memory": "512m", "cores": 1}
    filler = cluster.submit(cluster.graph(fills, spark=own, restart_strategy={"type": "none"}))
    cause = cluster.wait_for_status(filler, JobStatus.FAILED, SPARK_TIMEOUT_S).cause
    assert cause is not None
    assert (cause.failure_type, FULL in cause.message) == ("SparkHeapFull", True), "another attempt would fill it again"
    wait_until(lambda: _spark_ends(cluster), "its end is told")
    assert all(reason.startswith(f"of pool 'job-{filler}': {FULL}") for reason in _spark_ends(cluster))

    counts = {"id": "counts", "sql": "SELECT id FROM range(10)"}
    reports = cluster.submit(cluster.graph(counts, spark={"pool": "reports", "cores": 1}, restart_strategy={"type": "none"}))
    cluster.wait_for_status(reports, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    runtime = tmp_path / "data" / "run"
    used = pool_directory(runtime, "reports", reports)
    assert used.is_dir()
    wait_until(lambda: not is_server_alive(used), "a Spark that no task uses has ended", SPARK_TIMEOUT_S)

    assert is_server_alive(runtime)
    [subtask] = cluster.job(neighbour).execution_graph.subtasks()
    assert (cluster.job(neighbour).status, subtask.attempt) == (JobStatus.RUNNING, 1)


def _spark_ends(cluster: RunningCluster) -> list[str]:
    return [event.reason for _, decision in cluster.decisions() for event in decision.events if isinstance(event, SparkEnded)]

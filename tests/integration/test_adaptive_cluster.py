"""Jobs that run with the slots that there are: one real master, and real TaskExecutors that come, and are killed, while tasks run."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eventflink.cli.main import cli
from eventflink.events.log_events import JobRescaled, RescaleScheduled, ResourcesAwaited, RestartScheduled
from eventflink.gateways.async_gateways import AsyncJobMasterGateway
from eventflink.gateways.errors import FencingTokenMismatch, RequestRefused
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.jobs.result import read_result
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import JobStatus, RescaleReason
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 360
COUNT = 1_000


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Adaptive by default, with one TaskExecutor of two slots."""
    settings = {
        "spark.remote": spark,
        "jobmanager.scheduler": "adaptive",
        "jobmanager.adaptive-scheduler.resource-stabilization-timeout": 1_500,
        "jobmanager.adaptive-scheduler.resource-wait-timeout": 60_000,
    }
    with running_cluster(bootstrap, tmp_path_factory.mktemp("adaptive"), **settings) as running:
        running.start_master()
        running.start_task_executor("one", slots=2)
        yield running


def _graph(cluster: RunningCluster, gate: Path, scheduler: str = "cluster-default") -> JobGraph:
    return cluster.graph(
        {"id": "numbers", "python": "user_tasks:numbers_when_let", "parallelism": 4, "parameters": {"count": COUNT, "path": str(gate)}},
        {"id": "total", "python": "user_tasks:total_once_let", "parameters": {"path": str(gate)}},
        edges=[{"from": "numbers", "to": "total", "ship": "rebalance"}],
        restart_strategy={"type": "fixed-delay", "attempts": 9, "delay_ms": 100},
        scheduler=scheduler,
    )


def _running(gate: Path, attempt: int) -> list[str]:
    """Return of how many subtasks each one says to be that runs in an attempt, in the order of their indexes."""
    return [path.read_text() for path in sorted(gate.parent.glob(f"{gate.name}.?.{attempt}"))]


def _wait_until_run(gate: Path, parallelism: int, attempt: int) -> None:
    wait_until(lambda: _running(gate, attempt) == [str(parallelism)] * parallelism, f"{parallelism} subtasks", JOB_TIMEOUT_S)


def _rows(job: JobMaster) -> list[dict[str, Any]]:
    locations = [o for s in job.execution_graph.vertices["total"].subtasks for o in s.outputs]
    rows: list[dict[str, Any]] = read_result(locations, 10).to_pylist()
    return rows


def _check_result(job: JobMaster) -> None:
    assert _rows(job) == [{"n": COUNT, "total": sum(range(COUNT))}]


def _run(cluster: RunningCluster, *arguments: str) -> Any:
    """Run a command as a person does, and return what it prints."""
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    done = CliRunner().invoke(cli, [*options, *arguments], standalone_mode=False)
    assert done.exception is None, done.exception
    return " ".join(done.stdout.split())


def test_a_job_starts_with_two_of_four_slots_and_is_rescaled_when_a_task_executor_comes(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = cluster.submit(_graph(cluster, gate))

    def awaited(_fold: Fold) -> int | None:
        for offset, decision in cluster.decisions():
            if any(isinstance(event, ResourcesAwaited) and event.job_id == job_id for event in decision.events):
                return offset
        return None

    at = str(cluster.wait_for(awaited, "it waits"))  # It waits shortly: the past is asked.
    assert "parallelism 4 of 4 (waiting for slots: 2 of 4 are free)" in _run(cluster, "status", job_id, "--at", at)
    _wait_until_run(gate, 2, attempt=1)
    shown = "parallelism 2 of 4 (rescaled when more slots are free, unless a subtask has finished before)"
    assert f"numbers: {shown}" in _run(cluster, "status", job_id)
    assert shown in _run(cluster, "why", job_id)
    cluster.start_task_executor("two", slots=2)
    _wait_until_run(gate, 4, attempt=2)
    Path(f"{gate}.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    _check_result(job)
    assert (job.restarts.count, job.exceptions.root_count) == (0, 0)
    events = cluster.events_of(job_id)
    assert [(e.from_parallelism, e.to_parallelism, e.reason) for e in events if isinstance(e, JobRescaled)] == [
        (4, 2, RescaleReason.FEWER_SLOTS),
        (2, 4, RescaleReason.MORE_SLOTS),
    ]
    assert not [e for e in events if isinstance(e, RestartScheduled)]
    assert cluster.stop("two") == 0


def test_after_kill_9_of_a_task_executor_a_job_goes_on_with_what_is_left(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cluster.start_task_executor("three", slots=2)
    job_id = cluster.submit(_graph(cluster, gate))
    _wait_until_run(gate, 4, attempt=1)
    cluster.kill("three")
    _wait_until_run(gate, 2, attempt=2)
    Path(f"{gate}.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    _check_result(job)
    assert [e.reason for e in cluster.events_of(job_id) if isinstance(e, JobRescaled)] == [RescaleReason.FEWER_SLOTS]


def test_a_user_rescales_a_job_of_the_default_scheduler_which_else_stays_as_its_graph_says(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = cluster.submit(_graph(cluster, gate, scheduler="default"))
    wait_until(lambda: _running(gate, 1) == ["4", "4"], "two of four run", JOB_TIMEOUT_S)
    assert not [e for e in cluster.events_of(job_id) if isinstance(e, JobRescaled | RescaleScheduled | ResourcesAwaited)]
    answer = json.loads(_run(cluster, "rescale", job_id, "numbers", "3", "--json"))
    assert (answer["job_id"], answer["vertex_id"], answer["parallelism"]) == (job_id, "numbers", 3)
    wait_until(lambda: _running(gate, 2) == ["3", "3"], "two of three run", JOB_TIMEOUT_S)

    async def rescale_with_a_wrong_and_the_right_token() -> None:
        async with AsyncJobMasterGateway(cluster.access, job_id=job_id) as gateway:
            with pytest.raises(RequestRefused) as refused:
                await gateway.rescale_job("numbers", 200)
            assert refused.value.code == "ParallelismOutOfRange"
            await gateway.rescale_job("numbers", 2)
            gateway.job_master_id = "somebody"
            with pytest.raises(FencingTokenMismatch):
                await gateway.rescale_job("numbers", 1)

    asyncio.run(rescale_with_a_wrong_and_the_right_token())
    _wait_until_run(gate, 2, attempt=3)
    Path(f"{gate}.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    _check_result(job)
    with JobMasterGateway(cluster.access, job_id=job_id) as gateway:
        assert {v.vertex_id: (v.parallelism, v.wanted_parallelism) for v in gateway.request_job().vertices} == {
            "numbers": (2, 2),
            "total": (1, 1),
        }
        with pytest.raises(RequestRefused) as refused:
            gateway.rescale_job("numbers", 3)
        assert refused.value.code == "JobTerminated"


def test_a_reactive_job_follows_the_slots_of_a_cluster_up_and_down(bootstrap: str, cluster_id: str, spark: str, tmp_path: Path) -> None:
    reactive = RunningCluster(bootstrap, cluster_id, tmp_path, **{"scheduler-mode": "reactive", "spark.remote": spark})
    gate = tmp_path / "gate"
    try:
        reactive.start_master()
        reactive.start_task_executor("one", slots=2)
        job_id = reactive.submit(_graph(reactive, gate))
        _wait_until_run(gate, 2, attempt=1)
        reactive.start_task_executor("two", slots=3)
        _wait_until_run(gate, 5, attempt=2)
        reactive.kill("two")
        _wait_until_run(gate, 2, attempt=3)
        Path(f"{gate}.go").touch()
        job = reactive.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
        totals = _rows(job)
        assert len(totals) == 2, "the vertex behind it uses all slots as well"
        assert (sum(row["n"] for row in totals), sum(row["total"] for row in totals)) == (COUNT, sum(range(COUNT)))
    finally:
        reactive.close()

"""A whole cluster ends in order, with real processes, their exit codes, and a kill -9 of the leader in the middle; and it starts again."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.graphs import idle_graph
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import (
    ApplicationStatusRecorded,
    ClusterStarted,
    ClusterStopped,
    JobSubmitted,
    TaskManagerDisconnected,
    TaskManagerLost,
)
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterShuttingDown
from eventflink.model.statuses import ApplicationStatus, ExecutionState, JobStatus
from tests.support.running_cluster import EAGER, TIMEOUT_S, RunningCluster, is_alive, wait_until

pytestmark = pytest.mark.slow


def _exit_code(cluster: RunningCluster, name: str) -> int:
    """Wait until a process has ended by itself."""
    return cluster.processes.pop(name).wait(TIMEOUT_S)


def _events(cluster: RunningCluster, *kinds: type[Any]) -> list[Any]:
    return [e for _, d in cluster.decisions() for e in d.events if isinstance(e, kinds)]


def test_a_shutdown_goes_on_when_its_leader_is_killed_and_its_masters_end_with_its_exit_code(
    bootstrap: str, cluster_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path)
    gate = tmp_path / "gate"
    try:
        cluster.start_master("first")
        cluster.start_task_executor("tm")
        cluster.start_standby("second")
        cluster.start_standby("third")
        quick = {"id": "quick", "python": "user_tasks:noop"}
        waits = {"id": "waits", "python": "user_tasks:wait_for_file", "parameters": {"path": str(gate)}}
        job_id = cluster.submit(cluster.graph(quick, waits))
        noted = gate.with_name("gate.0.1")
        wait_until(lambda: noted.exists() and noted.read_text(), "the task waits")
        cluster.wait_for(
            lambda fold: not fold.master.dispatcher.jobs[job_id].execution_graph.vertices["quick"].unfinished_subtasks, "quick has finished"
        )
        _shut_down_over_a_fall(cluster, capsys)
        assert _exit_code(cluster, "shutdown") == ExitCode.OK, cluster.output("shutdown")
        assert _exit_code(cluster, "tm") == 0, cluster.output("tm")
        assert [_exit_code(cluster, name) for name in ("second", "third")] == [163, 163], "1443 in eight bits"
        assert any("ApplicationStatusRecorded status=FAILED" in cluster.output(name) for name in ("second", "third"))
        assert not is_alive(int(noted.read_text()))
        assert cluster.job(job_id).status is JobStatus.SUSPENDED
        assert _events(cluster, ApplicationStatusRecorded) == [ApplicationStatusRecorded(ApplicationStatus.FAILED, "as the test wanted")]
        assert len(_events(cluster, ClusterStopped)) == len(_events(cluster, JobSubmitted)) == 1
        _begin_anew(cluster, job_id, gate)
    finally:
        cluster.close()


def _shut_down_over_a_fall(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Ask for the end, and kill the leader while a TaskExecutor that is frozen keeps that from coming."""
    cluster.pause("tm")
    cluster.start("shutdown", "shutdown", "--status", "FAILED", "--diagnostics", "as the test wanted", "--wait")
    cluster.wait_for(lambda fold: fold.master.shutdown.is_under_way, "it is being shut down")
    with DispatcherGateway(cluster.access) as dispatcher:
        with pytest.raises(ClusterShuttingDown, match="runs no more jobs"):
            dispatcher.submit_job(idle_graph(), "late")
        with pytest.raises(ClusterShuttingDown):
            dispatcher.shut_down_cluster(cancel_jobs=True)
    cluster.kill("first")
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "status"]) == ExitCode.OK
    assert "is being shut down as FAILED" in capsys.readouterr().out
    cluster.resume("tm")


def _begin_anew(cluster: RunningCluster, job_id: str, gate: Path) -> None:
    """Start a master on the same log: the job continues with what had not finished."""
    cluster.start_master("fourth")
    cluster.wait_for(lambda fold: not fold.master.shutdown.is_under_way, "it starts again")
    assert _events(cluster, ClusterStarted) == [ClusterStarted(ApplicationStatus.FAILED, 1)]
    cluster.start_task_executor("tm")
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    vertices = job.execution_graph.vertices
    assert (vertices["quick"].subtasks[0].attempt, vertices["waits"].subtasks[0].attempt > 1) == (1, True)
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "shutdown", "--wait"]) == ExitCode.OK
    assert [_exit_code(cluster, name) for name in ("tm", "fourth")] == [0, 0]
    assert _events(cluster, TaskManagerDisconnected)[-1].task_manager_id == "tm"


def test_a_frozen_task_executor_does_not_hold_the_shutdown_for_ever_and_jobs_are_cancelled_where_that_is_wanted(
    bootstrap: str, cluster_id: str, tmp_path: Path
) -> None:
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path, **EAGER)
    try:
        cluster.start_master("first")
        cluster.start_task_executor("tm")
        job_id = cluster.run_task("wait_for_file", path=str(tmp_path / "gate"))
        cluster.wait_for_running(job_id)
        cluster.pause("tm")
        with DispatcherGateway(bootstrap, cluster_id) as dispatcher:
            dispatcher.shut_down_cluster(ApplicationStatus.UNKNOWN, cancel_jobs=True)
        assert _exit_code(cluster, "first") == 165, "1445 in eight bits"
        job = cluster.job(job_id)
        assert (job.status, next(job.execution_graph.subtasks()).state) == (JobStatus.CANCELED, ExecutionState.CANCELED)
        assert [e.task_manager_id for e in _events(cluster, TaskManagerLost)] == ["tm"]
        cluster.resume("tm")
        assert _exit_code(cluster, "tm") == 0, "it reads that it was to stop, and comes back as no new instance"
    finally:
        cluster.close()

"""Tasks that hang are ended at their limits by whoever leads then, and their processes are gone, though they do not listen to SIGTERM."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import GlobalFailureOccurred, LeadershipGranted, TaskCancellationRequested, TaskFailed, TaskFinished
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
WAIT_S = 360

CODE = """
import os
import pathlib
import signal
import time

HERE = pathlib.Path({here!r})


def hang(context):
    if context.attempt > context.parameters["hanging"]:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    written = HERE / f"{{context.job_id}}-{{context.attempt}}.part"
    written.write_text(str(os.getpid()))
    written.rename(written.with_suffix(""))
    while True:
        time.sleep(3600)
"""


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters, of which one leads, and a TaskExecutor."""
    with running_cluster(bootstrap, tmp_path / "cluster") as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=2)
        yield running


def _hung(directory: Path, name: str) -> psutil.Process:
    """Return the process of an attempt that hangs."""
    wait_until((directory / name).exists, f"{name} hangs", WAIT_S)
    return psutil.Process(int((directory / name).read_text(encoding="ascii")))


def _job(code: str, job_id: str, hanging: int, vertex_limit: str | None, job_limit: str | None) -> JobGraph:
    """Return a job of one task, whose first attempts hang, so many of them."""
    vertex: dict[str, Any] = {"id": "a", "python": "jobs:hang", "parameters": {"hanging": hanging}}
    document: dict[str, Any] = {"name": job_id, "restart_strategy": {"type": "fixed-delay", "attempts": 1, "delay_ms": 100}}
    vertex |= {"time_limit": vertex_limit} if vertex_limit is not None else {}
    document |= {"time_limit": job_limit} if job_limit is not None else {}
    return parse_job_graph(document | {"vertices": [vertex], "code_archives": [code]}, job_id)


def test_a_hanging_task_ends_at_its_limit_whatever_leader_dies_before(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(CODE.format(here=str(tmp_path)), encoding="utf-8")
    code = cluster.user_code(tmp_path / "jobs.py")
    cluster.submit(_job(code, "retried", 1, "15s", None), "retried")
    cluster.submit(_job(code, "late", 9, None, "50s"), "late")
    hung = [_hung(tmp_path, name) for name in ("retried-1", "late-1")]
    with DispatcherGateway(cluster.access) as gateway:
        cluster.kill(gateway.find_leader().master_id)
        capsys.readouterr()
        assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "status", "late"]) == ExitCode.OK
        assert re.search(r"time limit: 50s, \d+ s left: it fails at 20", capsys.readouterr().out)
        retried, late = (gateway.request_job_result(job_id, timeout_s=WAIT_S) for job_id in ("retried", "late"))
    assert (retried.status, late.status) == (JobStatus.FINISHED, JobStatus.FAILED)
    assert late.cause is not None
    assert late.cause.failure_type == "JobTimeLimitExceeded"
    assert not [process for process in hung if process.is_running()]
    of_retried = cluster.events_of("retried")
    [failed] = [event for event in of_retried if isinstance(event, TaskFailed)]
    [finished] = [event for event in of_retried if isinstance(event, TaskFinished)]
    assert (failed.attempt, failed.cause.failure_type, finished.attempt) == (1, "TaskTimeLimitExceeded", 2)
    decided = [(decision.leader_id, type(event)) for _, decision in cluster.decisions() for event in decision.events]
    [*_, successor] = [leader for leader, kind in decided if kind is LeadershipGranted]
    assert {leader for leader, kind in decided if kind in (TaskCancellationRequested, GlobalFailureOccurred)} == {successor}
    [shown] = cluster.exceptions_of("retried")["exceptions"]
    assert "raise the vertex's 'time_limit'" in shown["cause"]["message"]

"""Closing vertices run in processes of their own at the end of a job, whatever leader dies meanwhile, and the job ends after them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import JobClosingAborted, JobClosingStarted
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
WAIT_S = 360

CODE = """
import pathlib
import time

HERE = pathlib.Path({here!r})


def fails(context):
    raise ValueError("no such column")


def waits(context):
    HERE.joinpath("waits").touch()
    time.sleep(3600)


def end(context):
    HERE.joinpath("begun").touch()
    while not HERE.joinpath("go on").exists():
        time.sleep(0.05)
    outcome = context.outcome
    HERE.joinpath("note").write_text(f"{{outcome.status}} {{outcome.vertex_id}} {{outcome.failure_type}} {{outcome.message}}")


def hangs(context):
    HERE.joinpath("hangs").touch()
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


def _job(code: str, task: str, *closing: dict[str, Any]) -> JobGraph:
    document = {
        "name": task,
        "vertices": [{"id": "a", "python": f"jobs:{task}"}, *closing],
        "restart_strategy": {"type": "none"},
        "code_archives": [code],
    }
    return parse_job_graph(document, task)


@pytest.mark.rule("P25")
def test_a_clean_up_runs_after_a_failure_and_after_a_cancellation_whatever_leader_dies(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(CODE.format(here=str(tmp_path)), encoding="utf-8")
    code = cluster.user_code(tmp_path / "jobs.py")
    with DispatcherGateway(cluster.access) as gateway:
        cluster.submit(_job(code, "fails", {"id": "end", "python": "jobs:end", "runs": "on-failure"}), "failed")
        wait_until((tmp_path / "begun").exists, "the clean-up has begun", WAIT_S)
        cluster.kill(gateway.find_leader().master_id)
        (tmp_path / "go on").touch()
        assert gateway.request_job_result("failed", timeout_s=WAIT_S).status is JobStatus.FAILED
        assert (tmp_path / "note").read_text(encoding="utf-8") == "FAILED a ValueError no such column"

        cluster.submit(_job(code, "waits", {"id": "end", "python": "jobs:hangs", "runs": "always"}), "cancelled")
        wait_until((tmp_path / "waits").exists, "the task runs", WAIT_S)
        gateway.cancel_job("cancelled")
        wait_until((tmp_path / "hangs").exists, "the clean-up has begun", WAIT_S)
        capsys.readouterr()
        named = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
        assert run([*named, "status", "cancelled"]) == ExitCode.OK
        assert "end: it runs always, and the others came out as CANCELED" in " ".join(capsys.readouterr().out.split())
        assert run([*named, "why", "cancelled/end[0]"]) == ExitCode.OK
        why = " ".join(capsys.readouterr().out.split())
        assert "JobClosingStarted cancelled it ends as CANCELED" in why
        assert "it runs always, and the others came out as CANCELED" in why
        assert run([*named, "cancel", "cancelled", "--closing"]) == ExitCode.OK
        assert gateway.request_job_result("cancelled", timeout_s=WAIT_S).status is JobStatus.CANCELED
    [started] = [event for event in cluster.events_of("failed") if isinstance(event, JobClosingStarted)]
    assert started.outcome.status is JobStatus.FAILED
    [aborted] = [event for event in cluster.events_of("cancelled") if isinstance(event, JobClosingAborted)]
    assert aborted.reason.startswith("cancelled by")

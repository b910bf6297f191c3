"""A chain of tasks on a real Spark fails at a later one; its cause is mended, and it runs again from there, while leaders are killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import TaskDeployed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import NothingFailed
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 360

CODE = """
import pathlib
import time

HERE = pathlib.Path({here!r})


def numbers(context):
    with open(HERE / "ran", "a") as ran:
        ran.write("numbers ")
    return context.spark.range(10)


def scaled(context):
    rows = context.inputs["doubled"]
    factor = int((HERE / "factor").read_text())
    (HERE / "waits").touch()
    while not (HERE / "gate").exists():
        time.sleep(0.05)
    return rows.selectExpr(f"id * {{factor}} AS id")
"""

GRAPH = {
    "name": "chain",
    "vertices": [
        {"id": "numbers", "python": "job:numbers"},
        {"id": "doubled", "sql": "SELECT id * 2 AS id FROM numbers"},
        {"id": "scaled", "python": "job:scaled"},
        {"id": "total", "sql": "SELECT sum(id) AS total FROM scaled"},
    ],
    "edges": [{"from": "numbers", "to": "doubled"}, {"from": "doubled", "to": "scaled"}, {"from": "scaled", "to": "total"}],
    "restart_strategy": {"type": "none"},
}


@pytest.fixture
def cluster(bootstrap: str, spark: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters, of which one leads, and a TaskExecutor."""
    with running_cluster(bootstrap, tmp_path / "cluster", **{"spark.remote": spark}) as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=2)
        yield running


def _kill_the_leader(cluster: RunningCluster, successor: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        cluster.kill(gateway.find_leader().master_id)
    cluster.start_standby(successor)


def _deployed(cluster: RunningCluster, job_id: str) -> list[str]:
    return [event.vertex_id for event in cluster.events_of(job_id) if isinstance(event, TaskDeployed)]


def test_a_chain_runs_again_from_its_failure_and_gives_the_result_of_a_full_run(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(CODE.format(here=str(tmp_path)))
    (tmp_path / "job.json").write_text(json.dumps(GRAPH))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    submit = ["submit", str(tmp_path / "job.json"), "--code", str(tmp_path / "job.py"), "--job-id", "chain-1"]
    assert run([*options, *submit]) == ExitCode.NEGATIVE
    _kill_the_leader(cluster, "third")  # The next one decides what is reused, by the log alone.
    (tmp_path / "factor").write_text("3")
    assert run([*options, "rerun", "chain-1", "--failed", "--job-id", "chain-2", "--detach"]) == ExitCode.OK
    wait_until((tmp_path / "waits").exists, "the mended task runs", JOB_TIMEOUT_S)
    _kill_the_leader(cluster, "fourth")
    (tmp_path / "gate").touch()
    cluster.wait_for_status("chain-2", JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _deployed(cluster, "chain-2") == ["scaled", "total"]
    capsys.readouterr()
    assert run([*options, "status", "chain-2"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "doubled is reused: it finished in 'chain-1', and nothing that it depends on has changed" in shown
    assert "scaled runs: it was FAILED when 'chain-1' ended" in shown
    assert run([*options, "why", "chain-2"]) == ExitCode.OK
    assert "its input 'scaled' runs" in capsys.readouterr().out.replace("\n", " ")
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        full = client.job("chain-1").rerun("chain-3")
        assert full.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
        rows: list[Any] = [client.job(job_id).result().to_arrow().to_pylist() for job_id in ("chain-2", "chain-3")]
        assert rows == [[{"total": 270}]] * 2
        assert (tmp_path / "ran").read_text().split() == ["numbers"] * 2, "once in the first job, and once in the full run"
        with pytest.raises(NothingFailed):
            full.rerun(failed=True)
        last = client.job("chain-1").rerun("chain-4", from_vertices=["total"])
        assert last.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
    assert _deployed(cluster, "chain-4") == ["scaled", "total"], "what had not finished runs as well"

"""A chain of tasks on a real Spark fails at a later one; its code is mended, and it runs again from there, while leaders are killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.client.tries import Tries
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
    factor = {factor}
    (HERE / "waits").touch()
    while not (HERE / "gate").exists():
        time.sleep(0.05)
    return rows.selectExpr(f"id * {{factor}} AS id")
"""

GRAPH: dict[str, Any] = {
    "name": "chain",
    "vertices": [
        {"id": "numbers", "python": "job:numbers"},
        {"id": "doubled", "sql": "SELECT id * 2 AS id FROM numbers"},
        {"id": "scaled", "python": "job:scaled"},
        {"id": "total", "sql": "SELECT sum(id) AS total FROM scaled"},
    ],
    "edges": [{"from": "numbers", "to": "doubled"}, {"from": "doubled", "to": "scaled"}, {"from": "scaled", "to": "total"}],
    "restart_strategy": {"type": "none"},
    "keep": "1h",
}

COUNTED = GRAPH | {"vertices": [*GRAPH["vertices"][:-1], {"id": "total", "sql": "SELECT sum(id) AS total, count(*) AS rows FROM scaled"}]}


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


@pytest.mark.rule("P27")
def test_a_chain_runs_again_from_its_failure_and_gives_the_result_of_a_full_run(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, document = tmp_path / "job.py", tmp_path / "job.json"
    code.write_text(CODE.format(here=str(tmp_path), factor="1 / 0"))
    document.write_text(json.dumps(GRAPH))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    assert run([*options, "submit", str(document), "--code", str(code), "--job-id", "chain-1"]) == ExitCode.NEGATIVE
    assert capsys.readouterr().err.rstrip().endswith("to run what had not finished: 'eventflink rerun chain-1 --failed'")
    _kill_the_leader(cluster, "third")  # The next one decides what is reused, by the log alone.
    code.write_text(CODE.format(here=str(tmp_path), factor="3"))
    assert run([*options, "rerun", "chain-1", "--failed", "--code", str(code), "--job-id", "chain-2", "--detach"]) == ExitCode.OK
    wait_until((tmp_path / "waits").exists, "the mended task runs", JOB_TIMEOUT_S)
    _kill_the_leader(cluster, "fourth")
    (tmp_path / "gate").touch()
    cluster.wait_for_status("chain-2", JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _deployed(cluster, "chain-2") == ["scaled", "total"]
    capsys.readouterr()
    assert run([*options, "status", "chain-2"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "numbers is reused: it finished in 'chain-1', and nothing that it depends on has changed" in shown
    assert "scaled runs: its code changed since 'chain-1'" in shown
    assert run([*options, "why", "chain-2"]) == ExitCode.OK
    assert "its input 'scaled' runs" in capsys.readouterr().out.replace("\n", " ")
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        full = client.job("chain-2").rerun("chain-3")
        assert full.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
        rows: list[Any] = [client.job(job_id).result().to_arrow().to_pylist() for job_id in ("chain-2", "chain-3")]
        assert rows == [[{"total": 270}]] * 2
        assert (tmp_path / "ran").read_text().split() == ["numbers"] * 2, "once in the first job, and once in the full run"
        with pytest.raises(NothingFailed):
            full.rerun(failed=True)
        counted = full.rerun("chain-4", failed=True, document=COUNTED)
        assert counted.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
        assert counted.result().to_arrow().to_pylist() == [{"total": 270, "rows": 10}]
        last = client.job("chain-1").rerun("chain-5", from_vertices=["total"], document=document, code=[code])
        assert last.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
        tries = Tries("airflow", ("nightly", "chain", "run"))
        for number, factor, status in ((1, "1 / 0", JobStatus.FAILED), (2, "3", JobStatus.FINISHED)):
            code.write_text(CODE.format(here=str(tmp_path), factor=factor))
            job = tries.job_of(client, number, 1, document, parameters={}, code=[code])
            assert job.wait(timeout_s=JOB_TIMEOUT_S).status is status, "another scheduler tries again, with code that was mended meanwhile"
    assert _deployed(cluster, "chain-4") == ["total"], "the statement is another one, and the code is that of the job before"
    assert _deployed(cluster, "chain-5") == ["scaled", "total"], "what had not finished, and has other code, runs as well"
    assert _deployed(cluster, tries.job_id(2)) == ["scaled", "total"]
    assert run([*options, "rerun", "chain-4", "--failed", "--code", str(code)]) == ExitCode.NEGATIVE
    capsys.readouterr()
    assert run([*options, "rerun", "chain-4", str(document), "--failed", "--job-id", "chain-6"]) == ExitCode.OK
    assert "warning" not in capsys.readouterr().err, "its code is that of the ended job"
    assert _deployed(cluster, "chain-6") == ["total"]

"""A list of what there is to do, and a real task on a real Spark for each row of it, while leaders and a TaskExecutor are killed."""

from pathlib import Path
from typing import Any

import pytest

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import JobRescaled, TaskFinished
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus, RescaleReason
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.rule("P24")]
JOB_TIMEOUT_S = 360
FILES = 5

CODE = """
import pathlib
import time

HERE = pathlib.Path({here!r})


def wait_for(gate):
    while not (HERE / gate).exists():
        time.sleep(0.02)


def files(context):
    (HERE / "listing").touch()
    wait_for("listed")
    return context.spark.range(context.parameters["count"]).selectExpr("concat('file-', id) AS path").repartition(3)


def load(context):
    path = context.row["path"]
    note = HERE / f".{{path}}-{{context.attempt}}"
    note.write_text(str(context.subtask_index))
    note.rename(note.with_name(note.name[1:]))
    wait_for("loaded")
    return context.spark.createDataFrame([(path, context.subtask_index)], "path STRING, subtask INT")
"""


def _document(count: int) -> dict[str, Any]:
    return {
        "name": f"{count} files",
        "vertices": [
            {"id": "files", "python": "job:files", "parameters": {"count": count}},
            {"id": "load", "python": "job:load", "max_parallelism": FILES},
            {"id": "total", "sql": "SELECT count(*) AS files FROM load"},
        ],
        "edges": [
            {"from": "files", "to": "load", "ship": "each"},
            {"from": "load", "to": "total", "schema": "path STRING, subtask INT"},
        ],
        "restart_strategy": {"type": "fixed-delay", "attempts": 5, "delay_ms": 100},
        "keep": "1h",
    }


def _kill_the_leader(cluster: RunningCluster, successor: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        cluster.kill(gateway.find_leader().master_id)
    cluster.start_standby(successor)


def _finished(cluster: RunningCluster, vertex_id: str) -> int:
    return sum(isinstance(event, TaskFinished) and event.vertex_id == vertex_id for event in cluster.events_of("job"))


def test_each_row_has_its_task_whoever_leads_and_wherever_it_runs(
    bootstrap: str, spark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "job.py"
    code.write_text(CODE.format(here=str(tmp_path)))
    with running_cluster(bootstrap, tmp_path / "cluster", **{"spark.remote": spark}) as cluster:
        cluster.start_master("first")
        cluster.start_standby("second")
        cluster.start_task_executor("tm-1")
        with connect(cluster.bootstrap, cluster.cluster_id) as client:
            handle = client.submit(_document(FILES), code=[code], job_id="job")
            wait_until((tmp_path / "listing").exists, "the files are listed", JOB_TIMEOUT_S)
            assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "status", "job"]) == ExitCode.OK
            assert "a subtask for each row of 'files' when it has finished" in capsys.readouterr().out
            cluster.pause("tm-1")
            (tmp_path / "listed").touch()
            _kill_the_leader(cluster, "third")  # Whoever leads then, hears what was left.
            cluster.resume("tm-1")
            wait_until(lambda: _finished(cluster, "files"), "the list is there", JOB_TIMEOUT_S)
            _kill_the_leader(cluster, "fourth")
            wait_until(lambda: len(list(tmp_path.glob("file-*"))) >= 2, "two rows are loaded at a time", JOB_TIMEOUT_S)
            cluster.kill("tm-1")
            cluster.start_task_executor("tm-2")
            (tmp_path / "loaded").touch()
            assert handle.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
            files, loaded = (handle.result(name).to_arrow().to_pylist() for name in ("files", "load"))
            assert [row["path"] for row in files] == [row["path"] for row in loaded]
            assert [row["subtask"] for row in loaded] == list(range(FILES))
            attempts = {name.name.rpartition("-")[0]: set[str]() for name in tmp_path.glob("file-*")}
            for name in tmp_path.glob("file-*"):
                attempts[name.name.rpartition("-")[0]].add(name.read_text())
            assert attempts == {row["path"]: {str(row["subtask"])} for row in loaded}, "each attempt has the row of its subtask"
            assert handle.result("total").to_arrow().to_pylist() == [{"files": FILES}]
            rescaled = [event for event in cluster.events_of("job") if isinstance(event, JobRescaled)]
            assert [(each.to_parallelism, each.reason) for each in rescaled] == [(FILES, RescaleReason.INPUT_ROWS)]
            none = client.submit(_document(0), code=[code], job_id="none")
            assert none.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
            assert none.result("total").to_arrow().to_pylist() == [{"files": 0}]
            many = client.submit(_document(FILES + 1), code=[code], job_id="many")
            ended = many.wait(timeout_s=JOB_TIMEOUT_S)
            assert ended.status is JobStatus.FAILED
            assert f"'files' has left {FILES + 1} rows, and 'load' may have at most {FILES} subtasks" in str(ended.cause)
            assert not cluster.job("many").restarts.count

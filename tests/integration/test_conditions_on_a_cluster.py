"""Vertices run or are skipped by the rows of another one in processes of their own, whatever leader dies before that is decided."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import TaskScheduled, VertexSkipped
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.conditions import VertexSkip
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import JobStatus, VertexSkipReason
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
WAIT_S = 360

CODE = """
import pathlib
import time

HERE = pathlib.Path({here!r})


def orders(context):
    HERE.joinpath("begun").touch()
    while not HERE.joinpath("go on").exists():
        time.sleep(0.05)
    rows = context.spark.range(3).withColumnRenamed("id", "n")
    return {{"new": rows.where("n > 5"), "old": rows}}


def tell(context):
    HERE.joinpath("told").write_text("nobody bought")
"""


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters, of which one leads, and a TaskExecutor."""
    with running_cluster(bootstrap, tmp_path / "cluster") as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=2)
        yield running


@pytest.mark.rule("P26")
def test_a_branch_is_taken_by_rows_that_were_counted_under_another_leader(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(CODE.format(here=str(tmp_path)), encoding="utf-8")
    document = {
        "name": "branches",
        "vertices": [
            {"id": "orders", "python": "jobs:orders"},
            {"id": "load", "sql": "SELECT * FROM orders", "when": {"rows_of": "orders.new"}},
            {"id": "report", "sql": "SELECT count(*) FROM load"},
            {"id": "tell", "python": "jobs:tell", "when": {"no_rows_of": "orders.new"}},
            {"id": "kept", "sql": "SELECT count(*) AS c FROM orders", "when": {"rows_of": "orders.old"}},
        ],
        "edges": [
            {"from": "orders", "to": "load", "output": "new"},
            {"from": "load", "to": "report"},
            {"from": "orders", "to": "kept", "output": "old"},
        ],
        "code_archives": [cluster.user_code(tmp_path / "jobs.py")],
    }
    with DispatcherGateway(cluster.access) as gateway:
        cluster.submit(parse_job_graph(document, "branches"), "branches")
        wait_until((tmp_path / "begun").exists, "the rows are made", WAIT_S)
        cluster.kill(gateway.find_leader().master_id)
        (tmp_path / "go on").touch()
        assert gateway.request_job_result("branches", timeout_s=WAIT_S).status is JobStatus.FINISHED
    assert (tmp_path / "told").read_text(encoding="utf-8") == "nobody bought"
    events = cluster.events_of("branches")
    assert [event for event in events if isinstance(event, VertexSkipped)] == [
        VertexSkipped("branches", "load", VertexSkip(VertexSkipReason.NO_ROWS, "orders", "new")),
        VertexSkipped("branches", "report", VertexSkip(VertexSkipReason.INPUT_SKIPPED, "load")),
    ]
    assert {event.vertex_id for event in events if isinstance(event, TaskScheduled)} == {"orders", "tell", "kept"}

    named = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    capsys.readouterr()
    assert run([*named, "status", "branches"]) == ExitCode.OK
    status = " ".join(capsys.readouterr().out.split())
    assert "load: it was skipped, for 'orders.new' has left no rows, and it runs when there are some" in status
    assert "report: it was skipped, for 'load', which it reads, was skipped" in status
    assert run([*named, "why", "branches/report[0]"]) == ExitCode.OK
    why = " ".join(capsys.readouterr().out.split())
    assert "SKIPPED" in why
    assert "VertexSkipped branches/report 'load', which it reads, was skipped" in why
    assert run([*named, "runs", "branches"]) == ExitCode.OK
    assert "↷ skipped" in capsys.readouterr().out
    assert run([*named, "result", "branches", "--vertex", "report"]) != ExitCode.OK
    assert "for it was skipped: 'load', which it reads, was skipped" in " ".join(capsys.readouterr().err.split())
    assert run([*named, "result", "branches", "--vertex", "kept"]) == ExitCode.OK
    assert "3" in capsys.readouterr().out

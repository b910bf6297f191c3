"""Jobs whose vertices run on several Sparks: the one of the host, and those that the configuration names (docs/job-graph.md)."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.jobs.result import read_result
from eventflink.model.attempts import AttemptId
from eventflink.model.spark_engines import shown
from eventflink.model.statuses import JobStatus
from eventflink.taskexecutor.process_events import spark_session_of
from eventflink.taskexecutor.spark_server import ADDRESS_FILE
from eventflink.taskexecutor.task_spark import session_address
from tests.support.running_cluster import EAGER, RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import is_closed

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 240


def engine_at(name: str, spark: str, directory: Path) -> dict[str, str]:
    """Return the keys of an engine at the address of a test's Spark, whose token is in a file."""
    token = directory / f"{name}.token"
    token.write_text(spark.partition("/;token=")[2])
    token.chmod(0o600)
    return {f"spark.engines.{name}.remote": shown(spark), f"spark.engines.{name}.token": f"${{file:{token}}}"}


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster with a Spark of its host, and one elsewhere that is called `lake`."""
    directory = tmp_path_factory.mktemp("engines")
    settings = engine_at("lake", spark, directory) | {"spark.engines.lake.settings.spark.eventflink.test.engine": "lake"}
    with running_cluster(bootstrap, directory, **EAGER, **settings) as running:
        running.start_master()
        running.start_task_executor()
        yield running


def test_two_vertices_of_a_job_run_on_two_sparks_with_the_settings_of_each_and_read_each_others_rows(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {"id": "first", "python": "user_tasks:numbers_of_engine", "engine": "lake"}
    second = {"id": "second", "python": "user_tasks:numbers_of_engine"}
    total = {"id": "total", "sql": "SELECT count(*) AS n, sum(a.id) AS total, a.engine AS x, b.engine AS y, a.app = b.app AS same "
             "FROM first a JOIN second b ON a.id = b.id GROUP BY ALL", "engine": "lake"}  # fmt: skip
    edges = [{"from": "first", "to": "second"}, {"from": "first", "to": "total"}, {"from": "second", "to": "total"}]
    job_id = cluster.submit(cluster.graph(first, second, total, edges=edges))
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    [output] = job.execution_graph.vertices["total"].subtasks[0].outputs
    assert read_result([output], 10).to_pylist() == [{"n": 100, "total": sum(range(100)), "x": "lake", "y": "", "same": False}]
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "status", job_id, "--json"]) == ExitCode.OK
    vertices = json.loads(capsys.readouterr().out)["vertices"]
    assert {each["vertex_id"]: each["engine"] for each in vertices} == {"first": "lake", "second": None, "total": "lake"}


def test_an_engine_that_no_task_executor_has_is_refused_with_those_that_there_are(cluster: RunningCluster) -> None:
    job_id = cluster.submit(cluster.graph({"id": "task", "python": "user_tasks:noop", "engine": "lakes"}))
    cause = cluster.wait_for_status(job_id, JobStatus.FAILED).cause
    assert cause is not None
    assert cause.failure_type == "SparkUnavailable"
    assert "Spark engine 'lakes' not found: this TaskExecutor has local, lake; " in cause.message


def test_a_token_is_in_no_log_and_in_no_command_line(cluster: RunningCluster, spark: str) -> None:
    token = spark.partition("/;token=")[2]
    for process in cluster.processes.values():
        assert token not in str(process.args)
    logs = [path for path in cluster.directory.rglob("*") if path.is_file() and path.suffix in (".log", ".txt", ".out")]
    assert logs
    assert [path for path in logs if token in path.read_text(errors="replace")] == []


@pytest.mark.rule("P15")
def test_the_next_attempt_ends_what_a_lost_one_computes_in_a_spark_that_its_engine_does_not_name_any_more(
    cluster: RunningCluster, spark: str, tmp_path: Path
) -> None:
    """The next host has another Spark under that name, and the former one under another: it is known by its address (P15)."""
    of_host = (cluster.directory / "data" / "run" / ADDRESS_FILE).read_text(encoding="utf-8").strip()
    moved: dict[str, Any] = engine_at("lake", of_host, tmp_path) | engine_at("former", spark, tmp_path)
    path = tmp_path / "begun"
    query: dict[str, Any] = {"id": "task", "python": "user_tasks:endless_query", "parameters": {"path": str(path)}, "engine": "lake"}
    restarts = {"type": "fixed-delay", "attempts": 1, "delay_ms": 100}
    job_id = cluster.submit(cluster.graph(query, restart_strategy=restarts))
    wait_until(path.with_name("begun.0.1").exists, "the first attempt computes", JOB_TIMEOUT_S)
    cluster.start_task_executor("moved", **moved)
    [first] = cluster.job(job_id).execution_graph.vertices["task"].subtasks[0].executions
    assert first.spark_address == shown(spark)
    cluster.pause("tm")
    wait_until(path.with_name("begun.0.2").exists, "the second attempt computes", JOB_TIMEOUT_S)
    abandoned = session_address(spark, spark_session_of(first.instance_id, AttemptId(job_id, "task", 0, 1)))
    wait_until(partial(is_closed, abandoned), "the session of the first attempt is closed", JOB_TIMEOUT_S)
    executions = cluster.job(job_id).execution_graph.vertices["task"].subtasks[0].executions
    assert [each.spark_address for each in executions] == [shown(spark), shown(of_host)]
    cluster.resume("tm")
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "cancel", job_id]) == ExitCode.OK
    cluster.wait_for_status(job_id, JobStatus.CANCELED, JOB_TIMEOUT_S)

"""A Spark that `spark.remote` names is asked by `doctor` what tasks need of it, by one short job (docs/job-graph.md)."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.cli.spark_check import check_spark
from eventflink.jobs.required_packages import Requirements, find_packages
from eventflink.jobs.result import read_result
from eventflink.model.places import Place
from eventflink.model.spark_engines import SparkEngine, shown
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import running_cluster
from tests.support.small_disk import run_on_small_disk
from tests.support.standalone_spark import standalone_spark

pytestmark = pytest.mark.slow


def ask(capsys: pytest.CaptureFixture[str], spark: str, directory: Path) -> dict[str, Any]:
    where = ["-D", f"spark.remote={spark}", "-D", f"data.directory={directory}"]
    assert run([*where, "doctor", "--json"]) in (ExitCode.OK, ExitCode.NEGATIVE)
    findings: dict[str, Any] = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    return findings


def test_a_spark_that_is_as_tasks_need_it_is_said_to_be_so_without_its_token(
    spark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ask(capsys, spark, tmp_path)["spark"]
    assert found["verdict"] == "ok", found
    place = tmp_path / "jobs" / "eventflink"
    assert f"reads and writes {place}" in found["detail"]
    assert ";" in spark
    assert spark.partition("/;")[2] not in json.dumps(found)
    assert list(place.iterdir()) == []


def test_a_spark_that_sees_another_directory_under_the_same_name_fails(spark: str, tmp_path: Path) -> None:
    """Its files are not here, though all of them are written, and it does not find ours."""
    program = (
        "from eventflink.cli.spark_check import *\nprint('found', *check_spark(SparkEngine('', sys.argv[2]), Place(sys.argv[1]), 'x'))"
    )
    lines = run_on_small_disk(tmp_path, program.replace("sys.argv[2]", repr(spark)))
    [found] = [line for line in lines if line.startswith("found")]
    assert found.startswith("found spark failed")
    assert f"it does not read what this process writes to {tmp_path}" in found
    assert "must see the same execution.working-directory" in found


def test_a_spark_that_may_not_write_there_fails_and_one_that_is_not_there_is_said_not_to_answer(
    spark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    found = check_spark(SparkEngine("", spark), Place(str(tmp_path / "taken")), "x")
    assert (found.verdict, "taken" in found.detail) == ("failed", True)
    found = ask(capsys, "sc://localhost:1/;token=hush", tmp_path)["spark"]
    assert found["verdict"] == "failed"
    assert "sc://localhost:1 (spark.remote) does not answer" in found["detail"]
    assert "hush" not in found["detail"]


def test_each_engine_is_asked_by_a_job_of_its_own_and_one_that_does_not_take_its_settings_fails(
    spark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = spark.partition("/;token=")[2]
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    keys = {"data.directory": tmp_path, "spark.engines.gone.remote": "sc://localhost:1"}
    for name, setting in (("lake", "spark.sql.ansi.enabled=false"), ("static", "spark.sql.warehouse.dir=/x")):
        key, _, value = setting.partition("=")
        keys |= {f"spark.engines.{name}.remote": shown(spark), f"spark.engines.{name}.token": f"${{file:{tmp_path}/token}}"}
        keys |= {f"spark.engines.{name}.settings.{key}": value}
    assert run([*[word for key, value in keys.items() for word in ("-D", f"{key}={value}")], "doctor", "--json"]) == ExitCode.NEGATIVE
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["spark"]["detail"].endswith("TaskExecutors of this host share a local server")
    assert found["spark engine lake"]["verdict"] == "ok", found
    assert found["spark engine static"]["verdict"] == "failed"
    assert "its Spark does not take spark.sql.warehouse.dir=/x for a session" in found["spark engine static"]["detail"]
    assert "sc://localhost:1 (spark.engines.gone.remote) does not answer" in found["spark engine gone"]["detail"]
    assert token not in json.dumps(found)


@pytest.mark.soak("eventflink.taskexecutor")
def test_a_job_runs_on_a_cluster_of_spark_that_is_started_as_the_docs_say(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spark").mkdir()
    with standalone_spark(tmp_path / "spark") as spark:
        found = ask(capsys, spark, tmp_path / "cluster")["spark"]
        assert found["verdict"] == "ok", found
        with running_cluster(bootstrap, tmp_path / "cluster", **{"spark.remote": spark}) as cluster:
            cluster.start_master()
            cluster.start_task_executor(slots=2)
            numbers = {"id": "numbers", "python": "user_tasks:numbers", "parallelism": 2, "parameters": {"count": 1_000}}
            total = {"id": "total", "sql": "SELECT count(*) AS n, sum(id) AS total FROM numbers"}
            edges = [{"from": "numbers", "to": "total"}]
            job = cluster.wait_for_status(cluster.submit(cluster.graph(numbers, total, edges=edges)), JobStatus.FINISHED)
            [output] = job.execution_graph.vertices["total"].subtasks[0].outputs
            assert read_result([output], 10).to_pylist() == [{"n": 1_000, "total": sum(range(1_000))}]
            assert not cluster.spark_processes()
            packages = find_packages(Requirements(("numpy==2.2.6",))).read_bytes()
            versions = cluster.graph({"id": "versions", "python": "user_tasks:versions_of_numpy"})
            versions = dataclasses.replace(versions, code_archives=(*versions.code_archives, cluster.upload(packages)))
            job = cluster.wait_for_status(cluster.submit(versions), JobStatus.FINISHED)
            [output] = job.execution_graph.vertices["versions"].subtasks[0].outputs
            assert read_result([output], 10).to_pylist() == [{"task": "2.2.6", "spark": "2.2.6"}]

"""Packages and jars that a job requires, on a real cluster: each job has its own, in its tasks and in what Spark runs for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eventflink
from eventflink.client.cluster import Cluster
from eventflink.model.statuses import JobStatus
from tests.support.rate_jar import write_rate_jar
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360

CODE = """
import time
from pathlib import Path

import numpy


def versions(context):
    from pyspark.sql.functions import lit, udf

    spark = context.spark

    @udf("string", useArrow=False)
    def in_spark(_):
        import numpy

        return numpy.__version__

    others = context.parameters.get("meets")
    if others:  # Both jobs run at once.
        Path(others, context.parameters["name"]).touch()
        while len(list(Path(others).iterdir())) < 2:
            time.sleep(0.1)
    return spark.range(2).select(lit(numpy.__version__).alias("task"), in_spark("id").alias("spark"))


def stream(context):
    from pyspark.sql.functions import udf

    rows = context.inputs["source"]

    @udf("string", useArrow=False)
    def in_spark(_):
        import numpy

        return numpy.__version__

    return rows.withColumn("spark", in_spark("number"))


def registers(context):
    from pyspark.sql.datasource import DataSource

    class Numbers(DataSource):
        @classmethod
        def name(cls):
            return "numbers"

    context.spark.dataSource.register(Numbers)


def processes(context):
    context.spark.range(1).groupBy("id").transformWithStateInPandas(None, "id LONG", "append", "none")


def rated(context):
    context.spark.udf.registerJavaFunction("rated", "Rate", "bigint")
    return context.spark.sql("SELECT rated(id) AS amount FROM range(1, 4)")


def parent(context):
    import os

    Path(context.parameters["told"]).write_text(f"{os.getpid()} {os.getppid()}")
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.start_master()
        running.start_task_executor()
        yield running


@pytest.fixture
def connected(cluster: RunningCluster) -> Iterator[Cluster]:
    with eventflink.connect(cluster.bootstrap, cluster.cluster_id) as found:
        yield found


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "needs_packages.py"
    file.write_text(CODE)
    return file


def document(function: str, requirements: Any = None, **parameters: str) -> dict[str, Any]:
    """Return a job of one vertex."""
    vertex = {"id": "v", "python": f"needs_packages:{function}", "parameters": parameters}
    job = {"name": function, "vertices": [vertex], "restart_strategy": {"type": "none"}}
    return job if requirements is None else {**job, "requirements": requirements}


def test_jobs_with_versions_that_exclude_each_other_run_at_once(
    cluster: RunningCluster, connected: Cluster, code: Path, tmp_path: Path
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    locked = tmp_path / "requirements.txt"
    locked.write_text("# what this job was tested with\nnumpy==2.2.6\n")
    older = {"2.2.6": str(locked), "2.3.5": ["numpy==2.3.5", "humanize"]}
    jobs = {
        version: connected.submit(document("versions", requires, meets=str(meeting), name=version), code=[code])
        for version, requires in older.items()
    }
    plain = connected.submit(document("versions"), code=[code])
    for version, job in {**jobs, np.__version__: plain}.items():
        cluster.wait_for_status(job.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
        assert job.result().to_arrow().to_pylist() == [{"task": version, "spark": version}] * 2


def test_a_stream_has_them_in_its_functions_and_writes_each_row_once(cluster: RunningCluster, connected: Cluster, code: Path) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, [{"number": number} for number in range(20)])
    job = document("stream", ["numpy==2.2.6"])
    job["vertices"][0]["stream"] = {
        "sources": {"source": {"kafka": {"topic": source}, "format": "json", "schema": "number BIGINT"}},
        "sink": {"kafka": {"topic": target}, "format": "json"},
        "trigger": {"available_now": True},
    }
    submitted = connected.submit(job, code=[code])
    cluster.wait_for_status(submitted.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    reader = CommittedReader(cluster.bootstrap, target)
    rows = reader.read_until(lambda rows: len(rows) >= 20)
    reader.close()
    assert sorted((row["number"], row["spark"]) for row in rows) == [(number, "2.2.6") for number in range(20)]


def test_jobs_have_a_class_of_one_name_in_jars_of_their_own(
    cluster: RunningCluster, connected: Cluster, code: Path, tmp_path: Path
) -> None:
    def job(rate: int, **more: Any) -> dict[str, Any]:
        statement = {"id": "said", "sql": "SELECT java_method('Rate', 'rate') AS rate"}
        rows = {"id": "rows", "python": "needs_packages:rated"}
        jar = write_rate_jar(tmp_path / str(rate) / "rates.jar", rate)
        return {"name": "rated", "vertices": [statement, rows], "jars": [str(jar)], "keep": "1h", **more}

    jobs = {rate: connected.submit(job(rate), code=[code]) for rate in (2, 3)}
    for rate, submitted in jobs.items():
        cluster.wait_for_status(submitted.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
        assert submitted.result("said").to_arrow().to_pylist() == [{"rate": str(rate)}]
        assert sorted(row["amount"] for row in submitted.result("rows").to_arrow().to_pylist()) == [rate, 2 * rate, 3 * rate]
    again = jobs[2].rerun(failed=True, document=job(4), code=[code])
    cluster.wait_for_status(again.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)
    assert again.result("said").to_arrow().to_pylist() == [{"rate": "4"}], "with another jar the statement is another one"


@pytest.mark.parametrize("function", ["registers", "processes"])
def test_what_spark_would_run_with_another_version_is_refused(
    cluster: RunningCluster, connected: Cluster, code: Path, function: str
) -> None:
    refused = connected.submit(document(function, ["numpy==2.2.6", "humanize"]), code=[code])
    cause = cluster.wait_for_status(refused.job_id, JobStatus.FAILED, SPARK_TIMEOUT_S).cause
    assert cause is not None
    assert cause.failure_type == "CodeUnusable"
    assert f"not with the packages of the job: numpy 2.2.6 (here {np.__version__});" in cause.message


def test_a_python_data_source_beside_packages_that_are_not_installed_otherwise_is_taken(
    cluster: RunningCluster, connected: Cluster, code: Path
) -> None:
    job = connected.submit(document("registers", ["humanize"]), code=[code])
    cluster.wait_for_status(job.job_id, JobStatus.FINISHED, SPARK_TIMEOUT_S)


def test_a_task_with_packages_dies_with_its_task_executor(cluster: RunningCluster, connected: Cluster, code: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    connected.submit(document("parent", ["humanize"], told=str(told)), code=[code])
    task, _ = wait_until(lambda: told.exists() and told.read_text(), "the task runs").split()
    cluster.kill("tm")
    wait_until(lambda: not Path("/proc", task).exists(), "the task is gone")

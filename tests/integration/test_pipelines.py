"""Spark's declarative pipelines as jobs on a real cluster, whose Spark keeps its tables (docs/pipelines.md)."""

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.jobs.result import read_result
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 360

PYTHON = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from rates import RATE

spark = SparkSession.active()

@dp.materialized_view(comment="orders of the day", partition_cols=["country"])
def orders():
    lines = spark.read.schema("day STRING, country STRING, amount INT").csv(spark.conf.get("source"))
    return lines.where(F.col("day") == spark.conf.get("day")).withColumn("amount", F.col("amount") * RATE)

@dp.temporary_view
def large():
    return spark.table("orders").where("amount >= 20")

@dp.table
def events():
    return spark.readStream.schema("a INT").json(spark.conf.get("arrivals"))

for factor in (2, 3):
    @dp.table(name=f"times_{factor}")
    def times():
        return spark.sql(f"SELECT a * {factor} AS b FROM STREAM(events)")
"""
SQL = """\
-- what the report shows
CREATE MATERIALIZED VIEW totals COMMENT 'large orders as a total' AS
SELECT country, sum(amount) AS amount FROM large GROUP BY country;
CREATE STREAMING TABLE arrivals AS SELECT a, 'é' AS mark FROM STREAM(events) WHERE a > 0;
"""


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("pipelines")
    settings = {"spark.local.catalog": directory / "catalog", "spark.tables": "delta"}
    with running_cluster(bootstrap, directory, **settings) as running:
        running.start_master()
        running.start_task_executor()
        yield running


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A pipeline as Spark's `spark-pipelines init` lays one out, with rows that it reads."""
    root = tmp_path / "sales"
    (root / "transformations").mkdir(parents=True)
    (tmp_path / "arrivals").mkdir()
    (tmp_path / "arrivals" / "1.json").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "orders.csv").write_text("2026-11-29,SE,1\n2026-11-29,NO,2\n2026-11-30,SE,3\n2026-11-30,SE,1\n2026-11-30,NO,5\n")
    specification = {
        "name": f"sales of {tmp_path.name}",
        "storage": f"file://{tmp_path}/storage",
        "configuration": {"day": "2026-11-29", "source": f"{tmp_path}/orders.csv", "arrivals": f"{tmp_path}/arrivals"},
        "libraries": [{"glob": {"include": "transformations/**"}}],
    }
    (root / "spark-pipeline.yml").write_text(json.dumps(specification))
    (root / "rates.py").write_text("RATE = 10\n")
    (root / "transformations" / "sales.py").write_text(PYTHON)
    (root / "transformations" / "report.sql").write_text(SQL)
    return root


def submit(
    cluster: RunningCluster, pipeline: Path, *parameters: str, ends: JobStatus = JobStatus.FINISHED, verb: Sequence[str] = ("submit",)
) -> str:
    """Submit a pipeline as a user does, and return the id of its job when that has ended so."""
    job_id = os.urandom(8).hex()
    given = [each for parameter in parameters for each in ("--param", parameter)]
    access = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    command = [*access, *verb, str(pipeline / "spark-pipeline.yml"), "--job-id", job_id, "--detach", *given]
    assert run(command) == ExitCode.OK
    cluster.wait_for_status(job_id, ends, JOB_TIMEOUT_S)
    return job_id


def is_written(cluster: RunningCluster, job_id: str, table: str, attempt: int) -> bool:
    """Tell whether an attempt runs that writes a table, and there are rows of this attempt or an earlier one."""
    subtask = cluster.job(job_id).execution_graph.vertices[table].subtasks[0]
    files = (cluster.directory / "catalog" / "warehouse" / table).rglob("part-*")
    return subtask.attempt == attempt and subtask.state is ExecutionState.RUNNING and any(files)


def rows(cluster: RunningCluster, sql: str) -> list[Any]:
    """Return the rows of a statement that another job of the cluster runs."""
    job_id = cluster.submit(cluster.graph({"id": "read", "sql": sql}))
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    return [tuple(each.values()) for each in read_result(job.execution_graph.vertices["read"].subtasks[0].outputs, 100).to_pylist()]


def test_data_sets_of_a_pipeline_are_tables_that_each_run_brings_up_to_date(
    cluster: RunningCluster, pipeline: Path, tmp_path: Path
) -> None:
    mistaken = (pipeline / "transformations" / "report.sql").read_text()
    (pipeline / "transformations" / "report.sql").write_text(mistaken.replace("sum(amount)", "sum(amuont)"))
    failed = submit(cluster, pipeline, ends=JobStatus.FAILED)
    cause = cluster.job(failed).cause
    assert cause is not None
    assert "amuont" in cause.message
    (pipeline / "transformations" / "report.sql").write_text(mistaken)
    job_id = submit(cluster, pipeline, verb=("rerun", failed, "--failed"))
    subtasks = {name: each.subtasks[0] for name, each in cluster.job(job_id).execution_graph.vertices.items()}
    assert subtasks["orders"].executions[-1].reused_from == failed, "it had finished, and has not changed"
    assert [each.attempt for each in subtasks["totals"].executions] == [1]
    assert set(cluster.job(job_id).execution_graph.vertices) == {"orders", "events", "times_2", "times_3", "totals", "arrivals"}
    assert sorted(rows(cluster, "SELECT country, amount FROM orders")) == [("NO", 20), ("SE", 10)]
    assert rows(cluster, "SELECT * FROM totals") == [("NO", 20)]
    assert sorted(rows(cluster, "SELECT b FROM times_2 UNION ALL SELECT b FROM times_3")) == [(2,), (3,), (4,), (6,)]

    (tmp_path / "arrivals" / "2.json").write_text('{"a": 5}\n')
    submit(cluster, pipeline, "day=2026-11-30")
    assert sorted(rows(cluster, "SELECT country, amount FROM orders")) == [("NO", 50), ("SE", 10), ("SE", 30)]
    assert sorted(rows(cluster, "SELECT * FROM totals")) == [("NO", 50), ("SE", 30)]
    assert sorted(rows(cluster, "SELECT a, mark FROM arrivals")) == [(1, "é"), (2, "é"), (5, "é")], "what was there comes once"


PATIENT = """\
import os
import time

from pyspark import pipelines as dp
from pyspark.sql import functions as F

GATE = spark.conf.get("gate")

@F.udf("int")
def patient(value):
    while value >= 10 and not os.path.exists(GATE):
        time.sleep(0.1)
    return value

@dp.materialized_view
def patient_view():
    return spark.range(0, 40, 1, 2).select(patient(F.col("id").cast("int")).alias("id"))

@dp.table
def patient_stream():
    reader = spark.readStream.schema("a INT").option("maxFilesPerTrigger", 4)
    return reader.json(spark.conf.get("arrivals")).select(patient("a").alias("a"))
"""


@pytest.mark.rule("P15")
def test_a_table_has_each_row_once_though_the_tasks_that_write_it_are_killed(
    cluster: RunningCluster, pipeline: Path, tmp_path: Path
) -> None:
    """Spark's own runner would go on with the rows of the killed task, and append them to those of its successor."""
    for file in (pipeline / "transformations").iterdir():
        file.unlink()
    (pipeline / "transformations" / "patient.py").write_text(PATIENT)
    for number in range(3, 20):
        file = tmp_path / "arrivals" / f"{number}.json"
        file.write_text(f'{{"a": {number}}}\n')
        os.utime(file, (number, number))  # Spark takes the oldest first: the first batches are done before the gate is open.
    gate = tmp_path / "gate"
    job_id = os.urandom(8).hex()
    access = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    document = {
        "pipeline": str(pipeline / "spark-pipeline.yml"),
        "parameters": {"gate": {"type": "string"}},
        "restart_strategy": {"type": "fixed-delay", "attempts": 9, "delay_ms": 100},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))
    assert run([*access, "submit", str(tmp_path / "job.yaml"), "--job-id", job_id, "--detach", "--param", f"gate={gate}"]) == ExitCode.OK
    for attempt in (1, 2):
        for table in ("patient_view", "patient_stream"):
            wait_until(partial(is_written, cluster, job_id, table, attempt), f"{table} is written", JOB_TIMEOUT_S)
            cluster.wait_for_task_process(job_id, table).kill()
    gate.touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert {each.attempt for each in job.execution_graph.subtasks()} == {3}
    assert rows(cluster, "SELECT count(*), count(DISTINCT id) FROM patient_view") == [(40, 40)]
    assert rows(cluster, "SELECT count(*), count(DISTINCT a) FROM patient_stream") == [(19, 19)]


DELTA = """\
from pyspark import pipelines as dp

dp.create_streaming_table("merged", format="delta")

@dp.append_flow(target="merged")
def ones():
    return spark.readStream.schema("a INT").json(spark.conf.get("arrivals"))

@dp.append_flow(target="merged")
def tens():
    return spark.readStream.schema("a INT").json(spark.conf.get("arrivals")).selectExpr("a * 10 AS a")

@dp.materialized_view
def newest():
    return spark.table("merged").groupBy().max("a").withColumnRenamed("max(a)", "a")
"""


@pytest.mark.soak("eventflink.jobs.pipelines")
def test_a_table_of_delta_takes_several_flows_and_one_of_files_refuses_them(
    cluster: RunningCluster, pipeline: Path, tmp_path: Path
) -> None:
    for file in (pipeline / "transformations").iterdir():
        file.unlink()
    definitions = pipeline / "transformations" / "delta.py"
    definitions.write_text(DELTA.replace('"delta"', '"parquet"'))
    cause = cluster.job(submit(cluster, pipeline, ends=JobStatus.FAILED)).cause
    assert cause is not None
    assert cause.failure_type == "PipelineUnusable"
    assert "flows 'ones', 'tens' append to 'spark_catalog.default.merged', a table of parquet" in cause.message
    definitions.write_text(DELTA)
    submit(cluster, pipeline, "full_refresh=merged")
    (tmp_path / "arrivals" / "2.json").write_text('{"a": 3}\n')
    submit(cluster, pipeline)
    assert sorted(rows(cluster, "SELECT a FROM merged")) == [(1,), (2,), (3,), (10,), (20,), (30,)]
    assert rows(cluster, "SELECT a FROM newest") == [(30,)]


@pytest.mark.soak("eventflink.jobs", "eventflink.streams")
def test_vertices_write_and_read_tables_of_delta_by_their_names(cluster: RunningCluster) -> None:
    """A table is made by the first job that writes to it; a batch and a stream read it, and another stream appends to it."""

    def table(**more: Any) -> dict[str, Any]:
        return {"table": {"name": "default.sales", **more}, "format": "delta"}

    def run_job(*vertices: dict[str, Any]) -> None:
        cluster.wait_for_status(cluster.submit(cluster.graph(*vertices)), JobStatus.FINISHED, JOB_TIMEOUT_S)

    write = {"id": "write", "sql": "SELECT id, 1 AS day FROM range(4)", "parallelism": 2, "sink": table(partition_by=["day"])}
    run_job(write | {"sql": "SELECT :subtask_index AS id, 1 AS day"})
    assert sorted(rows(cluster, "SELECT id, day FROM default.sales")) == [(0, 1), (1, 1)]
    copied = {"table": {"name": "default.copied_sales"}, "format": "delta"}
    stream = {"sources": {"sales": table()}, "sink": copied, "trigger": {"available_now": True}}
    run_job({"id": "copy", "sql": "SELECT id * 10 AS id FROM sales", "stream": stream})
    merged = {"sources": {"sales": table()}, "sink": table(mode="merge", keys=["id"])}
    run_job({"id": "merge", "sql": "SELECT id, day + 1 AS day FROM sales WHERE id = 1"} | merged)
    reading = {"id": "read", "sql": "SELECT * FROM sales", "sources": {"sales": table(version=0)}}
    run_job(reading)
    assert sorted(rows(cluster, "SELECT id, day FROM default.sales")) == [(0, 1), (1, 2)]
    assert sorted(rows(cluster, "SELECT id FROM default.copied_sales")) == [(0,), (10,)]

    path = next(iter((cluster.directory / "catalog" / "warehouse").glob("sales")))
    by_path = {"table": {"path": f"file:{path}"}, "format": "delta"}
    lossy = {"id": "lossy", "sql": "SELECT * FROM sales", "sources": {"sales": by_path}, "sink": table(mode="overwrite")}
    failed = cluster.submit(cluster.graph(lossy))
    cause = cluster.wait_for_status(failed, JobStatus.FAILED, JOB_TIMEOUT_S).cause
    assert cause is not None
    assert "the table default.sales is read and replaced by one task" in cause.message, "whatever it is called"


RENAMED = """\
from pyspark import pipelines as dp

dp.create_streaming_table("archive_events"SCHEMA)

@dp.append_flow(target="archive_events")
def FLOW():
    return spark.readStream.schema("a INT").json(spark.conf.get("arrivals")).selectExpr("COLUMN")

@dp.table(table_properties={"team": "sales"}, comment="COMMENT")
def below():
    return spark.readStream.table("archive_events")
"""


def renamed(**names: str) -> str:
    text = RENAMED
    for name, value in ({"SCHEMA": "", "FLOW": "arrived", "COLUMN": "a", "COMMENT": "one"} | names).items():
        text = text.replace(name, value)
    return text


@pytest.mark.soak("eventflink.jobs.pipelines")
def test_rows_that_would_be_lost_or_there_twice_are_told(cluster: RunningCluster, pipeline: Path, tmp_path: Path) -> None:
    def cause_of(definition: str, *parameters: str) -> str:
        definitions.write_text(definition)
        cause = cluster.job(submit(cluster, pipeline, *parameters, ends=JobStatus.FAILED)).cause
        assert cause is not None
        assert cause.failure_type == "PipelineUnusable", cause
        return cause.message

    for file in (pipeline / "transformations").iterdir():
        file.unlink()
    definitions = pipeline / "transformations" / "events.py"
    definitions.write_text(renamed())
    submit(cluster, pipeline)
    assert "which has the rows of 'arrived'" in cause_of(renamed(FLOW="came"))
    assert "column 'a' of 'spark_catalog.default.archive_events' is int in the table, and string" in cause_of(
        renamed(COLUMN="CAST(a AS STRING) AS a")
    )
    assert "table not found: full_refresh names 'events'" in cause_of(renamed(), "full_refresh=events")
    assert "has another definition now" in cause_of(renamed(SCHEMA=", schema='a INT, b INT'"))
    columns = "have the columns a, and its table a, b"
    assert columns in cause_of(renamed(SCHEMA=", schema='a INT, b INT'"), "full_refresh=archive_events")
    assert rows(cluster, "SELECT count(*) FROM below") == [(2,)], "what is above it has failed"

    definitions.write_text(renamed())
    submit(cluster, pipeline, "full_refresh=archive_events")
    assert rows(cluster, "SELECT count(*) FROM below") == [(2,)], "what reads it has begun anew as well"

    specification = json.loads((pipeline / "spark-pipeline.yml").read_text())
    (pipeline / "spark-pipeline.yml").write_text(json.dumps(specification | {"storage": f"{specification['storage']}-moved"}))
    definitions.write_text(renamed(COMMENT="two"))
    (tmp_path / "arrivals" / "2.json").write_text('{"a": 3}\n')
    submit(cluster, pipeline)
    assert sorted(rows(cluster, "SELECT a FROM below")) == [(1,), (2,), (3,)], "checkpoints stay where they were"

    rows(cluster, "DROP TABLE archive_events; SELECT 1")
    assert "has rows of 'spark_catalog.default.archive_events', which has begun anew since" in cause_of(renamed())

    rows(cluster, "DROP TABLE below; CREATE TABLE below AS SELECT 'precious' AS mine; SELECT 1")
    assert "of another program" in cause_of(renamed(), "full_refresh=archive_events")
    assert "of another program" in cause_of(renamed(), "full_refresh=*")
    assert rows(cluster, "SELECT mine FROM below") == [("precious",)]

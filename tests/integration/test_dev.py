"""`eventflink dev` and `eventflink.dev`: graphs that run in this process on one real Spark, with no Kafka and no master."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import eventflink
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.workbench.graph_run import GraphRun, VertexFailed
from tests.support.iceberg_tables import CATALOG, TABLE, catalog_in, configured, loaded, numbers_of
from tests.support.rate_jar import write_rate_jar
from tests.support.reference import NEED_SPARK, run_example

EXAMPLES = Path(__file__).parents[2] / "examples"

JOB = """
import subprocess
import time

from pyspark.sql import functions as F

VERSION = 1


def numbers(context):
    context.logger.info("the key is %s", context.parameters.get("key"))
    print("numbers are made")
    return context.share(context.spark.range(100).selectExpr("id", "id % 10 AS k"))


def writes(context):
    rows = context.inputs["numbers"]
    context.spark.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT 1 AS one")
    rows.write.parquet(context.parameters["path"])
    rows.write.partitionBy("k").mode("append").saveAsTable("a_table")
    rows.writeTo("another.table").append()
    rows.write.format("noop").mode("overwrite").save()
    rows.write.format("jdbc").options(url="jdbc:none", dbtable="orders", password="secret").save()
    context.spark.sql("INSERT INTO a_table SELECT * FROM {rows}", rows=rows)
    return context.spark.table("seen")


def changes(context):
    spark, path = context.spark, context.parameters["path"]
    spark.sql("CREATE TEMPORARY VIEW one AS SELECT 1 AS a")
    spark.sql("DROP VIEW one")
    spark.sql("DROP VIEW IF EXISTS none")
    spark.sql(f"/* load */ INSERT OVERWRITE DIRECTORY '{path}/sql' USING parquet SELECT /*+ COALESCE(1) */ 1 AS a")
    clone = spark.cloneSession()
    clone.range(3).write.parquet(f"{path}/{context.parameters['key']}")
    clone.cloneSession().sql(f"CREATE TABLE t USING jdbc OPTIONS (password '{context.parameters['key']}', path '{path}')")
    clone.catalog.createDatabase("other", properties={"location": f"{path}/other"})
    spark.catalog.dropTable("none")
    spark.catalog.truncateTable("none")
    return spark.range(len([each for each in spark.catalog.listTables() if each.isTemporary]))


def prints(context):
    subprocess.run(["echo", "a child prints"], check=True)


def waits(context):
    context.spark.range(1).count()
    print("it waits", flush=True)
    time.sleep(600)


def told(context):
    return context.spark.createDataFrame([(context.outcome.status, context.outcome.vertex_id)], "status STRING, vertex STRING")


def notes(context):
    outcome = context.outcome
    with open(context.parameters["path"], "w") as note:
        note.write(" ".join([outcome.status, outcome.vertex_id, str(outcome.attempt), outcome.message]))


def creates(context):
    context.spark.catalog.createTable("t", path=context.parameters["path"], source="parquet", schema=context.spark.range(1).schema)


def divides(context):
    rows = context.inputs["numbers"]

    def inverse(k):
        return 100 // k

    return rows.select(F.udf(inverse, "bigint")(rows.k + context.parameters["shift"]).alias("i"))


def load(context):
    row = context.row
    assert context.inputs["files"].count() == 1
    loaded = [(row["path"], row["bytes"], row["at"], context.subtask_index)]
    return context.spark.createDataFrame(loaded, "p STRING, b INT, at TIMESTAMP, i INT")


def raises(context):
    return deeper(context)


def deeper(context):
    raise LookupError(f"no use for {context.parameters['key']}")


def version(context):
    return context.spark.range(VERSION)
"""


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a document beside its code: the numbers, and one vertex that reads them."""
    (tmp_path / "dev_job.py").write_text(JOB)

    def write(vertex: dict[str, Any], **numbers: Any) -> Path:
        document = {
            "name": "a job",
            "vertices": [{"id": "numbers", "python": "dev_job:numbers", "parallelism": 2, **numbers}, {"id": "last", **vertex}],
            "edges": [{"from": "numbers", "to": "last"}],
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def test_the_revenue_of_each_customer_is_what_a_cluster_computes(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("ada,10\nada,32\ngrace,7\n")
    (tmp_path / "_SUCCESS").touch()
    graph = yaml.safe_load((EXAMPLES / "revenue" / "revenue.yaml").read_text())
    graph["vertices"][0]["parameters"]["directory"] = str(tmp_path)
    done = eventflink.dev(graph, code=[EXAMPLES / "revenue" / "revenue.py"])
    rows = sorted(done.result("revenue").to_arrow().to_pylist(), key=lambda row: str(row["customer"]))
    assert rows == [{"customer": "ada", "orders": 2, "revenue": 42}, {"customer": "grace", "orders": 1, "revenue": 7}]
    assert [(each.vertex_id, each.parallelism, each.rows) for each in done.vertices] == [("orders", 2, 3), ("revenue", 1, 2)]


OF_TASKS = sorted(path for path in NEED_SPARK if path.startswith("eventflink.jobs.context."))


@pytest.mark.parametrize("path", sorted(NEED_SPARK - {*OF_TASKS}))
def test_an_example_of_the_reference_that_needs_spark_runs(path: str) -> None:
    results = run_example(path, {})
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("path", OF_TASKS)
def test_an_example_of_the_reference_runs_in_a_task(path: str, tmp_path: Path) -> None:
    (tmp_path / "example_task.py").write_text("""
from tests.support.reference import run_example

def runs(context):
    results = run_example(context.parameters["path"], {"context": context})
    assert results.attempted and not results.failed
    return context.spark.range(results.attempted)
""")
    document = {
        "name": "an example",
        "vertices": [
            {"id": "orders", "sql": "SELECT 'ada' AS customer, 42 AS amount"},
            {"id": "rates", "sql": "SELECT 'SEK' AS currency, 0.1 AS euros"},
            {"id": "runs", "python": "example_task:runs", "parameters": {"path": path, "least": 3}},
        ],
        "edges": [{"from": each, "to": "runs"} for each in ("orders", "rates")],
    }
    assert eventflink.dev(document, code=[tmp_path / "example_task.py"]).result().to_arrow().num_rows


def test_a_job_in_python_runs_here_as_it_is_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders.csv").write_text("ada,10\nada,32\n")
    (tmp_path / "_SUCCESS").touch()
    file = EXAMPLES / "revenue" / "revenue_job.py"
    assert run(["dev", str(file), "--param", f"directory={tmp_path}", "--json"]) == ExitCode.OK
    [orders, revenue] = json.loads(capsys.readouterr().out)["vertices"]
    assert orders["outputs"][0]["count"] == 2
    assert revenue["outputs"][0]["rows"] == [{"customer": "ada", "orders": 2, "revenue": 42}]
    done = eventflink.dev(file, parameters={"directory": str(tmp_path)})
    assert done.result("revenue").to_arrow().to_pylist() == [{"customer": "ada", "orders": 2, "revenue": 42}]


def test_what_a_job_publishes_elsewhere_is_written_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "all.csv").write_text("2026-11-03,EUR,3\n2026-11-03,SEK,300\n2026-11-04,EUR,4\n")
    (tmp_path / "rates.csv").write_text("EUR,1.0\nSEK,0.1\n")
    document, parameters = EXAMPLES / "nightly" / "revenue.yaml", {"day": "2026-11-03", "directory": str(tmp_path)}
    done = eventflink.dev(document, parameters=parameters)
    assert sorted((row["currency"], row["euros"]) for row in done.result().to_arrow().to_pylist()) == [("EUR", 3.0), ("SEK", 30.0)]
    assert done.withheld == (f"vertex 'published': parquet to {tmp_path}/revenue/day=2026-11-03",)
    assert not (tmp_path / "revenue").exists()
    assert eventflink.dev(document, parameters=parameters, sinks=True).withheld == ()
    assert (tmp_path / "revenue" / "day=2026-11-03" / "_SUCCESS").exists()


def test_a_statement_calls_what_a_jar_of_the_job_has(tmp_path: Path) -> None:
    write_rate_jar(tmp_path / "lib" / "rates.jar", 5)
    document = {"name": "rated", "jars": ["lib/rates.jar"], "vertices": [{"id": "v", "sql": "SELECT java_method('Rate', 'rate') AS rate"}]}
    (tmp_path / "rated.json").write_text(json.dumps(document))
    assert eventflink.dev(tmp_path / "rated.json").result().to_arrow().to_pylist() == [{"rate": "5"}]


def test_sql_in_files_runs_as_it_stands_there(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "twice.sql").write_text("DECLARE VARIABLE factor INT DEFAULT 2;\nSELECT sum(id * factor) AS total FROM numbers")
    (tmp_path / "numbers.sql").write_text("SELECT id FROM range(:rows)")
    vertices = [{"id": "numbers", "sql_file": "numbers.sql", "parameters": {"rows": 3}}, {"id": "twice", "sql_file": "models/twice.sql"}]
    document = {"name": "files", "vertices": vertices, "edges": [{"from": "numbers", "to": "twice"}]}
    (tmp_path / "job.json").write_text(json.dumps(document))
    assert eventflink.dev(tmp_path / "job.json").result().to_arrow().to_pylist() == [{"total": 6}]


def test_of_a_job_with_a_stream_its_batch_vertices_run(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("ada,UK\n")
    graph = yaml.safe_load((EXAMPLES / "enrichment" / "enrichment.yaml").read_text())
    graph["vertices"][0]["parameters"]["path"] = str(tmp_path / "customers.csv")
    code = [EXAMPLES / "enrichment" / "enrichment.py"]
    with pytest.raises(InvalidJobGraph, match="vertex 'enriched' is a stream"):
        eventflink.dev(graph, code=code)
    assert eventflink.dev(graph, code=code, vertices=["customers"]).result().to_arrow().to_pylist() == [
        {"customer": "ada", "country": "UK"}
    ]


def test_shares_come_together_to_what_one_subtask_has(job: Callable[..., Path]) -> None:
    sql = "SELECT k, count(*) AS n, :parallelism AS subtasks FROM numbers GROUP BY k"
    document = yaml.safe_load(job({"sql": sql, "parallelism": 3}).read_text())
    document["edges"][0] |= {"ship": "hash", "keys": ["k"]}
    code = [job({"sql": sql}).parent / "dev_job.py"]
    three, one = (
        {
            (row["k"], row["n"], row["subtasks"])
            for row in eventflink.dev(document, code=code, parallelism=most).result().to_arrow().to_pylist()
        }
        for most in (None, 1)
    )
    assert three == {(k, 10, 3) for k in range(10)}
    assert one == {(k, 10, 1) for k in range(10)}


def _mapped(rows: int, **total: Any) -> dict[str, Any]:
    """Return a job that lists so many files in three parts, and has a subtask for each in Python and in SQL."""
    files = (
        "SELECT /*+ REPARTITION(3) */ concat('/data/', id) AS path, CAST(id AS INT) AS bytes, "
        "TIMESTAMP'2026-11-25 01:02:03' + CAST(id AS INT) * INTERVAL '1' HOUR AS at, 1.5 AS rate FROM range(:rows)"
    )
    said = "SELECT :path AS p, :bytes AS b, :at AS at, :subtask_index AS i, :rate AS rate, at = :at AS same FROM files"
    return {
        "name": "mapped",
        "parameters": {"rows": {"type": "integer", "value": rows}, "path": {"type": "string", "value": "a column of the row is before it"}},
        "vertices": [
            {"id": "files", "sql": files},
            {"id": "load", "python": "dev_job:load", "max_parallelism": 8},
            {"id": "said", "sql": said},
            {"id": "total", "sql": "SELECT count(*) AS n, sum(b) AS bytes FROM load"},
        ],
        "edges": [
            {"from": "files", "to": "load", "ship": "each"},
            {"from": "files", "to": "said", "ship": "each"},
            {"from": "load", "to": "total", **total},
        ],
    }


SCHEMA = "p STRING, b INT, at TIMESTAMP, i INT"


@pytest.mark.rule("P24")
def test_a_subtask_for_each_row_has_it_in_python_and_in_sql(job: Callable[..., Path]) -> None:
    code = [job({"sql": "SELECT 1"}).parent / "dev_job.py"]
    done = eventflink.dev(_mapped(4), code=code)
    files, load, said = (done.result(name).to_arrow().to_pylist() for name in ("files", "load", "said"))
    assert [(row["p"], row["b"], row["at"], row["i"]) for row in load] == [(f["path"], f["bytes"], f["at"], i) for i, f in enumerate(files)]
    assert [(row["p"], row["b"], row["at"], row["i"]) for row in said] == [(row["p"], row["b"], row["at"], row["i"]) for row in load]
    assert {(str(row["rate"]), row["same"]) for row in said} == {("1.5", True)}
    assert done.result("total").to_arrow().to_pylist() == [{"n": 4, "bytes": 6}]
    assert [each.parallelism for each in done.vertices] == [1, 4, 4, 1]


@pytest.mark.rule("P24")
def test_a_column_of_a_row_is_a_parameter_of_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    first = "1L, 'a', 1.50BD, X'00ff', TIMESTAMP'2024-10-27T00:30:00Z', TIMESTAMP_NTZ'2024-03-31 02:30:00', INTERVAL '1' DAY"
    second = "5000000000L, NULL, 12345678.25BD, NULL, TIMESTAMP'2024-10-27T01:30:00Z', NULL, NULL"
    listed = f"SELECT * FROM VALUES ({first}), ({second}) AS t(l, s, d, b, at, local, `for how long`)"
    columns = ["l", "s", "d", "b", "at", "local", "for how long"]
    said = ", ".join(f":`{name}` AS `{name}`, `{name}` <=> :`{name}` AS `same {name}`" for name in columns)
    document = {
        "name": "typed",
        "vertices": [
            {"id": "listed", "sql": listed},
            {"id": "typed", "sql": f"SELECT {said} FROM listed"},
            {"id": "all", "sql": "FROM typed"},
        ],
        "edges": [{"from": "listed", "to": "typed", "ship": "each"}, {"from": "typed", "to": "all"}],
    }
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        done = eventflink.dev(document)
    time.tzset()
    listed_rows, rows = (done.result(name).to_arrow() for name in ("listed", "all"))
    assert rows.select(columns).equals(listed_rows.select(columns).cast(rows.select(columns).schema))
    assert [(each.name, each.type) for each in rows.select(columns).schema] == [(each.name, each.type) for each in listed_rows.schema]
    assert all(value for name in columns for value in rows.column(f"same {name}").to_pylist())


def test_with_no_rows_nothing_runs_and_its_reader_has_the_columns_that_its_edge_says(job: Callable[..., Path]) -> None:
    code = [job({"sql": "SELECT 1"}).parent / "dev_job.py"]
    for more in ({"ship": "broadcast"}, {"ship": "hash", "keys": ["p"]}):
        done = eventflink.dev(_mapped(0, schema=SCHEMA, **more), code=code)
        assert done.result("total").to_arrow().to_pylist() == [{"n": 0, "bytes": None}]
        assert [(each.vertex_id, each.parallelism, each.outputs) for each in done.vertices[1:3]] == [("load", 1, ()), ("said", 1, ())]
    with pytest.raises(VertexFailed, match="has the columns p STRING, b INT, at TIMESTAMP, i INT, and its edge says p STRING"):
        eventflink.dev(_mapped(1, schema="p STRING, b BIGINT"), code=code)
    with pytest.raises(VertexFailed, match=r"vertex 'total' failed: InputUnusable: input 'load' has no columns: .* 'schema' of the edge"):
        eventflink.dev(_mapped(0), code=code)


def test_more_rows_than_the_vertex_may_have_subtasks_are_said(job: Callable[..., Path]) -> None:
    code = [job({"sql": "SELECT 1"}).parent / "dev_job.py"]
    with pytest.raises(VertexFailed, match="TooManyRows: 'files' has left 9 rows, and 'load' may have at most 8 subtasks, one for each"):
        eventflink.dev(_mapped(9), code=code)


@pytest.mark.parametrize(("rows", "n"), [(0, None), (2, 1)])
def test_a_reader_of_a_skipped_vertex_sees_no_rows_with_the_columns_that_its_edge_says(rows: int, n: int | None) -> None:
    vertices = [
        {"id": "found", "sql": f"SELECT id FROM range({rows})"},
        {"id": "load", "sql": "SELECT id AS n FROM found", "when": {"rows_of": "found"}},
        {"id": "report", "sql": "SELECT max(n) AS n, count(*) AS rows FROM load"},
    ]
    edges = [{"from": "found", "to": "load"}, {"from": "load", "to": "report", "if_skipped": "n BIGINT"}]
    done = eventflink.dev({"name": "branches", "vertices": vertices, "edges": edges})
    assert [bool(each.skipped) for each in done.vertices] == [False, not rows, False]
    assert done.result().to_arrow().to_pylist() == [{"n": n, "rows": rows}]
    edges[1]["if_skipped"] = "n INT"
    if rows:
        with pytest.raises(VertexFailed, match="input 'load' has the columns n BIGINT, and its edge says n INT: mend one of them"):
            eventflink.dev({"name": "branches", "vertices": vertices, "edges": edges})


@pytest.mark.parametrize("rows", [0, 2])
def test_a_vertex_with_a_condition_runs_or_is_skipped_with_what_reads_it(rows: int) -> None:
    vertices = [
        {"id": "told", "sql": "SELECT * FROM load"},
        {"id": "load", "sql": "SELECT * FROM found", "when": {"rows_of": "found"}},
        {"id": "nobody", "sql": "SELECT 'nobody' AS who", "when": {"no_rows_of": "found"}},
        {"id": "neither", "sql": "SELECT 1", "when": {"no_rows_of": "load"}},
        {"id": "found", "sql": f"SELECT id FROM range({rows})"},
    ]
    edges = [{"from": "found", "to": "load"}, {"from": "load", "to": "told"}]
    done = eventflink.dev({"name": "branches", "vertices": vertices, "edges": edges})
    skipped = {each.vertex_id: each.skipped for each in done.vertices if each.skipped}
    if rows:
        assert skipped == {
            "nobody": "'found' has left rows (2), and it runs when there are none",
            "neither": "'load' has left rows (2), and it runs when there are none",
        }
        assert sorted(row["id"] for row in done.result().to_arrow().to_pylist()) == [0, 1]
    else:
        assert skipped == {
            "load": "'found' has left no rows, and it runs when there are some",
            "told": "'load', which it reads, was skipped",
            "neither": "'load', which its condition names, was skipped",
        }
        assert done.result().to_arrow().to_pylist() == [{"who": "nobody"}]


def _closed(job: Callable[..., Path], first: str) -> GraphRun:
    """Run a job whose first statement is this, and whose closing vertices return what they are told."""
    says = "SELECT :job_status AS status, :failed_vertex AS vertex, :failure_type AS type, :failure_message LIKE '%none%' AS said"
    document = {
        "name": "closed",
        "vertices": [
            {"id": "first", "sql": first},
            {"id": "always", "sql": says, "runs": "always"},
            {"id": "told", "python": "dev_job:told", "runs": "on-success"},
            {"id": "failed", "python": "dev_job:told", "runs": "on-failure"},
        ],
    }
    return eventflink.dev(document, code=[job({"sql": "SELECT 1"}).parent / "dev_job.py"])


@pytest.mark.rule("P25")
def test_closing_vertices_run_after_all_others_and_know_how_they_came_out(job: Callable[..., Path]) -> None:
    done = _closed(job, "SELECT 7 AS n")
    assert [each.vertex_id for each in done.vertices] == ["first", "always", "told"]
    assert done.result().to_arrow().to_pylist() == [{"n": 7}]
    assert done.result("always").to_arrow().to_pylist() == [{"status": "FINISHED", "vertex": "", "type": "", "said": False}]
    assert done.result("told").to_arrow().to_pylist() == [{"status": "FINISHED", "vertex": ""}]


def test_after_a_failure_those_run_that_are_for_it(job: Callable[..., Path], tmp_path: Path) -> None:
    document = {
        "name": "closed",
        "vertices": [
            {"id": "first", "sql": "SELECT raise_error('none')"},
            {"id": "end", "python": "dev_job:notes", "runs": "on-failure", "parameters": {"path": str(tmp_path / "note")}},
            {"id": "good", "python": "dev_job:told", "runs": "on-success"},
        ],
    }
    with pytest.raises(VertexFailed, match="vertex 'first' failed"):
        eventflink.dev(document, code=[job({"sql": "SELECT 1"}).parent / "dev_job.py"])
    status, vertex_id, attempt, message = (tmp_path / "note").read_text().split(" ", 3)
    assert (status, vertex_id, attempt) == ("FAILED", "first", "1")
    assert "none" in message


def test_a_closing_vertex_that_fails_is_told_and_the_run_is_as_it_was(job: Callable[..., Path]) -> None:
    document = {
        "name": "closed",
        "vertices": [{"id": "first", "sql": "SELECT 7 AS n"}, {"id": "end", "sql": "SELECT raise_error('no')", "runs": "always"}],
    }
    done = eventflink.dev(document, code=[job({"sql": "SELECT 1"}).parent / "dev_job.py"])
    assert done.result().to_arrow().to_pylist() == [{"n": 7}]
    assert [each.vertex_id for each in done.closing_failures] == ["end"]


def test_a_python_function_of_spark_takes_the_rows_of_an_input(job: Callable[..., Path]) -> None:
    done = eventflink.dev(job({"python": "dev_job:divides", "parameters": {"shift": 1}}))
    assert sum(row["i"] for row in done.result().to_arrow().to_pylist()) == 10 * sum(100 // k for k in range(1, 11))


def test_nothing_is_written_that_spark_would_write_elsewhere(job: Callable[..., Path], tmp_path: Path) -> None:
    done = eventflink.dev(job({"python": "dev_job:writes", "parameters": {"path": str(tmp_path / "written")}}))
    assert done.result().to_arrow().to_pylist() == [{"one": 1}]
    *told, statement = done.vertices[-1].withheld
    assert told == [f"parquet to {tmp_path}/written", "parquet to a_table", "table another.table", "jdbc to orders"]
    assert statement.startswith("SQL: INSERT INTO a_table SELECT * FROM _pyspark")
    assert not (tmp_path / "written").exists()


def test_a_sink_is_told_and_its_rows_are_kept_in_its_place(job: Callable[..., Path], tmp_path: Path) -> None:
    sink = {"table": {"path": str(tmp_path / "sales"), "mode": "overwrite"}, "format": "delta"}
    done = eventflink.dev(job({"sql": "SELECT k FROM numbers WHERE k = 1", "sink": sink}))
    assert done.result().to_arrow().to_pylist() == [{"k": 1}] * 10
    assert done.withheld == (f"vertex 'last': sink delta to {tmp_path}/sales",)
    assert not (tmp_path / "sales").exists()


def test_a_source_is_read_as_on_a_cluster(job: Callable[..., Path], tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path / "lake")
    loaded(catalog).create_namespace("shop")
    table = loaded(catalog).create_table(TABLE, pa.schema([("number", pa.int64())]))
    table.append(pa.table({"number": [1, 2, 3]}))
    source = {"table": {"catalog": CATALOG, "name": TABLE, "where": "number > 1"}, "format": "iceberg"}
    last = {"sql": "SELECT count(DISTINCT number) AS n FROM sales, numbers", "sources": {"sales": source}}
    done = eventflink.dev(job(last), configuration=configured(catalog))
    assert (done.result().to_arrow().to_pylist(), done.withheld) == ([{"n": 2}], ())


def test_a_table_of_iceberg_is_compacted_and_loses_its_old_versions_with_sinks_alone(job: Callable[..., Path], tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path / "lake")
    loaded(catalog).create_namespace("shop")
    table = loaded(catalog).create_table(TABLE, pa.schema([("number", pa.int64())]))
    for number in range(5):
        table.append(pa.table({"number": [number]}))

    def run(task: str, *, sinks: bool = True, **parameters: Any) -> GraphRun:
        told = {"table": {"catalog": CATALOG, "name": TABLE, **parameters}}
        return eventflink.dev(
            job({"python": f"eventflink.iceberg:{task}", "parameters": told}), configuration=configured(catalog), sinks=sinks
        )

    for task in ("compact", "expire"):
        with pytest.raises(
            VertexFailed, match=r"context\.iceberg_catalog\('lake'\) may change tables: run it with --sinks, or on a cluster"
        ):
            run(task, sinks=False)
    assert len(table.refresh().snapshots()) == 5
    run("compact")
    assert (len(list(table.refresh().scan().plan_files())), numbers_of(catalog)) == (1, [0, 1, 2, 3, 4])
    with pytest.raises(
        VertexFailed, match=r"invalid parameter 'table' of vertex 'last': older_than: must be a whole number with ms, s, m, h"
    ):
        run("expire", older_than="soon")
    run("expire")
    assert len(table.refresh().snapshots()) == 6


def test_nothing_is_changed_by_clones_of_the_session_statements_and_the_catalog(job: Callable[..., Path], tmp_path: Path) -> None:
    written = tmp_path / "written"
    (tmp_path / "db").write_text("hidden-word\n")
    document = job({"python": "dev_job:changes", "parameters": {"path": str(written), "key": {"secret": "db"}}})
    done = eventflink.dev(document, configuration={"secrets.directory": str(tmp_path)})
    assert not written.exists()
    inserted = f"SQL: /* load */ INSERT OVERWRITE DIRECTORY '{written}/sql'"
    assert done.vertices[-1].withheld == (
        "SQL: DROP VIEW IF EXISTS none",
        f"{inserted} USING parquet SELECT /*+ COALESCE(1) */ 1 AS a"[:85],
        f"parquet to {written}/***",
        f"SQL: CREATE TABLE t USING jdbc OPTIONS (password '***', path '{written}')"[:85],
        "create database other",
        "drop table none",
        "truncate table none",
    )


@pytest.mark.parametrize(
    ("vertex", "said"),
    [
        ({"sql": "BEGIN SELECT 1; END"}, "a script .* may write"),
        ({"sql": "EXECUTE IMMEDIATE 'SELECT 1'"}, "a script .* may write"),
        ({"python": "dev_job:creates"}, "creates a table by the catalog"),
    ],
)
def test_what_may_write_and_is_needed_to_go_on_is_refused(
    vertex: dict[str, Any], said: str, job: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(VertexFailed, match=f"vertex 'last' failed: SinksNeeded: .*{said}.*: run it with --sinks, or on a cluster"):
        eventflink.dev(job({**vertex, "parameters": {"path": str(tmp_path / "written")}}))
    assert not (tmp_path / "written").exists()


def test_a_statement_that_is_not_run_is_read_all_the_same(job: Callable[..., Path]) -> None:
    assert eventflink.dev(job({"sql": "INSERT INTO t SELECT * FROM numbers"})).vertices[-1].withheld == (
        "SQL: INSERT INTO t SELECT * FROM numbers",
    )
    with pytest.raises(VertexFailed) as failed:
        eventflink.dev(job({"sql": "INSERT INTO t\nSELEC k FROM numbers"}))
    assert failed.value.cause.failure_type == "ParseException"
    assert str(failed.value).endswith("\n  2 | SELEC k FROM numbers\n            ^")


def test_a_person_sees_each_vertex_and_what_is_next(job: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = job({"sql": "SELECT k, count(*) AS n FROM numbers GROUP BY k ORDER BY k"})
    assert run(["dev", str(document), "--rows", "2", "--keep", str(tmp_path / "kept")]) == ExitCode.OK
    told = capfd.readouterr()
    lines = told.out.splitlines()
    assert lines[0] == "numbers are made"
    assert [line.partition(" in ")[0] for line in lines if " ms" in line] == ["numbers: 100 rows", "last: 10 rows"]
    assert [line.split() for line in lines[-4:]] == [["k", "n"], ["0", "10"], ["1", "10"], ["2", "of", "10", "rows"]]
    assert "task.numbers: INFO: the key is None" in told.err
    assert f"on a cluster: eventflink submit {document} --code {tmp_path}/dev_job.py" in told.err
    [kept] = (tmp_path / "kept").iterdir()
    assert f"the outputs are in {kept}" in told.err
    assert sorted(path.name for path in kept.iterdir()) == ["last", "numbers"]


def test_a_program_gets_one_object(job: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", str(job({"sql": "SELECT max(id) AS most FROM numbers"})), "--json", "--rows", "1"]) == ExitCode.OK
    told = json.loads(capfd.readouterr().out)
    assert (told["name"], told["failure"], [each["vertex"] for each in told["vertices"]]) == ("a job", None, ["numbers", "last"])
    assert told["vertices"][1]["outputs"] == [{"output": "default", "count": 1, "columns": ["most"], "rows": [{"most": 99}]}]


def test_what_child_processes_print_is_not_in_the_way_of_the_object(job: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", str(job({"python": "dev_job:prints"})), "--json", "--vertex", "last"]) == ExitCode.OK
    told = capfd.readouterr()
    assert json.loads(told.out)["failure"] is None
    assert "a child prints\n" in told.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_told_to_end_leaves_no_files(number: signal.Signals, job: Callable[..., Path], tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "eventflink.cli", "dev", str(job({"python": "dev_job:waits"}))]
    inherited = signal.signal(number, signal.SIG_DFL)  # Under nohup it is ignored, and would be by the command.
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)})
    finally:
        signal.signal(number, inherited)
    with process:
        try:
            assert process.stdout is not None
            assert any("it waits" in line for line in process.stdout)
            assert list(temporary.glob("eventflink-dev-*"))
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()
    assert not list(temporary.glob("eventflink-dev-*"))


def test_a_failure_shows_the_frames_of_its_author_alone(
    job: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = job({"python": "dev_job:raises", "parameters": {"key": "it"}})
    assert run(["dev", str(document)]) == ExitCode.NEGATIVE
    told = capfd.readouterr().err
    assert "vertex 'last' failed: LookupError: no use for it\nTraceback (most recent call last):\n" in told
    frames = [line.split(",")[0].strip() for line in told.splitlines() if line.startswith("  File ")]
    assert frames == [f'File "{tmp_path}/dev_job.py"'] * 2
    assert f"next: mend it, and run it with what it needs: eventflink dev {document}" in told
    assert told.rstrip().endswith("--vertex last")


def test_a_failure_in_a_function_of_spark_shows_its_frame(job: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(VertexFailed, match="a Python function that Spark ran raised ZeroDivisionError") as failed:
        eventflink.dev(job({"python": "dev_job:divides", "parameters": {"shift": 0}}))
    assert f'File "{tmp_path}/dev_job.py", line' in str(failed.value)
    assert "eventflink/taskexecutor" not in str(failed.value)


def test_a_statement_that_fails_is_shown_with_its_place(job: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", str(job({"sql": "SELECT * FROM number"})), "--json"]) == ExitCode.NEGATIVE
    failure = json.loads(capfd.readouterr().out)["failure"]
    assert (failure["vertex"], failure["failure_type"]) == ("last", "AnalysisException")
    assert "the vertex has no input 'number' either (it has numbers)" in failure["message"]


def test_a_secret_is_given_and_never_shown(job: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = job({"python": "dev_job:raises", "parameters": {"key": {"secret": "db"}}})
    with pytest.raises(VertexFailed, match=r"secret not found: 'db' on TaskManager 'eventflink dev'; set one of the keys secrets\.\*"):
        eventflink.dev(document)
    (tmp_path / "db").write_text("hidden-word\n")
    assert run(["-D", f"secrets.directory={tmp_path}", "dev", str(document)]) == ExitCode.NEGATIVE
    told = "".join(capfd.readouterr())
    assert "LookupError: no use for ***" in told
    assert "hidden-word" not in told


def test_each_run_has_its_own_code_and_leaves_this_process_as_it_was(job: Callable[..., Path], tmp_path: Path) -> None:
    document = job({"python": "dev_job:version"})
    modules, path = set(sys.modules), list(sys.path)
    (tmp_path / "json.py").write_text("raise ImportError('it has the name of a module that is loaded already')")
    for version in (1, 2):
        (tmp_path / "dev_job.py").write_text(JOB.replace("VERSION = 1", f"VERSION = {version}"))
        done = eventflink.dev(document, code=[tmp_path / "dev_job.py", tmp_path / "json.py"])
        assert done.vertices[-1].rows == version
    assert "dev_job" not in sys.modules
    assert sys.path == path
    assert not {name for name in set(sys.modules) - modules if name.startswith("dev_job")}

"""The job that a declarative pipeline is, as it is made without a Spark."""

import json
import random
import sys
import threading
import uuid
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyspark.errors.utils
import pytest
from pyspark.sql.connect.group import GroupedData
from pyspark.sql.connect.session import SparkSession as ConnectSession

from eventflink.jobs.job_files import DescribedJob, describe_document, read_job
from eventflink.jobs.pipelines.offline_session import NeedsSpark, parse_types
from eventflink.jobs.pipelines.reading import PipelineQuestion, read_pipeline
from eventflink.jobs.pipelines.statements import InvalidPipeline
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.workbench.selection import select_vertices

PYTHON = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from helpers.rates import RATE

spark = SparkSession.active()

@F.udf("struct<a: int, b: array<string>>")
def parsed(text):
    return (len(text) * RATE, [])

@dp.materialized_view(schema=StructType([StructField("id", IntegerType(), False)]), partition_cols=["id"])
def raw():
    return spark.createDataFrame([(1,)], "id INT").select("id", parsed(F.lit("x")).alias("p"))

@dp.temporary_view
def large():
    return spark.table("raw").where("id > " + spark.conf.get("least"))

@dp.table(name="other.events")
def events():
    return spark.readStream.format("rate").load()

dp.create_sink("out", "kafka", {"topic": "t"})

@dp.append_flow(target="out", spark_conf={"spark.sql.shuffle.partitions": "2"})
def send():
    return spark.readStream.table("other.events").selectExpr("to_json(struct(*)) AS value")

for name in ("first", "second"):
    @dp.materialized_view(name=name)
    def one():
        return spark.sql(f"SELECT '{name}' AS name, * FROM large JOIN spark_catalog.sales.Raw USING (id)")

@dp.materialized_view
def sums():
    rows = spark.table("first")
    return rows.where(rows.id > 0).select(*rows.columns).groupBy("name").sum("id").mapInPandas(lambda frames: frames, "a INT")
"""
SQL = "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM first WHERE name = 'second';\n"


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let this process read a pipeline, which takes one of its own two seconds; what that leaves behind goes."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(uuid, "uuid4", uuid.uuid4)
    monkeypatch.setattr(GroupedData, "_numeric_agg", GroupedData._numeric_agg)
    drawn = random.getstate()
    monkeypatch.setattr(pyspark.errors.utils, "_enable_debugging_cache", None)
    monkeypatch.setattr(ConnectSession, "_default_session", None)
    monkeypatch.setattr(ConnectSession, "_active_session", threading.local())
    yield
    random.setstate(drawn)
    for name in [each for each in sys.modules if each.partition(".")[0] == "helpers"]:
        del sys.modules[name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "helpers").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large.csv").write_text("1\n" * 1000)
    (tmp_path / "helpers" / "rates.py").write_text("RATE = 10\n")
    (tmp_path / "transformations" / "b.sql").write_text(SQL)
    (tmp_path / "transformations" / "a.py").write_text(PYTHON)
    write_specification(tmp_path, {})
    return tmp_path


def write_specification(root: Path, more: dict[str, Any]) -> None:
    specification = {
        "name": "sales",
        "storage": "file:///var/storage",
        "database": "sales",
        "configuration": {"least": "0", "spark.sql.shuffle.partitions": "4"},
        "libraries": [{"glob": {"include": "transformations/**"}}],
    }
    (root / "spark-pipeline.yml").write_text(json.dumps(specification | more))


def described(root: Path, **keys: Any) -> DescribedJob:
    return describe_document({"pipeline": "spark-pipeline.yml", **keys}, "job.yaml", root)


def definitions(root: Path) -> dict[str, str]:
    ConnectSession._default_session, ConnectSession._active_session = None, threading.local()  # As in a process of its own.
    answer = read_pipeline(PipelineQuestion(spec_file=root / "spark-pipeline.yml", configuration={}))
    return {each.name.rpartition(".")[2]: each.definition for each in answer.data_sets}


def changed(root: Path, before: dict[str, str]) -> set[str]:
    after = definitions(root)
    return {name for name, digest in before.items() if after.get(name) != digest}


def test_each_stored_data_set_is_a_vertex_that_waits_for_what_it_reads(root: Path) -> None:
    job = read_job(root / "spark-pipeline.yml")
    assert job.graph.name == "sales"
    assert [each.vertex_id for each in job.graph.vertices] == ["raw", "events", "out", "first", "second", "sums", "total"]
    edges = {(each.source, each.target) for each in job.graph.edges}
    assert edges == {("raw", "first"), ("raw", "second"), ("events", "out"), ("first", "sums"), ("first", "total")}
    assert {each.name: each.value for each in job.graph.parameters} == {"full_refresh": "", "least": "0"}
    [total] = [each for each in job.graph.vertices if each.vertex_id == "total"]
    task = json.loads(total.parameters_json)["pipeline"]
    assert task["above"] == ["spark_catalog.sales.first", "spark_catalog.sales.raw"]


def test_what_travels_is_the_definitions_and_what_they_import(root: Path) -> None:
    [archive] = described(root).archives()
    names = zipfile.ZipFile(BytesIO(archive)).namelist()
    assert [name for name in names if not name.endswith("/")] == [
        *("helpers/rates.py", "spark-pipeline.yml", "transformations/a.py", "transformations/b.sql"),
    ]


def test_a_document_gives_a_pipeline_what_a_job_has(root: Path) -> None:
    job = described(root, name="nightly", engine="lake", parameters={"least": {"type": "integer", "default": 7}}, owner="finance")
    assert job.graph.about is not None
    assert (job.graph.name, job.graph.engine, job.graph.about.owner) == ("nightly", "lake", "finance")
    assert {each.name: each.value for each in job.graph.parameters} == {"full_refresh": "", "least": "7"}


@pytest.mark.usefixtures("in_this_process")
def test_a_change_counts_for_the_data_sets_that_are_made_of_it(root: Path) -> None:
    before = definitions(root)
    assert changed(root, before) == set(), "twice the same is the same"
    (root / "transformations" / "b.sql").write_text(f"-- a comment\nCREATE TEMPORARY VIEW unused AS SELECT 1;\n{SQL}")
    assert changed(root, before) == set()
    (root / "transformations" / "b.sql").write_text(SQL.replace("'second'", "'first'"))
    assert changed(root, before) == {"total"}
    (root / "transformations" / "b.sql").write_text(SQL)
    (root / "transformations" / "a.py").write_text(PYTHON.replace('"id > "', '"id >= "'))
    # A query asks for the columns of a table, so its whole file counts: what it makes of them is in no plan.
    assert changed(root, before) == set(before)
    plain = PYTHON.replace(".select(*rows.columns)", "").replace('.mapInPandas(lambda frames: frames, "a INT")', "")
    (root / "transformations" / "a.py").write_text(plain)
    before = definitions(root)
    (root / "transformations" / "a.py").write_text(plain.replace('"id > "', '"id >= "'))
    assert changed(root, before) == {"first", "second"}, "by way of a view"
    (root / "transformations" / "a.py").write_text(plain.replace('"t"', '"u"'))
    assert changed(root, before) == {"out"}
    (root / "transformations" / "a.py").write_text(plain)
    (root / "helpers" / "rates.py").write_text("RATE = 11\n")
    assert changed(root, before) == set(before), "what is imported may be in each of them"
    before = definitions(root)
    write_specification(root, {"configuration": {"least": "0", "app.day": "2"}})
    assert changed(root, before) == set(before), "so may be a setting that is no parameter"


DRAWN = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F

NORTH = {"SE", "NO", "FI", "DK"}

@F.udf("boolean")
def is_north(country):
    return country in {"SE", "NO", "FI", "DK"} or country in NORTH

@dp.materialized_view
def drawn():
    rows = spark.table("raw").sample(0.1).withColumn("seed", F.rand()).withColumn("id", F.uuid()).where(is_north("country"))
    return spark.sql("SELECT * FROM {rows}", rows=rows)
"""


def test_a_definition_is_the_same_wherever_and_whenever_it_is_read(tmp_path: Path) -> None:
    """Spark's client draws seeds and makes up names; a set has another order in each process; functions know their files."""
    found = set()
    for name in ("one", "two"):
        (tmp_path / name / "transformations").mkdir(parents=True)
        (tmp_path / name / "transformations" / "a.py").write_text(DRAWN)
        write_specification(tmp_path / name, {})
        [vertex] = described(tmp_path / name).graph.vertices
        found.add(json.loads(vertex.parameters_json)["pipeline"]["definition"])
    assert len(found) == 1


def test_what_is_declared_as_a_boolean_is_one_where_definitions_are_read(root: Path) -> None:
    optional = "from pyspark import pipelines as dp\nif spark.conf.get('wanted') == 'true':\n    @dp.materialized_view\n    def more():\n"
    (root / "transformations" / "d.py").write_text(f"{optional}        return spark.sql('SELECT * FROM ${{source}}')\n")
    parameters = {"wanted": {"type": "boolean", "default": True}, "source": {"type": "string", "default": "sales.second"}}
    graph = described(root, parameters=parameters).graph
    assert [each.source for each in graph.edges if each.target == "more"] == ["second"], "a setting in a query counts as in Spark"


PYTHON_OF_ONE = "from pyspark import pipelines as dp\n@dp.materialized_view\ndef a():\n    return "


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "a.py",
            f"{PYTHON_OF_ONE}spark.table('b').limit(spark.table('b').count())",
            "transformations/a.py, line 4: NeedsSpark: it asks Spark",
        ),
        ("a.py", f"{PYTHON_OF_ONE}1", "flow 'a' returns no DataFrame but int"),
        ("a.py", "import this is no python", "a.py, line 1: SyntaxError"),
        ("a.py", "spark.conf.get('none')", "setting not found: 'none'; give it under 'configuration'"),
        ("a.py", "spark.conf.set('a', 'b')", "RuntimeConf.set"),
        ("a.py", "raise SystemExit(3)", "SystemExit: 3"),
        ("c.csv", "1", "invalid file of definitions: transformations/c.csv"),
        ("c.sql", "CREATE MATERIALIZED VIEW raw AS SELECT 1", "two definitions make 'spark_catalog.sales.raw'"),
        ("c.sql", "CREATE STREAMING TABLE empty", "streaming table 'spark_catalog.sales.empty' has no flow"),
        ("c.sql", "CREATE FLOW f AS INSERT INTO nowhere BY NAME SELECT 1", "data set not found: flow 'f' writes to 'nowhere'"),
        ("c.sql", "CREATE FLOW f AS INSERT INTO total BY NAME SELECT 1", "has several flows"),
        ("c.sql", "CREATE TEMPORARY VIEW v AS FROM v;\nCREATE MATERIALIZED VIEW c AS FROM v", "temporary view 'v' reads itself"),
    ],
)
def test_what_a_pipeline_cannot_have_is_told_with_its_place(root: Path, file: str, text: str, message: str) -> None:
    (root / "transformations" / file).write_text(text)
    with pytest.raises(InvalidPipeline) as refused:
        read_pipeline(PipelineQuestion(spec_file=root / "spark-pipeline.yml", configuration={}))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW c AS FROM d;\nCREATE MATERIALIZED VIEW d AS FROM c", "the graph has a cycle"),
        ("CREATE MATERIALIZED VIEW `a-b` AS SELECT 1;\nCREATE MATERIALIZED VIEW `a b` AS SELECT 1", "would both be called 'a_b'"),
    ],
)
def test_what_no_graph_can_have_is_refused(root: Path, text: str, message: str) -> None:
    (root / "transformations" / "c.sql").write_text(text)
    with pytest.raises(InvalidJobGraph, match=message):
        described(root)


def test_code_that_ends_its_process_ends_nothing_else(root: Path) -> None:
    (root / "transformations" / "a.py").write_text("import os; os._exit(1)")
    with pytest.raises(InvalidJobGraph, match=r"job\.yaml: pipeline: its definitions were not read"):
        described(root)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pipeline": "other.yml"}, "pipeline not found"),
        ({"pipeline": 3}, "give the path of a spark-pipeline.yml"),
        ({"vertices": []}, "a document with a pipeline has no vertices"),
        ({"parameters": {"pipeline": {"type": "string", "default": ""}}}, "pipeline"),
        ({"parameters": [1]}, "parameters"),
    ],
)
def test_a_document_that_names_no_pipeline_is_refused(root: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=message):
        described(root, **keys)


def test_a_specification_that_spark_refuses_is_refused_in_its_words(root: Path) -> None:
    write_specification(root, {"nonsense": 1})
    with pytest.raises(InvalidJobGraph, match=r"spark-pipeline\.yml: .*nonsense"):
        described(root)


def test_a_pipeline_does_not_run_where_no_tables_stay(root: Path) -> None:
    with pytest.raises(InvalidJobGraph, match=r"vertex 'raw' is a data set of a pipeline, .* spark.local.catalog"):
        select_vertices(described(root).graph, ())


@pytest.mark.parametrize("text", ["interval day", "a", "", "a int,", "a b c"])
def test_a_type_that_only_spark_knows_is_refused(text: str) -> None:
    with pytest.raises(NeedsSpark, match="invalid type"):
        parse_types(text)

"""What is run without a cluster: which vertices in which order, what of a statement is let through, which Spark is taken."""

import io
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.proto import Command

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, bind_parameters, parse_job_graph
from eventflink.model.places import Place
from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.spark_server import SERVER_FILE, SparkServerSettings
from eventflink.workbench import own_spark as own_sparks
from eventflink.workbench.own_spark import OwnSpark
from eventflink.workbench.selection import deployment_of, select_vertices, with_parallelism
from eventflink.workbench.withheld_writes import SinksNeeded, WithheldWrites, writes

STREAM = {"sources": {"rows": {"rate": {"rows_per_second": 1}}}, "sink": {"files": {"path": "/nowhere"}, "format": "parquet"}}


def graph_of(edges: str, **more: Any) -> JobGraph:
    """Return a graph of edges such as `a>b b>c`, whose vertices stand in the document from the last to the first."""
    pairs = [edge.split(">") for edge in edges.split()]
    names = sorted({name for pair in pairs for name in pair}, reverse=True)
    vertices = [{"id": name, "python": "job:run", **more.get(name, {})} for name in names]
    return parse_job_graph({"name": "g", "vertices": vertices, "edges": [{"from": a, "to": b} for a, b in pairs]}, "document")


def order(graph: JobGraph, *wanted: str) -> str:
    return "".join(vertex.vertex_id for vertex in select_vertices(graph, wanted))


def test_each_vertex_comes_behind_those_that_it_reads_and_else_as_the_document_has_it() -> None:
    graph = graph_of("a>b a>c b>d c>d d>e f>e")
    assert order(graph) == "facbde"
    assert order(graph, "d") == "acbd"
    assert order(graph, "f", "b") == "fab"


def test_a_vertex_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InvalidJobGraph, match=r"vertex not found: 'aa'.*; the job has b, a"):
        order(graph_of("a>b"), "aa")


def test_a_stream_is_refused_unless_what_was_chosen_does_without_it() -> None:
    document = {
        "name": "s",
        "vertices": [
            {"id": "table", "sql": "SELECT 1"},
            {"id": "stream", "sql": "SELECT * FROM rows", "stream": {**STREAM, "sink": {"kafka": {"topic": "t"}, "format": "json"}}},
        ],
        "edges": [{"from": "table", "to": "stream", "ship": "broadcast"}],
    }
    graph = parse_job_graph(document, "document")
    assert order(graph, "table") == "table"
    with pytest.raises(InvalidJobGraph, match=r"vertex 'stream' is a stream.*'eventflink up'.*by --vertex: table"):
        order(graph)


def test_code_that_only_a_cluster_has_is_refused() -> None:
    graph = parse_job_graph({"name": "g", "vertices": [{"id": "a", "sql": "SELECT 1"}], "code_archives": ["0" * 64]}, "document")
    with pytest.raises(InvalidJobGraph, match=r"code_archives: .* by --code"):
        order(graph)


def test_a_subtask_is_told_what_those_before_it_have_left() -> None:
    document = {
        "name": "g",
        "parameters": {"day": {"type": "date", "description": "which"}},
        "vertices": [
            {"id": "a", "python": "m:f", "parallelism": 4},
            {"id": "b", "sql": "SELECT :day", "parallelism": 3, "parameters": {"x": 1}},
        ],
        "edges": [{"from": "a", "output": "left", "to": "b", "name": "in", "ship": "hash", "keys": ["k"]}],
    }
    graph = with_parallelism(bind_parameters(parse_job_graph(document, "document"), {"day": "2026-11-25"}), 2)
    left = [OutputLocation("left", f"/data/{index}", 1, 1, 1, "digest") for index in range(2)]
    first, second = graph.vertices
    assert [each.parallelism for each in graph.vertices] == [2, 2]
    writer = deployment_of(graph, first, AttemptId("job", "a", 1, 1), {}, ("archive",))
    assert (writer.outputs, writer.inputs, writer.code_archives, writer.subtask_index) == (("left",), (), ("archive",), 1)
    reader = deployment_of(graph, second, AttemptId("job", "b", 0, 1), {("a", "left"): left}, ())
    [read] = reader.inputs
    assert (read.input_name, read.ship, read.keys, list(read.locations)) == ("in", "HASH", ("k",), left)
    assert [(each.name, each.value, each.description) for each in reader.job_parameters] == [("day", "2026-11-25", "")]
    assert (reader.parameters_json, reader.outputs) == ('{"x":1}', ())


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "(SELECT 1) UNION ALL SELECT 2",
        "-- INSERT INTO t\n  select * from t",
        "/* DROP */ WITH t AS (SELECT 1 AS n) SELECT * FROM t",
        "FROM t SELECT a",
        "VALUES (1)",
        "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1",
        "create temp view v as select 1",
        "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "CREATE TEMPORARY FUNCTION f AS 'a.B'",
        "SET spark.sql.shuffle.partitions = 1",
        "DESCRIBE t",
        "/* load */ SELECT /*+ COALESCE(1) */ 1",
        "-- goes on \\\n INSERT INTO t\nSELECT 1",
        "/***//*/ a */ SELECT 1",
        "WITH a AS (SELECT 1 AS x) SELECT x, 'insert into t', \"delete from t\" FROM a",
        r"WITH a AS (SELECT 1 AS x) SELECT 'it\'s INSERT INTO t' FROM a",
        "WITH a AS (SELECT 1 AS x) -- for the INSERT INTO step\n SELECT x /* DELETE FROM t */ FROM a",
        "FROM t SELECT `INSERT INTO u`, t.update x, update, insert FROM t",
        "WITH t AS (SELECT 1 AS update) SELECT * FROM t ORDER BY update DESC",
        "WITH t AS (SELECT 1 AS update) SELECT * FROM t WHERE update IS NOT NULL",
        "WITH t AS (SELECT 1 AS insert) SELECT CASE WHEN insert THEN 1 END FROM t",
        "WITH t AS (SELECT 1 a) SELECT a update FROM t",
        "WITH update AS (SELECT 1 k), b AS (SELECT 1 k) SELECT count(*) FROM update INNER JOIN b USING (k)",
        "WITH merge AS (SELECT 1) SELECT * FROM merge JOIN x",
        "WITH a AS (SELECT * FROM range(1)) SELECT * FROM a merge JOIN x",
        "WITH update AS (SELECT 1 a), insert AS (SELECT 1 b) SELECT * FROM update INNER JOIN insert ON true",
        "WITH delete AS (SELECT (1) a) SELECT * FROM (SELECT delete FROM delete) WHERE a = (1)",
        "WITH RECURSIVE t(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
        "WITH recursive AS (SELECT 1) SELECT * FROM recursive",
        "WITH`a`(b)AS(SELECT ')'),c(SELECT 1)FROM a SELECT b",
        "WITH t AS (SELECT 1) (SELECT * FROM t) UNION ALL SELECT 2",
        "WITH t AS (SELECT 1) VALUES (1)",
        "WITH t AS (SELECT 1) TABLE t",
        "WITH t AS (WITH update AS (SELECT 1) SELECT * FROM update) SELECT * FROM t",
        "WITH x AS (SELECT '$' || '$') SELECT * FROM x",
        "FROM orders |> WHERE update IS NULL",
        "FROM range(3) |> SELECT id AS update |> WHERE update IS NOT NULL |> ORDER BY update DESC",
        "FROM insert SELECT *",
        "FROM t insert JOIN u SELECT insert.a",
    ],
)
def test_a_statement_that_changes_its_session_alone_is_let_through(statement: str) -> None:
    assert not writes(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT 1",
        "  -- why\n insert overwrite directory '/d' using parquet select 1",
        "WITH t AS (SELECT 1) INSERT INTO u SELECT * FROM t",
        "FROM t INSERT OVERWRITE u SELECT *",
        "CREATE TABLE t AS SELECT 1",
        "CREATE OR REPLACE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
        "BEGIN INSERT INTO t SELECT 1; END",
        "EXECUTE IMMEDIATE 'DROP TABLE t'",
        "",
        "SELECTED",
        "/* load */ CREATE TABLE zz AS /* rows */ SELECT 1",
        "/* load */ INSERT OVERWRITE DIRECTORY '/d' USING parquet SELECT /*+ COALESCE(1) */ 1",
        "-- goes on \\\n SELECT 1\nINSERT INTO t SELECT 1",
        "-- ends\rINSERT INTO t\nSELECT 1",
        "/* /* */ SELECT 1 */ INSERT INTO t SELECT 1",
        "WITH s AS (SELECT 1) MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "WITH s AS (SELECT 1) DELETE FROM t WHERE a IN (SELECT * FROM s)",
        "WITH s AS (SELECT 1) UPDATE `t` SET a = 1",
        "WITH s AS (SELECT 1) INSERT WITH SCHEMA EVOLUTION INTO t SELECT * FROM s",
        "WITH s AS (SELECT 1) insert /* why */ into t SELECT * FROM s",
        r"WITH s AS (SELECT r'\' AS a) INSERT INTO t SELECT a, 'x' FROM s",
        "WITH s AS (SELECT $a$'$a$) INSERT INTO t SELECT 'x' FROM s",
        "WITH x AS (SELECT 1) DELETE/**/FROM a",
        "WITH x(update) AS (SELECT 1) UPDATE`a` SET b=1",
        "WITH x(a) (SELECT 1) DELETE FROM t",
        "WITH x AS (SELECT 1), y(SELECT 2) UPDATE t SET b = 1",
        "WITH x AS (SELECT 1) MERGE INTO`a` USING x ON true WHEN MATCHED THEN DELETE",
        "WITH RECURSIVE x(n) MAX RECURSION LEVEL 9 AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "WITH x AS (SELECT 1) FROM x INSERT INTO t SELECT *",
        "WITH x AS (SELECT ')') DELETE FROM t",
        "WITH x AS (SELECT 1 /* a /* b */ ) SELECT ( */ ) DELETE FROM t",
        "FROM t INSERT INTO a SELECT * INSERT INTO b SELECT *",
        "FROM t INSERT INTO`a` SELECT *",
        "FROM t LATERAL VIEW explode(a) x AS y\tINSERT OVERWRITE DIRECTORY '/d' SELECT *",
        "FROM (FROM t SELECT a) s INSERT WITH SCHEMA EVOLUTION INTO a SELECT *",
        "FROM t |> WHERE a = 1 |> INSERT INTO u",
    ],
)
def test_a_statement_that_may_change_more_is_not(statement: str) -> None:
    assert writes(statement)


@pytest.mark.parametrize("comment", ["/* a */ ", "-- a\n", "/*a*/-- b\n"])
def test_any_number_of_comments_hides_nothing(comment: str) -> None:
    many = comment * 10_000
    assert writes(f"{many}CREATE TABLE t AS {many} SELECT 1")
    assert not writes(f"{many}WITH t AS (SELECT 1) SELECT * FROM t {many}")


@pytest.mark.parametrize("part", ["(", ")", "t AS (SELECT 1), ", "INSERT ", "a ", ", "])
def test_a_long_statement_is_read_at_once(part: str) -> None:
    began = time.process_time()
    writes(f"WITH {part * 20_000}")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind", ["write_stream_operation_start", "execute_external_command", "pipeline_command", "extension"])
def test_a_command_that_may_write_and_that_a_task_needs_is_refused(kind: str) -> None:
    client = SparkConnectClient("sc://localhost:1")
    WithheldWrites(Place("/own")).watch(client)
    command = Command()
    getattr(command, kind).SetInParent()
    with pytest.raises(SinksNeeded, match=r"a batch task .*: run it with --sinks"):
        client.execute_command(command)


def test_a_spark_that_stays_is_found_by_who_would_start_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sparks, "default_cache_directory", lambda: tmp_path)
    settings = SparkServerSettings("local[1]", "1g")
    stays = OwnSpark(settings, 60_000)
    assert (stays.directory.parent, stays.settings.idle_timeout_ms) == (tmp_path, 60_000)
    assert OwnSpark(settings, 0).directory.parent != tmp_path
    with FileLock(stays.directory / SERVER_FILE, 1.0):  # What its supervisor holds as long as it lives.
        assert OwnSpark(settings, 0).directory == stays.directory
        assert OwnSpark(SparkServerSettings("local[1]", "2g"), 0).directory.parent != tmp_path
        monkeypatch.setenv("SPARK_CONF_DIR", "/other")
        assert OwnSpark(settings, 0).directory.parent != tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["job.yaml"], "parameter 'day': it has neither a default nor a value"),
        (["job.yaml", "--param", "day=monday"], "parameter 'day'"),
        (["job.yaml", "--param", "day=2026-11-25", "--vertex", "b"], "vertex not found: 'b'"),
        (["job.yaml", "--param", "day=2026-11-25", "--code", "none.py"], "none.py: No such file or directory"),
        (["job.yaml", "--parallelism", "0"], "'--parallelism'"),
        (["none.yaml"], "none.yaml: No such file or directory"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_anything_runs(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eventflink.workbench.graph_run.own_spark", lambda *_: pytest.fail("Spark was asked for"))
    (tmp_path / "job.yaml").write_text("{name: j, parameters: {day: {type: date}}, vertices: [{id: a, sql: 'SELECT :day'}]}")
    assert run(["dev", *arguments]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_a_task_that_needs_no_spark_waits_for_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text("{name: j, vertices: [{id: a, python: 'eventflink.testing.tasks:noop', parallelism: 2}]}")
    assert run(["dev", str(tmp_path / "job.yaml")]) == ExitCode.OK
    told = capsys.readouterr()
    assert told.out.startswith("a: 0 rows in ")
    assert told.err == f"on a cluster: eventflink submit {tmp_path}/job.yaml\n"


def test_what_is_next_of_a_job_in_python_names_no_code_that_submit_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "alone_job.py"
    document.write_text("import eventflink\n\n@eventflink.task\ndef a(context): pass\n\n@eventflink.job\ndef alone(): a()\n")
    assert run(["dev", str(document)]) == ExitCode.OK
    assert capsys.readouterr().err == f"on a cluster: eventflink submit {document}\n"


def test_what_is_next_has_the_options_of_this_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, options = tmp_path / "job.yaml", ["-D", "spark.local.memory=2g"]
    document.write_text("{name: j, vertices: [{id: a, python: 'eventflink.testing.tasks:noop'}]}")
    assert run([*options, "dev", str(document)]) == ExitCode.OK
    assert capsys.readouterr().err == f"on a cluster: eventflink -D spark.local.memory=2g submit {document}\n"
    (tmp_path / "fails.py").write_text("def f(context):\n    raise LookupError\n")
    document.write_text("{name: j, vertices: [{id: a, python: 'fails:f'}]}")
    assert run([*options, "dev", str(document)]) == ExitCode.NEGATIVE
    assert f": eventflink -D spark.local.memory=2g dev {document}" in capsys.readouterr().err


def test_of_what_comes_by_standard_input_no_command_is_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "fails.py").write_text("def f(context):\n    raise LookupError\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{name: j, vertices: [{id: a, python: 'fails:f'}]}")))
    assert run(["dev", "-", "--code", str(tmp_path / "fails.py")]) == ExitCode.NEGATIVE
    told = capsys.readouterr().err
    assert "LookupError" in told
    assert "next:" not in told


@pytest.mark.parametrize("imported", ["", "import none_such_either\n"])
def test_code_that_is_missing_is_to_be_named(imported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if imported:
        (tmp_path / "none_such.py").write_text(imported)
    (tmp_path / "job.yaml").write_text("{name: j, vertices: [{id: a, python: 'none_such:f'}]}")
    assert run(["dev", str(tmp_path / "job.yaml")]) == ExitCode.NEGATIVE
    _, begins, rest = capsys.readouterr().err.partition("vertex 'a' failed: ")  # Before it, clients of other tests may log their ends.
    told = begins + rest
    assert told.startswith(f"vertex 'a' failed: {'ModuleNotFoundError' if imported else 'UnknownFunction'}: ")
    assert told.endswith("next: name the files and directories of its code by --code, as 'eventflink submit' has to be told them\n")
    assert told.count("  File ") == (1 if imported else 0)

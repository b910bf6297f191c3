"""What looks wrong in SQL is told before a job runs, with its place, and what Spark takes is not doubted."""

from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.jobs import sql_doubts
from eventflink.jobs.sql_doubts import MAX_DOUBTS, doubts_of
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import check_job_graph
from tests.support.random_queries import random_query

OF_SPARK = (
    "SELECT a, count(*) FILTER (WHERE b > 1) FROM t GROUP BY ALL",
    "SELECT /*+ BROADCAST(b) */ * FROM a JOIN b ON a.k <=> b.k LEFT ANTI JOIN c USING (k)",
    "SELECT window.start, window.end, count(*) FROM t GROUP BY window(ts, '10 minutes')",
    "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)",
    "SELECT aggregate(arr, 0, (acc, x) -> acc + x), v:a.b::int, r'\\d', 1.5BD FROM t WHERE day = :day",
    "FROM t |> WHERE a > 1 |> SELECT b",
    "SELECT * FROM t LATERAL VIEW explode(a) x AS y",
    "SELECT 'a' COLLATE UNICODE_CI = 'A', IDENTIFIER('a') FROM IDENTIFIER(:t)",
    "DECLARE VARIABLE least INT DEFAULT 10; SET VAR least = 5; SELECT * FROM t WHERE a >= least",
    "MERGE INTO a USING b ON a.k = b.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "SET TIME ZONE 'Europe/Berlin'; CACHE TABLE x; SELECT 1",
    "BEGIN DECLARE x INT; SET x = 1; SELECT x; END",
    "WITH orders AS (SELECT 1) SELECT * FROM orders",
    "CREATE TEMPORARY VIEW orders AS SELECT 1; SELECT * FROM orders",
    "INSERT INTO orders SELECT 1",
    "SELECT /*+ BROADCAST(orders) */ * FROM v AS orders",
    f"SELECT 1{'::int' * 12_000}",
    "SELECT * FROM shop.orders",
)


def _graph(sql: str, *inputs: str, **more: Any) -> JobGraph:
    vertices = [{"id": "orders", "python": "jobs:orders"}, {"id": "b", "sql": sql, **more}]
    return check_job_graph({"name": "x", "vertices": vertices, "edges": [{"from": each, "to": "b"} for each in inputs]})


@pytest.mark.parametrize("sql", OF_SPARK)
def test_what_spark_takes_is_not_doubted(sql: str) -> None:
    assert not doubts_of(_graph(sql))


def test_queries_that_spark_has_run_are_not_doubted() -> None:
    statements = {vertex.sql for seed in range(20) for vertex in random_query(seed).vertices}
    assert len(statements) > 50
    assert not [doubt for sql in statements for doubt in doubts_of(_graph(sql))]


@pytest.mark.parametrize(
    ("sql", "caret"),
    [
        ("SELECT count(* FROM t", "  1 | SELECT count(* FROM t\n                     ^"),
        ("SELECT 1;\n\nSELECT a b c\nFROM t", "  3 | SELECT a b c\n                 ^"),
        ("SELECT a\nFROM t\nWHERE", "  3 | WHERE\n      ^"),
        ("selct 1", "  1 | selct 1\n            ^"),
        (f"SELECT '{'x' * 1_000}' a b c FROM t", f"  1 | …{'x' * 115}' a b c FROM t\n      {' ' * 120}^"),
    ],
)
def test_a_statement_that_cannot_be_read_is_told_with_a_caret(sql: str, caret: str) -> None:
    assert doubts_of(_graph(sql)) == [f"vertex 'b': here the statement looks like no SQL of Spark's:\n{caret}"]


@pytest.mark.parametrize("sql", ["SELECT 'a", "SELECT " + "(" * 3_000 + "1" + ")" * 3_000])
def test_what_cannot_be_read_at_all_is_told_by_its_line(sql: str) -> None:
    assert doubts_of(_graph(f"SELECT 1;\n{sql}")) == ["vertex 'b': the statement in line 2 looks like no SQL of Spark's"]


def test_an_edge_that_seems_to_be_missing_is_named() -> None:
    told = ["vertex 'b' reads 'orders' and has no such input: is an edge missing, {from: orders, to: b}?"]
    assert doubts_of(_graph("SELECT * FROM Orders JOIN other USING (k)")) == told
    assert doubts_of(_graph("INSERT INTO archive SELECT * FROM orders")) == told
    assert not doubts_of(_graph("SELECT * FROM Orders", "orders"))


def test_the_doubts_of_a_graph_are_bounded() -> None:
    vertices = [{"id": f"v{number}", "sql": "selct 1"} for number in range(2 * MAX_DOUBTS)]
    assert len(doubts_of(check_job_graph({"name": "x", "vertices": vertices}))) == MAX_DOUBTS


def test_nothing_is_told_where_nobody_can_read_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_doubts, "find_spec", lambda _: None)
    assert not doubts_of(_graph("selct 1"))


def test_a_doubt_is_a_warning_beside_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nvertices: [{id: a, sql: 'selct 1'}]\n")
    assert run(["info", str(tmp_path / "job.yaml"), "--json"]) == ExitCode.OK
    told = capsys.readouterr()
    assert told.out.startswith('{"plan":')
    assert "warning: vertex 'a': here the statement looks like no SQL of Spark's:\n  1 | selct 1\n            ^" in told.err

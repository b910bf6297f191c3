"""How the SQL files of a pipeline are divided into definitions."""

import pytest

from eventflink.jobs.pipelines.statements import DataSetKind, InvalidPipeline, SqlDefinition, SqlSetting, definitions_of
from eventflink.jobs.pipelines.tables_named import tables_of_query

VIEW, TABLE, TEMPORARY = DataSetKind.MATERIALIZED_VIEW, DataSetKind.STREAMING_TABLE, DataSetKind.TEMPORARY_VIEW


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE MATERIALIZED VIEW a AS SELECT 1 AS x", SqlDefinition(VIEW, "a", "", "", "SELECT 1 AS x", "a")),
        (
            """create streaming table if not exists s.`b c` (x INT COMMENT ') AS', y STRING) USING delta PARTITIONED BY (y)
               COMMENT 'as (' -- AS\nAS SELECT * FROM STREAM(events)""",
            SqlDefinition(
                TABLE,
                "s.`b c`",
                "x INT COMMENT ') AS', y STRING",
                "USING delta PARTITIONED BY (y)\n               COMMENT 'as (' -- AS",
                "SELECT * FROM STREAM(events)",
                "s.`b c`",
            ),
        ),
        ("CREATE STREAMING TABLE t", SqlDefinition(TABLE, "t", "", "", "", "t")),
        ("CREATE STREAMING TABLE t (x INT) USING orc;", SqlDefinition(TABLE, "t", "x INT", "USING orc", "", "t")),
        (
            "/* one */ CREATE FLOW f COMMENT 'x' AS INSERT INTO s.t BY NAME SELECT 1",
            SqlDefinition(None, "f", "", "", "SELECT 1", "s.t"),
        ),
        ("CREATE TEMP VIEW v (a) AS WITH t AS (FROM u) FROM t", SqlDefinition(TEMPORARY, "v", "a", "", "WITH t AS (FROM u) FROM t", "v")),
        ("SET spark.x = 'a b'", SqlSetting("spark.x", "'a b'")),
        ("SET spark.hadoop.fs-x = 1", SqlSetting("spark.hadoop.fs-x", "1")),
        (
            "CREATE MATERIALIZED VIEW `a``b` AS SELECT '${day}', '${none}'",
            SqlDefinition(VIEW, "`a``b`", "", "", "SELECT '7', '${none}'", "`a``b`"),
        ),
    ],
)  # fmt: skip
def test_a_statement_is_divided_where_spark_divides_it(sql: str, expected: SqlDefinition | SqlSetting) -> None:
    assert definitions_of(f"-- first\n{sql}", "x.sql", {"day": "7"}.get) == [expected]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1", "it defines nothing of a pipeline"),
        ("USE sales", "name tables with their catalogue and database in place of USE"),
        ("CREATE MATERIALIZED VIEW x", "materialized view 'x' has no query"),
        ("CREATE FLOW f AS SELECT 1", "flow 'f' does not say where it writes"),
        ("CREATE FLOW f AS AUTO CDC INTO t FROM STREAM s KEYS (a) SEQUENCE BY b", "flow 'f': a flow of AUTO CDC"),
        ("CREATE MATERIALIZED VIEW IDENTIFIER('x') AS SELECT 1", "it defines nothing of a pipeline"),
        ("CREATE MATERIALIZED VIEW a-b AS SELECT 1", "it defines nothing of a pipeline"),
        ("CREATE STREAMING TABLE t (x INT AS SELECT 1", "a bracket is opened and never closed"),
    ],
)
def test_what_a_pipeline_cannot_have_is_told_with_its_line(sql: str, message: str) -> None:
    with pytest.raises(InvalidPipeline) as refused:
        definitions_of(f"SET a = b;\n\n{sql};\n", "x.sql")
    assert str(refused.value).startswith("x.sql, line 3: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT a * 2 FROM STREAM(events)", ["`events`"]),
        ("SELECT * FROM STREAM sales.`my events` AS s JOIN cat.sales.rates", ["`sales`.`my events`", "`cat`.`sales`.`rates`"]),
        ("WITH orders AS (SELECT * FROM raw) SELECT * FROM orders JOIN sales.orders", ["`raw`", "`sales`.`orders`"]),
        ("SELECT 'FROM hidden' FROM a -- b", ["`a`"]),
        ("WITH orders AS (SELECT * FROM orders WHERE id > 1) SELECT * FROM orders", ["`orders`"]),
        ("WITH RECURSIVE orders AS (SELECT 1 UNION ALL SELECT * FROM orders) SELECT * FROM orders JOIN raw", ["`raw`"]),
        ("SELECT * FROM orders JOIN (WITH orders AS (SELECT 1) SELECT * FROM orders) AS b", ["`orders`"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b JOIN raw", ["`raw`"]),
        ("SELECT /*+ BROADCAST(raw) */ * FROM events AS raw", ["`events`"]),
        ("SELECT * FROM IDENTIFIER('orders') JOIN f(TABLE(raw))", ["orders", "raw", "`raw`"]),
        ("TABLE orders", ["`orders`"]),  # sqlglot does not know it: any known name that stands in it
        ("SELECT * FROM orders WATERMARK at DELAY OF INTERVAL 1 MINUTE -- raw", ["`orders`"]),
    ],
)  # fmt: skip
def test_the_tables_of_a_query_are_found_also_where_no_parser_reads_it(query: str, tables: list[str]) -> None:
    assert sorted(tables_of_query(query, {"orders", "raw", "events"})) == sorted(tables)


def test_a_table_whose_name_is_made_up_when_the_query_runs_is_refused() -> None:
    with pytest.raises(InvalidPipeline, match="write its name"):
        tables_of_query("SELECT * FROM IDENTIFIER(:table)", ())

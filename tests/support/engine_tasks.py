"""Batch tasks that use each kind of what a Spark elsewhere is asked for; tests pack this file into an archive and never import it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def rows_of_task(context: Any) -> Any:
    """Return rows that come from the task's own process: as tuples, of pandas, and so many that Spark is sent them beside the query."""
    import pandas as pd  # noqa: PLC0415 - here as in a task that is imported without Spark

    spark = context.spark
    few = spark.createDataFrame([(1, "one", None), (2, "two", [1, 2])], "id BIGINT, name STRING, list ARRAY<INT>")
    frame = spark.createDataFrame(pd.DataFrame({"id": [3], "name": ["three"]}))
    many = spark.createDataFrame([(number, f"{number:>60}") for number in range(100, 40_100)], "id BIGINT, name STRING")
    return few.select("id", "name").unionAll(frame.select("id", "name")).unionAll(many).selectExpr("id", "trim(name) AS name")


def rows_of_functions(context: Any) -> Any:
    """Return what each kind of Python function of Spark makes of the numbers of the input."""
    import pandas as pd  # noqa: PLC0415 - here as in a task that is imported without Spark
    from pyspark.sql import functions as f  # noqa: PLC0415 - likewise

    numbers = context.inputs["numbers"]
    plain = f.udf(lambda number: number + 1, "bigint")
    by_arrow = f.udf(lambda number: number + 2, "bigint", useArrow=True)

    @f.pandas_udf("bigint")  # type: ignore[untyped-decorator]  # pyspark says nothing of it
    def by_pandas(column: pd.Series) -> pd.Series:
        return column + 3

    def in_batches(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    def of_group(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"id": [int(frame["id"].iloc[0])], "groups": [len(frame)]})

    groups = numbers.groupBy("id").applyInPandas(of_group, "id BIGINT, groups BIGINT")
    rows = numbers.select("id", plain("id").alias("plain"), by_arrow("id").alias("arrow"), by_pandas("id").alias("pandas"))
    return rows.mapInArrow(in_batches, rows.schema).join(groups, "id")


def planned_for_long(context: Any) -> Any:
    """Have Spark plan for many seconds in the first attempt; say when each has its session, and end the second when it is let."""
    path, spark = Path(context.parameters["path"]), context.spark
    path.with_name(f"begun.{context.attempt}").touch()
    if context.attempt > 1:
        deadline_s = time.monotonic() + 120
        while not path.exists():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{path} did not come")
            time.sleep(0.02)
        return spark.range(1)
    spark.sql("CREATE TEMPORARY VIEW v AS SELECT id, id + 1 AS a FROM range(10)")
    selects = [f"SELECT a.id, b.a AS c FROM v a JOIN v b ON a.id = b.id WHERE a.id > {number}" for number in range(500)]
    spark.sql(f"SELECT count(*) FROM ({' UNION ALL '.join(selects)})").collect()
    return None


def computed_for_long(context: Any) -> Any:
    """Have Spark compute for hours in the first attempt; the second one as above."""
    if context.attempt > 1:
        return planned_for_long(context)
    spark = context.spark
    Path(context.parameters["path"]).with_name("begun.1").touch()
    spark.sql("SELECT sum(sin(a.id) * cos(b.id)) FROM range(1000000000) a CROSS JOIN range(1000) b").collect()
    return None


def named_source(context: Any) -> None:
    """Ask for what came with Spark 4.2: a streaming source with a name."""
    assert context.spark.readStream.name("ticks").format("rate").load().columns

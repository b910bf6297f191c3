"""Streams as a user writes them; tests pack this file into an archive and never import it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def copy(context: Any) -> Any:
    """Return the only source as it is."""
    return context.inputs["source"]


def copy_when_let(context: Any) -> Any:
    """Return the only source as it is; of each batch all but the first partition comes when the file that a parameter names is there."""
    return _when_let(context.inputs["source"], context)


def copy_both_when_let(context: Any) -> Any:
    """Return the source and what came over the edge, of which all but the first partition comes as above."""
    rows = [context.inputs[name].select("key", "number") for name in ("source", "parse")]
    return _when_let(rows[0].unionAll(rows[1]), context)


def from_the_least(context: Any) -> Any:
    """Return the rows of the only input from the number on that a parameter of the job names."""
    [name] = context.inputs
    return context.inputs[name].filter(f"number >= {context.parameters['least']:d}")


def _when_let(rows: Any, context: Any) -> Any:
    gate = Path(context.parameters["gate"])

    def wait(batches: Any) -> Any:
        from pyspark import TaskContext  # noqa: PLC0415 - here as in a task that is imported without Spark

        deadline_s = time.monotonic() + 120
        while TaskContext.get().partitionId() > 0 and not gate.exists():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{gate} did not come")
            time.sleep(0.02)
        yield from batches

    return rows.mapInArrow(wait, rows.schema)


def count_by_key(context: Any) -> Any:
    """Return how many records each key has had, whenever that changes."""
    return context.inputs["source"].groupBy("key").count()


def distinct(context: Any) -> Any:
    """Return each row once, as long as Spark knows of it."""
    return context.inputs["source"].dropDuplicates(["number", "at"])


def returns_a_table(context: Any) -> Any:
    """Return what is no stream."""
    return context.spark.range(3)


def raises(context: Any) -> Any:
    """Fail in a Python function that Spark runs."""
    from pyspark.sql.functions import udf  # noqa: PLC0415 - here as in a task that is imported without Spark

    def fail(number: int) -> int:
        raise LookupError(f"no use for {number}")

    return context.inputs["source"].select(udf(fail, "bigint")("number").alias("number"))


class Unusable(Exception):
    """A number of no use."""


def _doubled(number: int) -> int:
    if number < 0:
        raise Unusable(number)
    return number * 2


def doubled(context: Any) -> Any:
    """Return each number twice as large, by a function of this module that Spark runs."""
    from pyspark.sql.functions import udf  # noqa: PLC0415 - here as in a task that is imported without Spark

    return context.inputs["source"].select(udf(_doubled, "bigint")("number").alias("number"))


def with_names(context: Any) -> Any:
    """Join the stream with a table that another vertex made."""
    return context.inputs["source"].join(context.inputs["names"], "key")


def names(context: Any) -> Any:
    """Return the name of each key."""
    return context.spark.sql("SELECT concat('k', id) AS key, concat('name-', id) AS name FROM range(7)")


def append_to_file(batch: Any, batch_id: int) -> None:
    """Append a line for each row of a batch to a file that the rows name."""
    for row in batch.collect():
        with Path(row["path"]).open("a") as file:
            file.write(f"{batch_id} {row['number']}\n")


def large(context: Any) -> Any:
    """Return one record that no topic takes."""
    return (
        context.inputs["source"]
        .where("number = 50")
        .selectExpr("array_join(transform(sequence(1, 60000), i -> sha2(string(i), 512)), '') AS text")
    )


def split(context: Any) -> Any:
    """Return the even numbers and, without their keys, the odd ones."""
    rows = context.inputs["source"]
    return {"even": rows.where("number % 2 = 0"), "odd": rows.where("number % 2 = 1").select("number")}


def first_of_three(context: Any) -> Any:
    """Return the third part of each number, once for the three numbers that have it."""
    return context.inputs["source"].where("number >= 0").selectExpr("number div 3 AS third").dropDuplicates(["third"])


def good_and_bad(context: Any) -> Any:
    """Return the numbers of the source, and the text of its bad records."""
    rows = context.inputs["source"]
    bad = rows.where("_bad_record IS NOT NULL").selectExpr("_bad_record AS value")
    return {"good": rows.where("_bad_record IS NULL").select("number"), "bad": bad}


def windows(context: Any) -> Any:
    """Return how many even numbers came in each minute; nothing, as no number is odd; and the bad records of the source."""
    return _windows(context.inputs["source"])


def windows_by_own_watermark(context: Any) -> Any:
    """Return the same of a source without an event time."""
    return _windows(context.inputs["source"].withWatermark("at", "60 seconds"))


def windows_of_edge(context: Any) -> Any:
    """Return the same of what comes over the edge, which has no bad records."""
    return _windows(context.inputs["pass_on"].selectExpr("*", "string(NULL) AS _bad_record"))


def pass_on(context: Any) -> Any:
    """Return the rows of the source that are good."""
    return context.inputs["source"].where("_bad_record IS NULL").select("number", "at")


def _windows(rows: Any) -> Any:
    from pyspark.sql.functions import window  # noqa: PLC0415 - here as in a task that is imported without Spark

    good = rows.where("_bad_record IS NULL")
    counts = [good.where(f"number % 2 = {odd}").groupBy(window("at", "1 minute")).count() for odd in (0, 1)]
    even, odd = (each.selectExpr("unix_timestamp(window.start) AS start", "count") for each in counts)
    return {"even": even, "odd": odd, "bad": rows.where("_bad_record IS NOT NULL").selectExpr("_bad_record AS value")}


def parse(context: Any) -> Any:
    """Return the rows of the source with the time at which each happened."""
    return context.inputs["source"].selectExpr("key", "number", "timestamp_seconds(number) AS at")


def count_numbers(context: Any) -> Any:
    """Return how often each number came over the edge, by its key, whenever that changes."""
    return context.inputs["parse"].groupBy("key", "number").count()


def copy_parsed(context: Any) -> Any:
    """Return what came over the edge, and which subtask read it."""
    return context.inputs["parse"].selectExpr("key", "number", f"{context.subtask_index} AS subtask")


def totals_by_key(context: Any) -> Any:
    """Return the total of each key whenever it changes, by a state of Python's own."""
    import pandas as pd  # noqa: PLC0415 - here as in a task that is imported without Spark

    def add(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        total = (state.get[0] if state.exists else 0) + sum(int(frame["number"].sum()) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "total": [total]})

    grouped = context.inputs["source"].groupBy("key")
    return grouped.applyInPandasWithState(add, "key STRING, total BIGINT", "total BIGINT", "update", "NoTimeout")


def totals_by_processor(context: Any) -> Any:
    """Return the same by a stateful processor."""
    import pandas as pd  # noqa: PLC0415 - here as in a task that is imported without Spark
    from pyspark.sql.streaming import StatefulProcessor  # noqa: PLC0415 - likewise

    class Totals(StatefulProcessor):  # type: ignore[misc]  # pyspark says nothing of its types
        def init(self, handle: Any) -> None:
            self._total = handle.getValueState("total", "total BIGINT")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
            total = (self._total.get()[0] if self._total.exists() else 0) + sum(int(frame["number"].sum()) for frame in rows)
            self._total.update((total,))
            yield pd.DataFrame({"key": [key[0]], "total": [total]})

        def close(self) -> None:
            pass

    grouped = context.inputs["source"].groupBy("key")
    return grouped.transformWithStateInPandas(Totals(), "key STRING, total BIGINT", "Update", "None")


def rows_of_iceberg(spark: Any) -> Any:
    """Return the rows of a table of Iceberg, which a setting names, as a stream."""
    return spark.readStream.format("iceberg").load(spark.conf.get("spark.eventflink.test.table"))

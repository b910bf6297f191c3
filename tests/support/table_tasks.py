"""Jobs on tables as a user writes them; tests pack this file into an archive and never import it."""

import os
import signal
import time
from pathlib import Path
from typing import Any


def numbers_of_its_own(context: Any) -> Any:
    """Return numbers of this attempt's own; a first attempt dies when a table of Delta has them, before anybody hears of it."""
    from eventflink.taskexecutor import table_sink  # noqa: PLC0415 - as a user's code never does

    return _numbers(context, table_sink, "write_to_table")


def numbers_in_iceberg(context: Any) -> Any:
    """Return the same; a first attempt dies when a table of Iceberg has them."""
    from eventflink.taskexecutor import iceberg_sink  # noqa: PLC0415 - as a user's code never does

    return _numbers(context, iceberg_sink, "write_to_iceberg")


def _numbers(context: Any, sink: Any, name: str) -> Any:
    if context.attempt == 1:
        write = getattr(sink, name)

        def write_and_die(*arguments: Any) -> None:
            write(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(sink, name, write_and_die)
    first = 100 * context.subtask_index + 1_000 * (context.attempt - 1)
    return context.spark.range(first, first + 100).withColumnRenamed("id", "number")


def numbers_held(context: Any) -> Any:
    """Return numbers; the first attempt stands still before a table of Iceberg has them, or after that, until a file is there."""
    if context.attempt == 1:
        from eventflink.streams.iceberg_table import IcebergTable  # noqa: PLC0415 - as a user's code never does

        commit, here = IcebergTable.commit, Path(context.parameters["here"])

        def stand_still() -> None:
            (here / "held").touch()
            while not (here / "go-on").exists():
                time.sleep(0.05)

        def commit_slowly(*arguments: Any) -> None:
            if context.parameters["moment"] == "before":
                stand_still()
            commit(*arguments)
            if context.parameters["moment"] == "after":
                stand_still()

        IcebergTable.commit = commit_slowly  # type: ignore[method-assign,assignment]
    return context.spark.range(100).withColumnRenamed("id", "number")


def raised_by_a_hundred(context: Any) -> Any:
    """Return the rows of a source with other numbers, to go where they are from."""
    return context.inputs["sales"].selectExpr("number + 100 AS number", "odd")

"""Tables of Delta Lake as sources read them: a batch task at one version, a stream from one version on.

Spark reads the rows, by Delta's own reader. The rules kept here:

- A batch task reads one version, whatever is committed while it reads: which one is found out first, and named in the statement.
- An error that says nothing of what is declared passes through: a store that does not answer is no invalid condition.
"""

import datetime as dt
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.batch_source_document import SourceTableDocument
from eventflink.model.job_parameters import single_values
from eventflink.model.stream_document import StreamTableDocument
from eventflink.streams.delta_table import check_extension, find_path, quoted_table
from eventflink.streams.failures import TableUnusable

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_NO_TABLE: Final = ("DELTA_TABLE_ONLY_OPERATION", "DELTA_TABLE_NOT_FOUND", "DELTA_SCHEMA_NOT_SET", "PATH_NOT_FOUND")
_ALL_FILES: Final = 2**31 - 1
"""The largest number of files for a batch that Delta takes."""
_NO_LOG: Final = re.compile(r"FileNotFoundException.*_delta_log does not exist")
"""The error of a store when Delta looks for a version in a directory without a log."""
_NO_VERSION: Final = ("DELTA_VERSION_NOT_FOUND", "DELTA_NO_RECREATABLE_HISTORY_FOUND")
"""What Delta says of a version that the table's log does not have, or not any more."""


def read_table(
    spark: "SparkSession", name: str, declared: SourceTableDocument, path: str, parameters: Mapping[str, Any]
) -> "tuple[DataFrame, int]":
    """Return the rows of a table at the version that is declared, and which one that is.

    Args:
        spark: the session of the task.
        name: of the source, for messages.
        declared: which table, which version, which rows.
        path: where the table is.
        parameters: of the task; a condition names those that are a single value, as `:day`.

    Raises:
        TableUnusable: there is no such table, version or column, or this Spark has no tables of Delta.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    check_extension(spark, declared.location)
    try:
        version = declared.version if declared.version is not None else _find_version(spark, name, declared, path)
        statement = f"SELECT * FROM {quoted_table(path)} VERSION AS OF {version}"  # noqa: S608 - the path has no quotes
        arguments = None
        if declared.where is not None:
            statement, arguments = f"{statement} WHERE (\n{declared.where}\n)", single_values(parameters)
        rows = spark.sql(statement, args=arguments)
        rows.schema  # noqa: B018 - Spark looks at the statement when it is asked for its columns
    except PySparkException as error:
        raise _explained(error, name, declared) or error from error
    return rows, version


def _find_version(spark: "SparkSession", name: str, declared: SourceTableDocument, path: str) -> int:
    from pyspark.sql import functions as f  # noqa: PLC0415 - likewise

    history = f"DESCRIBE HISTORY {quoted_table(path)}"
    if declared.as_of is None:
        newest = spark.sql(f"{history} LIMIT 1").select("version").collect()
    else:
        at_us = int(dt.datetime.fromisoformat(declared.as_of).timestamp() * 1_000_000)
        commits = spark.sql(history).select("version", f.unix_micros("timestamp").alias("at_us"))
        newest = commits.where(f.col("at_us") <= at_us).orderBy(f.desc("version")).limit(1).collect()
    if not newest:
        raise TableUnusable(
            f"version not found: as of {declared.as_of} the table {declared.location} of source '{name}' had none, or its log does not "
            "go back so far any more"
        )
    return int(newest[0].version)


def _explained(error: "PySparkException", name: str, declared: SourceTableDocument) -> TableUnusable | None:
    """Return what an error says of what is declared; None: it is another one."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - likewise

    condition, text = error.getCondition() or "", str(error).strip().partition("\n")[0]
    if condition in _NO_TABLE or _NO_LOG.search(text):
        return TableUnusable(f"table of Delta not found: '{declared.location}' of source '{name}'")
    if condition in _NO_VERSION:
        return TableUnusable(f"version not found: in the table {declared.location} of source '{name}': {text}")
    if declared.where is not None and isinstance(error, AnalysisException) and not condition.startswith("DELTA_"):
        return TableUnusable(f"invalid where of source '{name}', the table {declared.location}: {text}")
    return None


def stream_table(spark: "SparkSession", name: str, declared: StreamTableDocument, *, has_event_time: bool) -> "DataFrame":
    """Return the rows of a table as a stream: those that are there, or from a version on, and each that is appended.

    Args:
        spark: the session of the task.
        name: of the source, for messages.
        declared: which table, and from where on.
        has_event_time: whether the rows have a watermark. Those that are there are one batch then: they come by their files, and
            those of a later batch would be late.

    Raises:
        TableUnusable: there is no such table, or this Spark has no tables of Delta.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - likewise

    check_extension(spark, declared.location)
    all_at_once = _ALL_FILES if has_event_time and declared.starting_version is None else None
    options: dict[str, Any] = {
        "startingVersion": declared.starting_version,
        "maxFilesPerTrigger": declared.max_files_per_trigger or all_at_once,
        "skipChangeCommits": "true" if declared.changed_rows == "skip" else None,
    }
    rows = spark.readStream.format("delta").options(**{key: value for key, value in options.items() if value is not None})
    rows = rows.load(find_path(spark, declared.location))
    try:
        rows.schema  # noqa: B018 - likewise
    except PySparkException as error:
        if (error.getCondition() or "") not in _NO_TABLE:
            raise
        raise TableUnusable(f"table of Delta not found: '{declared.location}' of source '{name}'") from error
    return rows

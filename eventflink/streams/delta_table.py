"""Tables of Delta Lake as sinks and sources have them, those of streams and those of batch tasks: what is common to them.

Delta keeps a number for each writer of a table (`txnAppId`, `txnVersion`), changes it in the commit that has the rows, and leaves out a
commit whose number is not above it; of two at the same time that have one writer, one fails. Which numbers a writer has, its sink knows.
The rule kept here: what a table has of a writer is read from the table's own log, and from nowhere else.
"""

import json
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from eventflink.jobs.catalog_tables import KEEPS_TABLES, column_list, forgets_tables, provider_of
from eventflink.model.backoff import Backoff
from eventflink.model.places import S3
from eventflink.model.sql_script import quoted
from eventflink.streams.failures import TableUnusable
from eventflink.streams.merging import MergeBy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
"""What a Spark that has Delta's tables names in `spark.sql.extensions`."""

LOG_STORE_SETTING: Final = f"spark.delta.logStore.{S3}.impl"
"""Of a Spark: by which class Delta writes the logs of tables in S3."""

_MARK_OPTIONS: Final = ("txnAppId", "txnVersion", "userMetadata")
_MARK_SETTINGS: Final = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)
_ROWS: Final = "eventflink_rows"
"""How the names of views begin whose rows are merged."""

_LOG_FILES: Final = "_delta_log/[0-9]*"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
"""A file of a checkpoint of the table's log, with how many there are of it if there are several."""

_AT_ONCE: Final = 100
"""So many older commits are read at once."""
_ACTIONS: Final = "txn STRUCT<appId: STRING, version: BIGINT>, commitInfo STRUCT<userMetadata: STRING>"
_MAKING_TRIES: Final = 8
_MAKING_PAUSE_S: Final = 0.1
_LONGEST_MAKING_PAUSE_S: Final = 2.0
_CONFLICT: Final = re.compile(r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED|METADATA_MISMATCH_CONCURRENT)|Concurrent\w*Exception")
"""What Delta says when another writer was quicker."""


@dataclass(frozen=True, slots=True)
class TableMark:
    """What a table has of a writer: the number of its newest commit, and what that says of itself."""

    number: int
    said: dict[str, Any] = field(default_factory=dict)
    """What the writer wrote into the history of the table; empty: the table does not have it any more."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What a commit makes the mark of its writer."""

    writer_id: str
    number: int
    text: str
    """What the history of the table says of the commit."""

    @property
    def options(self) -> dict[str, str]:
        """What a writer of Spark is told of it."""
        return dict(zip(_MARK_OPTIONS, (self.writer_id, str(self.number), self.text), strict=True))

    @property
    def settings(self) -> dict[str, str]:
        """What a session is told of it for a statement, which has no options."""
        return dict(zip(_MARK_SETTINGS, (self.writer_id, str(self.number), self.text), strict=True))


def read_mark(spark: "SparkSession", path: str, writer_id: str) -> TableMark | None:
    """Return the mark of a writer in a table, from its log as Delta's protocol has it: the newest checkpoint, and the commits after it.

    What the commit of the mark was, no checkpoint says: it is looked for in older commits as well. Of one that Delta has removed after
    the time that it keeps commits (`delta.logRetentionDuration`, 30 days), it is a batch that was written.
    """
    files = [row.path for row in spark.read.format("binaryFile").load(f"{path}/{_LOG_FILES}").select("path").collect()]
    checkpoint, newer, older = files_to_read(files)
    texts = _texts_of(spark, newer, writer_id)
    number = max([*_numbers_in(spark, checkpoint, writer_id), *texts], default=-1)
    if number < 0:
        return None
    while number not in texts and older:
        texts, older = _texts_of(spark, older[:_AT_ONCE], writer_id), older[_AT_ONCE:]
    return TableMark(number, json.loads(texts.get(number) or "{}"))


def _numbers_in(spark: "SparkSession", checkpoint: list[str], writer_id: str) -> list[int]:
    """Return the number of a writer that a checkpoint of the log has, if it has any."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    reader, found = spark.read.schema(_ACTIONS), []
    for read, suffix in ((reader.parquet, ".parquet"), (lambda *paths: reader.json(list(paths)), ".json")):
        if paths := [file for file in checkpoint if file.endswith(suffix)]:
            found += read(*paths).where(f.col("txn.appId") == writer_id).select("txn.version").collect()
    return [row.version for row in found]


def _texts_of(spark: "SparkSession", commits: list[str], writer_id: str) -> dict[int, str]:
    """Return what commits of a writer say of themselves, by their numbers."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if not commits:
        return {}
    is_mine = f.col("txn.appId") == writer_id
    actions = spark.read.schema(_ACTIONS).json(commits).where(is_mine | f.col("commitInfo.userMetadata").isNotNull())
    rows = actions.select("_metadata.file_name", "txn.version", "commitInfo.userMetadata").collect()
    texts = {row.file_name: row.userMetadata for row in rows if row.userMetadata is not None}
    return {row.version: texts.get(row.file_name, "") for row in rows if row.version is not None}


def files_to_read(files: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the files of the newest checkpoint that is whole, those of the commits after it, and those up to it, the newest first."""
    commits: dict[int, str] = {}
    checkpoints: dict[tuple[int, int], list[str]] = {}
    for file in files:
        name = file.rpartition("/")[2]
        if found := _COMMIT.fullmatch(name):
            commits[int(found[1])] = file
        elif found := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault((int(found[1]), int(found[2] or 0)), []).append(file)
    whole = [(version, count) for (version, count), parts in checkpoints.items() if len(parts) >= count]
    newest = max(whole, default=(-1, 0))
    newer = [commits[version] for version in sorted(commits) if version > newest[0]]
    older = [commits[version] for version in sorted(commits, reverse=True) if version <= newest[0]]
    return checkpoints.get(newest, []), newer, older


def quoted_table(path: str) -> str:
    """Return a table as SQL names it."""
    return f"delta.`{path}`"


def merge(rows: "DataFrame", path: str, by: MergeBy, mark: CommitMark) -> None:
    """Replace or delete the rows that have the keys of a new one, and insert the others; columns that the rows lack keep what they have.

    Args:
        rows: the new ones, with the column that says which of them delete.
        path: of the table.
        by: what is replaced and deleted.
        mark: of the commit.

    """
    spark, columns = rows.sparkSession, [name for name in rows.columns if name.lower() != (by.delete_when or "").lower()]
    known, values = {name.lower() for name in by.keys}, ", ".join(f"new.{quoted(name)}" for name in columns)
    same = " AND ".join(f"old.{quoted(name)} <=> new.{quoted(name)}" for name in by.keys)
    changed = ", ".join(f"old.{quoted(name)} = new.{quoted(name)}" for name in columns if name.lower() not in known)
    is_later = deletes = stays = ""
    if by.latest_by is not None:
        latest = quoted(by.latest_by)
        is_later = f" AND (old.{latest} IS NULL OR new.{latest} >= old.{latest})"
    if by.delete_when is not None:
        said = f"coalesce(new.{quoted(by.delete_when)}, false)"
        deletes, stays = f"WHEN MATCHED AND {said}{is_later} THEN DELETE", f" AND NOT {said}"
    view = f"{_ROWS}_{uuid.uuid4().hex}"
    clauses = [f"MERGE INTO {quoted_table(path)} AS old USING {view} AS new ON {same}"]
    clauses += [deletes] if deletes else []
    clauses += [f"WHEN MATCHED{stays}{is_later} THEN UPDATE SET {changed}"] if changed else []
    clauses += [f"WHEN NOT MATCHED{stays} THEN INSERT ({', '.join(map(quoted, columns))}) VALUES ({values})"]  # noqa: S608 - names are quoted
    rows.createOrReplaceTempView(view)
    # A statement is told of its mark by the session. The task's own one may have a batch of a stopped query in it, whose merge would be
    # done under the mark of this one, or under none: so each has a session of its own.
    apart = spark.cloneSession()
    try:
        for name, value in mark.settings.items():
            apart.conf.set(name, value)
        apart.sql(" ".join(clauses)).collect()
    finally:
        apart.client.release_session()
        apart.client.close()
        spark.catalog.dropTempView(view)


def is_conflict(error: Exception) -> bool:
    """Tell whether another writer was quicker."""
    return _CONFLICT.search(str(error)) is not None


def find_path(spark: "SparkSession", location: str, rows: "DataFrame | None" = None, partition_by: Sequence[str] = ()) -> str:
    """Return the path of a table that is named by its path, or by its name in the catalogue of its Spark.

    Args:
        spark: the session of the task.
        location: a path, or a name, which has no slash.
        rows: those that are to be written; a table of that name is made for them where there is none. None: it has to be there.
        partition_by: the columns by which it is partitioned then.

    Raises:
        TableUnusable: there is no such table, it is none of Delta, or the Spark forgets it.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if "/" in location:
        return location
    check_extension(spark, location)
    if forgets_tables(spark, location):
        raise TableUnusable(f"the table {location} would be forgotten when the Spark ends that runs this task: {KEEPS_TABLES}")
    name = ".".join(quoted(each) for each in location.split("."))
    if not spark.catalog.tableExists(name):
        if rows is None:
            raise TableUnusable(f"table of Delta not found: '{location}'")
        partitioned = f" PARTITIONED BY ({', '.join(quoted(each) for each in partition_by)})" if partition_by else ""
        columns = column_list(rows.schema, keep_nulls_out=False)
        try:
            spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING delta{partitioned}")
        except PySparkException:
            if not spark.catalog.tableExists(name):  # Else another subtask has made it at this moment.
                raise
    if (provider := provider_of(spark, name)) != "delta":
        raise TableUnusable(f"the table {location} is one of {provider or 'another format'}, and none of Delta")
    [detail] = spark.sql(f"DESCRIBE DETAIL {name}").collect()
    return str(detail.location)


def check_extension(spark: "SparkSession", path: str) -> None:
    """Check that a Spark has tables of Delta.

    Raises:
        TableUnusable: it has none.

    """
    if DELTA_EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise TableUnusable(
            f"the table {path} is one of Delta, and the Spark that runs this task has none: set 'spark.tables: delta' where TaskExecutors "
            "are configured, stop all of this host, and start them again ten seconds later, when the Spark that they share has ended; a "
            "server of spark.remote needs the jars and settings of docs/tables.md"
        )


def _check_log_store(spark: "SparkSession", path: str) -> None:
    if path.startswith(f"{S3}://") and not spark.conf.get(LOG_STORE_SETTING, ""):
        raise TableUnusable(
            f"the table {path} is in S3, where of two Sparks that commit at one moment one would lose its rows: the server of spark.remote "
            f"needs {LOG_STORE_SETTING}, as docs/tables.md says"
        )


def make_table(rows: "DataFrame", path: str, partition_by: Sequence[str], merge_by: MergeBy | None = None) -> None:
    """Make the table of a sink where there is none, and check one that is there; what Delta raises passes through.

    Args:
        rows: those that are to be written.
        path: of the table.
        partition_by: the columns by which it is partitioned; empty: by none where it is made, else by any.
        merge_by: by what they are merged; None: they are not.

    Raises:
        TableUnusable: this Spark has no Delta, or would lose rows there, or the rows do not fit the table.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    spark, pauses = rows.sparkSession, Backoff(_MAKING_PAUSE_S, _LONGEST_MAKING_PAUSE_S)
    check_extension(spark, path)
    _check_log_store(spark, path)
    columns = {name.lower() for name in rows.columns}
    if missing := [name for name in partition_by if name.lower() not in columns]:
        raise TableUnusable(f"partition_by of the sink names column '{missing[0]}', which the rows do not have: {', '.join(rows.columns)}")
    nothing = spark.createDataFrame([], rows.schema).write.format("delta").mode("ignore")
    if partition_by:
        nothing = nothing.partitionBy(*partition_by)
    for remaining in reversed(range(_MAKING_TRIES)):
        try:
            nothing.save(path)
            break
        except PySparkException as error:
            if not remaining or not is_conflict(error):  # Another subtask makes it at this moment.
                raise
            time.sleep(pauses.next())
    table = {field.name.lower(): field for field in spark.read.format("delta").load(path).schema.fields}
    if merge_by is not None:
        merge_by.check_table(table, path)
    have = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    problems = [f"the table has no column '{name}'" for name in have if name.lower() not in table]
    problems += [
        f"column '{name}' is {kind}, and {there} in the table"
        for name, kind in have.items()
        if name.lower() in table and kind.lower() != (there := table[name.lower()].dataType.simpleString()).lower()
    ]
    detail = spark.sql(f"DESCRIBE DETAIL {quoted_table(path)}").first()
    partitioned_by = list(detail.partitionColumns) if detail is not None else []
    if partition_by and [name.lower() for name in partition_by] != [name.lower() for name in partitioned_by]:
        problems.append(f"partition_by names {', '.join(partition_by)}, and the table has {', '.join(partitioned_by) or 'no partitions'}")
    problems += [
        f"the table is partitioned by '{name}', and the rows do not have it" for name in partitioned_by if name.lower() not in columns
    ]
    if problems:
        raise TableUnusable(f"the rows do not fit the table {path}: {'; '.join(problems[:3])}")

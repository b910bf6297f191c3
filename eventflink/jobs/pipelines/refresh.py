"""The task that brings one data set of a pipeline up to date, by operations of its own session.

A materialized view is computed and replaces what its table had. A streaming table takes what is new in its sources, and the task ends when
all of that is there: each flow has a checkpoint below the pipeline's `storage`, so that each row comes once, whichever attempt was killed.
The tables are in the catalogue of the engine. The rule this module keeps: it writes to no table that another program has made, and reads
on from no checkpoint of another table, also one that had the same name.
"""

import hashlib
import json
import re
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from eventflink.jobs.catalog_tables import KEEPS_TABLES, column_list, forgets_tables, properties_of, provider_of, sql_text
from eventflink.jobs.context import TaskContext
from eventflink.jobs.pipelines.definitions import (
    DataSet,
    Definitions,
    Flow,
    read_definitions,
    sql_name,
    with_settings,
)
from eventflink.jobs.pipelines.statements import DataSetKind
from eventflink.model.job_parameters import text_of
from eventflink.model.sql_script import masked, quoted

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import DataFrame, SparkSession

REFRESH: Final = "eventflink.jobs.pipelines.refresh:refresh"
"""The function of each vertex that is a data set."""
PIPELINE: Final = "pipeline"
"""The parameter of a vertex that says what it is to refresh."""
FULL_REFRESH: Final = "full_refresh"
"""The parameter of a job that names the data sets that begin anew."""
ALL: Final = "*"
_OWNER: Final = "eventflink.pipeline"
_DEFINITION: Final = "eventflink.definition"
_CHECKPOINT: Final = "eventflink.checkpoint"
_FILE_FORMATS: Final = frozenset({"parquet", "orc", "json", "csv", "text", "avro"})
_AWAITED_S: Final = 10
_COLUMN: Final = re.compile(r"(?:^|,)\s*(`[^`]*`|\w+)")
_PROPERTIES: Final = re.compile(r"\bTBLPROPERTIES\s*\(", re.IGNORECASE)


class PipelineTask(BaseModel):
    """What a vertex is to refresh, as its parameters say."""

    model_config = ConfigDict(extra="forbid")

    spec_file: str
    """Its name in the archive of the pipeline."""
    data_set: str
    views: list[str]
    """Which its queries need; each comes after those that it reads itself."""
    above: list[str]
    """All data sets that it reads, also by way of others: where one begins anew, so does this one."""
    definition: str
    """A digest of what the data set is made of: a rerun tells by it what has changed."""


def table_of(task: str, parameters_json: str) -> str | None:
    """Return the full name of the table that a vertex keeps for a pipeline; None: it keeps none.

    Args:
        task: its function.
        parameters_json: its parameters, as they stand in a graph.

    """
    if task != REFRESH:
        return None
    try:
        name = PipelineTask.model_validate(json.loads(parameters_json).get(PIPELINE)).data_set
    except (ValueError, AttributeError):  # Another program has made the graph.
        return None
    return name if "." in name else None  # A sink has a name of its own.


class PipelineUnusable(Exception):
    """A data set cannot be refreshed as it is defined; the message names it and says what to do."""


def refresh(context: TaskContext) -> "DataFrame":
    """Bring the data set of a vertex up to date; return one row with its name, its kind and how many rows it has.

    Raises:
        PipelineUnusable: the engine keeps no tables, or the table is another program's, or not as the definition needs it.
        Exception: what Spark and the code of the pipeline raise.

    """
    from pyspark.pipelines.cli import load_pipeline_spec  # noqa: PLC0415 - Spark is loaded by those who use it

    task = PipelineTask.model_validate(context.parameters[PIPELINE])
    with tempfile.TemporaryDirectory(prefix="eventflink-pipeline-") as directory, chdir(directory):
        root = Path(directory)
        _unpack(task.spec_file, root)
        spec_file = root / task.spec_file
        spec = load_pipeline_spec(spec_file)
        session = context.spark
        given = {name: text_of(value) for name, value in context.parameters.items() if name not in (PIPELINE, FULL_REFRESH)}
        for key, value in {**spec.configuration, **given}.items():
            session.conf.set(key, value)
        _enter(session, spec)
        data_set, flows = _definitions_for(task, spec_file, spec, session)
        is_full = _begins_anew(str(context.parameters.get(FULL_REFRESH, "")), (data_set.name, *task.above))
        rows = _Refresh(session, spec, data_set, flows, task.above, is_full=is_full).run()
        return session.createDataFrame([(data_set.name, data_set.kind.value, rows)], "data_set STRING, kind STRING, rows BIGINT")


def _unpack(spec_file: str, root: Path) -> None:
    """Unpack the archive of the pipeline, which is on the module path, so that its files are as they were."""
    for entry in sys.path:
        if zipfile.is_zipfile(entry):
            with zipfile.ZipFile(entry) as archive:
                if spec_file in archive.namelist():
                    archive.extractall(root)
                    return
    raise PipelineUnusable(f"pipeline not found: no code archive of the job has '{spec_file}'; submit the job by eventflink's client")


def _enter(session: "SparkSession", spec: "PipelineSpec") -> None:
    """Make the catalogue and the database of the pipeline those of names without them."""
    if spec.catalog is not None:
        session.catalog.setCurrentCatalog(spec.catalog)
    if forgets_tables(session):
        raise PipelineUnusable(f"a pipeline keeps its tables in the catalogue of its Spark, and this one forgets them: {KEEPS_TABLES}")
    if spec.database is not None:
        session.catalog.setCurrentDatabase(spec.database)
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "static")


def _definitions_for(task: PipelineTask, spec_file: Path, spec: "PipelineSpec", session: "SparkSession") -> tuple[DataSet, list[Flow]]:
    """Return a data set and its flows, with their queries, after the views that these name."""
    definitions = Definitions()
    for name in (*task.views, task.data_set):
        definitions = read_definitions(spec_file, spec, session, name.__eq__)
        if name not in definitions.data_sets:
            raise PipelineUnusable(f"data set not found: '{name}' is no longer among the definitions: submit the pipeline again")
        if name in task.views:
            view, [flow] = definitions.data_sets[name], definitions.flows_into(name)
            columns = [each.strip("`") for each in _COLUMN.findall(masked(view.columns))]
            rows = _rows_of(flow)
            (rows.toDF(*columns) if columns else rows).createOrReplaceTempView(quoted(name))
    return definitions.data_sets[task.data_set], definitions.flows_into(task.data_set)


def _begins_anew(names: str, data_sets: Iterable[str]) -> bool:
    """Tell whether one of the data sets is named, with its catalogue and database or without."""
    asked = {each.strip().lower() for each in names.split(",")} - {""}
    return ALL in asked or any(f".{name}".endswith(f".{each}") for name in data_sets for each in asked)


def _rows_of(flow: Flow) -> "DataFrame":
    if flow.rows is None:
        raise PipelineUnusable(f"flow '{flow.name}' returns no DataFrame")
    return flow.rows


@dataclass(slots=True)
class _Refresh:
    """One refresh of one data set."""

    session: "SparkSession"
    spec: "PipelineSpec"
    data_set: DataSet
    flows: list[Flow]
    above: list[str]
    is_full: bool

    def run(self) -> int | None:
        """Refresh it; return how many rows it has, of a sink None."""
        if self.data_set.kind is DataSetKind.SINK:
            self._write_to_sink()
            return None
        if self.data_set.kind is DataSetKind.MATERIALIZED_VIEW:
            self._replace_rows()
        else:
            self._append_rows()
        rows: int = self.session.table(self._table).count()
        return rows

    @property
    def _table(self) -> str:
        return sql_name(self.data_set.name)

    def _replace_rows(self) -> None:
        [flow] = self.flows
        rows = _rows_of(flow)
        if rows.isStreaming:
            raise PipelineUnusable(f"materialized view '{self.data_set.name}' reads a stream: define it as a streaming table")
        columns = self.data_set.columns or column_list(rows.schema)
        known = properties_of(self.session, self._table)
        if known is not None:
            self._refuse_foreign(known)
        if known is None or known.get(_DEFINITION) != self._definition(columns):
            self._make_table(columns, {})
        names = self._checked_columns(rows, columns=self.session.table(self._table).columns)
        with with_settings(self.session, flow.settings):
            rows.select(*names).write.mode("overwrite").insertInto(self._table)

    def _append_rows(self) -> None:
        rows = [_rows_of(flow) for flow in self.flows]
        for flow, each in zip(self.flows, rows, strict=True):
            if not each.isStreaming:
                raise PipelineUnusable(
                    f"flow '{flow.name}' into the streaming table '{self.data_set.name}' reads no stream: read its source as one "
                    "(spark.readStream, STREAM), or define a materialized view"
                )
        columns = self.data_set.columns or _merged_columns(rows)
        known = properties_of(self.session, self._table)
        if known is not None:
            self._refuse_foreign(known)
        if known is None or self.is_full:
            # Of a checkpoint of its own: what an earlier table of this name had taken is not in this one.
            self._make_table(columns, {_CHECKPOINT: uuid.uuid4().hex})
            known = properties_of(self.session, self._table) or {}
        elif known.get(_DEFINITION) != self._definition(self.data_set.columns):
            raise PipelineUnusable(
                f"streaming table '{self.data_set.name}' has another definition now (format, partitions, columns or properties), and has "
                f"the rows of before: give it its former one, or begin it anew with --param {FULL_REFRESH}={self.data_set.name}"
            )
        else:
            self._add_columns(rows)
        provider = provider_of(self.session, self._table)
        if len(self.flows) > 1 and provider in _FILE_FORMATS:
            names = ", ".join(f"'{flow.name}'" for flow in self.flows)
            raise PipelineUnusable(
                f"flows {names} append to '{self.data_set.name}', a table of {provider}: Spark keeps one log of batches in such a table, "
                "and would leave out rows of one flow; define it with another format, such as delta, or one flow with the union of them"
            )

        def start(flow: Flow, each: "DataFrame") -> Any:
            writer = each.writeStream.outputMode("append").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", self._checkpoint(flow, known[_CHECKPOINT]))
            return (writer.format(provider) if provider else writer).toTable(self._table)

        self._run_streams(start)

    def _write_to_sink(self) -> None:
        # Where a table above has begun anew its rows are other ones, and no checkpoint knows them.
        known = [properties_of(self.session, sql_name(each)) or {} for each in self.above]
        checkpoints = hashlib.sha256(" ".join(each.get(_CHECKPOINT, "") for each in known).encode()).hexdigest()

        def start(flow: Flow, each: "DataFrame") -> Any:
            writer = each.writeStream.format(self.data_set.format).options(**self.data_set.options)
            return writer.option("checkpointLocation", self._checkpoint(flow, checkpoints)).trigger(availableNow=True).start()

        self._run_streams(start)

    def _run_streams(self, start: Callable[[Flow, "DataFrame"], Any]) -> None:
        queries = []
        for flow in self.flows:
            with with_settings(self.session, flow.settings):
                queries.append(start(flow, _rows_of(flow)))
        for query in queries:
            while not query.awaitTermination(_AWAITED_S):  # It raises where the query has failed.
                pass

    def _checkpoint(self, flow: Flow, table: str) -> str:
        return f"{self.spec.storage.rstrip('/')}/_eventflink/{self.data_set.name}/{flow.name}/{table}"

    def _refuse_foreign(self, known: Mapping[str, str]) -> None:
        owner = known.get(_OWNER)
        if owner != self.spec.name and not self.is_full:
            whose = f"that of the pipeline '{owner}'" if owner else "of another program"
            raise PipelineUnusable(
                f"table '{self.data_set.name}' is there, and is {whose}: rename the data set, or let this pipeline replace the table with "
                f"--param {FULL_REFRESH}={self.data_set.name}"
            )

    def _definition(self, columns: str) -> str:
        return hashlib.sha256(f"{columns}\0{self.data_set.clauses}".encode()).hexdigest()

    def _make_table(self, columns: str, properties: Mapping[str, str]) -> None:
        of_stream = self.data_set.kind is DataSetKind.STREAMING_TABLE
        marks = {_OWNER: self.spec.name, _DEFINITION: self._definition(self.data_set.columns if of_stream else columns), **properties}
        written = ", ".join(f"{sql_text(key)} = {sql_text(value)}" for key, value in marks.items())
        clauses, hidden = self.data_set.clauses, masked(self.data_set.clauses)
        if found := _PROPERTIES.search(hidden):
            clauses = f"{clauses[: found.end()]}{written}, {clauses[found.end() :]}"
        else:
            clauses = f"{clauses} TBLPROPERTIES ({written})"
        if not re.search(r"\bUSING\b", hidden, re.IGNORECASE):
            clauses = f"USING {self.session.conf.get('spark.sql.sources.default', 'parquet')} {clauses}"
        self.session.sql(f"DROP TABLE IF EXISTS {self._table}")
        self.session.sql(f"CREATE TABLE {self._table} ({columns}) {clauses}")

    def _add_columns(self, rows: Iterable["DataFrame"]) -> None:
        if self.data_set.columns:
            return
        there = {name.lower() for name in self.session.table(self._table).columns}
        new = {field.name: field for each in rows for field in each.schema.fields if field.name.lower() not in there}
        if new:
            written = ", ".join(f"{quoted(name)} {field.dataType.simpleString()}" for name, field in new.items())
            self.session.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({written})")

    def _checked_columns(self, rows: "DataFrame", columns: list[str]) -> list[str]:
        """Return the columns of the table in its order, which the rows have to have, and no others."""
        has, needs = {each.lower() for each in rows.columns}, {each.lower() for each in columns}
        if has != needs:
            raise PipelineUnusable(
                f"the rows of '{self.data_set.name}' have the columns {', '.join(rows.columns)}, and its table {', '.join(columns)}"
            )
        return [quoted(each) for each in columns]


def _merged_columns(rows: Iterable["DataFrame"]) -> str:
    """Return the columns of all flows, each where it is first named."""
    fields: dict[str, Any] = {}
    for each in rows:
        for field in each.schema.fields:
            fields.setdefault(field.name.lower(), field)
    # A row of another flow may have none of them.
    return ", ".join(f"{quoted(each.name)} {each.dataType.simpleString()}" for each in fields.values())

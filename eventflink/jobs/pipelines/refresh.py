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

from eventflink.jobs.catalog_tables import KEEPS_TABLES, column_list, forgets_tables, properties_of, provider_of, sql_text, sql_type
from eventflink.jobs.context import TaskContext
from eventflink.jobs.pipelines.definitions import (
    DataSet,
    Definitions,
    Flow,
    defaults_of,
    find_data_set,
    own_name,
    parts_of,
    sql_name,
    with_settings,
)
from eventflink.jobs.pipelines.loading import read_definitions
from eventflink.jobs.pipelines.statements import DataSetKind
from eventflink.jobs.pipelines.tables_named import tables_in
from eventflink.model.job_parameters import text_of
from eventflink.model.sql_script import masked, quoted

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
"""Where the checkpoints of its flows are: they stay there, also when the pipeline's `storage` is another place."""
_FLOWS: Final = "eventflink.flows"
_ABOVE: Final = "eventflink.above"
_FILE_FORMATS: Final = frozenset({"parquet", "orc", "json", "csv", "text", "avro"})
_AWAITED_S: Final = 10
_COLUMN: Final = re.compile(r"(?:^|,)\s*(`[^`]*`|\w+)")
_NAMES: Final = re.compile(r"(?:`[^`]*`|[^,`])+")
_OF_ROWS: Final = re.compile(r"\b(?:USING\s+[\w.]+|(?:PARTITIONED|CLUSTERED|CLUSTER)\s+BY\s*\([^)]*\))", re.IGNORECASE)
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
        definitions = _read(task, spec_file, spec, session)
        _check_reads(task, definitions, defaults_of(spec), session)
        asked = _asked_anew(str(context.parameters.get(FULL_REFRESH, "")), definitions, defaults_of(spec))
        data_set = definitions.data_sets[task.data_set]
        rows = _Refresh(session, spec, data_set, definitions.flows_into(task.data_set), task.above, asked).run()
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


def _read(task: PipelineTask, spec_file: Path, spec: "PipelineSpec", session: "SparkSession") -> Definitions:
    """Return the definitions, with the queries of the data set, after the views that these name."""
    definitions = Definitions()
    for name in (*task.views, task.data_set):
        definitions = read_definitions(spec_file, spec, session, name.__eq__)
        if name not in definitions.data_sets:
            raise PipelineUnusable(
                f"data set not found: '{name}' is not defined with the parameters of this run: what a data set is called must not depend "
                "on values that are given when a job is submitted"
            )
        if name in task.views:
            view, [flow] = definitions.data_sets[name], definitions.flows_into(name)
            columns = [each.strip("`") for each in _COLUMN.findall(masked(view.columns))]
            with with_settings(session, flow.settings):
                rows = _rows_of(flow)
                (rows.toDF(*columns) if columns else rows).createOrReplaceTempView(quoted(name))
    return definitions


def _check_reads(task: PipelineTask, definitions: Definitions, defaults: tuple[str, str], session: Any) -> None:
    """Check that the data set has waited for all that its queries name with the parameters of this run."""
    names = {parts_of(name)[-1] for name in definitions.data_sets}
    for flow in definitions.flows_into(task.data_set):
        relation = _rows_of(flow)._plan.plan(session.client)  # noqa: SLF001 - no method gives the plan
        for table in tables_in(relation, names, lambda key: session.conf.get(key, None)):
            known = find_data_set(definitions, table, defaults)
            if known is not None and known.name not in (task.data_set, *task.views, *task.above):
                raise PipelineUnusable(
                    f"'{task.data_set}' reads '{known.name}' in this run and has not waited for it: which tables a query names must not "
                    "depend on values that are given when a job is submitted"
                )


@dataclass(frozen=True, slots=True)
class _AskedAnew:
    """Which data sets a run is asked to begin anew."""

    all: bool
    names: frozenset[str]


def _asked_anew(text: str, definitions: Definitions, defaults: tuple[str, str]) -> _AskedAnew:
    """Return what the parameter `full_refresh` names.

    Raises:
        PipelineUnusable: a name is none of the pipeline's data sets.

    """
    named = [each.strip() for each in _NAMES.findall(text) if each.strip()]
    found = {each: find_data_set(definitions, each, defaults) or definitions.data_sets.get(own_name(each)) for each in named if each != ALL}
    stored = sorted(name for name, each in definitions.data_sets.items() if each.kind is DataSetKind.STREAMING_TABLE or "." in name)
    if unknown := [each for each, known in found.items() if known is None or known.name not in stored]:
        raise PipelineUnusable(f"table not found: {FULL_REFRESH} names '{unknown[0]}'; the pipeline has {', '.join(stored)}")
    return _AskedAnew(ALL in named, frozenset(each.name for each in found.values() if each is not None))


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
    asked: _AskedAnew

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

    @property
    def _is_named(self) -> bool:
        return self.data_set.name in self.asked.names

    @property
    def _begins_anew(self) -> bool:
        return self._is_named or self.asked.all or not self.asked.names.isdisjoint(self.above)

    def _replace_rows(self) -> None:
        [flow] = self.flows
        with with_settings(self.session, flow.settings):
            rows = _rows_of(flow)
            if rows.isStreaming:
                raise PipelineUnusable(f"materialized view '{self.data_set.name}' reads a stream: define it as a streaming table")
            columns = self.data_set.columns or column_list(rows.schema)
            known = self._own_properties()
            if known is None or known.get(_DEFINITION) != self._definition(columns) or known.get(_OWNER) != self.spec.name:
                self._make_table(columns, {_DEFINITION: self._definition(columns)})
            rows.select(*self._columns_for(rows)).write.mode("overwrite").insertInto(self._table)

    def _append_rows(self) -> None:
        schemas = [self._stream_schema(flow) for flow in self.flows]
        known = self._own_properties()
        if known is None or self._begins_anew:
            # Of a checkpoint of its own: what an earlier table of this name had taken is not in this one.
            checkpoints = f"{self.spec.storage.rstrip('/')}/_eventflink/{self.data_set.name}/{uuid.uuid4().hex}"
            marks = {
                _DEFINITION: self._definition(self.data_set.columns),
                _CHECKPOINT: checkpoints,
                _ABOVE: json.dumps(self._checkpoints_above()),
            }
            self._make_table(self.data_set.columns or _merged_columns(schemas), {**marks, _FLOWS: self._flow_names()})
            known = marks | {_FLOWS: self._flow_names()}
        self._check_goes_on(known)
        if not self.data_set.columns:
            self._add_columns(schemas)
        provider = provider_of(self.session, self._table)
        self._check_flows(known.get(_FLOWS, ""), provider)

        def start(flow: Flow, rows: "DataFrame") -> Any:
            writer = rows.select(*self._columns_for(rows)).writeStream.outputMode("append").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", f"{known[_CHECKPOINT]}/{flow.name}")
            return (writer.format(provider) if provider else writer).toTable(self._table)

        self._run_streams(start)

    def _stream_schema(self, flow: Flow) -> "StructType":
        with with_settings(self.session, flow.settings):
            rows = _rows_of(flow)
            if not rows.isStreaming:
                raise PipelineUnusable(
                    f"flow '{flow.name}' into the streaming table '{self.data_set.name}' reads no stream: read its source as one "
                    "(spark.readStream, STREAM), or define a materialized view"
                )
            return rows.schema

    def _check_goes_on(self, known: Mapping[str, str]) -> None:
        """Check that the rows that are there are of the same definition, and of the same tables above."""
        if known.get(_DEFINITION) != self._definition(self.data_set.columns):
            raise PipelineUnusable(
                f"streaming table '{self.data_set.name}' has another definition now (format, partitions or columns), and has the rows of "
                f"before: give it its former one, or {self._anew}"
            )
        before, now = json.loads(known.get(_ABOVE, "{}")), self._checkpoints_above()
        if begun := [name for name, checkpoint in now.items() if before.get(name, checkpoint) != checkpoint]:
            raise PipelineUnusable(
                f"streaming table '{self.data_set.name}' has rows of '{begun[0]}', which has begun anew since, and would have them twice: "
                f"{self._anew}"
            )
        if now != before:
            self._set_property(_ABOVE, json.dumps(now))

    def _check_flows(self, before: str, provider: str) -> None:
        """Check that each flow goes on where it was: each has a checkpoint by its name."""
        names = ", ".join(f"'{flow.name}'" for flow in self.flows)
        if provider in _FILE_FORMATS and len(self.flows) > 1:
            raise PipelineUnusable(
                f"flows {names} append to '{self.data_set.name}', a table of {provider}: Spark keeps one log of batches in such a table, "
                "and would leave out rows of one flow; define it with another format, such as delta, or one flow with the union of them"
            )
        former, now = set(json.loads(before or "[]")), {flow.name for flow in self.flows}
        if former == now:
            return
        if provider in _FILE_FORMATS or former - now:
            gone = ", ".join(f"'{each}'" for each in sorted(former))
            raise PipelineUnusable(
                f"flows {names} write to '{self.data_set.name}', which has the rows of {gone}: a flow goes on by its name, so give it its "
                f"former one, or {self._anew}"
            )
        self._set_property(_FLOWS, self._flow_names())

    def _set_property(self, key: str, value: str) -> None:
        self.session.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ({sql_text(key)} = {sql_text(value)})")

    @property
    def _anew(self) -> str:
        return f"begin it anew with --param {FULL_REFRESH}={self.data_set.name}"

    def _flow_names(self) -> str:
        return json.dumps(sorted(flow.name for flow in self.flows))

    def _checkpoints_above(self) -> dict[str, str]:
        """Return the checkpoints of the streaming tables above: one that begins anew has another."""
        known = {name: properties_of(self.session, sql_name(name)) or {} for name in self.above}
        return {name: properties[_CHECKPOINT] for name, properties in known.items() if _CHECKPOINT in properties}

    def _write_to_sink(self) -> None:
        if self.asked.all and not self.above:
            raise PipelineUnusable(f"sink '{self.data_set.name}' cannot begin anew: name the tables that are to, in place of {ALL}")
        # Where a table above has begun anew its rows are other ones, and no checkpoint knows them.
        tables = hashlib.sha256(" ".join(self._checkpoints_above().values()).encode()).hexdigest()
        checkpoints = f"{self.spec.storage.rstrip('/')}/_eventflink/{self.data_set.name}/{tables}"

        def start(flow: Flow, rows: "DataFrame") -> Any:
            writer = rows.writeStream.format(self.data_set.format).options(**self.data_set.options)
            return writer.option("checkpointLocation", f"{checkpoints}/{flow.name}").trigger(availableNow=True).start()

        self._run_streams(start)

    def _run_streams(self, start: Callable[[Flow, "DataFrame"], Any]) -> None:
        queries = []
        for flow in self.flows:
            with with_settings(self.session, flow.settings):
                queries.append(start(flow, _rows_of(flow)))
        for query in queries:
            while not query.awaitTermination(_AWAITED_S):  # It raises where the query has failed.
                pass

    def _own_properties(self) -> dict[str, str] | None:
        """Return the properties of the table; None: there is none.

        Raises:
            PipelineUnusable: it is another program's, and the run does not name it.

        """
        known = properties_of(self.session, self._table)
        if known is not None and (owner := known.get(_OWNER)) != self.spec.name and not self._is_named:
            whose = f"that of the pipeline '{owner}'" if owner else "of another program"
            raise PipelineUnusable(
                f"table '{self.data_set.name}' is there, and is {whose}: rename the data set, or let this pipeline replace the table with "
                f"--param {FULL_REFRESH}={self.data_set.name}"
            )
        return known

    def _definition(self, columns: str) -> str:
        """Return a digest of the format, the partitions and the columns; a comment and properties are of no row."""
        clauses = self.data_set.clauses
        parts = [" ".join(found[0].split()).lower() for found in _OF_ROWS.finditer(masked(clauses))]
        return hashlib.sha256("\0".join([" ".join(columns.split()), *sorted(parts)]).encode()).hexdigest()

    def _make_table(self, columns: str, properties: Mapping[str, str]) -> None:
        marks = {_OWNER: self.spec.name, **properties}
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

    def _add_columns(self, schemas: Iterable["StructType"]) -> None:
        """Add what rows have more than the table, whose columns nobody has declared."""
        there = {field.name.lower(): field.dataType for field in self.session.table(self._table).schema.fields}
        fields = [field for each in schemas for field in each.fields]
        for field in fields:
            if (kind := there.get(field.name.lower())) is not None and kind.simpleString() != field.dataType.simpleString():
                raise PipelineUnusable(
                    f"column '{field.name}' of '{self.data_set.name}' is {kind.simpleString()} in the table, and "
                    f"{field.dataType.simpleString()} in a flow: cast it there, or {self._anew}"
                )
        if new := {field.name.lower(): field for field in fields if field.name.lower() not in there}:
            written = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in new.values())
            self.session.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({written})")

    def _columns_for(self, rows: "DataFrame") -> "list[Column]":
        """Return the columns of the table, in its order and of its types, from rows that have them and no others.

        One of several flows may have only some of them.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is loaded by those who use it

        fields = self.session.table(self._table).schema.fields
        has, needs = {each.lower() for each in rows.columns}, {each.name.lower() for each in fields}
        if has - needs or (needs - has and len(self.flows) == 1 and self.data_set.columns):
            raise PipelineUnusable(
                f"the rows of '{self.data_set.name}' have the columns {', '.join(rows.columns)}, and its table "
                f"{', '.join(each.name for each in fields)}"
            )
        kinds = {each.name.lower(): each.dataType.simpleString() for each in rows.schema.fields}
        for each in fields:
            kind, there = kinds.get(each.name.lower(), ""), each.dataType.simpleString()
            if kind not in ("", there) and "struct<" in there:  # A cast takes fields by their places, whatever they are called.
                raise PipelineUnusable(
                    f"column '{each.name}' of '{self.data_set.name}' is {there} in the table, and {kind} in a query: name the fields there "
                    "as in the table, and in its order"
                )
        return [
            (f.col(quoted(each.name)) if each.name.lower() in has else f.lit(None)).cast(each.dataType).alias(each.name) for each in fields
        ]


def _merged_columns(schemas: Iterable["StructType"]) -> str:
    """Return the columns of all flows, each where it is first named."""
    fields: dict[str, Any] = {}
    for each in schemas:
        for field in each.fields:
            fields.setdefault(field.name.lower(), field)
    # A row of another flow may have none of them.
    return ", ".join(f"{quoted(each.name)} {sql_type(each.dataType)}" for each in fields.values())

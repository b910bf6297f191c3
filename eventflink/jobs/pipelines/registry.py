"""Takes what Spark's decorators and the SQL files of a pipeline define. Loaded with Spark's client, whose base class it has."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Sink, Table, TemporaryView

from eventflink.jobs.catalog_tables import column_list, sql_text
from eventflink.jobs.pipelines.definitions import (
    DataSet,
    Definitions,
    Flow,
    defaults_of,
    full_name,
    own_name,
    with_settings,
)
from eventflink.jobs.pipelines.offline_session import divided_at_commas
from eventflink.jobs.pipelines.statements import NO_AUTO_CDC, DataSetKind, InvalidPipeline, SqlDefinition, SqlSetting, definitions_of
from eventflink.model.sql_script import quoted

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import SparkSession


_COLON: Final = re.compile(r"^(`[^`]*`|\w+)\s*:\s*")
"""Behind the name of a column Spark takes a colon, but not in `CREATE TABLE`."""


class Registry(GraphElementRegistry):  # type: ignore[misc]  # pyspark says nothing of its types
    """Takes the definitions of one pipeline, and has the queries made that are wanted."""

    def __init__(self, spec: "PipelineSpec", session: "SparkSession", wanted: Callable[[str], bool]) -> None:
        """Take what `read_definitions` takes."""
        self.definitions = Definitions()
        self._defaults = defaults_of(spec)
        self._session = session
        self._wanted = wanted

    def register_output(self, output: Any) -> None:
        """Take a data set."""
        if isinstance(output, TemporaryView):
            self._add(DataSet(own_name(output.name), DataSetKind.TEMPORARY_VIEW))
        elif isinstance(output, Sink):
            self._add(DataSet(own_name(output.name), DataSetKind.SINK, format=output.format, options=dict(output.options)))
        elif isinstance(output, Table):
            kind = DataSetKind.MATERIALIZED_VIEW if isinstance(output, MaterializedView) else DataSetKind.STREAMING_TABLE
            self._add(DataSet(full_name(output.name, self._defaults), kind, _columns_of(output.schema), _clauses_of(output)))
        else:
            raise InvalidPipeline(f"'{output.name}' is a {type(output).__name__}, which a job cannot have")

    def register_flow(self, flow: Any) -> None:
        """Take a flow, and have its query made."""
        self._add_flow(flow.name, flow.target, dict(flow.spark_conf), flow.func)

    def register_auto_cdc_flow(self, flow: Any) -> None:
        """Refuse a flow of changes."""
        raise InvalidPipeline(f"flow '{flow.name or flow.target}': {NO_AUTO_CDC}")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Take what a SQL file defines."""
        settings: dict[str, str] = {}
        for each in definitions_of(sql_text, str(file_path), lambda key: self._session.conf.get(key, None)):
            if isinstance(each, SqlSetting):
                settings[each.key] = each.value
            else:
                self._add_sql(each, dict(settings))

    def _add_sql(self, found: SqlDefinition, settings: dict[str, str]) -> None:
        if found.kind is DataSetKind.TEMPORARY_VIEW:
            self._add(DataSet(own_name(found.name), found.kind, found.columns, found.clauses))
        elif found.kind is not None:
            self._add(DataSet(full_name(found.name, self._defaults), found.kind, found.columns, found.clauses))
        if found.query:
            with with_settings(self._session, settings):
                self._add_flow(found.name, found.target, settings, lambda: self._session.sql(found.query))

    def _add(self, data_set: DataSet) -> None:
        if data_set.name in self.definitions.data_sets:
            raise InvalidPipeline(f"two definitions make '{data_set.name}'")
        self.definitions.data_sets[data_set.name] = data_set

    def _add_flow(self, name: str, target: str, settings: Mapping[str, str], query: Callable[[], Any]) -> None:
        is_wanted = self._wanted(own_name(target)) or self._wanted(full_name(target, self._defaults))
        self.definitions.flows.append(Flow(own_name(name), target, settings, query() if is_wanted else None))

    def finish(self) -> Definitions:
        """Return all definitions; a flow may stand before the data set that it writes to.

        Raises:
            InvalidPipeline: a flow writes to nothing, or nothing to a data set.

        """
        data_sets = self.definitions.data_sets
        for number, flow in enumerate(self.definitions.flows):
            names = (own_name(flow.target), full_name(flow.target, self._defaults))
            known = next((each for each in names if each in data_sets), None)
            if known is None:
                raise InvalidPipeline(f"data set not found: flow '{flow.name}' writes to '{flow.target}', which no definition makes")
            self.definitions.flows[number] = replace(flow, target=known)
        for data_set in data_sets.values():
            flows = self.definitions.flows_into(data_set.name)
            if data_set.kind in (DataSetKind.MATERIALIZED_VIEW, DataSetKind.TEMPORARY_VIEW) and len(flows) > 1:
                raise InvalidPipeline(f"{data_set.kind.value} '{data_set.name}' has several flows; a streaming table and a sink may")
            if not flows:
                raise InvalidPipeline(f"{data_set.kind.value} '{data_set.name}' has no flow: nothing writes to it")
        return self.definitions


def _columns_of(schema: Any) -> str:
    if schema is None or isinstance(schema, str):
        return ", ".join(_COLON.sub(r"\1 ", each.strip()) for each in divided_at_commas(schema or ""))
    return column_list(schema)


def _clauses_of(table: Any) -> str:
    clauses = []
    if table.format:
        clauses.append(f"USING {table.format}")
    if table.partition_cols:
        clauses.append(f"PARTITIONED BY ({_names(table.partition_cols)})")
    if table.cluster_by:
        clauses.append(f"CLUSTER BY ({_names(table.cluster_by)})")
    if table.comment:
        clauses.append(f"COMMENT {sql_text(table.comment)}")
    if table.table_properties:
        clauses.append(f"TBLPROPERTIES ({', '.join(f'{sql_text(k)} = {sql_text(v)}' for k, v in table.table_properties.items())})")
    return " ".join(clauses)


def _names(columns: Iterable[str]) -> str:
    return ", ".join(quoted(each) for each in columns)

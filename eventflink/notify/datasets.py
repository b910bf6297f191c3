"""The data sets that a job reads and writes, by the names that OpenLineage's convention gives them.

Known are those that the graph declares: topics, directories and tables of sources and sinks, and what vertices publish for others. What a
task's code opens by itself is not known here. The rule: a data set has the same name in each run of a job, so what a run publishes is named
by job, vertex and output, and the place where one run has left it is a facet.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from eventflink.jobs.pipelines.refresh import table_of
from eventflink.model.job_graph import DEFAULT_OUTPUT, JobGraph, JobVertex, StreamSink, StreamSource
from eventflink.model.schedules import FollowedTable
from eventflink.model.secret_values import without_secrets
from eventflink.model.spark_engines import LOCAL
from eventflink.model.statuses import StreamConnector, StreamFormat

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop calls a scheme that the convention calls otherwise."""

_AZURE: Final = ("abfs://", "abfss://")


class Dataset(NamedTuple):
    """What OpenLineage knows a data set by."""

    namespace: str
    name: str


class DatasetNames:
    """Names data sets as seen from one cluster."""

    def __init__(self, cluster_id: str, bootstrap: str) -> None:
        self._cluster = f"eventflink://{cluster_id}"
        self._bootstrap = bootstrap

    def topic(self, name: str, bootstrap: str = "") -> Dataset:
        """Return a topic; empty: of the Kafka of the log."""
        return Dataset(f"kafka://{(bootstrap or self._bootstrap).split(',')[0]}", name)

    def table(self, table: FollowedTable) -> Dataset:
        """Return a table whose versions start jobs."""
        return _place(shown_place(table.path)) if table.is_delta else Dataset(f"iceberg://{table.catalog}", table.name)

    def published(self, job_name: str, vertex_id: str, output: str = DEFAULT_OUTPUT) -> Dataset:
        """Return what a vertex publishes."""
        return Dataset(self._cluster, f"{job_name}.{vertex_id}.{output}")

    def end(self, end: StreamSource | StreamSink, engine: str = "") -> Dataset | None:
        """Return what a source reads or a sink writes; None: it has no name, as what a function makes.

        Args:
            end: the source or the sink.
            engine: whose catalogue has tables of Delta by their names; empty: that of the host.

        """
        match end.connector:
            case StreamConnector.KAFKA:
                return self.topic(end.location, str(json.loads(end.options_json).get("bootstrap_servers") or ""))
            case StreamConnector.TABLE if end.stream_format is StreamFormat.ICEBERG:
                catalog, _, name = end.location.partition(".")
                return Dataset(f"iceberg://{catalog}", name)
            case StreamConnector.TABLE if "/" not in end.location:
                return _in_catalogue(engine, end.location)
            case StreamConnector.FILES | StreamConnector.TABLE:
                return _place(shown_place(end.location))
            case _:
                return None

    def outer_inputs(self, graph: JobGraph, vertex: JobVertex) -> Iterator[tuple[str, Dataset]]:
        """Yield what a vertex reads that is not of its job, each behind the name of its source."""
        for source in vertex.stream.sources if vertex.stream is not None else vertex.sources:
            if (dataset := self.end(source, graph.engine_of(vertex))) is not None:
                yield source.name, dataset

    def outer_outputs(self, graph: JobGraph, vertex: JobVertex) -> list[Dataset]:
        """Return what a vertex writes that is not of its job."""
        if (table := self._kept_by(graph, vertex)) is not None:
            return [table]
        sinks = vertex.stream.sinks if vertex.stream is not None else (vertex.sink,)
        return _once(self.end(sink, graph.engine_of(vertex)) for sink in sinks if sink is not None)

    def inputs(self, graph: JobGraph, vertex: JobVertex) -> list[Dataset]:
        """Return all that a vertex reads."""
        vertices = {each.vertex_id: each for each in graph.vertices}
        edges = [edge for edge in graph.edges if edge.target == vertex.vertex_id]
        left = [self._kept_by(graph, vertices[edge.source]) or self.published(graph.name, edge.source, edge.output) for edge in edges]
        return _once([*(dataset for _, dataset in self.outer_inputs(graph, vertex)), *left])

    def outputs(self, graph: JobGraph, vertex: JobVertex) -> dict[str, Dataset]:
        """Return what a vertex publishes, by output: what edges read, and the result of a batch task that nothing reads."""
        if self._kept_by(graph, vertex) is not None:
            return {}
        names = [edge.output for edge in graph.edges if edge.source == vertex.vertex_id]
        if not names and vertex.stream is None and vertex.sink is None:
            names = [DEFAULT_OUTPUT]
        return {name: self.published(graph.name, vertex.vertex_id, name) for name in names}

    @staticmethod
    def _kept_by(graph: JobGraph, vertex: JobVertex) -> Dataset | None:
        """Return the table of a pipeline that a vertex keeps, which is in the catalogue of its Spark."""
        table = table_of(vertex.task, vertex.parameters_json)
        return _in_catalogue(graph.engine_of(vertex), table) if table is not None else None


def shown_place(location: str) -> str:
    """Return where something is, without credentials; before the `@` of an address in Azure stands a container."""
    return location if location.startswith(_AZURE) else str(without_secrets("", location))


def _in_catalogue(engine: str, table: str) -> Dataset:
    return Dataset(f"spark://{engine or LOCAL}", table)


def _once(datasets: Iterable[Dataset | None]) -> list[Dataset]:
    return list(dict.fromkeys(each for each in datasets if each is not None))


def _place(location: str) -> Dataset:
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return Dataset("file", rest if separator else location.removeprefix("file:"))
    authority, _, path = rest.partition("/")
    scheme = _SCHEMES.get(scheme, scheme)
    return Dataset(f"{scheme}://{authority}", f"/{path}" if scheme == "hdfs" else path or "/")

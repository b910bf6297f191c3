"""`eventflink.dev`: a batch job run in this process, for tests of what it computes, and for notebooks; no cluster is asked for anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eventflink.client.options import Names, Paths, each_of
from eventflink.jobs.job_files import Document, described
from eventflink.jobs.modules_beside import code_beside
from eventflink.model.job_graph_document import bind_parameters
from eventflink.model.packages import needs

if TYPE_CHECKING:
    from eventflink.workbench.graph_run import GraphRun


def dev(
    document: Document,
    *,
    code: Paths = (),
    parameters: Mapping[str, object] | None = None,
    vertices: Names = (),
    parallelism: int | None = None,
    sinks: bool = False,
    keep: Path | str | None = None,
    configuration: Mapping[str, str] | None = None,
) -> "GraphRun":
    """Run the vertices of a batch job here, one after the other, and return what they left. The first call of a process starts Spark.

    Args:
        document: a graph, a job in Python, a document as a mapping, or the path of a file with one of them.
        code: files and directories with its Python code, or a single one; none: what a job in Python imports that lies beside it, or the
            modules beside the document that its vertices name.
        parameters: values of the parameters that it declares, by name; each of its type, or a text that says it.
        vertices: run these, or a single one, and what they need; none: all.
        parallelism: run at most so many subtasks of each vertex; None: as many as the document says.
        sinks: let Spark write to files, tables and databases; else it computes the rows and drops them.
        keep: leave the outputs in a directory below this one; None: they go with this process.
        configuration: keys of the configuration, such as `spark.local.memory`; else they have their defaults.

    Raises:
        InvalidJobGraph: the job graph is invalid, a chosen vertex is not in it, or a chosen vertex is a stream.
        ArchiveError: the code cannot be packed.
        VertexFailed: a task failed (`eventflink.workbench.graph_run`); the message has the frames of its own code.
        ConfigurationError: a key of the configuration is unknown, or its value is not usable.
        SparkUnavailable: no Spark could be started here.

    Examples:
        >>> vertex = {"id": "numbers", "sql": "SELECT id FROM range(:rows)"}
        >>> document = {"name": "numbers", "vertices": [vertex], "parameters": {"rows": {"type": "integer"}}}
        >>> eventflink.dev(document, parameters={"rows": 2}).result().to_arrow().to_pylist()
        [{'id': 0}, {'id': 1}]

    """
    with needs("cluster", "eventflink.dev"):
        from eventflink.model.configuration import load_configuration  # noqa: PLC0415 - programs that connect do without
        from eventflink.workbench.graph_run import run_graph  # noqa: PLC0415 - it needs Spark, which programs do without

        job = described(document)
        graph = bind_parameters(job.graph, parameters or {})
        paths = [Path(each) for each in each_of(code)] or list(job.code)
        if not paths and isinstance(document, Path | str):
            paths = code_beside(graph, Path(document).parent)
        return run_graph(
            graph,
            paths,
            load_configuration(None, configuration or {}),
            jars=job.jars,
            sql_files=job.sql_files,
            vertices=each_of(vertices),
            parallelism=parallelism,
            sinks=sinks,
            keep=None if keep is None else Path(keep),
        )

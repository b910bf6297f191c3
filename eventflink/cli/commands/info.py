"""`eventflink info`: the plan of a job graph document, which is checked and not submitted."""

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.submission import read_job_of
from eventflink.model.closing import runs_in_words
from eventflink.model.conditions import condition_in_words
from eventflink.model.job_graph import JobEdge, JobGraph
from eventflink.model.job_graph_document import graph_digest
from eventflink.model.job_parameters import type_name
from eventflink.model.mapped_vertices import mapping_edges_of
from eventflink.model.statuses import TaskType
from eventflink.rest.flink.plans import JobPlanInfo, name_of, plan_of_graph


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the plan as Flink's REST API writes it.")
@pass_session
def info(session: Session, file: Path, *, as_json: bool) -> int:
    """Show the plan of the job that FILE (JSON, YAML or Python; - for standard input) describes, without submitting it."""
    graph = read_job_of(file, session).graph
    if as_json:
        session.print_json(JobPlanInfo(plan=plan_of_graph(graph, "")).model_dump(mode="json"))
    else:
        _print(session, graph)
    return ExitCode.OK


def _print(session: Session, graph: JobGraph) -> None:
    mapped = mapping_edges_of(graph)
    tasks = sum(vertex.parallelism for vertex in graph.vertices if vertex.vertex_id not in mapped)
    each = f" and one for each row of {', '.join(dict.fromkeys(edge.source for edge in mapped.values()))}" if mapped else ""
    session.out.print(Text(f"{graph.name}: vertices {len(graph.vertices)}, tasks {tasks}{each}, digest {graph_digest(graph)[:12]}"))
    table = Table()
    for heading in ("vertex", "runs", "parallelism", "reads", "writes", "each slot has"):
        table.add_column(heading, justify="right" if heading == "parallelism" else "left")
    for vertex in graph.vertices:
        closes = f" ({runs_in_words(vertex.runs)}, when all others have come to their end)" if vertex.is_closing else ""
        closes = f" ({condition_in_words(vertex.condition)})" if vertex.condition is not None else closes
        reads = [_describe_edge(edge) for edge in graph.edges if edge.target == vertex.vertex_id]
        sources = [*(vertex.stream.sources if vertex.stream else ()), *vertex.sources]
        reads += [f"{source.name} ({source.connector.lower()})" for source in sources]
        sinks = [*(vertex.stream.sinks if vertex.stream else ()), *([vertex.sink] if vertex.sink else [])]
        task = f"SQL: {vertex.task.strip().splitlines()[0]}" if vertex.task_type is TaskType.SQL else vertex.task
        table.add_row(
            Text(name_of(vertex)),
            Text(f"{task}{closes}"),
            f"at most {vertex.max_parallelism}" if vertex.vertex_id in mapped else str(vertex.parallelism),
            Text(", ".join(reads)),
            Text(", ".join(f"{sink.location} ({sink.connector.lower()})" for sink in sinks)),
            Text(str(vertex.resources) if vertex.resources else ""),
        )
    session.out.print(table)
    if graph.parameters:
        _print_parameters(session, graph)


def _print_parameters(session: Session, graph: JobGraph) -> None:
    table = Table()
    for heading in ("parameter", "type", "value", "default", "description"):
        table.add_column(heading)
    for each in graph.parameters:
        default = "" if each.default is None else each.default
        value = Text("to be given", style="yellow") if each.value is None else Text(each.value)
        table.add_row(Text(each.name), type_name(each.parameter_type), value, Text(default), Text(each.description))
    session.out.print(table)


def _describe_edge(edge: JobEdge) -> str:
    keys = f" by {', '.join(edge.keys)}" if edge.keys else ""
    more = ", pipelined" if edge.pipeline is not None else ", also if that was skipped" if edge.reads_skipped else ""
    return f"{edge.source} ({edge.ship.lower()}{keys}{more})"

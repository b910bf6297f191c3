"""`eventflink result`: the rows that a job left, read where the log says they are."""

import click
import pyarrow as pa
from rich.table import Table
from rich.text import Text

from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import find_job, read_fold
from eventflink.jobs.result import ResultUnreadable, read_result
from eventflink.master.job_master import JobMaster
from eventflink.model.statuses import JobStatus


@click.command()
@click.argument("job_id")
@click.option("--vertex", help="Which vertex. Default: the one whose output nobody reads, if there is one such.")
@click.option("--output", default="default", show_default=True, help="Which of its outputs.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Show only so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with columns and rows.")
@pass_session
def result(session: Session, job_id: str, vertex: str | None, output: str, limit: int, *, as_json: bool) -> int:
    """Show the rows that the job JOB_ID left."""
    job = find_job(read_fold(session.bootstrap, session.cluster_id), job_id)
    if job.status is not JobStatus.FINISHED:
        raise CommandFailed(ExitCode.NEGATIVE, f"job {job.job_id} is {job.status}; only a finished job has a result")
    vertex = vertex or only_sink(job)
    try:
        table = read_result(locations_of(job, vertex, output), limit)
    except ResultUnreadable as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    if as_json:
        session.print_json(
            {"job_id": job.job_id, "vertex": vertex, "output": output, "columns": table.column_names, "rows": table.to_pylist()}
        )
    else:
        session.out.print(draw_rows(table))
    return ExitCode.OK


def only_sink(job: JobMaster) -> str:
    """Return the one vertex whose output no other reads.

    Raises:
        CommandFailed: there are several; the message names them.

    """
    graph = job.execution_graph
    sinks = [vertex_id for vertex_id in graph.vertices if not graph.edges_from.get(vertex_id)]
    if len(sinks) > 1:
        raise CommandFailed(ExitCode.USAGE, f"job {job.job_id} has several results; choose one with --vertex: {', '.join(sinks)}")
    return sinks[0]


def locations_of(job: JobMaster, vertex_id: str, output: str) -> list[str]:
    """Return where the subtasks of a vertex left an output, in their order.

    Raises:
        CommandFailed: there is no such vertex or output.

    """
    vertex = job.execution_graph.vertices.get(vertex_id)
    if vertex is None:
        known = ", ".join(job.execution_graph.vertices)
        raise CommandFailed(ExitCode.USAGE, f"job {job.job_id} has no vertex '{vertex_id}'; it has {known}")
    left = [o for subtask in vertex.subtasks for o in subtask.outputs]
    found = [o.location.removeprefix("file://") for o in left if o.output == output]
    if not found:
        others = ", ".join(sorted({o.output for o in left})) or "none"
        raise CommandFailed(ExitCode.NEGATIVE, f"vertex '{vertex_id}' left no output '{output}' (it left: {others})")
    return found


def draw_rows(table: pa.Table) -> Table:
    """Return rows as a table for people."""
    drawn = Table(caption=f"{table.num_rows} rows", caption_justify="left")
    numeric = {
        name
        for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind)
    }
    for name in table.column_names:
        drawn.add_column(Text(name), justify="right" if name in numeric else "left")
    for row in table.to_pylist():
        drawn.add_row(*(Text(_cell(value)) for value in row.values()))
    return drawn


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)

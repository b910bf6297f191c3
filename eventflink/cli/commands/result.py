"""`eventflink result`: the rows that a job left, read where the log says they are."""

import click
import pyarrow as pa
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_job
from eventflink.jobs.result import ResultUnreadable, read_result
from eventflink.model.statuses import JobStatus
from eventflink.views.plain import View


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--vertex", help="Which vertex. Default: the one whose output nobody reads, if there is one such.")
@click.option("--output", default="default", show_default=True, help="Which of its outputs.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Show only so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with columns and rows.")
@pass_session
def result(session: Session, job_id: str, vertex: str | None, output: str, limit: int, *, as_json: bool) -> int:
    """Show the rows that the job JOB_ID left."""
    job = ask_job(session, job_id)
    if job["status"] != JobStatus.FINISHED:
        raise CommandFailed(ExitCode.NEGATIVE, f"job {job['job_id']} is {job['status']}; only a finished job has a result")
    vertex = vertex or only_sink(job)
    try:
        table = read_result(locations_of(job, vertex, output), limit)
    except ResultUnreadable as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    if as_json:
        session.print_json(
            {"job_id": job["job_id"], "vertex": vertex, "output": output, "columns": table.column_names, "rows": table.to_pylist()}
        )
    else:
        session.out.print(draw_rows(table))
    return ExitCode.OK


def only_sink(job: View) -> str:
    """Return the one vertex of a job's view whose output no other reads.

    Raises:
        CommandFailed: there are several; the message names them.

    """
    read = {edge["source"] for edge in job["edges"]}
    sinks = [vertex["vertex_id"] for vertex in job["vertices"] if vertex["vertex_id"] not in read]
    if len(sinks) > 1:
        raise CommandFailed(ExitCode.USAGE, f"job {job['job_id']} has several results; choose one with --vertex: {', '.join(sinks)}")
    only: str = sinks[0]
    return only


def locations_of(job: View, vertex_id: str, output: str) -> list[str]:
    """Return where the subtasks of a vertex of a job's view left an output, in their order.

    Raises:
        CommandFailed: there is no such vertex or output.

    """
    vertices = {vertex["vertex_id"]: vertex for vertex in job["vertices"]}
    if vertex_id not in vertices:
        raise CommandFailed(ExitCode.USAGE, f"job {job['job_id']} has no vertex '{vertex_id}'; it has {', '.join(vertices)}")
    left = [pair for subtask in vertices[vertex_id]["subtasks"] for pair in subtask["outputs"].items()]
    found = [location.removeprefix("file://") for name, location in left if name == output]
    if not found:
        others = ", ".join(sorted({name for name, _ in left})) or "none"
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

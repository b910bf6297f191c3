"""`eventflink result`: the rows that a job left, read where the log says they are."""

import click

from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.failures import ExitCode
from eventflink.cli.row_table import draw_rows
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_job
from eventflink.gateways.outputs import find_output
from eventflink.jobs.plain_rows import python_rows


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option(
    "--vertex", shell_complete=complete_vertices, help="Which vertex. Default: the one whose output nobody reads, if there is one such."
)
@click.option("--output", default="default", show_default=True, help="Which of its outputs.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Show only so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with columns and rows.")
@pass_session
def result(session: Session, job_id: str, vertex: str | None, output: str, limit: int, *, as_json: bool) -> int:
    """Show the rows that the job JOB_ID left."""
    found = find_output(ask_job(session, job_id), vertex, output)
    with session.working("reading the rows"):
        table = found.to_arrow(limit)
    if as_json:
        named = {"job_id": found.job_id, "vertex": found.vertex_id, "output": output}
        session.print_json({**named, "columns": table.column_names, "rows": python_rows(table)})
    else:
        session.out.print(draw_rows(table))
    return ExitCode.OK

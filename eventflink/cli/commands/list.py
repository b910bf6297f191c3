"""`eventflink list`: the jobs that the log knows."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.drawing import seconds_until_now, styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_jobs
from eventflink.model.job_queues import DEFAULT_QUEUE
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus

_SCHEDULED = (JobStatus.INITIALIZING, JobStatus.CREATED)
_RUNNING = tuple(status for status in JobStatus if status not in TERMINAL_JOB_STATUSES and status not in _SCHEDULED)


@click.command("list")
@click.option(
    "--status",
    "statuses",
    type=click.Choice([s.value for s in JobStatus], case_sensitive=False),
    multiple=True,
    help="Only these; repeatable.",
)
@click.option("-r", "--running", is_flag=True, help="Only those that have begun and not ended, as in Flink.")
@click.option("-s", "--scheduled", is_flag=True, help="Only those that have not begun, as in Flink.")
@click.option("-a", "--all", "everything", is_flag=True, help="All of them, as without -r and -s.")
@click.option("--label", "labels", multiple=True, metavar="NAME[=VALUE]", help="Only those with this label; of several all.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only those of this queue; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show only so many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@pass_session
def list_jobs(
    session: Session,
    statuses: tuple[str, ...],
    labels: tuple[str, ...],
    queues: tuple[str, ...],
    limit: int,
    *,
    running: bool,
    scheduled: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """List the jobs, the newest last."""
    if (running or scheduled) and not everything:
        statuses = (*statuses, *(_RUNNING if running else ()), *(_SCHEDULED if scheduled else ()))
    answer = ask_jobs(session, statuses, limit, labels, queues)
    rows = answer.jobs
    if as_json:
        session.print_json(rows)
        return ExitCode.OK
    table = Table()
    has_owners = any(row.owner for row in rows)
    has_queues = any(row.queue != DEFAULT_QUEUE for row in rows)
    optional = [*(["owner"] if has_owners else []), *(["queue"] if has_queues else [])]
    for heading in ("job id", "name", *optional, "status", "tasks", "restarts", "submitted", "seconds"):
        table.add_column(heading, justify="right" if heading in ("tasks", "restarts", "seconds") else "left", no_wrap=heading == "job id")
    for row in rows:
        table.add_row(
            Text(row.job_id),
            Text(row.name),
            *([Text(row.owner)] if has_owners else []),
            *([Text(row.queue)] if has_queues else []),
            styled(row.status),
            f"{row.tasks_finished}/{row.tasks}",
            str(row.restarts or ""),
            row.submitted_at,
            f"{seconds_until_now(row.duration_ms, row.submitted_at, row.ended_at):.3f}",
        )
    session.out.print(table)
    if answer.total > limit:
        session.err.print(f"{answer.total - limit} older ones are not shown (--limit)")
    return ExitCode.OK

"""`eventflink exceptions`: the failures of a job, what each of them led to, and those that came with it."""

from typing import Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_exceptions
from eventflink.documents.failures import FailureOfJob, FailureRow, JobExceptions
from eventflink.documents.plain import plain
from eventflink.model.attempts import FailureCause
from eventflink.model.stack_traces import folded_stack_trace, user_location
from eventflink.views.plain import MAX_EXCEPTIONS, reaction_of

_CAME_WITH_IT: Final = "came with it"


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--limit", type=click.IntRange(1, MAX_EXCEPTIONS), default=MAX_EXCEPTIONS, show_default=True, help="How many, at most.")
@click.option("--trace", is_flag=True, help="Show the stack traces; frames of libraries are folded.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def exceptions(session: Session, job_id: str, limit: int, *, trace: bool, as_json: bool) -> int:
    """Show the failures of the job JOB_ID (the beginning of its id is enough), the newest first."""
    view, log_offset = ask_exceptions(session, job_id, limit)
    if as_json:
        session.print_json({**plain(view), "log_offset": log_offset})
    else:
        _print(session, view, with_trace=trace)
    return ExitCode.OK


def _print(session: Session, view: JobExceptions, *, with_trace: bool) -> None:
    out = session.out
    out.print(Text.assemble(f"{view.name} ({view.job_id}) ", styled(view.status), f" {view.restarts} restarts"))
    if with_trace:
        _print_traces(session, view)
    else:
        out.print(_table(view))
    if more := view.total - len(view.exceptions):
        out.print(Text(f"{more} older failures are not shown; 'eventflink events' has all", style="dim"))


def _table(view: JobExceptions) -> Table:
    table = Table()
    for heading in ("when", "task", "TaskManager", "failure", "led to"):
        table.add_column(heading, no_wrap=heading == "when")
    for exception in view.exceptions:
        table.add_row(*_cells(exception), Text(reaction_of(exception)))
        for failure in exception.concurrent:
            table.add_row(*_cells(failure), Text(_CAME_WITH_IT, style="dim"))
        if more := _untold(exception):
            table.add_row("", "", "", Text(more, style="dim"), Text(_CAME_WITH_IT, style="dim"))
    return table


def _untold(exception: FailureOfJob) -> str:
    more = exception.concurrent_count - len(exception.concurrent)
    return f"and {more} more failures" if more else ""


def _cells(failure: FailureRow) -> tuple[Text, ...]:
    return Text(failure.at), Text(failure.task), Text(failure.task_manager_id or ""), Text("\n".join(_described(failure.cause)))


def _described(cause: FailureCause) -> list[str]:
    """Return what failed, where in the user's code, and what it goes back to."""
    lines = [f"{cause.failure_type}: {cause.message.partition(chr(10))[0]}"]
    if place := user_location(cause.stack_trace or ""):
        lines.append(f"at {place}")
    if cause.root_type:
        lines.append(f"root cause: {cause.root_type}: {cause.root_message.partition(chr(10))[0]}")
    return lines


def _print_traces(session: Session, view: JobExceptions) -> None:
    """Print one failure after the other, its trace in full width: a path that is cut names no file."""
    for exception in view.exceptions:
        _print_trace(session, exception, reaction_of(exception))
        for failure in exception.concurrent:
            _print_trace(session, failure, _CAME_WITH_IT)
        if more := _untold(exception):
            session.out.print(Text(f"{more} {_CAME_WITH_IT}", style="dim"))


def _print_trace(session: Session, failure: FailureRow, led_to: str) -> None:
    where = f" on {failure.task_manager_id}" if failure.task_manager_id else ""
    session.out.print(Text(f"\n{failure.at} {failure.task}{where}" + (f" → {led_to}" if led_to else ""), style="bold"), soft_wrap=True)
    cause = failure.cause
    lines = [*_described(cause)[:1], *cause.message.splitlines()[1:]] if not cause.stack_trace else [folded_stack_trace(cause.stack_trace)]
    session.out.print(Text("\n".join(lines)), soft_wrap=True)

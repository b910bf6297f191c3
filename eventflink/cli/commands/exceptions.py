"""`eventflink exceptions`: the failures of a job, what each of them led to, and those that came with it."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_exceptions
from eventflink.model.stack_traces import cut_stack_trace
from eventflink.views.plain import MAX_EXCEPTIONS, View, reaction_of

_TRACE_LINES = 40


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--limit", type=click.IntRange(1, MAX_EXCEPTIONS), default=MAX_EXCEPTIONS, show_default=True, help="How many, at most.")
@click.option("--trace", is_flag=True, help="Show the stack traces as well; of long ones mostly your own frames.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def exceptions(session: Session, job_id: str, limit: int, *, trace: bool, as_json: bool) -> int:
    """Show the failures of the job JOB_ID (the beginning of its id is enough), the newest first."""
    answer = ask_exceptions(session, job_id, limit)
    if as_json:
        session.print_json(answer)
    else:
        _print(session, answer, with_trace=trace)
    return ExitCode.OK


def _print(session: Session, view: View, *, with_trace: bool) -> None:
    out = session.out
    out.print(Text.assemble(f"{view['name']} ({view['job_id']}) ", styled(view["status"]), f" {view['restarts']} restarts"))
    table = Table()
    for heading in ("when", "task", "TaskManager", "failure", "led to"):
        table.add_column(heading, no_wrap=heading == "when")
    for exception in view["exceptions"]:
        table.add_row(*_cells(exception, with_trace=with_trace), Text(reaction_of(exception)))
        for failure in exception["concurrent"]:
            table.add_row(*_cells(failure, with_trace=with_trace), Text("came with it", style="dim"))
        if more := exception["concurrent_count"] - len(exception["concurrent"]):
            table.add_row("", "", "", Text(f"and {more} more failures", style="dim"), Text("came with it", style="dim"))
    out.print(table)
    if more := view["total"] - len(view["exceptions"]):
        out.print(Text(f"{more} older failures are not shown; 'eventflink events' has all", style="dim"))


def _fits_a_screen(trace: str) -> bool:
    return trace.count("\n") < _TRACE_LINES


def _cells(failure: View, *, with_trace: bool) -> tuple[Text, ...]:
    cause = failure["cause"]
    text = f"{cause['failure_type']}: {cause['message'] if with_trace else cause['message'].partition(chr(10))[0]}"
    if cause["root_type"]:
        text += f"\nroot cause: {cause['root_type']}: {cause['root_message'].partition(chr(10))[0]}"
    if with_trace and cause["stack_trace"]:
        text += f"\n{cut_stack_trace(cause['stack_trace'], _fits_a_screen)}"
    return Text(failure["at"]), Text(failure["task"]), Text(failure["task_manager_id"] or ""), Text(text)

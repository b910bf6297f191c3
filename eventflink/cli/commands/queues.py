"""`eventflink queues`: what each named queue of jobs may hold, holds and waits for."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_cluster


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def queues(session: Session, *, as_json: bool) -> int:
    """Show how many slots each queue of jobs is entitled to, holds and waits for."""
    view = ask_cluster(session)
    if as_json:
        session.print_json({"queues": view.queues, "log_offset": view.log_offset})
        return ExitCode.OK
    if not view.queues:
        session.out.print("no queues are configured: all jobs take turns")
        return ExitCode.OK
    table = Table()
    table.add_column("queue")
    for heading in ("quota", "may borrow", "weight", "held", "borrowed", "tasks waiting", "of jobs"):
        table.add_column(heading, justify="right")
    for row in view.queues:
        may_borrow = "all" if row.borrowing_limit is None else row.borrowing_limit
        numbers = (row.nominal_quota, may_borrow, row.weight, row.held, row.borrowed, row.requests, row.jobs)
        table.add_row(Text(row.queue), *map(str, numbers))
    session.out.print(table)
    return ExitCode.OK

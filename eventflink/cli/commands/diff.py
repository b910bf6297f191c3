"""`eventflink diff`: what differs between two moments of the cluster.

The REST process answers it from the states that it keeps; where there is none, or it has not come that far, the log is read.
"""

import click
from rich.text import Text

from eventflink.audit.difference import MAX_ROWS, difference_between, moment_of
from eventflink.audit.filters import LogPlace
from eventflink.cli.failures import ExitCode
from eventflink.cli.log_questions import PlaceType
from eventflink.cli.past import states_at
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_page
from eventflink.documents.log import Differences
from eventflink.documents.plain import parse

_STYLES = {"new": "green", "gone": "red", "changed": "yellow"}


@click.command()
@click.argument("before", type=PlaceType(), metavar="A")
@click.argument("after", type=PlaceType(), metavar="B")
@click.option("--limit", type=click.IntRange(min=1), default=MAX_ROWS, show_default=True, help="Show so many differences at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def diff(session: Session, before: LogPlace, after: LogPlace, limit: int, *, as_json: bool) -> int:
    """Show what differs between the moments A and B: jobs, TaskManagers, slots, the leader.

    A and B are offsets of the log, or ISO 8601 times (UTC).
    """
    page = read_page(session, "/diff", {"a": str(before), "b": str(after), "limit": limit})
    if page is not None:
        difference = parse(Differences, page["body"])
    else:
        earlier, later = states_at(session, (before, after), moment_of)
        difference = difference_between(earlier, later, limit)
    if as_json:
        session.print_json(difference)
        return ExitCode.OK
    session.out.print(difference.head, markup=False, soft_wrap=True)
    for row in difference.rows:
        session.out.print(Text(f"  {row.says}", style=_STYLES[row.change]), soft_wrap=True)
    if more := difference.total - len(difference.rows):
        session.err.print(f"{more} more differences are not shown (--limit)")
    return ExitCode.OK

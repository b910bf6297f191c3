"""`eventflink doctor`: what this machine and the cluster have, what is missing, and what to do about it."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.checks import Verdict, check_all
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "bold red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@pass_session
def doctor(session: Session, *, as_json: bool) -> int:
    """Check this machine and the cluster; the exit code is 1 if something fails."""
    with session.working("checking"):
        findings = list(check_all(session.configuration))
    if as_json:
        session.print_json([finding._asdict() for finding in findings])
    else:
        table = Table()
        for heading in ("check", "verdict", "found"):
            table.add_column(heading, overflow="fold")
        for finding in findings:
            table.add_row(finding.name, Text(finding.verdict, style=_STYLES[finding.verdict]), Text(finding.detail))
        session.out.print(table)
    return ExitCode.NEGATIVE if any(finding.verdict is Verdict.FAILED for finding in findings) else ExitCode.OK

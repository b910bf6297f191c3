"""`eventflink doctor`: what this machine and the cluster have, what is missing, and what to do about it."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.checks import check_all
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.finding import Finding, Verdict
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_page
from eventflink.model.packages import needs

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "bold red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.option("--abort-transaction", "transactional_id", metavar="ID", help="End this open transaction of a client's, and check nothing.")
@pass_session
def doctor(session: Session, *, as_json: bool, transactional_id: str | None) -> int:
    """Check this machine and the cluster; the exit code is 1 if something fails."""
    if transactional_id is not None:
        return _abort(session, transactional_id)
    with session.working("checking"):
        findings = list(check_all(session.configuration))
        if any(finding.name == "leader" for finding in findings):
            findings += _problems(session)
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


def _problems(session: Session) -> list[Finding]:
    """Return what the page of the cluster says is wrong; nothing where no REST process answers."""
    page = read_page(session, "/cluster", {})
    if page is None:
        return []
    cluster = page["body"]
    return [Finding("cluster", Verdict.WARNING, problem["sentence"]) for problem in cluster["problems"]] or [
        Finding("cluster", Verdict.OK, cluster["sentence"])
    ]


def _abort(session: Session, transactional_id: str) -> int:
    with needs("cluster", "--abort-transaction"):
        from eventflink.cli.transactions import abort  # noqa: PLC0415 - its connections are an extra's
    with session.working("aborting"):
        said = abort(session.access, transactional_id)
    if not said:
        raise CommandFailed(ExitCode.NEGATIVE, f"no transaction '{transactional_id}' is open on a topic of '{session.cluster_id}'")
    echo(said)
    return ExitCode.OK

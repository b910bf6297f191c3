"""`eventflink why`: what a thing is now, and the decisions that led there, back to the request and who made it.

The REST process answers it from its index; where there is none, or it has not come that far, the whole log is read.
"""
# ruff: noqa: PLC0415

import time
from datetime import datetime
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_page
from eventflink.model.texts import printable

_NO_FACTS: Final = frozenset({"type", "id", "state", "cause", "waits", "chain", "omitted", "log_offset"})


@click.command()
@click.argument("subject", metavar="ID", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def why(session: Session, subject: str, *, as_json: bool) -> int:
    """Show what ID is now, what it waits for, and the decisions that led there.

    ID is a job (the beginning of its id is enough), JOB/VERTEX[INDEX], JOB/VERTEX[INDEX]#ATTEMPT, an allocation, a
    TaskManager, one of its instances, or a request.
    """
    page = read_page(session, f"/why/{subject}", {})
    view = page["body"] if page is not None else _read_log(session, subject)
    now_ms = time.time_ns() // 1_000_000
    for wait in view["waits"]:
        since = datetime.fromisoformat(wait["since"]) if wait["since"] else None
        wait["waited_ms"] = max(0, now_ms - round(since.timestamp() * 1000)) if since is not None else None
    if as_json:
        session.print_json(view)
    else:
        _print(session, view)
    return ExitCode.OK


def _read_log(session: Session, subject: str) -> dict[str, Any]:
    from eventflink.audit.explanation import explain_why, explanation_view
    from eventflink.cli.log_questions import reading_log
    from eventflink.log.replay import new_fold

    with session.working("reading the log"), reading_log(session) as log:
        return explanation_view(explain_why(log, subject, new_fold(session.access)))


def _print(session: Session, view: dict[str, Any]) -> None:
    out = session.out
    out.print(Text.assemble(f"{view['type']} ", (printable(view["id"]), "bold"), " is ", (view["state"], "bold")))
    known = {name: value for name, value in view.items() if name not in _NO_FACTS and value not in (None, {}, "")}
    if facts := ", ".join(f"{name}={_say(value)}" for name, value in known.items()):
        out.print(Text(printable(f"  {facts}")))
    if (cause := view["cause"]) is not None:
        out.print(Text(f"  {cause['failure_type']}: {cause['message']}", style="red"))
    for wait in view["waits"]:
        how_long = f" for {wait['waited_ms'] / 1000:.1f} s (since {wait['since']})" if wait["waited_ms"] is not None else ""
        out.print(Text(printable(f"  waits: {wait['what']}{how_long}: {wait['why']}"), style="yellow"))
    out.print(_chain_table(view))


def _say(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()).join("()") if isinstance(value, dict) else str(value)


def _chain_table(view: dict[str, Any]) -> Table:
    caption = f"as of log offset {view['log_offset']}"
    if view["omitted"]:
        caption += f"; {view['omitted']} decisions in the middle are not shown ('eventflink events' has all)"
    table = Table(caption=caption, caption_justify="left")
    for heading in ("offset", "epoch", "when", "because of", "what"):
        table.add_column(heading, justify="right" if heading in ("offset", "epoch") else "left", no_wrap=heading == "when")
    for step in view["chain"]:
        cause = Text(step["cause"] or "a candidacy")
        table.add_row(str(step["offset"]), str(step["epoch"]), step["decided_at"], cause, Text("\n".join(step["events"])))
    return table

"""`eventflink why`: what a thing is now, and the decisions that led there, back to the request and who made it.

The REST process answers it from its index; where there is none, or it has not come that far, the whole log is read.
"""
# ruff: noqa: PLC0415

import time
from datetime import datetime
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_page
from eventflink.documents.explanation import Explanation
from eventflink.documents.plain import parse, plain
from eventflink.model.texts import printable


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
    if page is not None:
        explanation = parse(Explanation, page["body"])
    else:
        from eventflink.cli.log_questions import read_explanation

        explanation = read_explanation(session, subject)
    now_ms = time.time_ns() // 1_000_000
    waited = [max(0, now_ms - _ms(wait.since)) if wait.since is not None else None for wait in explanation.waits]
    if as_json:
        waits = [{**plain(wait), "waited_ms": waited_ms} for wait, waited_ms in zip(explanation.waits, waited, strict=True)]
        session.print_json({**plain(explanation), "waits": waits})
    else:
        _print(session, explanation, waited)
    return ExitCode.OK


def _ms(time_text: str) -> int:
    return round(datetime.fromisoformat(time_text).timestamp() * 1000)


def _print(session: Session, told: Explanation, waited: list[int | None]) -> None:
    out = session.out
    out.print(Text.assemble(f"{told.type} ", (printable(told.id), "bold"), " is ", (told.state, "bold")))
    known = {name: value for name, value in told.facts.items() if value not in (None, {}, "")}
    if facts := ", ".join(f"{name}={_say(value)}" for name, value in known.items()):
        out.print(Text(printable(f"  {facts}")))
    if told.cause is not None:
        out.print(Text(f"  {told.cause.failure_type}: {told.cause.message}", style="red"))
    for wait, waited_ms in zip(told.waits, waited, strict=True):
        how_long = f" for {waited_ms / 1000:.1f} s (since {wait.since})" if waited_ms is not None else ""
        out.print(Text(printable(f"  waits: {wait.what}{how_long}: {wait.why}"), style="yellow"))
    out.print(_chain_table(told))


def _say(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()).join("()") if isinstance(value, dict) else str(value)


def _chain_table(told: Explanation) -> Table:
    caption = f"as of log offset {told.log_offset}"
    if told.omitted:
        caption += f"; {told.omitted} decisions in the middle are not shown ('eventflink events' has all)"
    table = Table(caption=caption, caption_justify="left")
    for heading in ("offset", "epoch", "when", "because of", "what"):
        table.add_column(heading, justify="right" if heading in ("offset", "epoch") else "left", no_wrap=heading == "when")
    for step in told.chain:
        cause = Text(step.cause or "a candidacy")
        table.add_row(str(step.offset), str(step.epoch), step.decided_at, cause, Text("\n".join(step.events)))
    return table

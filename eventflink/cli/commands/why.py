"""`eventflink why`: what a thing is now, and the decisions that led there, back to the request and who made it."""

import time
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.audit.cause_chain import CauseChain
from eventflink.audit.explanation import Explanation, explain_why, explanation_view, waited_ms_of
from eventflink.cli.failures import ExitCode
from eventflink.cli.log_questions import reading_log
from eventflink.cli.session import Session, pass_session
from eventflink.events.wording import iso_time, printable
from eventflink.log.replay import new_fold


@click.command()
@click.argument("subject", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def why(session: Session, subject: str, *, as_json: bool) -> int:
    """Show what ID is now, what it waits for, and the decisions that led there.

    ID is a job (the beginning of its id is enough), JOB/VERTEX[INDEX], JOB/VERTEX[INDEX]#ATTEMPT, an allocation, a
    TaskManager, one of its instances, or a request.
    """
    with session.working("reading the log"), reading_log(session) as log:
        explanation = explain_why(log, subject, new_fold())
    now_ms = max(time.time_ns() // 1_000_000, explanation.fold.last_decided_at_ms)
    if as_json:
        session.print_json(explanation_view(explanation, now_ms))
    else:
        _print(session, explanation, now_ms)
    return ExitCode.OK


def _print(session: Session, explanation: Explanation, now_ms: int) -> None:
    standing, subject = explanation.standing, explanation.subject
    out = session.out
    out.print(Text.assemble(f"{subject.subject_type} ", (printable(subject.name), "bold"), " is ", (standing.state, "bold")))
    facts = ", ".join(f"{name}={_say(value)}" for name, value in standing.facts.items() if value not in (None, {}, ""))
    if facts:
        out.print(Text(printable(f"  {facts}")))
    if standing.cause is not None:
        out.print(Text(f"  {standing.cause.failure_type}: {standing.cause.message}", style="red"))
    for wait in standing.waits:
        waited_ms = waited_ms_of(wait, now_ms)
        how_long = f" for {waited_ms / 1000:.1f} s (since {iso_time(wait.since_ms)})" if waited_ms is not None else ""
        out.print(Text(printable(f"  waits: {wait.what}{how_long}: {wait.why}"), style="yellow"))
    out.print(_chain_table(explanation.chain, explanation.fold.last_offset))


def _say(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()).join("()") if isinstance(value, dict) else str(value)


def _chain_table(chain: CauseChain, last_offset: int) -> Table:
    caption = f"as of log offset {last_offset}"
    if chain.omitted:
        caption += f"; {chain.omitted} decisions in the middle are not shown ('eventflink events' has all)"
    table = Table(caption=caption, caption_justify="left")
    for heading in ("offset", "epoch", "when", "because of", "what"):
        table.add_column(heading, justify="right" if heading in ("offset", "epoch") else "left", no_wrap=heading == "when")
    for step in chain.steps:
        table.add_row(
            str(step.offset), str(step.epoch), iso_time(step.decided_at_ms), Text(step.cause or "a candidacy"), Text("\n".join(step.events))
        )
    return table

"""`eventflink backpressure`: which streams of a job do not keep up, how far, and why."""

from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_checkpoints
from eventflink.documents.checkpoints import JobCheckpoints, StreamOfSubtask
from eventflink.documents.plain import plain

_STYLES: Final = {"OK": "green", "LOW": "yellow", "HIGH": "red"}


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def backpressure(session: Session, job_id: str, *, as_json: bool) -> int:
    """Show how far the streams of the job JOB_ID do not keep up, as of the last checkpoint, and why."""
    answer = ask_checkpoints(session, job_id)
    rows = [_row(subtask) for subtask in answer.subtasks]
    if as_json:
        session.print_json({"job_id": answer.job_id, "status": answer.status, "subtasks": rows, "log_offset": answer.log_offset})
    else:
        _print(session, answer, rows)
    return ExitCode.OK


def _row(subtask: StreamOfSubtask) -> dict[str, Any]:
    unknown = {"level": None, "ratio": None, "reason": "no checkpoint has asked it yet"}
    known = plain(subtask.back_pressure) if subtask.back_pressure is not None else unknown
    return {"task": subtask.task, "at": subtask.answer.at if subtask.answer is not None else None, **known}


def _print(session: Session, answer: JobCheckpoints, rows: list[dict[str, Any]]) -> None:
    session.out.print(Text.assemble(f"{answer.name} ({answer.job_id}) ", styled(answer.status)))
    if answer.settings is None:
        session.out.print(Text("the job has no streams, so it has no back-pressure", style="dim"))
        return
    table = Table()
    for heading in ("task", "level", "ratio", "as of", "why"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for row in rows:
        level = row["level"] or "unknown"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        table.add_row(Text(row["task"]), Text(level.lower(), style=_STYLES.get(level, "dim")), ratio, row["at"] or "", Text(row["reason"]))
    session.out.print(table)

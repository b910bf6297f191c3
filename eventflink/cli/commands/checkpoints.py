"""`eventflink checkpoints`: what became of the checkpoints of a job, and where each of its streams stood at the last one."""

from typing import Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_checkpoints
from eventflink.documents.checkpoints import JobCheckpoints, StreamAnswer
from eventflink.documents.plain import plain

_SHOWN_OFFSET = 80
"""Of an offset in the table; --json has all of it."""
_SHOWN_LAGS: Final = 4
"""Of the partitions that are behind in the table; --json has more of them."""


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def checkpoints(session: Session, job_id: str, *, as_json: bool) -> int:
    """Show the checkpoints of the job JOB_ID (the beginning of its id is enough), the newest first, and where its streams stand."""
    answer = ask_checkpoints(session, job_id)
    if as_json:
        session.print_json(answer)
    else:
        _print(session, answer)
    return ExitCode.OK


def _print(session: Session, view: JobCheckpoints) -> None:
    out, settings = session.out, view.settings
    out.print(Text.assemble(f"{view.name} ({view.job_id}) ", styled(view.status)))
    if settings is None:
        out.print(Text("the job has no streams, so it has no checkpoints", style="dim"))
        return
    interval = f"every {settings.interval_ms} ms" if settings.interval_ms else "only when asked for"
    tolerable = settings.tolerable_failed_checkpoints
    out.print(
        f"checkpoints {interval}, given up after {settings.timeout_ms} ms, pause {settings.min_pause_ms} ms, "
        f"{'any number' if tolerable < 0 else tolerable} may fail in a row, {settings.max_retained} retained, "
        f"{settings.retention.lower().replace('_', ' ')}"
    )
    out.print(", ".join(f"{number} {name.replace('_', ' ')}" for name, number in plain(view.counts).items()))
    if (restored := view.latest.restored) is not None:
        out.print(f"latest restore: {restored.task} after batch {restored.batch_id} at {restored.at}")
    if (latest := view.latest.savepoint) is not None and latest.savepoint is not None:
        out.print(Text(f"latest savepoint: {latest.savepoint.path} at {latest.triggered_at}"))
    out.print(_history_table(view))
    out.print(_subtask_table(view))
    if more := view.subtasks_total - len(view.subtasks):
        out.print(Text(f"{more} more subtasks are not shown", style="dim"))


def _history_table(view: JobCheckpoints) -> Table:
    table = Table(title="history", title_justify="left")
    table.add_column("id", justify="right")
    for heading in ("triggered", "status", "subtasks"):
        table.add_column(heading)
    for heading in ("ms", "state rows", "state bytes"):
        table.add_column(heading, justify="right")
    table.add_column("why")
    for each in [*([view.pending] if view.pending else []), *view.history]:
        savepoint = "a savepoint, " if each.savepoint else ""
        asked = "" if each.actor is None else f"{savepoint}asked for by {each.actor}"
        why = ": ".join(part for part in ((each.reason or "").lower().replace("_", " "), each.message or asked) if part)
        sizes = [str(size or "") for size in (each.duration_ms, each.state_rows, each.state_bytes)]
        answered = f"{each.acknowledged}/{each.subtasks}"
        table.add_row(str(each.checkpoint_id), each.triggered_at, styled(each.status), answered, *sizes, Text(why))
    return table


def _subtask_table(view: JobCheckpoints) -> Table:
    table = Table(title="streams, at the last checkpoint that asked them", title_justify="left")
    table.add_column("task")
    for heading in ("batch", "rows", "ms", "state rows", "state bytes"):
        table.add_column(heading, justify="right")
    for heading in ("watermark", "offsets", "behind", "furthest behind"):
        table.add_column(heading)
    for row in view.subtasks:
        answer = row.answer
        if answer is None:
            table.add_row(Text(row.task), Text("not asked yet" if row.start else "has not started", style="dim"))
            continue
        counts = (answer.batch_id, answer.input_rows, answer.batch_duration_ms, answer.state_rows, answer.state_bytes)
        offsets = "\n".join(f"{source.name}: {_short(source.end_offset)}" for source in answer.sources)
        behind = "\n".join("" if source.records_behind < 0 else str(source.records_behind) for source in answer.sources)
        task = f"{row.task}#{answer.attempt}"
        table.add_row(Text(task), *map(str, counts), answer.watermark or "", Text(offsets), behind, Text(_furthest_behind(answer)))
    return table


def _furthest_behind(answer: StreamAnswer) -> str:
    lags = answer.partition_lags[:_SHOWN_LAGS]
    lines = [f"{lag.topic}/{lag.partition}: {lag.records_behind}" for lag in lags]
    more = answer.partitions_behind - len(lags)
    return "\n".join([*lines, *([f"{more} more"] if more > 0 else [])])


def _short(offset: str) -> str:
    return offset if len(offset) <= _SHOWN_OFFSET else offset[: _SHOWN_OFFSET - 1] + "…"

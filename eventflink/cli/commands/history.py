"""`eventflink history`: the life of a job as a story, from the log."""

from datetime import datetime
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.audit.entries import FoldJudge, Judge, judge_for, read_entries
from eventflink.audit.history import story_of
from eventflink.audit.log_source import KafkaLog
from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.log_questions import reading_log, remark_on_beginning
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_job
from eventflink.gateways.errors import ArchiveUnusable
from eventflink.log.replay import new_fold
from eventflink.snapshots.loading import LogTrimmed, load_fold

_STYLES = {
    "failed": "red",
    "no_slot": "red",
    "task_manager_lost": "red",
    "checkpoint_failed": "red",
    "restart": "yellow",
    "waiting": "yellow",
}


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def history(session: Session, job_id: str, *, as_json: bool) -> int:
    """Tell the life of the job JOB_ID (the beginning of its id is enough), from its submission to its end.

    Also of a job that the masters have forgotten: the log has not.
    """
    with session.working("reading the log") as working, reading_log(session) as log:
        job_id, judge, first_offset = _begin(session, log, job_id)
        end = log.bounds()[1]
        records = working.count(log.read(first_offset, end), f"of {end - first_offset:,} records of the log read")
        story = story_of(read_entries(records, judge), job_id)
    if as_json:
        session.print_json(story)
    else:
        _print(session, story)
    return ExitCode.OK


def _begin(session: Session, log: KafkaLog, job_id: str) -> tuple[str, Judge, int]:
    """Return the whole id, and from where on the log has to be read, by which judge.

    Of a job that is still known that is the newest snapshot before its submission, of another one the beginning of the log.
    """
    try:
        job = ask_job(session, job_id)
        before_ms = round(datetime.fromisoformat(job.submitted_at).timestamp() * 1000)
        fold = load_fold(session.access, wanted=lambda manifest: manifest.last_decided_at_ms < before_ms)
    except (CommandFailed, ArchiveUnusable, LogTrimmed):
        first_offset, _ = log.bounds()
        remark_on_beginning(session, first_offset)
        return job_id, judge_for(first_offset, new_fold(session.access)), first_offset
    return job.job_id, FoldJudge(fold), fold.last_offset + 1


def _print(session: Session, story: dict[str, Any]) -> None:
    head = f"{story['name']} ({story['job_id']}) "
    session.out.print(
        Text.assemble(head, styled(story["status"]), f", {story['restarts']} restarts, as of log offset {story['log_offset']}")
    )
    table = Table()
    for heading in ("offset", "epoch", "when", "what"):
        table.add_column(heading, justify="right" if heading in ("offset", "epoch") else "left", no_wrap=heading != "what")
    for line in story["lines"]:
        until = f"..{line['until_offset']}" if line["until_offset"] != line["offset"] else ""
        table.add_row(f"{line['offset']}{until}", str(line["epoch"]), line["at"], Text(line["text"], style=_STYLES.get(line["kind"], "")))
    session.out.print(table)
    if story["omitted"]:
        session.err.print(f"{story['omitted']} lines in the middle are not shown ('eventflink events --job {story['job_id']}' has all)")

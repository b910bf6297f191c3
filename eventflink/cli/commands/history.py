"""`eventflink history`: the life of a job as a story, from the log."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.audit.entries import judge_for, read_entries
from eventflink.audit.history import story_of
from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import styled
from eventflink.cli.failures import ExitCode
from eventflink.cli.log_questions import reading_log, remark_on_beginning
from eventflink.cli.session import Session, pass_session
from eventflink.log.replay import new_fold
from eventflink.views.plain import View

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
        first_offset, end = log.bounds()
        remark_on_beginning(session, first_offset)
        records = working.count(log.read(first_offset, end), f"of {end:,} records of the log read")
        story = story_of(read_entries(records, judge_for(first_offset, new_fold())), job_id)
    if as_json:
        session.print_json(story)
    else:
        _print(session, story)
    return ExitCode.OK


def _print(session: Session, story: View) -> None:
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

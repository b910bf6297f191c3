"""`eventflink history`: the life of a job as a story.

A REST process answers from its index. Without one, or while its index is behind, the command reads the log.
"""
# ruff: noqa: PLC0415

import click

from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import read_page
from eventflink.cli.story_table import draw_story, story_title
from eventflink.documents.explanation import StoryOfJob
from eventflink.documents.plain import parse


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def history(session: Session, job_id: str, *, as_json: bool) -> int:
    """Tell the life of the job JOB_ID (the beginning of its id is enough), from its submission to its end.

    Also of a job that the masters have forgotten: the log has not.
    """
    page = read_page(session, f"/jobs/{job_id}/story", {})
    if page is not None:
        story = parse(StoryOfJob, page["body"])
    else:
        from eventflink.cli.log_questions import read_story

        story = read_story(session, job_id)
    if as_json:
        session.print_json(story)
        return ExitCode.OK
    session.out.print(story_title(story))
    session.out.print(draw_story(story))
    if story.omitted:
        session.err.print(f"{story.omitted} lines in the middle are not shown ('eventflink events --job {story.job_id}' has all)")
    return ExitCode.OK

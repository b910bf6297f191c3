"""`eventflink notify`: a process that follows the log and tells others what happens, in the foreground."""

import contextlib
from pathlib import Path
from typing import Final

import click

from eventflink.audit.filters import LogPlace, Range
from eventflink.audit.plain import json_text
from eventflink.cli.completion import complete_jobs
from eventflink.cli.log_questions import PlaceType, reading_log
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import StopAsked, stop_on_signals
from eventflink.notify.document import InvalidNotifications, NotificationDocument, parse_notifications
from eventflink.notify.notifier import follow, notifications_of, send_again

FILE_NAME: Final = "notify.yaml"


@click.command()
@click.argument("document", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--since", "first", type=PlaceType(), metavar="PLACE", help="Send again what happened from this offset or ISO 8601 time (UTC)."
)
@click.option("--until", "last", type=PlaceType(), metavar="PLACE", help="End with this offset or ISO 8601 time (UTC).")
@click.option(
    "--job",
    "job_id",
    metavar="JOB",
    default="",
    shell_complete=complete_jobs,
    help="Only what is about this job (the beginning of its id is enough).",
)
@click.option("--dry-run", is_flag=True, help="Send nothing: print each notification as a line of JSON.")
@pass_session
def notify(session: Session, document: Path | None, first: LogPlace | None, last: LogPlace | None, job_id: str, *, dry_run: bool) -> None:
    """Tell others what happens: alerts by rules, and the runs of jobs as events of OpenLineage.

    FILE says who is told of what; by default it is notify.yaml in the configuration directory. Without --since, --until and --dry-run this
    goes on where each receiver has come, and runs until it is stopped (Ctrl-C, SIGTERM). With one of them it ends where the log ends now,
    and no receiver's place changes.
    """
    is_once = dry_run or first is not None or last is not None
    if job_id and not is_once:
        raise click.UsageError("--job goes with --since, --until or --dry-run: what is left out would never be sent")
    if document is None and session.configuration_directory is None:
        raise click.UsageError(f"FILE is missing, and there is no configuration directory that could have a {FILE_NAME}")
    notifications = _load(document or Path(session.configuration_directory or "") / FILE_NAME)
    part = Range(first or LogPlace(), last or LogPlace())
    if not dry_run:
        session.log_to_stderr("notify")
    with contextlib.suppress(StopAsked), reading_log(session), stop_on_signals():
        if dry_run:
            for each in notifications_of(session.access, notifications, part, job_id):
                echo(json_text({"key": each.key, "receivers": list(each.receivers), "text": each.text, "document": each.document}))
        elif is_once:
            count = send_again(session.access, notifications, part, job_id)
            echo(f"{count} {'notification' if count == 1 else 'notifications'} sent again")
        else:
            follow(session.access, notifications)


def _load(path: Path) -> NotificationDocument:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidNotifications(f"invalid {path}: {why}") from error
    return parse_notifications(text, str(path))

"""`eventflink notify`: a process that follows the log and tells others what happens, in the foreground."""

import contextlib
from pathlib import Path
from typing import Final

import click

from eventflink.audit.filters import LogPlace, Range
from eventflink.audit.plain import json_text
from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.log_questions import range_options, reading_log
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import StopAsked, stop_on_signals
from eventflink.notify.document import InvalidNotifications, NotificationDocument, parse_notifications
from eventflink.notify.notifier import ReceiverAway, follow, notifications_of, send_again

FILE_NAME: Final = "notify.yaml"


@click.command()
@click.argument("document", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@range_options
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
def notify(session: Session, document: Path | None, first: LogPlace, last: LogPlace, job_id: str, *, dry_run: bool) -> None:
    """Tell others what happens: alerts by rules, and the runs of jobs as events of OpenLineage.

    FILE names the receivers, and the events that each of them gets; by default it is notify.yaml in the configuration directory. Without
    --from, --until and --dry-run the command continues behind the last record that each receiver has taken, and runs until it is stopped
    (Ctrl-C, SIGTERM). With one of them it ends at the current end of the log, and changes no receiver's place.
    """
    part = Range(first, last)
    is_once = dry_run or part != Range()
    if job_id and not is_once:
        raise click.UsageError("--job goes with --from, --until or --dry-run: what is left out would never be sent")
    if document is None and session.configuration_directory is None:
        raise click.UsageError(f"{FILE_NAME} not found: there is no configuration directory; give FILE, or a directory by -c")
    notifications = _load(document or Path(session.configuration_directory or "") / FILE_NAME)
    if not dry_run:
        session.log_to_stderr("notify")
    with contextlib.suppress(StopAsked), reading_log(session), stop_on_signals():
        if dry_run:
            for each in notifications_of(session.access, notifications, part, job_id):
                echo(json_text({"key": each.key, "receivers": list(each.receivers), "text": each.text, "document": each.document}))
        elif is_once:
            try:
                count = send_again(session.access, notifications, part, job_id)
            except ReceiverAway as error:
                raise CommandFailed(ExitCode.NEGATIVE, str(error)) from None
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

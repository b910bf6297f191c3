"""`eventflink schedule`: jobs that the cluster starts by itself, at instants.

`list` and `show` ask for the state; the others are commands, which the leader decides.
"""

import secrets
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from eventflink.blob.tls import tls_files
from eventflink.cli.completion import complete_schedules
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.id_type import JOB_ID, SCHEDULE_ID
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_schedule, ask_schedules
from eventflink.cli.submission import follow, name_of_source, packed, param_option, read_document, read_job_of, with_code
from eventflink.documents.plain import plain
from eventflink.documents.schedules import DecidedInstant, ScheduleCursor, ScheduleDetails, TableCursorInfo
from eventflink.events.inputs import MAX_BACKFILL_CONCURRENCY, StartBackfill
from eventflink.events.log_events import RequestRejected
from eventflink.events.wording import when_of
from eventflink.gateways.blocking import done_by
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import refusal_of
from eventflink.jobs.job_files import DescribedJob, with_sql_files
from eventflink.log.admin_connection import AdministrationError
from eventflink.model.job_graph import JobGraph
from eventflink.model.schedule_document import InvalidSchedule, parse_schedule, time_in
from eventflink.model.schedules import count_records, instants, local_time, records_behind
from eventflink.model.statuses import CursorMove
from eventflink.session.cluster_session import actor_name

MAX_SHOWN = 1_000
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_SCHEDULE = click.argument("schedule_id", metavar="SCHEDULE", shell_complete=complete_schedules)


@click.group()
def schedule() -> None:
    """Have the cluster start jobs by itself: at instants, or for a range of past ones."""


@schedule.command("put")
@click.argument("schedule_id", metavar="SCHEDULE", type=SCHEDULE_ID)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--code", type=click.Path(path_type=Path), multiple=True, help="A file or directory with the job's Python code; repeatable.")
@_AS_JSON
@pass_session
def put(session: Session, schedule_id: str, file: Path, code: tuple[Path, ...], *, as_json: bool) -> int:
    """Make SCHEDULE of the document FILE (JSON or YAML), or give it this new version.

    The document says when (cron, interval, after, records or versions, time_zone), what to do about overlaps and late instants, and
    the job: the document of one, or the path of that from FILE.
    """
    described: DescribedJob | None = None
    job_file = file

    def read_job(name: str) -> JobGraph:
        nonlocal described, job_file
        job_file = file.parent / name
        described = read_job_of(job_file, session)
        return described.graph

    definition = parse_schedule(read_document(file), name_of_source(file), read_job)
    watched = definition.timing.records
    if watched is not None and watched.name.startswith(f"{session.cluster_id}."):
        raise CommandFailed(
            ExitCode.USAGE, f"invalid schedule: records.topic: '{watched.name}' is the cluster's own: a job would add to it"
        )
    job = described or with_sql_files(DescribedJob(definition.job_graph), name_of_source(file), file.parent)
    archives = packed(session, job, code, job_file)
    deadline = Deadline.after(None, time.monotonic())
    with session.working("storing the schedule"), DispatcherGateway(session.access) as gateway:
        if archives:
            graph = with_code(gateway, job.graph, archives, schedule_id, tls_files(session.configuration), deadline)
            definition = replace(definition, job_graph=graph)
        accepted = gateway.put_schedule(schedule_id, definition, actor=actor_name())
    first = next(instants(definition.timing, int(time.time() * 1000)), None)
    following = f"; the next instant is {local_time(definition.timing, first)}" if first is not None else ""
    if definition.timing.is_noted:
        following = f"; it starts its job {'for ' if definition.timing.has_cursor else ''}{when_of(definition)}"
    return session.print_accepted(accepted, f"{schedule_id} is stored{following}", as_json=as_json, schedule_id=schedule_id)


@schedule.command("list")
@_AS_JSON
@pass_session
def list_schedules(session: Session, *, as_json: bool) -> int:
    """List the schedules, each with its next instant and what became of the last one."""
    found, log_offset = ask_schedules(session)
    if as_json:
        session.print_json({"schedules": found.schedules, "total": found.total, "log_offset": log_offset})
        return ExitCode.OK
    if not found.schedules:
        session.out.print("there are no schedules; 'eventflink schedule put' makes one")
        return ExitCode.OK
    table = Table()
    for heading in ("schedule", "job", "when", "next", "runs", "waits", "last"):
        table.add_column(heading, no_wrap=heading == "schedule")
    for row in found.schedules:
        noted = f"after {row.follows}" if row.follows else f"for {row.takes}" if row.takes else "none"
        noted += ", which cannot be looked at" if row.fault else ""
        upcoming = "paused" if row.paused_since is not None else row.next or noted
        last = f"{row.last.instant} {row.last.sentence}" if row.last is not None else ""
        cells = (
            row.schedule_id,
            row.name,
            row.when,
            upcoming,
            str(len(row.running) or ""),
            str(row.queued + row.awaiting_files or ""),
            last,
        )
        table.add_row(*map(Text, cells))
    session.out.print(table)
    return ExitCode.OK


@schedule.command("show")
@_SCHEDULE
@_AS_JSON
@pass_session
def show(session: Session, schedule_id: str, *, as_json: bool) -> int:
    """Show SCHEDULE: its next ten instants, and the job of each past instant, or why no job was started."""
    found, log_offset = ask_schedule(session, schedule_id)
    if as_json:
        session.print_json({"schedule": found, "log_offset": log_offset})
        return ExitCode.OK
    for line in _lines(found):
        echo(line)
    if found.cursor is not None and found.cursor.topic_id is not None:
        echo(_waiting(session, found.cursor))
    if found.history:
        table = Table()
        for heading in ("instant", "decided", "job", "what became of it"):
            table.add_column(heading)
        for past in found.history:
            table.add_row(*map(Text, (_span(past), past.decided_at, past.job_id or "", past.sentence)))
        session.out.print(table)
    return ExitCode.OK


def _of_cursor(cursor: ScheduleCursor) -> str:
    if cursor.topic_id is None:
        return f"topic '{cursor.topic}' was not seen yet: it is looked for again, at the latest after a minute"
    offsets = ", ".join(f"{partition}: {offset:,}" for partition, offset in list(cursor.offsets.items())[:MAX_SHOWN])
    lost = f"; {cursor.lost:,} record{'s' if cursor.lost > 1 else ''} deleted before a job had read them" if cursor.lost else ""
    return f"jobs have the records of '{cursor.topic}' before {offsets or 'its first one'}{lost}"


_MOVED = {
    CursorMove.REPLACED: "; it took the place of another table, and all of its versions are new",
    CursorMove.REWOUND: "; it went back to an older version",
}


def _of_table(cursor: TableCursorInfo) -> list[str]:
    fault = (
        [f"the leader cannot look at '{cursor.table}': {cursor.fault}; it looks again, at the latest after a minute"]
        if cursor.fault
        else []
    )
    if cursor.version is None:
        return fault or [f"table '{cursor.table}' was not seen yet: it is looked for again, at the latest after a minute"]
    snapshot = f", snapshot {cursor.snapshot_id}" if cursor.snapshot_id is not None else ""
    lost = f"; {cursor.lost:,} version{'s' if cursor.lost > 1 else ''} gone before a job had read them" if cursor.lost else ""
    moved = _MOVED.get(cursor.moved, "") if cursor.moved is not None else ""
    first = "begin with the first version" if cursor.version < 0 else f"have the versions up to {cursor.version:,}{snapshot}"
    return [f"jobs of '{cursor.table}' {first}{moved}{lost}", *fault]


def _waiting(session: Session, cursor: ScheduleCursor) -> str:
    """Return how many records there are for the next jobs, as the leader would find them now."""
    from eventflink.entrypoint.outside_watching import KafkaLook  # noqa: PLC0415 - only schedules of records need Kafka's administration

    try:
        seen = KafkaLook(session.access).topics([cursor.topic])[cursor.topic]
    except AdministrationError as error:
        return f"how many records wait for a job is not known: {error}"
    if seen.topic_id != cursor.topic_id:
        return f"'{cursor.topic}' is another topic now: its first record is the next one"
    count = count_records(records_behind(cursor.offsets, seen.bounds).values())
    return f"{count:,} record{'' if count == 1 else 's'} wait{'s' if count == 1 else ''} for a job"


def _lines(found: ScheduleDetails) -> list[str]:
    by = f" by {found.actor}" if found.actor else ""
    lines = [f"{found.schedule_id}: {found.name}, {found.when}; version {found.version}{by} at {found.stored_at}"]
    if found.description:
        lines.append(found.description)
    lines.append(f"late instants: {found.catch_up.lower()}; while a job runs: {found.overlap.lower()}")
    if found.cursor is not None:
        lines.append(_of_cursor(found.cursor))
    if found.table_cursor is not None:
        lines += _of_table(found.table_cursor)
    if not found.is_followed_known:
        lines.append(f"no run of '{found.follows}' is known, and no schedule starts one: is the name that of its job graph?")
    if found.paused_since is not None:
        who = f" by {found.paused_by}" if found.paused_by else ""
        because = f": {found.paused_because}" if found.paused_because else ""
        lines.append(f"paused since {found.paused_since}{who}{because}; 'eventflink schedule resume {found.schedule_id}' goes on")
    if found.running:
        lines.append(f"running: {', '.join(found.running)}")
    if found.queued:
        lines.append(f"waiting for that: {found.queued}")
    lines += [f"{each.instant} waits for {each.file}, until {each.until}" for each in found.awaiting]
    if (backfill := found.backfill) is not None:
        done = f"{backfill.started} started, {backfill.skipped} skipped, {len(backfill.running)} running"
        following = f"; next {backfill.next}" if backfill.next is not None else ""
        lines.append(f"back-fill of {backfill.first} to before {backfill.end}: {done}{following}")
    following = "next" if found.paused_since is None else "next if it is resumed"
    lines += [f"{following}: {each}" for each in found.upcoming]
    return lines


def _span(past: DecidedInstant) -> str:
    return past.instant if past.last is None else f"{past.instant} to {past.last}"


@schedule.command("pause")
@_SCHEDULE
@click.option("--reason", default="", help="Why; it is shown with the schedule.")
@_AS_JSON
@pass_session
def pause(session: Session, schedule_id: str, reason: str, *, as_json: bool) -> int:
    """Start no jobs for the instants of SCHEDULE until it is resumed."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.pause_schedule(schedule_id, reason, actor=actor_name())
    return session.print_accepted(accepted, f"{schedule_id} is paused", as_json=as_json, schedule_id=schedule_id)


@schedule.command("resume")
@_SCHEDULE
@_AS_JSON
@pass_session
def resume(session: Session, schedule_id: str, *, as_json: bool) -> int:
    """Start jobs of SCHEDULE again, from the next instant on."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.resume_schedule(schedule_id, actor=actor_name())
    return session.print_accepted(accepted, f"{schedule_id} goes on", as_json=as_json, schedule_id=schedule_id)


@schedule.command("delete")
@_SCHEDULE
@_AS_JSON
@pass_session
def delete(session: Session, schedule_id: str, *, as_json: bool) -> int:
    """Remove SCHEDULE; the jobs that it started run on."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.delete_schedule(schedule_id, actor=actor_name())
    return session.print_accepted(accepted, f"{schedule_id} is deleted", as_json=as_json, schedule_id=schedule_id)


@schedule.command("fire")
@_SCHEDULE
@click.option("--for", "instant", metavar="TIME", help="For which day or time it runs, in the schedule's time zone. Default: now.")
@param_option
@click.option("--job-id", type=JOB_ID, metavar="NEW_ID", help="The id of the job that runs. Default: a new one.")
@click.option("-d", "--detach", "--detached", is_flag=True, help="Do not wait for the job's end.")
@_AS_JSON
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Wait no longer, for answer and end together."
)
@pass_session
def fire(
    session: Session,
    schedule_id: str,
    instant: str | None,
    parameters: dict[str, str],
    job_id: str | None,
    timeout_s: float | None,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    """Start the job of SCHEDULE now, whatever else runs of it, and wait for its end."""
    began_s = time.monotonic()
    instant_ms = _times(ask_schedule(session, schedule_id)[0], instant)[0] if instant is not None else None
    job_id = job_id or f"{schedule_id}-{secrets.token_hex(6)}"
    with (
        session.working("starting"),
        DispatcherGateway(session.access, **done_by(Deadline.after(timeout_s, began_s), timeout_s)) as gateway,
    ):
        accepted = gateway.fire_schedule(schedule_id, job_id, instant_ms, parameters, actor=actor_name())
    report = {"job_id": job_id, "schedule_id": schedule_id, "request_id": accepted.request_id, "log_offset": accepted.log_offset}
    return follow(session, accepted, report, timeout_s, began_s, detach=detach, as_json=as_json)


@schedule.command("backfill")
@_SCHEDULE
@click.option("--from", "first", required=True, metavar="TIME", help="The first day or time, in the schedule's time zone.")
@click.option("--to", "end", required=True, metavar="TIME", help="The day or time before which it ends.")
@click.option(
    "--at-once",
    "concurrency",
    type=click.IntRange(1, MAX_BACKFILL_CONCURRENCY),
    default=1,
    show_default=True,
    help="How many of its jobs may run at once.",
)
@click.option("--newest-first", is_flag=True, help="Begin with the newest instant.")
@click.option("--repeat-finished", is_flag=True, help="Also run those whose job has finished.")
@click.option("--dry-run", is_flag=True, help="Show what would become of each instant, and start nothing.")
@_AS_JSON
@pass_session
def backfill(
    session: Session,
    schedule_id: str,
    first: str,
    end: str,
    concurrency: int,
    *,
    newest_first: bool,
    repeat_finished: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Start the jobs of SCHEDULE for the instants of a time that has passed.

    An instant is left out if its job has finished and the masters remember that. Instants that come due meanwhile go first.
    """
    found, _ = ask_schedule(session, schedule_id)
    first_ms, end_ms = _times(found, first, end)
    if dry_run:
        command = StartBackfill(
            schedule_id=schedule_id, first_ms=first_ms, end_ms=end_ms, newest_first=newest_first, repeats_finished=repeat_finished
        )
        return _foresee(session, command, as_json=as_json)
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.start_backfill(
            schedule_id,
            first_ms,
            end_ms,
            concurrency,
            newest_first=newest_first,
            repeats_finished=repeat_finished,
            actor=actor_name(),
        )
    said = f"the back-fill of {schedule_id} begins; 'eventflink schedule show {schedule_id}' shows how far it is"
    return session.print_accepted(accepted, said, as_json=as_json, schedule_id=schedule_id)


def _foresee(session: Session, command: StartBackfill, *, as_json: bool) -> int:
    """Print what a back-fill would do that began now, as the rules of the leader have it over the state at the end of the log."""
    from eventflink.gateways.folding import read_fold  # noqa: PLC0415 - half of the time of a start, and only a dry run needs it
    from eventflink.views.schedules import backfill_view  # noqa: PLC0415 - see above

    with session.working("reading the log"):
        fold = read_fold(session.access)
    found = backfill_view(fold, command, time.time_ns() // 1_000_000, MAX_SHOWN)
    if isinstance(found, RequestRejected):
        raise refusal_of(found.code, found.message)
    if as_json:
        session.print_json({"schedule_id": command.schedule_id, **plain(found), "log_offset": fold.last_offset})
        return ExitCode.OK
    for each in found.instants:
        echo(f"{each.instant}  {each.job_id or each.sentence}")
    if not found.is_whole:
        session.err.print(f"more than {MAX_SHOWN} instants")
    return ExitCode.OK


@schedule.command("cancel-backfill")
@_SCHEDULE
@_AS_JSON
@pass_session
def cancel_backfill(session: Session, schedule_id: str, *, as_json: bool) -> int:
    """End the back-fill of SCHEDULE, and cancel its jobs that run."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.cancel_backfill(schedule_id, actor=actor_name())
    return session.print_accepted(accepted, f"the back-fill of {schedule_id} has ended", as_json=as_json, schedule_id=schedule_id)


def _times(found: ScheduleDetails, *texts: str) -> tuple[int, ...]:
    """Return times that people wrote, in milliseconds since 1970.

    Raises:
        CommandFailed: one is neither a day nor a time.

    """
    try:
        return tuple([time_in(found.time_zone, text) for text in texts])
    except InvalidSchedule as error:
        raise CommandFailed(ExitCode.USAGE, f"invalid time: {error}") from error

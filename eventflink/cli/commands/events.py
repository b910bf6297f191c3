"""`eventflink events`: what the log holds, one line for each event."""

import sys
from collections import deque
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from eventflink.audit import FilterInvalid
from eventflink.audit.entries import Entry, judge_for
from eventflink.audit.filters import EVENT_TYPES, LogPlace, Range, Wanted, event_type
from eventflink.audit.listing import Listing
from eventflink.audit.plain import json_text, plain_event
from eventflink.cli.completion import complete_jobs, complete_task_managers
from eventflink.cli.failures import ExitCode
from eventflink.cli.log_questions import range_options, reading_log, remark_on_beginning
from eventflink.cli.session import Session, pass_session
from eventflink.cli.working import Working
from eventflink.events.wording import details_of, iso_time, subject_of
from eventflink.log.replay import new_fold
from eventflink.model.texts import printable
from eventflink.views.job_document import shown

_MOST_LAST = 100_000


def _read_types(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    try:
        return frozenset(map(event_type, values))
    except FilterInvalid as error:
        raise click.BadParameter(str(error)) from error


def _complete_types(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in EVENT_TYPES if name.lower().startswith(incomplete.lower())]


@click.command()
@click.option(
    "--type",
    "types",
    metavar="EVENT",
    multiple=True,
    callback=_read_types,
    shell_complete=_complete_types,
    help="Only this type of event; repeatable.",
)
@click.option(
    "--job",
    "job_id",
    metavar="JOB",
    default="",
    shell_complete=complete_jobs,
    help="Only what concerns this job (the beginning of its id is enough).",
)
@click.option(
    "--task-manager",
    "task_manager_id",
    metavar="ID",
    default="",
    shell_complete=complete_task_managers,
    help="Only what concerns this TaskManager or instance.",
)
@click.option("--rejected", is_flag=True, help="Only rejected decisions: they are in the log without effect.")
@click.option("--accepted", is_flag=True, help="Only accepted decisions.")
@range_options
@click.option("--limit", type=click.IntRange(min=1), help="End after N events.")
@click.option("--last", "newest", type=click.IntRange(1, _MOST_LAST), help="Show only the last N events.")
@click.option("--follow", "-f", is_flag=True, help="Then print new events as they come, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, with every field.")
@pass_session
def events(
    session: Session,
    types: frozenset[str],
    job_id: str,
    task_manager_id: str,
    first: LogPlace,
    last: LogPlace,
    limit: int | None,
    newest: int | None,
    *,
    rejected: bool,
    accepted: bool,
    follow: bool,
    as_json: bool,
) -> int:
    """Show what the log holds, also what the masters rejected: offset, epoch/sequence, time, event, what it is about."""
    if rejected and accepted:
        raise click.UsageError("--rejected and --accepted leave nothing: give one of them, or none for both")
    if limit is not None and newest is not None:
        raise click.UsageError("--limit counts from the beginning and --last from the end: give one of them")
    wanted = Wanted(types, job_id, task_manager_id, accepted if accepted or rejected else None)
    coloured = sys.stdout.isatty() and not as_json
    line = _json_line if as_json else _coloured_line if coloured else _line
    listing = Listing(wanted, Range(first, last), limit)
    try:
        with reading_log(session) as log, session.working("reading the log") as working:
            first_offset, end = log.bounds()
            remark_on_beginning(session, first_offset)
            judge = judge_for(first_offset, new_fold(session.access))
            records = log.read(first_offset, listing.range.end_offset(end))
            told = working.count(records, f"of {end - first_offset:,} records of the log read")
            chosen = listing.choose(told, judge)
            _print(chosen if newest is None else deque(chosen, newest), line, working)
            working.end()
            if follow and not listing.is_over:
                _print(listing.choose(log.follow(end), judge), line, working)
    except KeyboardInterrupt:
        if not follow:
            raise
    return ExitCode.OK


def _print(chosen: Iterable[tuple[Entry, int] | None], line: Callable[[Entry, int], str], working: Working) -> None:
    for event in chosen:
        if event is None:
            sys.stdout.flush()
        else:
            working.end()
            sys.stdout.write(line(*event) + "\n")
    sys.stdout.flush()


def _json_line(entry: Entry, index: int) -> str:
    return json_text(shown(plain_event(entry, index)))


def _line(entry: Entry, index: int) -> str:
    decision = entry.decision
    event = decision.events[index]
    place = f"{entry.offset:>7} {f'{decision.epoch}/{decision.sequence}':>9} {iso_time(decision.decided_at_ms)}"
    rejection = f"REJECTED ({entry.rejection})" if entry.rejection is not None else ""
    said = "  ".join(part for part in (subject_of(event), details_of(event), rejection) if part)
    return printable(f"{place} {type(event).__name__:<27} {said}".rstrip())


def _coloured_line(entry: Entry, index: int) -> str:
    line = _line(entry, index)
    return line if entry.accepted else click.style(line, fg="red")

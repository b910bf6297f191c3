"""`eventflink replay`: a cold start without a master, up to any place in the log."""

from dataclasses import asdict
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.audit.filters import LogPlace
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.log_questions import PlaceType
from eventflink.cli.session import Session, pass_session
from eventflink.drills.cold_replay import ColdReplay, ReplayImpossible, ReplayOptions, replay_cold
from eventflink.drills.state_summary import StateSummary, changes_between
from eventflink.gateways.folding import folding_log
from eventflink.views.plain import iso_time


@click.command()
@click.option(
    "--until",
    type=PlaceType(),
    default=LogPlace(),
    metavar="PLACE",
    help="End with this offset or ISO 8601 time (UTC). Default: all there is.",
)
@click.option(
    "--since", "since_offset", type=click.IntRange(min=0), metavar="OFFSET", help="Show what changed after the record at this offset."
)
@click.option("--from-zero", is_flag=True, help="Begin with the first record, whatever snapshots there are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def replay(session: Session, until: LogPlace, since_offset: int | None, *, from_zero: bool, as_json: bool) -> int:
    """Fold the log from the newest snapshot or from its first record, and show where that ends: offset, epoch, digest.

    Nothing is changed and no master is asked. Two masters that stand at this offset have the same digest.
    """
    if since_offset is not None and until.offset is not None and since_offset > until.offset:
        raise click.UsageError(f"--since {since_offset} lies behind --until {until.offset}")
    options = ReplayOptions(until_offset=until.offset, until_ms=until.at_ms, since_offset=since_offset, from_zero=from_zero)
    with session.working("folding the log"):
        done = _replay(session, options)
    document = _document(done)
    if as_json:
        session.print_json(document)
    else:
        _print(session, document)
    return ExitCode.OK


def _replay(session: Session, options: ReplayOptions) -> ColdReplay:
    with folding_log(session.access):
        try:
            return replay_cold(session.access, options)
        except ReplayImpossible as error:
            raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error


def _document(done: ColdReplay) -> dict[str, Any]:
    fold, after = done.fold, StateSummary.of(done.fold)
    document: dict[str, Any] = {
        "snapshot": done.snapshot_id or None,
        "first_offset": done.first_offset,
        "log_offset": fold.last_offset,
        "epoch": fold.acceptance.epoch,
        "sequence": fold.acceptance.sequence,
        "last_decision_at": iso_time(fold.last_decided_at_ms),
        "digest": fold.master.digest(),
        "records": done.records,
        "accepted": done.accepted,
        "rejected": done.rejected,
        "events": done.events,
        "load_s": round(done.load_s, 6),
        "fold_s": round(done.fold_s, 6),
        "events_per_s": round(done.events_per_s, 1),
        "jobs": after.count_jobs(),
        "task_managers": sorted(after.task_managers),
        "slots": after.slots,
        "slots_free": after.slots_free,
    }
    if done.before is not None:
        document["since"] = done.before.log_offset
        document["changes"] = asdict(changes_between(done.before, after))
    return document


def _print(session: Session, document: dict[str, Any]) -> None:
    begun = f"the snapshot {document['snapshot']}" if document["snapshot"] else "the first record"
    jobs = ", ".join(f"{count} {status}" for status, count in document["jobs"].items()) or "none"
    rows = [
        ("began", f"at {begun}, offset {document['first_offset']}"),
        ("records", f"{document['records']:,}: {document['accepted']:,} accepted, {document['rejected']:,} rejected"),
        ("events", f"{document['events']:,} in {document['fold_s']:.3f} s, {document['events_per_s']:,.0f} a second"),
        (
            "ended",
            f"at offset {document['log_offset']}, epoch {document['epoch']}, {document['last_decision_at'] or 'nothing was decided'}",
        ),
        ("digest", document["digest"]),
        ("jobs", jobs),
        ("slots", f"{document['slots_free']} free of {document['slots']}, on {len(document['task_managers'])} TaskManagers"),
    ]
    if "changes" in document:
        rows += _change_rows(document["changes"], document["since"])
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    session.out.print(table)


def _change_rows(changes: dict[str, Any], since: int) -> list[tuple[str, str]]:
    moved = ", ".join(f"{count} {move}" for move, count in changes["jobs_moved"].items()) or "no job changed its status"
    rows = [
        (f"since {since}", f"{changes['epochs']} new epochs, {changes['jobs_submitted']} jobs submitted; {moved}"),
        ("", f"slots {changes['slots']:+d}, free slots {changes['slots_free']:+d}"),
    ]
    for name, key in (("gained", "task_managers_gained"), ("lost", "task_managers_lost"), ("restarted", "task_managers_replaced")):
        if changes[key]:
            rows.append(("", f"TaskManagers {name}: {', '.join(changes[key])}"))
    rows += [("", line) for line in changes["jobs_named"]]
    return rows

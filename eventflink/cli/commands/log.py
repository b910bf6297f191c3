"""`eventflink log verify` and `repair`: whether topics hold what they are known to have held, and a new cluster of the rest (P5a).

Both read the topics and ask no master; the topics of the cluster that they are asked about stay as they are.
"""

import dataclasses
import shlex
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.events.topics import INBOUND
from eventflink.gateways.errors import ClusterNotFound
from eventflink.model.configuration import build_configuration
from eventflink.snapshots.log_repair import repair_log
from eventflink.snapshots.log_survey import LogSurvey, survey_log

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def log() -> None:
    """Check the cluster's log and topics for losses, or bring what is left into a new cluster."""


@log.command("verify")
@_AS_JSON
@pass_session
def verify(session: Session, *, as_json: bool) -> int:
    """Fold the log, and hold it, its snapshots, the inbound topics and what masters said against each other.

    Nothing is changed and no master is asked. Exit code 1: something is missing or cannot be read, and no master goes on from it.
    """
    with session.working("folding the log"):
        survey = survey_log(session.access)
    if not survey.topics:
        raise ClusterNotFound(f"cluster not found: '{session.cluster_id}'; Kafka at {session.bootstrap} has no topics of it")
    document = document_of(survey)
    if as_json:
        session.print_json(document)
    else:
        _print(session, survey, document)
    return ExitCode.NEGATIVE if survey.findings else ExitCode.OK


@log.command("repair")
@click.option("--into", "target", required=True, metavar="ID", help="The id of the new cluster; it has no topics yet.")
@_AS_JSON
@pass_session
def repair(session: Session, target: str, *, as_json: bool) -> int:
    """Bring a cluster back under a new id: from its log as far as that can be folded, or from a whole snapshot that stands further.

    The old cluster is only read; no master of it may run. What is lost is told.
    """
    build_configuration({"cluster.id": target}, "--into")  # Only for its errors: an id that no configuration may have.
    session.share_secret(target)
    with session.working("reading what is left"):
        done = repair_log(session.access, session.access.of_copy(target), session.configuration.replication_factor, lambda _: None)
    rebind = " ".join(f"--rebind {topic}" for topic in INBOUND)
    options = session.program_arguments({"cluster.id": target})[len(session.program) :]
    command = f"{shlex.join(['eventflink', *options])} master {rebind}"
    if as_json:
        session.print_json({**dataclasses.asdict(done), "cluster_id": target, "start": command})
        return ExitCode.OK
    begun = f"its snapshot {done.snapshot_id}" if done.snapshot_id else "its log"
    echo(f"'{target}' is '{session.cluster_id}' as of offset {done.end_offset - 1}, epoch {done.epoch}, by {begun}")
    echo(f"lost are: {'; '.join(done.lost) or 'nothing that is known'}")
    echo(f"its first master: {command}")
    return ExitCode.OK


def document_of(survey: LogSurvey) -> dict[str, Any]:
    """Return a survey as plain values."""
    fold, snapshot = survey.fold, survey.snapshot
    return {
        "topics": [dataclasses.asdict(extent) for extent in survey.topics.values()],
        "cursors": {topic: cursor.next_offset for topic, cursor in fold.master.requests.cursors.items()} if fold is not None else {},
        "undecided": survey.undecided(),
        "provable_end": survey.provable_end,
        "known_end": survey.known_end,
        "epoch": fold.acceptance.epoch if fold is not None else 0,
        "foreign_records": fold.foreign_count if fold is not None else 0,
        # What could not be folded may have been applied in part.
        "digest": fold.master.digest() if fold is not None and survey.provable_end == survey.log.end_offset else None,
        "snapshot": None
        if snapshot is None
        else {"snapshot_id": snapshot.manifest.snapshot_id, "log_offset": snapshot.manifest.log_offset, "digest": snapshot.manifest.digest},
        "errors": [f"{finding.topic}: {finding.reason}" for finding in survey.findings],
    }


def _print(session: Session, survey: LogSurvey, document: dict[str, Any]) -> None:
    table = Table("topic", "begins", "ends", "decided to")
    for topic, extent in survey.topics.items():
        decided = document["cursors"].get(topic, "") if topic in INBOUND else ""
        table.add_row(str(topic), str(extent.first_offset), str(extent.end_offset), str(decided))
    session.out.print(table)
    session.out.print(Text(f"the log can be folded to offset {survey.provable_end}, epoch {document['epoch']}"))
    if foreign := document["foreign_records"]:
        session.out.print(Text(f"{foreign} of the offsets that were read hold nothing that a master wrote; they are passed over"))
    if (snapshot := document["snapshot"]) is not None:
        session.out.print(Text(f"the newest whole snapshot, {snapshot['snapshot_id']}, stands at offset {snapshot['log_offset']}"))
    for error in document["errors"]:
        session.out.print(Text(error, style="red"))
    session.out.print(Text("something is missing or unreadable" if document["errors"] else "nothing is missing"))

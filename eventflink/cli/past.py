"""The state at places in the log, for commands that ask about the past: one reading, from the newest snapshot that lies before all of them.

A place that is a time means the last decision that was accepted up to it, so that a time after the end is the present.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from eventflink.audit import FilterInvalid
from eventflink.audit.filters import LogPlace
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.documents.cluster import ClusterStatus
from eventflink.documents.one_job import ExecutionGraphInfo
from eventflink.events.snapshot_records import SnapshotManifest
from eventflink.gateways.folding import folding_log
from eventflink.leadership.acceptance import is_grant
from eventflink.leadership.fold import Fold
from eventflink.log.replay import collecting_rarely, log_bounds, read_log
from eventflink.snapshots.loading import load_fold
from eventflink.views.jobs_and_cluster import JobNotFound, cluster_view, job_view
from eventflink.views.plain import fields_of

T = TypeVar("T")


def states_at(session: Session, places: Sequence[LogPlace], compute: Callable[[Fold], T]) -> list[T]:
    """Return what `compute` makes of the state at each place, in the order of the places; what it returns shares nothing with the state.

    Raises:
        CommandFailed: the log does not reach that far, or cannot be folded.
        ClusterNotFound, ClusterUnreachable: Kafka does not give the log.

    """
    found: dict[int, T] = {}
    with folding_log(session.access), session.working("reading the log") as working, collecting_rarely():
        end = log_bounds(session.access)[1]
        for place in places:
            if place.offset is not None and place.offset >= end:
                raise CommandFailed(ExitCode.NEGATIVE, f"the log ends at offset {end - 1}: nothing is known yet of offset {place.offset}")
        fold = load_fold(session.access, wanted=lambda manifest: all(_is_up_to(manifest, each) for each in places))
        records = read_log(session.access, fold.last_offset + 1, end)
        for offset, timestamp_ms, value in working.count(records, f"of {end - fold.last_offset - 1:,} records of the log read"):
            for number, place in enumerate(places):
                if number not in found and _is_beyond(fold, place, offset, value):
                    found[number] = compute(fold)
            if len(found) == len(places):
                break
            fold.fold_record(offset, timestamp_ms, value)
        return [found[number] if number in found else compute(fold) for number in range(len(places))]


def _is_up_to(manifest: SnapshotManifest, place: LogPlace) -> bool:
    if place.offset is not None:
        return manifest.log_offset <= place.offset
    return place.at_ms is not None and manifest.last_decided_at_ms <= place.at_ms


def _is_beyond(fold: Fold, place: LogPlace, offset: int, value: bytes) -> bool:
    """Tell whether the next record lies behind the place."""
    if place.offset is not None:
        return offset > place.offset
    if fold.codec.is_foreign(offset, value):
        return False
    decision = fold.codec.decode(value)
    if not fold.acceptance.accepts(decision.epoch, decision.sequence, decision.leader_id, grant=is_grant(decision)):
        return False
    return place.at_ms is not None and max(fold.last_decided_at_ms, decision.decided_at_ms) > place.at_ms


def cluster_at(session: Session, text: str) -> ClusterStatus:
    """Return the cluster as it was at the place that a text names; raises as `states_at`, and click.BadParameter where it names none."""
    [view] = states_at(session, [_place(text)], cluster_view)
    return view


def job_at(session: Session, job_id: str, text: str) -> ExecutionGraphInfo:
    """Return a job as it was at the place that a text names; raises as `cluster_at`, and CommandFailed where there was no such job."""

    def compute(fold: Fold) -> ExecutionGraphInfo | JobNotFound:
        try:
            return ExecutionGraphInfo(**fields_of(job_view(fold, job_id)), log_offset=fold.last_offset)
        except JobNotFound as error:
            return error

    [view] = states_at(session, [_place(text)], compute)
    if isinstance(view, JobNotFound):
        raise CommandFailed(ExitCode.NEGATIVE, f"{view} at {text}")
    return view


def _place(text: str) -> LogPlace:
    try:
        return LogPlace.parse(text)
    except FilterInvalid as error:
        raise click.BadParameter(str(error), param_hint="'--at'") from error

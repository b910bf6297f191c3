"""A cold start without a master: the state of the log at its end, at an offset or at a time, and what it took to get there.

It begins at the newest snapshot that reaches no further than what is asked for, or before the first record. Reading and folding is timed;
the search for a time and the digest are not.
"""

import copy
import time
from dataclasses import dataclass

from eventflink.drills.state_summary import StateSummary
from eventflink.events.snapshot_records import SnapshotManifest
from eventflink.leadership.acceptance import is_grant
from eventflink.leadership.fold import Fold
from eventflink.log.replay import log_bounds, new_fold, read_log, replay
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.loading import find_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Which state is asked for; nothing given is the present end of the log."""

    until_offset: int | None = None
    """The last record that counts."""
    until_ms: int | None = None
    """The last moment that counts, in the log's time."""
    since_offset: int | None = None
    """The record after which changes count."""
    from_zero: bool = False
    """Use no snapshot."""

    def allows(self, manifest: SnapshotManifest) -> bool:
        """Tell whether a snapshot reaches no further than it may."""
        offsets = [offset for offset in (self.until_offset, self.since_offset) if offset is not None]
        return all(manifest.log_offset <= offset for offset in offsets) and (
            self.until_ms is None or manifest.last_decided_at_ms <= self.until_ms
        )


@dataclass(frozen=True, slots=True)
class ColdReplay:
    """A state, and the way to it."""

    fold: Fold
    snapshot_id: str
    """Where it began; empty: before the first record."""
    first_offset: int
    """The first record that was folded."""
    load_s: float
    """How long finding and loading the snapshot took."""
    fold_s: float
    records: int
    accepted: int
    rejected: int
    events: int
    before: StateSummary | None
    """Where the state stood at `since_offset`."""

    @property
    def events_per_s(self) -> float:
        """How many events were folded in a second."""
        return self.events / self.fold_s if self.fold_s > 0 else 0.0


class ReplayImpossible(Exception):
    """The log does not hold what is asked for; the message says what it holds."""


def replay_cold(access: ClusterAccess, options: ReplayOptions) -> ColdReplay:
    """Fold the log as it is asked for.

    Raises:
        ReplayImpossible: the log begins behind what is asked for.
        LogUnusable, LogDiverged, LogNotDense: the log is not one; the message names the record.
        ReplayStalled, KafkaException, AdministrationError: Kafka does not give it.

    """
    first_kept, end_offset = log_bounds(access)
    started = time.monotonic()
    loaded = None if options.from_zero else find_snapshot(access, wanted=options.allows)
    load_s = time.monotonic() - started
    if loaded is None and first_kept > 0:
        how = (
            "--from-zero has nothing to begin with"
            if options.from_zero
            else "no snapshot that can be used reaches no further than is asked for"
        )
        raise ReplayImpossible(
            f"the log of '{access.cluster_id}' begins at offset {first_kept}: it was trimmed behind a snapshot, and {how}"
        )
    fold = new_fold(access) if loaded is None else loaded.fold
    if options.until_offset is not None:
        end_offset = min(end_offset, options.until_offset + 1)
    if options.until_ms is not None:
        end_offset = _end_offset_at(access, fold, end_offset, options.until_ms)
    counts = (fold.accepted_count, fold.rejected_count, fold.event_count)
    first_offset, before, fold_s = fold.last_offset + 1, None, 0.0
    if options.since_offset is not None:
        fold_s += _timed(access, fold, min(end_offset, options.since_offset + 1))
        before = StateSummary.of(fold)
    fold_s += _timed(access, fold, end_offset)
    return ColdReplay(
        fold=fold,
        snapshot_id="" if loaded is None else loaded.manifest.snapshot_id,
        first_offset=first_offset,
        load_s=load_s,
        fold_s=fold_s,
        records=fold.last_offset + 1 - first_offset,
        accepted=fold.accepted_count - counts[0],
        rejected=fold.rejected_count - counts[1],
        events=fold.event_count - counts[2],
        before=before,
    )


def _timed(access: ClusterAccess, fold: Fold, end_offset: int) -> float:
    started = time.monotonic()
    replay(access, fold, end_offset)
    return time.monotonic() - started


def _end_offset_at(access: ClusterAccess, fold: Fold, end_offset: int, at_ms: int) -> int:
    """Return the offset of the first decision after a moment; the fold stays where it is.

    Only accepted decisions count: their time never goes back, but a deposed leader's may lie anywhere.
    """
    acceptance = copy.copy(fold.acceptance)
    for offset, _, value in read_log(access, fold.last_offset + 1, end_offset):
        if fold.codec.is_foreign(offset, value):
            continue
        decision = fold.codec.decode(value)
        if acceptance.accepts(decision.epoch, decision.sequence, decision.leader_id, grant=is_grant(decision)):
            if decision.decided_at_ms > at_ms:
                return offset
            acceptance.advance(decision.epoch, decision.sequence, decision.leader_id)
    return end_offset

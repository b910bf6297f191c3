"""What a cluster knows about its own running: the feature level, and the snapshots of its log.

Nothing here concerns a job. Snapshots are taken and checked outside; here is what was reported of them, and which of them allows the log
to be trimmed (P18).
"""

from dataclasses import dataclass, field

from eventflink.events.inputs import MAX_ID_LENGTH, ConfirmSnapshot, ReportSnapshot
from eventflink.events.log_events import (
    FeatureLevelRaised,
    LogEvent,
    SnapshotConfirmed,
    SnapshotTaken,
)
from eventflink.master.canonical import require
from eventflink.master.inputs import RaiseFeatureLevel
from eventflink.master.requests import accepted, rejected
from eventflink.model.features import FIRST_LEVEL
from eventflink.model.statuses import IllegalTransition

MAX_SNAPSHOTS = 16


@dataclass(slots=True)
class SnapshotRecord:
    """A snapshot that was reported."""

    log_offset: int
    digest: str
    chunk_count: int
    byte_count: int
    taken_by: str
    confirmed_by: str = ""


@dataclass(slots=True)
class Upkeep:
    """Feature level and snapshots."""

    feature_level: int = FIRST_LEVEL
    snapshots: dict[str, SnapshotRecord] = field(default_factory=dict)
    """The newest ones by id, the oldest first."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_raise_feature_level(self, value: RaiseFeatureLevel) -> list[LogEvent]:
        """Raise the level, unless it is reached already."""
        return [FeatureLevelRaised(self.feature_level, value.to_level)] if value.to_level > self.feature_level else []

    def decide_report_snapshot(self, report: ReportSnapshot) -> list[LogEvent]:
        """Take note of a snapshot, unless a newer one is known."""
        newest = max((s.log_offset for s in self.snapshots.values()), default=-1)
        if report.snapshot_id in self.snapshots or report.log_offset <= newest:
            message = f"a snapshot at offset {newest} is known; the snapshot at {report.log_offset} is not newer"
            return [rejected(report, "SnapshotOutdated", message)]
        taken = SnapshotTaken(
            report.snapshot_id, report.log_offset, report.digest, report.chunk_count, report.byte_count, report.taken_by[:MAX_ID_LENGTH]
        )
        return [accepted(report), taken]

    def decide_confirm_snapshot(self, report: ConfirmSnapshot) -> list[LogEvent]:
        """Believe in a snapshot that another master found to be right."""
        snapshot = self.snapshots.get(report.snapshot_id)
        if snapshot is None or snapshot.log_offset != report.log_offset:
            message = f"no snapshot {report.snapshot_id[:MAX_ID_LENGTH]} at offset {report.log_offset} is known"
            return [rejected(report, "UnknownSnapshot", message)]
        confirmed_by = report.confirmed_by[:MAX_ID_LENGTH]
        if confirmed_by == snapshot.taken_by:
            return [rejected(report, "NotAnotherMaster", f"{confirmed_by} took the snapshot itself")]
        if report.digest != snapshot.digest:
            message = f"{confirmed_by} came to the digest {report.digest[:64]}, {snapshot.taken_by} to {snapshot.digest}"
            return [rejected(report, "DigestsDiffer", message)]
        confirmed = SnapshotConfirmed(report.snapshot_id, snapshot.log_offset, snapshot.digest, confirmed_by)
        return [accepted(report), *([] if snapshot.confirmed_by else [confirmed])]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_feature_level_raised(self, event: FeatureLevelRaised) -> None:
        """Allow newer events."""
        if event.from_level != self.feature_level or event.to_level <= event.from_level:
            raise IllegalTransition(f"{event} does not fit the feature level {self.feature_level}")
        self.feature_level = event.to_level

    def apply_snapshot_taken(self, event: SnapshotTaken) -> None:
        """Remember a snapshot; the oldest is forgotten, but never the newest confirmed one."""
        if event.snapshot_id in self.snapshots:
            raise IllegalTransition(f"the snapshot {event.snapshot_id} was taken before")
        if event.log_offset <= max((s.log_offset for s in self.snapshots.values()), default=-1):
            raise IllegalTransition(f"the snapshot {event.snapshot_id} is older than one that is known")
        self.snapshots[event.snapshot_id] = SnapshotRecord(
            event.log_offset, event.digest, event.chunk_count, event.byte_count, event.taken_by
        )
        keep = self.newest_confirmed()
        for snapshot_id in [s for s in self.snapshots if s != keep][: max(0, len(self.snapshots) - MAX_SNAPSHOTS)]:
            del self.snapshots[snapshot_id]

    def apply_snapshot_confirmed(self, event: SnapshotConfirmed) -> None:
        """Remember who confirmed it."""
        snapshot = self.snapshots.get(event.snapshot_id)
        if snapshot is None or snapshot.confirmed_by or snapshot.digest != event.digest:
            raise IllegalTransition(f"{event} does not fit the snapshot {snapshot}")
        snapshot.confirmed_by = event.confirmed_by

    def newest_confirmed(self) -> str | None:
        """Return the id of the newest snapshot that another master confirmed."""
        return next((s for s, record in reversed(self.snapshots.items()) if record.confirmed_by), None)

    def validate(self) -> None:
        """Check the order and the bounds."""
        offsets = [s.log_offset for s in self.snapshots.values()]
        require(offsets == sorted(offsets), "snapshots are not in the order of their offsets")
        require(len(self.snapshots) <= MAX_SNAPSHOTS, f"{len(self.snapshots)} snapshots are remembered")

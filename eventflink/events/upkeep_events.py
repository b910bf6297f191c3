"""Events of upkeep: feature level, snapshots, drills, the shutdown of a cluster and its next start.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.statuses import ApplicationStatus, DrillStepType


@dataclass(slots=True)
class FeatureLevelRaised(LogEvent):
    """Every master that was heard of knows these events: from here on they may be written (P19)."""

    from_level: int
    to_level: int


@dataclass(slots=True)
class SnapshotTaken(LogEvent):
    """The state at an earlier offset of the log is in `snapshots` (P18)."""

    snapshot_id: str
    log_offset: int
    digest: str
    chunk_count: int
    byte_count: int
    taken_by: str


@dataclass(slots=True)
class SnapshotConfirmed(LogEvent):
    """Another master folded the log up to the snapshot's offset by itself and got the same digest (P18)."""

    snapshot_id: str
    log_offset: int
    digest: str
    confirmed_by: str


@dataclass(slots=True)
class DrillStepOrdered(LogEvent):
    """A drill asks a master to crash, freeze or step down, so that people can see what happens then."""

    drill_id: str
    step: DrillStepType
    master_id: str
    duration_ms: int


@dataclass(slots=True)
class ClusterShutdownRequested(LogEvent):
    """The cluster is to end: it takes no new jobs, and those that it has are suspended or cancelled."""

    application_status: ApplicationStatus
    diagnostics: str
    cancel_jobs: bool
    actor: str


@dataclass(slots=True)
class ApplicationStatusRecorded(LogEvent):
    """No job runs any more: this is how it came out. The TaskManagers are stopped."""

    application_status: ApplicationStatus
    diagnostics: str


@dataclass(slots=True)
class ClusterStopped(LogEvent):
    """No TaskManager is there any more: every master that reads this ends, with the exit code of the status."""

    application_status: ApplicationStatus


@dataclass(slots=True)
class ClusterStarted(LogEvent):
    """A master was started on the log of a cluster that had ended: it starts again, and the jobs suspended for its end are resumed."""

    after_status: ApplicationStatus
    jobs: int


@dataclass(slots=True)
class InputParked(LogEvent):
    """An internal input could not be decided: it waits for an operator, and everything else goes on (P10)."""

    input_type: str
    subject: str
    job_id: str | None
    reason: str


@dataclass(slots=True)
class ParkedInputReleased(LogEvent):
    """A parked input waits for an operator no more."""

    parked_id: str
    retried: bool
    actor: str

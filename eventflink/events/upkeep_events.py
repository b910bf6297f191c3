"""Events of upkeep: feature level, snapshots, drills, the shutdown of a cluster and its next start.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.statuses import ApplicationStatus, DrillStepType


@dataclass(slots=True)
class FeatureLevelRaised(LogEvent):
    """Every master that was heard of knows these events: from here on they may be written (P19)."""

    from_level: int
    """Before."""
    to_level: int
    """From here on."""


@dataclass(slots=True)
class SnapshotTaken(LogEvent):
    """The state at an earlier offset of the log is in `snapshots` (P18)."""

    snapshot_id: str
    """Names it in `snapshots`."""
    log_offset: int
    """It holds the state after this record."""
    digest: str
    """The state's canonical digest, in hexadecimal."""
    chunk_count: int
    """Of how many records it consists."""
    byte_count: int
    """Their data together."""
    taken_by: str
    """The master."""


@dataclass(slots=True)
class SnapshotConfirmed(LogEvent):
    """Another master folded the log up to the snapshot's offset by itself and got the same digest.

    The log may be trimmed behind it (P18).
    """

    snapshot_id: str
    """The snapshot."""
    log_offset: int
    """Its offset."""
    digest: str
    """The digest, in hexadecimal."""
    confirmed_by: str
    """The other master."""


@dataclass(slots=True)
class DrillStepOrdered(LogEvent):
    """A drill asks a master to crash, freeze or step down, so that people can see what happens then."""

    drill_id: str
    """Names the drill."""
    step: DrillStepType
    """What it does."""
    master_id: str
    """Which master."""
    duration_ms: int
    """For how long it freezes."""


@dataclass(slots=True)
class ClusterShutdownRequested(LogEvent):
    """The cluster is to end: it takes no new jobs, and those that it has are suspended or cancelled."""

    application_status: ApplicationStatus
    """How what the cluster was started for came out; the masters' exit code follows from it."""
    diagnostics: str
    """An explanation for people."""
    cancel_jobs: bool
    """Whether jobs are cancelled; else they are suspended, and resumed when the cluster starts again."""
    actor: str
    """Who asked."""


@dataclass(slots=True)
class ApplicationStatusRecorded(LogEvent):
    """No job runs any more: this is how it came out. The TaskManagers are stopped."""

    application_status: ApplicationStatus
    """How what the cluster was started for came out; the masters' exit code follows from it."""
    diagnostics: str
    """An explanation for people."""


@dataclass(slots=True)
class ClusterStopped(LogEvent):
    """No TaskManager is there any more: every master that reads this ends, with the exit code of the status."""

    application_status: ApplicationStatus
    """How what the cluster was started for came out; the masters' exit code follows from it."""


@dataclass(slots=True)
class ClusterStarted(LogEvent):
    """A master was started on the log of a cluster that had ended.

    It starts again, and the jobs that were suspended for its end are resumed.
    """

    after_status: ApplicationStatus
    """As what it had ended."""
    jobs: int
    """How many jobs are resumed."""


@dataclass(slots=True)
class InputParked(LogEvent):
    """An internal input could not be decided: it waits for an operator, and everything else goes on (P10)."""

    input_type: str
    """The name of the internal input, or of the kind of follow-up."""
    subject: str
    """What it is about: a job, an allocation, a worker, an instance; empty: the cluster."""
    job_id: str | None
    """The job that fails for it; null: it is no job's."""
    reason: str
    """What went wrong."""


@dataclass(slots=True)
class ParkedInputReleased(LogEvent):
    """A parked input waits for an operator no more."""

    parked_id: str
    """Which of the parked inputs."""
    retried: bool
    """Whether it is tried again; else it is dropped."""
    actor: str
    """Who asked."""

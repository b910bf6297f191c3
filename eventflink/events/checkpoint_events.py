"""Events of the CheckpointCoordinator: how the streams of a job began, and what became of each of its checkpoints.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.events.job_master_events import AttemptEvent
from eventflink.model.statuses import CheckpointFailureReason, SavepointMode
from eventflink.model.stream_progress import StreamProgress


@dataclass(slots=True)
class StreamStarted(AttemptEvent):
    """The query of a stream's attempt runs."""

    query_id: str
    run_id: str
    spark_session_id: str
    location: str
    restored_batch_id: int


@dataclass(slots=True)
class CheckpointEvent(LogEvent):
    """What happened to a checkpoint as a whole."""

    job_id: str
    checkpoint_id: int


@dataclass(slots=True)
class SavepointRequest:
    """That a checkpoint is a savepoint: where it is written, and what becomes of the job."""

    path: str
    mode: SavepointMode
    stops_streams: bool
    """Whether the queries are stopped before their state is copied, and wait for what the master decides then."""

    @property
    def finishes_job(self) -> bool:
        """Whether the streams finish when it is complete."""
        return self.mode in (SavepointMode.STOP, SavepointMode.DRAIN)


@dataclass(slots=True)
class CheckpointTriggered(CheckpointEvent):
    """A checkpoint of a job begins: each stream that has not finished is asked where it stands."""

    awaited: int
    actor: str = ""
    request_id: str = ""
    savepoint: SavepointRequest | None = None


@dataclass(slots=True)
class CheckpointAcknowledged(AttemptEvent):
    """A subtask has said where it stands."""

    checkpoint_id: int
    progress: StreamProgress


@dataclass(slots=True)
class CheckpointCompleted(CheckpointEvent):
    """Every subtask that was asked has said where it stands."""

    duration_ms: int
    state_rows: int
    state_bytes: int
    savepoint_path: str = ""


@dataclass(slots=True)
class CheckpointAborted(CheckpointEvent):
    """A checkpoint ends without being complete."""

    reason: CheckpointFailureReason
    message: str


@dataclass(slots=True)
class CheckpointSubsumed(CheckpointEvent):
    """A completed checkpoint is not retained any more: there are newer ones."""

"""Events of the CheckpointCoordinator: how the streams of a job began, and what became of each of its checkpoints.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
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
    """Spark's id of the query, the same for all attempts with this checkpoint directory."""
    run_id: str
    """Spark's id of this run of it."""
    spark_session_id: str
    """The session in which it runs."""
    location: str
    """The directory of the subtask's checkpoints."""
    restored_batch_id: int
    """The last batch that an earlier attempt committed, and after which this one goes on; -1: the stream begins."""


@dataclass(slots=True)
class CheckpointEvent(LogEvent):
    """What happened to a checkpoint as a whole."""

    job_id: str
    """The job."""
    checkpoint_id: int
    """Which checkpoint of the job, from 1."""


@dataclass(slots=True)
class SavepointRequest:
    """That a checkpoint is a savepoint: where it is written, and what becomes of the job."""

    path: str
    """Its directory: a path or a URL that fsspec knows."""
    mode: SavepointMode
    """What becomes of the job."""
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
    """How many subtasks are asked: all of streams that have not finished."""
    actor: str = ""
    """Who asked for it; empty: it was due."""
    request_id: str = ""
    """The command that asked for it; empty: it was due."""
    savepoint: SavepointRequest | None = None
    """That it is a savepoint; null: it is none."""


@dataclass(slots=True)
class CheckpointAcknowledged(AttemptEvent):
    """A subtask has said where it stands."""

    checkpoint_id: int
    """Which checkpoint of the job, from 1."""
    progress: StreamProgress
    """Where it stands."""


@dataclass(slots=True)
class CheckpointCompleted(CheckpointEvent):
    """Every subtask that was asked has said where it stands."""

    duration_ms: int
    """Since it was triggered."""
    state_rows: int
    """In the state stores of all subtasks."""
    state_bytes: int
    """Of memory of these."""
    savepoint_path: str = ""
    """The directory of the savepoint; empty: the checkpoint is no savepoint."""


@dataclass(slots=True)
class CheckpointAborted(CheckpointEvent):
    """A checkpoint ends without being complete."""

    reason: CheckpointFailureReason
    """Why."""
    message: str
    """The same in words."""


@dataclass(slots=True)
class CheckpointSubsumed(CheckpointEvent):
    """A completed checkpoint is not retained any more: there are newer ones."""

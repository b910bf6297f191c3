"""What the protocol of a TaskExecutor orders of its task processes, and what it hears of them.

Plain records, nothing else: `fork_server.py` carries the orders out and tells the events. Every order is idempotent, and an event about
an attempt whose process was never started, or is long gone, does not come.
"""

import uuid
from dataclasses import dataclass

from eventflink.events.effects import SavepointOrder, TaskDeployment
from eventflink.model.attempts import Accumulators, AttemptId, FailureCause, IOMetrics, LostInput, OutputLocation
from eventflink.model.stream_progress import StreamProgress


def spark_session_of(instance_id: str, attempt: AttemptId) -> str:
    """Return the id of the Spark session of an attempt that an instance runs: derived, so that whoever knows both can release it (P15)."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{instance_id}/{attempt}"))


@dataclass(slots=True)
class LaunchTask:
    """Run the deployment in a process of its own; a second order for the same attempt is ignored."""

    deployment: TaskDeployment
    spark_session_id: str
    blob_address: str

    @property
    def attempt(self) -> AttemptId:
        """Whose deployment it is."""
        deployment = self.deployment
        return AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt)


@dataclass(slots=True)
class EndTask:
    """Ask the attempt's process to end (SIGTERM), and kill it (SIGKILL) after `kill_after_ms`; nothing happens when it has ended."""

    attempt: AttemptId
    kill_after_ms: int


@dataclass(slots=True)
class ReleaseSpark:
    """Interrupt what the attempt's Spark session still runs on the server at `remote`, and close the session."""

    attempt: AttemptId
    spark_session_id: str
    remote: str


@dataclass(slots=True)
class TakeCheckpoint:
    """Ask the attempt's stream where it stands; an attempt that is no stream, or does not run, declines."""

    attempt: AttemptId
    checkpoint_id: int
    savepoint: SavepointOrder | None = None
    """That it is a savepoint, and what that asks of the stream; None: it is none."""


@dataclass(slots=True)
class ResumeQuery:
    """Have the attempt's stream start its query again, which it has stopped for this savepoint, or may have."""

    attempt: AttemptId
    checkpoint_id: int


@dataclass(slots=True)
class FinishQuery:
    """Have the attempt's stream finish, whose query was stopped for this savepoint."""

    attempt: AttemptId
    checkpoint_id: int


StreamOrder = TakeCheckpoint | ResumeQuery | FinishQuery
"""What a stream is asked for while it runs."""

ProcessOrder = LaunchTask | EndTask | ReleaseSpark | StreamOrder


@dataclass(slots=True)
class TaskLaunched:
    """The attempt has a process."""

    attempt: AttemptId
    process_id: int


@dataclass(slots=True)
class TaskInitialized:
    """The attempt's code is loaded: from here on it runs."""

    attempt: AttemptId


@dataclass(slots=True)
class SparkOpened:
    """The attempt is about to open its session on the Spark Connect server `remote`; what runs there outlives its process."""

    attempt: AttemptId
    spark_session_id: str
    remote: str


@dataclass(slots=True)
class QueryStarted:
    """The attempt's query runs: what it is on its Spark server, and from where it goes on."""

    attempt: AttemptId
    query_id: str
    """Spark's id of the query, the same for all attempts with this checkpoint directory."""
    run_id: str
    """Spark's id of this run of it."""
    location: str
    """The directory of the subtask's checkpoints."""
    restored_batch_id: int
    """The last batch that an earlier attempt committed; -1: the stream begins."""


@dataclass(slots=True)
class CheckpointTaken:
    """Where the attempt's stream stands, for a checkpoint."""

    attempt: AttemptId
    checkpoint_id: int
    progress: StreamProgress


@dataclass(slots=True)
class CheckpointDeclined:
    """The attempt takes no part in a checkpoint."""

    attempt: AttemptId
    checkpoint_id: int
    reason: str


@dataclass(slots=True)
class Finished:
    """The process ended in order, and left these outputs."""

    outputs: tuple[OutputLocation, ...]
    used_spark: bool = False
    """Whether it opened a session, or loaded Spark's client, which its fork server had not."""
    io: IOMetrics | None = None
    """What it read and wrote; None: it does not know."""
    accumulators: Accumulators | None = None
    """What its code has counted; None: nothing."""


@dataclass(slots=True)
class Failed:
    """The task failed, or its process ended without saying how."""

    cause: FailureCause
    lost_inputs: tuple[LostInput, ...] = ()


@dataclass(slots=True)
class Killed:
    """A signal ended the process before it had said how its task ended."""

    signal: int


Outcome = Finished | Failed | Killed


@dataclass(slots=True)
class TaskProcessEnded:
    """The attempt's process is gone: it was reaped before this is sent."""

    attempt: AttemptId
    outcome: Outcome


@dataclass(slots=True)
class SparkReleased:
    """Nothing of the attempt runs on a Spark server any more, as far as can be told (an unreachable server runs nothing)."""

    attempt: AttemptId


@dataclass(slots=True)
class ForkServerReady:
    """The fork server has loaded what tasks need; what it was ordered to launch has waited for that."""


@dataclass(slots=True)
class ForkServerDied:
    """The fork server ended, and every task process with it; no other event comes after this one."""

    reason: str


StreamEvent = QueryStarted | CheckpointTaken | CheckpointDeclined

TaskEvent = TaskInitialized | SparkOpened | StreamEvent
"""What a task says of itself while it runs."""

ProcessEvent = TaskLaunched | TaskEvent | TaskProcessEnded | SparkReleased | ForkServerReady | ForkServerDied

"""What the leader says to the world once a decision is accepted: the payloads of the outbound topics.

These classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass

from eventflink.events.log_events import RequestAccepted, RequestRejected
from eventflink.model.attempts import AttemptRecord, HasAttemptId, OutputLocation
from eventflink.model.job_graph import JobParameter, StreamDefinition
from eventflink.model.spark_pools import SparkPool
from eventflink.model.statuses import Role, SavepointMode, ShipStrategy, TaskFile, TaskManagerFile, TaskType


@dataclass(slots=True)
class RegistrationAccepted:
    """The instance is registered: the answer to its registration of that number."""

    blob_address: str
    registration_number: int = 0


@dataclass(slots=True)
class LeaderChanged:
    """There is a new leader: report everything to it. Said to all TaskManagers of a partition at once."""

    master_id: str
    blob_address: str
    deployment_partitions: int


@dataclass(slots=True)
class InstanceForgotten:
    """The master has declared this instance lost: end its tasks and register again."""

    reason: str


@dataclass(slots=True)
class TaskInput:
    """One input of a task and where its rows are."""

    input_name: str
    ship: ShipStrategy
    keys: tuple[str, ...]
    locations: tuple[OutputLocation, ...]


@dataclass(slots=True)
class StreamRestore:
    """The savepoint from which a subtask begins if it has no checkpoint of its own."""

    path: str
    allow_non_restored_state: bool
    vertices: tuple[str, ...]
    """The ids of all streams of the job."""


@dataclass(slots=True)
class TaskDeployment(AttemptRecord):
    """Run this attempt."""

    allocation_id: str
    slot_index: int
    job_name: str
    task_type: TaskType
    task: str
    parallelism: int
    max_parallelism: int
    parameters_json: str
    inputs: tuple[TaskInput, ...]
    outputs: tuple[str, ...]
    code_archives: tuple[str, ...]
    stream: StreamDefinition | None = None
    restore: StreamRestore | None = None
    is_stopped: bool = False
    spark: SparkPool | None = None
    job_parameters: tuple[JobParameter, ...] = ()


@dataclass(slots=True)
class TaskCancellation(AttemptRecord):
    """End this attempt."""

    reason: str


@dataclass(slots=True)
class SavepointStream:
    """A stream of which a savepoint has a part for each subtask."""

    vertex_id: str
    parallelism: int


@dataclass(slots=True)
class SavepointOrder:
    """What a subtask is told of the savepoint that it takes part in."""

    path: str
    mode: SavepointMode
    triggered_at_ms: int
    streams: tuple[SavepointStream, ...]
    """All that it has."""
    stops_stream: bool
    """Whether the query is stopped before its state is copied, and waits for what the master decides then."""
    timeout_ms: int
    """How long after its trigger the savepoint is given up."""


@dataclass(slots=True)
class CheckpointOrder(AttemptRecord):
    """Say where the attempt's stream stands."""

    checkpoint_id: int
    savepoint: SavepointOrder | None = None


@dataclass(slots=True)
class ResumeStream(AttemptRecord):
    """Go on with the query: the savepoint for which it was stopped has failed."""

    checkpoint_id: int


@dataclass(slots=True)
class FinishStream(AttemptRecord):
    """Finish: the savepoint for which the query was stopped is complete, and the job stops with it."""

    checkpoint_id: int


@dataclass(slots=True)
class FileUploadOrder(HasAttemptId):
    """Upload this file."""

    request_id: str
    job_id: str
    vertex_id: str
    subtask_index: int
    attempt: int
    file: TaskFile


@dataclass(slots=True)
class TaskManagerFileUploadOrder:
    """Upload this of yourself."""

    request_id: str
    file: TaskManagerFile
    name: str = ""


@dataclass(slots=True)
class StopTaskManager:
    """End all tasks, disconnect, and end the process."""

    reason: str


@dataclass(slots=True)
class LeaderHeartbeat:
    """The leader is alive; from its decide loop (L1)."""

    epoch: int
    leader_id: str
    master_id: str
    blob_address: str
    log_offset: int
    sequence: int = 0
    """Grows with each of this leader; one that does not is a copy, and says nothing (L2)."""


@dataclass(slots=True)
class Resignation:
    """The leader leaves in order."""

    epoch: int
    leader_id: str


@dataclass(slots=True)
class LeaderDeath:
    """The leader's process ended without resigning; from its guardian, so that no standby waits for the lease (L2a)."""

    epoch: int
    leader_id: str
    deciding: str = ""


@dataclass(slots=True)
class LeaderHang:
    """The leader is at one input for half a lease; from its guardian, before somebody else leads and comes to the same input (P10)."""

    epoch: int
    leader_id: str
    deciding: str


@dataclass(slots=True, kw_only=True)
class MasterPresence:
    """A master is there; a standby that reads its own later one knows that it would have heard a leader's heartbeat (L2)."""

    master_id: str
    incarnation: str
    sequence: int
    role: Role
    epoch: int
    log_offset: int
    feature_level: int
    query_address: str = ""


@dataclass(slots=True, kw_only=True)
class DeadLetter:
    """An input that was refused, as it came."""

    topic: str
    partition: int
    offset: int
    reason: str
    key: bytes | None = None
    value: bytes | None = None
    value_length: int
    refused_by: str


DeploymentPayload = (
    RegistrationAccepted
    | LeaderChanged
    | InstanceForgotten
    | TaskDeployment
    | TaskCancellation
    | FileUploadOrder
    | TaskManagerFileUploadOrder
    | StopTaskManager
    | CheckpointOrder
    | ResumeStream
    | FinishStream
)


@dataclass(slots=True, kw_only=True)
class DeploymentEnvelope:
    """A record of `deployments`: an effect of an accepted decision, for one instance of one TaskManager; with empty ids for all."""

    epoch: int
    task_manager_id: str
    instance_id: str
    payload: DeploymentPayload


@dataclass(slots=True, kw_only=True)
class ReplyEnvelope:
    """A record of `replies`: the answer to a request, with where its decision stands in the log."""

    epoch: int
    sequence: int
    leader_id: str
    log_offset: int
    payload: RequestAccepted | RequestRejected

"""What the leader says to the world once a decision is accepted: the payloads of the outbound topics.

The schemas of the same names are made of these classes.
"""

from dataclasses import dataclass
from typing import Final

from eventflink.events.log_events import RequestAccepted, RequestRejected
from eventflink.model.attempts import AttemptId, AttemptRecord, HasAttemptId, OutputLocation
from eventflink.model.closing import GraphOutcome
from eventflink.model.job_graph import JobGraph, JobParameter, JobVertex, StreamDefinition, StreamSink, StreamSource
from eventflink.model.mapped_vertices import rows_in
from eventflink.model.spark_pools import SparkPool
from eventflink.model.statuses import Role, SavepointMode, ShipStrategy, TaskFile, TaskManagerFile, TaskType


@dataclass(slots=True)
class RegistrationAccepted:
    """The instance is registered."""

    blob_address: str
    """host:port of the leader's blob server."""
    registration_number: int = 0
    """Of the registration that is answered: the answer is no older than that (P14), and its epoch counts (P4). 0: not said."""


@dataclass(slots=True)
class LeaderChanged:
    """There is a new leader: report everything to it. Said to all TaskManagers of a partition at once."""

    master_id: str
    """Who leads."""
    blob_address: str
    """host:port of its blob server."""


@dataclass(slots=True)
class InstanceForgotten:
    """The master has declared this instance lost: end its tasks and register as a new one."""

    reason: str
    """Why."""


@dataclass(slots=True)
class TaskInput:
    """One input of a task and where its rows are."""

    input_name: str
    """What the task calls it."""
    ship: ShipStrategy
    """How the rows are shared out."""
    keys: tuple[str, ...]
    """The columns of a HASH edge."""
    locations: tuple[OutputLocation, ...]
    """What the writer's subtasks left for it, in their order; of a FORWARD edge what its partner left, the subtask of the same index."""
    row_schema: str = ""
    """As in the JobEdge."""
    locations_id: str = ""
    """The id of an `InputLocations` list that stands for `locations`; empty: the locations stand here."""


INLINE_LOCATIONS: Final = 16
"""The longest list of locations that a `TaskDeployment` has; a longer one is sent before it, as `InputLocations`, once to each instance."""
MAX_LOCATIONS_OF_PART: Final = 128
"""The most locations of one `InputLocations` record; long ones are fewer."""


@dataclass(slots=True)
class InputLocations:
    """A part of the list of locations that tasks read, told before the first of them; nothing begins by it."""

    locations_id: str
    """The id of the list, by which tasks name it: the SHA-256 of all its locations."""
    part: int
    """Which part, from 0."""
    parts: int
    """How many there are."""
    locations: tuple[OutputLocation, ...]
    """The locations of this part."""


@dataclass(slots=True)
class StreamRestore:
    """The savepoint from which a subtask begins if it has no checkpoint of its own."""

    path: str
    """Its directory."""
    allow_non_restored_state: bool
    """Whether it may have streams that the job does not have."""
    vertices: tuple[str, ...]
    """The ids of all streams of the job."""


@dataclass(slots=True)
class EarlierAttempt:
    """An earlier attempt whose Spark session may not be released: its instance was lost, or has given up waiting for Spark."""

    subtask_index: int
    """Of which subtask: this one, or one that a rescale has left out, whose rows others compute since."""
    attempt: int
    """Its number."""
    instance_id: str
    """The instance of a TaskManager that ran it."""
    spark_address: str = ""
    """Where its Spark is, sc://host:port; empty: on the host of that TaskManager."""


@dataclass(slots=True)
class TaskDeployment(AttemptRecord):
    """Run this attempt."""

    allocation_id: str
    """The slot's allocation."""
    slot_index: int
    """Which slot."""
    job_name: str
    """For people."""
    task_type: TaskType
    """What `task` is."""
    task: str
    """As in the JobVertex."""
    parallelism: int
    """Subtasks of the vertex."""
    max_parallelism: int
    """Key groups of the vertex."""
    parameters_json: str
    """As in the JobVertex."""
    inputs: tuple[TaskInput, ...]
    """All its inputs."""
    outputs: tuple[str, ...]
    """Names of the outputs that edges read; the rest is published as results."""
    code_archives: tuple[str, ...]
    """Blob keys of the user's code."""
    stream: StreamDefinition | None = None
    """As in the JobVertex."""
    restore: StreamRestore | None = None
    """The savepoint in which its stream begins; null: none."""
    is_stopped: bool = False
    """Whether the job was stopped with a savepoint: the stream finishes at once."""
    spark: SparkPool | None = None
    """Which Spark of the host runs it, where one does; null: the one that the TaskExecutor's configuration says."""
    job_parameters: tuple[JobParameter, ...] = ()
    """The parameters of the job with their values, without what else it says of them."""
    earlier_attempts: tuple[EarlierAttempt, ...] = ()
    """The attempt before it, and those before that whose instances were lost; their Spark sessions are released before this one opens
    its own."""
    sink: StreamSink | None = None
    """As in the JobVertex."""
    engine: str = ""
    """The name of the Spark that runs it; empty: the one that the TaskExecutor's configuration says."""
    outcome: GraphOutcome | None = None
    """How the other vertices came out, for a closing vertex; null: this one runs in its turn."""
    sources: tuple[StreamSource, ...] = ()
    """As in the JobVertex."""

    @property
    def mapping_input(self) -> TaskInput | None:
        """The input that gives each subtask of the vertex one row; None: the vertex is not mapped."""
        return next((each for each in self.inputs if each.ship is ShipStrategy.EACH), None)

    @property
    def has_no_row(self) -> bool:
        """Whether the vertex is mapped and its input has no rows: its only subtask finishes without running anything."""
        return self.mapping_input is not None and not rows_in(self.mapping_input.locations)


def describe_task(
    attempt: AttemptId, graph: JobGraph, vertex: JobVertex, parallelism: int, inputs: tuple[TaskInput, ...], outputs: tuple[str, ...]
) -> TaskDeployment:
    """Return a deployment with the fields that follow from the job graph; slot, stream and Spark are left for the caller to fill in."""
    return TaskDeployment(
        *attempt,
        allocation_id="",
        slot_index=0,
        job_name=graph.name,
        task_type=vertex.task_type,
        task=vertex.task,
        parallelism=parallelism,
        max_parallelism=vertex.max_parallelism,
        parameters_json=vertex.parameters_json,
        inputs=inputs,
        outputs=outputs,
        code_archives=graph.code_archives,
        sink=vertex.sink,
        sources=vertex.sources,
        job_parameters=tuple(
            [JobParameter(name=each.name, parameter_type=each.parameter_type, value=each.value) for each in graph.parameters]
        ),
    )


@dataclass(slots=True)
class TaskCancellation(AttemptRecord):
    """End this attempt."""

    reason: str
    """Why."""


@dataclass(slots=True)
class SavepointStream:
    """A stream of which a savepoint has a part for each subtask."""

    vertex_id: str
    """The vertex in the job's graph."""
    parallelism: int
    """How many subtasks it has."""


@dataclass(slots=True)
class SavepointOrder:
    """What a subtask is told of the savepoint that it takes part in."""

    path: str
    """Its directory."""
    mode: SavepointMode
    """What becomes of the job: unless it goes on, the query is stopped first, and the task waits for what follows."""
    triggered_at_ms: int
    """When it was triggered."""
    streams: tuple[SavepointStream, ...]
    """All that it has."""
    stops_stream: bool
    """Whether the query is stopped before its state is copied, and waits for what the master decides then."""
    timeout_ms: int
    """How long after its trigger the savepoint is given up, in milliseconds."""


@dataclass(slots=True)
class CheckpointOrder(AttemptRecord):
    """Say where the attempt's stream stands."""

    checkpoint_id: int
    """Which checkpoint of the job, from 1."""
    savepoint: SavepointOrder | None = None
    """That it is a savepoint; null: it is none."""


@dataclass(slots=True)
class ResumeStream(AttemptRecord):
    """Go on with the query: the savepoint for which it was stopped has failed."""

    checkpoint_id: int
    """Which checkpoint of the job, from 1."""


@dataclass(slots=True)
class FinishStream(AttemptRecord):
    """Finish: the savepoint for which the query was stopped is complete, and the job stops with it."""

    checkpoint_id: int
    """Which checkpoint of the job, from 1."""


@dataclass(slots=True)
class FileUploadOrder(HasAttemptId):
    """Upload this file."""

    request_id: str
    """Names the upload."""
    job_id: str
    """The job."""
    vertex_id: str
    """The vertex in the job's graph."""
    subtask_index: int
    """Which parallel subtask of the vertex, from 0."""
    attempt: int
    """Which attempt of the subtask, from 1."""
    file: TaskFile
    """Which file."""


@dataclass(slots=True)
class TaskManagerFileUploadOrder:
    """Upload this of yourself to the blob store, and report FileUploadCompleted."""

    request_id: str
    """Names the upload."""
    file: TaskManagerFile
    """What is wanted: its own log, what it prints, a log by its name, the list of these, or the stacks of its threads."""
    name: str = ""
    """Which log, for NAMED: a name of the list, never a path."""


@dataclass(slots=True)
class StopTaskManager:
    """End all tasks, disconnect, and end the process: the cluster is shut down."""

    reason: str
    """Why."""


@dataclass(slots=True)
class LeaderHeartbeat:
    """The leader is alive; from its decide loop (L1)."""

    epoch: int
    """Its epoch."""
    leader_id: str
    """Its candidacy."""
    master_id: str
    """The master."""
    blob_address: str
    """host:port of its blob server."""
    log_offset: int
    """The last offset of the log that it accepted."""
    sequence: int = 0
    """Grows with each of this leader; one that does not is a copy, and says nothing (L2)."""


@dataclass(slots=True)
class Resignation:
    """The leader leaves in order."""

    epoch: int
    """Its epoch."""
    leader_id: str
    """Its candidacy."""


@dataclass(slots=True)
class LeaderDeath:
    """The leader's process ended without resigning; from its guardian, so that no standby waits for the lease (L2a)."""

    epoch: int
    """Its epoch."""
    leader_id: str
    """Its candidacy."""
    deciding: str = ""
    """The input that it was deciding when it died; empty: none. A topic and an offset (`submissions@17`), or the name of an internal input.
    """


@dataclass(slots=True)
class LeaderHang:
    """The leader is at one input for half a lease; from its guardian, before somebody else leads and comes to the same input (P10)."""

    epoch: int
    """Its epoch."""
    leader_id: str
    """Its candidacy."""
    deciding: str
    """The input, as of `LeaderDeath`."""


@dataclass(slots=True, kw_only=True)
class MasterPresence:
    """A master is there; from its own loop.

    A standby that reads its own later one knows that it would have heard a leader's heartbeat (L2).
    """

    master_id: str
    """The master."""
    incarnation: str
    """Fresh for each start of its process."""
    sequence: int
    """Counts its presences."""
    role: Role
    """What it is to the log."""
    epoch: int
    """The newest epoch that it knows."""
    log_offset: int
    """The last offset of the log that it folded."""
    feature_level: int
    """The newest events that it can read (P19)."""
    query_address: str = ""
    """host:port where it answers reads; empty: nowhere."""


@dataclass(slots=True, kw_only=True)
class DeadLetter:
    """An input that was refused, as it came."""

    topic: str
    """Where it came from, without the cluster's prefix."""
    partition: int
    """The partition."""
    offset: int
    """The offset."""
    reason: str
    """What is wrong with it."""
    key: bytes | None = None
    """The record's key."""
    value: bytes | None = None
    """The record's value; cut where it is too long for this topic."""
    value_length: int
    """How long the value was."""
    refused_by: str
    """The master or TaskExecutor that refused it."""


DeploymentPayload = (
    RegistrationAccepted
    | LeaderChanged
    | InstanceForgotten
    | InputLocations
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
    """A record of the topic `deployments`: an effect of an accepted decision, for one instance."""

    epoch: int
    """The epoch of the leader that released it; an older one than the newest seen is ignored (P4)."""
    task_manager_id: str
    """The TaskManager it is for."""
    instance_id: str
    """The instance it is for; every other one ignores it (P12)."""
    payload: DeploymentPayload
    """What is to be done."""


@dataclass(slots=True, kw_only=True)
class ReplyEnvelope:
    """A record of the topic `replies`: the answer to a request, after its decision was accepted."""

    epoch: int
    """The epoch of the decision."""
    sequence: int
    """Its sequence."""
    leader_id: str
    """Its leader."""
    log_offset: int
    """Where it stands in the log."""
    payload: RequestAccepted | RequestRejected
    """The answer."""

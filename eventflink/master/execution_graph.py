"""The ExecutionGraph of one job: its vertices, their subtasks, and where the current attempt of each stands.

It keeps the counts that scheduling needs (which subtasks have all their inputs, how many attempts are alive) and what became of the
newest attempts, changes only along the table of ExecutionState, and knows nothing of slots or of strategies.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, TypeVar

from eventflink.master.canonical import DERIVED, require
from eventflink.model.attempts import Accumulators, AttemptId, FailureCause, HasAttemptId, IOMetrics, OutputLocation
from eventflink.model.closing import runs_after
from eventflink.model.conditions import VertexSkip, conditional_vertices_of, find_skip
from eventflink.model.durations import duration_text
from eventflink.model.job_graph import JobEdge, JobGraph, JobVertex
from eventflink.model.mapped_vertices import mapping_edges_of, rows_in
from eventflink.model.pipelined_edges import PipelinedEdge, pipelined_edges_of
from eventflink.model.resources import ResourceProfile
from eventflink.model.slot_sharing import GroupMember, InvalidSlotSharing, profiles_of_groups
from eventflink.model.statuses import (
    EXECUTION_TRANSITIONS,
    TERMINAL_EXECUTION_STATES,
    ExecutionState,
    IllegalTransition,
    JobStatus,
    ShipStrategy,
    check_transition,
)

T = TypeVar("T")
SubtaskKey = tuple[str, int]
"""(vertex id, subtask index) within a job."""

MAX_REMEMBERED_ATTEMPTS: Final = 16
"""Of a subtask, the newest; as many as Flink's `jobmanager.execution.attempts-history-size` is."""

_WITHOUT_RESULT = (ExecutionState.CREATED, ExecutionState.CANCELED, ExecutionState.FAILED)


@dataclass(slots=True)
class Execution:
    """One attempt since it left CREATED: where it runs or ran, and when it came how far; times are the log's, 0: never."""

    attempt: int
    task_manager_id: str = ""
    """Empty, as `instance_id`, until it is deployed."""
    instance_id: str = ""
    scheduled_at_ms: int = 0
    deployed_at_ms: int = 0
    running_at_ms: int = 0
    ended_at_ms: int = 0
    end_state: ExecutionState | None = None
    """None: it lives."""
    io: IOMetrics | None = None
    """What it read and wrote; None: it has not finished, or did not say."""
    accumulators: Accumulators | None = None
    """What its code has counted; None: it has not finished, or counted nothing."""
    reused_from: str = ""
    """The job whose attempt it stands for: it never ran here, and its outputs lie there; empty: it is one of this job."""
    exceeded_at_ms: int = 0
    """When it was told to end because it had run for the time limit of its vertex; 0: it was not."""
    spark_address: str = ""
    """Where the Spark is that it was deployed for; empty: on the host of its TaskManager."""


_TIME_FIELDS: Final[Mapping[ExecutionState, str]] = {
    ExecutionState.SCHEDULED: "scheduled_at_ms",
    ExecutionState.DEPLOYING: "deployed_at_ms",
    ExecutionState.RUNNING: "running_at_ms",
    **dict.fromkeys(TERMINAL_EXECUTION_STATES, "ended_at_ms"),
}
"""The field of an `Execution` that says when it entered a state."""


@dataclass(slots=True)
class Subtask:
    """One parallel subtask and its current attempt."""

    vertex_id: str
    subtask_index: int
    attempt: int = 1
    state: ExecutionState = ExecutionState.CREATED
    allocation_id: str = ""
    outputs: tuple[OutputLocation, ...] = ()
    last_failure: FailureCause | None = None
    refusals: int = 0
    executions: tuple[Execution, ...] = ()
    """The newest of its attempts that have left CREATED, the newest last; most subtasks have one."""
    revoked: bool = False
    """The attempt finished, but its result does not count any more: another attempt is to follow."""

    @property
    def key(self) -> SubtaskKey:
        """What it is called within its job."""
        return self.vertex_id, self.subtask_index

    @property
    def execution(self) -> Execution | None:
        """The current attempt; None while it is CREATED."""
        return self.executions[-1] if self.state is not ExecutionState.CREATED else None

    @property
    def has_result(self) -> bool:
        """Whether it finished, and its result counts."""
        return self.state is ExecutionState.FINISHED and not self.revoked

    @property
    def exceeds_time_limit(self) -> bool:
        """Whether the current attempt was told to end because it had run for the time limit of its vertex."""
        return self.state is ExecutionState.CANCELING and self.executions[-1].exceeded_at_ms > 0


@dataclass(slots=True)
class ExecutionVertex:
    """One vertex: its subtasks, and how many of its inputs are not complete yet."""

    vertex: JobVertex
    subtasks: tuple[Subtask, ...]
    """As many as the vertex has parallelism now; what the graph says is `vertex.parallelism`."""
    unfinished_inputs: int
    """For a closing vertex all others are one, until they have come to an end after which it runs; a condition is one as well."""
    unfinished_subtasks: int
    begun_subtasks: int = field(default=0, metadata=DERIVED)
    """How many have left CREATED: it is asked of each vertex that forward edges bind together, for each of them."""
    requested_parallelism: int = 0
    """What was asked for last, by a command; 0: nothing."""
    scheduled_at_ms: int = 0
    """When the adaptive scheduler scheduled a subtask of it last."""
    retired_executions: dict[int, tuple[Execution, ...]] = field(default_factory=dict)
    """Attempts of subtasks that it had when its parallelism was higher, by their index."""
    skip: VertexSkip | None = None
    """Why it was skipped: none of its subtasks begins, and they are in no count of attempts; None: it was not."""

    @property
    def parallelism(self) -> int:
        """How many subtasks it has now."""
        return len(self.subtasks)

    @property
    def has_outputs(self) -> bool:
        """Whether one of its subtasks has a result."""
        return any(s.has_result for s in self.subtasks)

    def has_finished(self, indices: Collection[int] = ()) -> bool:
        """Tell whether these subtasks have a result; none: all of them."""
        if not indices:
            return not self.unfinished_subtasks
        return all(0 <= index < self.parallelism and self.subtasks[index].has_result for index in indices)

    @property
    def has_begun(self) -> bool:
        """Whether an attempt of a subtask was scheduled."""
        return self.begun_subtasks > 0

    @property
    def is_reused(self) -> bool:
        """Whether it did not run: the outputs of all of its subtasks are those of another job."""
        return all(each.execution is not None and each.execution.reused_from and not each.revoked for each in self.subtasks)

    @property
    def is_complete(self) -> bool:
        """Whether what waits for it need not wait any more: it has finished, or was skipped."""
        return not self.unfinished_subtasks or self.skip is not None

    @property
    def state_counts(self) -> Counter[ExecutionState]:
        """How many of its subtasks stand where, as it is shown."""
        return Counter([s.state for s in self.subtasks] if self.skip is None else {ExecutionState.CANCELED: len(self.subtasks)})

    def state_of(self, subtask: Subtask) -> ExecutionState:
        """Return where a subtask of it stands for those who are shown it: one that was skipped is like one that was cancelled before."""
        return ExecutionState.CANCELED if self.skip is not None else subtask.state

    @property
    def next_attempt(self) -> int:
        """The number of an attempt that no subtask had before, and none that it had once."""
        return max(s.attempt + (s.state is not ExecutionState.CREATED) for s in self.subtasks)


def edges_by_source(graph: JobGraph) -> dict[str, list[JobEdge]]:
    """Return the blocking edges that leave each vertex; a vertex without any is left out."""
    return _edges_by(attrgetter("source"), graph)


def edges_by_target(graph: JobGraph) -> dict[str, list[JobEdge]]:
    """Return the blocking edges that lead to each vertex; a vertex without any is left out."""
    return _edges_by(attrgetter("target"), graph)


def _edges_by(end: Callable[[JobEdge], str], graph: JobGraph) -> dict[str, list[JobEdge]]:
    edges: dict[str, list[JobEdge]] = {}
    for edge in graph.edges:
        if edge.pipeline is not None:  # Its ends run at the same time, and neither waits for the other.
            continue
        edges.setdefault(end(edge), []).append(edge)
    return edges


def forward_groups_of(graph: JobGraph) -> dict[str, list[str]]:
    """Return, for each vertex at a blocking forward edge, all vertices that forward edges bind together with it, itself among them."""
    groups: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.ship is not ShipStrategy.FORWARD or edge.pipeline is not None:
            continue
        one, other = (groups.setdefault(name, [name]) for name in (edge.source, edge.target))
        if one is not other:
            larger, smaller = (one, other) if len(one) >= len(other) else (other, one)
            larger += smaller
            groups |= dict.fromkeys(smaller, larger)
    return groups


def begun_subtasks_of(subtasks: Iterable[Subtask]) -> int:
    """Return how many subtasks have left CREATED."""
    return sum(s.state is not ExecutionState.CREATED for s in subtasks)


def limited_of(vertices: Mapping[str, ExecutionVertex]) -> dict[str, dict[int, int]]:
    """Return the vertices that have a time limit, each with its subtasks that run and since when, the first of them first."""
    found = {}
    for vertex_id, vertex in vertices.items():
        if vertex.vertex.time_limit_ms is not None:
            running = [(s.executions[-1].running_at_ms, s.subtask_index) for s in vertex.subtasks if s.state is ExecutionState.RUNNING]
            found[vertex_id] = {index: since_ms for since_ms, index in sorted(running)}
    return found


def group_profiles_of(graph: JobGraph) -> dict[str, ResourceProfile | None]:
    """Return what a slot of each slot sharing group of a graph has to have.

    Raises:
        IllegalTransition: a group cannot be; no graph that was checked before it came into the log has such a group.

    """
    try:
        return profiles_of_groups(GroupMember(v.vertex_id, v.slot_sharing_group, v.resources) for v in graph.vertices)
    except InvalidSlotSharing as error:
        raise IllegalTransition(f"the graph '{graph.name}' cannot run: {error}") from error


def shared(mine: T, theirs: T) -> T:
    """Return the other value where both are equal, so that one of them is kept in memory."""
    return theirs if mine == theirs else mine


@dataclass(slots=True)
class ExecutionGraph:
    """All vertices of a job, with the subtasks that can be scheduled now in the order in which they became ready."""

    graph: JobGraph
    vertices: dict[str, ExecutionVertex]
    ready: dict[SubtaskKey, None]
    live_attempts: int
    unfinished_vertices: int
    edges_from: dict[str, list[JobEdge]] = field(metadata=DERIVED)
    edges_to: dict[str, list[JobEdge]] = field(metadata=DERIVED)
    group_profiles: dict[str, ResourceProfile | None] = field(metadata=DERIVED)
    """What a slot of each slot sharing group has to have."""
    forward_groups: dict[str, list[str]] = field(metadata=DERIVED)
    pipelined_edges: dict[str, list[PipelinedEdge]] = field(metadata=DERIVED)
    mapping_edges: dict[str, JobEdge] = field(metadata=DERIVED)
    """By mapped vertex, the edge over which each row goes to a subtask of its own."""
    limited: dict[str, dict[int, int]] = field(metadata=DERIVED)
    """By vertex that has a time limit, its subtasks that run and since when, the first of them first."""
    has_closing_vertices: bool = field(metadata=DERIVED)
    """Whether a vertex runs at the end of the job; asked at each change of its status."""
    conditional_vertices: dict[str, list[str]] = field(metadata=DERIVED)
    """By vertex that a condition names, the vertices that have such conditions."""
    last_end_at_ms: int = 0
    """When an attempt ended last that had been deployed; 0: none has."""
    outcome: JobStatus | None = None
    """How the vertices came out that run in their turn; None: the closing vertices have not begun, and are in no count of attempts."""

    @classmethod
    def of(cls, graph: JobGraph) -> "ExecutionGraph":
        """Build the graph with every subtask CREATED."""
        edges_to = edges_by_target(graph)
        vertices = {
            v.vertex_id: ExecutionVertex(
                v,
                tuple([Subtask(v.vertex_id, i) for i in range(v.parallelism)]),
                len(edges_to.get(v.vertex_id, ())) + v.is_closing + (v.condition is not None),
                v.parallelism,
            )
            for v in graph.vertices
        }
        live = sum(v.parallelism for v in graph.vertices if not v.is_closing)
        unfinished = sum(not v.is_closing for v in graph.vertices)
        edges = (edges_by_source(graph), edges_to)
        derived = (*edges, group_profiles_of(graph), forward_groups_of(graph), pipelined_edges_of(graph), mapping_edges_of(graph))
        closing, conditional = graph.has_closing_vertices, conditional_vertices_of(graph)
        made = cls(graph, vertices, {}, live, unfinished, *derived, limited_of(vertices), closing, conditional)
        for vertex in vertices.values():
            made._note_ready(vertex)
        return made

    def group_of(self, subtask: Subtask) -> str:
        """Return the slot sharing group that a subtask's slot is asked for in; empty: the slot is to be its own.

        So it is for an attempt whose predecessor was refused its slot: a place beside others that was refused once is not asked for again.
        """
        return "" if subtask.refusals else self.vertices[subtask.vertex_id].vertex.slot_sharing_group or ""

    def slot_profile_of(self, vertex_id: str) -> ResourceProfile | None:
        """Return what a slot has to have that is asked for in the name of a vertex; None: any slot will do."""
        vertex = self.vertices[vertex_id].vertex
        return vertex.resources if vertex.slot_sharing_group is None else self.group_profiles[vertex.slot_sharing_group]

    def subtask(self, vertex_id: str, subtask_index: int) -> Subtask | None:
        """Return a subtask, or None where the graph has none such."""
        vertex = self.vertices.get(vertex_id)
        if vertex is None or not 0 <= subtask_index < len(vertex.subtasks):
            return None
        return vertex.subtasks[subtask_index]

    def execution_of(self, attempt: AttemptId) -> Execution | None:
        """Return an attempt, also of a subtask that its vertex has no more; None: it is not remembered, or has not left CREATED."""
        vertex = self.vertices.get(attempt.vertex_id)
        if vertex is None:
            return None
        subtask = self.subtask(attempt.vertex_id, attempt.subtask_index)
        executions = subtask.executions if subtask is not None else vertex.retired_executions.get(attempt.subtask_index, ())
        return next((execution for execution in executions if execution.attempt == attempt.attempt), None)

    def current(self, attempt: AttemptId) -> Subtask | None:
        """Return the subtask whose current attempt this is, or None."""
        subtask = self.subtask(attempt.vertex_id, attempt.subtask_index)
        return subtask if subtask is not None and subtask.attempt == attempt.attempt else None

    def subtasks(self) -> Iterator[Subtask]:
        """Yield every subtask, in the order of the document."""
        for vertex in self.vertices.values():
            yield from vertex.subtasks

    def state_counts(self) -> Counter[ExecutionState]:
        """Return how many subtasks stand where, as it is shown."""
        if not self.conditional_vertices:
            return Counter([s.state for vertex in self.vertices.values() for s in vertex.subtasks])
        return sum((vertex.state_counts for vertex in self.vertices.values()), Counter[ExecutionState]())

    def counted_vertices(self) -> Iterator[ExecutionVertex]:
        """Yield the vertices whose turn it may be: those that were not skipped, and no closing ones while others have not ended."""
        return (v for v in self.vertices.values() if v.skip is None and (self.outcome is not None or not v.vertex.is_closing))

    def begin_closing(self, outcome: JobStatus) -> list[Subtask]:
        """Let the closing vertices run that run after this end; return the subtasks of the others, which are to be cancelled."""
        self.outcome = outcome
        left_out: list[Subtask] = []
        for vertex in self.vertices.values():
            if not vertex.vertex.is_closing:
                continue
            self.live_attempts += vertex.parallelism
            self.unfinished_vertices += 1
            if runs_after(vertex.vertex.runs, outcome):
                vertex.unfinished_inputs -= 1
                self._note_ready(vertex)
            else:
                left_out += vertex.subtasks
        return left_out

    def runs_now(self, vertex: JobVertex) -> bool:
        """Tell whether it is a closing vertex that runs after the end that the others have come to."""
        return vertex.is_closing and self.outcome is not None and runs_after(vertex.runs, self.outcome)

    def require_current(self, named: HasAttemptId) -> Subtask:
        """Return the subtask; its current attempt must be the one that an event names.

        Raises:
            IllegalTransition: it is not; nothing was changed.

        """
        subtask = self.subtask(named.vertex_id, named.subtask_index)
        if subtask is None or subtask.attempt != named.attempt:
            raise IllegalTransition(f"{named.attempt_id} is not the current attempt of a subtask")
        return subtask

    def transition(self, subtask: Subtask, to_state: ExecutionState, at_ms: int) -> None:
        """Move the current attempt along the table, and remember when.

        Raises:
            IllegalTransition: the table does not list it; nothing was changed.

        """
        if to_state not in EXECUTION_TRANSITIONS[subtask.state]:  # Most are listed: the name is only put together for one that is not.
            name = f"{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt}"
            check_transition(EXECUTION_TRANSITIONS, name, subtask.state, to_state)
        if subtask.state is ExecutionState.CREATED:
            self.ready.pop((subtask.vertex_id, subtask.subtask_index), None)
            self.vertices[subtask.vertex_id].begun_subtasks += 1
            subtask.executions = (*subtask.executions[1 - MAX_REMEMBERED_ATTEMPTS :], Execution(subtask.attempt))
        if self.limited and (running := self.limited.get(subtask.vertex_id)) is not None:
            running.pop(subtask.subtask_index, None)
            if to_state is ExecutionState.RUNNING:
                running[subtask.subtask_index] = at_ms
        subtask.state = to_state
        if (time_field := _TIME_FIELDS.get(to_state)) is not None:
            setattr(subtask.executions[-1], time_field, at_ms)
        if to_state in TERMINAL_EXECUTION_STATES:
            self.live_attempts -= 1
            subtask.executions[-1].end_state = to_state
            if subtask.executions[-1].deployed_at_ms:
                self.last_end_at_ms = at_ms

    def describe_time_limit(self, vertex_id: str) -> str:
        """Return that an attempt of a vertex with a time limit has run for that long."""
        return f"it has run for the time limit of '{vertex_id}', {duration_text(self.vertices[vertex_id].vertex.time_limit_ms or 0)}"

    def beyond_time_limit(self, now_ms: int) -> Iterator[Subtask]:
        """Yield the subtasks whose attempt has run for the time limit of its vertex."""
        for vertex_id, running in self.limited.items():
            vertex = self.vertices[vertex_id]
            for index, since_ms in running.items():
                if now_ms - since_ms < (vertex.vertex.time_limit_ms or 0):
                    break
                yield vertex.subtasks[index]

    def complete(self, subtask: Subtask, outputs: tuple[OutputLocation, ...]) -> None:
        """Take the outputs of a finished subtask; readers become ready when all their inputs are complete."""
        subtask.outputs = outputs
        vertex = self.vertices[subtask.vertex_id]
        vertex.unfinished_subtasks -= 1
        if vertex.unfinished_subtasks:
            return
        self.unfinished_vertices -= 1
        self._note_complete(subtask.vertex_id)

    def _note_complete(self, vertex_id: str) -> None:
        """Let what waits for a vertex wait for it no more."""
        for name in self._waiting_for(vertex_id):
            reader = self.vertices[name]
            reader.unfinished_inputs -= 1
            if not reader.unfinished_inputs:
                self._note_ready(reader)

    def _waiting_for(self, vertex_id: str) -> Iterator[str]:
        """Yield the vertices that wait for this one: once for each edge between them, and once for a condition."""
        for edge in self.edges_from.get(vertex_id, ()):
            yield edge.target
        if self.conditional_vertices:
            yield from self.conditional_vertices.get(vertex_id, ())

    def sources_of(self, vertex_id: str) -> list[str]:
        """Return the vertices that a vertex waits for: the writer of each of its edges, and the one that its condition names."""
        condition = self.vertices[vertex_id].vertex.condition
        return [e.source for e in self.edges_to.get(vertex_id, ())] + ([condition.source] if condition is not None else [])

    def outputs_of(self, vertex_id: str) -> tuple[str, ...]:
        """Return the outputs of a vertex that edges read, or conditions name."""
        named = (self.vertices[name].vertex.condition for name in self.conditional_vertices.get(vertex_id, ()))
        read = [edge.output for edge in self.edges_from.get(vertex_id, ())]
        return tuple(dict.fromkeys([*read, *(condition.output for condition in named if condition is not None)]))

    def find_skip(self, vertex_id: str) -> VertexSkip | None:
        """Return why a vertex is to be skipped, or was; None: it runs, or what it waits for is not complete."""
        if not self.conditional_vertices or self.vertices[vertex_id].unfinished_inputs:
            return None
        condition = self.vertices[vertex_id].vertex.condition
        read = (edge.source for edge in self.edges_to.get(vertex_id, ()) if not edge.reads_skipped)
        return find_skip(condition, read, lambda source: self.vertices[source].skip is not None, self._rows_of)

    def _rows_of(self, vertex_id: str, output: str) -> int:
        return rows_in(self.locations_of(vertex_id, output))

    def skip(self, vertex_id: str, skip: VertexSkip) -> None:
        """Leave a vertex out of which nothing has begun; what waits for it waits no more, and may have to be skipped in its turn."""
        vertex = self.vertices[vertex_id]
        vertex.skip = skip
        self.live_attempts -= vertex.parallelism
        self.unfinished_vertices -= 1
        self._note_ready(vertex)
        self._note_complete(vertex_id)

    def take_outputs(self, taken: ExecutionVertex, indices: Collection[int], job_id: str, at_ms: int) -> None:
        """Let these subtasks of the vertex of that id begin finished, with the outputs of those of another job; none: all of them.

        The vertex has as many subtasks as that one has.

        Raises:
            IllegalTransition: it has begun, or the other one has not finished; nothing was changed.

        """
        vertex_id = taken.vertex.vertex_id
        vertex = self.vertices.get(vertex_id)
        if vertex is None or vertex.has_begun or not taken.has_finished(indices):
            raise IllegalTransition(f"{vertex_id} of '{job_id}' has no outputs that could be taken, or takes none")
        if vertex.parallelism != taken.parallelism:
            self.resize(vertex_id, taken.parallelism)
        for index in indices or range(vertex.parallelism):
            subtask, finished = vertex.subtasks[index], taken.subtasks[index]
            source = finished.executions[-1]
            self.ready.pop(subtask.key, None)
            self.live_attempts -= 1
            vertex.begun_subtasks += 1
            subtask.state = ExecutionState.FINISHED
            subtask.executions = (
                Execution(
                    subtask.attempt,
                    ended_at_ms=at_ms,
                    end_state=ExecutionState.FINISHED,
                    io=source.io,
                    accumulators=source.accumulators,
                    reused_from=source.reused_from or job_id,
                ),
            )
            self.complete(subtask, finished.outputs)

    def revoke(self, subtask: Subtask) -> None:
        """Take the result of a finished subtask back; its readers are not ready any more until it has finished again.

        Raises:
            IllegalTransition: it has not finished, or its result was taken back before.

        """
        if not subtask.has_result:
            raise IllegalTransition(f"{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt} is {subtask.state}: it has no result")
        subtask.revoked = True
        subtask.outputs = ()
        vertex = self.vertices[subtask.vertex_id]
        vertex.unfinished_subtasks += 1
        if vertex.unfinished_subtasks > 1:
            return
        self.unfinished_vertices += 1
        self._note_incomplete(subtask.vertex_id)

    def _note_incomplete(self, vertex_id: str) -> None:
        """Let what waits for a vertex wait for it again. What was skipped is decided again then, and so is what was skipped with that.

        All of it has read nothing. What has read, of those or in their place, starts again, for it is downstream as well.
        """
        incomplete = [vertex_id]
        while incomplete:
            for name in self._waiting_for(incomplete.pop()):
                reader = self.vertices[name]
                reader.unfinished_inputs += 1
                if reader.skip is not None:
                    reader.skip = None
                    self.live_attempts += reader.parallelism
                    self.unfinished_vertices += 1
                    incomplete.append(name)
                elif reader.unfinished_inputs == 1:
                    self._note_ready(reader)

    def restart(self, subtask: Subtask, attempt: int) -> None:
        """Give a subtask that failed, was cancelled or whose result was taken back a new attempt.

        Raises:
            IllegalTransition: its current attempt lives or has a result, or the number is not the next one.

        """
        ended = subtask.state in (ExecutionState.FAILED, ExecutionState.CANCELED) or subtask.revoked
        if not ended or attempt != subtask.attempt + 1:
            raise IllegalTransition(
                f"{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt} is {subtask.state}: no attempt {attempt}"
            )
        subtask.attempt = attempt
        subtask.state = ExecutionState.CREATED
        subtask.allocation_id = ""
        subtask.revoked = False
        self.live_attempts += 1
        vertex = self.vertices[subtask.vertex_id]
        vertex.begun_subtasks -= 1
        if self._is_open(vertex):
            if self.find_skip(subtask.vertex_id) is None:
                self.ready[subtask.vertex_id, subtask.subtask_index] = None
            else:
                self._note_ready(vertex)

    def _is_open(self, vertex: ExecutionVertex) -> bool:
        """Tell whether subtasks of a vertex that have not begun can be decided on: scheduled, or all of them skipped.

        A vertex is skipped as a whole, so one that is to be waits for attempts of it that have not ended.
        """
        if vertex.unfinished_inputs or vertex.skip is not None:
            return False
        return not vertex.has_begun or self.find_skip(vertex.vertex.vertex_id) is None

    def _note_ready(self, vertex: ExecutionVertex) -> None:
        """Keep in step which subtasks of a vertex are ready, after a change of its inputs or of what subtasks it has."""
        is_open = self._is_open(vertex)
        for subtask in vertex.subtasks:
            if is_open and subtask.state is ExecutionState.CREATED:
                self.ready[subtask.key] = None
            else:
                self.ready.pop(subtask.key, None)

    def forward_group(self, vertex_id: str) -> list[str]:
        """Return a vertex and all that forward edges bind to it, directly or through others: they have the same parallelism."""
        return self.forward_groups.get(vertex_id) or [vertex_id]

    def ready_subtasks_of(self, vertex_id: str) -> int:
        """Return how many subtasks of a vertex are ready."""
        vertex = self.vertices[vertex_id]
        return vertex.parallelism - vertex.begun_subtasks if self._is_open(vertex) else 0

    def others_have_begun(self, vertex_id: str) -> bool:
        """Tell whether a vertex that forward edges bind to this one has begun: the parallelism of both stays."""
        return any(name != vertex_id and self.vertices[name].has_begun for name in self.forward_group(vertex_id))

    def request_parallelism(self, vertex_id: str, parallelism: int) -> None:
        """Remember which parallelism was asked for, of a vertex and all that forward edges bind to it."""
        for name in self.forward_group(vertex_id):
            self.vertices[name].requested_parallelism = parallelism

    def resize(self, vertex_id: str, parallelism: int) -> None:
        """Give a vertex, and all that forward edges bind to it, another parallelism; all of their subtasks start again.

        Raises:
            IllegalTransition: an attempt of the vertex lives or has a result, or another of them has begun; nothing was changed.

        """
        if any(s.state not in _WITHOUT_RESULT and not s.revoked for s in self.vertices[vertex_id].subtasks):
            raise IllegalTransition(f"{vertex_id} cannot have another parallelism: an attempt of it lives, or has a result")
        if self.others_have_begun(vertex_id):
            raise IllegalTransition(f"{vertex_id} cannot have another parallelism: what a forward edge binds to it has begun")
        for name in self._along_forward_edges(vertex_id):
            self._resize(self.vertices[name], parallelism)

    def _along_forward_edges(self, vertex_id: str) -> list[str]:
        """Return the vertices of a forward group as they are found from one of them: in this order their subtasks become ready."""
        found = {vertex_id: None}
        waiting = [vertex_id]
        while waiting:
            name = waiting.pop()
            for edge in (*self.edges_from.get(name, ()), *self.edges_to.get(name, ())):
                other = edge.target if edge.source == name else edge.source
                if edge.ship is ShipStrategy.FORWARD and other not in found:
                    found[other] = None
                    waiting.append(other)
        return list(found)

    def _resize(self, vertex: ExecutionVertex, parallelism: int) -> None:
        attempt, vertex_id = vertex.next_attempt, vertex.vertex.vertex_id
        for subtask in vertex.subtasks:
            self.ready.pop((vertex_id, subtask.subtask_index), None)
            self.live_attempts -= vertex.skip is None and subtask.state not in TERMINAL_EXECUTION_STATES
            if subtask.executions:
                vertex.retired_executions[subtask.subtask_index] = subtask.executions
        before = vertex.subtasks
        vertex.subtasks = tuple([Subtask(vertex_id, index, attempt) for index in range(parallelism)])
        vertex.unfinished_subtasks, vertex.begun_subtasks = parallelism, 0
        self.live_attempts += parallelism if vertex.skip is None else 0
        for index, subtask in enumerate(vertex.subtasks):
            subtask.executions = vertex.retired_executions.pop(index, ())
            if index < len(before):
                subtask.last_failure = before[index].last_failure
        self._note_ready(vertex)

    def is_of_the_graph_of(self, other: "ExecutionGraph") -> bool:
        """Tell whether both were made of the same graph."""
        return self.graph == other.graph and list(self.vertices) == list(other.vertices)

    def share(self, like: "ExecutionGraph") -> None:
        """Hold in common with another one of the same graph what is equal in both: nothing of either changes any more."""
        self.graph, self.ready = like.graph, shared(self.ready, like.ready)
        self.edges_from, self.edges_to, self.group_profiles = like.edges_from, like.edges_to, like.group_profiles
        self.forward_groups, self.pipelined_edges, self.limited = like.forward_groups, like.pipelined_edges, like.limited
        self.mapping_edges, self.conditional_vertices = like.mapping_edges, like.conditional_vertices
        self.vertices = dict(zip(like.vertices, self.vertices.values(), strict=True))
        for mine, theirs in zip(self.vertices.values(), like.vertices.values(), strict=True):
            mine.vertex = theirs.vertex
            mine.retired_executions = shared(mine.retired_executions, theirs.retired_executions)
            for subtask, other in zip(mine.subtasks, theirs.subtasks, strict=False):
                subtask.vertex_id = other.vertex_id

    def downstream_of(self, vertex_ids: Iterable[str]) -> set[str]:
        """Return the vertices that read what these write, or whose conditions name it, directly or through others."""
        found: set[str] = set()
        waiting = list(vertex_ids)
        while waiting:
            for name in self._waiting_for(waiting.pop()):
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def pipelined_writers(self) -> dict[str, set[str]]:
        """Return, for each vertex to which pipelined edges lead, the vertices that write them."""
        writers: dict[str, set[str]] = {}
        for edge in self.graph.edges:
            if edge.pipeline is not None:
                writers.setdefault(edge.target, set()).add(edge.source)
        return writers

    def input_locations(self, edge: JobEdge, reader: int) -> tuple[OutputLocation, ...]:
        """Return where the rows of an edge are that a subtask reads, in the order of the writer's subtasks."""
        if edge.ship is not ShipStrategy.FORWARD:
            return self.locations_of(edge.source, edge.output)
        return tuple([o for o in self.vertices[edge.source].subtasks[reader].outputs if o.output == edge.output])

    def locations_of(self, vertex_id: str, output: str) -> tuple[OutputLocation, ...]:
        """Return where the rows of an output are, in the order of the subtasks that have left it."""
        return tuple([o for s in self.vertices[vertex_id].subtasks for o in s.outputs if o.output == output])

    def mapped_rows(self, vertex_id: str) -> int | None:
        """Return how many rows the input of a mapped vertex has that goes row by row; None: it is not complete, or there is none such."""
        edge = self.mapping_edges.get(vertex_id)
        if edge is None or not self.vertices[edge.source].is_complete:
            return None
        return rows_in(self.locations_of(edge.source, edge.output))

    def is_unmapped(self, vertex_id: str) -> bool:
        """Tell whether a vertex is to have another number of subtasks before it begins: one for each row, one if there are none."""
        rows = self.mapped_rows(vertex_id) if self.mapping_edges else None
        return rows is not None and self.vertices[vertex_id].parallelism != max(1, rows)

    def validate(self, job_id: str) -> None:
        """Check every count against what it counts."""
        live = sum(s.state not in TERMINAL_EXECUTION_STATES for v in self.counted_vertices() for s in v.subtasks)
        require(live == self.live_attempts, f"{job_id}: {self.live_attempts} live attempts are counted, {live} are there")
        for edge in self.graph.edges:
            equal = (
                edge.ship is not ShipStrategy.FORWARD or self.vertices[edge.source].parallelism == self.vertices[edge.target].parallelism
            )
            require(equal, f"{job_id}: the forward edge {edge.source} -> {edge.target} joins vertices of different parallelism")
        for vertex_id, vertex in self.vertices.items():
            indexes = [s.subtask_index for s in vertex.subtasks]
            require(indexes == list(range(vertex.parallelism)), f"{job_id}/{vertex_id} has the subtasks {indexes}")
            bounds = 1 <= vertex.parallelism <= vertex.vertex.max_parallelism
            require(bounds, f"{job_id}/{vertex_id} has {vertex.parallelism} subtasks; at most {vertex.vertex.max_parallelism} may be")
            retired = all(index >= vertex.parallelism for index in vertex.retired_executions)
            require(retired, f"{job_id}/{vertex_id} remembers a subtask twice")
            unfinished = sum(not s.has_result for s in vertex.subtasks)
            require(unfinished == vertex.unfinished_subtasks, f"{job_id}/{vertex_id}: unfinished subtasks are miscounted")
            begun = begun_subtasks_of(vertex.subtasks)
            require(begun == vertex.begun_subtasks, f"{job_id}/{vertex_id}: subtasks that have begun are miscounted")
            inputs = sum(not self.vertices[s].is_complete for s in self.sources_of(vertex_id))
            inputs += vertex.vertex.is_closing and not self.runs_now(vertex.vertex)
            begins = not vertex.has_begun or not vertex.vertex.is_closing or self.outcome is not None
            require(begins, f"{job_id}/{vertex_id} has begun, and the others have not come to their end")
            require(inputs == vertex.unfinished_inputs, f"{job_id}/{vertex_id}: unfinished inputs are miscounted")
            if vertex.skip is not None:
                fits = not vertex.has_begun and vertex.skip == self.find_skip(vertex_id)
                require(fits, f"{job_id}/{vertex_id} was skipped, for {vertex.skip}, and has begun or is not to be skipped")
            is_open = self._is_open(vertex)
            for subtask in vertex.subtasks:
                revoked = subtask.revoked and (subtask.state is not ExecutionState.FINISHED or bool(subtask.outputs))
                require(not revoked, f"{job_id}/{vertex_id}[{subtask.subtask_index}] is {subtask.state}, and has no result to take back")
                _validate_executions(job_id, subtask)
                ready = (vertex_id, subtask.subtask_index) in self.ready
                wanted = subtask.state is ExecutionState.CREATED and is_open
                require(ready == wanted, f"{job_id}/{vertex_id}[{subtask.subtask_index}] is {subtask.state}; ready: {ready}")
        require(limited_of(self.vertices) == self.limited, f"{job_id}: what runs under a time limit is not {self.limited}")
        unfinished_vertices = sum(not v.is_complete for v in self.counted_vertices())
        require(unfinished_vertices == self.unfinished_vertices, f"{job_id}: unfinished vertices are miscounted")


def _validate_executions(job_id: str, subtask: Subtask) -> None:
    """Check the attempts that are remembered: how many, in which order, and how far each came, against where the subtask stands."""
    name = f"{job_id}/{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt}"
    attempts, ends = [e.attempt for e in subtask.executions], [e.end_state for e in subtask.executions]
    require(len(attempts) <= MAX_REMEMBERED_ATTEMPTS and attempts == sorted(set(attempts)), f"{name} remembers the attempts {attempts}")
    has_begun = subtask.state is not ExecutionState.CREATED
    begun = attempts[-1:] == [subtask.attempt] if has_begun else attempts[-1:] < [subtask.attempt]
    require(begun, f"{name} is {subtask.state}, and remembers the attempts {attempts}")
    if has_begun:
        end = subtask.state if subtask.state in TERMINAL_EXECUTION_STATES else None
        require(ends.pop() is end, f"{name} is {subtask.state}, and ended as {subtask.executions[-1].end_state}")
    require(None not in ends, f"{name} was preceded by an attempt that has not ended")
    for e in subtask.executions:
        times = [at_ms for at_ms in (e.scheduled_at_ms, e.deployed_at_ms, e.running_at_ms, e.ended_at_ms) if at_ms]
        require(times == sorted(times), f"{name}: attempt {e.attempt} came how far it did at {times}")

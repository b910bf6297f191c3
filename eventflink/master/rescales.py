"""The rescales of one job: which vertices wait for slots, which may still get another parallelism, which get one when they have ended.

When a vertex is rescaled is decided in `rescaling.py` and `adaptive_scheduler.py`; here are the data, and how events change them.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from eventflink.events.log_events import RescaleScheduled, ResourcesAwaited
from eventflink.master.canonical import require
from eventflink.master.execution_graph import ExecutionGraph, SubtaskKey
from eventflink.model.job_graph_document import MAX_PARALLELISM, MAX_SUBTASKS
from eventflink.model.statuses import ExecutionState, RescaleReason


@dataclass(slots=True)
class WaitingVertex:
    """A vertex that could start, but for the slots."""

    since_ms: int
    wanted: int
    """How many slots it wants."""


@dataclass(slots=True)
class PendingRescale:
    """A vertex that is rescaled when all its attempts have ended."""

    to_parallelism: int
    reason: RescaleReason


@dataclass(slots=True)
class Rescales:
    """Vertices whose parallelism changes, or may."""

    waiting: dict[str, WaitingVertex] = field(default_factory=dict)
    """Of an adaptive job: vertices that could start, but for the slots; the one that has waited for longest stands first."""
    unsettled: dict[str, None] = field(default_factory=dict)
    """Of an adaptive job: vertices whose parallelism was chosen, and of which nothing has finished since: it may be chosen again."""
    pending: dict[str, PendingRescale] = field(default_factory=dict)
    """Vertices that get another parallelism when their attempts have ended."""

    def binds(self, graph: ExecutionGraph, vertex_id: str) -> bool:
        """Tell whether a vertex is to be rescaled, or another that forward edges bind to it: none of them begins before that."""
        return bool(self.pending) and any(name in self.pending for name in graph.forward_group(vertex_id))

    def holds_back(self, graph: ExecutionGraph, vertex_id: str) -> bool:
        """Tell whether a vertex is not to be scheduled though it is ready: it waits for slots, or is to be rescaled first."""
        return vertex_id in self.waiting or self.binds(graph, vertex_id)

    def held_back(self, graph: ExecutionGraph) -> set[str]:
        """Return all vertices of which `holds_back` is true."""
        return {*self.waiting, *(name for rescaled in self.pending for name in graph.forward_group(rescaled))}

    def highest_parallelism(self, graph: ExecutionGraph, vertex_id: str) -> int:
        """Return how many subtasks a vertex can have: as its group allows by `max_parallelism`, and as many as one job may have in all.

        What others are to get by a rescale that is under way is theirs already.
        """
        group = graph.forward_group(vertex_id)
        if not self.pending:  # It is asked of each vertex of a page, and there may be a thousand.
            others = sum(len(vertex.subtasks) for vertex in graph.vertices.values()) - sum(
                graph.vertices[name].parallelism for name in group
            )
        else:
            parallelism = {name: vertex.parallelism for name, vertex in graph.vertices.items()}
            for rescaled, pending in self.pending.items():
                parallelism |= {name: max(parallelism[name], pending.to_parallelism) for name in graph.forward_group(rescaled)}
            others = sum(parallelism.values()) - sum(parallelism[name] for name in group)
        return min(MAX_PARALLELISM, (MAX_SUBTASKS - others) // len(group), *(graph.vertices[name].vertex.max_parallelism for name in group))

    def await_resources(self, event: ResourcesAwaited, at_ms: int) -> None:
        """Let a vertex wait for slots."""
        self.waiting[event.vertex_id] = WaitingVertex(at_ms, event.wanted)

    def note_scheduled(self, vertex_id: str) -> None:
        """Take note that a subtask of a vertex of an adaptive job was scheduled."""
        self.waiting.pop(vertex_id, None)
        self.unsettled[vertex_id] = None

    def note_finished(self, vertex_id: str) -> None:
        """Take note that a subtask has finished: its vertex keeps its parallelism."""
        self.unsettled.pop(vertex_id, None)

    def schedule(self, event: RescaleScheduled, group: Iterable[str]) -> None:
        """Have a vertex rescaled when it has ended; neither it nor what forward edges bind to it waits for slots any more."""
        self.pending[event.vertex_id] = PendingRescale(event.to_parallelism, event.reason)
        self._settle(group)

    def complete(self, vertex_id: str, group: Iterable[str], *, adaptive: bool) -> None:
        """Take note that a vertex has its new parallelism; that of an adaptive job may be chosen again if the vertex had begun before."""
        self._settle(group)
        if self.pending.pop(vertex_id, None) is not None and adaptive:
            self.unsettled[vertex_id] = None

    def _settle(self, group: Iterable[str]) -> None:
        for name in group:
            self.waiting.pop(name, None)
            self.unsettled.pop(name, None)

    def drop_waiting_without_inputs(self, graph: ExecutionGraph) -> None:
        """Let no vertex wait for slots whose inputs are made again."""
        for vertex_id in [v for v in self.waiting if graph.vertices[v].unfinished_inputs]:
            del self.waiting[vertex_id]

    def clear(self) -> None:
        """Rescale nothing: the job ends."""
        for held in (self.waiting, self.unsettled, self.pending):
            held.clear()

    def validate(self, job_id: str, graph: ExecutionGraph, restarts_due: Container[SubtaskKey]) -> None:
        """Check what waits, what is under way and what may still be rescaled against the graph."""
        vertices = graph.vertices
        for vertex_id in self.waiting:
            created = any(s.state is ExecutionState.CREATED for s in vertices[vertex_id].subtasks)
            require(created and not vertices[vertex_id].unfinished_inputs, f"{job_id}/{vertex_id} waits for slots, and nothing is ready")
            require(not self.binds(graph, vertex_id), f"{job_id}/{vertex_id} waits for slots while it is rescaled")
        for vertex_id in self.unsettled:
            require(vertices[vertex_id].unfinished_subtasks > 0, f"{job_id}/{vertex_id} has finished, and its parallelism is open")
        for vertex_id in self.pending:
            begun = [s.key for s in vertices[vertex_id].subtasks if s.state is not ExecutionState.CREATED]
            ends = bool(begun) and all(key in restarts_due for key in begun)
            require(ends, f"{job_id}/{vertex_id} is rescaled, and some subtask of it does not end")

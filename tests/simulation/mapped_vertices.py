"""Mapped vertices in runs: jobs whose vertices have a subtask for each row of the one before, and the judge of whose row is done.

The judge counts itself, from what the log says that the attempts have left: it uses nothing of what the masters compute.
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.statuses import JobStatus, ShipStrategy
from eventflink.testing.simulation.violations import Invariant, ViolationFound

if TYPE_CHECKING:
    from eventflink.model.job_graph import JobEdge

_SHARE: Final = 0.4
"""Of the runs."""
_EDGES: Final = 0.9
_MOST_SUBTASKS: Final = (2, 8, 8)
"""Of which one is sometimes too few."""


class MappedVertices:
    """Authors of jobs that list what there is to do, and do each of it. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} mapped vertices")
        self.are_there = self._rng.random() < _SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph with mapped vertices, or as it was: one of streams, or of forward edges, has none."""
        is_other = any("stream" in vertex for vertex in graph["vertices"]) or any("ship" in edge for edge in graph["edges"])
        if not self.are_there or is_other:
            return graph
        edges = [edge | {"ship": "each"} if self._rng.random() < _EDGES else edge for edge in graph["edges"]]
        mapped = {edge["to"] for edge in edges if "ship" in edge}
        vertices = [
            vertex | {"parallelism": 1, "max_parallelism": self._rng.choice(_MOST_SUBTASKS)} if vertex["id"] in mapped else vertex
            for vertex in graph["vertices"]
        ]
        return graph | {"vertices": vertices, "edges": edges}


class MappedLedger:
    """What the log says that was left for mapped vertices, and of which rows their subtasks have finished."""

    def __init__(self) -> None:
        self._edges: dict[tuple[str, str], JobEdge] = {}
        """By job and mapped vertex."""
        self._rows: dict[tuple[str, str], dict[int, dict[str, int]]] = {}
        """By job and vertex, what each subtask has left of each output; nothing of one that runs again."""
        self._skipped: set[tuple[str, str]] = set()
        """Those that were skipped last."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: a subtask begins that has no row, a job has finished without one, or has failed with too few.

        """
        for event in decision.events:
            match event:
                case e.JobSubmitted():
                    edges = event.job_graph.edges
                    self._edges |= {(event.job_id, each.target): each for each in edges if each.ship is ShipStrategy.EACH}
                case e.TaskFinished():
                    left = {output.output: output.rows for output in event.outputs}
                    self._rows.setdefault((event.job_id, event.vertex_id), {})[event.subtask_index] = left
                case e.RegionRestarted():
                    self._rows.get((event.job_id, event.vertex_id), {}).pop(event.subtask_index, None)
                case e.JobRescaled():
                    self._rows.pop((event.job_id, event.vertex_id), None)
                case e.VertexSkipped():
                    self._skipped.add((event.job_id, event.vertex_id))
                case e.TaskScheduled() if (event.job_id, event.vertex_id) in self._edges:
                    self._skipped.discard((event.job_id, event.vertex_id))
                    self._check(event.subtask_index < self._subtasks_of(event.job_id, event.vertex_id), offset, event)
                case e.JobStatusChanged(to_status=JobStatus.FINISHED):
                    self._check_finished(event, offset)

    def _check_finished(self, event: e.JobStatusChanged, offset: int) -> None:
        for job_id, vertex_id in self._edges:
            if job_id == event.job_id and (job_id, vertex_id) not in self._skipped:
                done = sorted(self._rows[job_id, vertex_id])
                self._check(done == list(range(self._subtasks_of(job_id, vertex_id))), offset, event)

    def _subtasks_of(self, job_id: str, vertex_id: str) -> int:
        edge = self._edges[job_id, vertex_id]
        written = self._rows[job_id, edge.source] if (job_id, edge.source) not in self._skipped else {}
        return max(1, sum(left.get(edge.output, 0) for left in written.values()))

    def _check(self, holds: bool, offset: int, event: object) -> None:  # noqa: FBT001 - what is checked is said where it is
        if not holds:
            raise ViolationFound(Invariant.ROWS_ONCE, f"log@{offset}: {event}: {self._rows}")

"""Conditions in runs: jobs of which vertices run or are skipped by the rows of others, and the judge of which of them did.

The judge goes by what the log says that attempts have left: it uses nothing of what the masters compute.
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.statuses import JobStatus
from eventflink.testing.simulation.violations import Invariant, ViolationFound

if TYPE_CHECKING:
    from eventflink.model.job_graph import JobGraph

_SHARE: Final = 0.35
"""Of the runs."""
_JOBS: Final = 0.7
_VERTICES: Final = 0.4
"""Of those that are drawn already; most jobs get another one that has a condition and no edges."""
_MORE: Final = 0.8
_READ: Final = 0.3
"""Of the edges from what may be skipped: their reader runs without it."""


class Conditions:
    """Authors of jobs with branches. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} conditions")
        self.are_there = self._rng.random() < _SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph with conditions, or as it was: one of streams has none."""
        rng = self._rng
        if not self.are_there or rng.random() >= _JOBS or any("stream" in vertex for vertex in graph["vertices"]):
            return graph
        in_turn = [vertex["id"] for vertex in graph["vertices"] if "runs" not in vertex]
        vertices = [
            vertex | {"when": self._condition(in_turn[: in_turn.index(vertex["id"])])}
            if vertex["id"] in in_turn[1:] and rng.random() < _VERTICES
            else vertex
            for vertex in graph["vertices"]
        ]
        if rng.random() < _MORE:
            vertices.append(
                {"id": "branch", "python": "jobs:branch", "parallelism": rng.choice((1, 1, 2)), "when": self._condition(in_turn)}
            )
        skippable = {vertex["id"] for vertex in vertices if "when" in vertex}
        edges = []
        for edge in graph["edges"]:  # A chain, each edge behind those to its source.
            if edge["from"] in skippable and rng.random() < _READ:
                edge = edge | {"if_skipped": "n BIGINT"}  # noqa: PLW2901 - it is the same edge
            elif edge["from"] in skippable:
                skippable.add(edge["to"])
            edges.append(edge)
        return graph | {"vertices": vertices, "edges": edges}

    def _condition(self, names: list[str]) -> dict[str, str]:
        return {self._rng.choice(("rows_of", "no_rows_of")): self._rng.choice(names)}


class ConditionLedger:
    """What the log says that was left in the jobs that have conditions, and which of their vertices ran or were skipped last."""

    def __init__(self) -> None:
        self._graphs: dict[str, JobGraph] = {}
        self._rows: dict[tuple[str, str], dict[int, dict[str, int]]] = {}
        """By job and vertex, what each subtask has left of each output; nothing of one that runs again."""
        self._runs: dict[tuple[str, str], bool] = {}
        """By job and vertex, whether it ran, or was skipped; nothing of one that has not begun."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: a vertex begins that is to be skipped, is skipped that is to run, or a job has finished with one.

        """
        for event in decision.events:
            if isinstance(event, e.JobSubmitted) and any(vertex.condition is not None for vertex in event.job_graph.vertices):
                self._graphs[event.job_id] = event.job_graph
            if (job_id := getattr(event, "job_id", None)) in self._graphs:
                self._take(job_id, event, offset)

    def _take(self, job_id: str, event: e.LogEvent, offset: int) -> None:
        match event:
            case e.TaskFinished():
                left = {output.output: output.rows for output in event.outputs}
                self._rows.setdefault((job_id, event.vertex_id), {})[event.subtask_index] = left
            case e.RegionRestarted():
                self._rows.get((job_id, event.vertex_id), {}).pop(event.subtask_index, None)
            case e.JobRescaled():
                self._rows.pop((job_id, event.vertex_id), None)
            case e.TaskScheduled():
                self._check(self._is_to_run(job_id, event.vertex_id), offset, event)
                self._runs[job_id, event.vertex_id] = True
            case e.VertexSkipped():
                self._check(not self._is_to_run(job_id, event.vertex_id), offset, event)
                self._runs[job_id, event.vertex_id] = False
            case e.JobStatusChanged(to_status=JobStatus.FINISHED):
                for vertex in self._graphs[job_id].vertices:
                    runs = self._runs.get((job_id, vertex.vertex_id))
                    self._check(vertex.is_closing or runs is self._is_to_run(job_id, vertex.vertex_id), offset, event)

    def _is_to_run(self, job_id: str, vertex_id: str) -> bool:
        graph = self._graphs[job_id]
        condition = next(vertex.condition for vertex in graph.vertices if vertex.vertex_id == vertex_id)
        waits_for = {edge.source: edge.reads_skipped for edge in graph.edges if edge.target == vertex_id}
        waits_for |= {condition.source: False} if condition is not None else {}
        if not all(reads_skipped or self._runs.get((job_id, source), False) for source, reads_skipped in waits_for.items()):
            return False
        if condition is None:
            return True
        rows = sum(left.get(condition.output, 0) for left in self._rows.get((job_id, condition.source), {}).values())
        return condition.has_rows == (rows > 0)

    def _check(self, holds: bool, offset: int, event: object) -> None:  # noqa: FBT001 - what is checked is said where it is
        if not holds:
            raise ViolationFound(Invariant.SKIPPED_BY_ROWS, f"log@{offset}: {event}: {self._runs}, {self._rows}")

"""Reruns in runs: users who run ended jobs again from where they failed, some with a mended vertex, and the judge of what is reused.

The judge goes by what the log says that attempts have left, and when it says that outputs are removed: it uses nothing of what the masters
compute. Jobs whose vertices hang on the rows of others are left out: their own judges count rows of the same job.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.attempts import OutputLocation, SubtaskId
from eventflink.model.statuses import JobStatus
from eventflink.testing.simulation.violations import Invariant, ViolationFound

if TYPE_CHECKING:
    from eventflink.model.job_graph import JobGraph
    from eventflink.model.reuse import VertexReuse

_SHARE: Final = 0.3
"""Of the runs."""
_MOST: Final = 8
_NOT_FINISHED_SHARE: Final = 0.8
"""Of the reruns: how many are of a job that has not finished, where there is one."""
_FAILED_SHARE: Final = 0.8
"""The others say from which vertex on the job runs."""
_MENDED_SHARE: Final = 0.4
_KEPT: Final = ("300ms", "2s", "1h", "never", None)


class Reruns:
    """Users who run jobs again. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} reruns")
        self.are_there = self._rng.random() < _SHARE
        self._number = 0

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph whose outputs are kept for a while, or as it was."""
        kept = self._rng.choice(_KEPT) if self.are_there else None
        is_batch = not any("stream" in vertex for vertex in graph["vertices"])
        return graph | {"keep": kept} if kept is not None and is_batch else graph

    def next_order(
        self, statuses: Mapping[str, JobStatus], graphs: Mapping[str, dict[str, Any]]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Return the id of a job that runs one of these ended ones again, its graph and the order; None: nobody wants one."""
        plain = [job_id for job_id in statuses if job_id in graphs and _is_plain(graphs[job_id])]
        if not plain or self._number == _MOST:
            return None
        self._number += 1
        unfinished = [job_id for job_id in plain if statuses[job_id] is not JobStatus.FINISHED]
        rerun_of = self._rng.choice(unfinished if unfinished and self._rng.random() < _NOT_FINISHED_SHARE else plain)
        graph, job_id = graphs[rerun_of], f"rerun-{self._number}"
        order: dict[str, Any] = {"type": "RerunJob", "rerun_of": rerun_of, "job_id": job_id}
        names = [vertex["id"] for vertex in graph["vertices"]]
        order |= {"failed": True} if self._rng.random() < _FAILED_SHARE else {"from_vertices": [self._rng.choice(names)]}
        if self._rng.random() < _MENDED_SHARE:
            mended = self._rng.choice(names)
            vertices = [each | {"python": f"jobs:mended{self._number}"} if each["id"] == mended else each for each in graph["vertices"]]
            graph = graph | {"vertices": vertices}
            order |= {"job_graph": graph}
        return job_id, graph, order

    def next_order_in_ms(self) -> float:
        """Return how long users wait."""
        return 300 + self._rng.random() * 2_500


def _is_plain(graph: Mapping[str, Any]) -> bool:
    """Tell whether no vertex of a graph hangs on rows or on the end of others, or is a stream."""
    special = any(not {"when", "runs", "stream"}.isdisjoint(vertex) for vertex in graph["vertices"])
    return not special and all(edge.get("ship") != "each" for edge in graph["edges"])


class RerunLedger:
    """What attempts have left, which of that is removed, and what jobs have taken of others."""

    def __init__(self) -> None:
        self._graphs: dict[str, JobGraph] = {}
        self._rerun_of: dict[str, str] = {}
        self._left: dict[SubtaskId, tuple[OutputLocation, ...]] = {}
        """Of subtasks whose result counts, or counted when their job ended."""
        self._makers: dict[str, str] = {}
        """Whose attempt has left what is at a location."""
        self._removed: set[str] = set()
        """Jobs of which nothing is there any more that edges read."""
        self._ended: set[str] = set()

    def on_decision(self, decision: Decision, offset: int) -> list[SubtaskId]:
        """Take what an accepted decision says, and return which subtasks it lets begin finished.

        Raises:
            ViolationFound: something is reused that had not finished, is another one or is removed, or is removed while it is in use.

        """
        reused: list[SubtaskId] = []
        for event in decision.events:
            match event:
                case e.JobReuseDecided():
                    for reuse in event.vertices:
                        reused += self._take(event.job_id, reuse, event.vertices, offset)
                case e.JobOutputsReleased() | e.JobCleanedUp():
                    self._remove(event.job_id, offset)
                case _:
                    self._note(event)
        return reused

    def _note(self, event: e.LogEvent) -> None:
        match event:
            case e.JobSubmitted():
                self._graphs[event.job_id], self._rerun_of[event.job_id] = event.job_graph, event.rerun_of
            case e.TaskFinished():
                self._left[SubtaskId(event.job_id, event.vertex_id, event.subtask_index)] = event.outputs
                self._makers |= {output.location: event.job_id for output in event.outputs}
            case e.RegionRestarted():
                self._left.pop(SubtaskId(event.job_id, event.vertex_id, event.subtask_index), None)
            case e.JobRescaled():
                for subtask in [each for each in self._left if each[:2] == (event.job_id, event.vertex_id)]:
                    del self._left[subtask]
            case e.JobStatusChanged(to_status=JobStatus.FINISHED | JobStatus.FAILED | JobStatus.CANCELED):
                self._ended.add(event.job_id)

    def _take(self, job_id: str, reuse: "VertexReuse", others: Iterable["VertexReuse"], offset: int) -> list[SubtaskId]:
        before, graph = self._rerun_of[job_id], self._graphs[job_id]
        known = sorted(each.subtask_index for each in self._left if each[:2] == (before, reuse.vertex_id))
        indices = known if reuse.is_reused else list(reuse.subtasks)
        taken = [SubtaskId(before, reuse.vertex_id, index) for index in indices]
        if not taken:
            return []
        functions = [next(v.task for v in each.vertices if v.vertex_id == reuse.vertex_id) for each in (self._graphs[before], graph)]
        sources = {edge.source for edge in graph.edges if edge.target == reuse.vertex_id}
        holds = (
            indices == list(range(len(indices))) or not reuse.is_reused,
            set(indices) <= set(known),
            functions[0] == functions[1],
            all(each.is_reused for each in others if each.vertex_id in sources),
            all(self._is_there(location) for subtask in taken for location in self._read_of(subtask)),
        )
        if not all(holds):
            raise ViolationFound(Invariant.REUSED_IS_THERE, f"log@{offset}: {job_id} takes {taken}; {holds}, {known} have finished")
        made = [each._replace(job_id=job_id) for each in taken]
        self._left |= {new: self._left[old] for new, old in zip(made, taken, strict=True)}
        return made

    def _read_of(self, subtask: SubtaskId) -> list[str]:
        """Return where the outputs of a subtask are that edges read."""
        read = {edge.output for edge in self._graphs[subtask.job_id].edges if edge.source == subtask.vertex_id}
        return [output.location for output in self._left[subtask] if output.output in read]

    def _is_there(self, location: str) -> bool:
        return self._makers[location] not in self._removed

    def _remove(self, job_id: str, offset: int) -> None:
        self._removed.add(job_id)
        for subtask in self._left:
            if subtask.job_id not in self._ended and any(self._makers[location] == job_id for location in self._read_of(subtask)):
                raise ViolationFound(Invariant.REUSED_IS_THERE, f"log@{offset} removes the outputs of {job_id}, of which {subtask} is one")

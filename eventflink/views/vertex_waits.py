"""Subtasks of one vertex that wait for the same reason, together and in one sentence: what `waits.py` says of each.

The sentences are made of the words of `waits.py`, and only for the waits that are shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eventflink.documents.waits import WaitReason, WaitRow
from eventflink.master.execution_graph import Subtask
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState
from eventflink.views.plain import iso_time, one_sentence
from eventflink.views.waits import SLOT_REASONS, TROUBLE, Waits, not_confirmed, not_ended, parallelism_in_words, restarts_at

FIRST_SUBTASKS: Final = 10
"""So many subtasks of a wait are named."""


@dataclass(slots=True)
class VertexWait:
    """Subtasks of one vertex that wait for the same reason."""

    job: JobMaster
    vertex_id: str
    reason: WaitReason
    first: Subtask
    tasks: int = 0
    since_ms: int = 0
    """Since when the first of them waits; 0: the state does not say."""
    subtasks: list[int] = field(default_factory=list)
    """The first of them, by index."""

    @property
    def is_trouble(self) -> bool:
        """Whether it is more than the ordinary course of a job."""
        return self.reason in TROUBLE

    @property
    def parallelism(self) -> int:
        """How many subtasks the vertex has."""
        return self.job.execution_graph.vertices[self.vertex_id].parallelism

    def add(self, subtask: Subtask, since_ms: int) -> None:
        """Count a subtask."""
        self.tasks += 1
        if len(self.subtasks) < FIRST_SUBTASKS:
            self.subtasks.append(subtask.subtask_index)
        if since_ms and (not self.since_ms or since_ms < self.since_ms):
            self.since_ms = since_ms


class VertexWaits:
    """The waits of one state, by vertex, for as long as it does not change."""

    def __init__(self, master: Master) -> None:
        """Look at a state."""
        self.each = Waits(master)
        self._master = master

    def of_jobs(self, jobs: Iterable[JobMaster]) -> list[VertexWait]:
        """Return the waits of jobs: trouble first, then the longest. Of jobs that have ended nothing waits."""
        waits: list[VertexWait] = []
        for job in jobs:
            if job.status not in TERMINAL_JOB_STATUSES:
                self._collect(job, waits)
        return sorted(waits, key=lambda wait: (not wait.is_trouble, not wait.since_ms, wait.since_ms))

    def _collect(self, job: JobMaster, waits: list[VertexWait]) -> None:
        reason_of, since_ms, may_restart = self.each.reason_of, self.each.since_ms, bool(job.restarts.due)
        for vertex_id, vertex in job.execution_graph.vertices.items():
            if not vertex.unfinished_subtasks and not may_restart:
                continue
            found: dict[WaitReason, VertexWait] = {}
            for subtask in vertex.subtasks:
                if subtask.state is ExecutionState.FINISHED and not may_restart:
                    continue
                reason = reason_of(job, subtask)
                if reason is None:
                    continue
                wait = found.get(reason)
                if wait is None:
                    wait = found[reason] = VertexWait(job, vertex_id, reason, subtask)
                    waits.append(wait)
                wait.add(subtask, since_ms(job, subtask))

    def view(self, wait: VertexWait) -> WaitRow:
        """Return a wait as pages show it."""
        return WaitRow(
            job_id=wait.job.job_id,
            name=wait.job.execution_graph.graph.name,
            vertex_id=wait.vertex_id,
            tasks=wait.tasks,
            parallelism=wait.parallelism,
            reason=wait.reason,
            trouble=wait.is_trouble,
            sentence=self.sentence(wait),
            since=iso_time(wait.since_ms),
            subtasks=wait.subtasks,
        )

    def sentence(self, wait: VertexWait) -> str:
        """Return what a vertex waits for, in one sentence."""
        return one_sentence(f"{wait.vertex_id} waits: {self._why(wait)}")

    def _why(self, wait: VertexWait) -> str:
        job, first, each = wait.job, wait.first, self.each
        if wait.reason in SLOT_REASONS and first.state is ExecutionState.SCHEDULED:
            return self._why_no_slot(wait)
        match wait.reason:
            case WaitReason.RESTART_DELAY:
                return restarts_at(job, job.restarts.due[first.key], _subtasks(wait))
            case WaitReason.RESOURCES | WaitReason.RESCALE:
                return parallelism_in_words(job, wait.vertex_id, self._master.slot_manager)
            case WaitReason.CANCELLATION:
                return f"{_subtasks(wait)} {_is(wait)} to end; {not_ended(first.executions[-1].task_manager_id)}"
            case WaitReason.CONFIRMATION:
                return f"{_subtasks(wait)} {_has(wait)} begun; {not_confirmed(first.executions[-1].task_manager_id)}"
        why = each.of_subtask(job, first)
        return why.why if why is not None else ""

    def _why_no_slot(self, wait: VertexWait) -> str:
        request = self._master.slot_manager.pending[wait.first.allocation_id]
        requests = self.each.requests_for(request.profile, request.queue)
        turn = f"; the first is number {requests.places[wait.first.allocation_id]} in turn" if len(requests.places) > wait.tasks else ""
        return f"{_subtasks(wait)} {_has(wait)} no slot: {requests.describe_for(wait.job.job_id)}{turn}"


def _subtasks(wait: VertexWait) -> str:
    if wait.parallelism == 1:
        return "its subtask"
    return f"all {wait.tasks} subtasks" if wait.tasks == wait.parallelism else f"{wait.tasks} of {wait.parallelism} subtasks"


def _has(wait: VertexWait) -> str:
    return "has" if wait.tasks == 1 else "have"


def _is(wait: VertexWait) -> str:
    return "is" if wait.tasks == 1 else "are"

"""What a task waits for: the reason for programs, and in words for people.

Every place that says why something waits says it with these words: `eventflink why`, the pages, the command line. What a wait is follows
from the state alone, so a past state has the waits of its time. Subtasks that wait for the same are put together in `vertex_waits.py`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from eventflink.documents.waits import Wait, WaitReason
from eventflink.master.execution_graph import Subtask
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.rescaling import describe_parallelism, wanted_parallelism
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_requests import Asked
from eventflink.model.attempts import AttemptId
from eventflink.model.closing import runs_note
from eventflink.model.resources import fits
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, FailoverStrategy, JobStatus, SlotState
from eventflink.views.plain import iso_time

_SCHEDULES: Final = (JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.INITIALIZING)


SLOT_REASONS: Final = (
    WaitReason.WORKER_REQUESTED,
    WaitReason.NO_TASK_MANAGER,
    WaitReason.NO_FITTING_SLOT,
    WaitReason.TASK_MANAGERS_BLOCKED,
    WaitReason.NO_FREE_SLOT,
    WaitReason.QUEUE_SHARE,
)
TROUBLE: Final = frozenset({*SLOT_REASONS, WaitReason.RESTART_DELAY, WaitReason.LOST})
"""Reasons that are not the ordinary course of a job."""

_MANY: Final = 0.25
"""A job that has this share of the slots that others wait for is named."""


@dataclass(frozen=True, slots=True)
class RequestsOfProfile:
    """What all requests of one queue for one profile have in common."""

    reason: WaitReason
    why: str
    and_worker: str
    """What became of the last request for a worker, where that failed."""
    has_free_slot: bool
    places: Mapping[str, int]
    """Whose turn it is when, from 1."""
    holder: str
    """The job that has most of the slots with room for it, where they are taken and one has many; empty: none."""
    holds: str
    """How many of them it has, in words; empty: there is only one."""

    def describe_for(self, job_id: str) -> str:
        """Return why those of a job wait, with who has the slots."""
        if not self.holder:
            return f"{self.why}{self.and_worker}"
        holder = "this job" if self.holder == job_id else f"job '{self.holder}'"
        return f"{self.why}, {f'{self.holds} of them ' if self.holds else ''}by {holder}{self.and_worker}"


class Waits:
    """The waits of one state, for as long as it does not change: what many of them have in common is looked up once."""

    def __init__(self, master: Master) -> None:
        """Look at a state."""
        self._master = master
        self._slots = master.slot_manager
        self._requests: dict[tuple[Asked, str], RequestsOfProfile] = {}
        self._not_scheduled: dict[tuple[str, str], tuple[WaitReason, str]] = {}

    def of_subtask(self, job: JobMaster, subtask: Subtask) -> Wait | None:
        """Return what a subtask waits for; None: for nothing but its own work, or it is over."""
        reason = self.reason_of(job, subtask)
        if reason is None:
            return None
        what = str(AttemptId(job.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt))
        return Wait(what, self._why(job, subtask, reason), iso_time(self.since_ms(job, subtask)))

    def why_no_slot(self, allocation_id: str) -> str:
        """Return why a request has no slot, and when its turn is."""
        reason = self._reason_no_slot(allocation_id)
        if reason is WaitReason.NO_REQUEST:
            return "it has no slot and no longer requests one"
        request = self._slots.pending[allocation_id]
        requests = self.requests_for(request.profile, request.queue)
        turn = f"its turn is {requests.places[allocation_id]} of {len(requests.places)}"
        if reason is not WaitReason.NEXT_DECISION:
            return f"no slot: {requests.describe_for(request.attempt.job_id)}; {turn}"
        if self._can_join(allocation_id):
            return "its job holds a slot that it can join, and joining it is one of the next decisions"
        return f"a slot is free for it, and matching is one of the next decisions; {turn}"

    def reason_of(self, job: JobMaster, subtask: Subtask) -> WaitReason | None:  # noqa: PLR0911 - one return for each state
        """Return why a subtask waits; None: it does not."""
        state = subtask.state
        if state is ExecutionState.CREATED:
            skipped = job.execution_graph.vertices[subtask.vertex_id].skip is not None
            return None if skipped else self.why_not_scheduled(job, subtask.vertex_id)[0]
        if state is ExecutionState.SCHEDULED:
            return self._reason_no_slot(subtask.allocation_id)
        if state is ExecutionState.CANCELING:
            return WaitReason.CANCELLATION
        if state in TERMINAL_EXECUTION_STATES:
            return WaitReason.RESTART_DELAY if job.restarts.due and subtask.key in job.restarts.due else None
        allocation = self._slots.allocations.get(subtask.allocation_id)
        if allocation is None:
            return None
        if allocation.orphaned:
            return WaitReason.LOST
        # Of an attempt that joined others in a confirmed slot the first state that is reported is the confirmation.
        unconfirmed = state is ExecutionState.DEPLOYING or self._slots.state_of(allocation) is SlotState.PENDING
        return WaitReason.CONFIRMATION if unconfirmed else None

    # -- one subtask ----------------------------------------------------------------------------------------------

    def _why(self, job: JobMaster, subtask: Subtask, reason: WaitReason) -> str:
        match subtask.state:
            case ExecutionState.CREATED:
                return self.why_not_scheduled(job, subtask.vertex_id)[1]
            case ExecutionState.SCHEDULED:
                return self.why_no_slot(subtask.allocation_id)
            case ExecutionState.CANCELING:
                return not_ended(subtask.executions[-1].task_manager_id)
            case ended if ended in TERMINAL_EXECUTION_STATES:
                return restarts_at(job, job.restarts.due[subtask.key], "it")
        allocation = self._slots.allocations[subtask.allocation_id]
        if reason is WaitReason.LOST:
            return f"it is lost ({allocation.orphaned}), and its failure is the next decision"
        return not_confirmed(allocation.task_manager_id)

    def since_ms(self, job: JobMaster, subtask: Subtask) -> int:
        """Return since when a subtask waits that does; 0: the state does not say."""
        execution = subtask.execution
        match subtask.state:
            case ExecutionState.CREATED:
                waiting = job.rescales.waiting.get(subtask.vertex_id)
                return waiting.since_ms if waiting is not None else 0
            case ExecutionState.SCHEDULED:
                request = self._slots.pending.get(subtask.allocation_id)
                return request.requested_at_ms if request is not None else 0
            case ExecutionState.CANCELING:
                exceeded_at_ms = execution.exceeded_at_ms if execution is not None else 0
                return exceeded_at_ms or job.status_since_ms
            case ended if ended in TERMINAL_EXECUTION_STATES:
                return execution.ended_at_ms if execution is not None else job.status_since_ms
        return execution.deployed_at_ms if execution is not None else 0

    def why_not_scheduled(self, job: JobMaster, vertex_id: str) -> tuple[WaitReason, str]:
        """Return why subtasks of a vertex are not scheduled that have not begun."""
        key = (job.job_id, vertex_id)
        known = self._not_scheduled.get(key)
        if known is None:
            known = self._not_scheduled[key] = self._find_why_not_scheduled(job, vertex_id)
        return known

    def _find_why_not_scheduled(self, job: JobMaster, vertex_id: str) -> tuple[WaitReason, str]:
        graph = job.execution_graph
        note = runs_note(graph.vertices[vertex_id].vertex, graph.outcome)
        if note is not None:
            return (WaitReason.CLOSING if job.closing is None else WaitReason.NEXT_DECISION), note
        if job.status not in _SCHEDULES:
            return WaitReason.JOB_STATUS, f"its job is {job.status}"
        unfinished = []
        for source in dict.fromkeys(graph.sources_of(vertex_id)):
            read = graph.vertices[source]
            if not read.is_complete:
                unfinished.append(f"{source} ({read.unfinished_subtasks} of {len(read.subtasks)} subtasks)")
        if job.status is JobStatus.RESTARTING and job.restarts.failover_strategy is FailoverStrategy.FULL:
            return WaitReason.FULL_RESTART, "its job starts again as a whole, and not all of its tasks have ended"
        if unfinished:
            return WaitReason.INPUTS, f"its inputs are not complete: {', '.join(unfinished)}"
        if job.rescales.holds_back(graph, vertex_id):
            reason = WaitReason.RESOURCES if vertex_id in job.rescales.waiting else WaitReason.RESCALE
            return reason, f"its vertex, {parallelism_in_words(job, vertex_id, self._slots)}"
        return WaitReason.NEXT_DECISION, "its inputs are complete, and scheduling it is one of the next decisions"

    def _reason_no_slot(self, allocation_id: str) -> WaitReason:
        if allocation_id not in self._slots.pending:
            return WaitReason.NO_REQUEST
        request = self._slots.pending[allocation_id]
        requests = self.requests_for(request.profile, request.queue)
        return WaitReason.NEXT_DECISION if requests.has_free_slot or self._can_join(allocation_id) else requests.reason

    def _can_join(self, allocation_id: str) -> bool:
        request = self._slots.pending[allocation_id]
        group = self._slots.sharing.groups.get(request.group_key) if request.slot_sharing_group else None
        return group is not None and request.attempt.vertex_id in group.servable

    def requests_for(self, profile: Asked, queue: str) -> RequestsOfProfile:
        """Return what all requests of a queue that wait for a profile have in common."""
        slots = self._slots
        name = slots.shares.name_of(queue)
        known = self._requests.get((profile, name))
        if known is None:
            places = {waiting: place for place, waiting in enumerate(slots.queues.in_turn(name, profile), 1)}
            reason, why = WaitReason(slots.why_request_waits(profile, name)), slots.describe_reason(profile, name)
            and_worker = slots.describe_wait(profile, name).removeprefix(why)
            holder = self._find_holder(profile) if reason is WaitReason.NO_FREE_SLOT else ("", "")
            has_free_slot = slots.has_free_slot_for(profile) and not slots.shares.is_full(name)
            known = self._requests[profile, name] = RequestsOfProfile(reason, why, and_worker, has_free_slot, places, *holder)
        return known

    def _find_holder(self, profile: Asked) -> tuple[str, str]:
        """Return the job that has many of the slots with room for a profile, and how many of those that are taken; empty: none has."""
        fitting = [counts for offered, counts in self._held.items() if fits(offered, profile)]
        counts = fitting[0] if len(fitting) == 1 else sum(fitting, Counter[str]())
        if not counts:
            return "", ""
        [(holder, slots)], taken = counts.most_common(1), counts.total()
        if slots < taken * _MANY:
            return "", ""
        return holder, "" if taken == 1 else "all" if slots == taken else str(slots)

    @cached_property
    def _held(self) -> dict[Asked, Counter[str]]:
        """How many slots of each profile each job has."""
        profiles = {name: held.profile for name, held in self._slots.task_managers.items()}
        counts: dict[Asked, Counter[str]] = {profile: Counter() for profile in profiles.values()}
        for allocation in self._slots.allocations.values():
            if allocation.task_manager_id in profiles:
                counts[profiles[allocation.task_manager_id]][allocation.attempt.job_id] += 1
        return counts


def restarts_at(job: JobMaster, at_ms: int, what: str) -> str:
    """Return that what has failed has not started again: its restart strategy, or its retries, have it wait."""
    others = ", when all tasks of the job have ended" if job.restarts.failover_strategy is FailoverStrategy.FULL else ""
    return f"{what} will start again at {iso_time(at_ms)}{others}"


def not_ended(task_manager_id: str) -> str:
    """Return that a TaskManager has not said yet that an attempt is over."""
    return f"{task_manager_id} has not reported its end yet"


def not_confirmed(task_manager_id: str) -> str:
    """Return that a TaskManager has not said yet that it has the slot."""
    return f"{task_manager_id} has not confirmed the slot yet"


def parallelism_in_words(job: JobMaster, vertex_id: str, slots: SlotManager) -> str:
    """Return how many subtasks a vertex has and wants, and what it waits for."""
    note = describe_parallelism(job, vertex_id, slots)
    said = f"parallelism {job.execution_graph.vertices[vertex_id].parallelism} of {wanted_parallelism(job, vertex_id)}"
    return f"{said} ({note})" if note else said

"""Which events of a decision belong to the chain of a thing: one rule for each kind of thing.

A rule is called with every accepted decision in order, and may remember: a task belongs to the TaskManager that holds its
slot, until it ends.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eventflink.audit.attribution import attempt_of, ends_attempt
from eventflink.audit.subjects import Subject, SubjectType
from eventflink.events.decision import Decision
from eventflink.events.log_events import (
    CheckpointAcknowledged,
    CheckpointCompleted,
    CheckpointSubsumed,
    CheckpointTriggered,
    FileUploadRequested,
    GlobalFailureOccurred,
    JobCancellationRequested,
    JobClosingAborted,
    JobClosingStarted,
    JobRestartScheduled,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RegionRestarted,
    RequestAccepted,
    RequestRejected,
    RestartScheduled,
    SlotAllocated,
    SlotFreed,
    SlotOfferRejected,
    SlotRequestDeferred,
    SlotRequested,
    SlotShared,
    SlotShareReturned,
    TaskFailed,
    TaskFinished,
    TaskManagerDisconnected,
    TaskManagerFileUploadRequested,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerReportReconciled,
    TaskScheduled,
    VertexSkipped,
)
from eventflink.master.execution_graph import group_profiles_of
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import JobStatus

if TYPE_CHECKING:
    from eventflink.model.resources import ResourceProfile

Relevance = Callable[[Decision], list[LogEvent]]
"""Returns the events of a decision that belong to the chain."""

_ENABLING: Final = (TaskFinished, SlotFreed, SlotOfferRejected, TaskManagerRegistered)
"""What completes an input, or makes a slot free, so that somebody else can continue in the same decision."""

_SETBACKS: Final = (TaskFailed, RestartScheduled, RegionRestarted)

_ROUTINE: Final = (CheckpointTriggered, CheckpointAcknowledged, CheckpointCompleted, CheckpointSubsumed)
"""What a stream says all its life, and nothing follows from; a checkpoint that failed is not of these."""


def relevance_of(subject: Subject) -> Relevance:
    """Return the rule for a subject."""
    match subject.subject_type:
        case SubjectType.JOB:
            return _OfJob(subject.job_id, subject.root_failure)
        case SubjectType.SUBTASK | SubjectType.ALLOCATION:
            return _OfSubtask(subject.job_id, subject.vertex_id, subject.subtask_index, subject.attempt)
        case SubjectType.TASK_MANAGER:
            return _OfTaskManager(subject.task_manager_id, "")
        case SubjectType.INSTANCE:
            return _OfTaskManager(subject.task_manager_id, subject.name)
        case SubjectType.REQUEST:
            return _OfRequest(subject)


class _OfJob:
    """A job's own events, setbacks of its tasks, what ended it; and all of the attempt whose failure did."""

    def __init__(self, job_id: str, root_failure: AttemptId | None) -> None:
        self._job_id = job_id
        self._root = _OfSubtask(*root_failure, with_job=False) if root_failure is not None else None

    def __call__(self, decision: Decision) -> list[LogEvent]:
        of_root = {id(event) for event in self._root(decision)} if self._root is not None else set()
        own = {id(event) for event in decision.events if self._is_own(event)}
        if own:
            own |= {id(event) for event in decision.events if self._accompanies(event)}
        return [event for event in decision.events if id(event) in own or id(event) in of_root]

    def _is_own(self, event: LogEvent) -> bool:
        if getattr(event, "job_id", None) != self._job_id or isinstance(event, _ROUTINE):
            return False
        return isinstance(event, _SETBACKS) or not hasattr(event, "vertex_id")

    def _accompanies(self, event: LogEvent) -> bool:
        """Tell whether the line of an event's decision already says it: the answer to a request, and the end of a task."""
        if isinstance(event, RequestAccepted):
            return event.subject == self._job_id
        if getattr(event, "job_id", None) != self._job_id:
            return False
        return ends_attempt(event)


class _OfSubtask:
    """A subtask (or one attempt of it), its slots, who held them, and the job's request and end."""

    def __init__(self, job_id: str, vertex_id: str, subtask_index: int, attempt: int, *, with_job: bool = True) -> None:
        self._job_id = job_id
        self._task = (job_id, vertex_id, subtask_index)
        self._wanted = attempt
        self._with_job = with_job
        self._current = 1
        self._allocations: set[str] = set()
        self._instance_id = ""
        """Of the TaskManager that holds the current attempt's slot."""
        self._instances: dict[str, str] = {}
        """Of the TaskManagers that hold slots of the job, by allocation: it may join others there."""
        self._asked: ResourceProfile | None = None
        """What it asks of a slot."""
        self._over = False
        """What happens to the job after the end of the attempt is no cause of it."""

    def __call__(self, decision: Decision) -> list[LogEvent]:
        relevant: list[LogEvent] = []
        enabling: list[LogEvent] = []
        for event in decision.events:
            self._note_slot(event)
            if self._is_relevant(event):
                relevant += [each for each in enabling if self._enables(each, event, relevant)]
                relevant.append(event)
            elif isinstance(event, _ENABLING):
                enabling.append(event)
        if relevant and self._with_job:
            relevant = [e for e in decision.events if isinstance(e, RequestAccepted) and e.subject == self._job_id] + relevant
        self._over = self._is_over(relevant)
        return relevant

    def _is_relevant(self, event: LogEvent) -> bool:
        index = self._task[2] if isinstance(event, VertexSkipped) else getattr(event, "subtask_index", None)
        if (getattr(event, "job_id", None), getattr(event, "vertex_id", None), index) == self._task:
            return self._is_of_attempt(event)
        allocation_id = getattr(event, "allocation_id", None)
        # What others do who share the slot is theirs.
        if allocation_id in self._allocations and attempt_of(event) is None:
            if isinstance(event, SlotAllocated):
                self._instance_id = event.instance_id
            if isinstance(event, SlotFreed | SlotOfferRejected):
                self._instance_id = ""
            return True
        if isinstance(event, TaskManagerLost | TaskManagerDisconnected):
            return event.instance_id == self._instance_id
        if isinstance(event, TaskManagerReportReconciled):
            return not self._allocations.isdisjoint(event.missing)
        if isinstance(event, SlotRequestDeferred):
            waits = bool(self._allocations) and not self._instance_id
            return waits and event.job_id == self._job_id and event.resource_profile == self._asked
        if isinstance(event, JobSubmitted) and event.job_id == self._job_id:
            self._asked = _slot_profile(event.job_graph, self._task[1])
        of_job = self._with_job and getattr(event, "job_id", None) == self._job_id
        # A restart of many subtasks may start this one again although it has ended.
        is_over = self._over and (self._wanted != 0 or not isinstance(event, RestartScheduled))
        return of_job and not is_over and self._is_of_job(event)

    def _note_slot(self, event: LogEvent) -> None:
        if isinstance(event, SlotRequested) and event.job_id == self._job_id:
            self._instances[event.allocation_id] = ""
        elif isinstance(event, SlotAllocated) and event.allocation_id in self._instances:
            self._instances[event.allocation_id] = event.instance_id
        elif isinstance(event, SlotFreed | SlotOfferRejected):
            self._instances.pop(event.allocation_id, None)

    def _enables(self, earlier: LogEvent, event: LogEvent, relevant: list[LogEvent]) -> bool:
        """Tell whether an event of somebody else, earlier in the same decision, made this one possible."""
        if isinstance(event, TaskScheduled | VertexSkipped):  # The last of its inputs is complete.
            return isinstance(earlier, TaskFinished) and earlier.job_id == self._job_id
        waited = not any(isinstance(each, SlotRequested) for each in relevant)
        return isinstance(event, SlotAllocated) and waited and not isinstance(earlier, TaskFinished)

    def _is_over(self, relevant: list[LogEvent]) -> bool:
        if self._wanted and self._current > self._wanted:
            return True
        for event in reversed(relevant):
            if isinstance(event, RegionRestarted):
                return False
            if ends_attempt(event) and getattr(event, "attempt", 0) == self._current:
                return True
        return self._over

    def _is_of_attempt(self, event: LogEvent) -> bool:
        if isinstance(event, FileUploadRequested | CheckpointAcknowledged):
            return False
        attempt = getattr(event, "attempt", self._current)
        if isinstance(event, RegionRestarted):
            self._current = attempt
        # Of the attempt before, only what led to this one.
        led_here = isinstance(event, TaskFailed | RestartScheduled) and attempt == self._wanted - 1
        if self._wanted and attempt != self._wanted and not led_here:
            return False
        if isinstance(event, SlotRequested):
            self._allocations = {event.allocation_id}
        if isinstance(event, SlotShared):
            self._allocations = {event.allocation_id}
            self._instance_id = self._instances.get(event.allocation_id, "")
        if isinstance(event, SlotShareReturned):
            self._allocations, self._instance_id = set(), ""
        return True

    @staticmethod
    def _is_of_job(event: LogEvent) -> bool:
        if isinstance(event, JobStatusChanged):
            return event.to_status in (JobStatus.FAILING, JobStatus.CANCELLING)
        if isinstance(event, GlobalFailureOccurred | JobRestartScheduled):
            return True
        if isinstance(event, RestartScheduled):  # Of another subtask, with which this one may have to start again.
            return event.task_count > 1
        return isinstance(event, JobSubmitted | JobCancellationRequested | JobClosingStarted | JobClosingAborted)


def _slot_profile(graph: JobGraph, vertex_id: str) -> "ResourceProfile | None":
    """Return what a slot has to have that is asked for in the name of a vertex."""
    vertex = next((v for v in graph.vertices if v.vertex_id == vertex_id), None)
    if vertex is None or vertex.slot_sharing_group is None:
        return vertex.resources if vertex is not None else None
    return group_profiles_of(graph)[vertex.slot_sharing_group]


class _OfTaskManager:
    """The comings and goings of a TaskManager, or of one instance of it; reports only where they differed from the state."""

    def __init__(self, task_manager_id: str, instance_id: str) -> None:
        self._task_manager_id = task_manager_id
        self._instance_id = instance_id

    def __call__(self, decision: Decision) -> list[LogEvent]:
        return [event for event in decision.events if self._is_relevant(event)]

    def _is_relevant(self, event: LogEvent) -> bool:
        is_no_matter = isinstance(event, SlotAllocated | FileUploadRequested | TaskManagerFileUploadRequested)
        if is_no_matter or getattr(event, "task_manager_id", None) != self._task_manager_id:
            return False
        if self._instance_id and getattr(event, "instance_id", None) != self._instance_id:
            return False
        return not isinstance(event, TaskManagerReportReconciled) or bool(event.missing or event.unknown)


class _OfRequest:
    """The decisions that answered a request, whole."""

    def __init__(self, subject: Subject) -> None:
        answer = subject.answer
        self._request_id = answer.request_id if answer is not None else subject.name
        self._subject = subject.job_id if not self._request_id else ""

    def __call__(self, decision: Decision) -> list[LogEvent]:
        mine = any(self._is_mine(event) for event in decision.events)
        return [event for event in decision.events if not hasattr(event, "follow_up_type")] if mine else []

    def _is_mine(self, event: LogEvent) -> bool:
        if self._request_id:
            return getattr(event, "request_id", None) == self._request_id
        return isinstance(event, RequestRejected) and event.subject == self._subject

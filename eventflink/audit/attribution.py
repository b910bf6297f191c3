"""Whose an event is: the jobs and the TaskManagers that it concerns, also those that it does not name.

An event belongs to a job or a TaskManager also through its slot, so every decision has to be seen from the beginning of the log on, in
order. Only slots and attempts that are in use are remembered.
"""

from typing import Final

from eventflink.events.job_master_events import execution_state_after
from eventflink.events.log_events import (
    FollowUpDecided,
    LogEvent,
    RequestAccepted,
    RequestRejected,
    SlotAllocated,
    SlotFreed,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequested,
    SlotRequestTimedOut,
    TaskManagerReportReconciled,
)
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES

Holder = tuple[str, str]
"""The id of a TaskManager and that of one of its instances."""

_OF_A_SUBJECT: Final = (RequestAccepted, RequestRejected, FollowUpDecided)
_END_OF_A_SLOT: Final = (SlotFreed, SlotOfferRejected, SlotRequestCancelled, SlotRequestTimedOut)


class Attribution:
    """Follows events in their order and says whom each concerns."""

    def __init__(self) -> None:
        self._jobs: dict[str, str] = {}
        """Of the allocations in use."""
        self._holders: dict[str, Holder] = {}
        """Of the allocations in use that have a slot."""
        self._places: dict[AttemptId, Holder] = {}
        """Of the attempts that run."""

    def follow_event(self, event: LogEvent, *, counts: bool) -> tuple[tuple[str, ...], Holder | None]:
        """Return the jobs and the TaskManager of an event; what does not count, as its decision was rejected, is not remembered.

        What is about a request or a follow-up has its subject for a job, whatever that is.
        """
        if isinstance(event, _OF_A_SUBJECT):
            return (event.subject,), self._named_holder(event)
        if isinstance(event, TaskManagerReportReconciled):
            jobs = [each.job_id for each in event.unknown] + [job for each in event.missing if (job := self._jobs.get(each)) is not None]
            return tuple(dict.fromkeys(jobs)), self._named_holder(event)
        allocation_id: str | None = getattr(event, "allocation_id", None)
        job_id: str | None = getattr(event, "job_id", None)
        holder = self._named_holder(event)
        if allocation_id is not None:
            job_id = job_id if job_id is not None else self._jobs.get(allocation_id)
            holder = holder or self._holders.get(allocation_id)
        if (attempt := attempt_of(event)) is not None:
            holder = holder or self._places.get(attempt)
        if counts:
            self._remember(event, allocation_id, attempt, holder)
        return (job_id,) if job_id is not None else (), holder

    @staticmethod
    def _named_holder(event: LogEvent) -> Holder | None:
        task_manager_id: str | None = getattr(event, "task_manager_id", None)
        return (task_manager_id, getattr(event, "instance_id", "")) if task_manager_id is not None else None

    def _remember(self, event: LogEvent, allocation_id: str | None, attempt: AttemptId | None, holder: Holder | None) -> None:
        if attempt is not None:
            if isinstance(event, SlotRequested):
                self._jobs[event.allocation_id] = event.job_id
            if ends_attempt(event):
                self._places.pop(attempt, None)
            elif holder is not None:
                self._places[attempt] = holder
        elif isinstance(event, SlotAllocated) and holder is not None:
            self._holders[event.allocation_id] = holder
        elif allocation_id is not None and isinstance(event, _END_OF_A_SLOT):
            self._jobs.pop(allocation_id, None)
            self._holders.pop(allocation_id, None)


def attempt_of(event: LogEvent) -> AttemptId | None:
    """Return the attempt that an event is about."""
    attempt = getattr(event, "attempt", None)
    vertex_id = getattr(event, "vertex_id", None)
    if attempt is None or vertex_id is None:
        return None
    return AttemptId(getattr(event, "job_id", ""), vertex_id, getattr(event, "subtask_index", 0), attempt)


def ends_attempt(event: LogEvent) -> bool:
    """Tell whether an attempt is over with this event."""
    return execution_state_after(event) in TERMINAL_EXECUTION_STATES

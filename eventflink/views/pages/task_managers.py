"""The pages of the TaskManagers: who has room, and who is ill.

A TaskManager that is lost is forgotten by the state: of it are the failures of its tasks.
"""

from itertools import islice
from typing import Final

from eventflink.documents.task_managers import AttemptInSlot, SlotOfTaskManager, TaskManagerPage, TaskManagersPage, TaskManagerTile
from eventflink.leadership.fold import Fold
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import ExecutionState
from eventflink.views.jobs_and_cluster import blocked_view
from eventflink.views.queries import TaskManagerNotFound, known_fields

MAX_SLOTS: Final = 5_000
"""So many slots a window shows at most, those of one TaskManager in any case."""

MAX_BLOCKED: Final = 1_000


def task_managers_page(fold: Fold, first: int, limit: int) -> TaskManagersPage:
    """Return the TaskManagers from the `first`-th on, in the order in which they registered, with their slots.

    Fewer than `limit` are shown where these have more than `MAX_SLOTS` in all; the next window begins after the last that is shown.
    """
    registered = fold.master.resource_manager.task_managers
    shown: list[TaskManagerPage] = []
    slots = 0
    for task_manager_id in islice(registered, first, first + limit):
        slots += registered[task_manager_id].slot_count
        if shown and slots > MAX_SLOTS:
            break
        shown.append(_row(fold, task_manager_id))
    return TaskManagersPage(total=len(registered), task_managers=shown, blocked=blocked_view(fold)[:MAX_BLOCKED])


def task_manager_page(fold: Fold, task_manager_id: str) -> TaskManagerPage:
    """Return one TaskManager with its slots.

    Raises:
        TaskManagerNotFound: none of this id is registered.

    """
    if task_manager_id not in fold.master.resource_manager.task_managers:
        raise TaskManagerNotFound(f"TaskManager not found: '{task_manager_id}' is not registered")
    return _row(fold, task_manager_id)


def _row(fold: Fold, task_manager_id: str) -> TaskManagerPage:
    total = fold.master.resource_manager.task_managers[task_manager_id].slot_count
    return TaskManagerPage(**known_fields(fold, task_manager_id), slots_total=total, slots=_slots(fold, task_manager_id))


def task_manager_slots(fold: Fold, task_manager_id: str) -> TaskManagerTile:
    """Return what each slot of a TaskManager holds."""
    return TaskManagerTile(
        task_manager_id=task_manager_id,
        host=fold.master.resource_manager.task_managers[task_manager_id].host,
        slots=_slots(fold, task_manager_id),
        blocked=task_manager_id in fold.master.blocklist.task_managers,
        ready=fold.master.slot_manager.task_managers[task_manager_id].ready,
    )


def _slots(fold: Fold, task_manager_id: str) -> list[SlotOfTaskManager]:
    held, allocations = fold.master.slot_manager.task_managers[task_manager_id], fold.master.slot_manager.allocations
    slots = []
    for index, slot in enumerate(held.slots):
        allocation = allocations.get(slot.allocation_id) if slot.allocation_id else None
        attempts = [_attempt(fold, attempt) for attempt in allocation.attempts] if allocation is not None else []
        job_id = allocation.attempt.job_id if allocation is not None else None
        slots.append(SlotOfTaskManager(slot_index=index, state=slot.state, job_id=job_id, attempts=attempts))
    return slots


def _attempt(fold: Fold, attempt: AttemptId) -> AttemptInSlot:
    return AttemptInSlot(**attempt._asdict(), state=_state_of(fold, attempt))


def _state_of(fold: Fold, attempt: AttemptId) -> ExecutionState | None:
    job = fold.master.dispatcher.jobs.get(attempt.job_id)
    subtask = job.execution_graph.current(attempt) if job is not None else None
    return subtask.state if subtask is not None else None

"""How many workers are asked of the resource driver, and which are released: Flink's ActiveResourceManager. Nothing here changes anything.

Workers are asked for where requests wait that no free slot and no pending worker has room for, and for adaptive jobs that run with less
than they want. A worker that has been idle for long enough, and that no request waits for, is released. Which workers there are is in
`workers.py`.
"""

from collections.abc import Iterator
from itertools import islice

from eventflink.events.log_events import LogEvent, TaskManagerReleased, WorkerRequested
from eventflink.master.adaptive_scheduler import missing_slots
from eventflink.master.inputs import ReleaseTaskManagers, RequestWorkers
from eventflink.master.settings import Context, WorkerSettings
from eventflink.master.state import ClusterState
from eventflink.master.workers import BATCH, MAX_WORKERS, PREFIX
from eventflink.model.resources import ResourceProfile, fits, sort_key_of


def decide_request_workers(state: ClusterState, _value: RequestWorkers, context: Context) -> list[LogEvent]:
    """Ask for a batch of the workers that are missing; an id that somebody else has registered is left out."""
    settings = context.settings.workers
    if settings is None or context.now_ms < state.workers.retry_at_ms:
        return []
    events: list[LogEvent] = []
    number = state.workers.next_worker
    for _ in range(min(_missing(state, settings, context), BATCH)):
        while f"{PREFIX}{number}" in state.resource_manager.task_managers:
            number += 1
        events.append(WorkerRequested(f"{PREFIX}{number}", settings.slot_count, settings.slot_profile))
        number += 1
    return events


def decide_release_task_managers(state: ClusterState, _value: ReleaseTaskManagers, context: Context) -> list[LogEvent]:
    """Release a batch of workers that have been idle for long enough, and that no request waits for."""
    settings = context.settings.workers
    if settings is None:
        return []
    events: list[LogEvent] = []
    for worker_id in islice(_idle(state, settings, context.now_ms), BATCH):
        held = state.slot_manager.task_managers[worker_id]
        reason = f"it was idle for {context.now_ms - held.idle_since_ms} ms"
        events.append(TaskManagerReleased(worker_id, held.instance_id, reason))
    return events


def _missing(state: ClusterState, settings: WorkerSettings, context: Context) -> int:
    """Return how many workers are to be asked for: for requests that neither free nor pending slots have room for, and workers have."""
    slots, workers = state.slot_manager, state.workers
    waiting = [(profile, count) for profile, count in slots.slots_wanted().items() if not slots.has_free_slot_for(profile)]
    # What adaptive jobs want beyond the free slots, without having asked for it.
    waiting.extend(missing_slots(state, context).items())
    if not any(fits(settings.slot_profile, profile) for profile, _ in waiting):
        return 0
    awaited: dict[ResourceProfile | None, int] = {}
    for worker in workers.pending.values():
        awaited[worker.slot_profile] = awaited.get(worker.slot_profile, 0) + worker.slot_count
    # Those who ask for most choose first, and take the smallest that has room.
    offers = sorted(awaited, key=sort_key_of)
    uncovered = 0
    for profile, count in sorted(waiting, key=lambda pair: sort_key_of(pair[0]), reverse=True):
        left = count
        for offer in offers:
            if left and fits(offer, profile):
                taken = min(left, awaited[offer])
                awaited[offer] -= taken
                left -= taken
        uncovered += left if fits(settings.slot_profile, profile) else 0
    used = slots.get_number_registered_slots() + workers.get_number_pending_task_manager_slots()
    room = min((settings.max_slots - used) // settings.slot_count, MAX_WORKERS - len(workers.pending) - len(workers.registered))
    return max(0, min(-(-uncovered // settings.slot_count), room))


def _idle(state: ClusterState, settings: WorkerSettings, now_ms: int) -> Iterator[str]:
    asked = state.slot_manager.profiles_served()
    for worker_id in state.workers.registered:
        held = state.slot_manager.task_managers[worker_id]
        if len(held.free) < len(held.slots) or now_ms - held.idle_since_ms < settings.idle_timeout_ms:
            continue
        # A request that fits is about to be matched with it.
        if held.blocked or not any(fits(held.profile, profile) for profile in asked):
            yield worker_id

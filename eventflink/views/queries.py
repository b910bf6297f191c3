"""What the gateways ask of the accepted state beside the views that people are shown: small answers to narrow questions.

As in `views.py` an answer is plain values, is computed at once and shares nothing with the state. Ids are whole here, never beginnings of
ids: a program says what it means.
"""

from collections import Counter
from typing import Any, Final

from eventflink.documents.cluster import Overview
from eventflink.documents.jobs import JobStanding, JobStatuses
from eventflink.documents.one_job import JobOutcome
from eventflink.documents.task_managers import AllocatedTaskManager, CountedTaskManager, CountedTaskManagers, SlotInfo
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.statuses import TERMINAL_JOB_STATUSES
from eventflink.views.accumulators import accumulators_of
from eventflink.views.jobs_and_cluster import not_in_memory
from eventflink.views.plain import iso_time
from eventflink.views.spark_ends import spark_end_view

MAX_LISTED_JOBS: Final = 100_000
"""How many jobs one list of ids holds at most, the newest: it is put together while the master decides nothing."""


class SubjectNotFound(Exception):
    """What is asked for is not there; the message says so, and what is."""


class TaskManagerNotFound(SubjectNotFound):
    """No such TaskManager is registered."""


def job_of(fold: Fold, job_id: str) -> JobMaster:
    """Return a job by its whole id.

    Raises:
        JobNotFound: there is none in memory.

    """
    job = fold.master.dispatcher.jobs.get(job_id)
    if job is None:
        raise not_in_memory(fold, job_id)
    return job


def overview(fold: Fold) -> Overview:
    """Return how many there are of everything, without naming any of it."""
    master = fold.master
    statuses = Counter(job.status for job in master.dispatcher.jobs.values())
    return Overview(
        task_managers=len(master.resource_manager.task_managers),
        slots=master.slot_manager.get_number_registered_slots(),
        slots_free=master.slot_manager.get_number_free_slots(),
        slots_pending=master.slot_manager.get_number_pending_task_manager_slots(),
        slot_requests=master.slot_manager.get_number_pending_slot_requests(),
        jobs=dict(statuses),
        jobs_live=sum(count for status, count in statuses.items() if status not in TERMINAL_JOB_STATUSES),
        leader_id=fold.acceptance.leader_id,
        leading_master_id=master.leader.master_id,
        blob_address=master.leader.blob_address,
    )


def job_statuses(fold: Fold) -> JobStatuses:
    """Return id and status of the newest jobs, the newest last, and how many there are in all."""
    jobs = fold.master.dispatcher.jobs
    first = max(0, len(jobs) - MAX_LISTED_JOBS)
    listed = [(job.job_id, job.status) for number, job in enumerate(jobs.values()) if number >= first]
    return JobStatuses(jobs=listed, total=len(jobs))


def job_status(fold: Fold, job_id: str) -> JobStanding:
    """Return where a job stands, under which JobMaster, or how it ended long ago; raises `JobNotFound`."""
    if (forgotten := fold.master.dispatcher.forgotten.get(job_id)) is not None:
        return JobStanding(job_id=job_id, status=forgotten.status, status_since=iso_time(forgotten.ended_at_ms), job_master_id="")
    job = job_of(fold, job_id)
    since = iso_time(job.status_since_ms)
    return JobStanding(job_id=job_id, status=job.status, status_since=since, job_master_id=job.job_master_id)


def job_result(fold: Fold, job_id: str) -> JobOutcome:
    """Return how a job ended, also if it is no longer in memory, or that it has not (`is_terminal`); raises `JobNotFound`.

    What its tasks have counted is in its archive then, and None here.
    """
    job = fold.master.dispatcher.forgotten.get(job_id) or job_of(fold, job_id)
    is_terminal = job.status in TERMINAL_JOB_STATUSES
    return JobOutcome(
        job_id=job_id,
        status=job.status,
        is_terminal=is_terminal,
        submitted_at=iso_time(job.submitted_at_ms),
        ended_at=iso_time(job.ended_at_ms),
        net_run_time_ms=job.ended_at_ms - job.submitted_at_ms if is_terminal else None,
        cause=job.cause if is_terminal else None,
        accumulators=accumulators_of(job.execution_graph.subtasks()) if isinstance(job, JobMaster) else None,
    )


def task_manager(fold: Fold, task_manager_id: str) -> AllocatedTaskManager:
    """Return a TaskManager with each of its slots.

    Raises:
        TaskManagerNotFound: none of this id is registered.

    """
    master = fold.master
    if task_manager_id not in master.resource_manager.task_managers:
        raise TaskManagerNotFound(f"TaskManager not found: '{task_manager_id}' is not registered")
    known, held = master.resource_manager.task_managers[task_manager_id], master.slot_manager.task_managers[task_manager_id]
    allocations = master.slot_manager.allocations
    slots = []
    for index, slot in enumerate(held.slots):
        allocation = allocations.get(slot.allocation_id)
        attempts = () if allocation is None else tuple(allocation.attempts)
        slots.append(
            SlotInfo(
                slot_index=index,
                state=slot.state,
                allocation_id=slot.allocation_id or None,
                attempt=next(iter(attempts), None),
                attempts=attempts,
            )
        )
    return AllocatedTaskManager(**known_fields(fold, task_manager_id), slots=known.slot_count, slot_states=slots)


def task_managers(fold: Fold) -> CountedTaskManagers:
    """Return every registered TaskManager, without its slots."""
    known = fold.master.resource_manager.task_managers
    rows = [CountedTaskManager(**known_fields(fold, each), slots=manager.slot_count) for each, manager in known.items()]
    return CountedTaskManagers(task_managers=rows)


def known_fields(fold: Fold, task_manager_id: str) -> dict[str, Any]:
    """Return the fields of `KnownTaskManager` by name, for the documents that say more of one."""
    known = fold.master.resource_manager.task_managers[task_manager_id]
    slots = fold.master.slot_manager
    held = slots.task_managers[task_manager_id]
    used = [slots.allocations[slot.allocation_id] for slot in held.slots if slot.allocation_id in slots.allocations]
    return {
        "task_manager_id": task_manager_id,
        "instance_id": known.instance_id,
        "host": known.host,
        "process_id": known.process_id,
        "slots_free": slots.get_number_free_slots_of(task_manager_id),
        "slot_profile": known.slot_profile,
        "tasks": sum(len(allocation.attempts) for allocation in used),
        "blocked": task_manager_id in fold.master.blocklist.task_managers,
        "ready": held.ready,
        "registered_at": iso_time(known.registered_at_ms) or "",
        "metrics_address": known.metrics_address,
        "spark_ends": known.spark_ends,
        "spark_end": spark_end_view(known.spark_end),
        "hardware": known.hardware,
        "spark_addresses": list(held.spark_addresses),
    }

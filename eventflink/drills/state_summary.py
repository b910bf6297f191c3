"""What a state amounts to, small enough to keep two of them, and what changed from the one to the other."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from eventflink.leadership.fold import Fold
from eventflink.model.statuses import JobStatus

MAX_NAMED: Final = 20
"""How many jobs or TaskManagers are named before the rest is only counted."""


@dataclass(frozen=True, slots=True)
class StateSummary:
    """Jobs, TaskManagers and slots of one state."""

    log_offset: int
    epoch: int
    jobs: dict[str, JobStatus]
    task_managers: dict[str, str]
    """The registered instance of each."""
    slots: int
    slots_free: int

    @classmethod
    def of(cls, fold: Fold) -> "StateSummary":
        """Return the summary of a state; it shares nothing with it."""
        master = fold.master
        registered = master.resource_manager.task_managers
        return cls(
            log_offset=fold.last_offset,
            epoch=fold.acceptance.epoch,
            jobs={job_id: job.status for job_id, job in master.dispatcher.jobs.items()},
            task_managers={task_manager_id: t.instance_id for task_manager_id, t in registered.items()},
            slots=sum(t.slot_count for t in registered.values()),
            slots_free=master.slot_manager.get_number_free_slots(),
        )

    def count_jobs(self) -> dict[str, int]:
        """Return how many jobs are in each status."""
        return {str(status): count for status, count in sorted(Counter(self.jobs.values()).items())}


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two states of one log."""

    epochs: int
    jobs_submitted: int
    jobs_moved: dict[str, int]
    """How many jobs went from one status to another, as 'RUNNING → FINISHED'; new ones come from nowhere, evicted ones go there."""
    jobs_named: list[str]
    """The first of those jobs, with their move."""
    task_managers_gained: list[str]
    task_managers_lost: list[str]
    task_managers_replaced: list[str]
    """Registered before and after, under another instance."""
    slots: int
    slots_free: int


def changes_between(before: StateSummary, after: StateSummary) -> Changes:
    """Return what changed; numbers of slots are differences."""
    moves: Counter[str] = Counter()
    named: list[str] = []
    for job_id in (*before.jobs, *(j for j in after.jobs if j not in before.jobs)):
        was, now = before.jobs.get(job_id), after.jobs.get(job_id)
        if was is now:
            continue
        move = f"{was or '(new)'} → {now or '(evicted)'}"
        moves[move] += 1
        if len(named) < MAX_NAMED:
            named.append(f"{job_id}: {move}")
    old, new = before.task_managers, after.task_managers
    return Changes(
        epochs=after.epoch - before.epoch,
        jobs_submitted=sum(job_id not in before.jobs for job_id in after.jobs),
        jobs_moved=dict(sorted(moves.items())),
        jobs_named=named,
        task_managers_gained=sorted(new.keys() - old.keys()),
        task_managers_lost=sorted(old.keys() - new.keys()),
        task_managers_replaced=sorted(t for t in old.keys() & new.keys() if old[t] != new[t]),
        slots=after.slots - before.slots,
        slots_free=after.slots_free - before.slots_free,
    )

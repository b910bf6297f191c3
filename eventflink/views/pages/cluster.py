"""The page of the whole cluster: whether everything is fine, and if not, what is broken and whose it is."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from eventflink.documents.cluster import ClusterPage, Masters, SlotCounts
from eventflink.documents.task_managers import TaskManagerTile
from eventflink.leadership.fold import Fold
from eventflink.model.resources import total_of
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.views.failures import newest_failures
from eventflink.views.jobs_and_cluster import shutdown_view
from eventflink.views.pages.health import health
from eventflink.views.pages.task_managers import task_manager_slots
from eventflink.views.vertex_waits import VertexWaits

MAX_WAITS: Final = 5
MAX_FAILURES: Final = 5
_ENDED_BADLY: Final = (JobStatus.FAILING, JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.CANCELED)
"""The statuses of jobs that are left out of the newest failures: a failed job is a problem already, a cancelled one is none."""

MAX_SLOTS: Final = 2_000
"""TaskManagers are shown up to so many slots in all."""


def cluster_page(fold: Fold) -> ClusterPage:
    """Return the overview of a cluster."""
    master = fold.master
    jobs, slots = master.dispatcher.jobs.values(), master.slot_manager
    waits = VertexWaits(master)
    live = [job for job in jobs if job.status not in TERMINAL_JOB_STATUSES]
    of_cluster = waits.of_jobs(live)
    sentence, problems = health(fold, waits, of_cluster)
    return ClusterPage(
        sentence=sentence,
        problems=problems,
        jobs=dict(Counter(job.status for job in jobs)),
        tasks=dict(sum((job.execution_graph.state_counts() for job in live), Counter[ExecutionState]())),
        slots=SlotCounts(
            total=slots.get_number_registered_slots(),
            free=slots.get_number_free_slots(),
            pending=slots.get_number_pending_task_manager_slots(),
            requests=slots.get_number_pending_slot_requests(),
            resources=total_of((profile, totals.slots) for profile, totals in slots.totals.items()),
            resources_free=total_of((profile, totals.free) for profile, totals in slots.totals.items()),
        ),
        waits=[waits.view(wait) for wait in of_cluster[:MAX_WAITS]],
        waits_total=len(of_cluster),
        failures=newest_failures((job for job in jobs if job.status not in _ENDED_BADLY), MAX_FAILURES),
        task_managers=list(_shown_task_managers(fold)),
        task_managers_total=len(master.resource_manager.task_managers),
        masters=Masters(leader=master.leader.master_id, blob_address=master.leader.blob_address),
        shutdown=shutdown_view(master.shutdown),
    )


def _shown_task_managers(fold: Fold) -> Iterator[TaskManagerTile]:
    slots = 0
    for task_manager_id, known in fold.master.resource_manager.task_managers.items():
        slots += known.slot_count
        if slots > MAX_SLOTS:
            return
        yield task_manager_slots(fold, task_manager_id)

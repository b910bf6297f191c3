"""The page of all that waits, and why: trouble first, then what has waited for longest."""

from collections import Counter

from eventflink.documents.waits import WaitReason, WaitsPage
from eventflink.leadership.fold import Fold
from eventflink.views.queues import queue_rows
from eventflink.views.vertex_waits import VertexWaits


def waits_page(fold: Fold, first: int, limit: int) -> WaitsPage:
    """Return the waits from the `first`-th on, how many tasks wait for each reason, and the queues of jobs."""
    waits = VertexWaits(fold.master)
    found = waits.of_jobs(fold.master.dispatcher.jobs.values())
    tasks = Counter[WaitReason]()
    for wait in found:
        tasks[wait.reason] += wait.tasks
    shown = [waits.view(wait) for wait in found[first : first + limit]]
    queues = queue_rows(fold.master.slot_manager)
    return WaitsPage(total=len(found), tasks=tasks.total(), tasks_by_reason=dict(tasks), waits=shown, queues=queues)

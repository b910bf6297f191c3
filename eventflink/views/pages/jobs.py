"""The page of all jobs: which is mine, and which needs me.

Filters and order are of all jobs; rows are made for those alone that are shown.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, Final

from eventflink.documents.jobs import Anchor, JobsPage, ListedJob
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.actors import is_called
from eventflink.model.job_about import has_labels
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus
from eventflink.views.failures import cause_in_words, is_seen_to, run_again_by
from eventflink.views.jobs_and_cluster import row_fields
from eventflink.views.pages.health import RECENT_MS
from eventflink.views.plain import one_sentence
from eventflink.views.vertex_waits import VertexWaits


class JobOrder(StrEnum):
    """What jobs are ordered by."""

    NEWEST = "newest"
    NAME = "name"
    STATUS = "status"
    DURATION = "duration"
    TROUBLE = "trouble"


_TROUBLE: Final = {JobStatus.FAILING: 1, JobStatus.RESTARTING: 2, JobStatus.CANCELLING: 4, JobStatus.SUSPENDED: 4}
_WAITS, _HAS_RESTARTED, _LIVES, _FAILED_LONG_AGO, _ENDED = 3, 5, 6, 7, 8


def jobs_page(
    fold: Fold,
    statuses: Collection[str],
    name: str,
    actor: str,
    sort: str,
    first: int,
    limit: int,
    anchor: str = "",
    labels: Collection[str] = (),
) -> JobsPage:
    """Return the jobs from the `first`-th on of those that fit, and how many fit.

    `statuses`: one of these (none: any); `name`: a part of the name, or how the id begins, in any case; `actor`: who submitted it;
    `labels`: all of these. `by_status` counts those that fit by name, actor and labels; `anchor` names a job whose place among those that
    fit is told.
    """
    known = list(reversed(fold.master.dispatcher.jobs.values()))
    wanted = name.lower()
    named = [job for job in known if _fits(job, wanted, actor, labels)] if wanted or actor or labels else known
    matching = [job for job in named if job.status in statuses] if statuses else named
    if (key := _key_of(fold, JobOrder(sort))) is not None:
        matching = sorted(matching, key=key)
    waits, again = VertexWaits(fold.master), run_again_by(fold.master.dispatcher.jobs.values())
    index = next((n for n, job in enumerate(matching) if job.job_id == anchor), None) if anchor else None
    return JobsPage(
        total=len(known),
        matching=len(matching),
        by_status=dict(Counter(job.status for job in named)),
        jobs=[_row(fold, waits, job, again) for job in matching[first : first + limit]],
        anchor=Anchor(job_id=anchor, index=index) if anchor else None,
    )


def _fits(job: JobMaster, name: str, actor: str, labels: Collection[str]) -> bool:
    graph = job.execution_graph.graph
    if (actor and not is_called(job.actor, actor)) or not has_labels(graph.about, labels):
        return False
    return not name or name in graph.name.lower() or job.job_id.lower().startswith(name)


def _row(fold: Fold, waits: VertexWaits, job: JobMaster, again: Mapping[str, str]) -> ListedJob:
    failed = one_sentence(cause_in_words(job.cause)) if job.cause is not None else None
    return ListedJob(
        **row_fields(job, fold.last_decided_at_ms),
        run_again_by=again.get(job.job_id),
        why=next((waits.sentence(wait) for wait in waits.of_jobs([job])), failed),
        stream=job.checkpoints is not None,
    )


def _key_of(fold: Fold, order: JobOrder) -> Callable[[JobMaster], Any] | None:
    """Return what jobs are ordered by that stand in the order of the newest; None: they are in order."""
    now_ms = fold.last_decided_at_ms
    match order:
        case JobOrder.NEWEST:
            return None
        case JobOrder.NAME:
            return lambda job: job.execution_graph.graph.name
        case JobOrder.STATUS:
            return lambda job: job.status
        case JobOrder.DURATION:
            return lambda job: job.submitted_at_ms - (job.ended_at_ms or max(now_ms, job.submitted_at_ms))
        case JobOrder.TROUBLE:
            return _trouble(fold)


def _trouble(fold: Fold) -> Callable[[JobMaster], int]:
    """Return the order of trouble: what failed lately and nobody has seen to comes first.

    What fails, restarts or waits for slots comes before what runs and what is over.
    """
    waiting = fold.master.slot_manager.queues.by_job
    recent_ms, again = fold.last_decided_at_ms - RECENT_MS, run_again_by(fold.master.dispatcher.jobs.values())

    def rank(job: JobMaster) -> int:
        status = job.status
        if status is JobStatus.FAILED:
            return 0 if job.ended_at_ms >= recent_ms and not is_seen_to(job, again) else _FAILED_LONG_AGO
        if status in TERMINAL_JOB_STATUSES:
            return _ENDED
        if status in _TROUBLE:
            return _TROUBLE[status]
        if job.job_id in waiting:
            return _WAITS
        return _HAS_RESTARTED if job.restarts.count else _LIVES

    return rank

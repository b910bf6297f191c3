"""What became of the Sparks of TaskManagers, in words: when and why each ended last, and which jobs lost it again and again."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from eventflink.documents.task_managers import SparkEndOfHost
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.failure_types import SPARK_HEAP_FULL, SPARK_LOST
from eventflink.views.plain import iso_time

if TYPE_CHECKING:
    from eventflink.model.spark_ends import SparkEnd

MAX_NAMED: Final = 5


def spark_end_view(end: "SparkEnd | None") -> SparkEndOfHost | None:
    """Return when and why a Spark ended last; None: it never did by itself."""
    return SparkEndOfHost(ended_at=iso_time(end.ended_at_ms) or "", reason=end.reason) if end is not None else None


def ended_sparks(fold: Fold, troubled: Iterable[JobMaster], since_ms: int) -> list[tuple[str, str]]:
    """Return each Spark whose last end is not older than `since_ms`, the newest first: a TaskManager that has it, and a sentence.

    TaskManagers of one host share a Spark, and tell its end each. The jobs that lost it more than once are named: what ends a Spark twice
    is mostly a job that needs more memory than it has.
    """
    sharing: dict[tuple[str, SparkEnd], list[str]] = {}
    for name, known in fold.master.resource_manager.task_managers.items():
        if known.spark_end is not None and known.spark_end.ended_at_ms >= since_ms:
            sharing.setdefault((known.host, known.spark_end), []).append(name)
    if not sharing:
        return []
    losses = _losses(troubled, since_ms)
    newest = sorted(sharing.items(), key=lambda each: -each[0][1].ended_at_ms)
    return [(names[0], _sentence(fold, end, names, losses)) for (_, end), names in newest]


def _losses(troubled: Iterable[JobMaster], since_ms: int) -> Counter[tuple[str, str]]:
    """Count the failures by which jobs lost their Spark, by TaskManager and job."""
    return Counter(
        (failure.task_manager_id, job.job_id)
        for job in troubled
        for root in job.exceptions.roots
        for failure in (root.failure, *root.concurrent)
        if failure.at_ms >= since_ms and failure.cause.failure_type in (SPARK_LOST, SPARK_HEAP_FULL)
    )


def _sentence(fold: Fold, end: "SparkEnd", names: list[str], losses: Counter[tuple[str, str]]) -> str:
    ends = max(fold.master.resource_manager.task_managers[name].spark_ends for name in names)
    before = f" (the last of {ends} times since the TaskManager registered)" if ends > 1 else ""
    by_job = Counter[str]()
    for (name, job_id), count in losses.items():
        by_job[job_id] += count if name in names else 0
    again = [f"'{job_id}' ({count} times)" for job_id, count in by_job.most_common(MAX_NAMED) if count > 1]
    who = f"; lost again and again by {'job' if len(again) == 1 else 'jobs'} {', '.join(again)}" if again else ""
    shared = ", ".join(f"'{name}'" for name in islice(names, MAX_NAMED))
    of = f"{'TaskManager' if len(names) == 1 else f'{len(names)} TaskManagers'} {shared}"
    return f"the Spark of {of} ended at {iso_time(end.ended_at_ms)}{before}: {end.reason}{who}"

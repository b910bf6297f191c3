"""What is wrong with a cluster, each in a sentence with where to look, and all of it in one sentence of health.

What ended is a problem for an hour of the log's time (`RECENT_MS`), and no longer once the job was run again, or somebody has dismissed its
failure. That an attempt waits for its inputs, or a job is cancelled, is none.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final
from urllib.parse import quote

from eventflink.documents.cluster import Problem, Severity
from eventflink.documents.waits import WaitReason
from eventflink.events.wording import iso_time
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.model.durations import duration_text
from eventflink.model.statuses import ENDING_JOB_STATUSES, TERMINAL_JOB_STATUSES, JobStatus, SkipReason
from eventflink.views.exceptions import exception_view
from eventflink.views.failures import cause_in_words, is_seen_to, run_again_by
from eventflink.views.plain import one_sentence
from eventflink.views.spark_ends import ended_sparks
from eventflink.views.standing_streams import standing_streams
from eventflink.views.vertex_waits import VertexWait, VertexWaits
from eventflink.views.waits import SLOT_REASONS

RECENT_MS: Final = 3_600_000
MAX_OF_A_KIND: Final = 5
_RUNS: Final = frozenset(JobStatus) - TERMINAL_JOB_STATUSES - frozenset(ENDING_JOB_STATUSES)
_FAILED: Final = (JobStatus.FAILING, JobStatus.FAILED)
_LOST: Final = "TaskManagerLost"
"""One that was stopped in order is not lost."""


def health(fold: Fold, waits: VertexWaits, of_cluster: list[VertexWait]) -> tuple[str, list[Problem]]:
    """Return the sentence of health, and the problems, the gravest first."""
    since_ms = fold.last_decided_at_ms - RECENT_MS
    # Among 10,000 jobs few have failures: they are looked for once.
    troubled = [job for job in fold.master.dispatcher.jobs.values() if job.exceptions.roots or job.status in _FAILED]
    again = run_again_by(fold.master.dispatcher.jobs.values())
    failed = [job for job in troubled if _failed_lately(job, since_ms) and not is_seen_to(job, again)]
    lost = _lost_task_managers(fold, troubled, since_ms)
    without_slot = [wait for wait in of_cluster if wait.reason in SLOT_REASONS]
    restarting = [wait for wait in of_cluster if wait.reason is WaitReason.RESTART_DELAY]
    standing = [(job, found) for job in fold.master.dispatcher.jobs.values() if job.status in _RUNS and (found := standing_streams(job))]
    late = [
        job for job in map(fold.master.dispatcher.job, fold.master.dispatcher.limited_jobs) if job.time_limit_is_near and not job.is_closing
    ]
    without_spark = ended_sparks(fold, troubled, since_ms)
    without_jobs = _schedules_without_jobs(fold, since_ms)
    is_empty = _has_no_room(fold) and not without_slot
    parts = [
        _count(len(failed), "job", "failed"),
        _tasks(without_slot, "for a slot"),
        _tasks(restarting, "to start again"),
        _count(sum(len(found) for _, found in standing), "stream", "brings nothing to an end", "bring nothing to an end"),
        _count(len(late), "job", "is near its time limit", "are near their time limits"),
        _count(len(lost), "TaskManager", "was lost", "were lost"),
        _count(len(without_spark), "Spark", "ended by itself", "ended by themselves"),
        _count(len(without_jobs), "schedule", "cannot start its job", "cannot start their jobs"),
        _ABSENT if is_empty else "",
        _count(len(fold.master.follow_ups.parked), "input", "is parked", "are parked"),
        _SHUT_DOWN if fold.master.shutdown.is_under_way else "",
    ]
    problems = [
        *_failed_jobs(failed),
        *_waits_by_reason(waits, [*without_slot, *restarting]),
        *_standing(standing),
        *[_problem(Severity.LATE, _why_late(job), f"/jobs/{quote(job.job_id, '')}") for job in late[:MAX_OF_A_KIND]],
        *[_problem(Severity.LOST, sentence, f"/taskmanagers/{quote(name, '')}") for name, sentence in list(lost.items())[:MAX_OF_A_KIND]],
        *[_problem(Severity.SPARK_ENDED, sentence, f"/taskmanagers/{quote(name, '')}") for name, sentence in without_spark[:MAX_OF_A_KIND]],
        *[_problem(Severity.FAILED, sentence, f"/schedules/{quote(name, '')}") for name, sentence in without_jobs[:MAX_OF_A_KIND]],
        *([_problem(Severity.WAITS, _ABSENT, "/taskmanagers")] if is_empty else []),
        *_parked(fold),
        *([_problem(Severity.SHUTDOWN, _SHUT_DOWN, "/")] if fold.master.shutdown.is_under_way else []),
    ]
    return _sentence(fold, [part for part in parts if part]), problems


def _failed_lately(job: JobMaster, since_ms: int) -> bool:
    return job.status is JobStatus.FAILING or (job.status is JobStatus.FAILED and job.ended_at_ms >= since_ms)


_ABSENT: Final = "no TaskManager is registered"
_SHUT_DOWN: Final = "the cluster is shut down"


def _sentence(fold: Fold, wrong: list[str]) -> str:
    if wrong:
        said = f"{', '.join(wrong[:-1])} and {wrong[-1]}" if len(wrong) > 1 else wrong[0]
        return f"{said[0].upper()}{said[1:]}. Nothing else is wrong."
    running = sum(job.status in _RUNS for job in fold.master.dispatcher.jobs.values())
    return f"{_count(running, 'job', 'runs', 'run') or 'No job runs'}. Nothing is wrong."


def _count(number: int, what: str, verb: str, verb_of_many: str = "") -> str:
    if not number:
        return ""
    return f"1 {what} {verb}" if number == 1 else f"{number} {what}s {verb_of_many or verb}"


def _tasks(waits: list[VertexWait], awaited: str) -> str:
    tasks = sum(wait.tasks for wait in waits)
    since_ms = min((wait.since_ms for wait in waits if wait.since_ms), default=0)
    since = f" since {iso_time(since_ms)}" if since_ms else ""
    return f"{_count(tasks, 'task', 'waits', 'wait')} {awaited}{since}" if tasks else ""


def _problem(severity: Severity, sentence: str, link: str) -> Problem:
    said = one_sentence(sentence)
    return Problem(severity=severity, sentence=said[0].upper() + said[1:], link=link)


def _failed_jobs(failed: list[JobMaster]) -> list[Problem]:
    newest = sorted(failed, key=lambda job: -job.status_since_ms)
    shown = [_problem(Severity.FAILED, _why_failed(job), f"/jobs/{quote(job.job_id, '')}") for job in newest[:MAX_OF_A_KIND]]
    more = len(newest) - len(shown)
    return [*shown, _problem(Severity.FAILED, _count(more, "more job", "failed"), "/jobs?status=FAILED")] if more else shown


def _why_failed(job: JobMaster) -> str:
    newest = job.exceptions.newest
    why = f": {exception_view(newest).task}: {cause_in_words(newest.failure.cause)}" if newest is not None else ""
    return f"job '{job.job_id}' {'failed' if job.status is JobStatus.FAILED else 'fails'}{why}"


def _waits_by_reason(waits: VertexWaits, troubled: list[VertexWait]) -> list[Problem]:
    """Return a problem for each reason: the wait that has lasted for longest, and how many more tasks wait for the same reason."""
    tasks = Counter[WaitReason]()
    first: dict[WaitReason, VertexWait] = {}
    for wait in troubled:
        tasks[wait.reason] += wait.tasks
        first.setdefault(wait.reason, wait)
    problems = []
    for reason, wait in list(first.items())[:MAX_OF_A_KIND]:
        more = tasks[reason] - wait.tasks
        others = f"; {_count(more, 'other task', 'waits', 'wait')} for the same reason" if more else ""
        said = waits.sentence(wait).removesuffix(".")
        link = f"/jobs/{quote(wait.job.job_id, '')}" if not more else "/waits"
        problems.append(_problem(Severity.WAITS, f"job '{wait.job.job_id}': {said}{others}", link))
    return problems


def _standing(standing: list[tuple[JobMaster, list[tuple[SubtaskKey, str]]]]) -> list[Problem]:
    """Return a problem for each job: its first stream that brings nothing to an end, and how many more of its streams do not."""
    problems = []
    for job, found in standing[:MAX_OF_A_KIND]:
        (vertex_id, index), why = found[0]
        others = f"; {_count(len(found) - 1, 'other stream', 'brings', 'bring')} nothing to an end either" if len(found) > 1 else ""
        sentence = f"job '{job.job_id}': {vertex_id}[{index}]: {why}{others}"
        problems.append(_problem(Severity.STANDS, sentence, f"/jobs/{quote(job.job_id, '')}/flow"))
    return problems


def _why_late(job: JobMaster) -> str:
    limit = duration_text(job.execution_graph.graph.time_limit_ms or 0)
    fails = f"it fails at {iso_time(job.fails_at_ms or 0)} if it has not ended"
    return f"job '{job.job_id}' has used up most of its time limit of {limit}: {fails}"


def _schedules_without_jobs(fold: Fold, since_ms: int) -> list[tuple[str, str]]:
    """Return the schedules that the cluster itself has paused, or whose last instant could not start its job, each with why."""
    found = []
    for schedule_id, schedule in fold.master.schedules.schedules.items():
        last = schedule.history[-1] if schedule.history else None
        if schedule.pause is not None and not schedule.pause.actor:
            found.append((schedule_id, f"schedule '{schedule_id}' is paused: {schedule.pause.reason}"))
        elif last is not None and last.skipped is SkipReason.REFUSED and last.decided_at_ms >= since_ms:
            found.append((schedule_id, f"schedule '{schedule_id}' could not start its job: {last.message}"))
    return found


def _lost_task_managers(fold: Fold, troubled: Iterable[JobMaster], since_ms: int) -> dict[str, str]:
    """Return the TaskManagers whose tasks failed with them within the hour and that have not come back, each with what was lost."""
    registered = fold.master.resource_manager.task_managers
    lost_at_ms: dict[str, int] = {}
    tasks = Counter[str]()
    for job in troubled:
        for root in job.exceptions.roots:
            for failure in (root.failure, *root.concurrent):
                name = failure.task_manager_id
                if failure.at_ms >= since_ms and failure.cause.failure_type == _LOST and name and name not in registered:
                    tasks[name] += 1
                    lost_at_ms[name] = max(failure.at_ms, lost_at_ms.get(name, 0))
    return {
        name: f"TaskManager '{name}' was lost at {iso_time(at_ms)}: {_count(tasks[name], 'task', 'failed')} with it"
        for name, at_ms in sorted(lost_at_ms.items(), key=lambda each: -each[1])
    }


def _parked(fold: Fold) -> list[Problem]:
    """Return the oldest that could not be decided and wait for an operator."""
    parked = islice(fold.master.follow_ups.parked.items(), MAX_OF_A_KIND)
    return [
        _problem(Severity.FAILED, f"{' of '.join(filter(None, name))} could not be decided, as {one.parked_id}: {one.reason}", "/refused")
        for name, one in parked
    ]


def _has_no_room(fold: Fold) -> bool:
    """Tell whether there is no TaskManager, and none was ever asked of a resource driver, which starts them when they are needed."""
    return not fold.master.resource_manager.task_managers and fold.master.workers.next_worker == 1

"""The life of an ended job: when something of it changed, and its archive as it would have been written at one of these moments.

An archive has the end of a job, and of most of what happened when it did: so a moment is computed, and nothing has to be recorded for it.
What the end does not tell is left out and never made up: a checkpoint is there from its end on, the parallelism is that of the end, and
what is no longer remembered at the end (old attempts, old checkpoints) was not there before either.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from eventflink.documents.checkpoints import (
    CheckpointRow,
    JobCheckpoints,
    NewestCheckpoints,
    StreamOfSubtask,
)
from eventflink.documents.failures import JobExceptions
from eventflink.documents.log import MarkKind
from eventflink.documents.one_job import AccumulatorInfo, AttemptInfo, JobArchive, JobInfo, ReuseOfVertex, SubtaskInfo, VertexInfo
from eventflink.model.attempts import FailureCause
from eventflink.model.reuse import VertexReuse
from eventflink.model.statuses import CheckpointStatus, ExecutionState, JobStatus, ReuseReason
from eventflink.views.accumulators import added_up
from eventflink.views.jobs_and_cluster import reuse_view
from eventflink.views.plain import reaction_of

_STAGES: Final = (
    ("ended_at", None),
    ("running_at", ExecutionState.RUNNING),
    ("deployed_at", ExecutionState.DEPLOYING),
    ("scheduled_at", ExecutionState.SCHEDULED),
)
"""When an attempt came how far, the last first; how it ended, it says itself."""

_ORDER: Final = (
    JobStatus.INITIALIZING,
    JobStatus.CREATED,
    JobStatus.RECONCILING,
    JobStatus.RESTARTING,
    JobStatus.SUSPENDED,
    JobStatus.RUNNING,
    JobStatus.CANCELLING,
    JobStatus.FAILING,
    JobStatus.CANCELED,
    JobStatus.FAILED,
    JobStatus.FINISHED,
)
"""In which a job enters statuses within one millisecond."""


@dataclass(frozen=True, slots=True)
class ChangeOfJob:
    """Something that happened to a job."""

    at: str
    """ISO 8601 in UTC with milliseconds, as all times of an archive: they compare as texts."""
    label: str
    kind: MarkKind | None = None


def changes_of(archive: JobArchive) -> list[ChangeOfJob]:
    """Return what happened to a job, in order; the first is its submission."""
    job, ended_at = archive.job, archive.job.ended_at or ""
    found = [ChangeOfJob(job.submitted_at, "submitted"), *_of_attempts(job), *_of_failures(archive), *_of_checkpoints(archive)]
    for at, status in _statuses(archive):
        found.append(ChangeOfJob(at, f"the job is {status}", MarkKind.STOP if at == ended_at and status is job.status else None))
    return sorted((change for change in found if job.submitted_at <= change.at <= ended_at), key=lambda change: change.at)


def archive_at(archive: JobArchive, at: str) -> JobArchive:
    """Return the archive as it would have been at a moment: from the end on it is what it is."""
    job = archive.job
    if at >= (job.ended_at or ""):
        return archive
    exceptions = _exceptions_at(archive.exceptions, at)
    entered = [entry for entry in [(job.submitted_at, JobStatus.INITIALIZING), *_statuses(archive)] if entry[0] <= at]
    since, status = entered[-1]
    shown = _job_at(job, exceptions, at, cancels=status in {JobStatus.CANCELLING, JobStatus.FAILING})
    return replace(
        archive,
        job=replace(shown, status=status, status_since=since, status_times={each: time for time, each in entered}),
        result=replace(archive.result, status=status, accumulators=_counted(shown), **_NO_RESULT),
        exceptions=replace(exceptions, status=status),
        checkpoints=replace(_checkpoints_at(archive.checkpoints, at), status=status),
    )


_NO_RESULT: Final[dict[str, Any]] = {"is_terminal": False, "ended_at": None, "net_run_time_ms": None, "cause": None}


def _counted(job: JobInfo) -> list[AccumulatorInfo]:
    """Return what the tasks that had ended have counted."""
    return added_up(row.attempts[-1].accumulators for vertex in job.vertices for row in vertex.subtasks if row.attempts)


def _stages_of(attempt: AttemptInfo) -> Iterator[tuple[str, ExecutionState]]:
    """Yield when an attempt came how far, the last first."""
    for stage, state in _STAGES:
        if (at := getattr(attempt, stage)) is not None:
            yield at, state or attempt.state


def _of_attempts(job: JobInfo) -> Iterator[ChangeOfJob]:
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            for attempt in subtask.attempts:
                for at, state in _stages_of(attempt):
                    yield ChangeOfJob(at, f"{vertex.vertex_id}[{subtask.subtask_index}]#{attempt.attempt} is {state}")


def _of_failures(archive: JobArchive) -> Iterator[ChangeOfJob]:
    for each in archive.exceptions.exceptions:
        led_to = reaction_of(each)
        yield ChangeOfJob(each.at, f"{each.task} failed{f': {led_to}' if led_to else ''}", MarkKind.FAILURE)


def _of_checkpoints(archive: JobArchive) -> Iterator[ChangeOfJob]:
    for each in archive.checkpoints.history:
        done = each.status is CheckpointStatus.COMPLETED
        what, kind = ("savepoint", MarkKind.SAVEPOINT) if each.savepoint else ("checkpoint", MarkKind.CHECKPOINT)
        yield ChangeOfJob(_end_of(each), f"{what} {each.checkpoint_id} {'is complete' if done else 'failed'}", kind if done else None)


def _statuses(archive: JobArchive) -> list[tuple[str, JobStatus]]:
    """Return when a job entered which status, in order.

    An archive has when it entered each of them the last time. Earlier restarts are those of its failures, and each was over when one of
    the tasks that it was for had its next attempt.
    """
    job = archive.job
    entered = {(at, status) for status, at in job.status_times.items() if at is not None}
    scheduled = {
        f"{vertex.vertex_id}[{subtask.subtask_index}]": [each.scheduled_at for each in subtask.attempts if each.scheduled_at]
        for vertex in job.vertices
        for subtask in vertex.subtasks
    }
    if begun := min((times[0] for times in scheduled.values() if times), default=None):
        entered.add((begun, JobStatus.RUNNING))
    for each in archive.exceptions.exceptions:
        if restart := each.restart:
            entered.add((each.at, JobStatus.RESTARTING))
            again = [at for task in restart.tasks for at in scheduled.get(task, ()) if at > each.at]
            entered |= {(min(again), JobStatus.RUNNING)} if again else set()
    entered.add((job.ended_at or "", job.status))
    return sorted(entered, key=lambda entry: (entry[0], _ORDER.index(entry[1])))


def _job_at(job: JobInfo, exceptions: JobExceptions, at: str, *, cancels: bool) -> JobInfo:
    failed = _last_failures(exceptions)
    vertices = []
    for vertex in job.vertices:
        rows = [_subtask_at(row, at, failed.get((vertex.vertex_id, row.subtask_index)), cancels=cancels) for row in vertex.subtasks]
        reuse = _reuse_at(vertex, rows, job.rerun_of or "")
        vertices.append(replace(vertex, subtasks=rows, states=dict(Counter(row.state for row in rows)), reuse=reuse))
    states = Counter(row.state for vertex in vertices for row in vertex.subtasks)
    return replace(
        job,
        vertices=vertices,
        tasks_by_state=dict(states),
        tasks_finished=states[ExecutionState.FINISHED],
        restarts=exceptions.restarts,
        ended_at=None,
        duration_ms=_ms_between(job.submitted_at, at),
        slot_requests=[],
        slot_requirements=[],
        cause=None,
        exceptions=exceptions.exceptions[: len(job.exceptions)],
        exceptions_total=exceptions.total,
    )


def _reuse_at(vertex: VertexInfo, rows: list[SubtaskInfo], job_id: str) -> ReuseOfVertex | None:
    if vertex.reuse is None or vertex.reuse.reason is not ReuseReason.UNCHANGED:
        return vertex.reuse
    still = all(row.attempts and row.attempts[-1].reused_from for row in rows)
    return reuse_view(VertexReuse(vertex.vertex_id, vertex.reuse.reason), job_id, still=still)


def _subtask_at(subtask: SubtaskInfo, at: str, failure: FailureCause | None, *, cancels: bool) -> SubtaskInfo:
    known = subtask.attempts
    attempts = [_attempt_at(each, at, cancels=cancels) for each in known if any(entered <= at for entered, _ in _stages_of(each))]
    last = attempts[-1] if attempts else None
    number = last.attempt if last is not None else known[0].attempt if known else subtask.attempt
    state = last.state if last is not None else ExecutionState.CREATED
    return replace(
        subtask,
        attempt=number,
        state=state,
        task_manager_id=last.task_manager_id if last is not None else None,
        restart_at=None,
        attempts=attempts,
        outputs=subtask.outputs if state is ExecutionState.FINISHED and number == subtask.attempt else {},
        last_failure=failure,
    )


def _attempt_at(attempt: AttemptInfo, at: str, *, cancels: bool) -> AttemptInfo:
    times: dict[str, Any] = {}
    for stage, _ in _STAGES:
        entered = getattr(attempt, stage)
        times[stage] = entered if entered is not None and entered <= at else None
    shown = replace(attempt, **times)
    state = next(state for _, state in _stages_of(shown))
    if shown.ended_at is None:
        # A job that is to end has told all of its tasks in the same decision.
        state = ExecutionState.CANCELING if cancels and shown.deployed_at is not None else state
        shown = replace(shown, io=None, accumulators=[])
        if shown.deployed_at is None:
            shown = replace(shown, task_manager_id=None, instance_id=None)
    return replace(shown, state=state)


def _exceptions_at(view: JobExceptions, at: str) -> JobExceptions:
    shown = []
    for each in view.exceptions:
        if each.at <= at:
            concurrent = [other for other in each.concurrent if other.at <= at]
            later = len(each.concurrent) - len(concurrent)
            shown.append(replace(each, concurrent=concurrent, concurrent_count=each.concurrent_count - later))
    total = view.total - (len(view.exceptions) - len(shown))
    restarts = next((each.restart.restarts for each in shown if each.restart is not None), 0)
    return replace(view, exceptions=shown, total=total, truncated=total > len(shown), restarts=restarts)


def _last_failures(exceptions: JobExceptions) -> dict[tuple[str, int], FailureCause]:
    """Return the cause of the newest failure of each subtask."""
    found: dict[tuple[str, int], FailureCause] = {}
    for root in exceptions.exceptions:
        for each in (root, *root.concurrent):
            found.setdefault((each.vertex_id, each.subtask_index), each.cause)
    return found


def _checkpoints_at(view: JobCheckpoints, at: str) -> JobCheckpoints:
    history = [each for each in view.history if _end_of(each) <= at]
    later = Counter(each.status for each in view.history if _end_of(each) > at)
    counts = replace(
        view.counts,
        in_progress=0,
        triggered=view.counts.triggered - later.total() - int(view.pending is not None),
        completed=view.counts.completed - later[CheckpointStatus.COMPLETED],
        failed=view.counts.failed - later[CheckpointStatus.FAILED],
    )
    complete = [each for each in history if each.status is CheckpointStatus.COMPLETED]
    failed = [each for each in history if each.status is CheckpointStatus.FAILED]
    known, restored = view.latest, view.latest.restored
    latest = NewestCheckpoints(
        completed=next(iter(complete), None) or _if_there(known.completed, at),
        savepoint=next((each for each in complete if each.savepoint), None) or _if_there(known.savepoint, at),
        failed=next(iter(failed), None) or _if_there(known.failed, at),
        restored=restored if restored is not None and restored.at <= at else None,
    )
    there = {each.checkpoint_id for each in history}
    subtasks = [_stream_at(row, at) for row in view.subtasks]
    retained = [number for number in view.retained if number in there]
    return replace(view, counts=counts, latest=latest, pending=None, retained=retained, history=history, subtasks=subtasks)


def _if_there(checkpoint: CheckpointRow | None, at: str) -> CheckpointRow | None:
    return checkpoint if checkpoint is not None and _end_of(checkpoint) <= at else None


def _stream_at(row: StreamOfSubtask, at: str) -> StreamOfSubtask:
    start = row.start if row.start is not None and row.start.at <= at else None
    if row.answer is not None and row.answer.at <= at:
        return replace(row, start=start)
    return replace(row, start=start, answer=None, back_pressure=None)


def _end_of(checkpoint: CheckpointRow) -> str:
    ended = datetime.fromisoformat(checkpoint.triggered_at) + timedelta(milliseconds=checkpoint.duration_ms)
    return ended.isoformat(timespec="milliseconds")


def _ms_between(first: str, last: str) -> int:
    return round((datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() * 1000)

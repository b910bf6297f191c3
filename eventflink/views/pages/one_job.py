"""The page of one job: how it stands, where it is stuck, and what it waits for. Its subtasks are in pages of their own, by vertex.

Of a job that has left the memory the same page is made of its archive.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from eventflink.documents.checkpoints import CheckpointsSummary
from eventflink.documents.one_job import EdgeOfJob, JobArchive, JobHead, JobPage, SubtaskInfo, VertexOfJob, VertexRow
from eventflink.documents.plain import part_of
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.model.job_graph import JobEdge
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, BackPressureLevel, ExecutionState, JobStatus, SavepointMode
from eventflink.views.checkpoints import checkpoints_summary
from eventflink.views.failures import cause_in_words, failure_sentence
from eventflink.views.jobs_and_cluster import head_fields, newest_exceptions, vertex_fields
from eventflink.views.pages.flow import archived_flow, flow_of
from eventflink.views.pages.job_parts import with_words
from eventflink.views.plain import fields_of, iso_time, one_sentence, sum_of_known
from eventflink.views.queries import job_of
from eventflink.views.vertex_waits import VertexWaits

MAX_WAITS: Final = 100


def job_page(fold: Fold, job_id: str) -> JobPage:
    """Return a job without its subtasks; raises `JobNotFound`."""
    job = job_of(fold, job_id)
    slots, waits = fold.master.slot_manager, VertexWaits(fold.master)
    found = waits.of_jobs([job])
    words = job.checkpoints.last_words if job.checkpoints is not None else {}
    graph = job.execution_graph
    page = JobPage(
        **head_fields(fold, job),
        stream=job.checkpoints is not None,
        waits=[waits.view(wait) for wait in found[:MAX_WAITS]],
        waits_total=len(found),
        vertices=[_row(vertex_fields(v, job, slots), _work_of(v) | flow_of(v, words)) for v in graph.vertices.values()],
        edges=list(map(_edge, graph.graph.edges)),
        restarts_due=len(job.restarts.due),
        checkpoints=checkpoints_summary(job),
        exceptions=list(map(with_words, newest_exceptions(job))),
    )
    return replace(page, sentence=job_sentence(page))


def archived_job_page(archive: JobArchive) -> JobPage:
    """Return the page of a job from its archive."""
    job, checkpoints = archive.job, archive.checkpoints
    page = JobPage(
        **fields_of(job, JobHead),
        stream=job.has_streams,
        vertices=[
            _row(fields_of(vertex, VertexOfJob), _archived_work(vertex.subtasks) | archived_flow(vertex.vertex_id, checkpoints.subtasks))
            for vertex in job.vertices
        ],
        edges=list(map(_edge, job.edges)),
        checkpoints=part_of(CheckpointsSummary, checkpoints),
        exceptions=list(map(with_words, job.exceptions)),
    )
    return replace(page, sentence=job_sentence(page))


def _row(vertex: dict[str, Any], done: dict[str, Any]) -> VertexRow:
    states = vertex["states"]
    ended = sum(count for state, count in states.items() if state in TERMINAL_EXECUTION_STATES)
    row = VertexRow(**vertex, tasks_ended=ended, **done)
    return replace(row, back_pressure=None) if ended == sum(states.values()) else row


def _edge(edge: JobEdge) -> EdgeOfJob:
    fields = fields_of(edge)
    return EdgeOfJob(pipelined=fields.pop("pipeline") is not None, **fields)


def job_sentence(job: JobPage) -> str:  # noqa: PLR0911 - one return for each way to stand
    """Return how a job stands in one sentence, of the values that its page shows."""
    tasks, states = job.tasks, job.tasks_by_state
    alive = sum(count for state, count in states.items() if state not in TERMINAL_EXECUTION_STATES)
    trouble = next((wait.sentence for wait in job.waits if wait.trouble), "")
    match job.status:
        case JobStatus.FINISHED:
            return f"{'All of its' if tasks != 1 else 'Its'} {_tasks(tasks)} finished{_saved(job)}."
        case JobStatus.CANCELED:
            return f"It was cancelled when {job.tasks_finished} of {tasks} tasks had finished."
        case JobStatus.FAILED | JobStatus.FAILING as status:
            has = "has" if alive == 1 else "have"
            word = "It failed" if status is JobStatus.FAILED else f"It fails, and {alive} of {tasks} tasks {has} not ended"
            return one_sentence(f"{word}: {cause_in_words(job.cause)}" if job.cause else word)
        case JobStatus.SUSPENDED:
            because = f": {job.suspended_because}" if job.suspended_because else ""
            return one_sentence(f"It is suspended with {job.tasks_finished} of {tasks} tasks finished{because}")
        case JobStatus.CANCELLING:
            return f"It is being cancelled, and {alive} of {tasks} tasks {'has' if alive == 1 else 'have'} not ended."
        case JobStatus.RESTARTING if job.exceptions:
            return failure_sentence(job.exceptions[0])
    if trouble:
        return trouble
    running, finished = states.get(ExecutionState.RUNNING, 0), job.tasks_finished
    ended = f", {finished} {'has' if finished == 1 else 'have'} finished" if finished else ""
    waits = f" {job.waits[0].sentence}" if job.waits else ""
    runs = "is" if running == 1 else "are"
    one = "Its task is running" if running else "Its task does not run yet"
    return f"{one if tasks == 1 else f'{running} of {tasks} tasks {runs} running'}{ended}.{_flow(job)}{waits}"


def _tasks(tasks: int) -> str:
    return f"{tasks} tasks have" if tasks != 1 else "task has"


def _saved(job: JobPage) -> str:
    """Return with which savepoint a job was stopped; empty: with none."""
    latest = job.checkpoints.latest.savepoint
    saved = latest.savepoint if latest is not None else None
    return f"; it was stopped with the savepoint {saved.path}" if saved and saved.mode in (SavepointMode.STOP, SavepointMode.DRAIN) else ""


def _work_of(vertex: ExecutionVertex) -> dict[str, Any]:
    """Return when the first attempt began and all had ended, and how many records the finished ones read and wrote (null: unknown)."""
    executions = [subtask.execution for subtask in vertex.subtasks if subtask.execution is not None]
    told = [execution.io for execution in executions if execution.io is not None]
    has_ended = len(executions) == vertex.parallelism and all(execution.ended_at_ms for execution in executions)
    return {
        "read_records": sum_of_known(io.read_records for io in told),
        "write_records": sum_of_known(io.write_records for io in told),
        "began_at": iso_time(min((each.deployed_at_ms for each in executions if each.deployed_at_ms), default=0)),
        "ended_at": iso_time(max(each.ended_at_ms for each in executions)) if has_ended else None,
    }


def _archived_work(subtasks: Sequence[SubtaskInfo]) -> dict[str, Any]:
    """Return the same of an ended job, from its subtasks."""
    newest = [attempt for subtask in subtasks for attempt in subtask.attempts if attempt.attempt == subtask.attempt]
    told = [attempt.io for attempt in newest if attempt.io is not None]
    ends = [attempt.ended_at for attempt in newest if attempt.ended_at is not None]
    return {
        "read_records": sum_of_known(io.read_records for io in told),
        "write_records": sum_of_known(io.write_records for io in told),
        "began_at": min(filter(None, (attempt.deployed_at for attempt in newest)), default=None),
        "ended_at": max(ends) if len(ends) == len(subtasks) else None,
    }


def _flow(job: JobPage) -> str:
    """Return whether the streams of a job keep up, by that one which does least, and as of when that is known; empty: no stream lives."""
    streams = [vertex for vertex in job.vertices if vertex.stream and vertex.tasks_ended < vertex.parallelism]
    if not streams:
        return ""
    known = [(vertex.back_pressure, vertex) for vertex in streams if vertex.back_pressure is not None]
    if not known:
        return " Whether it keeps up is known with the first checkpoint."
    pressure, least = max(known, key=lambda each: each[0].ratio)
    at = least.flow_at
    if pressure.level is not BackPressureLevel.OK:
        return f" '{least.vertex_id}' does not keep up, as of {at}: {pressure.reason}."
    behind = "" if least.lag is None else f", {least.lag:,} are behind"
    written = _written([vertex for _, vertex in known])
    return f" It keeps up, as of {at}: {least.records_per_second or 0:,.0f} records come in a second{behind}.{written}"


def _written(streams: list[VertexRow]) -> str:
    """Return when streams have written rows last; empty: it is not known."""
    if at := max(filter(None, (vertex.written_at for vertex in streams)), default=None):
        return f" The last rows that were written are of the batch of {at}."
    is_known = all(vertex.rows_written is not None for vertex in streams)
    return " Since its attempts began, no row was written." if is_known else ""

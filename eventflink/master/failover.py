"""What a job does when an attempt fails: it restarts some of its subtasks, or fails itself. Nothing here changes anything.

Every edge is blocking, so a failover region is a single subtask, and what finished subtasks published stays. Under the strategy *region*
a failed subtask restarts alone; if it failed because outputs of others are lost, these start again as well, and with them every subtask
that has begun anywhere downstream of them: a second run of a writer may share its rows out differently, and no reader may have seen
the first. Under *full* all subtasks that have begun start again, together. Live attempts are cancelled first, and a new attempt is made
only after the old one is terminal (P15).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from eventflink.events.log_events import JobStatusChanged, LogEvent, RegionRestarted, RestartScheduled, TaskFailed, TaskStateChanged
from eventflink.master.execution_graph import ExecutionGraph, Subtask, SubtaskKey
from eventflink.master.inputs import RestartsDue
from eventflink.master.job_master import JobMaster
from eventflink.master.rescaling import decide_rescales
from eventflink.master.restart_strategies import NoRestart, Restart
from eventflink.master.restarts import subtasks_to_restart
from eventflink.master.settings import Context
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause, LostInput, SubtaskReference
from eventflink.model.failure_types import TASK_TIME_LIMIT
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, FailoverStrategy, JobStatus

RESTART_BATCH: Final = 256
"""How many subtasks one decision starts again at most; the rest follows in the next (P10a)."""

MAX_SLOT_REFUSALS: Final = 10
"""After this many refused slots in a row an attempt fails like any other."""

MAX_LOST_INPUTS: Final = 1_000
"""Of one report; what else is lost shows when the attempt after it reads."""


def decide_failure(
    job: JobMaster, subtask: Subtask, cause: FailureCause, now_ms: int, lost_inputs: Sequence[LostInput] = ()
) -> list[LogEvent]:
    """Fail an attempt: it restarts later, or the job fails, as the restart strategy has it.

    A failure that a restart under way covers joins that one, and is not counted. What ends because it was told to is cancelled, or has
    exceeded its time limit, whatever it failed of.
    """
    attempt = job.attempt_of(subtask)
    if subtask.state is ExecutionState.CANCELING:
        if not subtask.exceeds_time_limit:
            return [TaskStateChanged(*attempt, ExecutionState.CANCELING, ExecutionState.CANCELED)]
        cause, lost_inputs = _cause_of_time_limit(job, subtask), ()
    failed = TaskFailed(*attempt, cause)
    if job.is_ending or subtask.key in job.restarts.due:
        return [failed]
    if job.closing is not None:
        return _decide_failure_of_closing(job, subtask, failed, now_ms)
    is_restarting = job.status is JobStatus.RESTARTING
    lost = _lost_outputs(job.execution_graph, subtask, lost_inputs)
    vertex = job.execution_graph.vertices[subtask.vertex_id].vertex
    restart = job.restarts.next(cause, vertex, subtask.key, job.job_id, now_ms, is_restarting=is_restarting)
    if _is_reused(job.execution_graph, lost):
        restart = Restart(0, is_counted=False)
    if isinstance(restart, NoRestart):
        return [failed, JobStatusChanged(job.job_id, job.status, JobStatus.FAILING, restart.reason)]
    scheduled = _restart_scheduled(job, subtask, restart, lost, now_ms)
    return [failed, scheduled, *([] if is_restarting else [JobStatusChanged(job.job_id, job.status, JobStatus.RESTARTING)])]


def _decide_failure_of_closing(job: JobMaster, subtask: Subtask, failed: TaskFailed, now_ms: int) -> list[LogEvent]:
    """Fail an attempt of a closing vertex: it is tried again, or it is over; the status of its job stays."""
    vertex = job.execution_graph.vertices[subtask.vertex_id].vertex
    restart = job.restarts.next_of_closing(failed.cause, vertex, subtask.key)
    return [failed] if isinstance(restart, NoRestart) else [failed, _restart_scheduled(job, subtask, restart, (), now_ms)]


def _restart_scheduled(
    job: JobMaster, subtask: Subtask, restart: Restart, lost: tuple[SubtaskReference, ...], now_ms: int
) -> RestartScheduled:
    return RestartScheduled(
        job.job_id,
        subtask.vertex_id,
        subtask.subtask_index,
        now_ms + restart.delay_ms,
        job.restarts.count + 1,
        restart.backoff_ms,
        failed_attempt=subtask.attempt,
        delay_ms=restart.delay_ms,
        failover_strategy=job.restarts.failover_strategy,
        task_count=len(subtasks_to_restart(job.execution_graph, subtask, job.restarts.failover_strategy, lost)),
        lost_outputs=lost,
        is_counted=restart.is_counted,
        retry_rule=restart.retry_rule,
    )


def _cause_of_time_limit(job: JobMaster, subtask: Subtask) -> FailureCause:
    why = job.execution_graph.describe_time_limit(subtask.vertex_id)
    what_to_do = "raise the vertex's 'time_limit' if it needs longer, or see in its logs where it stood"
    return FailureCause(TASK_TIME_LIMIT, f"{why}, and was ended: {what_to_do}")


def decide_refusal(job: JobMaster, subtask: Subtask, reason: str, now_ms: int) -> list[LogEvent]:
    """Fail an attempt whose slot was refused; it gets another slot at once, a bounded number of times."""
    cause = FailureCause("SlotOfferRejected", f"the TaskExecutor refused the slot: {reason}")
    is_first = subtask.state is ExecutionState.DEPLOYING and subtask.refusals < MAX_SLOT_REFUSALS
    if not is_first or job.is_ending or subtask.key in job.restarts.due:
        return decide_failure(job, subtask, cause, now_ms)
    return [
        TaskFailed(*job.attempt_of(subtask), cause),
        RegionRestarted(job.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt + 1),
    ]


def decide_restarts(job: JobMaster, now_ms: int) -> list[LogEvent]:
    """Start a batch of the subtasks again whose delay is over, or rescaled; the job is RUNNING when none is left, unless it is closed."""
    if not _may_restart(job, now_ms):
        return []
    rescaled = decide_rescales(job, now_ms, RESTART_BATCH)
    due = list(islice(_restartable(job, now_ms), RESTART_BATCH - len(rescaled)))
    events: list[LogEvent] = [*rescaled]
    for vertex_id, index in due:
        attempt = job.execution_graph.vertices[vertex_id].subtasks[index].attempt
        events.append(RegionRestarted(job.job_id, vertex_id, index, attempt + 1))
    if (
        job.closing is None
        and events
        and len(due) + sum(len(job.restarts.keys_of(r.vertex_id, r.from_parallelism)) for r in rescaled) == len(job.restarts.due)
    ):
        events.append(JobStatusChanged(job.job_id, job.status, JobStatus.RUNNING))
    return events


def decide_restarts_due(state: ClusterState, due: RestartsDue, context: Context) -> list[LogEvent]:
    """Start subtasks of a job again whose delay is over."""
    job = state.dispatcher.jobs.get(due.job_id)
    return decide_restarts(job, context.now_ms) if job is not None else []


def _may_restart(job: JobMaster, now_ms: int) -> bool:
    """Tell whether any subtask may: of a full restart none before the delays of all are over, and all attempts have ended."""
    subtask_of = job.execution_graph.vertices
    return job.restarts.failover_strategy is not FailoverStrategy.FULL or all(
        at_ms <= now_ms and subtask_of[vertex_id].subtasks[index].state in TERMINAL_EXECUTION_STATES
        for (vertex_id, index), at_ms in job.restarts.due.items()
    )


def _restartable(job: JobMaster, now_ms: int) -> Iterator[SubtaskKey]:
    """Yield the subtasks whose delay is over and whose attempt has ended; a vertex that is rescaled starts as a whole."""
    subtask_of = job.execution_graph.vertices
    for (vertex_id, index), at_ms in job.restarts.due.items():
        ended = subtask_of[vertex_id].subtasks[index].state in TERMINAL_EXECUTION_STATES
        if at_ms <= now_ms and ended and vertex_id not in job.rescales.pending:
            yield vertex_id, index


def _lost_outputs(graph: ExecutionGraph, reader: Subtask, lost_inputs: Sequence[LostInput]) -> tuple[SubtaskReference, ...]:
    """Return the subtasks whose results a reader could not read, without those that are being computed again already."""
    sources: dict[str, str] = {edge.input_name: edge.source for edge in graph.edges_to.get(reader.vertex_id, ())}
    found: dict[SubtaskKey, None] = {}
    for lost in lost_inputs[:MAX_LOST_INPUTS]:
        writer = graph.subtask(sources.get(lost.input_name, ""), lost.subtask_index)
        if writer is not None and writer.has_result:
            found[writer.key] = None
    return tuple([SubtaskReference(vertex_id, index) for vertex_id, index in found])


def _is_reused(graph: ExecutionGraph, lost: Sequence[SubtaskReference]) -> bool:
    """Tell whether an output was lost that another job has left: what is to run in its place has not run in this job yet."""
    subtasks = (graph.subtask(each.vertex_id, each.subtask_index) for each in lost)
    return any(s is not None and s.executions[-1].reused_from for s in subtasks)

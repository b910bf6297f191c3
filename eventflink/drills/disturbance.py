"""Which tasks a change of leader disturbed: the attempts that were alive before, and what the log says of them afterwards."""

from dataclasses import dataclass

from eventflink.leadership.fold import Fold
from eventflink.model.attempts import SubtaskId
from eventflink.model.statuses import ExecutionState

_ALIVE = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What became of the attempts that were alive."""

    alive: int
    """How many there were."""
    undisturbed: int
    """Still the same attempt, and alive."""
    finished: int
    """Came to their end with a result, or their job ended and was forgotten."""
    disturbed: list[str]
    """Ended without a result, or were replaced by another attempt: which, and how."""


def live_attempts(fold: Fold) -> dict[SubtaskId, int]:
    """Return the attempt of every subtask that has one on a TaskManager."""
    return {
        SubtaskId(job_id, subtask.vertex_id, subtask.subtask_index): subtask.attempt
        for job_id, job in fold.master.dispatcher.jobs.items()
        for subtask in job.execution_graph.subtasks()
        if subtask.state in _ALIVE
    }


def disturbance(before: dict[SubtaskId, int], fold: Fold) -> Disturbance:
    """Return what the state says of the attempts that were alive."""
    undisturbed = finished = 0
    disturbed = []
    for subtask_id, attempt in before.items():
        job = fold.master.dispatcher.jobs.get(subtask_id.job_id)
        subtask = None if job is None else job.execution_graph.subtask(subtask_id.vertex_id, subtask_id.subtask_index)
        if subtask is None or (subtask.attempt == attempt and subtask.state is ExecutionState.FINISHED):
            finished += 1
        elif subtask.attempt == attempt and subtask.state in (*_ALIVE, ExecutionState.CANCELING):
            undisturbed += 1
        else:
            how = subtask.state if subtask.attempt == attempt else f"replaced by attempt {subtask.attempt}, {subtask.state}"
            why = f" ({subtask.last_failure.failure_type})" if subtask.last_failure else ""
            disturbed.append(f"{subtask_id.job_id}/{subtask_id.vertex_id}[{subtask_id.subtask_index}]#{attempt}: {how}{why}")
    return Disturbance(len(before), undisturbed, finished, disturbed)

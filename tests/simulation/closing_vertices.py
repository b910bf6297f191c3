"""Closing vertices in runs: jobs with vertices that run at their end, and the judge of which of them ran, and when.

The judge goes by what the log says of jobs and attempts: it uses nothing of what the masters compute. How long closing vertices may take is
judged with the other time limits (`time_limits.py`).
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, TERMINAL_JOB_STATUSES, ExecutionState, JobStatus, VertexRuns
from eventflink.testing.simulation.violations import Invariant, ViolationFound

if TYPE_CHECKING:
    from eventflink.model.attempts import AttemptId
    from eventflink.model.job_graph import JobGraph

_SHARE: Final = 0.35
"""Of the runs."""
_JOBS: Final = 0.6
_LIMITS: Final = ("1s", "8s", "30s", "30s")
_RETRIES: Final = (0, 1, 3)
_RUNS_AFTER: Final = {
    JobStatus.FINISHED: (VertexRuns.ON_SUCCESS, VertexRuns.ALWAYS),
    JobStatus.FAILED: (VertexRuns.ON_FAILURE, VertexRuns.ALWAYS),
    JobStatus.CANCELED: (VertexRuns.ALWAYS,),
}
_ENDS: Final = {
    JobStatus.RUNNING: JobStatus.FINISHED,
    JobStatus.FAILING: JobStatus.FAILED,
    JobStatus.CANCELLING: JobStatus.CANCELED,
}


class ClosingVertices:
    """Authors of jobs that clean up after themselves. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} closing vertices")
        self.are_there = self._rng.random() < _SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph with closing vertices, or as it was."""
        rng = self._rng
        if not self.are_there or rng.random() >= _JOBS:
            return graph
        runs = rng.sample(("on-success", "on-failure", "always"), rng.randint(1, 3))
        closing = [
            {"id": f"closing{number}", "python": "jobs:close", "parallelism": rng.choice((1, 1, 2)), "runs": each}
            | ({"retries": attempts} if (attempts := rng.choice(_RETRIES)) else {})
            for number, each in enumerate(runs)
        ]
        return graph | {"vertices": [*graph["vertices"], *closing], "closing_time_limit": rng.choice(_LIMITS)}


class ClosingLedger:
    """What the log says of the jobs that have closing vertices."""

    def __init__(self) -> None:
        self._graphs: dict[str, JobGraph] = {}
        self._statuses: dict[str, JobStatus] = {}
        self._outcomes: dict[str, JobStatus] = {}
        """By job whose closing vertices have begun, how the others came out."""
        self._aborted: set[str] = set()
        self._attempts: dict[str, dict[AttemptId, ExecutionState]] = {}
        """By job, its attempts that have been scheduled."""
        self._restarts: dict[str, set[tuple[str, int]]] = {}
        """By job, the subtasks that are to start again."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: a closing vertex begins too early, or after an end that it is not for, or a job ends without it or otherwise.

        """
        for event in decision.events:
            if isinstance(event, e.JobSubmitted) and any(vertex.is_closing for vertex in event.job_graph.vertices):
                self._graphs[event.job_id] = event.job_graph
                self._attempts[event.job_id], self._restarts[event.job_id] = {}, set()
            if (job_id := getattr(event, "job_id", None)) in self._graphs:
                self._take_of_job(job_id, event, offset)
                self._take_of_attempt(job_id, event, offset)

    def _take_of_job(self, job_id: str, event: e.LogEvent, offset: int) -> None:
        match event:
            case e.JobClosingStarted():
                alive = [a for a, state in self._attempts[job_id].items() if state not in TERMINAL_EXECUTION_STATES]
                fits = _ENDS.get(self._statuses[job_id]) is event.outcome.status and job_id not in self._outcomes
                self._check(fits and not alive, offset, event, f"it is {self._statuses[job_id]}, and {alive} are alive")
                self._outcomes[job_id] = event.outcome.status
            case e.JobClosingAborted():
                self._check(job_id in self._outcomes, offset, event, "no closing vertex has begun")
                self._aborted.add(job_id)
                self._restarts[job_id].clear()
            case e.JobStatusChanged():
                self._statuses[job_id] = event.to_status
                if event.to_status in TERMINAL_JOB_STATUSES:
                    self._check(
                        self._outcomes.get(job_id) is event.to_status, offset, event, f"it was to end as {self._outcomes.get(job_id)}"
                    )
                    self._check_all_have_run(job_id, event, offset)
                else:
                    self._check(job_id not in self._outcomes, offset, event, "its closing vertices have begun")

    def _take_of_attempt(self, job_id: str, event: e.LogEvent, offset: int) -> None:
        attempts = self._attempts[job_id]
        match event:
            case e.TaskScheduled():
                self._check(self._may_begin(job_id, event.vertex_id), offset, event, f"the others came out as {self._outcomes.get(job_id)}")
                attempts[event.attempt_id] = ExecutionState.SCHEDULED
            case e.TaskStateChanged() if event.from_state is not ExecutionState.CREATED:
                attempts[event.attempt_id] = event.to_state
            case e.TaskFinished():
                attempts[event.attempt_id] = ExecutionState.FINISHED
            case e.TaskFailed():
                attempts[event.attempt_id] = ExecutionState.FAILED
            case e.RestartScheduled() if job_id in self._outcomes:
                self._restarts[job_id].add((event.vertex_id, event.subtask_index))
            case e.RegionRestarted() if job_id in self._outcomes:
                self._restarts[job_id].discard((event.vertex_id, event.subtask_index))

    def _may_begin(self, job_id: str, vertex_id: str) -> bool:
        runs = next(vertex.runs for vertex in self._graphs[job_id].vertices if vertex.vertex_id == vertex_id)
        outcome = self._outcomes.get(job_id)
        if outcome is None:
            return runs is VertexRuns.IN_TURN
        return runs in _RUNS_AFTER[outcome] and job_id not in self._aborted

    def _check_all_have_run(self, job_id: str, event: e.JobStatusChanged, offset: int) -> None:
        """Check that each closing vertex has ended that runs after this end, unless they were cancelled."""
        last: dict[tuple[str, int], ExecutionState] = {}
        for attempt, state in self._attempts[job_id].items():
            last[attempt.vertex_id, attempt.subtask_index] = state
        alive = [key for key, state in last.items() if state not in TERMINAL_EXECUTION_STATES]
        self._check(not alive and not self._restarts[job_id], offset, event, f"{alive} are alive, {self._restarts[job_id]} start again")
        if job_id in self._aborted:
            return
        for vertex in self._graphs[job_id].vertices:
            if vertex.runs in _RUNS_AFTER[event.to_status]:
                ended = [last.get((vertex.vertex_id, index)) for index in range(vertex.parallelism)]
                done = all(state in (ExecutionState.FINISHED, ExecutionState.FAILED) for state in ended)
                self._check(done, offset, event, f"{vertex.vertex_id} is {ended}")

    @staticmethod
    def _check(holds: bool, offset: int, event: object, message: str) -> None:  # noqa: FBT001 - what is checked is said where it is
        if not holds:
            raise ViolationFound(Invariant.CLOSED_LAST, f"log@{offset}: {event}: {message}")

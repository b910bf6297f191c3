"""Time limits in runs: jobs whose documents have some, and the judge of who ended of one.

The judge adds up times itself, from what the log says of attempts and jobs: it uses nothing of what the masters compute.
"""

from random import Random
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.leadership.acceptance import is_grant
from eventflink.model.attempts import AttemptId, HasAttemptId
from eventflink.model.closing import closing_limit_ms_of
from eventflink.model.failure_types import JOB_TIME_LIMIT, TASK_TIME_LIMIT
from eventflink.model.statuses import RUNNING_JOB_STATUSES, TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SHARE: Final = 0.3
"""Of the runs."""
_JOBS: Final = 0.6
_VERTICES: Final = 0.7
_SHORT: Final = ("300ms", "1500ms", "4s")
_LONG: Final = ("3s", "8s", "20s", "40s")
_CLOSING: Final = "closing vertices"
_LONGEST_GAP_MS: Final = 200
"""A leader that has said nothing for longer may have been away."""
_PATIENCE_MS: Final = 5_000
"""So long leaders may decide other things before they decide that a time is up: reports that waited, or a first look at timers (P10)."""


class TimeLimits:
    """Authors of jobs that are not to take for ever. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} time limits")
        self.are_there = self._rng.random() < _SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph with time limits, or as it was: a job of streams has none."""
        rng = self._rng
        if not self.are_there or rng.random() >= _JOBS or any("stream" in vertex for vertex in graph["vertices"]):
            return graph
        # One that exceeds the limit of a vertex each time, and always starts again, ends by its own.
        limited = [v | ({"time_limit": rng.choice(_SHORT)} if rng.random() < _VERTICES else {}) for v in graph["vertices"]]
        return graph | {"vertices": limited, "time_limit": rng.choice(_LONG)}


class TimeLimitLedger:
    """What the log says of attempts and jobs that have a time limit."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], int] = {}
        """Of a vertex, by its job; of the job itself, with an empty name; of its closing vertices together."""
        self._since: dict[tuple[str, str] | AttemptId, int] = {}
        """When the attempts began to run that do, and jobs to use their time, as if they had never been suspended."""
        self._suspended_at: dict[str, int] = {}
        self._statuses: dict[str, JobStatus] = {}
        self._told: set[AttemptId] = set()
        """Those that live, and were told to end since their time was up."""
        self._awaited_ms: dict[tuple[str, str] | AttemptId, int] = {}
        """For how long leaders have decided other things since the time of somebody was up."""
        self._last: tuple[str, int] = ("", 0)
        self.exceeded = 0
        """How many attempts and jobs have failed of a limit."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: somebody is ended before the time is up, or goes on long after it, or is not said to have failed of it.

        """
        if is_grant(decision):
            return
        at_ms = decision.decided_at_ms
        for event in decision.events:
            self._take_of_job(event, at_ms, offset)
            self._take_of_closing(event, at_ms, offset)
            self._take_of_attempt(event, at_ms, offset)
        leader_id, before_ms = self._last
        self._last = decision.leader_id, at_ms
        if leader_id == decision.leader_id:
            self._check_who_goes_on(min(at_ms - before_ms, _LONGEST_GAP_MS), at_ms, offset)

    def _take_of_job(self, event: e.LogEvent, at_ms: int, offset: int) -> None:
        match event:
            case e.JobSubmitted():
                limits = {"": event.job_graph.time_limit_ms} | {v.vertex_id: v.time_limit_ms for v in event.job_graph.vertices}
                self._limits |= {(event.job_id, name): limit_ms for name, limit_ms in limits.items() if limit_ms is not None}
                self._limits[event.job_id, _CLOSING] = closing_limit_ms_of(event.job_graph)
                self._since[event.job_id, ""] = at_ms
            case e.JobMasterStarted():
                if event.job_id in self._suspended_at:
                    self._since[event.job_id, ""] += at_ms - self._suspended_at.pop(event.job_id)
            case e.JobStatusChanged():
                self._statuses[event.job_id] = event.to_status
                if event.to_status is JobStatus.SUSPENDED:
                    self._suspended_at[event.job_id] = at_ms
            case e.GlobalFailureOccurred() if event.cause.failure_type == JOB_TIME_LIMIT:
                self._check_is_over((event.job_id, ""), (event.job_id, ""), at_ms, offset)
                self.exceeded += 1

    def _take_of_closing(self, event: e.LogEvent, at_ms: int, offset: int) -> None:
        match event:
            case e.JobClosingStarted():  # The job has no limit any more; its closing vertices have one.
                self._since.pop((event.job_id, ""), None)
                self._since[event.job_id, _CLOSING] = at_ms
            case e.JobClosingAborted():
                if event.reason.startswith("the closing vertices have used their time"):
                    self._check_is_over((event.job_id, _CLOSING), (event.job_id, _CLOSING), at_ms, offset)
                del self._since[event.job_id, _CLOSING]
            case e.JobStatusChanged() if event.to_status in TERMINAL_JOB_STATUSES:
                self._since.pop((event.job_id, _CLOSING), None)

    def _take_of_attempt(self, event: e.LogEvent, at_ms: int, offset: int) -> None:
        match event:
            case e.TaskStateChanged():
                self._move(event, event.to_state, at_ms, offset)
            case e.TaskCancellationRequested():
                if event.exceeds_time_limit:
                    self._check_is_over((event.job_id, event.vertex_id), event.attempt_id, at_ms, offset)
                    self._told.add(event.attempt_id)
                self._move(event, ExecutionState.CANCELING, at_ms, offset)
            case e.TaskFailed():
                is_limit = event.cause.failure_type == TASK_TIME_LIMIT
                if is_limit is not (event.attempt_id in self._told):
                    raise _violation(offset, f"{event.attempt_id} fails of {event.cause.failure_type}; told to end: {self._told}")
                self.exceeded += is_limit
                self._told.discard(event.attempt_id)
                self._move(event, ExecutionState.FAILED, at_ms, offset)
            case e.TaskFinished():
                self._move(event, ExecutionState.FINISHED, at_ms, offset)

    def _move(self, event: HasAttemptId, state: ExecutionState, at_ms: int, offset: int) -> None:
        self._since.pop(event.attempt_id, None)
        if state is ExecutionState.RUNNING:
            self._since[event.attempt_id] = at_ms
        elif event.attempt_id in self._told and state is not ExecutionState.CANCELING:
            raise _violation(offset, f"{event.attempt_id} is {state}, and was told to end since its time was up")

    def _check_is_over(self, limit: tuple[str, str], who: tuple[str, str] | AttemptId, at_ms: int, offset: int) -> None:
        used_ms = at_ms - self._since[who]
        if used_ms < self._limits[limit]:
            raise _violation(offset, f"{who} has used {used_ms} ms of {self._limits[limit]}")

    def _check_who_goes_on(self, passed_ms: int, at_ms: int, offset: int) -> None:
        """Count the time in which a leader has decided since a time was up, and not that it is."""
        over = set()
        for who, since_ms in self._since.items():
            limit_ms = self._limits.get((who[0], who[1]))
            runs = self._statuses[who[0]] in RUNNING_JOB_STATUSES or who[1] == _CLOSING
            if limit_ms is not None and at_ms - since_ms >= limit_ms and runs:
                over.add(who)
        self._awaited_ms = {who: self._awaited_ms.get(who, 0) + passed_ms for who in over}
        for who, awaited_ms in self._awaited_ms.items():
            if awaited_ms > _PATIENCE_MS:
                raise _violation(offset, f"{who} goes on, since {self._since[who]}, with a limit of {self._limits[who[0], who[1]]} ms")


def _violation(offset: int, message: str) -> ViolationFound:
    return ViolationFound(Invariant.TIME_LIMITS, f"log@{offset}: {message}")

"""The restarts of one job: which subtasks start again and when, and what its restart strategy goes by.

What follows from a failure is decided in `failover.py`; here are the data, and how events change them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import JobMasterStarted, JobRestartScheduled, RestartScheduled
from eventflink.master.canonical import require
from eventflink.master.execution_graph import ExecutionGraph, Subtask, SubtaskKey
from eventflink.master.restart_strategies import NoRestart, Restart, RestartHistory, next_restart
from eventflink.master.retries import next_retry, rule_for, rule_for_any
from eventflink.model.attempts import FailureCause, SubtaskReference
from eventflink.model.failure_types import cannot_heal, is_lost_with_task_manager, is_restarted_by_itself
from eventflink.model.job_graph import JobVertex, RestartStrategy
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, FailoverStrategy, IllegalTransition, JobStatus

MAX_UNCOUNTED_RESTARTS: Final = 5
"""So often a job starts again for what its code has no part in; then its strategy decides."""

UNCOUNTED_DELAY_MS: Final = 1_000
MAX_UNCOUNTED_DELAY_MS: Final = 30_000
"""The first wait before such a restart, twice as long each time, and the longest."""


@dataclass(slots=True)
class Restarts:
    """What is to start again, and what was restarted before."""

    strategy: RestartStrategy | None = None
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    count: int = 0
    """How many restarts the job had."""
    due: dict[SubtaskKey, int] = field(default_factory=dict)
    """Subtasks that wait to start again, with when at the earliest; the attempts of some may still be alive."""
    begun: bool = False
    """Some of the subtasks of a full restart have started again, and the others follow at once."""
    history: RestartHistory = field(default_factory=RestartHistory)
    uncounted: int = 0
    """How many of these restarts no code of the job has a part in: its strategy does not count them."""
    retries: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """How many of them were retries of a subtask, by its vertex, its index and the number of the rule: nor does it count these."""

    def begin(self, event: JobMasterStarted) -> None:
        """Go by the strategies of the JobMaster that starts."""
        self.strategy, self.failover_strategy = event.restart_strategy, event.failover_strategy

    def schedule(self, event: RestartScheduled | JobRestartScheduled, at_ms: int) -> None:
        """Count a restart; which subtasks it restarts is said one by one (`add`)."""
        self.count = event.restarts
        if isinstance(event, RestartScheduled) and event.retry_rule:
            retry = (event.vertex_id, event.subtask_index, event.retry_rule)
            self.retries[retry] = self.retries.get(retry, 0) + 1
        elif isinstance(event, RestartScheduled) and not event.is_counted:
            self.uncounted += 1
        else:
            self.history.note(self.strategy, event.backoff_ms, at_ms)

    def add(self, key: SubtaskKey, at_ms: int) -> None:
        """Have a subtask start again, when its attempt has ended and not before `at_ms`."""
        self.due[key] = max(at_ms, self.due.get(key, at_ms))

    def resume(self, subtasks: Iterable[Subtask], at_ms: int) -> None:
        """Have all subtasks of a resumed job that have no result start again, together."""
        self.due = {subtask.key: at_ms for subtask in subtasks}
        self.begun = bool(self.due)

    def next(
        self, cause: FailureCause, vertex: JobVertex, key: SubtaskKey, job_id: str, now_ms: int, *, is_restarting: bool
    ) -> Restart | NoRestart:
        """Return whether, and when, the job starts again after an attempt of a subtask of a vertex failed of this cause."""
        return self._next_uncounted(cause, vertex, key) or self.next_counted(job_id, now_ms, is_restarting=is_restarting)

    def _next_uncounted(self, cause: FailureCause, vertex: JobVertex, key: SubtaskKey) -> Restart | NoRestart | None:
        """Return what is said to a failure before its job's restart strategy is asked; None: nothing."""
        if rule := rule_for(vertex, cause):
            return next_retry(vertex, rule, self.retries.get((*key, rule), 0), cause)
        if cannot_heal(cause):
            return NoRestart(f"{cause.failure_type} is not restarted: each attempt would fail in the same way")
        if is_restarted_by_itself(cause) and self.uncounted < MAX_UNCOUNTED_RESTARTS:
            return self._uncounted_restart()
        if rule := rule_for_any(vertex):
            return next_retry(vertex, rule, self.retries.get((*key, rule), 0), cause)
        return None

    def next_counted(self, job_id: str, now_ms: int, *, is_restarting: bool) -> Restart | NoRestart:
        """Return what the restart strategy says to a failure."""
        counted = self.count - self.uncounted - sum(self.retries.values())
        return next_restart(self.strategy, counted, self.history, job_id, now_ms, is_restarting=is_restarting)

    def _uncounted_restart(self) -> Restart:
        return Restart(min(UNCOUNTED_DELAY_MS << self.uncounted, MAX_UNCOUNTED_DELAY_MS), is_counted=False)

    def next_of_closing(self, cause: FailureCause, vertex: JobVertex, key: SubtaskKey) -> Restart | NoRestart:
        """Return whether, and when, a closing vertex is tried again: by its own retries, or since its code has no part in the failure."""
        if (found := self._next_uncounted(cause, vertex, key)) is not None:
            return found
        if is_lost_with_task_manager(cause) and self.uncounted < MAX_UNCOUNTED_RESTARTS:
            return self._uncounted_restart()
        return NoRestart("a closing vertex is tried again by its own retries alone")

    def begin_closing(self) -> None:
        """Count anew what the closing vertices have no part in; each subtask of them starts again alone."""
        self.failover_strategy, self.uncounted = FailoverStrategy.REGION, 0

    def start(self, key: SubtaskKey, *, together: bool) -> bool:
        """Take note that a subtask has started again; tell whether it was waiting to. The others follow at once if `together`."""
        waited = self.due.pop(key, None) is not None
        self.begun = together and bool(self.due)
        return waited

    def forget(self, keys: Iterable[SubtaskKey]) -> None:
        """Take out subtasks that are there no more: their vertex was rescaled."""
        for key in keys:
            del self.due[key]
        self.begun = self.failover_strategy is FailoverStrategy.FULL and bool(self.due)

    def clear(self) -> None:
        """Restart nothing: the job ends."""
        self.due.clear()
        self.begun = False

    def keys_of(self, vertex_id: str, parallelism: int) -> list[SubtaskKey]:
        """Return the subtasks of a vertex that wait to start again."""
        return [(vertex_id, index) for index in range(parallelism) if (vertex_id, index) in self.due]

    def validate(self, job_id: str, status: JobStatus, graph: ExecutionGraph, to_cancel: Iterable[SubtaskKey], *, is_closing: bool) -> None:
        """Check what waits against the graph and the job's status; `to_cancel` are the live attempts that are told to end."""
        for vertex_id, index in self.due:
            subtask = graph.vertices[vertex_id].subtasks[index]
            place = f"{job_id}/{vertex_id}[{index}] waits to restart but"
            require(subtask.state is not ExecutionState.CREATED, f"{place} has not begun")
            require(not subtask.has_result, f"{place} its result counts")
            lives = subtask.state not in TERMINAL_EXECUTION_STATES and subtask.state is not ExecutionState.CANCELING
            require(not lives or (vertex_id, index) in to_cancel, f"{place} is {subtask.state}, and nobody ends it")
        restarting = status in (JobStatus.RESTARTING, JobStatus.RECONCILING)
        require(is_closing or restarting == bool(self.due), f"{job_id} is {status}; waiting: {self.due}")
        require(not self.begun or bool(self.due), f"{job_id} restarts nothing")


def subtasks_to_restart(
    graph: ExecutionGraph, failed: Subtask, failover_strategy: FailoverStrategy, lost_outputs: Iterable[SubtaskReference]
) -> list[Subtask]:
    """Return the subtasks that start again after a failure, in the order of the graph: never one that has not begun.

    Raises:
        IllegalTransition: an output that is reported lost does not exist.

    """
    lost: set[SubtaskKey] = set()
    for reference in lost_outputs:
        subtask = graph.subtask(reference.vertex_id, reference.subtask_index)
        if subtask is None or not subtask.has_result:
            raise IllegalTransition(f"{reference.vertex_id}[{reference.subtask_index}] has no output that could be lost")
        lost.add(subtask.key)
    if failover_strategy is FailoverStrategy.FULL:
        return [s for s in graph.subtasks() if s.state is not ExecutionState.CREATED]
    if not lost:
        return [failed]
    downstream = graph.downstream_of({vertex_id for vertex_id, _ in lost})
    return [
        s for s in graph.subtasks() if s is failed or s.key in lost or (s.vertex_id in downstream and s.state is not ExecutionState.CREATED)
    ]


def subtasks_to_restart_globally(graph: ExecutionGraph, failover_strategy: FailoverStrategy) -> list[Subtask]:
    """Return the subtasks that start again after a failure of the job as a whole, in the order of the graph.

    All that have begun under *full*; else what runs of its streams: each goes on after its last committed batch.
    """
    begun = [s for s in graph.subtasks() if s.state is not ExecutionState.CREATED]
    if failover_strategy is FailoverStrategy.FULL:
        return begun
    return [s for s in begun if graph.vertices[s.vertex_id].vertex.stream is not None and s.state is not ExecutionState.FINISHED]

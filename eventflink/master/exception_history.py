"""The exception history of a job: each failure of an attempt, what it led to, and the failures that came with it.

A failure that a restart under way covers, or that comes while the job ends, is concurrent to the one that caused that; every other
one is a root of its own. As in Flink, the newest roots are kept, as many as `web.exception-history-size` said when the job began.
Everything in it is bounded; what was left out is counted.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.log_events import JobMasterStarted
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import FailoverStrategy, FailureReaction

DEFAULT_HISTORY_SIZE: Final = 16
MAX_CONCURRENT: Final = 16
"""Of the failures that came with a root; they are kept without their stack traces."""

MAX_NAMED_TASKS: Final = 16
MAX_TYPE_LENGTH: Final = 512
MESSAGE_LIMIT: Final = 1_024
STACK_TRACE_LIMIT: Final = 4_096

TaskKey = tuple[str, int]
"""(vertex id, subtask index) within the job."""


@dataclass(slots=True)
class TaskFailure:
    """The failure of one attempt, or of the job as a whole."""

    at_ms: int
    vertex_id: str
    """Empty: no attempt failed, but the job."""
    subtask_index: int
    attempt: int
    task_manager_id: str
    """Where the attempt ran; empty: it never had a slot."""
    instance_id: str
    cause: FailureCause


@dataclass(slots=True)
class RootFailure:
    """A failure that something followed from."""

    failure: TaskFailure
    reaction: FailureReaction | None = None
    reason: str = ""
    """Why there was no restart."""
    restarts: int = 0
    """Which restart of the job it led to, from 1."""
    delay_ms: int = 0
    retry_rule: int = 0
    """By which of the vertex's rules of retries it starts again, from 1 on; 0: by the restart strategy of the job."""
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    tasks: list[TaskKey] = field(default_factory=list)
    """The subtasks that start again: the first of them."""
    task_count: int = 0
    concurrent: list[TaskFailure] = field(default_factory=list)
    concurrent_count: int = 0


@dataclass(slots=True)
class ExceptionHistory:
    """The newest failures of a job, the oldest first."""

    size: int = DEFAULT_HISTORY_SIZE
    roots: list[RootFailure] = field(default_factory=list)
    root_count: int = 0
    """How many there were."""

    def begin(self, event: JobMasterStarted) -> None:
        """Keep as many roots as the JobMaster that starts says."""
        self.size = event.exception_history_size

    def note_failure(self, failure: TaskFailure, *, is_concurrent: bool) -> None:
        """Take note of a failure."""
        root = self._root_of(failure, is_concurrent=is_concurrent)
        if root is not None:
            root.concurrent_count += 1
            if len(root.concurrent) < MAX_CONCURRENT:
                failure.cause = bounded_cause(failure.cause, trace_limit=0)
                root.concurrent.append(failure)
            return
        self.root_count += 1
        if self.size > 0:
            failure.cause = bounded_cause(failure.cause)
            self.roots.append(RootFailure(failure))
            del self.roots[: max(0, len(self.roots) - self.size)]

    def _root_of(self, failure: TaskFailure, *, is_concurrent: bool) -> RootFailure | None:
        """Return which root a failure came with: the job's own, or the newest one that restarts more than what failed."""
        newest = self.newest
        if newest is None or not is_concurrent:
            return newest if newest is not None and _is_refused_again(newest, failure) else None
        if newest.reaction is FailureReaction.JOB_FAILURE:
            return newest
        return next((root for root in reversed(self.roots) if root.task_count > 1), newest)

    def note_restart(
        self,
        restarts: int,
        delay_ms: int,
        failover_strategy: FailoverStrategy,
        tasks: list[TaskKey],
        task_count: int,
        retry_rule: int = 0,
    ) -> None:
        """Take note that the newest failure led to a restart; `tasks` are the first of the subtasks that start again."""
        newest = self.newest
        if newest is not None:
            newest.reaction = FailureReaction.RESTART
            newest.restarts, newest.delay_ms, newest.failover_strategy = restarts, delay_ms, failover_strategy
            newest.tasks, newest.task_count, newest.retry_rule = tasks, task_count, retry_rule

    def note_new_slot(self) -> None:
        """Take note that the newest failure led to nothing but another slot."""
        if self.newest is not None:
            self.newest.reaction = FailureReaction.NEW_SLOT

    def note_closing_failure(self) -> None:
        """Take note that the newest failure, of a closing vertex, leads to nothing, unless that is said."""
        if self.newest is not None:
            self.newest.reaction = FailureReaction.NOTED

    def note_job_failure(self, reason: str) -> None:
        """Take note that the newest failure is the job's."""
        if self.newest is not None:
            self.newest.reaction = FailureReaction.JOB_FAILURE
            self.newest.reason = reason

    @property
    def newest(self) -> RootFailure | None:
        """The newest root."""
        return self.roots[-1] if self.roots else None


def _is_refused_again(newest: RootFailure, failure: TaskFailure) -> bool:
    """Tell whether a failure follows a slot that was refused to the same subtask: a row of refusals is one entry."""
    last = newest.concurrent[-1] if newest.concurrent else newest.failure
    is_same = (last.vertex_id, last.subtask_index) == (failure.vertex_id, failure.subtask_index)
    return newest.reaction is FailureReaction.NEW_SLOT and is_same and last.cause.failure_type == failure.cause.failure_type


def bounded_cause(cause: FailureCause, message_limit: int = MESSAGE_LIMIT, trace_limit: int = STACK_TRACE_LIMIT) -> FailureCause:
    """Return a cause no text of which is much longer than its limit; what is too long keeps both ends. 0: without the stack trace.

    One that is so already is shared with the rest of the state.
    """
    trace = None if cause.stack_trace is None or not trace_limit else _clip(cause.stack_trace, trace_limit)
    message, root_message = _clip(cause.message, message_limit), _clip(cause.root_message, message_limit)
    bounded = FailureCause(cause.failure_type[:MAX_TYPE_LENGTH], message, trace, cause.root_type[:MAX_TYPE_LENGTH], root_message)
    return cause if bounded == cause else bounded


def _clip(text: str, limit: int) -> str:
    """Leave out the middle: a trace begins with where the work began, and ends with what was raised."""
    if len(text) <= limit:
        return text
    mark = f"\n… {len(text) - limit} characters left out …\n"
    return text[: limit // 3] + mark + text[-(limit - limit // 3) :]

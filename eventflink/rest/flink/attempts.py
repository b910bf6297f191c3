"""When an attempt of a subtask was where, and what Flink's answers say of times: milliseconds since 1970, and how long something took.

Durations count up to `now`, which is where the log's time stands; of a job that has ended it is its end. So an answer from an archive
is the one that the state gave.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventflink.documents.one_job import AttemptInfo, JobInfo, SubtaskInfo
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState
from eventflink.rest.flink.shapes import NONE, epoch_ms

UNASSIGNED = "(unassigned)"
"""How Flink writes that an attempt has no TaskManager."""


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """When an attempt was scheduled, deployed, ran and ended; -1: it was not, or it is not known."""

    scheduled_ms: int = NONE
    deployed_ms: int = NONE
    running_ms: int = NONE
    ended_ms: int = NONE

    def duration_ms(self, now_ms: int) -> int:
        """Return how long it has been, or was, on a TaskManager; -1: it was on none."""
        return span_ms(self.deployed_ms, self.ended_ms, now_ms)

    def timestamps(self, state: ExecutionState) -> dict[str, int]:
        """Return when it came to each of Flink's states; 0: never."""
        known = {
            ExecutionState.SCHEDULED: self.scheduled_ms,
            ExecutionState.DEPLOYING: self.deployed_ms,
            ExecutionState.RUNNING: self.running_ms,
        }
        if state in TERMINAL_EXECUTION_STATES:
            known[state] = self.ended_ms
        return {each.value: max(0, known.get(each, 0)) for each in ExecutionState}

    def status_durations(self, now_ms: int) -> dict[str, int]:
        """Return how long it was in each of the states before its end; -1: it was not, or that is not known."""
        end = self.ended_ms
        return {
            ExecutionState.CREATED.value: NONE,
            ExecutionState.SCHEDULED.value: span_ms(self.scheduled_ms, _first(self.deployed_ms, end), now_ms),
            ExecutionState.DEPLOYING.value: span_ms(self.deployed_ms, _first(self.running_ms, end), now_ms),
            ExecutionState.INITIALIZING.value: NONE,
            ExecutionState.RUNNING.value: span_ms(self.running_ms, end, now_ms),
        }


def span_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """Return the time between two points; without an end up to `now_ms`, without a start -1."""
    return NONE if start_ms < 0 else max(0, (end_ms if end_ms >= 0 else now_ms) - start_ms)


def _first(*times: int) -> int:
    return next((time for time in times if time >= 0), NONE)


def now_of(job: JobInfo) -> int:
    """Return up to when the answer counts."""
    return epoch_ms(job.submitted_at) + job.duration_ms


def attempt_row(subtask: SubtaskInfo, attempt: int) -> AttemptInfo | None:
    """Return what is known of an attempt; None: nothing."""
    return next((row for row in subtask.attempts if row.attempt == attempt), None)


def current_row(subtask: SubtaskInfo) -> AttemptInfo | None:
    """Return what is known of the current attempt of a subtask; None: nothing."""
    return attempt_row(subtask, subtask.attempt)


def times_of(row: AttemptInfo | None) -> AttemptTimes:
    """Return when an attempt was where."""
    if row is None:
        return AttemptTimes()
    return AttemptTimes(*map(epoch_ms, (row.scheduled_at, row.deployed_at, row.running_at, row.ended_at)))


def current_times(subtask: SubtaskInfo) -> AttemptTimes:
    """Return when the current attempt of a subtask was where."""
    return times_of(current_row(subtask))


@dataclass(frozen=True, slots=True)
class StandingOfSubtasks:
    """Where some subtasks stand together: of one vertex, or of one vertex on one TaskManager."""

    state: ExecutionState
    counts: dict[str, int]
    start_ms: int
    end_ms: int
    duration_ms: int


def standing_of(subtasks: Iterable[SubtaskInfo], now_ms: int) -> StandingOfSubtasks:
    """Return where subtasks stand: from when the first was deployed to when the last ended."""
    counts = dict.fromkeys((state.value for state in ExecutionState), 0)
    starts, ends = [], []
    for subtask in subtasks:
        counts[subtask.state] += 1
        times = current_times(subtask)
        starts += [times.deployed_ms] if times.deployed_ms >= 0 else []
        ends += [times.ended_ms] if times.ended_ms >= 0 else []
    is_over = all(state in TERMINAL_EXECUTION_STATES for state, count in counts.items() if count)
    start = min(starts, default=NONE)
    end = max(ends, default=NONE) if is_over else NONE
    return StandingOfSubtasks(aggregate_state(counts), counts, start, end, span_ms(start, end, now_ms))


_WORST_FIRST = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def aggregate_state(counts: dict[str, int]) -> ExecutionState:
    """Return the state of a vertex from how many of its subtasks are in each, by Flink's rule."""
    for state in _WORST_FIRST:
        if counts[state]:
            return state
    finished = counts[ExecutionState.FINISHED]
    if not finished:
        return ExecutionState.CREATED
    return ExecutionState.FINISHED if finished == sum(counts.values()) else ExecutionState.RUNNING

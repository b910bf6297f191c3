"""Watches the log from outside, as anyone may: folds it in a thread of its own and notes when what was seen.

Times are the watcher's own monotonic clock in seconds (`time.monotonic`), taken when a record arrived here, and Kafka's timestamps in
milliseconds, which are its append times. Nothing is asked of a master, so a figure never depends on what a master says of itself.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar

from eventflink.events.decision import Decision
from eventflink.events.log_events import (
    JobResultStored,
    JobSubmitted,
    LeadershipGranted,
    TaskDeployed,
    TaskManagerLost,
    TaskManagerReportReconciled,
    TaskStateChanged,
)
from eventflink.events.topics import Topic
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.log.replay import new_fold
from eventflink.model.attempts import SubtaskId
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import ExecutionState, JobStatus

DEFAULT_TIMEOUT_S: Final = 60.0

_POLL_S: Final = 0.05
T = TypeVar("T")


class NotSeen(Exception):
    """What was waited for did not come into the log in time; the message says what, and what the log says instead."""


@dataclass(slots=True)
class Leadership:
    """One epoch, as the log tells it."""

    epoch: int
    master_id: str
    offset: int
    granted_s: float
    granted_ms: int
    first_decision_s: float | None = None
    first_decision_ms: int | None = None
    reconciled_s: dict[str, float] = field(default_factory=dict)
    """When the first full report of each TaskManager was decided."""
    misfits: int = 0
    """How many attempts these reports missed, or held that are not known."""


@dataclass(slots=True)
class Run:
    """The newest attempt of a subtask that was seen RUNNING."""

    attempt: int
    running_s: float


class LogWatch:
    """The log up to now, and what was noted on the way. Use it as a context manager; any thread may ask."""

    def __init__(self, access: ClusterAccess) -> None:
        """Connect and begin with the first record; raises as `PartitionReader` does."""
        self.fold = new_fold(access)
        self.leaderships: dict[int, Leadership] = {}
        self.submitted: set[str] = set()
        self.ended: dict[str, JobStatus] = {}
        self.runs: dict[SubtaskId, Run] = {}
        self.repeated: dict[SubtaskId, int] = {}
        """Subtasks of which a later attempt than the first was deployed, with its number."""
        self.lost_s: dict[str, float] = {}
        """When each TaskManager was last declared lost."""
        self._reader = PartitionReader(access, Topic.LOG)
        self._reader.seek(0, 0)
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="log-watch", daemon=True)
        self._thread.start()

    def wait_for(self, condition: Callable[[], T | None], what: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
        """Return the first true value of the condition, which is asked after each batch of records and may read everything here.

        Raises:
            NotSeen: it was not true in time.

        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not (value := condition()):
                if self._failure is not None:
                    raise self._failure
                if (left_s := deadline_s - time.monotonic()) <= 0:
                    raise NotSeen(f"{what}: not within {timeout_s:.0f} s; {self._describe()}")
                self._changed.wait(left_s)
            return value

    def ask(self, question: Callable[[], T]) -> T:
        """Return what the question returns, while nothing changes."""
        with self._changed:
            return question()

    @property
    def leadership(self) -> Leadership | None:
        """The present epoch."""
        return self.leaderships.get(self.fold.acceptance.epoch)

    def _describe(self) -> str:
        now = self.leadership
        who = "nobody ever led" if now is None else f"epoch {now.epoch} is led by {now.master_id}"
        unfinished = len(self.submitted) - len(self.ended)
        return f"the log ends at offset {self.fold.last_offset}, {who}, {unfinished} jobs have not ended"

    def _watch(self) -> None:
        try:
            while not self._stopping.is_set():
                messages = self._reader.read(_POLL_S)
                now_s = time.monotonic()
                if not messages:
                    continue
                with self._changed:
                    for message in messages:
                        offset, timestamp_ms = message.offset() or 0, message.timestamp()[1]
                        decision = self.fold.fold_record(offset, timestamp_ms, message.value() or b"")
                        if decision is not None:
                            self._note(decision, offset, now_s, timestamp_ms)
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody waits
            self._failure = error
            with self._changed:
                self._changed.notify_all()

    def _note(self, decision: Decision, offset: int, now_s: float, timestamp_ms: int) -> None:
        leadership = self.leaderships.get(decision.epoch)
        if leadership is not None and leadership.first_decision_s is None:
            leadership.first_decision_s, leadership.first_decision_ms = now_s, timestamp_ms
        for event in decision.events:
            match event:
                case LeadershipGranted(master_id=master_id):
                    self.leaderships[decision.epoch] = Leadership(decision.epoch, master_id, offset, now_s, timestamp_ms)
                case TaskManagerReportReconciled() if leadership is not None:
                    leadership.reconciled_s.setdefault(event.task_manager_id, now_s)
                    leadership.misfits += len(event.missing) + len(event.unknown)
                case JobSubmitted(job_id=job_id):
                    self.submitted.add(job_id)
                case JobResultStored(job_id=job_id, status=status):
                    self.ended[job_id] = status
                case TaskDeployed(attempt=attempt) if attempt > 1:
                    self.repeated[SubtaskId(event.job_id, event.vertex_id, event.subtask_index)] = attempt
                case TaskStateChanged(to_state=ExecutionState.RUNNING):
                    self.runs[SubtaskId(event.job_id, event.vertex_id, event.subtask_index)] = Run(event.attempt, now_s)
                case TaskManagerLost(task_manager_id=task_manager_id):
                    self.lost_s[task_manager_id] = now_s
                case _:
                    pass

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._thread.join(DEFAULT_TIMEOUT_S)
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

"""Tasks that are only said to run, in place of a fork server, and the journal of what they would have done to the world.

A task is RUNNING as soon as it is ordered, and ends when its run time is over or when it is ordered to. The rule: the same orders and
events as those of a real fork server (`taskexecutor/process_events.py`), so that the protocol around them is the real one.
"""

import heapq
import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    EndTask,
    Failed,
    Finished,
    FinishQuery,
    Killed,
    LaunchTask,
    Outcome,
    ProcessEvent,
    ProcessOrder,
    ReleaseSpark,
    ResumeQuery,
    SparkReleased,
    TakeCheckpoint,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.testing.tasks import InvalidRunTime, read_run_time_ms


class Journal:
    """What the tasks would have done to the world: a line for every launch and every end, as it happens. For any thread."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._file: TextIO | None = None if path is None else path.open("a", encoding="utf-8", buffering=1)

    def note(self, what: str, instance_id: str, attempt: AttemptId) -> None:
        """Write one line; the kernel has it when this returns, so that a kill -9 loses none."""
        if self._file is not None:
            with self._lock:
                self._file.write(json.dumps([what, instance_id, *attempt]) + "\n")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of a journal: `what` is "launched" or "ended"."""

    what: str
    instance_id: str
    attempt: AttemptId


def read_journal(path: Path) -> list[JournalEntry]:
    """Return the lines of a journal in their order."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [JournalEntry(what, instance_id, AttemptId(*attempt)) for what, instance_id, *attempt in rows]


class SimulatedTasks:
    """In place of the fork server: takes its orders and tells its events, and starts no process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._running: dict[AttemptId, str] = {}
        self._due: list[tuple[int, AttemptId]] = []

    def take_order(self, order: ProcessOrder, instance_id: str, now_ms: int) -> list[ProcessEvent]:
        """Carry an order out; return what a fork server would tell of it."""
        match order:
            case LaunchTask(deployment=deployment):
                return self._launch(deployment, instance_id, now_ms)
            case EndTask(attempt=attempt):
                return self._end(attempt, Killed(signal.SIGTERM))
            case ReleaseSpark(attempt=attempt):
                return [SparkReleased(attempt)]
            case TakeCheckpoint(attempt=attempt, checkpoint_id=checkpoint_id):
                return [CheckpointDeclined(attempt, checkpoint_id, "a simulated task is no stream")]
            case ResumeQuery() | FinishQuery():
                return []

    def finished(self, now_ms: int) -> list[ProcessEvent]:
        """Return the ends of the tasks whose run time is over."""
        events: list[ProcessEvent] = []
        while self._due and self._due[0][0] <= now_ms:
            events += self._end(heapq.heappop(self._due)[1], Finished(()))
        return events

    def _launch(self, deployment: TaskDeployment, instance_id: str, now_ms: int) -> list[ProcessEvent]:
        attempt = AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt)
        if attempt in self._running:
            return []  # As a fork server does: a second order for an attempt is void.
        self._running[attempt] = instance_id
        self._journal.note("launched", instance_id, attempt)
        started: list[ProcessEvent] = [TaskLaunched(attempt, os.getpid())]
        try:
            run_time_ms = read_run_time_ms(json.loads(deployment.parameters_json))
        except (ValueError, InvalidRunTime) as error:
            return started + self._end(attempt, Failed(FailureCause("InvalidParameters", str(error))))
        started.append(TaskInitialized(attempt))
        if run_time_ms == 0:
            return started + self._end(attempt, Finished(()))
        if run_time_ms is not None:
            heapq.heappush(self._due, (now_ms + run_time_ms, attempt))
        return started

    def _end(self, attempt: AttemptId, outcome: Outcome) -> list[ProcessEvent]:
        instance_id = self._running.pop(attempt, None)
        if instance_id is None:
            return []
        self._journal.note("ended", instance_id, attempt)
        return [TaskProcessEnded(attempt, outcome)]

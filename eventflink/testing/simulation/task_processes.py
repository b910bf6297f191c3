"""The processes of one machine besides its TaskExecutor and Spark: the fork server, the task processes, and the guardian.

Tasks begin, run for a while, finish, fail, or are ended; all of it by the run's random numbers. What they say goes to the TaskExecutor as
the events of `process_events.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final
from zlib import crc32

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId, FailureCause, LostInput, OutputLocation
from eventflink.model.failure_types import SPARK_LOST
from eventflink.model.statuses import ShipStrategy
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    Finished,
    FinishQuery,
    ForkServerDied,
    ForkServerReady,
    Killed,
    LaunchTask,
    Outcome,
    ProcessEvent,
    ProcessOrder,
    ReleaseSpark,
    ResumeQuery,
    SparkOpened,
    SparkReleased,
    TakeCheckpoint,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.testing.simulation.observers import AttemptHost, AttemptObserver
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.scheduler import MILLISECOND
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.spark_server import SparkServer
from eventflink.testing.simulation.stream_task import SimulatedStreamTask
from eventflink.testing.simulation.streams import SimulatedStreams

_SIGKILL: Final = 9
_SIGTERM: Final = 15
_MOST_ROWS: Final = 4
"""Each output has fewer; how many depends on the attempt, so that a writer that runs again leaves others."""
_FAILURE_SHARE: Final = 0.12
_LOSS_SHARE: Final = 0.08
_SPARK_SHARE: Final = 0.4
_STUBBORN_SHARE: Final = 0.25
"""Of the tasks that are told to end: how many have to be killed."""
_USUAL_RUN_MS: Final = 2_000
_LONGEST_RUN_MS: Final = 8_000
_LONG_SHARE: Final = 0.5
_RELEASE_MS: Final = 70
_LOAD_MS: Final = 3_000
"""How long a fork server takes at most until it is ready."""

_DEATH_MS: Final = 40
_ENDING_MS: Final = 13_000
_SESSION_MS: Final = 300
"""How long a stream's task takes at most from its session to its query, and one to notice that its query or its Spark is gone."""

_RELEASE_POLL_MS: Final = 20


@dataclass(slots=True, eq=False)
class _Task:
    attempt: AttemptId
    deployment: TaskDeployment
    process_id: int
    is_alive: bool = True
    is_on_spark: bool = False
    stream: SimulatedStreamTask | None = None
    """What it does if it is a stream that was deployed to run."""


class TaskProcesses:
    """The other processes of one machine."""

    def __init__(
        self,
        process: Process,
        rng: Random,
        losses: Random,
        settings: SimulationSettings,
        attempts: AttemptObserver,
        host: AttemptHost,
        server: SparkServer,
        streams: SimulatedStreams,
        tell: Callable[[ProcessEvent], None],
    ) -> None:
        """Run nothing yet; `process` stands for all of them, and `tell` reaches the TaskExecutor.

        `losses` decides what tasks cannot read, `streams` what streams read and answer. A task that starts when clients act no more
        succeeds: its failures are faults, and end with the others.
        """
        self.process = process
        self._rng = rng
        self._losses = losses
        self._least_run_ms = settings.least_run_ms
        self._fails_until_us = settings.active_ms * MILLISECOND
        self._release_timeout_ms = settings.spark_release_timeout_ms
        self._observer = attempts
        self._host = host
        self._server = server
        self._streams = streams
        self.tell = tell
        """Reaches the TaskExecutor, while there is one."""
        self._tasks: dict[AttemptId, _Task] = {}
        self._is_up = False
        self._waiting: list[ProcessOrder] | None = []
        """What was ordered while the fork server loads what tasks need; None: it has."""
        self._process_ids = 1000

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is left of any task."""
        return not self._tasks and not self._waiting

    def start(self) -> None:
        """Start the fork server; what it is ordered meanwhile waits until it is ready."""
        self._is_up = True
        waiting: list[ProcessOrder] = []
        self._waiting = waiting

        def loaded() -> None:
            if self._is_up and self._waiting is waiting:
                self._waiting = None
                self.tell(ForkServerReady())
                ended = {order.attempt for order in waiting if isinstance(order, EndTask)}
                for order in waiting:
                    if isinstance(order, LaunchTask) and order.attempt in ended:
                        self.tell(TaskProcessEnded(order.attempt, Killed(_SIGTERM)))
                    else:
                        self.take_order(order)

        self.process.after(self._rng.random() * _LOAD_MS, loaded)

    def take_order(self, order: ProcessOrder) -> None:
        """Do what the TaskExecutor orders of its fork server."""
        if not self._is_up:
            return
        if self._waiting is not None and not isinstance(order, ReleaseSpark):  # One of the two fork servers is ready at once, and releases.
            self._waiting.append(order)
            return
        match order:
            case LaunchTask(deployment=deployment):
                self._launch(deployment)
            case EndTask(attempt=attempt, kill_after_ms=kill_after_ms):
                self._end(attempt, kill_after_ms)
            case TakeCheckpoint(attempt=attempt) | ResumeQuery(attempt=attempt) | FinishQuery(attempt=attempt):
                task = self._tasks.get(attempt)
                if task is not None and task.is_alive and task.stream is not None:  # Without a process nobody answers.
                    task.stream.obey(order)
            case ReleaseSpark(attempt=attempt):
                self.process.after(self._rng.random() * _RELEASE_MS, lambda: self._release(attempt))

    def end_task(self, attempt: AttemptId, outcome: Outcome) -> bool:
        """Let a task end now, and so, whatever was drawn for it; tell whether it was alive."""
        task = self._tasks.get(attempt)
        if task is None or not task.is_alive:
            return False
        self._exit(task, outcome)
        return True

    def is_left_on_spark(self, attempt: AttemptId) -> bool:
        """Tell whether the process of an attempt has ended, and its session is out of reach."""
        task = self._tasks.get(attempt)
        return task is not None and not task.is_alive and self._server.is_out_of_reach(attempt)

    def die(self, reason: str) -> None:
        """Let the fork server die, and every task process with it."""
        if self._is_up:
            self._end_fork_server()
            self._all_gone(reason)

    def end(self, reason: str) -> None:
        """End the fork server: it takes no orders any more, and its tasks have some time to end."""
        if self._is_up:
            self._end_fork_server()
            self.process.after(self._rng.random() * _ENDING_MS, lambda: self._all_gone(reason))

    def _all_gone(self, reason: str) -> None:
        for task in list(self._tasks.values()):
            self._reap(task)
        self.tell(ForkServerDied(reason))

    def orphaned(self, then: Callable[[], None], *, has_guardian: bool) -> None:
        """End everything because the TaskExecutor is gone, as the kernel and the guardian do; call back when nothing is left to do.

        Without a guardian nobody releases anything on Spark.
        """
        self._end_fork_server()
        self.tell = lambda _event: None
        for task in list(self._tasks.values()):
            self.process.after(self._rng.random() * _DEATH_MS, lambda task=task: self._reap(task))  # type: ignore[misc]  # mypy infers no default arguments

        def release_all() -> None:
            for task in list(self._tasks.values()):
                if has_guardian:
                    self._server.release(task.attempt, lambda task=task: self._forget(task))  # type: ignore[misc]  # as above
                else:
                    self._observer.abandoned(task.attempt)
                    self._forget(task)
            settle(self._release_timeout_ms)

        def settle(left_ms: int) -> None:
            if self._tasks and left_ms > 0:
                self.process.after(_RELEASE_POLL_MS, lambda: settle(left_ms - _RELEASE_POLL_MS))
                return
            for task in list(self._tasks.values()):
                self._observer.abandoned(task.attempt)
                self._forget(task)
            then()

        self.process.after(_DEATH_MS + self._rng.random() * _RELEASE_MS, release_all)

    def vanish(self) -> None:
        """End everything at once: the machine has lost its power."""
        self._end_fork_server()
        for task in list(self._tasks.values()):
            task.is_alive = False
            self._forget(task)

    def _end_fork_server(self) -> None:
        self._is_up = False
        self._waiting = []

    def _launch(self, deployment: TaskDeployment) -> None:
        attempt = AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt)
        if attempt in self._tasks:
            return
        self._process_ids += 1
        task = self._tasks[attempt] = _Task(attempt, deployment, self._process_ids)
        self._observer.began(deployment, self._host)
        rng = self._rng
        launched_ms = 5 + rng.random() * 40
        initialized_ms = launched_ms + 5 + rng.random() * 100
        longest_ms = _LONGEST_RUN_MS if rng.random() < _LONG_SHARE else _USUAL_RUN_MS
        ended_ms = initialized_ms + self._least_run_ms + rng.random() ** 2 * longest_ms
        outcome = self._outcome_of(task)
        uses_spark = rng.random() < _SPARK_SHARE or deployment.stream is not None
        self.later(task, launched_ms, lambda: self.tell(TaskLaunched(attempt, task.process_id)))
        self.later(task, initialized_ms, lambda: self.tell(TaskInitialized(attempt)))
        if deployment.is_stopped:
            self.later(task, initialized_ms, lambda: self._exit(task, self._finished(task)))
            return
        if deployment.stream is not None:
            stream = task.stream = SimulatedStreamTask(deployment, attempt, self._server, self._streams, _TaskHost(self, task))
            uses_spark = True
        if uses_spark:
            self.later(task, initialized_ms, lambda: self._open_spark(task))
        if task.stream is not None:
            self.later(task, initialized_ms + rng.random() * _SESSION_MS, stream.begin)
        if task.stream is None or not isinstance(outcome, Finished):  # A stream finishes when its query does.
            self.later(task, ended_ms, lambda: self._exit(task, outcome))

    def later(self, task: _Task, delay_ms: float, call: Callable[[], None]) -> None:
        """Do something for a task then, if it still lives."""
        self.process.after(delay_ms, lambda: call() if task.is_alive else None)

    def _outcome_of(self, task: _Task) -> Outcome:
        deployment = task.deployment
        may_fail = self.process.scheduler.now_us < self._fails_until_us
        lost = self._lost_inputs_of(deployment)
        if lost and may_fail:
            return Failed(FailureCause("InputLost", f"{task.attempt} cannot read what others published"), lost)
        if self._rng.random() < _FAILURE_SHARE and may_fail:
            return Failed(FailureCause("ValueError", f"{task.attempt} was unlucky"))
        if self._rng.random() < _FAILURE_SHARE / 4 and may_fail:
            return Killed(_SIGKILL)
        return self._finished(task)

    @staticmethod
    def _finished(task: _Task) -> Finished:
        names = () if task.deployment.has_no_row else task.deployment.outputs or ("default",)
        places = {name: f"/{task.attempt}/{name}" for name in names}
        return Finished(tuple(OutputLocation(name, at, crc32(at.encode()) % _MOST_ROWS, 1, 1, "digest") for name, at in places.items()))

    def _lost_inputs_of(self, deployment: TaskDeployment) -> tuple[LostInput, ...]:
        """Return what the disk has lost of a task's inputs: mostly nothing."""
        if not deployment.inputs or self._losses.random() >= _LOSS_SHARE:
            return ()
        chosen = self._losses.choice(deployment.inputs)
        writers = deployment.parallelism if chosen.ship is ShipStrategy.FORWARD and chosen.locations else len(chosen.locations)
        return (LostInput(chosen.input_name, self._losses.randrange(max(1, writers))),)

    def _open_spark(self, task: _Task) -> None:
        task.is_on_spark = True
        self._server.open(task.attempt, _TaskHost(self, task))
        self.tell(SparkOpened(task.attempt, "", "sc://localhost"))

    def notice_end(self, task: _Task, failure_type: str, message: str, is_noticed: Callable[[], bool]) -> None:
        """Let a task end a moment after its query, if that is what it still waits for; with no type of failure it finishes."""
        outcome = Failed(FailureCause(failure_type, message)) if failure_type else self._finished(task)
        self.later(task, self._rng.random() * _SESSION_MS, lambda: self._exit(task, outcome) if is_noticed() else None)

    def session_lost(self, task: _Task) -> None:
        """Let a task notice that its Spark is gone; what waited for the release of its session need not."""
        task.is_on_spark = False
        if task.is_alive:
            gone = Failed(FailureCause(SPARK_LOST, "the server is gone"))
            self.later(task, self._rng.random() * _SESSION_MS, lambda: self._exit(task, gone))
        else:
            self._forget(task)

    def _exit(self, task: _Task, outcome: Outcome) -> None:
        if isinstance(outcome, Finished) and task.is_on_spark:
            task.is_on_spark = False  # A task that finishes has closed its session itself.
            self._server.close(task.attempt)
        self._reap(task)
        self.tell(TaskProcessEnded(task.attempt, outcome))

    def _reap(self, task: _Task) -> None:
        task.is_alive = False
        if not task.is_on_spark:
            self._forget(task)
            return

        def give_up() -> None:
            if self._tasks.get(task.attempt) is task and self._server.is_out_of_reach(task.attempt):
                self._observer.abandoned(task.attempt)
                self._forget(task)

        self.process.after(self._release_timeout_ms, give_up)

    def _forget(self, task: _Task) -> None:
        if self._tasks.pop(task.attempt, None) is not None:
            self._observer.ended(task.attempt)

    def _end(self, attempt: AttemptId, kill_after_ms: int) -> None:
        task = self._tasks.get(attempt)
        if task is None or not task.is_alive:
            return
        is_stubborn = self._rng.random() < _STUBBORN_SHARE
        delay_ms = kill_after_ms + 5 if is_stubborn else self._rng.random() * kill_after_ms / 2
        self.later(task, delay_ms, lambda: self._exit(task, Killed(_SIGKILL)))

    def _release(self, attempt: AttemptId) -> None:
        def released() -> None:
            task = self._tasks.get(attempt)
            if task is not None and not task.is_alive:
                self._forget(task)
            self.tell(SparkReleased(attempt))

        self._server.release(attempt, lambda: self.process.deliver(released))


class _TaskHost:
    """The machine, for one of its tasks."""

    def __init__(self, processes: TaskProcesses, task: _Task) -> None:
        self.process = processes.process
        self._processes = processes
        self._task = task

    @property
    def is_alive(self) -> bool:
        return self._task.is_alive

    def later(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._processes.later(self._task, delay_ms, call)

    def tell(self, event: ProcessEvent) -> None:
        self._processes.tell(event)

    def notice_end(self, failure_type: str, message: str, is_noticed: Callable[[], bool]) -> None:
        self._processes.notice_end(self._task, failure_type, message, is_noticed)

    def session_lost(self) -> None:
        self._processes.session_lost(self._task)

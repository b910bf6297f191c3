"""What goes wrong with streams in particular, in the runs that have some: with Spark, with the processes beside it, with who cleans up.

Drawn from random numbers of its own; each run draws how often it has which of them. Whatever stands still goes on by itself.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from eventflink.taskexecutor.process_events import Killed
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from eventflink.testing.simulation.transcript import Transcript

if TYPE_CHECKING:
    from eventflink.testing.simulation.scheduler import Call

_WEIGHTS: Final = (0, 1, 1, 3)
_SIGKILL: Final = 9
_LONGEST_STALL_MS: Final = 6_000
_LONGEST_RESTART_MS: Final = 5_000
"""Longer than it takes to declare a TaskExecutor lost: then another machine goes on."""


class StreamFaults:
    """Breaks what runs streams."""

    def __init__(self, seed: int, hosts: list[TaskExecutorHost], transcript: Transcript) -> None:
        """Draw what the run has; `hosts` is everybody's list of all machines."""
        self._rng = Random(f"{seed} stream faults")
        self._hosts = hosts
        self._transcript = transcript
        kinds: tuple[Call, ...] = (
            self._kill_task,
            self._kill_sink,
            self._kill_spark,
            self._stall_spark,
            self._kill_task_of_stalled_spark,
            self._kill_with_guardian,
        )
        weighted = [(kind, self._rng.choice(_WEIGHTS)) for kind in kinds]
        self._kinds = [kind for kind, weight in weighted for _ in range(weight)] or [self._kill_task]
        self._mean_ms = self._rng.choice((300, 600, 1_200))

    def next_in_ms(self) -> float:
        """Return how long it takes until something goes wrong."""
        return 2 * self._mean_ms * self._rng.random()

    def strike(self) -> None:
        """Let something go wrong where a query runs; nothing does if none runs."""
        if self._busy():
            self._rng.choice(self._kinds)()

    def _busy(self) -> list[TaskExecutorHost]:
        return [host for host in self._hosts if host.spark.queries and host.spark.process.is_running]

    def _host(self) -> TaskExecutorHost:
        return self._rng.choice(self._busy())

    def _kill_task(self) -> None:
        self._kill_task_on(self._host())

    def _kill_task_on(self, host: TaskExecutorHost) -> None:
        attempt = self._rng.choice(list(host.spark.queries))
        if host.processes.end_task(attempt, Killed(_SIGKILL)):
            self._transcript.note(host.name, f"the process of {attempt} is killed")

    def _kill_sink(self) -> None:
        """Kill the process of a sink, in the middle of a batch if one is."""
        queries = [query for host in self._busy() for query in host.spark.queries.values()]
        writing = [query for query in queries if query.is_in_sink]
        self._rng.choice(writing or queries).kill_sink()

    def _kill_spark(self) -> None:
        self._host().spark.kill()

    def _stall_spark(self) -> None:
        self._host().spark.stall(_LONGEST_STALL_MS * self._rng.random())

    def _kill_task_of_stalled_spark(self) -> None:
        """Have a query that nobody can end in time: it goes on beside the next attempt."""
        host = self._host()
        host.spark.stall(_LONGEST_STALL_MS * (0.5 + self._rng.random() / 2))
        self._kill_task_on(host)

    def _kill_with_guardian(self) -> None:
        host = self._host()
        self._transcript.note(host.name, "nobody looks after what the TaskExecutor leaves")
        host.crash(_LONGEST_RESTART_MS * self._rng.random(), has_guardian=False)

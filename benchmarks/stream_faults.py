"""What a stream loses when a process is killed: nothing of its records, and so many milliseconds of its output.

Numbered records are fed at a steady rate to a stream that copies them; at a random moment one process gets SIGKILL; what comes out is
counted by number, and the gaps between commits are taken from a reader of committed records. A run whose counts are not exact is a bug.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from benchmarks.failover_watch import NotSeen
from benchmarks.report import Distribution
from benchmarks.stream_cluster import START_TIMEOUT_S, StreamCluster, StreamJob, stream_graph
from benchmarks.stream_counts import Arrival, batches_repeated, count_records, longest_gap_ms
from benchmarks.stream_traffic import Arrivals, Feed, read_numbers, stream_topics
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.testing.process_search import spark_servers, task_process

RECORDS_PER_S: Final = 200.0
BEFORE_S: Final = 3.0
"""At least so long a stream runs undisturbed before the kill; up to `RANDOM_S` more by chance."""
RANDOM_S: Final = 2.0
AFTER_S: Final = 3.0
"""So long records are fed after the stream has caught up."""

_WARM_UP_S: Final = 5.0
_LATE_S: Final = 1.5
"""What a dead attempt could still commit has come by then."""

_LAG_S: Final = 1.0
"""A stream has caught up when no more than the records of this time are under way."""

_RECOVERY_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 0.1
_ALL_TIMEOUT_S: Final = 60.0


class Fault(StrEnum):
    """Which process is killed."""

    TASK = "task"
    SINK = "sink"
    SPARK = "spark"
    TASKEXECUTOR = "taskexecutor"
    LEADER = "leader"
    BROKER = "broker"


GAP_AIMS_MS: Final = {Fault.TASK: 3_000, Fault.SPARK: 20_000}


@dataclass(frozen=True, slots=True)
class FaultRun:
    """One run; times in milliseconds."""

    fed: int
    committed: int
    repeated: int
    missing: int
    aborted: int
    """Records of transactions that were not committed, as readers of committed records never see them."""
    attempts: int
    batches_repeated: int
    usual_gap_ms: float
    """The longest time between commits before the kill."""
    gap_ms: float
    """The longest from the kill on, while records were fed: after that nothing hurries the last ones."""
    broker_down_ms: float
    """How long the broker was away, of the kind `broker`; else 0."""

    @property
    def is_exact(self) -> bool:
        """Whether each record came exactly once."""
        return not self.repeated and not self.missing


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """All runs of one kind."""

    fault: Fault
    seed: int
    records_per_s: float
    runs: list[FaultRun]

    @property
    def is_exact(self) -> bool:
        """Whether each record of each run came exactly once."""
        return all(run.is_exact for run in self.runs)

    @property
    def gap_ms(self) -> Distribution:
        """Over the runs."""
        return Distribution.of([run.gap_ms for run in self.runs])


class FaultBench:
    """Runs of one kind, in one cluster. For the main thread."""

    def __init__(self, cluster: StreamCluster, fault: Fault, broker: EmbeddedBroker | None, say: Callable[[str], None]) -> None:
        """Take a cluster of which nothing is started yet; `broker` is what the kind `broker` kills, else None."""
        self._cluster = cluster
        self._fault = fault
        self._broker = broker
        self._say = say

    def measure(self, *, runs: int, seed: int) -> FaultFigures:
        """Measure.

        Raises:
            NotSeen, ChildDied, GatewayError, TrafficFailed: the cluster did not do its work.

        """
        # A TaskExecutor that is killed has another beside it, and with that a Spark that goes on.
        self._cluster.start(2 if self._fault is Fault.TASKEXECUTOR else 1)
        self._warm_up()
        chance = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        done = []
        for number in range(1, runs + 1):
            run = self._run(BEFORE_S + chance.uniform(0, RANDOM_S))
            done.append(run)
            self._say(
                f"{self._fault} killed, run {number}: {run.fed:,} records in, {run.committed:,} committed, "
                f"{run.repeated} repeated, {run.missing} missing; {run.batches_repeated} batches repeated; "
                f"gap {run.gap_ms:,.0f} ms, before {run.usual_gap_ms:,.0f} ms"
            )
        return FaultFigures(self._fault, seed, RECORDS_PER_S, done)

    def _warm_up(self) -> None:
        """Run a stream for a while: with the first one Spark starts, and compiles."""
        bootstrap = self._cluster.bootstrap
        with (
            stream_topics(bootstrap) as topics,
            Feed(bootstrap, topics.source) as feed,
            Arrivals(bootstrap, topics.target) as arrivals,
            self._cluster.running(stream_graph(topics, {"processing_time_ms": 0})),
        ):
            feed.start(RECORDS_PER_S)
            arrivals.wait_for(lambda seen: has_caught_up(seen, feed.fed), "the first records", START_TIMEOUT_S)
            time.sleep(_WARM_UP_S)

    def _run(self, before_s: float) -> FaultRun:
        cluster = self._cluster
        bootstrap = cluster.bootstrap
        with (
            stream_topics(bootstrap) as topics,
            Feed(bootstrap, topics.source) as feed,
            Arrivals(bootstrap, topics.target) as arrivals,
            cluster.running(stream_graph(topics, {"processing_time_ms": 0})) as job,
        ):
            feed.start(RECORDS_PER_S)
            arrivals.wait_for(lambda seen: has_caught_up(seen, feed.fed), "the first records", START_TIMEOUT_S)
            steady_ns = time.monotonic_ns()
            time.sleep(before_s)
            undisturbed = self._disturbances(job)
            killed_ns, down_ms = self._kill(job)
            self._wait_for_disturbance(job, undisturbed)
            fed = feed.fed
            arrivals.wait_for(lambda seen: seen[-1].number > fed and has_caught_up(seen, feed.fed), "new records", _RECOVERY_TIMEOUT_S)
            time.sleep(AFTER_S)
            stopped_ns, fed = time.monotonic_ns(), feed.stop()
            with contextlib.suppress(NotSeen):  # Then some are missing, which is counted.
                arrivals.wait_for(lambda seen: len({arrival.number for arrival in seen}) >= fed, "all records", _ALL_TIMEOUT_S)
            time.sleep(_LATE_S)
            times = [arrival.arrived_ns for arrival in arrivals.seen()]
            counts = count_records(fed, read_numbers(bootstrap, topics.target, committed=True))
            written = len(read_numbers(bootstrap, topics.target, committed=False))
            starts = job.starts()
        self._restore()
        return FaultRun(
            fed=fed,
            committed=counts.committed,
            repeated=counts.repeated,
            missing=counts.missing,
            aborted=written - counts.committed,
            attempts=len(starts),
            batches_repeated=batches_repeated(starts),
            usual_gap_ms=round(longest_gap_ms(times, steady_ns, killed_ns), 1),
            gap_ms=round(longest_gap_ms(times, killed_ns, stopped_ns), 1),
            broker_down_ms=round(down_ms, 1),
        )

    def _disturbances(self, job: StreamJob) -> int:
        """Return how often that has happened which follows the kill: a change of leader, or the start of the stream's query."""
        watch = self._cluster.watch
        return watch.ask(lambda: watch.fold.acceptance.epoch) if self._fault is Fault.LEADER else len(job.starts())

    def _wait_for_disturbance(self, job: StreamJob, before: int) -> None:
        if self._fault is Fault.BROKER:  # A query may outlive that.
            return
        deadline_s = time.monotonic() + _RECOVERY_TIMEOUT_S
        while self._disturbances(job) == before:
            if time.monotonic() > deadline_s:
                raise NotSeen(f"nothing has followed the kill of the {self._fault} within {_RECOVERY_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)

    # -- killing -----------------------------------------------------------------------------------------------------

    def _kill(self, job: StreamJob) -> tuple[int, float]:
        """Kill the process, and start again what nobody else does; return when it was killed, and how long the broker was away."""
        cluster = self._cluster
        match self._fault:
            case Fault.LEADER:
                cluster.end_leader(signal.SIGKILL)
            case Fault.TASKEXECUTOR:
                cluster.kill_host(job.place()[0])
            case Fault.BROKER:
                return self._kill_broker()
            case _:
                for process in self._processes(job):
                    process.kill()
        return time.monotonic_ns(), 0.0

    def _kill_broker(self) -> tuple[int, float]:
        assert self._broker is not None  # noqa: S101 - the command refuses this kind where Kafka is not ours
        self._broker.kill()
        killed_ns = time.monotonic_ns()
        self._broker.start()
        return killed_ns, (time.monotonic_ns() - killed_ns) / 1e6

    def _processes(self, job: StreamJob) -> list[psutil.Process]:
        runtime_directory = self._cluster.runtime_directory
        match self._fault:
            case Fault.TASK:
                name, executor = job.place()
                task = task_process(executor, job.log_path(name))
                found = [] if task is None else [task]
            case Fault.SINK:
                found = _sink_processes(runtime_directory)
            case _:
                found = spark_servers(runtime_directory)
        if not found:
            raise NotSeen(f"there is no process to kill of the kind '{self._fault}'")
        return found

    def _restore(self) -> None:
        """Start what was killed and has not come back by itself, for the next run."""
        cluster = self._cluster
        cluster.reap()
        if self._fault is Fault.LEADER:
            cluster.start_master()
        if self._fault is Fault.TASKEXECUTOR:
            cluster.start_task_executor(1)
        cluster.check()


def has_caught_up(seen: Sequence[Arrival], fed: int) -> bool:
    """Tell whether no more than the records of a second are under way."""
    return fed > 0 and bool(seen) and max(arrival.number for arrival in seen) >= fed - _LAG_S * RECORDS_PER_S


def _sink_processes(runtime_directory: Path) -> list[psutil.Process]:
    """Return the processes in which this Spark calls the functions of `foreachBatch`, one for each query."""
    found = []
    for server in spark_servers(runtime_directory):
        for child in server.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any("foreach_batch_worker" in part for part in child.cmdline()):
                    found.append(child)
    return found

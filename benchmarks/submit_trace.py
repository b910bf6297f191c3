"""Where the time and the processor go that a submission takes: the cluster beside its floor, leg by leg and process by process.

A leader, a standby and (unless it is left out) a TaskExecutor run as real processes on one broker, and so does the floor. They are measured
in alternation, in rounds: what a busy machine does to one it does to the other, so their ratio and the processor time per job hold where
times alone do not. How busy the machine was with what is not measured here is part of the figures.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.floor import FloorClient, FloorSettings
from benchmarks.process_cpu import TASK_EXECUTOR, CpuMeter, CpuReading
from benchmarks.report import Distribution
from benchmarks.submit import (
    WARM_UP_JOBS,
    Ends,
    SubmittedJob,
    accepted_per_s,
    finished_per_s,
    submit_concurrently,
    submit_one_at_a_time,
)
from benchmarks.trace_legs import (
    CLIENT,
    DELIVERY,
    TO_FINISHED,
    TO_REPLY,
    Evidence,
    KafkaRecord,
    Leg,
    Moment,
    Timeline,
    cluster_timelines,
    floor_timelines,
    legs,
)
from eventflink.events.topics import Topic
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.log.administration import ensure_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.processes.child_processes import ChildProcess, start_child
from eventflink.processes.trace import TRACE_VARIABLE, read_stamps

LEADER: Final = "leader"
STANDBY: Final = "standby"
BROKER: Final = "broker"
FLOOR: Final = "floor"

SETTLE_S: Final = 1.0
"""What jobs leave to be done, such as their clean-up, is done within this time, and counts as theirs."""

TRACED_TOPICS: Final = (Topic.SUBMISSIONS, Topic.LOG, Topic.REPLIES, Topic.DEPLOYMENTS, Topic.TASKMANAGERS)

Submit = Callable[[int, int], list[SubmittedJob]]
"""Submits so many jobs with so many in flight, and returns what became of them."""

_REST_S: Final = 5.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 1.0
_READ_TIMEOUT_S: Final = 60.0  # A machine that is busy with other things lets a broker wait for long.


@dataclass(frozen=True, slots=True)
class CpuCost:
    """Processor time for one job, in milliseconds."""

    gross_ms: float
    net_ms: float
    """Without what the process would have used in that time if it had been idle."""
    waited_ms: float | None
    """For how long its main thread was ready to run and no core ran it; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """One way of submitting: one job at a time, or many. A ratio is the cluster's figure over the floor's in the same round."""

    in_flight: int
    accepted_ms: Distribution
    floor_ms: Distribution
    accepted_median_ratio: Distribution
    accepted_p99_ratio: Distribution
    accepted_per_s: Distribution
    floor_per_s: Distribution
    accepted_per_s_ratio: Distribution
    finished_ms: Distribution | None
    finished_per_s: Distribution | None
    cpu: dict[str, CpuCost]
    floor_cpu: dict[str, CpuCost]
    to_reply: list[Leg]
    to_finished: list[Leg]
    delivery: list[Leg]
    floor_to_reply: list[Leg]


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """What was measured; shares are of one core, 1.0 being all of it."""

    has_task_executor: bool
    rounds: int
    idle_share: dict[str, float]
    """Of each process, after the load: by then a broker's code has been compiled."""
    broker_alone_share: float | None
    """Of the broker when everything else had ended; None where it is not ours."""
    records_per_job: dict[str, float]
    """By topic, over the whole run: what is sent when there are no jobs is among them."""
    others_share: float
    """Of everything else on this machine, while it was measured."""
    one_at_a_time: ModeFigures
    concurrent: ModeFigures


@dataclass(slots=True)
class Trial:
    """What one side did in one mode, round by round."""

    rounds: list[list[SubmittedJob]] = field(default_factory=list)
    cpu_s: Counter[str] = field(default_factory=Counter)
    waited_s: Counter[str] = field(default_factory=Counter)
    passed_s: float = 0.0
    others_s: float = 0.0

    @property
    def jobs(self) -> list[SubmittedJob]:
        """All of them."""
        return [job for jobs in self.rounds for job in jobs]

    def add(self, jobs: list[SubmittedJob], before: CpuReading, after: CpuReading) -> None:
        """Take a round."""
        used = after.since(before)
        self.rounds.append(jobs)
        self.cpu_s.update(used)
        waited_s = {name: waited_s - before.waited_s[name] for name, waited_s in after.waited_s.items() if name != BROKER}
        self.waited_s.update(waited_s)  # The main thread of a JVM does none of its work.
        self.passed_s += after.at_s - before.at_s
        self.others_s += after.machine_s - before.machine_s - sum(used.values())

    def cpu(self, idle_share: Mapping[str, float], names: Iterable[str]) -> dict[str, CpuCost]:
        """Return what each of these processes used for a job."""
        count = len(self.jobs)
        return {
            name: CpuCost(
                round(self.cpu_s[name] * 1000 / count, 2),
                round((self.cpu_s[name] - idle_share[name] * self.passed_s) * 1000 / count, 2),
                round(self.waited_s[name] * 1000 / count, 2) if name in self.waited_s else None,
            )
            for name in names
        }

    def accepted_ms(self) -> Distribution:
        """Return the waits for the reply."""
        return Distribution.of([job.accepted_ms for job in self.jobs])

    def accepted_per_s(self) -> list[float]:
        """Return how many were accepted a second, by rounds."""
        return [accepted_per_s(jobs) for jobs in self.rounds]


def compare(
    in_flight: int,
    cluster: Trial,
    floor: Trial,
    idle_share: Mapping[str, float],
    ways: Mapping[str, Timeline],
    floor_ways: Mapping[str, Timeline],
) -> ModeFigures:
    """Put together what both sides did in one mode.

    Args:
        in_flight: how many jobs were submitted at once.
        cluster: what the cluster did.
        floor: what the floor did, in as many rounds.
        idle_share: what each process uses without load.
        ways: the points of the jobs' ways, by job id.
        floor_ways: those of the floor's requests.

    """
    timelines, floor_timelines_ = _with_client(cluster.jobs, ways), _with_client(floor.jobs, floor_ways)
    has_ends = all(job.finished_s is not None for job in cluster.jobs)
    pairs = [
        (Distribution.of([job.accepted_ms for job in ours]), Distribution.of([job.accepted_ms for job in bare]))
        for ours, bare in zip(cluster.rounds, floor.rounds, strict=True)
    ]
    rates = list(zip(cluster.accepted_per_s(), floor.accepted_per_s(), strict=True))
    with_cpu = in_flight == 1
    return ModeFigures(
        in_flight=in_flight,
        accepted_ms=cluster.accepted_ms(),
        floor_ms=floor.accepted_ms(),
        accepted_median_ratio=Distribution.of([ours.median / bare.median for ours, bare in pairs]),
        accepted_p99_ratio=Distribution.of([ours.p99 / bare.p99 for ours, bare in pairs]),
        accepted_per_s=Distribution.of([ours for ours, _ in rates]),
        floor_per_s=Distribution.of([bare for _, bare in rates]),
        accepted_per_s_ratio=Distribution.of([ours / bare for ours, bare in rates]),
        finished_ms=Distribution.of([job.finished_ms for job in cluster.jobs]) if has_ends else None,
        finished_per_s=Distribution.of([finished_per_s(jobs) for jobs in cluster.rounds]) if has_ends else None,
        cpu=cluster.cpu(idle_share, [name for name in idle_share if name != FLOOR]),
        floor_cpu=floor.cpu(idle_share, [name for name in (CLIENT, FLOOR, BROKER) if name in idle_share]),
        to_reply=legs(TO_REPLY, timelines, with_cpu=with_cpu),
        to_finished=legs(TO_FINISHED, timelines, with_cpu=with_cpu),
        delivery=legs(DELIVERY, timelines, with_cpu=False),
        floor_to_reply=legs(TO_REPLY, floor_timelines_, with_cpu=with_cpu),
    )


def _with_client(jobs: Iterable[SubmittedJob], ways: Mapping[str, Timeline]) -> list[Timeline]:
    timelines = []
    for job in jobs:
        seen = {"sent": job.sent_s, "answered": job.accepted_s, "FINISHED seen": job.finished_s}
        timelines.append(ways[job.job_id] | {name: Moment(int(at_s * 1e9), CLIENT) for name, at_s in seen.items() if at_s is not None})
    return timelines


@dataclass(slots=True, kw_only=True)
class TraceBench:
    """A cluster beside its floor. For the main thread, with which the processes end."""

    configuration: Configuration
    """Of a cluster that does not exist yet."""
    bootstrap: str
    command: Command
    """What starts a part of the cluster."""
    broker_process_id: int | None
    """The broker, if it runs here and is to be measured."""
    has_task_executor: bool
    """Without one, jobs are accepted, and wait for slots."""
    say: Callable[[str], None]
    warm_up_jobs: int = WARM_UP_JOBS
    idle_s: float = 15.0
    """For how long the processes are watched without load."""
    _process_ids: dict[str, int] = field(default_factory=dict)

    @property
    def _floor_id(self) -> str:
        return f"{self.configuration.cluster_id}-floor"

    def measure(self, *, jobs: int, clients: int, concurrent_jobs: int, rounds: int) -> TraceFigures:
        """Start both, warm them up, and measure them in turn.

        Args:
            jobs: how many are submitted one at a time, on each side and in all rounds.
            clients: how many submit at once.
            concurrent_jobs: how many they submit, as above.
            rounds: how often cluster and floor alternate.

        Raises:
            CpuNotMeasured, FloorFailed, TraceIncomplete: the figures would mean nothing.
            JobDidNotFinish, GatewayError, NotSeen, ChildDied: the cluster did not do its work.

        """
        for cluster_id in (self.configuration.cluster_id, self._floor_id):
            ensure_topics(access_to(self.bootstrap, cluster_id), deployment_partitions=1)  # So an offset names a record.
        with tempfile.TemporaryDirectory(prefix="eventflink-trace-") as directory:
            cluster, floor = (Trial(), Trial()), (Trial(), Trial())
            with contextlib.ExitStack() as stack:
                stack.enter_context(_traced(directory))
                ours, bare = self._start(stack)
                meter = CpuMeter(self._process_ids)
                for number in range(rounds):
                    for mode, (in_flight, count) in enumerate(((1, jobs), (clients, concurrent_jobs))):
                        share = max(1, count // rounds)
                        self.say(f"round {number + 1} of {rounds}: {share} jobs, {in_flight} in flight, on each side")
                        for trial, submit in ((floor[mode], bare), (cluster[mode], ours)):
                            before = meter.read()
                            done = submit(share, in_flight)
                            time.sleep(SETTLE_S)
                            trial.add(done, before, meter.read())
                self.say("both sides are idle")
                time.sleep(_REST_S)
                idle_share = self._idle_share(meter)
            broker_alone = None
            if self.broker_process_id is not None:
                self.say("the broker is alone")
                time.sleep(_REST_S)
                broker_alone = self._idle_share(CpuMeter({BROKER: self.broker_process_id}))[BROKER]
            evidence = self._evidence(Path(directory), self.configuration.cluster_id, LEADER)
            ways = cluster_timelines(evidence)
            floor_ways = floor_timelines(self._evidence(Path(directory), self._floor_id, FLOOR))
        modes = [compare(each, cluster[n], floor[n], idle_share, ways, floor_ways) for n, each in enumerate((1, clients))]
        trials = (*cluster, *floor)
        return TraceFigures(
            has_task_executor=self.has_task_executor,
            rounds=rounds,
            idle_share=idle_share,
            broker_alone_share=broker_alone,
            records_per_job={topic: round(len(records) / len(ways), 2) for topic, records in evidence.records.items()},
            others_share=round(sum(each.others_s for each in trials) / sum(each.passed_s for each in trials), 3),
            one_at_a_time=modes[0],
            concurrent=modes[1],
        )

    def _start(self, stack: contextlib.ExitStack) -> tuple[Submit, Submit]:
        """Start and warm up both sides; return what submits to the cluster, and to the floor."""
        bootstrap, cluster_id = self.bootstrap, self.configuration.cluster_id
        cluster = stack.enter_context(FailoverCluster(self.configuration, bootstrap, self.command))
        for name in (LEADER, STANDBY):
            self.say(f"the {name} starts")
            self._process_ids[name] = cluster.masters[cluster.start_master()].process.pid
        if self.has_task_executor:
            self.say("the TaskExecutor starts")
            self._process_ids[TASK_EXECUTOR] = cluster.hosts[cluster.start_task_executor(self.configuration.slots)].process.pid
        if self.broker_process_id is not None:
            self._process_ids[BROKER] = self.broker_process_id
        cluster.watch.close()  # It folds the log in this process, which is the client that is measured.
        fold, ends = cluster.watch.fold, None
        if self.has_task_executor:
            ends = stack.enter_context(Ends(bootstrap, cluster_id, fold.last_offset + 1, fold.acceptance))
        client = stack.enter_context(PipelinedClient(access_to(bootstrap, cluster_id)))
        self.say(f"{self.warm_up_jobs} jobs to warm up, on each side")
        submit_one_at_a_time(client, ends, self.warm_up_jobs)

        submission, decision, reply = (
            max((record.value for record in read_topic(bootstrap, cluster_id, topic)), key=len)
            for topic in (Topic.SUBMISSIONS, Topic.LOG, Topic.REPLIES)
        )
        settings = FloorSettings(bootstrap=bootstrap, cluster_id=self._floor_id, log_bytes=len(decision), reply_bytes=len(reply))
        process = stack.enter_context(_running(start_child(FLOOR, settings.command(), self.configuration.data_path / "logs")))
        self._process_ids[FLOOR] = process.process.pid
        floor = stack.enter_context(FloorClient(bootstrap, self._floor_id, submission))
        floor.measure(self.warm_up_jobs, 1)

        def submit(jobs: int, in_flight: int) -> list[SubmittedJob]:
            return submit_one_at_a_time(client, ends, jobs) if in_flight == 1 else submit_concurrently(client, ends, in_flight, jobs)

        return submit, floor.measure

    def _idle_share(self, meter: CpuMeter) -> dict[str, float]:
        before = meter.read()
        time.sleep(self.idle_s)
        return {name: round(share, 4) for name, share in meter.read().shares_since(before).items()}

    def _evidence(self, directory: Path, cluster_id: str, leader: str) -> Evidence:
        is_cluster = leader == LEADER and self.has_task_executor
        return Evidence(
            records={topic: read_topic(self.bootstrap, cluster_id, topic) for topic in TRACED_TOPICS},
            leader=read_stamps(directory, self._process_ids[leader]),
            task_executor=read_stamps(directory, self._process_ids[TASK_EXECUTOR]) if is_cluster else (),
            clock_ns=time.time_ns() - time.monotonic_ns(),
        )


def read_topic(bootstrap: str, cluster_id: str, topic: Topic) -> list[KafkaRecord]:
    """Return what stands in a topic, partition by partition; raises as `PartitionReader` does."""
    reader = PartitionReader(access_to(bootstrap, cluster_id), topic, connect_timeout_s=_READ_TIMEOUT_S)
    records: list[KafkaRecord] = []
    try:
        for partition in range(reader.partition_count):
            first, end = reader.offsets(partition)
            if first == end:
                continue
            reader.seek(partition, first)
            last = -1
            while last < end - 1:
                for message in reader.read(_POLL_S):
                    last = message.offset() or 0
                    key = (message.key() or b"").decode()
                    records.append(KafkaRecord(last, message.timestamp()[1], key, message.value() or b""))
    finally:
        reader.close()
    return records


@contextlib.contextmanager
def _traced(directory: str) -> Iterator[None]:
    """Have the processes traced that are started meanwhile."""
    os.environ[TRACE_VARIABLE] = directory
    try:
        yield
    finally:
        del os.environ[TRACE_VARIABLE]


@contextlib.contextmanager
def _running(child: ChildProcess) -> Iterator[ChildProcess]:
    """End the child in order."""
    try:
        yield child
    finally:
        child.process.terminate()
        try:
            child.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()

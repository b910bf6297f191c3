"""How long the loss of a process is felt, with jobs running: the leader killed, the leader stopped in order, TaskExecutors killed.

Everything is real but the task processes (`simulated_tasks.py`), and those as well where a TaskExecutor with its guardian is killed.
All that is measured is what others see: records of the log, and a client's accepted reply. Milliseconds from the signal on.
"""

import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.failover_watch import Leadership, LogWatch
from benchmarks.graphs import idle_graph
from benchmarks.report import Distribution
from eventflink.events.inputs import JobSubmission
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.log.administration import ensure_topics
from eventflink.model.attempts import SubtaskId
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import ExecutionState

TASK_EXECUTORS: Final = 10
HOSTS: Final = 2
SPARE_SLOTS: Final = 2
"""Of each TaskExecutor: room for probes."""

RESTARTS: Final = 1_000
"""More than any run of the benchmark kills TaskExecutors."""

REAL_TASKS: Final = 4
TIMEOUT_S: Final = 120.0

_PROBE_TIMEOUT_S: Final = 30.0
_WARM_UP_JOBS: Final = 50
_SUBMITTED_AT_ONCE: Final = 50


class FailoverDisturbed(Exception):
    """The change of leader was not one: a running task was disturbed, or an attempt was missed. Times of that mean nothing."""


@dataclass(frozen=True, slots=True)
class LeaderLoss:
    """From the signal to the leader, in milliseconds; `promotion_ms` is from the grant's append time to the first decision's."""

    granted_ms: Distribution
    promotion_ms: Distribution
    accepted_ms: Distribution
    confirmed_ms: Distribution
    tasks_restarted: int
    grants: int
    """How many epochs all rounds took: one for each when every first candidate led."""


@dataclass(frozen=True, slots=True)
class TaskExecutorLoss:
    """From the kill of a TaskExecutor's process, in milliseconds."""

    how: str
    tasks_moved: Distribution
    lost_ms: Distribution
    running_ms: Distribution


@dataclass(frozen=True, slots=True)
class FailoverFigures:
    """What was measured with this many running jobs."""

    jobs: int
    rounds: int
    leader_killed: LeaderLoss
    leader_stopped: LeaderLoss
    hosts_killed: TaskExecutorLoss


@dataclass(frozen=True, slots=True)
class RealTasksFigures:
    """What was measured with real task processes."""

    leader_killed: LeaderLoss
    task_executor_killed: TaskExecutorLoss


@dataclass(slots=True)
class _Samples:
    """What the rounds gave, each list one sample a round."""

    granted_ms: list[float] = field(default_factory=list)
    promotion_ms: list[float] = field(default_factory=list)
    accepted_ms: list[float] = field(default_factory=list)
    confirmed_ms: list[float] = field(default_factory=list)
    grants: int = 0

    def summary(self, tasks_restarted: int) -> LeaderLoss:
        return LeaderLoss(
            granted_ms=Distribution.of(self.granted_ms),
            promotion_ms=Distribution.of(self.promotion_ms),
            accepted_ms=Distribution.of(self.accepted_ms),
            confirmed_ms=Distribution.of(self.confirmed_ms),
            tasks_restarted=tasks_restarted,
            grants=self.grants,
        )


def submission(graph: JobGraph) -> JobSubmission:
    """Return a job that was never submitted before."""
    return JobSubmission(job_id=f"bench-{uuid.uuid4().hex}", actor="benchmark", job_graph=graph)


def run_jobs(client: PipelinedClient, watch: LogWatch, graph: JobGraph, jobs: int) -> None:
    """Submit jobs of one task, some at a time, and wait until every task is RUNNING or has been.

    All at once would be so many that a client repeats those that wait for long, and the repetitions would still be decided later on.

    Raises:
        NotSeen, GatewayError: they are not.

    """
    wanted: set[SubtaskId] = set()
    while (left := jobs - len(wanted)) > 0:
        futures = [client.send(submission(graph)) for _ in range(min(left, _SUBMITTED_AT_ONCE))]
        wanted.update(SubtaskId(future.result(TIMEOUT_S).job_id, graph.vertices[0].vertex_id, 0) for future in futures)
    watch.wait_for(lambda: wanted <= watch.runs.keys(), f"{jobs} jobs RUNNING", TIMEOUT_S)


def measure_failover(
    configuration: Configuration, bootstrap: str, command: Command, *, jobs: int, rounds: int, say: Callable[[str], None]
) -> FailoverFigures:
    """Measure with this many running jobs, in a cluster of its own.

    Raises:
        FailoverDisturbed: a change of leader disturbed a task.
        NotSeen, ChildDied, GatewayError: the cluster did not do its work.

    """
    ensure_topics(access_to(bootstrap, configuration.cluster_id), configuration.replication_factor)
    with FailoverCluster(configuration, bootstrap, command) as cluster:
        for _ in range(2):
            cluster.start_master()
        slots = -(-jobs // TASK_EXECUTORS) + SPARE_SLOTS
        for _ in range(HOSTS):
            cluster.start_host(TASK_EXECUTORS // HOSTS, slots)
        with PipelinedClient(access_to(bootstrap, configuration.cluster_id), request_timeout_s=TIMEOUT_S) as client:
            run_jobs(client, cluster.watch, idle_graph(0), _WARM_UP_JOBS)
            run_jobs(client, cluster.watch, idle_graph(restarts=RESTARTS), jobs)
            cluster.wait_until_decided()
            say(f"{jobs} jobs run; the leader is killed, {rounds} times")
            killed = _lose_leaders(cluster, client, signal.SIGKILL, rounds)
            say(f"{jobs} jobs run; the leader is stopped in order, {rounds} times")
            stopped = _lose_leaders(cluster, client, signal.SIGTERM, rounds)
        say(f"{jobs} jobs run; a host with {TASK_EXECUTORS // HOSTS} TaskExecutors is killed, {rounds} times")
        moves = [_lose_host(cluster, lambda: cluster.start_host(TASK_EXECUTORS // HOSTS, slots)) for _ in range(rounds)]
    how = f"silent for {configuration.loss_timeout_ms} ms"
    return FailoverFigures(jobs, rounds, killed, stopped, _summarise_moves(how, moves))


def measure_real_tasks(
    configuration: Configuration, bootstrap: str, command: Command, *, rounds: int, say: Callable[[str], None]
) -> RealTasksFigures:
    """Measure the deaths of a leader and of a real TaskExecutor with real task processes, which their guardians report.

    Raises:
        As `measure_failover`.

    """
    ensure_topics(access_to(bootstrap, configuration.cluster_id), configuration.replication_factor)
    slots = REAL_TASKS + SPARE_SLOTS
    with FailoverCluster(configuration, bootstrap, command) as cluster:
        for _ in range(2):
            cluster.start_master()
        cluster.start_task_executor(slots)
        with PipelinedClient(access_to(bootstrap, configuration.cluster_id), request_timeout_s=TIMEOUT_S) as client:
            run_jobs(client, cluster.watch, idle_graph(restarts=RESTARTS), REAL_TASKS)
            cluster.wait_until_decided()
            say(f"{REAL_TASKS} task processes run on a real TaskExecutor; the leader is killed, {rounds} times")
            killed = _lose_leaders(cluster, client, signal.SIGKILL, rounds)
        say(f"a real TaskExecutor with {REAL_TASKS} task processes is killed, {rounds} times")
        moves = [_lose_host(cluster, lambda: cluster.start_task_executor(slots)) for _ in range(rounds)]
    return RealTasksFigures(killed, _summarise_moves("reported by its guardian", moves))


def _lose_leaders(cluster: FailoverCluster, client: PipelinedClient, signal_number: signal.Signals, rounds: int) -> LeaderLoss:
    samples = _Samples()
    repeated_before = cluster.watch.ask(lambda: len(cluster.watch.repeated))
    for _ in range(rounds):
        _lose_leader(cluster, client, signal_number, samples)
        cluster.reap()
        cluster.start_master()
        cluster.wait_until_decided()
        cluster.check()
    restarted = cluster.watch.ask(lambda: len(cluster.watch.repeated)) - repeated_before
    if restarted:
        raise FailoverDisturbed(f"{restarted} tasks have a second attempt after {rounds} changes of leader")
    return samples.summary(restarted)


def _lose_leader(cluster: FailoverCluster, client: PipelinedClient, signal_number: signal.Signals, samples: _Samples) -> None:
    """Do one round: signal, and wait until the new leader has accepted a job and has had every TaskExecutor's report."""
    watch = cluster.watch
    registered = watch.ask(lambda: set(watch.fold.master.resource_manager.task_managers))
    epoch, sent_s = cluster.end_leader(signal_number)
    accepted_s = _time_first_accepted(client, epoch)
    first = watch.wait_for(lambda: watch.leaderships.get(epoch + 1), "a new leader")

    def confirmed() -> Leadership | None:
        now = watch.leadership
        return now if now is not None and now.epoch > epoch and registered <= now.reconciled_s.keys() else None

    settled = watch.wait_for(confirmed, f"reports of all {len(registered)} TaskExecutors to the new leader")
    if settled.misfits:
        raise FailoverDisturbed(f"epoch {settled.epoch}: the reports of TaskExecutors missed or held unknown {settled.misfits} attempts")
    samples.granted_ms.append((first.granted_s - sent_s) * 1000)
    samples.promotion_ms.append(float((settled.first_decision_ms or settled.granted_ms) - settled.granted_ms))
    samples.accepted_ms.append((accepted_s - sent_s) * 1000)
    samples.confirmed_ms.append((max(settled.reconciled_s[name] for name in registered) - sent_s) * 1000)
    samples.grants += settled.epoch - epoch


def _time_first_accepted(client: PipelinedClient, epoch: int) -> float:
    """Return when a client has the first accepted reply of a later epoch; a leader that stops in order may still accept some."""
    while True:
        accepted = client.send(submission(idle_graph(0))).result(_PROBE_TIMEOUT_S)
        if accepted.epoch > epoch:
            return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Move:
    """One host's loss: how many tasks had to move, and when they were."""

    tasks: int
    lost_ms: float
    running_ms: float


def _lose_host(cluster: FailoverCluster, start_spare: Callable[[], str]) -> _Move:
    """Start a spare host, kill the one with the most tasks, and wait until all of them run elsewhere."""
    watch = cluster.watch
    start_spare()
    tasks = watch.ask(lambda: {name: _tasks_on(watch, cluster.task_managers[name]) for name in cluster.hosts})
    victim = max(tasks, key=lambda name: len(tasks[name]))
    sent_s = cluster.kill_host(victim)
    attempts = tasks[victim]

    def moved() -> bool:
        lost = watch.lost_s.keys() >= cluster.task_managers[victim]  # Those without a task are declared lost one by one as well.
        return lost and all(watch.runs[subtask].attempt > attempt for subtask, attempt in attempts.items())

    watch.wait_for(moved, f"the {len(attempts)} tasks of {victim} RUNNING elsewhere")
    lost_s = watch.ask(lambda: max(watch.lost_s[name] for name in cluster.task_managers[victim]))
    running_s = watch.ask(lambda: max(watch.runs[subtask].running_s for subtask in attempts))
    cluster.reap()
    cluster.check()
    return _Move(len(attempts), (lost_s - sent_s) * 1000, (running_s - sent_s) * 1000)


def _tasks_on(watch: LogWatch, task_manager_ids: frozenset[str]) -> dict[SubtaskId, int]:
    """Return the tasks that run on these TaskManagers, with the number of their attempt."""
    found = {}
    for job_id, job in watch.fold.master.dispatcher.jobs.items():
        for subtask in job.execution_graph.subtasks():
            if subtask.state is ExecutionState.RUNNING and subtask.executions[-1].task_manager_id in task_manager_ids:
                found[SubtaskId(job_id, subtask.vertex_id, subtask.subtask_index)] = subtask.attempt
    return found


def _summarise_moves(how: str, moves: list[_Move]) -> TaskExecutorLoss:
    return TaskExecutorLoss(
        how,
        Distribution.of([float(move.tasks) for move in moves]),
        Distribution.of([move.lost_ms for move in moves]),
        Distribution.of([move.running_ms for move in moves]),
    )

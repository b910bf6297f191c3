"""What a running subtask weighs: its process on a TaskExecutor, and its part of a master's state.

On a real TaskExecutor, real task processes run and do nothing: what is measured of each is the whole that it maps (RSS), what it alone
holds (USS), and its share where pages are shared with the fork server that it comes from (PSS). The part of the state is the difference
between two processes that read a log (`state_memory`): one of running jobs of one subtask each, and one of none.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks.log_generator import LogGenerator
from benchmarks.report import Distribution
from benchmarks.state_memory import measure_memory
from benchmarks.tasks import DIRECTORY_PARAMETER, stay
from eventflink.events.topics import Topic
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.log.administration import delete_topics, ensure_topics
from eventflink.log.producers import PatientProducer
from eventflink.log.replay import new_fold, replay
from eventflink.model.cluster_access import access_to
from eventflink.model.job_graph_document import parse_job_graph

TIMEOUT_S: Final = 120.0
SETTLED_SHARE: Final = 0.01
"""A host has come to rest when its memory changes by less than this part between two looks, and again before the next."""

_LOOK_S: Final = 1.0
_LOOKS: Final = 3

_LINGER_MS: Final = 5
_POLL_S: Final = 0.1


class MemoryDisturbed(Exception):
    """The figures would mean nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """Real task processes; memory in bytes."""

    tasks: int
    resident: Distribution
    proportional: Distribution
    unique: Distribution
    idle_host_bytes: int
    """The shares of the TaskExecutor and all its processes before the tasks came."""
    running_host_bytes: int
    """The same while they run."""
    master_idle_bytes: int
    """Resident, of the leader, before the tasks came."""
    master_running_bytes: int
    """The same while they run."""


@dataclass(frozen=True, slots=True)
class StateMemory:
    """Part of the state; memory in bytes."""

    running_jobs: int
    bytes_per_running_subtask: Distribution
    """Of a job with one subtask, the job and the slot included."""


def measure_tasks(bootstrap: str, cluster_id: str, master: int, directory: Path, *, tasks: int) -> TaskMemory:
    """Measure on a running cluster of one TaskExecutor on this host that has as many free slots.

    Args:
        bootstrap: where Kafka is.
        cluster_id: which cluster there.
        master: the id of the leader's process.
        directory: an empty one, for the tasks to say which processes they are.
        tasks: how many run at once.

    Raises:
        MemoryDisturbed: the tasks do not run, there is more than one TaskExecutor, or its memory does not come to rest.
        GatewayError: the cluster does not take the job.

    """
    access = access_to(bootstrap, cluster_id)
    executors = replay(access, new_fold(access)).master.resource_manager.task_managers.values()
    if len(executors) != 1:
        raise MemoryDisturbed(f"{len(executors)} TaskExecutors are registered; one is measured")
    executor = psutil.Process(next(iter(executors)).process_id)
    leader = psutil.Process(master)
    idle, master_idle = _settled_host_bytes(executor), leader.memory_info().rss
    parameters = {DIRECTORY_PARAMETER: str(directory)}
    vertex = {"id": "stay", "python": f"{stay.__module__}:{stay.__name__}", "parallelism": tasks, "parameters": parameters}
    with DispatcherGateway(bootstrap, cluster_id) as gateway:
        job_id = gateway.submit_job(parse_job_graph({"name": "memory", "vertices": [vertex]}, "benchmark"), actor="benchmark").job_id
        deadline = time.monotonic() + TIMEOUT_S
        while len(list(directory.iterdir())) < tasks:
            if time.monotonic() > deadline:
                raise MemoryDisturbed(f"{len(list(directory.iterdir()))} of {tasks} tasks run after {TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        running, master_running = _settled_host_bytes(executor), leader.memory_info().rss
        try:
            found = [psutil.Process(int(entry.name)).memory_full_info() for entry in directory.iterdir()]
        except psutil.NoSuchProcess as error:
            raise MemoryDisturbed(f"a process ended while it was measured: {error}") from error
        gateway.cancel_job(job_id, actor="benchmark")
    return TaskMemory(
        tasks=tasks,
        resident=Distribution.of([info.rss for info in found]),
        proportional=Distribution.of([info.pss for info in found]),
        unique=Distribution.of([info.uss for info in found]),
        idle_host_bytes=idle,
        running_host_bytes=running,
        master_idle_bytes=master_idle,
        master_running_bytes=master_running,
    )


def _settled_host_bytes(executor: psutil.Process) -> int:
    """Return the memory of a host when it has come to rest: fork servers load what tasks need, and fork in place of what became a task."""
    looks: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(looks) < _LOOKS or max(looks[-_LOOKS:]) - min(looks[-_LOOKS:]) > SETTLED_SHARE * looks[-1]:
        if time.monotonic() > deadline:
            raise MemoryDisturbed(f"the TaskExecutor's memory does not come to rest within {TIMEOUT_S:.0f} s")
        time.sleep(_LOOK_S)
        looks.append(_host_bytes(executor))
    return looks[-1]


def _host_bytes(executor: psutil.Process) -> int:
    """Return the memory of a process and all that came from it, shared pages counted once."""
    total = 0
    for process in [executor, *executor.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue  # It had ended before it was its turn.
    return total


def measure_state(bootstrap: str, cluster_id: str, *, running_jobs: int, rounds: int, say: Callable[[str], None]) -> StateMemory:
    """Write two logs into scratch clusters, whose ids begin with `cluster_id`, and read each as often as `rounds`.

    Raises:
        MemoryNotMeasured: a process whose memory was to be measured failed.

    """
    with_jobs, without = f"{cluster_id}-running", f"{cluster_id}-none"
    samples = []
    try:
        for name, count in ((with_jobs, running_jobs), (without, 0)):
            ensure_topics(access_to(bootstrap, name))
            access = access_to(bootstrap, name)
            with PatientProducer(access, Topic.LOG, linger_ms=_LINGER_MS) as producer:
                for value in LogGenerator(new_fold(access), running_jobs=count).records(1):
                    producer.produce(name, value)
                producer.flush()
        for number in range(1, rounds + 1):
            much, little = measure_memory(bootstrap, with_jobs), measure_memory(bootstrap, without)
            grown = (much.after_bytes - much.before_bytes) - (little.after_bytes - little.before_bytes)
            samples.append(grown / running_jobs)
            say(f"round {number}: {samples[-1]:,.0f} bytes of state for each running subtask")
    finally:
        for name in (with_jobs, without):
            delete_topics(access_to(bootstrap, name))
    return StateMemory(running_jobs, Distribution.of(samples))

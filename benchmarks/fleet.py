"""What it costs to give orders to a fleet: waves of one task for each TaskExecutor, with a consumer of `deployments` for each.

A real master leads on a real broker. The fleet comes host by host, so that the topic grows with it, or all at once, so that all share the
partitions with which the topic began. The figures count only if each order has reached its TaskExecutor, that is, if the job has finished.
An order that the leader repeats, for want of a word on it, is delivered again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.fleet_readers import ReaderSettings
from benchmarks.graphs import noop_graph
from benchmarks.report import Distribution
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.log.administration import ensure_topics
from eventflink.model.configuration import Configuration
from eventflink.model.kafka_settings import KafkaRole
from eventflink.processes.child_processes import start_child

HOSTS: Final = 4
SETTLE_S: Final = 5.0
START_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """What was measured; one sample for each wave."""

    task_executors: int
    partitions: int
    """In so many the fleet has come to be."""
    fullest: int
    """So many read the partition that most of them read."""
    seconds: Distribution
    """From the submission of a wave to its end."""
    deliveries: Distribution
    """Records that consumers got, for each order."""
    delivered_bytes: Distribution
    """Bytes of keys and values that consumers got, for each order."""


def measure_fleet(
    configuration: Configuration,
    bootstrap: str,
    command: Command,
    *,
    task_executors: int,
    waves: int,
    at_once: bool,
    say: Callable[[str], None],
) -> FleetFigures:
    """Measure waves of orders; the first one, which warms up, does not count.

    Raises:
        NotSeen, ChildDied: the cluster or the fleet did not come up, or a wave did not end.

    """
    ensure_topics(configuration.access(bootstrap), deployment_partitions=configuration.deployment_partitions)
    with FailoverCluster(configuration, bootstrap, command) as cluster:
        cluster.start_master()
        readers = _start_readers(cluster, task_executors, at_once=at_once, say=say)
        read_by = [each.deployment_partition for each in cluster.watch.fold.master.resource_manager.task_managers.values()]
        say(f"{task_executors:,} TaskExecutors read {len(set(read_by))} partitions")
        samples = []
        with DispatcherGateway(cluster.access) as gateway:
            for _ in range(waves + 1):
                time.sleep(SETTLE_S)
                cluster.check()
                before, began_s = _delivered(readers), time.monotonic()
                job_id = gateway.submit_job(noop_graph(task_executors), None, actor="benchmark").job_id
                cluster.watch.wait_for(partial(cluster.watch.ended.get, job_id), f"the end of {job_id}", START_TIMEOUT_S)
                ended_s = time.monotonic() - began_s
                time.sleep(SETTLE_S)
                delivered = zip(_delivered(readers), before, strict=True)
                samples.append((ended_s, *((now - then) / task_executors for now, then in delivered)))
        seconds, deliveries, sizes = (Distribution.of(column) for column in zip(*samples[1:], strict=True))
        fullest = max(map(read_by.count, set(read_by)))
        return FleetFigures(task_executors, len(set(read_by)), fullest, seconds, deliveries, sizes)


def _start_readers(cluster: FailoverCluster, count: int, *, at_once: bool, say: Callable[[str], None]) -> list[ReaderSettings]:
    """Have the fleet register: one host after the other, or all when each of them has chosen its partition."""
    directory = cluster.configuration.data_path
    access = cluster.configuration.access(cluster.bootstrap, KafkaRole.TASKMANAGER)
    readers = [
        ReaderSettings(access, f"host-{n}", count // HOSTS, directory / ("go" if at_once else f"go-{n}"), directory / f"counted-{n}")
        for n in range(HOSTS)
    ]
    registered = cluster.watch.fold.master.resource_manager.task_managers
    for each in readers:
        say(f"{each.name} starts")
        cluster.hosts[each.name] = start_child(each.name, each.command(), directory / "logs")
        _wait_until_positioned(cluster, each)
        if not at_once or each is readers[-1]:
            each.go.touch()
        if not at_once:
            cluster.watch.wait_for(
                partial(registered.keys().__ge__, each.task_manager_ids), f"registration of {each.name}", START_TIMEOUT_S
            )
            time.sleep(SETTLE_S)
    everybody = frozenset().union(*(each.task_manager_ids for each in readers))
    cluster.watch.wait_for(lambda: everybody <= registered.keys(), "registration of all", START_TIMEOUT_S)
    return readers


def _wait_until_positioned(cluster: FailoverCluster, readers: ReaderSettings) -> None:
    while not readers.counted.exists() or int(readers.counted.read_text().split()[0]) < readers.count:
        cluster.hosts[readers.name].check()
        time.sleep(0.1)


def _delivered(readers: list[ReaderSettings]) -> tuple[int, int]:
    counts = [each.counted.read_text().split() for each in readers]
    return sum(int(records) for _, records, _ in counts), sum(int(size) for _, _, size in counts)

"""`deployments` is divided by TaskManager: each reads a partition, and only what is for it, or for all, is decoded (P12)."""

import pytest

from eventflink.events.effects import InstanceForgotten, LeaderChanged
from eventflink.events.topics import Topic, deployment_partition
from eventflink.leadership.leader import Released
from eventflink.leadership.release import Releaser
from eventflink.master.effects import Deployment, leader_change
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for
from tests.support.cluster import ScriptedCluster
from tests.support.wires import SilentWires

PARTITIONS = 7
NAMES = [f"tm-{number}" for number in range(1_000)]


class NotingWires(SilentWires):
    """Notes which records go to which partitions of `deployments`."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes, bytes]] = []

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        assert topic is Topic.DEPLOYMENTS
        self.records.append((partition, key.encode(), value))


def released(*effects: Deployment) -> list[tuple[int, bytes, bytes]]:
    wires = NotingWires()
    Releaser(wires, "master-1", PARTITIONS).release(Released(0, 1, 0, "leader", list(effects)), 1)
    return wires.records


@pytest.mark.rule("P12")
def test_what_is_for_a_task_manager_goes_to_the_partition_that_it_reads_and_is_for_no_other() -> None:
    for name, (partition, key, value) in zip(NAMES, released(*(Deployment(n, "i", InstanceForgotten("")) for n in NAMES)), strict=True):
        assert partition == deployment_partition(name, PARTITIONS)
        assert [other for other in NAMES if is_for(key, other)] == [name]
        assert TaskExecutorCodecs().decode_deployment(value).task_manager_id == name


def test_task_managers_are_spread_over_all_partitions() -> None:
    counts = [[deployment_partition(name, PARTITIONS) for name in NAMES].count(partition) for partition in range(PARTITIONS)]
    assert min(counts) > len(NAMES) // PARTITIONS // 2


@pytest.mark.rule("P12")
def test_a_change_of_leader_is_said_once_in_each_partition_to_all_who_read_it(cluster: ScriptedCluster) -> None:
    for number in range(50):
        cluster.register(f"tm-{number}")
    records = released(leader_change(cluster.master, "master-2", PARTITIONS))
    assert [partition for partition, _, _ in records] == list(range(PARTITIONS))
    assert all(is_for(key, name) for _, key, _ in records for name in NAMES)
    assert {type(TaskExecutorCodecs().decode_deployment(value).payload) for _, _, value in records} == {LeaderChanged}
    assert [e for e in cluster.fail_over().effects if isinstance(e, Deployment)] == [leader_change(cluster.master, "master-1", 4)]

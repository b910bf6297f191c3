"""`deployments` is divided by TaskManager: each reads a partition, and only what is for it, or for all, is decoded (P12)."""

import pytest

from eventflink.events.effects import InstanceForgotten, LeaderChanged, RegistrationAccepted, TaskDeployment
from eventflink.events.inputs import SlotReport, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.topics import MAX_DEPLOYMENT_PARTITIONS, Topic, deployment_partition
from eventflink.leadership.leader import Released
from eventflink.leadership.release import Releaser
from eventflink.master.effects import Deployment, Effect, leader_change, wanted_partitions
from eventflink.master.resource_manager import TaskManager
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for
from tests.support.cluster import REPORTS, ScriptedCluster, graph, new_fold, vertex
from tests.support.participants import World
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
    Releaser(wires, "master-1").release(Released(0, 1, 0, "leader", list(effects)), 1)
    return wires.records


def registration(name: str, partition: int, instance: int = 1) -> TaskManagerRegistration:
    begun_at_ms = instance
    return TaskManagerRegistration(name, f"{name}-{instance}", "h", 1, 1, begun_at_ms, deployment_partition=partition)


def told(effects: list[Effect]) -> list[tuple[str, int, type]]:
    """Return which instances are told something in which partition."""
    return [(e.instance_id, e.partition, type(e.payload)) for e in effects if isinstance(e, Deployment)]


@pytest.mark.rule("P12")
def test_what_is_for_a_task_manager_goes_to_the_partition_that_it_reads_and_is_for_no_other() -> None:
    chosen = [deployment_partition(name, PARTITIONS) for name in NAMES]
    orders = [Deployment(name, "i", InstanceForgotten(""), partition) for name, partition in zip(NAMES, chosen, strict=True)]
    for name, wanted, (partition, key, value) in zip(NAMES, chosen, released(*orders), strict=True):
        assert partition == wanted
        assert [other for other in NAMES if is_for(key, other)] == [name]
        assert TaskExecutorCodecs().decode_deployment(value).task_manager_id == name


def test_task_managers_are_spread_over_all_partitions() -> None:
    counts = [[deployment_partition(name, PARTITIONS) for name in NAMES].count(partition) for partition in range(PARTITIONS)]
    assert min(counts) > len(NAMES) // PARTITIONS // 2


@pytest.mark.rule("P12")
def test_each_instance_is_told_everything_in_the_partition_that_it_named(cluster: ScriptedCluster) -> None:
    assert told(cluster.say(registration("early", 2))) == [("early-1", 2, RegistrationAccepted)]
    assert told(cluster.say(registration("late", 40))) == [("late-1", 40, RegistrationAccepted)]
    deployed = told(cluster.submit(graph(vertex("a", 2))))
    assert deployed == [("early-1", 2, TaskDeployment), ("late-1", 40, TaskDeployment)]
    resent = told(cluster.fail_over().effects)
    assert resent == [("", n, LeaderChanged) for n in range(41)] + deployed


@pytest.mark.rule("P12")
def test_a_registered_instance_stays_where_it_is_and_the_next_one_is_told_where_that_reads(cluster: ScriptedCluster) -> None:
    cluster.say(registration("tm", 2))
    assert told(cluster.say(registration("tm", 5))) == [("tm-1", 2, RegistrationAccepted)]
    assert told(cluster.say(registration("tm", 6, instance=2))) == [("tm-1", 2, InstanceForgotten), ("tm-2", 6, RegistrationAccepted)]
    assert told(cluster.say(SlotReport("tm", "tm-1", (), (), deployment_partition=2))) == [("tm-1", 2, InstanceForgotten)]
    assert told(cluster.say(TaskManagerDeath("tm", "tm-2", "killed"))) == [("tm-2", 6, InstanceForgotten)]
    assert told(cluster.say(registration("tm", 6, instance=2))) == [("tm-2", 6, InstanceForgotten)]


@pytest.mark.rule("P12")
@pytest.mark.parametrize("partition", [-1, MAX_DEPLOYMENT_PARTITIONS, 2**31 - 1])
def test_who_names_a_partition_that_no_topic_has_is_refused(cluster: ScriptedCluster, partition: int) -> None:
    assert told(cluster.say(registration("tm", partition))) == [("tm-1", 0, InstanceForgotten)]
    assert told(cluster.say(SlotReport("tm", "tm-1", (), (), deployment_partition=partition))) == [("tm-1", 0, InstanceForgotten)]
    assert not cluster.master.resource_manager.task_managers


@pytest.mark.rule("P12")
def test_a_change_of_leader_is_said_once_in_each_partition_to_all_who_read_it(cluster: ScriptedCluster) -> None:
    for number in range(50):
        cluster.say(registration(f"tm-{number}", number % PARTITIONS))
    records = released(*leader_change(cluster.master, "master-2"))
    assert [partition for partition, _, _ in records] == list(range(PARTITIONS))
    assert all(is_for(key, name) for _, key, _ in records for name in NAMES)
    assert {type(TaskExecutorCodecs().decode_deployment(value).payload) for _, _, value in records} == {LeaderChanged}
    assert [e for e in cluster.fail_over().effects if isinstance(e, Deployment)] == leader_change(cluster.master, "master-1")


@pytest.mark.parametrize(
    ("task_managers", "named", "wanted"),
    [(0, 0, 0), (64, 1, 0), (65, 1, 4), (65, 2, 0), (256, 4, 0), (257, 4, 10), (640, 10, 0), (641, 10, 22), (64_001, 999, 1_000)],
)
def test_partitions_are_wanted_for_more_task_managers_than_may_share_one(task_managers: int, named: int, wanted: int) -> None:
    """Twice as many as they need now."""
    master = new_fold().master
    managers = master.resource_manager
    managers.deployment_partitions = named
    managers.task_managers = {f"tm-{n}": TaskManager(f"{n}", "h", 1, 1, 0) for n in range(task_managers)}
    assert wanted_partitions(master) == wanted


def test_the_leader_says_how_many_are_wanted_until_somebody_has_named_one_of_them(world: World) -> None:
    world.start("a")
    leader = world.leader()
    for number in range(65):
        world.put(Topic.TASKMANAGERS, REPORTS.encode([registration(f"tm-{number}", 0)]))
    world.run(500)
    assert leader.wires.grown_to == 4
    leader.wires.grown_to = 0
    world.run(500)
    assert leader.wires.grown_to == 4, "the next leader has to know it as well, and each says it again"
    world.put(Topic.TASKMANAGERS, REPORTS.encode([registration("late", 3)]))
    world.run(500)
    leader.wires.grown_to = 0
    world.run(500)
    assert leader.wires.grown_to == 0

"""How TaskManagers come and go (P12): one instance at a time, and none that is gone comes back."""

import pytest

from eventflink.events.effects import InstanceForgotten, RegistrationAccepted
from eventflink.events.inputs import Disconnection, SlotReport, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.log_events import (
    InputsSkipped,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
)
from eventflink.master.effects import Deployment
from eventflink.master.inputs import HeartbeatTimeout
from eventflink.model.resources import Hardware
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.views.queries import task_managers
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, tasks, vertex


def test_a_registered_instance_is_accepted_and_told_where_the_blobs_are(cluster: ScriptedCluster) -> None:
    effects = cluster.register("tm", slots=3)
    assert effects == [Deployment("tm", "tm-1", RegistrationAccepted("blob:1"))]
    assert cluster.master.slot_manager.get_number_registered_slots() == 3
    assert cluster.master.slot_manager.get_number_free_slots() == 3


def test_the_sparks_of_a_task_manager_are_where_its_instance_said_first(cluster: ScriptedCluster) -> None:
    lake = SparkAddress("lake", "sc://there:1")
    for address in (lake, SparkAddress("lake", "sc://elsewhere:1")):
        cluster.register(spark_addresses=(address,))
    assert [row.spark_addresses for row in task_managers(cluster.fold).task_managers] == [[lake]]


@pytest.mark.parametrize(
    ("addresses", "says"),
    [
        (
            [SparkAddress(f"e{n}", "sc://h:1") for n in range(34)],
            "it has 34 Sparks elsewhere; it may have 32, and one for tasks that name none",
        ),
        ([SparkAddress("e", "s" * 513)], "the name or address of a Spark elsewhere has more than 512 characters"),
        ([SparkAddress("e" * 513, "sc://h:1")], "the name or address of a Spark elsewhere has more than 512 characters"),
    ],
    ids=["many", "long address", "long name"],
)
def test_a_registration_with_sparks_that_would_fill_the_log_is_refused(
    cluster: ScriptedCluster, addresses: list[SparkAddress], says: str
) -> None:
    """Each attempt that is deployed there repeats the address."""
    cluster.register(spark_addresses=tuple(addresses))
    [refused] = cluster.events(TaskManagerRegistrationRefused)
    assert refused.reason == says
    cluster.register(spark_addresses=tuple(addresses[:33]) if len(addresses) > 33 else (SparkAddress("e", "s" * 512),))
    assert "tm" in cluster.master.resource_manager.task_managers


@pytest.mark.rule("P13")
def test_registering_again_is_accepted_again_and_changes_nothing(cluster: ScriptedCluster) -> None:
    """A TaskExecutor retries until it is answered: the slots, and what runs in them, stay."""
    cluster.register("tm", slots=3)
    cluster.submit(graph(vertex("a", 2)))
    before = cluster.master.slot_manager.get_number_free_slots()
    effects = cluster.say(TaskManagerRegistration("tm", "tm-1", "host-of-tm", 1, 7, number=5))
    assert effects == [Deployment("tm", "tm-1", RegistrationAccepted("blob:1", 5))]
    assert cluster.master.slot_manager.get_number_registered_slots() == 3
    assert cluster.master.slot_manager.get_number_free_slots() == before == 1


@pytest.mark.rule("P20")
def test_a_task_manager_whose_clock_was_set_back_comes_back_when_its_last_instance_is_lost(cluster: ScriptedCluster) -> None:
    """P20: it seems to have begun before that one did, a year ago; it is not refused for longer than that takes."""
    year_ms = 31_536_000_000
    cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 2, begun_at_ms=2 * year_ms))
    refused = cluster.say(TaskManagerRegistration("tm", "tm-2", "h", 2, 2, begun_at_ms=year_ms))
    assert [type(effect.payload) for effect in refused if isinstance(effect, Deployment)] == [InstanceForgotten]
    cluster.timer(HeartbeatTimeout("tm", "tm-1", 5_000))
    cluster.say(TaskManagerRegistration("tm", "tm-3", "h", 2, 2, begun_at_ms=year_ms + 1))
    assert cluster.master.resource_manager.is_current("tm", "tm-3")


def test_the_hardware_of_a_task_manager_is_what_its_instance_said_first(cluster: ScriptedCluster) -> None:
    said = Hardware(2, 16 << 30, 9 << 30)
    for hardware in (said, Hardware(2, 16 << 30, 1 << 30)):
        cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 1, hardware=hardware))
    assert [event.hardware for event in cluster.events(TaskManagerRegistered)] == [said, said]
    assert cluster.master.resource_manager.task_managers["tm"].hardware == said
    cluster.check()


def test_a_new_instance_replaces_the_old_one_and_its_tasks_start_again(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=1)
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, delay_ms=0))))
    cluster.report(first, ExecutionState.RUNNING)
    effects = cluster.register("tm", slots=1, instance="2")
    assert Deployment("tm", "tm-1", InstanceForgotten("replaced by its new instance tm-2")) in effects
    effects += cluster.pass_time(1)
    [second] = deployments(effects)
    assert (second.instance_id, tasks([second])[0].attempt) == ("tm-2", 2)
    cluster.run([second])
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.rule("P12")
def test_a_late_registration_of_an_older_instance_does_not_replace_its_successor(cluster: ScriptedCluster) -> None:
    """What a dead process had said can come after the first record of the next one: its successor's tasks keep running."""
    cluster.say(TaskManagerRegistration("tm", "tm-2", "h", 2, 1, begun_at_ms=2_000))
    [first] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(first, ExecutionState.RUNNING)
    effects = cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 1, begun_at_ms=1_500))
    [refused] = cluster.events(TaskManagerRegistrationRefused)
    assert refused.reason == "the instance tm-2, which began 500 ms later, is registered"
    assert effects == [Deployment("tm", "tm-1", InstanceForgotten(refused.reason))]
    assert not cluster.events(TaskManagerLost)
    cluster.run([first])
    assert cluster.job("job").status is JobStatus.FINISHED


@pytest.mark.parametrize(("older", "newer"), [(0, 1_000), (1_000, 0), (1_000, 1_000), (1_000, 1_001), (0, 0)])
def test_an_instance_that_does_not_say_that_it_is_older_replaces_the_registered_one(
    cluster: ScriptedCluster, older: int, newer: int
) -> None:
    cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 1, begun_at_ms=older))
    cluster.say(TaskManagerRegistration("tm", "tm-2", "h", 2, 1, begun_at_ms=newer))
    assert [event.instance_id for event in cluster.events(TaskManagerLost)] == ["tm-1"]
    assert cluster.master.resource_manager.task_managers["tm"].instance_id == "tm-2"


def test_a_registration_that_is_repeated_keeps_when_its_instance_began(cluster: ScriptedCluster) -> None:
    for _ in range(2):
        cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 1, begun_at_ms=7))
    assert cluster.master.resource_manager.task_managers["tm"].begun_at_ms == 7


@pytest.mark.rule("P12")
def test_an_instance_that_is_gone_is_refused_for_good(cluster: ScriptedCluster) -> None:
    cluster.register("tm")
    cluster.say(TaskManagerDeath("tm", "tm-1", "exit code 137"))
    effects = cluster.register("tm")
    [refused] = cluster.events(TaskManagerRegistrationRefused)
    assert refused.reason == "TaskManagerLost: exit code 137"
    assert effects == [Deployment("tm", "tm-1", InstanceForgotten(refused.reason))]
    assert not cluster.master.resource_manager.task_managers


def test_a_registration_without_ids_or_slots_is_refused(cluster: ScriptedCluster) -> None:
    for registration in (
        TaskManagerRegistration("", "i", "h", 1, 1),
        TaskManagerRegistration("tm", "", "h", 1, 1),
        TaskManagerRegistration("tm", "i", "h", 1, 0),
        TaskManagerRegistration("tm", "i", "h", 1, -1),
        TaskManagerRegistration("tm", "i", "h", 1, 1025),
    ):
        cluster.say(registration)
    assert len(cluster.events(TaskManagerRegistrationRefused)) == 5
    assert not cluster.events(TaskManagerRegistered)


def test_an_instance_that_leaves_in_order_leaves_nothing_behind(cluster: ScriptedCluster) -> None:
    cluster.register("tm")
    cluster.say(Disconnection("tm", "tm-1", "stopped"))
    assert cluster.events(TaskManagerDisconnected) == [TaskManagerDisconnected("tm", "tm-1", "stopped")]
    assert cluster.master.slot_manager.get_number_registered_slots() == 0
    assert not cluster.master.slot_manager.free_unready


def test_the_departure_of_an_instance_that_is_not_registered_is_skipped(cluster: ScriptedCluster) -> None:
    cluster.register("tm", instance="2")
    cluster.say(Disconnection("tm", "tm-1", "late"))
    cluster.say(TaskManagerDeath("tm", "tm-1", "late"))
    cluster.timer(HeartbeatTimeout("tm", "tm-1", 5_000))
    assert len(cluster.events(InputsSkipped)) == 3
    assert not cluster.events(TaskManagerLost)


def test_the_report_of_an_unregistered_instance_tells_it_to_come_back_as_a_new_one(cluster: ScriptedCluster) -> None:
    effects = cluster.say(SlotReport("tm", "tm-1", (), ()))
    assert effects == [Deployment("tm", "tm-1", InstanceForgotten("it is not registered"))]


def test_reports_of_one_record_are_decided_in_order_in_one_decision(cluster: ScriptedCluster) -> None:
    """A record of `taskmanagers` is what an instance says at once: registration and report stand together (P6)."""
    count = len(cluster.log)
    cluster.say(TaskManagerRegistration("tm", "tm-1", "h", 1, 2), SlotReport("tm", "tm-1", (), ()))
    assert len(cluster.log) == count + 1
    assert [type(e).__name__ for e in cluster.last_events()] == ["TaskManagerRegistered", "TaskManagerReportReconciled"]


@pytest.mark.rule("P7")
def test_a_record_without_reports_still_moves_the_cursor(cluster: ScriptedCluster) -> None:
    """P7: every input advances its cursor by a decision."""
    cluster.say()
    assert cluster.master.requests.cursors["taskmanagers"].next_offset == 1

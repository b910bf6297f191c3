"""A blocked TaskManager gets no new tasks, and what runs there keeps running; who blocked it, why, and until when is in the log."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.inputs import MAX_BLOCKED_MS, BlockTaskManager, SlotReport, TaskManagerDeath
from eventflink.events.log_events import RequestRejected, SlotAllocated, TaskManagerBlocked, TaskManagerUnblocked
from eventflink.master.blocklist import ITSELF, MAX_BLOCKED, BlockedTaskManager, Blocklist
from eventflink.master.effects import Effect
from eventflink.master.resource_manager import ResourceManager, TaskManager
from eventflink.master.settings import Context, MasterSettings
from eventflink.model.statuses import ExecutionState, IllegalTransition
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, replies, vertex


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Two TaskManagers with two slots each, at the newest feature level; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register("one", 2)
    scripted.register("two", 2)
    yield scripted
    scripted.check()


def _answer(effects: list[Effect]) -> str:
    """Return the code of the only refusal; "" for what was accepted."""
    [reply] = replies(effects)
    return reply.payload.code if isinstance(reply.payload, RequestRejected) else ""


def _places(effects: list[Effect]) -> list[str]:
    return [d.task_manager_id for d in deployments(effects)]


def test_new_tasks_go_elsewhere_and_what_runs_goes_on(cluster: ScriptedCluster) -> None:
    running = deployments(cluster.submit(graph(vertex("a", 2)), job_id="before"))
    assert _answer(cluster.block("one")) == ""
    assert _places(cluster.submit(graph(vertex("a", 3)), job_id="after")) == ["two"]
    [on_one] = [d for d in running if d.task_manager_id == "one"]
    assert not deployments(cluster.report(on_one, ExecutionState.FINISHED)), "its slot is free, and stays so"
    slots = cluster.master.slot_manager
    assert (slots.get_number_free_slots_of("one"), slots.get_number_free_slots()) == (2, 2)
    assert _places(cluster.unblock("one")) == ["one", "one"]


def test_who_why_and_until_when_is_in_the_log(cluster: ScriptedCluster) -> None:
    cluster.block("one", "its disk is full", 5_000)
    [blocked] = cluster.events(TaskManagerBlocked)
    assert (blocked.reason, blocked.until_ms - START_MS, blocked.actor) == ("its disk is full", 5_000, "test (declared)")
    cluster.pass_time(4_999)
    assert not cluster.events(TaskManagerUnblocked)
    cluster.pass_time(1)
    assert cluster.events(TaskManagerUnblocked) == [TaskManagerUnblocked("one", "its time was over", "")]
    assert not cluster.master.blocklist.task_managers


def test_it_stays_blocked_when_it_starts_anew_and_after_a_change_of_leader(cluster: ScriptedCluster) -> None:
    cluster.block("one")
    cluster.register("one", 2, instance="2")
    cluster.fail_over()
    assert _places(cluster.submit(graph(vertex("a", 3)))) == ["two", "two"]
    cluster.unblock("one")
    assert len(cluster.events(SlotAllocated)) == 3


def test_the_newest_word_counts_and_the_same_word_again_is_no_event(cluster: ScriptedCluster) -> None:
    cluster.block("one", "first")
    cluster.block("one", "first")
    cluster.block("one", "second")
    assert [e.reason for e in cluster.events(TaskManagerBlocked)] == ["first", "second"]
    assert _answer(cluster.unblock("one")) == _answer(cluster.unblock("one")) == ""
    assert len(cluster.events(TaskManagerUnblocked)) == 1


def test_a_request_that_is_repeated_is_not_done_twice(cluster: ScriptedCluster) -> None:
    cluster.block("one", request_id="r")
    cluster.unblock("one")
    cluster.block("one", request_id="r")
    assert not cluster.master.blocklist.task_managers


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"task_manager_id": "three"}, "UnknownTaskManager"),
        ({"task_manager_id": "one", "duration_ms": -1}, "InvalidRequest"),
        ({"task_manager_id": "one", "duration_ms": MAX_BLOCKED_MS + 1}, "InvalidRequest"),
        ({"task_manager_id": "one", "reason": "x" * 1_025}, "InvalidRequest"),
        ({"task_manager_id": "no id!"}, "InvalidRequest"),
        ({"task_manager_id": "one", "for": 3}, "InvalidRequest"),
    ],
)
def test_a_wrong_command_is_refused(cluster: ScriptedCluster, command: dict[str, Any], code: str) -> None:
    assert _answer(cluster.command(type="BlockTaskManager", **command)) == code
    assert not cluster.master.blocklist.task_managers


def test_to_unblock_what_nobody_knows_is_refused(cluster: ScriptedCluster) -> None:
    assert _answer(cluster.unblock("three")) == "UnknownTaskManager"


def test_the_blocklist_has_a_bound() -> None:
    resource_manager = ResourceManager({"new": TaskManager("new-1", "host", 1, 1, 0)})
    blocklist = Blocklist(resource_manager, {f"tm{n}": BlockedTaskManager("", 0, "", 1) for n in range(MAX_BLOCKED)})
    [refused] = blocklist.decide_block_task_manager(BlockTaskManager(task_manager_id="new"), Context(MasterSettings(), 1))
    assert isinstance(refused, RequestRejected)
    assert refused.code == "TooManyBlocked"
    with pytest.raises(IllegalTransition):
        blocklist.apply_task_manager_blocked(TaskManagerBlocked("new", "", 0, ""), 1)


def test_a_slot_of_a_blocked_task_manager_cannot_be_allocated(cluster: ScriptedCluster) -> None:
    cluster.block("one")
    cluster.block("two")
    cluster.submit(graph(vertex("a")))
    with pytest.raises(IllegalTransition, match="it is blocked"):
        cluster.master.apply(SlotAllocated("allocation-1", "one", "one-1", 0), 1)


FULL = "/data: No space left on device (0 of 65536 bytes are free)"


def _say(cluster: ScriptedCluster, number: int, fault: str, name: str = "one") -> list[Effect]:
    return cluster.say(SlotReport(name, f"{name}-1", (), (), number, ready=True, disk_fault=fault))


@pytest.mark.rule("L7")
def test_a_task_manager_that_cannot_write_is_given_no_tasks_until_it_can(cluster: ScriptedCluster) -> None:
    for number in (1, 2):  # Said again, it is no event.
        _say(cluster, number, FULL)
    assert cluster.master.blocklist.task_managers["one"] == BlockedTaskManager(FULL, 0, ITSELF, START_MS)
    assert _places(cluster.submit(graph(vertex("a", 4)), job_id="many")) == ["two", "two"]
    assert _places(_say(cluster, 3, "")) == ["one", "one"]
    assert [type(e) for e in cluster.events(TaskManagerBlocked, TaskManagerUnblocked)] == [TaskManagerBlocked, TaskManagerUnblocked]


@pytest.mark.rule("L7")
def test_what_a_task_manager_says_of_its_disk_goes_with_its_instance(cluster: ScriptedCluster) -> None:
    _say(cluster, 1, FULL)
    cluster.say(TaskManagerDeath("one", "one-1", "killed"))
    assert not cluster.master.blocklist.task_managers
    cluster.register("one", 2, "2")
    assert len(_places(cluster.submit(graph(vertex("a", 4)), job_id="many"))) == 4


@pytest.mark.rule("L7")
def test_the_word_of_an_operator_counts_more_than_that_of_a_disk(cluster: ScriptedCluster) -> None:
    cluster.block("one", reason="maintenance")
    _say(cluster, 1, FULL)
    assert cluster.master.blocklist.task_managers["one"].reason == "maintenance"
    _say(cluster, 2, "")
    assert "one" in cluster.master.blocklist.task_managers
    _say(cluster, 1, FULL, "two")
    cluster.block("two", reason="maintenance")
    _say(cluster, 2, "", "two")
    assert cluster.master.blocklist.task_managers["two"].reason == "maintenance"

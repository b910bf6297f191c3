"""Slot sharing groups: who runs beside whom in one slot, what becomes of those who do when one ends, and of all when the slot is lost."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.effects import TaskCancellation, TaskDeployment
from eventflink.events.inputs import SlotReport, TaskManagerDeath
from eventflink.events.log_events import (
    InputsSkipped,
    SlotAllocated,
    SlotFreed,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequestDeferred,
    SlotRequested,
    SlotRequestTimedOut,
    SlotShared,
    SlotShareReturned,
    TaskFailed,
    TaskManagerReportReconciled,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.effects import Deployment, Effect, unacknowledged
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import AttemptStatus, SlotStatus
from eventflink.model.resources import ExtendedResource, ResourceProfile
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, SlotRequestDeferralReason, SlotState
from eventflink.snapshots.state_codec import document_of, restore_fold
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    new_fold,
    sharing,
    tasks,
    vertex,
)

RUNNING, FINISHED, FAILED, CANCELED = (
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
    ExecutionState.FAILED,
    ExecutionState.CANCELED,
)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster at the newest feature level; its log is replayed at the end."""
    scripted = ScriptedCluster()
    yield scripted
    scripted.check()


def _together(cluster: ScriptedCluster) -> dict[str, list[str]]:
    """Return who is in the slots now, by TaskManager and slot."""
    found = {}
    for allocation in cluster.master.slot_manager.allocations.values():
        place = f"{allocation.task_manager_id}/{allocation.slot_index}"
        found[place] = [f"{a.vertex_id}{a.subtask_index}" for a in allocation.attempts]
    return found


def _of(effects: list[Any], name: str) -> Deployment:
    """Return the deployment of a subtask, such as a0."""
    found = [d for d in deployments(effects) if f"{d.payload.vertex_id}{d.payload.subtask_index}" == name]  # type: ignore[union-attr]
    assert found, name
    return found[-1]


def _status(name: str, attempt: int = 1, job_id: str = "job") -> AttemptStatus:
    return AttemptStatus(job_id, name[0], int(name[1:]), attempt, RUNNING)


class TestWhoRunsBesideWhom:
    def test_subtasks_of_different_vertices_of_a_group_run_in_one_slot_at_most_one_of_each(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a", 2), sharing("b", 2)))
        assert _together(cluster) == {"tm/0": ["a0", "b0"]}
        a0, b0 = tasks(running)
        assert (a0.slot_index, a0.allocation_id) == (b0.slot_index, b0.allocation_id)
        cluster.run(running)
        assert cluster.job("job").status is JobStatus.FINISHED
        most: dict[str, set[str]] = defaultdict(set)
        for decision in cluster.decisions():
            for event in decision.events:
                if isinstance(event, SlotShared):
                    most[event.allocation_id].add(event.vertex_id)
        assert most

    def test_a_group_takes_as_many_slots_as_its_widest_vertex_has_subtasks(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm1", slots=10)
        cluster.register("tm2", slots=10)
        cluster.submit(graph(sharing("a", 3), sharing("b", 5), sharing("c", 2)))
        assert len(cluster.events(SlotAllocated)) == 5
        assert sorted(map(len, _together(cluster).values())) == [1, 1, 2, 3, 3]

    def test_subtasks_of_the_same_index_run_in_the_same_slot(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=8)
        cluster.submit(graph(sharing("a", 4), sharing("b", 4), sharing("c", 4)))
        assert sorted(_together(cluster).values()) == [[f"a{i}", f"b{i}", f"c{i}"] for i in range(4)]

    def test_who_is_of_no_group_of_another_group_or_of_another_job_shares_nothing(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=10)
        cluster.submit(graph(sharing("a"), sharing("b", group="other"), vertex("c"), vertex("d")), job_id="one")
        cluster.submit(graph(sharing("a"), sharing("b", group="other")), job_id="two")
        assert not cluster.events(SlotShared)
        assert len(cluster.events(SlotAllocated)) == 6

    def test_a_subtask_that_becomes_ready_joins_a_slot_that_its_job_holds_and_requests_none(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=3)
        edges = [("first", "b", "rebalance")]
        first, long = deployments(cluster.submit(graph(vertex("first"), sharing("a"), sharing("b"), edges=edges)))
        cluster.report(long, RUNNING)
        requested = len(cluster.events(SlotRequested))
        joined = deployments(cluster.report(first, FINISHED))
        assert [t.vertex_id for t in tasks(joined)] == ["b"]
        assert len(cluster.events(SlotRequested)) == requested
        [shared] = cluster.events(SlotShared)
        assert (shared.vertex_id, shared.allocation_id) == ("b", tasks([long])[0].allocation_id)

    def test_a_request_that_waits_is_cancelled_when_a_slot_of_its_job_opens(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a", 2), sharing("b")))
        cluster.report(_of(running, "b0"), RUNNING)
        waiting = next(iter(cluster.master.slot_manager.pending))
        effects = cluster.report(_of(running, "a0"), FINISHED)
        assert _together(cluster) == {"tm/0": ["b0", "a1"]}
        assert cluster.events(SlotRequestCancelled)[-1].allocation_id == waiting
        assert not cluster.master.slot_manager.pending
        assert [t.vertex_id for t in tasks(effects)] == ["a"]
        cluster.run([*effects, _of(running, "b0")])
        assert cluster.job("job").status is JobStatus.FINISHED

    def test_sharing_takes_no_turn_from_other_jobs(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm", slots=1)
        cluster.submit(graph(vertex("x")), job_id="holder")
        cluster.submit(graph(sharing("a", 2), sharing("b", 2)), job_id="group")
        cluster.submit(graph(vertex("y")), job_id="other")
        cluster.register("tm2", slots=2)
        holders = {e.allocation_id for e in cluster.events(SlotAllocated) if e.task_manager_id == "tm2"}
        jobs = {e.job_id for e in cluster.events(SlotRequested) if e.allocation_id in holders}
        assert jobs == {"group", "other"}

    def test_a_slot_that_is_shared_has_room_for_all_vertices_of_the_group_at_once(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", slots=4, profile=ResourceProfile(1_000, 1 << 30))
        cluster.submit(graph(sharing("a", cpu_cores=0.75, task_heap_memory="512m"), sharing("b", cpu_cores=0.75)))
        [deferred] = cluster.events(SlotRequestDeferred)
        assert deferred.resource_profile == ResourceProfile(1_500, 512 << 20)
        assert deferred.reason is SlotRequestDeferralReason.NO_FITTING_SLOT
        cluster.register("large", slots=4, profile=ResourceProfile(2_000, 1 << 30))
        assert _together(cluster) == {"large/0": ["a0", "b0"]}

    def test_nobody_joins_a_slot_of_a_task_manager_that_is_blocked(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a", 2), sharing("b")))
        cluster.report(_of(running, "b0"), RUNNING)
        cluster.block("tm")
        cluster.report(_of(running, "a0"), FINISHED)
        assert _together(cluster) == {"tm/0": ["b0"]}
        cluster.unblock("tm")
        assert _together(cluster) == {"tm/0": ["b0", "a1"]}


class TestTheEndOfASlot:
    @pytest.mark.parametrize("order", [("a0", "b0", "c0"), ("c0", "a0", "b0"), ("b0", "c0", "a0")])
    @pytest.mark.parametrize("end", [FINISHED, FAILED], ids=str)
    def test_a_slot_is_freed_with_the_last_attempt_in_it(
        self, cluster: ScriptedCluster, order: tuple[str, ...], end: ExecutionState
    ) -> None:
        cluster.register(slots=1)
        document = graph(sharing("a"), sharing("b"), sharing("c"), restart_strategy=fixed_delay(9, 60_000))
        running = cluster.submit(document)
        for count, name in enumerate(order, 1):
            cluster.report(_of(running, name), end)
            assert len(cluster.events(SlotFreed)) == (count == 3)
            assert len(cluster.events(SlotShareReturned)) == min(count, 2)
        assert cluster.master.slot_manager.get_number_free_slots() == 1

    def test_an_attempt_that_fails_alone_leaves_the_others_alone(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b"), restart_strategy=fixed_delay(1, 500)))
        cluster.report(_of(running, "b0"), RUNNING)
        cluster.report(_of(running, "a0"), FAILED)
        assert _together(cluster) == {"tm/0": ["b0"]}
        again = cluster.pass_time(500)
        assert _together(cluster) == {"tm/0": ["b0", "a0"]}
        assert tasks(again)[0].attempt == 2
        cluster.run([*again, _of(running, "b0")])
        assert cluster.job("job").status is JobStatus.FINISHED

    def test_when_its_task_manager_is_lost_everything_in_the_slot_fails_and_starts_again_together(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm1", slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b"), restart_strategy=fixed_delay(5, 0)))
        cluster.report(_of(running, "a0"), RUNNING)
        cluster.say(TaskManagerDeath("tm1", "tm1-1", "killed"))
        assert [(f.vertex_id, f.cause.failure_type) for f in cluster.events(TaskFailed)] == [
            ("a", "TaskManagerLost"),
            ("b", "TaskManagerLost"),
        ]
        assert not cluster.master.slot_manager.allocations
        cluster.register("tm2", slots=1)
        cluster.run(cluster.pass_time(1))
        assert cluster.job("job").status is JobStatus.FINISHED
        assert {e.allocation_id for e in cluster.events(SlotShared)} != {cluster.events(SlotShared)[0].allocation_id}

    def test_what_was_not_decided_of_the_loss_of_a_shared_slot_is_decided_by_the_next_leader(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        cluster.submit(graph(*(sharing(f"v{n}") for n in range(40)), restart_strategy=fixed_delay(100, 0)))
        from_here = len(cluster.log)
        cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
        assert len(cluster.log) > from_here + 1, "it takes more than one decision"
        cluster.log[from_here + 1 :] = []
        cluster.digests = {o: d for o, d in cluster.digests.items() if o <= from_here}
        cluster.fail_over()
        cluster.settle()
        assert len(cluster.events(TaskFailed)) == 40
        assert not cluster.master.slot_manager.allocations

    def test_a_job_that_is_cancelled_has_everything_in_its_slots_told_to_end(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=2)
        running = cluster.submit(graph(sharing("a", 3), sharing("b", 3)))
        for deployment in deployments(running):
            cluster.report(deployment, RUNNING)
        effects = cluster.cancel()
        assert len(cancellations(effects)) == 4
        cluster.run(effects)
        assert cluster.job("job").status is JobStatus.CANCELED
        assert cluster.master.slot_manager.get_number_free_slots() == 2

    def test_a_suspended_job_leaves_its_shared_slots_and_shares_again_when_it_goes_on(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b")))
        cluster.report(_of(running, "a0"), RUNNING)
        told = cluster.command(type="SuspendJob", job_id="job", request_id="suspend")
        assert {c.payload.vertex_id for c in cancellations(told) if isinstance(c.payload, TaskCancellation)} == {"a", "b"}
        cluster.run(told)
        assert cluster.job("job").status is JobStatus.SUSPENDED
        assert cluster.master.slot_manager.get_number_free_slots() == 1
        again = cluster.command(type="ResumeJob", job_id="job", request_id="resume")
        assert _together(cluster) == {"tm/0": ["a0", "b0"]}
        cluster.run(again)
        assert cluster.job("job").status is JobStatus.FINISHED

    def test_under_full_failover_those_in_one_slot_end_and_begin_together(self) -> None:
        cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL))
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b"), restart_strategy=fixed_delay(1, 0)))
        cluster.report(_of(running, "a0"), RUNNING)
        [told] = cancellations(cluster.report(_of(running, "b0"), FAILED))
        assert not tasks(cluster.pass_time(1)), "a0 has not ended yet"
        cluster.run([told])
        again = cluster.pass_time(1)
        assert [(t.vertex_id, t.attempt) for t in tasks(again)] == [("a", 2), ("b", 2)]
        assert _together(cluster) == {"tm/0": ["a0", "b0"]}
        cluster.run(again)
        assert cluster.job("job").status is JobStatus.FINISHED
        cluster.check()


class TestRefusals:
    def test_an_attempt_that_is_refused_its_place_fails_alone_and_asks_for_a_slot_of_its_own(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm1", slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b")))
        cluster.report(_of(running, "a0"), RUNNING)
        refused = _of(running, "b0")
        cluster.refuse(refused, "it is busy")
        assert _together(cluster) == {"tm1/0": ["a0"]}
        assert not cluster.events(SlotOfferRejected)
        [request] = cluster.master.slot_manager.pending.values()
        assert (request.attempt.vertex_id, request.attempt.attempt, request.slot_sharing_group) == ("b", 2, "")
        cluster.register("tm2", slots=1)
        assert _together(cluster) == {"tm1/0": ["a0"], "tm2/0": ["b0"]}

    def test_a_refusal_that_comes_twice_harms_nobody_else_in_the_slot(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm1", slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b")))
        cluster.refuse(_of(running, "b0"))
        cluster.refuse(_of(running, "b0"))
        assert isinstance(cluster.last_events()[0], InputsSkipped)
        assert len(cluster.events(TaskFailed)) == 1
        assert _together(cluster) == {"tm1/0": ["a0"]}

    def test_whoever_was_there_first_may_be_refused_as_well(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm1", slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b")))
        cluster.refuse(_of(running, "a0"))
        assert _together(cluster) == {"tm1/0": ["b0"]}
        cluster.refuse(_of(running, "b0"))
        assert [r.allocation_id for r in cluster.events(SlotOfferRejected)] == ["allocation-1"]
        assert cluster.master.slot_manager.get_number_free_slots() == 0, "one of the two has it for itself now"


class TestReports:
    @pytest.mark.rule("P16")
    def test_if_one_in_a_slot_is_missing_all_fail_and_those_that_are_there_are_told_to_end(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b"), restart_strategy=fixed_delay(5, 60_000)))
        for deployment in deployments(running):
            cluster.report(deployment, RUNNING)
        effects = cluster.say(SlotReport("tm", "tm-1", (SlotStatus(0, "allocation-1"),), (_status("a0"),)))
        [reconciled] = cluster.events(TaskManagerReportReconciled)
        assert reconciled.missing == ("allocation-1",)
        assert [(c.payload.vertex_id) for c in cancellations(effects) if isinstance(c.payload, TaskCancellation)] == ["a"]
        assert [(f.vertex_id, f.cause.failure_type) for f in cluster.events(TaskFailed)] == [
            ("a", "AttemptMissing"),
            ("b", "AttemptMissing"),
        ]

    @pytest.mark.rule("P16")
    def test_who_joined_a_slot_and_is_not_acknowledged_is_not_missing(self, cluster: ScriptedCluster) -> None:
        """P16: the report may have been written before the deployment came; also when those who were there first have ended meanwhile."""
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b")))
        cluster.report(_of(running, "a0"), RUNNING)
        cluster.say(SlotReport("tm", "tm-1", (SlotStatus(0, "allocation-1"),), (_status("a0"),)))
        cluster.report(_of(running, "a0"), FINISHED)
        assert cluster.master.slot_manager.task_managers["tm"].slots[0].state is SlotState.ALLOCATED
        cluster.say(SlotReport("tm", "tm-1", (SlotStatus(0),), ()))
        assert [r.missing for r in cluster.events(TaskManagerReportReconciled)] == [(), ()]
        cluster.report(_of(running, "b0"), FINISHED)
        assert cluster.job("job").status is JobStatus.FINISHED

    def test_everything_in_a_slot_that_nobody_confirmed_is_said_again(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a"), sharing("b"), sharing("c")))
        cluster.report(_of(running, "b0"), RUNNING)
        again = [d.payload for d in unacknowledged(cluster.master) if isinstance(d, Deployment)]
        assert [p.vertex_id for p in again if isinstance(p, TaskDeployment)] == ["a", "c"]
        cluster.cancel()
        again = [d.payload for d in unacknowledged(cluster.master) if isinstance(d, Deployment)]
        assert {p.vertex_id for p in again if isinstance(p, TaskCancellation)} == {"a", "b", "c"}


class TestBounds:
    def test_a_request_of_a_group_that_waits_too_long_fails_alone(self) -> None:
        """What is asked for together is not held back until all of it can be had: what has a slot runs, the rest fails with the reason."""
        cluster = ScriptedCluster(MasterSettings(slot_request_timeout_ms=1_000))
        cluster.register(slots=1)
        running = cluster.submit(graph(sharing("a", 2), sharing("b", 2), restart_strategy=fixed_delay(9, 60_000)))
        assert len(tasks(running)) == 2
        cluster.block("tm")
        cluster.pass_time(1_000)
        assert len(cluster.events(SlotRequestTimedOut)) == 2
        assert {(f.vertex_id, f.subtask_index, f.cause.failure_type) for f in cluster.events(TaskFailed)} == {
            ("a", 1, "NoResourceAvailable"),
            ("b", 1, "NoResourceAvailable"),
        }
        assert "no slot is free on a TaskManager that is not blocked" in cluster.events(TaskFailed)[0].cause.message
        assert _together(cluster) == {"tm/0": ["a0", "b0"]}
        cluster.check()

    def test_a_group_that_no_slot_can_hold_fails_with_what_it_needs_in_all(self) -> None:
        cluster = ScriptedCluster(MasterSettings(start_up_time_ms=1_000))
        cluster.register(slots=1, profile=ResourceProfile(extended_resources=(ExtendedResource("gpu", 1),)))
        cluster.submit(graph(sharing("a", extended_resources={"gpu": 1}), sharing("b", extended_resources={"gpu": 1})))
        cluster.pass_time(1_000)
        job = cluster.job("job")
        assert job.status is JobStatus.FAILED
        assert job.cause is not None
        assert job.cause.failure_type == "UnfulfillableSlotRequest"
        assert "the only registered slot has no room for gpu 2" in job.cause.message
        cluster.check()

    def test_large_groups_are_placed_in_bounded_decisions(self, cluster: ScriptedCluster) -> None:
        cluster.check_states = False
        for number in range(10):
            cluster.register(f"tm{number}", slots=100)
        cluster.submit(graph(sharing("a", 1_000), sharing("b", 1_000), sharing("c", 700)))
        assert len(cluster.events(SlotAllocated)) == 1_000
        assert len(cluster.events(SlotShared)) == 1_700
        assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
        cluster.master.validate()

    def test_many_vertices_in_one_slot_are_placed_in_bounded_decisions(self, cluster: ScriptedCluster) -> None:
        cluster.check_states = False
        cluster.register(slots=1)
        cluster.submit(graph(*(sharing(f"v{n}", 2) for n in range(600))))
        [allocation] = cluster.master.slot_manager.allocations.values()
        assert len(allocation.attempts) == 600
        assert len(cluster.master.slot_manager.pending) == 600
        assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
        cluster.master.validate()


class TestSnapshots:
    def test_a_snapshot_with_shared_slots_is_restored_whole(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=2)
        running = cluster.submit(graph(sharing("a", 4), sharing("b", 3), sharing("c")))
        cluster.report(_of(running, "a0"), FINISHED)
        restored = new_fold()
        restore_fold(json.loads(json.dumps(document_of(cluster.fold))), restored)
        restored.master.validate()
        assert restored.master.digest() == cluster.master.digest()
        assert restored.master.slot_manager.sharing == cluster.master.slot_manager.sharing
        assert restored.master.slot_manager.sharing.groups


class _Chance:
    """A cluster to which things happen at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = ScriptedCluster(MasterSettings(evenly_spread_out_slots=self.rng.random() < 0.5))
        self.live: list[Deployment] = []
        self.instances = dict.fromkeys(range(3), 0)
        self.jobs = 0

    def happen(self) -> None:
        """Have one thing happen, and what follows from it."""
        whatever = [self._register, self._register, self._submit, self._submit, self._cancel, self._block, self._lose, *[self._report] * 5]
        effects = self.rng.choice(whatever)()
        self.live += deployments([*effects, *self.cluster.pass_time(1)])

    def _register(self) -> list[Effect]:
        number = self.rng.randrange(3)
        self.instances[number] += 1
        return self.cluster.register(f"tm{number}", self.rng.randint(1, 3), str(self.instances[number]))

    def _submit(self) -> list[Effect]:
        rng, self.jobs = self.rng, self.jobs + 1
        vertices = [
            sharing(name, rng.randint(1, 4), rng.choice("gh")) if rng.random() < 0.8 else vertex(name, rng.randint(1, 2))
            for name in "abcd"[: rng.randint(1, 4)]
        ]
        return self.cluster.submit(graph(*vertices, restart_strategy=fixed_delay(1_000, 0)), job_id=f"job{self.jobs}")

    def _cancel(self) -> list[Effect]:
        return self.cluster.cancel(f"job{self.rng.randint(0, self.jobs)}")

    def _block(self) -> list[Effect]:
        name = f"tm{self.rng.randrange(3)}"
        return self.cluster.block(name) if self.rng.random() < 0.5 else self.cluster.unblock(name)

    def _lose(self) -> list[Effect]:
        number = self.rng.randrange(3)
        return self.cluster.say(SlotReport(f"tm{number}", f"tm{number}-{self.instances[number]}", (), ()))

    def _report(self) -> list[Effect]:
        if not self.live:
            return []
        deployment = self.live.pop(self.rng.randrange(len(self.live)))
        if self.rng.random() < 0.2:
            return self.cluster.refuse(deployment)
        return self.cluster.report(deployment, self.rng.choice([RUNNING, FINISHED, FINISHED, FAILED, CANCELED]))

    def come_to_rest(self) -> None:
        """Lose all that there is, and have a TaskManager of two slots run whatever is left, to the end."""
        cluster = self.cluster
        for number, instance in self.instances.items():
            cluster.unblock(f"tm{number}")
            cluster.say(TaskManagerDeath(f"tm{number}", f"tm{number}-{instance}", "killed"))
        cluster.register("last", slots=2)
        cluster.check_states = False
        for _ in range(200):
            cluster.run(cluster.pass_time(1))
            cluster.run([d for d in unacknowledged(cluster.master) if isinstance(d, Deployment)])
            if all(job.status in (JobStatus.FINISHED, JobStatus.CANCELED) for job in cluster.master.dispatcher.jobs.values()):
                return
        raise AssertionError("some jobs never end")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_index_is_right_and_everything_ends(seed: int) -> None:
    """Random jobs, losses, refusals, blocks and ends: the state is checked after each decision, and replayed at the end."""
    chance = _Chance(seed)
    for _ in range(60):
        chance.happen()
    chance.come_to_rest()
    assert chance.cluster.events(SlotShared)
    chance.cluster.check()

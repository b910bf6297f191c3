"""Workers are asked for when slots are missing, wait for their turn after failures, and go when nobody needs them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eventflink.events.inputs import Disconnection, TaskManagerDeath
from eventflink.events.log_events import (
    SlotAllocated,
    SlotRequestDeferred,
    SlotRequestUnfulfillable,
    TaskManagerRegistrationRefused,
    TaskManagerReleased,
    WorkerRequested,
    WorkerRequestFailed,
)
from eventflink.master.effects import Effect, RequestWorker, StopWorker, WorkersWanted
from eventflink.master.inputs import ReleaseTaskManagers, WorkerTerminated
from eventflink.master.settings import MasterSettings, WorkerSettings
from eventflink.master.workers import MAX_BACKOFF_MS
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState, IllegalTransition, SlotRequestDeferralReason
from eventflink.views.jobs_and_cluster import cluster_view, job_view
from tests.support.cluster import ScriptedCluster, deployments, graph, vertex

SMALL = ResourceProfile(500, 512 << 20)
SETTINGS = WorkerSettings(slot_count=2, max_slots=8, registration_timeout_ms=60_000, idle_timeout_ms=30_000, max_failure_rate=3)


def _cluster(workers: WorkerSettings | None = SETTINGS, **changed: Any) -> ScriptedCluster:
    settings = MasterSettings(
        slot_request_timeout_ms=3_600_000, start_up_time_ms=10_000, workers=replace(workers, **changed) if workers is not None else None
    )
    return ScriptedCluster(settings)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster without TaskManagers whose driver starts workers with two slots; its log is replayed at the end."""
    scripted = _cluster()
    yield scripted
    scripted.check()


def _asked(effects: list[Effect]) -> list[str]:
    return [effect.worker_id for effect in effects if isinstance(effect, RequestWorker)]


def _stopped(effects: list[Effect]) -> list[str]:
    return [effect.worker_id for effect in effects if isinstance(effect, StopWorker)]


def _run_one(cluster: ScriptedCluster, job_id: str = "job") -> str:
    """Have one worker come and do a job; return its id."""
    cluster.submit(graph(vertex("a")), job_id=job_id)
    [worker_id] = _asked(cluster.pass_time(100))
    cluster.run(cluster.register(worker_id, 2))
    return worker_id


class TestRequests:
    def test_as_many_workers_are_asked_for_as_the_requests_need(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 5)))
        assert _asked(cluster.pass_time(100)) == ["worker-1", "worker-2", "worker-3"]
        assert cluster.master.slot_manager.get_number_pending_task_manager_slots() == 6
        assert not _asked(cluster.pass_time(100)), "what was asked for is not asked for again"

    def test_attempts_that_share_slots_are_not_counted_twice(self, cluster: ScriptedCluster) -> None:
        """Four slots for the wider vertex have room for the other one; one with a group of its own needs two more."""
        shared = [vertex("a", 4), vertex("b", 3)]
        cluster.submit(graph(*(v | {"slot_sharing_group": "both"} for v in shared), vertex("c", 2) | {"slot_sharing_group": "alone"}))
        assert _asked(cluster.pass_time(100)) == ["worker-1", "worker-2", "worker-3"]

    def test_a_registration_under_the_worker_s_id_makes_its_slots_real(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 3)))
        cluster.pass_time(100)
        assert len(deployments(cluster.register("worker-2", 2))) == 2
        slots = cluster.master.slot_manager
        assert (slots.get_number_pending_task_manager_slots(), slots.get_number_registered_slots()) == (2, 2)
        assert list(cluster.master.workers.registered) == ["worker-2"]

    def test_free_slots_and_pending_ones_are_counted_against_the_requests(self, cluster: ScriptedCluster) -> None:
        cluster.register("own", 1)
        cluster.submit(graph(vertex("a", 2)), job_id="one")
        assert _asked(cluster.pass_time(100)) == ["worker-1"]
        cluster.submit(graph(vertex("a")), job_id="two")
        assert not _asked(cluster.pass_time(100)), "worker-1 has room for both"
        cluster.submit(graph(vertex("a")), job_id="three")
        assert _asked(cluster.pass_time(100)) == ["worker-2"]

    def test_no_worker_is_asked_for_beyond_the_most_slots_that_there_may_be(self, cluster: ScriptedCluster) -> None:
        cluster.register("own", 3)
        cluster.submit(graph(vertex("a", 40)))
        assert _asked(cluster.pass_time(100)) == ["worker-1", "worker-2"], "3 + 2 * 2 of 8 slots; a third would make 9"

    def test_many_workers_are_asked_for_in_decisions_of_bounded_size(self) -> None:
        cluster = _cluster(max_slots=1_000)
        cluster.submit(graph(vertex("a", 300)))
        assert len(_asked(cluster.pass_time(100))) == 150
        assert max(sum(isinstance(event, WorkerRequested) for event in d.events) for d in cluster.decisions()) == 64
        cluster.check()

    def test_an_id_that_somebody_else_has_registered_is_left_out(self, cluster: ScriptedCluster) -> None:
        cluster.register("worker-1", 1)
        cluster.submit(graph(vertex("a", 4)))
        assert _asked(cluster.pass_time(100)) == ["worker-2", "worker-3"]
        assert "worker-1" not in cluster.master.workers.registered

    def test_without_a_driver_no_worker_is_asked_for(self) -> None:
        cluster = _cluster(workers=None)
        cluster.submit(graph(vertex("a", 4)))
        assert not _asked(cluster.pass_time(100_000))
        cluster.check()


class TestProfiles:
    def test_requests_that_no_worker_could_serve_ask_for_none_and_fail_as_unfulfillable(self) -> None:
        cluster = _cluster(slot_profile=SMALL)
        cluster.register("own", 1, profile=SMALL)
        cluster.submit(graph(vertex("a", task_heap_memory="1g")), job_id="large")
        cluster.pass_time(20_000)
        assert not cluster.events(WorkerRequested)
        assert len(cluster.events(SlotRequestUnfulfillable)) == 1
        cluster.check()

    def test_what_a_worker_could_serve_is_not_unfulfillable_though_no_registered_slot_fits(self) -> None:
        cluster = _cluster(slot_profile=SMALL, max_slots=2)
        cluster.register("own", 1)
        cluster.submit(graph(vertex("a", task_heap_memory="256m")), job_id="small")
        cluster.pass_time(20_000)
        assert not cluster.events(SlotRequestUnfulfillable)
        cluster.check()

    def test_those_who_ask_for_much_are_not_robbed_of_their_pending_slots(self) -> None:
        cluster = _cluster(slot_profile=SMALL)
        cluster.submit(graph(vertex("a", 2, task_heap_memory="256m")), job_id="asking")
        assert _asked(cluster.pass_time(100)) == ["worker-1"]
        cluster.master.settings = replace(cluster.master.settings, workers=SETTINGS)  # Its slots are of no stated size any more.
        cluster.submit(graph(vertex("a", 2)), job_id="modest")
        assert _asked(cluster.pass_time(100)) == ["worker-2"]
        cluster.check()


class TestReasons:
    def test_a_job_is_told_that_a_worker_has_been_asked_for(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 3)))
        cluster.pass_time(100)
        assert [event.reason for event in cluster.events(SlotRequestDeferred)] == [
            SlotRequestDeferralReason.NO_TASK_MANAGER,
            SlotRequestDeferralReason.WORKER_REQUESTED,
        ]
        [waiting] = job_view(cluster.fold, "job").slot_requests
        assert waiting.reason == "WORKER_REQUESTED"
        assert waiting.why == "worker-1, worker-2 with 4 slots were asked of the resource driver and have not registered yet"

    def test_a_job_is_told_how_the_last_request_failed(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        for number in (1, 2, 3):
            cluster.timer(WorkerTerminated(f"worker-{number}", "exit code 1"))
            cluster.pass_time(1)
        [waiting] = job_view(cluster.fold, "job").slot_requests
        assert waiting.why == "no TaskManager is registered; the last request for a worker failed: worker-3: exit code 1"

    def test_the_cluster_s_view_names_pending_workers(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        view = cluster_view(cluster.fold)
        assert view.slots_pending == 2
        [pending] = view.workers.pending
        assert (pending.worker_id, pending.slots, pending.slot_profile) == ("worker-1", 2, None)


class TestFailures:
    def test_a_worker_that_does_not_register_in_time_is_given_up_and_replaced(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        effects = cluster.pass_time(60_000)
        assert cluster.events(WorkerRequestFailed) == [WorkerRequestFailed("worker-1", "it did not register within 60000 ms", 0)]
        assert (_stopped(effects), _asked(effects)) == (["worker-1"], ["worker-2"])

    def test_a_worker_that_was_given_up_is_not_let_in_any_more(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        cluster.timer(WorkerTerminated("worker-1", "no memory"))
        cluster.register("worker-1", 2)
        [refused] = cluster.events(TaskManagerRegistrationRefused)
        assert refused.reason == "this worker was given up: no memory"
        assert "worker-1" not in cluster.master.resource_manager.task_managers

    def test_after_too_many_failures_in_a_minute_the_next_request_waits_and_the_wait_doubles(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        waits = []
        for number in range(1, 13):
            cluster.timer(WorkerTerminated(f"worker-{number}", "exit code 1"))
            backoff_ms = cluster.events(WorkerRequestFailed)[-1].backoff_ms
            waits.append(backoff_ms)
            if backoff_ms:
                assert not _asked(cluster.pass_time(backoff_ms - 1))
            assert _asked(cluster.pass_time(1)) == [f"worker-{number + 1}"]
        assert waits == [0, 0, 3_000, 6_000, 12_000, 24_000, 48_000, 96_000, 192_000, *[MAX_BACKOFF_MS] * 3]

    def test_a_worker_that_registers_ends_the_wait(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 3)))
        cluster.pass_time(100)
        for number in (1, 3, 4):
            cluster.timer(WorkerTerminated(f"worker-{number}", "exit code 1"))
            cluster.pass_time(1)
        assert cluster.master.workers.backoff_ms == 3_000
        cluster.register("worker-2", 2)
        assert _asked(cluster.pass_time(1)) == ["worker-5"]

    def test_failures_within_the_rate_are_forgotten_after_a_minute(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        for number in range(1, 9):
            cluster.timer(WorkerTerminated(f"worker-{number}", "exit code 1"))
            cluster.pass_time(31_000)
        assert {event.backoff_ms for event in cluster.events(WorkerRequestFailed)} == {0}

    def test_the_driver_s_word_on_a_worker_that_works_or_is_unknown_changes_nothing(self, cluster: ScriptedCluster) -> None:
        worker_id = _run_one(cluster)
        cluster.timer(WorkerTerminated(worker_id, "it is gone"), WorkerTerminated("worker-99", "it is gone"))
        assert not cluster.events(WorkerRequestFailed)
        assert worker_id in cluster.master.resource_manager.task_managers

    def test_when_the_driver_is_taken_away_nothing_is_waited_for_any_more(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        cluster.settings = MasterSettings()
        cluster.fail_over()
        cluster.pass_time(1)
        [failed] = cluster.events(WorkerRequestFailed)
        assert failed.reason == "a resource driver is no longer configured"


class TestReleases:
    def test_a_worker_that_was_idle_for_long_enough_is_released_and_stopped(self, cluster: ScriptedCluster) -> None:
        worker_id = _run_one(cluster)
        assert not _stopped(cluster.pass_time(29_999))
        assert _stopped(cluster.pass_time(1)) == [worker_id]
        [released] = cluster.events(TaskManagerReleased)
        assert released == TaskManagerReleased(worker_id, f"{worker_id}-1", "it was idle for 30000 ms")
        assert not cluster.master.slot_manager.task_managers

    def test_it_is_idle_since_its_last_slot_was_freed(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 2)))
        cluster.pass_time(100)
        first, second = deployments(cluster.register("worker-1", 2))
        cluster.report(first, ExecutionState.FINISHED)
        cluster.pass_time(40_000)
        cluster.report(second, ExecutionState.FINISHED)
        assert not _stopped(cluster.pass_time(29_999))
        assert _stopped(cluster.pass_time(1)) == ["worker-1"]

    def test_a_task_manager_that_people_started_is_never_released(self, cluster: ScriptedCluster) -> None:
        cluster.register("own", 2)
        cluster.run(cluster.submit(graph(vertex("a"))))
        assert not _stopped(cluster.pass_time(3_600_000))
        assert "own" in cluster.master.resource_manager.task_managers

    def test_no_slot_is_given_away_on_a_worker_that_is_released(self, cluster: ScriptedCluster) -> None:
        """A job that came just before the release is decided has it."""
        worker_id = _run_one(cluster)
        cluster.monotonic_ms += 30_000
        cluster.wall_ms += 30_000
        cluster.submit(graph(vertex("a")), job_id="latest")
        cluster.timer(ReleaseTaskManagers())
        assert not cluster.events(TaskManagerReleased)
        assert [event.task_manager_id for event in cluster.events(SlotAllocated)] == [worker_id] * 2

    def test_what_is_not_idle_cannot_be_released(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        cluster.register("worker-1", 2)
        cluster.register("own", 2)
        before = cluster.master.digest()
        for event in (
            TaskManagerReleased("worker-1", "worker-1-1", "reason"),
            TaskManagerReleased("worker-1", "worker-1-2", "reason"),
            TaskManagerReleased("own", "own-1", "reason"),
        ):
            with pytest.raises(IllegalTransition):
                cluster.master.apply(event, 1)
            assert cluster.master.digest() == before

    def test_a_worker_that_is_lost_or_leaves_is_stopped_and_not_let_in_again(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 4)))
        cluster.pass_time(100)
        for worker_id in ("worker-1", "worker-2"):
            cluster.register(worker_id, 2)
        effects = cluster.say(TaskManagerDeath("worker-1", "worker-1-1", "exit code 137"))
        effects += cluster.say(Disconnection("worker-2", "worker-2-1", "stopped"))
        assert _stopped(effects) == ["worker-1", "worker-2"]
        cluster.register("worker-1", 2, instance="2")
        assert len(cluster.events(TaskManagerRegistrationRefused)) == 1

    def test_a_worker_that_comes_back_at_once_as_a_new_instance_goes_on(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        cluster.pass_time(100)
        cluster.register("worker-1", 2)
        assert not _stopped(cluster.register("worker-1", 2, instance="2"))
        assert list(cluster.master.workers.registered) == ["worker-1"]


class TestLeadership:
    def test_a_new_leader_tells_the_driver_which_workers_there_are_to_be(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 4)))
        cluster.pass_time(100)
        cluster.register("worker-2", 2)
        told = cluster.fail_over().effects
        assert [effect for effect in told if isinstance(effect, WorkersWanted)] == [
            WorkersWanted((RequestWorker("worker-1", 2, None),), ("worker-2",))
        ]

    def test_a_master_without_a_driver_tells_none(self) -> None:
        cluster = _cluster(workers=None)
        assert not [effect for effect in cluster.fail_over().effects if isinstance(effect, WorkersWanted)]

    def test_ids_are_never_used_again(self, cluster: ScriptedCluster) -> None:
        worker_id = _run_one(cluster)
        cluster.pass_time(30_000)
        cluster.fail_over()
        assert (worker_id, _run_one(cluster, "next")) == ("worker-1", "worker-2")

"""Which request gets which slot: profiles, spread and packing, turns between jobs, order within a job, bounds, cost, replay."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.inputs import SlotReport
from eventflink.events.log_events import (
    FollowUpDecided,
    SlotAllocated,
    SlotRequestDeferred,
    SlotRequested,
    TaskDeployed,
    TaskManagerRegistered,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master import slot_matching
from eventflink.master.settings import MasterSettings
from eventflink.master.slot_matching import MATCH_BATCH, decide_matches
from eventflink.master.slots import TaskManagerSlots
from eventflink.model.resources import ExtendedResource, ResourceProfile, fits
from eventflink.model.statuses import ExecutionState, IllegalTransition, JobStatus, SlotRequestDeferralReason
from eventflink.snapshots.state_codec import document_of, restore_fold
from tests.support.cluster import ScriptedCluster, deployments, graph, new_fold, replay, tasks, vertex

SMALL = ResourceProfile(500, 512 << 20)
LARGE = ResourceProfile(2_000, 4 << 30)
GPU = ResourceProfile(500, 512 << 20, extended_resources=(ExtendedResource("gpu", 1),))
REASON = SlotRequestDeferralReason


def _raised(**settings: Any) -> ScriptedCluster:
    return ScriptedCluster(MasterSettings(**settings))


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster at the newest feature level; its log is replayed at the end."""
    scripted = _raised()
    yield scripted
    scripted.check()


def _places(cluster: ScriptedCluster, job_id: str) -> Counter[str]:
    """Return how many tasks of a job each TaskManager has got."""
    ids = {e.allocation_id for e in cluster.events(SlotRequested) if e.job_id == job_id}
    return Counter(e.task_manager_id for e in cluster.events(SlotAllocated) if e.allocation_id in ids)


def _say_ready(cluster: ScriptedCluster, name: str, *, number: int = 1, ready: bool = True) -> None:
    """Report as the first instance of a TaskManager without attempts whether it is ready."""
    cluster.say(SlotReport(name, f"{name}-1", (), (), number, ready))


class TestProfiles:
    def test_a_task_gets_only_a_slot_that_has_room_for_it(self, cluster: ScriptedCluster) -> None:
        cluster.register("plain", 4)
        cluster.register("small", 4, profile=SMALL)
        cluster.register("large", 2, profile=LARGE)
        cluster.submit(graph(vertex("a", 5, task_heap_memory="1g")))
        assert _places(cluster, "job") == {"large": 2}
        assert cluster.master.slot_manager.get_number_pending_slot_requests() == 3
        cluster.register("larger", 2, profile=ResourceProfile(1_000, 8 << 30, 1))
        assert _places(cluster, "job") == {"large": 2, "larger": 2}

    def test_a_task_that_asks_for_nothing_runs_anywhere(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", 1, profile=SMALL)
        cluster.register("gpu", 1, profile=GPU)
        cluster.register("plain", 1)
        cluster.submit(graph(vertex("a", 3)))
        assert _places(cluster, "job") == {"plain": 1, "small": 1, "gpu": 1}

    def test_what_nothing_fits_holds_up_nothing_else_of_its_job_or_of_others(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", 2, profile=SMALL)
        cluster.submit(graph(vertex("a", 300, extended_resources={"gpu": 1}), vertex("b", cpu_cores=0.5)), job_id="first")
        cluster.submit(graph(vertex("a")), job_id="second")
        assert _places(cluster, "first") == _places(cluster, "second") == {"small": 1}

    def test_the_profile_of_an_instance_stays_what_it_registered_with(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm", 2, profile=SMALL)
        cluster.register("tm", 2, profile=LARGE)
        [_, again] = cluster.events(TaskManagerRegistered)
        assert again.slot_profile == SMALL
        cluster.register("tm", 2, profile=LARGE, instance="2")
        assert cluster.master.slot_manager.task_managers["tm"].profile == LARGE

    def test_a_profile_that_cannot_be_is_refused(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm", 2, profile=ResourceProfile(-1))
        assert not cluster.events(TaskManagerRegistered)
        assert "cpu: -1 is not between" in str(cluster.last_events()[0])

    def test_a_slot_without_room_cannot_be_allocated(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", 1, profile=SMALL)
        cluster.submit(graph(vertex("a", managed_memory="1g")))
        with pytest.raises(IllegalTransition, match="managed 1g is asked for"):
            cluster.master.apply(SlotAllocated("allocation-1", "small", "small-1", 0), 1)

    def test_the_queries_count_slots_of_all_and_of_one(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", 3, profile=SMALL)
        cluster.register("plain", 2)
        cluster.submit(graph(vertex("a", 2, cpu_cores=0.5), vertex("b", 2, cpu_cores=64)))
        slots = cluster.master.slot_manager
        assert (slots.get_number_registered_slots(), slots.get_number_free_slots()) == (5, 3)
        assert (slots.get_number_free_slots_of("small"), slots.get_number_free_slots_of("none")) == (1, 0)
        assert slots.get_number_pending_slot_requests() == 2
        assert slots.get_number_pending_slot_requests_of("job", ResourceProfile(64_000)) == 2


class TestSpreadAndPacking:
    def test_spread_goes_by_free_slots_whatever_the_profile(self, cluster: ScriptedCluster) -> None:
        cluster.register("small", 4, profile=SMALL)
        cluster.register("large", 3, profile=LARGE)
        cluster.submit(graph(vertex("a", 5, cpu_cores=0.5)))
        assert _places(cluster, "job") == {"small": 3, "large": 2}

    def test_of_equal_ones_a_task_takes_the_smallest_that_fits(self, cluster: ScriptedCluster) -> None:
        cluster.register("large", 2, profile=LARGE)
        cluster.register("small", 2, profile=SMALL)
        cluster.register("plain", 2)
        cluster.submit(graph(vertex("a", cpu_cores=0.5)), job_id="one")
        cluster.submit(graph(vertex("a")), job_id="two")
        assert (_places(cluster, "one"), _places(cluster, "two")) == ({"small": 1}, {"plain": 1})

    @pytest.mark.parametrize("spread", [True, False])
    def test_slots_of_one_that_is_not_ready_are_taken_last(self, *, spread: bool) -> None:
        cluster = _raised(evenly_spread_out_slots=spread)
        cluster.register("cold", 2 if spread else 1)
        cluster.register("warm", 2)
        _say_ready(cluster, "warm")
        cluster.submit(graph(vertex("a", 2)), job_id="first")
        assert _places(cluster, "first") == {"warm": 2}
        cluster.submit(graph(vertex("a")), job_id="second")
        assert _places(cluster, "second") == {"cold": 1}
        cluster.check()

    @pytest.mark.parametrize("spread", [True, False])
    def test_who_becomes_ready_is_taken_like_the_others_and_who_is_no_longer_ready_comes_last_again(self, *, spread: bool) -> None:
        cluster = _raised(evenly_spread_out_slots=spread)
        for name in ("first", "second"):
            cluster.register(name, 3)
            _say_ready(cluster, name)
        cluster.submit(graph(vertex("a", 2)), job_id="both")
        assert _places(cluster, "both") == ({"first": 1, "second": 1} if spread else {"first": 2})
        _say_ready(cluster, "first", number=2, ready=False)
        cluster.submit(graph(vertex("a")), job_id="one")
        assert _places(cluster, "one") == {"second": 1}
        cluster.check()

    def test_spread_goes_to_one_that_is_ready_however_few_slots_it_has_and_whatever_they_have(self, cluster: ScriptedCluster) -> None:
        cluster.register("cold", 4, profile=SMALL)
        cluster.register("warm", 1, profile=LARGE)
        _say_ready(cluster, "warm")
        cluster.submit(graph(vertex("a", cpu_cores=0.5)))
        assert _places(cluster, "job") == {"warm": 1}

    def test_packing_leaves_a_large_slot_that_is_ready_to_those_who_need_it(self) -> None:
        cluster = _raised(evenly_spread_out_slots=False)
        cluster.register("large", 1, profile=LARGE)
        cluster.register("small", 1, profile=SMALL)
        _say_ready(cluster, "large")
        cluster.submit(graph(vertex("a", cpu_cores=0.5)))
        assert _places(cluster, "job") == {"small": 1}
        cluster.check()

    def test_one_that_is_ready_and_blocked_gets_nothing(self, cluster: ScriptedCluster) -> None:
        cluster.register("warm")
        cluster.register("cold")
        cluster.block("warm")
        _say_ready(cluster, "warm")
        cluster.submit(graph(vertex("a", 2)), job_id="first")
        assert _places(cluster, "first") == {"cold": 2}
        cluster.register("spare")
        cluster.unblock("warm")
        cluster.submit(graph(vertex("a")), job_id="second")
        assert _places(cluster, "second") == {"warm": 1}

    @pytest.mark.parametrize("spread", [True, False])
    def test_a_batch_places_as_one_decision_for_each_would(self, monkeypatch: pytest.MonkeyPatch, *, spread: bool) -> None:
        """What a decision lays over the state is what the state becomes."""

        def places() -> list[SlotAllocated]:
            cluster = _raised(evenly_spread_out_slots=spread)
            for number in range(9):
                cluster.register(f"tm{number}", 2 + number % 4, profile=(None, SMALL, LARGE)[number % 3])
                if number % 2:
                    _say_ready(cluster, f"tm{number}")
            asked: tuple[dict[str, Any], ...] = ({}, {"cpu_cores": 0.5}, {"task_heap_memory": "1g"}, {"cpu_cores": 1})
            for number, resources in enumerate(asked):
                cluster.submit(graph(vertex("a", 6), vertex("b", 3 - number // 2, **resources)), job_id=f"job-{number}")
            return cluster.events(SlotAllocated)

        in_batches = places()
        monkeypatch.setattr(slot_matching, "MATCH_BATCH", 1)
        assert places() == in_batches
        assert len(in_batches) > 20

    def test_packing_fills_one_after_the_other_and_leaves_the_large_ones(self) -> None:
        cluster = _raised(evenly_spread_out_slots=False)
        cluster.register("large", 2, profile=LARGE)
        for name in ("small1", "small2", "small3"):
            cluster.register(name, 4, profile=SMALL)
        cluster.submit(graph(vertex("a", 6, cpu_cores=0.5)), job_id="first")
        assert _places(cluster, "first") == {"small1": 4, "small2": 2}
        cluster.submit(graph(vertex("a", 7)), job_id="second")
        assert _places(cluster, "second") == {"small2": 2, "small3": 4, "large": 1}
        cluster.check()


class TestTurns:
    def test_a_job_that_waits_for_much_does_not_starve_one_that_asks_for_one(self, cluster: ScriptedCluster) -> None:
        [first] = deployments([*cluster.register(slots=1), *cluster.submit(graph(vertex("a", 1_000)), job_id="huge")])
        cluster.submit(graph(vertex("a")), job_id="tiny")
        [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
        [third] = deployments(cluster.report(second, ExecutionState.FINISHED))
        assert [tasks([d])[0].job_id for d in (first, second, third)] == ["huge", "huge", "tiny"]

    def test_jobs_take_turns_and_a_job_keeps_its_own_order(self, cluster: ScriptedCluster) -> None:
        for job_id, count in (("a", 50), ("b", 3), ("c", 5)):
            cluster.submit(graph(vertex("v", count)), job_id=job_id)
        cluster.register(slots=20)
        deployed = cluster.events(TaskDeployed)
        assert "".join(e.job_id for e in deployed) == "abcabcabcacac" + "a" * 7
        for job_id in "abc":
            indexes = [e.subtask_index for e in deployed if e.job_id == job_id]
            assert indexes == list(range(len(indexes)))

    def test_jobs_that_come_one_by_one_do_not_starve_one_that_waits(self, cluster: ScriptedCluster) -> None:
        """Each newcomer would be before the next round of the one that waits, if a round took newcomers for ever."""
        cluster.register(slots=1)
        [running] = deployments(cluster.submit(graph(vertex("v", 20)), job_id="patient"))
        served = Counter[str]()
        for number in range(40):
            for sibling in "xy":  # Twice as many as there is room for.
                cluster.submit(graph(vertex("v")), job_id=f"newcomer-{number}{sibling}")
            [running] = deployments(cluster.report(running, ExecutionState.FINISHED))
            served[tasks([running])[0].job_id.partition("-")[0]] += 1
        assert served["patient"] >= 4
        assert served["newcomer"] >= 20

    def test_a_restarted_task_is_behind_the_others_of_its_job_and_not_behind_all_rounds_of_another(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=2)
        strategy = {"type": "fixed-delay", "attempts": 5, "delay_ms": 0}
        [one] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=strategy), job_id="small"))
        [other] = deployments(cluster.submit(graph(vertex("v", 500)), job_id="huge"))
        cluster.report(one, ExecutionState.FAILED)
        cluster.pass_time(1)
        assert cluster.job("small").status is JobStatus.RUNNING
        following = deployments(cluster.report(other, ExecutionState.FINISHED))
        following += deployments(cluster.report(following[0], ExecutionState.FINISHED))
        assert "small" in {t.job_id for t in tasks(following)}

    def test_requests_for_what_was_long_missing_are_joined_where_they_stand(self, cluster: ScriptedCluster) -> None:
        """While nothing fitted them, others had many rounds; a newcomer does not wait for all who came before it."""
        cluster.submit(graph(vertex("v", 100, extended_resources={"gpu": 1})), job_id="huge")
        cluster.register("plain", slots=1)
        for number in range(30):
            cluster.run(cluster.submit(graph(vertex("v")), job_id=f"other-{number}"))
        cluster.submit(graph(vertex("v", extended_resources={"gpu": 1})), job_id="tiny")
        cluster.register("gpu", slots=4, profile=GPU)
        assert _places(cluster, "tiny") == {"gpu": 1}


class TestDeferrals:
    def _told(self, cluster: ScriptedCluster) -> list[tuple[str, SlotRequestDeferralReason, int]]:
        return [(e.job_id, e.reason, e.requests) for e in cluster.events(SlotRequestDeferred)]

    def test_each_reason_is_told_once_for_a_job_and_a_profile(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a", 300), vertex("b", 5, cpu_cores=1)))
        assert self._told(cluster) == [("job", REASON.NO_TASK_MANAGER, 300), ("job", REASON.NO_TASK_MANAGER, 5)]
        [one, *_] = deployments(cluster.register("tm1", slots=2))
        told = self._told(cluster)[2:]
        assert told == [("job", REASON.NO_FREE_SLOT, 298), ("job", REASON.NO_FITTING_SLOT, 5)]
        assert cluster.events(SlotRequestDeferred)[-1].resource_profile == ResourceProfile(1_000)
        for _ in range(5):
            [one] = deployments(cluster.report(one, ExecutionState.FINISHED))
        cluster.register("tm2", slots=1)
        assert self._told(cluster)[4:] == [], "nothing changes for those who wait on"
        cluster.block("tm1")
        cluster.block("tm2")
        assert self._told(cluster)[4:] == [("job", REASON.TASK_MANAGERS_BLOCKED, 292)]
        cluster.register("tm3", slots=1, profile=LARGE)
        assert self._told(cluster)[5:] == [("job", REASON.NO_FREE_SLOT, 4), ("job", REASON.NO_FREE_SLOT, 292)]

    def test_a_job_that_waits_anew_is_told_anew(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=1)
        [one] = deployments(cluster.submit(graph(vertex("a")), job_id="one"))
        cluster.submit(graph(vertex("a")), job_id="two")
        [two] = deployments(cluster.report(one, ExecutionState.FINISHED))
        assert self._told(cluster) == [("two", REASON.NO_FREE_SLOT, 1)]
        cluster.submit(graph(vertex("a")), job_id="three")
        cluster.report(two, ExecutionState.FINISHED)
        assert self._told(cluster)[1:] == [("three", REASON.NO_FREE_SLOT, 1)]

    def test_slots_that_are_freed_on_a_blocked_task_manager_are_another_reason(self, cluster: ScriptedCluster) -> None:
        cluster.register("one", 1)
        cluster.register("two", 1)
        running = deployments(cluster.submit(graph(vertex("a", 3))))
        cluster.block("one")
        assert self._told(cluster) == [("job", REASON.NO_FREE_SLOT, 1)]
        [on_one] = [d for d in running if d.task_manager_id == "one"]
        cluster.report(on_one, ExecutionState.FINISHED)
        assert self._told(cluster)[1:] == [("job", REASON.TASK_MANAGERS_BLOCKED, 1)]

    def test_who_gets_slots_at_once_is_told_nothing(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=600)
        cluster.submit(graph(vertex("a", 600)))
        assert self._told(cluster) == []

    def test_many_jobs_are_told_in_bounded_decisions(self) -> None:
        cluster = _raised()
        cluster.check_digests = False
        for number in range(MATCH_BATCH + 40):
            cluster.submit(graph(vertex("a")), job_id=f"{'j' * 100}-{number}")
        cluster.register(slots=1)
        told = Counter(e.reason for e in cluster.events(SlotRequestDeferred))
        assert told == {REASON.NO_TASK_MANAGER: MATCH_BATCH + 40, REASON.NO_FREE_SLOT: MATCH_BATCH + 39}
        cluster.block("tm")
        told = Counter(e.reason for e in cluster.events(SlotRequestDeferred))
        assert told[REASON.TASK_MANAGERS_BLOCKED] == MATCH_BATCH + 39
        sizes = [0]
        for event in (e for d in cluster.decisions() for e in d.events):
            if isinstance(event, FollowUpDecided):
                sizes.append(0)
            sizes[-1] += isinstance(event, SlotRequestDeferred | SlotAllocated)
        assert max(sizes) == MATCH_BATCH
        assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
        cluster.check()


# -- everything at once, against a slow and simple model ------------------------------------------------------------------


OFFERED = (None, SMALL, LARGE, GPU)
ASKED: tuple[dict[str, Any], ...] = ({}, {}, {"cpu_cores": 0.5}, {"task_heap_memory": "1g"}, {"extended_resources": {"gpu": 1}})


def _act(cluster: ScriptedCluster, dice: random.Random, number: int, running: list[Any]) -> None:
    """Do something that any cluster may meet."""
    names = [f"tm{n}" for n in range(5)]
    choice = dice.random()
    if choice < 0.3:
        name = dice.choice(names)
        running += cluster.register(name, dice.randint(1, 4), instance=str(number), profile=dice.choice(OFFERED))
    elif choice < 0.65:
        document = graph(*(vertex(f"v{n}", dice.randint(1, 4), **dice.choice(ASKED)) for n in range(dice.randint(1, 3))))
        running += cluster.submit(document, job_id=f"job-{number}")
    elif choice < 0.7:
        running += cluster.block(dice.choice(names), duration_ms=dice.choice((0, 5_000)))
    elif choice < 0.75:
        running += cluster.unblock(dice.choice(names))
    elif choice < 0.8:
        running += cluster.cancel(f"job-{dice.randint(0, number)}")
    elif choice < 0.83:
        running += cluster.pass_time(dice.choice((100, 6_000, 40_000)))
    elif running:
        effect = running.pop(dice.randrange(len(running)))
        if deployments([effect]):
            running += cluster.report(effect, dice.choice((ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.FAILED)))


def _check_nothing_is_left_that_could_run(cluster: ScriptedCluster) -> None:
    """At rest no request waits that a free slot fits, and each that waits was told the reason that holds now."""
    slots = cluster.master.slot_manager

    def is_given_away(held: TaskManagerSlots) -> bool:
        return not held.blocked and any(s.allocation_id == "" for s in held.slots)

    free = {held.profile for held in slots.task_managers.values() if is_given_away(held)}
    for request in slots.pending.values():
        assert not any(fits(profile, request.profile) for profile in free), request
        told = slots.deferrals.reason_of(request.attempt.job_id, request.profile)
        assert told is slots.why_waiting(request.profile)
    assert not slots.deferrals.untold


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_nobody_waits_for_what_is_free_and_a_snapshot_goes_on_alike(seed: int) -> None:
    dice = random.Random(seed)
    cluster = _raised(
        slot_request_timeout_ms=60_000, start_up_time_ms=10_000, job_store_capacity=5, evenly_spread_out_slots=dice.random() < 0.5
    )
    running: list[Any] = []
    for number in range(70):
        _act(cluster, dice, number, running)
        _check_nothing_is_left_that_could_run(cluster)
    cluster.check()
    cut = dice.randrange(len(cluster.log) // 2, len(cluster.log))
    restored = new_fold()
    restore_fold(document_of(replay(cluster.log[:cut])), restored)
    for offset in range(cut, len(cluster.log)):
        restored.fold_record(offset, 0, cluster.log[offset])
        restored.master.validate()
    assert restored.master.digest() == cluster.master.digest()
    for spread in (True, False):
        assert decide_matches(restored.master.slot_manager, spread=spread) == decide_matches(cluster.master.slot_manager, spread=spread)

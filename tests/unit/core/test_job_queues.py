"""Named queues of jobs: what may be configured, which queue is next, what none may exceed, what jobs are told, and that replays agree."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from eventflink.documents.waits import WaitReason
from eventflink.events.log_events import (
    JobSubmitted,
    QueuesConfigured,
    RequestRejected,
    SlotAllocated,
    SlotRequestDeferred,
    SlotRequestTimedOut,
    WorkerRequested,
)
from eventflink.master.queue_shares import QueueShares
from eventflink.master.settings import AdaptiveSettings, MasterSettings, WorkerSettings
from eventflink.master.slot_manager import SlotManager
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.job_graph_document import InvalidJobGraph, graph_digest, parse_job_graph, to_document
from eventflink.model.job_queues import MAX_QUEUES, MAX_QUOTA, MAX_WEIGHT, JobQueue
from eventflink.model.resources import ResourceProfile, fits
from eventflink.model.statuses import ExecutionState, IllegalTransition, SlotRequestDeferralReason
from eventflink.snapshots.state_codec import document_of, restore_fold
from eventflink.views.jobs_and_cluster import cluster_view
from eventflink.views.pages.waits import waits_page
from tests.support.cluster import ScriptedCluster, deployments, graph, new_fold, replay, sharing, tasks, vertex

ETL, ADHOC = JobQueue("etl", 4), JobQueue("adhoc", 2)


def _cluster(*queues: JobQueue, **settings: Any) -> ScriptedCluster:
    """Return a cluster that has recorded its queues."""
    made = ScriptedCluster(MasterSettings(queues=tuple(sorted(queues, key=lambda queue: queue.name)), **settings))
    made.pass_time(100)
    return made


def _held(cluster: ScriptedCluster) -> dict[str, int]:
    return dict(cluster.master.slot_manager.shares.held)


def _sentences(cluster: ScriptedCluster) -> dict[str, str]:
    """Return what is said of the jobs that wait for their queue."""
    return {wait.job_id: wait.sentence for wait in waits_page(cluster.fold, 0, 100).waits if wait.reason is WaitReason.QUEUE_SHARE}


def _submit(cluster: ScriptedCluster, job_id: str, queue: str, parallelism: int = 1, **more: Any) -> list[Any]:
    return cluster.submit(graph(vertex("a", parallelism), queue=queue, **more), job_id=job_id)


class TestConfiguration:
    def test_queues_are_keys_below_one_name(self) -> None:
        written = {"queues": {"etl": {"nominal-quota": 8, "weight": 3, "borrowing-limit": 4}, "adhoc": {"nominal-quota": "2"}}}
        configured = build_configuration(written, "test").job_queues
        assert configured == (JobQueue("adhoc", 2), JobQueue("etl", 8, 3, 4))
        assert [queue.limit for queue in configured] == [None, 12]
        assert build_configuration({}, "test").job_queues == ()

    @pytest.mark.parametrize(
        ("written", "said"),
        [
            ({"queues.Etl.nominal-quota": 1}, "queues.Etl.nominal-quota: invalid name of a queue: 'Etl'"),
            ({"queues.etl.quota": 1}, "queues.etl.quota: unknown key of a queue; known: nominal-quota, weight, borrowing-limit"),
            ({"queues.etl.nominal-quota": -1}, "queues.etl.nominal-quota: invalid number: '-1'; give a whole number from 0 to 1000000"),
            ({"queues.etl.nominal-quota": 1.5}, "invalid number: '1.5'"),
            ({"queues.etl.nominal-quota": 1, "queues.etl.weight": 0}, "give a whole number from 1 to 1000"),
            ({"queues.etl.weight": 2}, "queues.etl.nominal-quota: missing; say how many slots the queue is entitled to"),
            ({f"queues.q{n}.nominal-quota": 1 for n in range(MAX_QUEUES + 1)}, f"at most {MAX_QUEUES} may be configured"),
        ],
    )
    def test_what_is_wrong_is_said_of_its_key(self, written: Mapping[str, object], said: str) -> None:
        with pytest.raises(ConfigurationError) as raised:
            build_configuration(written, "test")
        assert said in str(raised.value)

    def test_a_leader_records_its_queues_once_and_the_next_one_with_others_again(self) -> None:
        cluster = _cluster(ETL, ADHOC)
        cluster.pass_time(10_000)
        cluster.fail_over()
        cluster.pass_time(100)
        assert [event.queues for event in cluster.events(QueuesConfigured)] == [(ADHOC, ETL)]
        cluster.settings = MasterSettings()
        cluster.fail_over()
        cluster.pass_time(100)
        assert [event.queues for event in cluster.events(QueuesConfigured)] == [(ADHOC, ETL), ()]
        cluster.check()

    def test_without_queues_nothing_of_them_is_in_the_log(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm", 1)
        cluster.submit(graph(vertex("a", 3)))
        cluster.pass_time(10_000)
        assert not cluster.events(QueuesConfigured)
        assert {event.reason for event in cluster.events(SlotRequestDeferred)} == {SlotRequestDeferralReason.NO_FREE_SLOT}


class TestDocument:
    def test_a_job_names_its_queue_and_its_priority(self) -> None:
        written = graph(vertex("a"), queue="etl", priority=-5)
        parsed = parse_job_graph(written, "test")
        assert (parsed.queue, parsed.priority) == ("etl", -5)
        assert parse_job_graph(to_document(parsed), "test") == parsed

    def test_a_job_that_says_nothing_of_them_keeps_its_digest(self) -> None:
        plain, with_queue = parse_job_graph(graph(vertex("a")), "test"), parse_job_graph(graph(vertex("a"), queue="etl"), "test")
        assert "queue" not in to_document(plain)
        assert graph_digest(plain) != graph_digest(with_queue)

    @pytest.mark.parametrize("more", [{"queue": "Etl"}, {"queue": ""}, {"queue": "q" * 64}, {"priority": 101}, {"priority": 1.5}])
    def test_what_is_no_queue_or_priority_is_refused(self, more: dict[str, Any]) -> None:
        with pytest.raises(InvalidJobGraph, match=next(iter(more))):
            parse_job_graph(graph(vertex("a"), **more), "test")


class TestUnknownQueue:
    def test_a_submission_to_it_is_refused_and_told_the_queues(self) -> None:
        cluster = _cluster(ETL, ADHOC)
        _submit(cluster, "job", "elt")
        [refused] = cluster.events(RequestRejected)
        assert refused.code == "UnknownQueue"
        assert refused.message.startswith("queue not found: 'elt'; known: adhoc, default, etl;")
        _submit(cluster, "other", "default")
        assert [event.job_id for event in cluster.events(JobSubmitted)] == ["other"]

    def test_without_queues_any_is_as_good_as_another(self, cluster: ScriptedCluster) -> None:
        cluster.register("tm", 1)
        assert tasks(_submit(cluster, "job", "etl"))

    def test_a_schedule_of_such_a_job_is_refused(self) -> None:
        cluster = _cluster(ETL)
        schedule = {"interval": "60s", "job": graph(vertex("a"), queue="elt")}
        cluster.command(type="PutSchedule", schedule_id="hourly", definition=schedule)
        [refused] = cluster.events(RequestRejected)
        assert refused.code == "UnknownQueue"

    def test_a_job_whose_queue_is_configured_no_more_counts_in_the_default_queue(self) -> None:
        cluster = _cluster(ETL, ADHOC)
        cluster.register("tm", 3)
        _submit(cluster, "job", "etl", 4)
        assert _held(cluster) == {"etl": 3}
        cluster.settings = MasterSettings(queues=(ADHOC,))
        cluster.fail_over()
        cluster.pass_time(100)
        assert _held(cluster) == {"default": 3}
        assert {line.queue for line in cluster.master.slot_manager.queues.queues} == {"default"}
        cluster.master.validate()
        cluster.check()


class TestOrder:
    def test_a_queue_below_its_quota_goes_before_one_that_borrows(self) -> None:
        cluster = _cluster(ETL, ADHOC)
        _submit(cluster, "flood", "adhoc", 20)
        _submit(cluster, "nightly", "etl", 20)
        cluster.register("tm", 5)
        assert _held(cluster) == {"etl": 4, "adhoc": 1} or _held(cluster) == {"etl": 3, "adhoc": 2}
        cluster.register("tm2", 1)
        assert _held(cluster) == {"etl": 4, "adhoc": 2}
        cluster.check()

    def test_of_queues_below_their_quota_the_one_that_has_least_of_it_is_next(self) -> None:
        cluster = _cluster(JobQueue("a", 30), JobQueue("b", 10))
        for name in ("a", "b"):
            _submit(cluster, f"job-{name}", name, 60)
        for number in range(8):
            cluster.register(f"tm{number}", 4)
            held = _held(cluster)
            assert abs(held["a"] - 3 * held["b"]) <= 3, held

    @pytest.mark.parametrize(("weights", "quotas"), [((3, 1), (0, 0)), ((1, 1), (7, 2)), ((5, 2), (3, 9))])
    def test_two_saturated_queues_borrow_by_their_weights(self, weights: tuple[int, int], quotas: tuple[int, int]) -> None:
        dice = random.Random(1)
        first, second = (JobQueue(name, quota, weight) for name, quota, weight in zip("ab", quotas, weights, strict=True))
        borrowed = 14 * sum(weights)
        cluster = ScriptedCluster(MasterSettings(queues=(first, second)), check_digests=False, check_states=False)
        cluster.pass_time(100)
        for name in "ab":
            _submit(cluster, f"job-{name}", name, 700)
        running = deployments(cluster.register("tm", sum(quotas) + borrowed))
        totals = Counter[str]()
        for _ in range(300):
            running += deployments(cluster.report(running.pop(dice.randrange(len(running))), ExecutionState.FINISHED))
            totals.update(_held(cluster))
        shares = [totals[name] / 300 - quota for name, quota in zip("ab", quotas, strict=True)]
        assert shares[0] / shares[1] == pytest.approx(weights[0] / weights[1], rel=0.02)
        cluster.master.validate()

    def test_a_job_of_a_higher_priority_goes_first_within_its_queue_only(self) -> None:
        cluster = _cluster(JobQueue("a", 2), JobQueue("b", 2))
        for job_id, queue, priority in (("low", "a", -1), ("ordinary", "a", 0), ("high", "a", 7), ("other", "b", 100)):
            _submit(cluster, job_id, queue, 2, priority=priority)
        order = [task.job_id for number in range(8) for task in tasks(cluster.register(f"tm{number}", 1))]
        assert [job_id for job_id in order if job_id != "other"] == ["high", "high", "ordinary", "ordinary", "low", "low"]
        assert Counter(order[:4]) == {"high": 2, "other": 2}
        cluster.check()

    def test_jobs_of_one_queue_and_priority_take_turns_whatever_others_are_served(self) -> None:
        cluster = _cluster(JobQueue("a", 1, borrowing_limit=0), JobQueue("b", 50))
        cluster.register("tm", 20)
        running = deployments(_submit(cluster, "busy", "b", 200))
        for _ in range(100):
            running += deployments(cluster.report(running.pop(0), ExecutionState.FINISHED))
        in_a = deployments(_submit(cluster, "wide", "a", 30))
        in_a += deployments(_submit(cluster, "narrow", "a", 1))
        if not in_a:
            in_a = deployments(cluster.report(running.pop(0), ExecutionState.FINISHED))
        served: list[str] = []
        while in_a and len(served) < 3:
            done = in_a.pop(0)
            served += [task.job_id for task in tasks([done]) if task.job_id != "busy"]
            in_a += deployments(cluster.report(done, ExecutionState.FINISHED))
        assert "narrow" in served
        cluster.check()

    def test_standings_are_whole_numbers_that_never_tie_where_fractions_differ(self) -> None:
        big, next_to_it = JobQueue("b", MAX_QUOTA), JobQueue("a", MAX_QUOTA - 1)
        shares = QueueShares({"a": next_to_it, "b": big})
        held = MAX_QUOTA - 3
        assert shares.standing_of("b", held) < shares.standing_of("a", held)
        heavy, light = JobQueue("b", 0, MAX_WEIGHT), JobQueue("a", 0, MAX_WEIGHT - 1)
        shares = QueueShares({"a": light, "b": heavy})
        assert shares.standing_of("b", 10**6) < shares.standing_of("a", 10**6)


class TestLimit:
    def test_a_queue_never_holds_more_than_its_quota_and_its_borrowing_limit(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, borrowing_limit=1), ADHOC)
        cluster.register("tm", 10)
        [*running] = deployments(_submit(cluster, "job", "etl", 8))
        assert _held(cluster) == {"etl": 3}
        _submit(cluster, "other", "adhoc", 5)
        assert _held(cluster) == {"etl": 3, "adhoc": 5}
        cluster.report(running[0], ExecutionState.FINISHED)
        assert _held(cluster) == {"etl": 3, "adhoc": 5}
        cluster.check()

    def test_a_slot_beyond_it_cannot_be_allocated(self) -> None:
        cluster = _cluster(JobQueue("etl", 1, borrowing_limit=0))
        cluster.register("tm", 2)
        _submit(cluster, "job", "etl", 2)
        [waiting] = cluster.master.slot_manager.pending
        with pytest.raises(IllegalTransition, match="queue 'etl' holds as many as it may"):
            cluster.master.apply(SlotAllocated(waiting, "tm", "tm-1", 1), 1)

    def test_a_lower_limit_takes_no_slot_away_and_gives_none_until_it_holds_less(self) -> None:
        cluster = _cluster(ETL)
        cluster.register("tm", 6)
        running = deployments(_submit(cluster, "job", "etl", 20))
        cluster.settings = MasterSettings(queues=(JobQueue("etl", 4, borrowing_limit=0),))
        cluster.fail_over()
        cluster.pass_time(100)
        assert _held(cluster) == {"etl": 6}
        for left in (5, 4, 4, 4):
            cluster.report(running.pop(), ExecutionState.FINISHED)
            assert _held(cluster) == {"etl": left}
        cluster.check()

    def test_a_shared_slot_counts_once_and_who_joins_it_needs_no_room(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, borrowing_limit=0))
        cluster.register("tm", 5)
        done = tasks(cluster.submit(graph(sharing("a", 2), sharing("b", 2), queue="etl"), job_id="job"))
        assert len(done) == 4
        assert _held(cluster) == {"etl": 2}
        cluster.check()

    def test_slots_that_are_lost_with_their_task_manager_are_held_no_more(self) -> None:
        cluster = _cluster(ETL)
        cluster.register("tm", 2)
        _submit(cluster, "job", "etl", 2)
        cluster.register("tm", 2, instance="2")
        cluster.check()
        assert sum(_held(cluster).values()) <= 2

    def test_a_job_waits_for_its_queue_as_long_as_it_takes(self) -> None:
        cluster = _cluster(JobQueue("etl", 1, borrowing_limit=0), slot_request_timeout_ms=1_000)
        cluster.register("tm", 2)
        _submit(cluster, "first", "etl", restart_strategy={"type": "none"})
        _submit(cluster, "second", "etl")
        cluster.pass_time(3_600_000)
        assert not cluster.events(SlotRequestTimedOut)
        cluster.submit(graph(vertex("a", 3)), job_id="third")
        cluster.pass_time(3_600_000)
        assert not cluster.events(SlotRequestTimedOut)


class TestOthersWhoAskForSlots:
    def test_an_adaptive_job_takes_what_its_queue_may_hold(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, borrowing_limit=1), adaptive=AdaptiveSettings(resource_stabilization_timeout_ms=1_000))
        cluster.register("tm", 8)
        cluster.submit(graph(vertex("a", 6), queue="etl", scheduler="adaptive"), job_id="job")
        cluster.pass_time(2_000)
        assert _held(cluster) == {"etl": 3}
        assert cluster.job("job").execution_graph.vertices["a"].parallelism == 3
        cluster.pass_time(60_000)
        assert cluster.job("job").execution_graph.vertices["a"].parallelism == 3
        cluster.check()

    def test_an_adaptive_job_of_a_full_queue_gets_into_line_and_is_not_given_up(self) -> None:
        settings = AdaptiveSettings(resource_stabilization_timeout_ms=1_000, resource_wait_timeout_ms=5_000)
        cluster = _cluster(JobQueue("etl", 1, borrowing_limit=0), adaptive=settings)
        cluster.register("tm", 4)
        [first] = deployments(_submit(cluster, "first", "etl"))
        cluster.submit(graph(vertex("a", 6), queue="etl", scheduler="adaptive"), job_id="job")
        cluster.pass_time(2_000)
        cluster.pass_time(60_000)
        assert cluster.job("job").execution_graph.vertices["a"].parallelism == 1
        assert [task.job_id for task in tasks(cluster.report(first, ExecutionState.FINISHED))] == ["job"]
        cluster.check()

    def test_no_worker_is_asked_for_beyond_the_limit_of_a_queue(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, borrowing_limit=1), workers=WorkerSettings(slot_count=1))
        _submit(cluster, "job", "etl", 50)
        cluster.pass_time(1_000)
        assert len(cluster.events(WorkerRequested)) == 3

    def test_an_idle_worker_is_released_though_a_full_queue_waits(self) -> None:
        cluster = _cluster(JobQueue("etl", 1, borrowing_limit=0), workers=WorkerSettings(slot_count=1, idle_timeout_ms=1_000))
        _submit(cluster, "job", "etl", 2)
        cluster.pass_time(100)
        cluster.submit(graph(vertex("a")), job_id="other")
        cluster.pass_time(100)
        running = [each for number in (1, 2) for each in deployments(cluster.register(f"worker-{number}", 1))]
        [of_other] = [each for each in running if tasks([each])[0].job_id == "other"]
        cluster.report(of_other, ExecutionState.FINISHED)
        cluster.pass_time(5_000)
        assert len(cluster.master.slot_manager.task_managers) == 1
        cluster.check()


class TestWhatJobsAreTold:
    def test_the_reason_is_told_once_however_often_a_slot_of_the_queue_is_freed(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, borrowing_limit=0))
        cluster.register("tm", 4)
        running = deployments(_submit(cluster, "job", "etl", 20))
        for _ in range(10):
            running += deployments(cluster.report(running.pop(0), ExecutionState.FINISHED))
        [deferred] = cluster.events(SlotRequestDeferred)
        assert deferred.reason is SlotRequestDeferralReason.QUEUE_SHARE

    def test_a_wait_names_the_queue_its_limit_and_who_borrows(self) -> None:
        cluster = _cluster(JobQueue("etl", 4), JobQueue("adhoc", 2, borrowing_limit=3))
        cluster.register("tm", 6)
        _submit(cluster, "flood", "adhoc", 9)
        _submit(cluster, "other", "default", 1)
        _submit(cluster, "nightly", "etl", 2)
        said = _sentences(cluster)
        assert "queue 'adhoc' holds 5 slots, as many as it may: its quota is 2, and it may borrow 3" in said["flood"]
        assert "queue 'etl' holds 0, and its quota is 4; 'adhoc' borrows 3 and 'default' borrows 1" in said["nightly"]

    def test_a_wait_of_a_queue_that_borrows_names_those_before_it(self) -> None:
        cluster = _cluster(JobQueue("a", 1), JobQueue("b", 3))
        cluster.register("tm", 2)
        _submit(cluster, "first", "a", 4)
        _submit(cluster, "second", "b", 4)
        assert "queue 'a' holds 2, and its quota is 1; before it comes 'b'" in _sentences(cluster)["first"]

    def test_pages_show_what_each_queue_holds_and_waits_for(self) -> None:
        cluster = _cluster(JobQueue("etl", 2, 3, 1))
        cluster.register("tm", 3)
        _submit(cluster, "job", "etl", 5)
        _submit(cluster, "other", "default", 2)
        rows = cluster_view(cluster.fold).queues
        assert rows == waits_page(cluster.fold, 0, 10).queues
        assert [(row.queue, row.nominal_quota, row.borrowing_limit, row.weight) for row in rows] == [
            ("default", 0, None, 1),
            ("etl", 2, 1, 3),
        ]
        assert [(row.held, row.borrowed, row.requests, row.jobs) for row in rows] == [(0, 0, 2, 1), (3, 1, 2, 1)]


# -- everything at once, against a slow and simple model ------------------------------------------------------------------


SMALL, LARGE = ResourceProfile(500), ResourceProfile(2_000)
OFFERED = (None, SMALL, LARGE)
ASKED: tuple[dict[str, Any], ...] = ({}, {}, {"cpu_cores": 0.5}, {"cpu_cores": 1})
QUEUES = (
    (JobQueue("a", 3), JobQueue("b", 2, 3, 2)),
    (JobQueue("a", 0, 5), JobQueue("b", 0), JobQueue("default", 4, 1, 0)),
    (JobQueue("a", 6, borrowing_limit=0),),
    (),
)


def _act(cluster: ScriptedCluster, dice: random.Random, number: int, running: list[Any]) -> None:
    choice = dice.random()
    if choice < 0.25:
        running += cluster.register(f"tm{dice.randrange(5)}", dice.randint(1, 4), instance=str(number), profile=dice.choice(OFFERED))
    elif choice < 0.65:
        vertices = [vertex(f"v{n}", dice.randint(1, 4), **dice.choice(ASKED)) for n in range(dice.randint(1, 3))]
        queue, priority = dice.choice(("a", "b", "default")), dice.choice((0, 0, 5, -5))
        running += cluster.submit(graph(*vertices, queue=queue, priority=priority), job_id=f"job-{number}")
    elif choice < 0.7:
        running += cluster.block(f"tm{dice.randrange(5)}", duration_ms=dice.choice((0, 5_000)))
    elif choice < 0.75:
        running += cluster.cancel(f"job-{dice.randint(0, number)}")
    elif choice < 0.8:
        running += cluster.pass_time(dice.choice((100, 6_000)))
    elif running:
        effect = running.pop(dice.randrange(len(running)))
        if deployments([effect]):
            running += cluster.report(effect, dice.choice((ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.FAILED)))


def _check_rest(slots: SlotManager) -> None:
    """At rest a request waits only where no free slot fits it, or its queue holds as many as it may."""
    free = {held.profile for held in slots.task_managers.values() if not held.blocked and held.free}
    for request in slots.pending.values():
        name = slots.shares.name_of(request.queue)
        assert slots.shares.is_full(name) or not any(fits(profile, request.profile) for profile in free), request
    assert not slots.deferrals.untold


def _check_allocations(cluster: ScriptedCluster, first: int) -> None:
    """No slot goes to a queue while one that stands before it, and may have it, waits for such a slot; none goes beyond a limit."""
    fold = replay(cluster.log[:first])
    for decision in cluster.decisions_from(first):
        for event in decision.events:
            if isinstance(event, SlotAllocated):
                slots = fold.master.slot_manager
                shares, got = slots.shares, slots.pending[event.allocation_id]
                name, offered = shares.name_of(got.queue), slots.task_managers[event.task_manager_id].profile
                assert not shares.is_full(name)
                for allocation_id, other in slots.pending.items():
                    theirs = shares.name_of(other.queue)
                    if fits(offered, other.profile) and not shares.is_full(theirs):
                        assert shares.standing_of(name, shares.held_by(name)) <= shares.standing_of(theirs, shares.held_by(theirs))
                        assert theirs != name or got.priority >= other.priority, allocation_id
            fold.master.apply(event, decision.decided_at_ms)
        fold.master.apply_causes(decision.causes)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_no_queue_is_passed_over_or_exceeds_its_limit_and_a_snapshot_goes_on_alike(seed: int) -> None:
    dice = random.Random(seed)
    cluster = _cluster(*dice.choice(QUEUES), start_up_time_ms=10_000, job_store_capacity=5)
    running: list[Any] = []
    for number in range(60):
        if dice.random() < 0.05:
            cluster.settings = MasterSettings(queues=dice.choice(QUEUES), start_up_time_ms=10_000, job_store_capacity=5)
            cluster.fail_over()
            running += cluster.pass_time(100)
        first = len(cluster.log)
        _act(cluster, dice, number, running)
        _check_rest(cluster.master.slot_manager)
        _check_allocations(cluster, first)
    cluster.check()
    cut = dice.randrange(len(cluster.log) // 2, len(cluster.log))
    restored = new_fold()
    restore_fold(document_of(replay(cluster.log[:cut])), restored)
    for offset in range(cut, len(cluster.log)):
        restored.fold_record(offset, 0, cluster.log[offset])
        restored.master.validate()
    assert restored.master.digest() == cluster.master.digest()

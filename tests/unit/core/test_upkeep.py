"""What a cluster knows about its own running: feature level (P19), snapshots (P18), drills; and what it forgets by age (P8)."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.codec import HEADER_LENGTH
from eventflink.events.inputs import DrillStep, ReportSnapshot
from eventflink.events.log_events import (
    AnswersExpired,
    DrillStepOrdered,
    FeatureLevelRaised,
    JobEvicted,
    JobIdsExpired,
    JobSubmitted,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
    SnapshotConfirmed,
    SnapshotTaken,
)
from eventflink.events.schemas import MARKER, fingerprint_of, load_envelope, load_released
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.release import recent_replies
from eventflink.master.dispatcher import EVICTION_BATCH
from eventflink.master.effects import DrillOrder, Effect, effects_of
from eventflink.master.inputs import ExpireAnswers, RaiseFeatureLevel
from eventflink.master.requests import EXPIRY_BATCH
from eventflink.master.settings import MasterSettings
from eventflink.master.upkeep import MAX_FREEZE_MS, MAX_SNAPSHOTS, SnapshotRecord
from eventflink.model.features import FEATURE_LEVEL, FIRST_LEVEL, UPKEEP_LEVEL
from eventflink.model.statuses import DrillStepType
from tests.support.cluster import CODEC, HORIZON_MS, ScriptedCluster, graph, replies, vertex
from tests.support.participants import LEASE_MS, World
from tests.support.scenarios import confirmation, snapshot

LOG_LENGTH = 3 * MAX_SNAPSHOTS


@pytest.fixture
def raised(cluster: ScriptedCluster) -> ScriptedCluster:
    cluster.timer(RaiseFeatureLevel(UPKEEP_LEVEL))
    for number in range(LOG_LENGTH):  # What a snapshot can be of.
        cluster.cancel("none", request_id=f"before-{number}")
    return cluster


def _code(effects: list[Effect]) -> str:
    """Return the code of the one refusal among effects, or nothing if it is an acceptance."""
    [reply] = replies(effects)
    return reply.payload.code if isinstance(reply.payload, RequestRejected) else ""


class TestFeatureLevel:
    def test_a_new_cluster_writes_everything_at_once(self, world: World) -> None:
        """There is no older master that could have read its log."""
        world.start("a", election=SingleMaster())
        world.run(50)
        assert world.events(FeatureLevelRaised) == [FeatureLevelRaised(FIRST_LEVEL, FEATURE_LEVEL)]

    def _older_cluster(self, world: World) -> None:
        """Have an older version lead first, which knows nothing of newer levels."""
        old = world.start("old", feature_level=FIRST_LEVEL, election=SingleMaster())
        world.run(50)
        world.kill(old)
        assert world.events(FeatureLevelRaised) == []

    def test_it_is_raised_when_every_master_that_was_heard_of_can_read_it_and_not_before_three_leases(self, world: World) -> None:
        self._older_cluster(world)
        world.start("a")
        world.start("b")
        world.leader()
        began_ms = world.now_ms
        world.run(3 * LEASE_MS - 100)
        assert world.events(FeatureLevelRaised) == []
        world.run_until(lambda: bool(world.events(FeatureLevelRaised)))
        assert world.now_ms - began_ms >= 3 * LEASE_MS
        world.run(5 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == [FeatureLevelRaised(FIRST_LEVEL, FEATURE_LEVEL)]

    def test_it_is_not_raised_while_an_older_master_is_heard_of_and_is_soon_after_it_left(self, world: World) -> None:
        self._older_cluster(world)
        world.start("a")
        older = world.start("b", feature_level=FIRST_LEVEL)
        world.leader()
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []
        world.kill(older)
        world.run(3 * LEASE_MS - 600)
        assert world.events(FeatureLevelRaised) == [], "it may only be slow"
        world.run(LEASE_MS)
        assert len(world.events(FeatureLevelRaised)) == 1

    def test_a_leader_never_raises_it_beyond_what_it_can_read_itself(self, world: World) -> None:
        world.start("a", feature_level=FIRST_LEVEL, election=SingleMaster())
        world.start("b", feature_level=FEATURE_LEVEL)
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []

    def test_a_leader_that_hears_nobody_raises_nothing(self, world: World) -> None:
        """It does not even hear itself: there may be older masters."""
        self._older_cluster(world)
        deaf = world.start("a", election=SingleMaster())
        deaf.is_deaf = True
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []

    def test_no_newer_event_is_decided_below_its_level(self, cluster: ScriptedCluster) -> None:
        """An older standby would meet a record that it cannot read."""
        report = dataclasses.replace(snapshot(1, 3), reply_partition=0)
        assert _code(cluster.send(report)) == "FeatureLevelTooLow"
        step = DrillStep(request_id="d", reply_partition=0, drill_id="d", step=DrillStepType.STOP, master_id="master-1")
        assert _code(cluster.send(step)) == "FeatureLevelTooLow"
        confirm = dataclasses.replace(confirmation(report), reply_partition=0)
        assert _code(cluster.send(confirm)) == "UnknownSnapshot"
        assert not cluster.events(SnapshotTaken, SnapshotConfirmed, DrillStepOrdered)

    def test_raising_to_a_level_that_is_reached_decides_nothing(self, raised: ScriptedCluster) -> None:
        count = len(raised.log)
        raised.timer(RaiseFeatureLevel(UPKEEP_LEVEL), RaiseFeatureLevel(FIRST_LEVEL))
        assert len(raised.log) == count


class TestSnapshots:
    def _report(self, cluster: ScriptedCluster, number: int, log_offset: int, **more: Any) -> list[Effect]:
        return cluster.send(dataclasses.replace(snapshot(number, log_offset), reply_partition=0, **more))

    def _confirm(self, cluster: ScriptedCluster, report: ReportSnapshot, **more: Any) -> list[Effect]:
        return cluster.send(dataclasses.replace(confirmation(report), reply_partition=0, **more))

    def test_a_snapshot_is_remembered_with_what_was_said_of_it(self, raised: ScriptedCluster) -> None:
        assert _code(self._report(raised, 1, 7)) == ""
        assert raised.master.upkeep.snapshots == {"snapshot-1": SnapshotRecord(7, "digest-7", 3, 1_000, "master-1")}
        assert raised.master.upkeep.newest_confirmed() is None

    @pytest.mark.parametrize(("number", "log_offset"), [(1, 7), (1, 9), (2, 7), (2, 6), (2, -1)])
    def test_one_that_is_no_news_is_refused(self, raised: ScriptedCluster, number: int, log_offset: int) -> None:
        self._report(raised, 1, 7)
        assert _code(self._report(raised, number, log_offset, request_id="other")) == "SnapshotOutdated"
        assert len(raised.events(SnapshotTaken)) == 1

    def test_a_snapshot_of_what_is_not_written_yet_is_refused(self, raised: ScriptedCluster) -> None:
        """It would keep out every real one: each would be older."""
        last = len(raised.log) - 1
        assert _code(self._report(raised, 1, last + 1)) == "InvalidRequest"
        assert _code(self._report(raised, 2, last)) == ""

    def test_a_report_that_comes_twice_is_answered_twice_and_noted_once(self, raised: ScriptedCluster) -> None:
        """P8."""
        assert [_code(self._report(raised, 1, 7)) for _ in range(2)] == ["", ""]
        assert len(raised.events(SnapshotTaken)) == 1
        assert len(raised.events(RequestRepeated)) == 1

    def test_another_master_with_the_same_digest_confirms_it_once(self, raised: ScriptedCluster) -> None:
        self._report(raised, 1, 7)
        assert _code(self._confirm(raised, snapshot(1, 7))) == ""
        assert _code(self._confirm(raised, snapshot(1, 7), request_id="third", confirmed_by="master-3")) == ""
        assert raised.events(SnapshotConfirmed) == [SnapshotConfirmed("snapshot-1", 7, "digest-7", "master-2")]
        assert raised.master.upkeep.newest_confirmed() == "snapshot-1"

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"confirmed_by": "master-1"}, "NotAnotherMaster"),
            ({"confirmed_by": ""}, "InvalidRequest"),
            ({"digest": "another"}, "DigestsDiffer"),
            ({"log_offset": 8}, "UnknownSnapshot"),
            ({"snapshot_id": "none"}, "UnknownSnapshot"),
        ],
    )
    def test_what_confirms_nothing_is_refused(self, raised: ScriptedCluster, changes: dict[str, Any], code: str) -> None:
        """P18: trimming relies on it."""
        self._report(raised, 1, 7)
        assert _code(self._confirm(raised, snapshot(1, 7), **changes)) == code
        assert raised.events(SnapshotConfirmed) == []

    def test_a_master_with_an_overlong_id_does_not_confirm_itself(self, raised: ScriptedCluster) -> None:
        self._report(raised, 1, 7, taken_by="m" * 200)
        assert _code(self._confirm(raised, snapshot(1, 7), confirmed_by="m" * 200)) == "NotAnotherMaster"

    def test_only_the_newest_are_remembered_and_the_newest_confirmed_one_always(self, raised: ScriptedCluster) -> None:
        for number in range(1, 4):
            self._report(raised, number, number)
        self._confirm(raised, snapshot(2, 2))
        for number in range(4, 3 * MAX_SNAPSHOTS):
            self._report(raised, number, number)
        known = list(raised.master.upkeep.snapshots)
        last = 3 * MAX_SNAPSHOTS
        assert known == ["snapshot-2", *[f"snapshot-{n}" for n in range(last - MAX_SNAPSHOTS + 1, last)]]
        assert raised.master.upkeep.newest_confirmed() == "snapshot-2"


class TestDrills:
    @pytest.fixture
    def drilled(self) -> Iterator[ScriptedCluster]:
        cluster = ScriptedCluster(MasterSettings(drills_allowed=True))
        cluster.timer(RaiseFeatureLevel(UPKEEP_LEVEL))
        yield cluster
        cluster.check()

    def _step(self, cluster: ScriptedCluster, **more: Any) -> list[Effect]:
        fields: dict[str, Any] = {"drill_id": "drill", "step": "STOP", "master_id": "master-1", **more}
        return cluster.command(type="DrillStep", **fields)

    def test_by_default_nobody_can_make_a_master_fall(self, raised: ScriptedCluster) -> None:
        effects = self._step(raised)
        assert _code(effects) == "DrillsNotAllowed"
        assert not [e for e in effects if isinstance(e, DrillOrder)]

    @pytest.mark.parametrize("step", list(DrillStepType))
    def test_where_drills_are_allowed_the_leader_is_told_once_its_order_is_accepted(
        self, drilled: ScriptedCluster, step: DrillStepType
    ) -> None:
        effects = self._step(drilled, step=step.value, duration_ms=500)
        assert _code(effects) == ""
        assert [e for e in effects if isinstance(e, DrillOrder)] == [DrillOrder(step, 500)]
        assert drilled.events(DrillStepOrdered) == [DrillStepOrdered("drill", step, "master-1", 500)]

    def test_a_step_for_a_master_that_does_not_lead_is_refused(self, drilled: ScriptedCluster) -> None:
        effects = self._step(drilled, master_id="master-2")
        assert _code(effects) == "NotTheLeader"
        assert not [e for e in effects if isinstance(e, DrillOrder)]

    @pytest.mark.parametrize(
        ("duration_ms", "code"), [(-1, "InvalidRequest"), (0, ""), (MAX_FREEZE_MS, ""), (MAX_FREEZE_MS + 1, "InvalidRequest")]
    )
    def test_the_time_of_a_freeze_has_a_bound(self, drilled: ScriptedCluster, duration_ms: int, code: str) -> None:
        assert _code(self._step(drilled, step="FREEZE", duration_ms=duration_ms)) == code

    def test_the_next_leader_does_not_fall_again(self, drilled: ScriptedCluster) -> None:
        """What a drill asked is not among what a new leader says again; a repeated request is only answered again."""
        self._step(drilled, request_id="r")
        effects = [
            *drilled.fail_over().effects,
            *(e for r in recent_replies(drilled.fold) for e in r.effects),
            *self._step(drilled, request_id="r"),
        ]
        assert not [e for e in effects if isinstance(e, DrillOrder)]

    def test_an_order_falls_who_released_it(self, world: World) -> None:
        node = world.start("a", election=SingleMaster(), settings=MasterSettings(drills_allowed=True))
        other = world.start("b")
        world.run(50)
        world.send(DrillStep(drill_id="d", step=DrillStepType.KILL, master_id="a"))
        world.run(50)
        assert (node.wires.drill_steps, other.wires.drill_steps) == ([DrillOrder(DrillStepType.KILL, 0)], [])

    def test_the_effect_is_made_of_the_event(self, drilled: ScriptedCluster) -> None:
        event = DrillStepOrdered("drill", DrillStepType.FREEZE, "master-1", 7)
        assert effects_of(drilled.master, [event]) == [DrillOrder(DrillStepType.FREEZE, 7)]


class TestForgetting:
    """P8: answers and the ids of evicted jobs stay for a horizon in number and in age, and leave by events."""

    def _cluster(self, **more: Any) -> ScriptedCluster:
        return ScriptedCluster(MasterSettings(job_store_capacity=0, **more))

    def _end(self, cluster: ScriptedCluster, job_id: str) -> None:
        cluster.run(cluster.submit(graph(vertex("a")), job_id=job_id, request_id=f"request-{job_id}"))

    def test_an_answer_is_kept_exactly_as_long_as_a_request_is_read(self) -> None:
        """Whatever is old enough to have been forgotten is old enough to be refused."""
        cluster = self._cluster(request_horizon_ms=HORIZON_MS)
        cluster.submit(graph(vertex("a")), request_id="r")
        [answered_at_ms] = [a.answered_at_ms for a in cluster.master.requests.answers.values()]
        assert cluster.participant.clock is not None
        left_ms = answered_at_ms + HORIZON_MS - cluster.participant.clock.read(cluster.monotonic_ms, cluster.wall_ms)
        cluster.pass_time(left_ms)
        assert "r" in cluster.master.requests.answers
        cluster.pass_time(1)
        assert "r" not in cluster.master.requests.answers
        assert cluster.events(AnswersExpired) == [AnswersExpired(1)]
        cluster.check()

    def test_a_request_that_is_older_than_the_horizon_is_refused(self, cluster: ScriptedCluster) -> None:
        cluster.wall_ms += HORIZON_MS
        cluster.monotonic_ms += HORIZON_MS
        record = b'{"job_graph": {"name": "x", "vertices": [{"id": "a", "sql": "s"}]}, "reply_partition": 0}'
        assert cluster.participant.clock is not None
        now_ms = cluster.participant.clock.read(cluster.monotonic_ms, cluster.wall_ms)
        cluster.put("submissions", record, timestamp_ms=now_ms - HORIZON_MS)  # type: ignore[arg-type] # by its name
        assert _code(cluster.settle()) == ""
        cluster.put("submissions", record, timestamp_ms=now_ms - HORIZON_MS - 1)  # type: ignore[arg-type] # by its name
        assert _code(cluster.settle()) == "RequestTooOld"

    def test_only_the_old_ones_expire_and_the_young_ones_stay(self) -> None:
        cluster = self._cluster(request_horizon_ms=10_000)
        for number in range(3):
            cluster.cancel("none", request_id=f"old{number}")
        cluster.pass_time(9_000)
        cluster.cancel("none", request_id="young")
        cluster.pass_time(2_000)
        assert list(cluster.master.requests.answers) == ["young"]
        assert cluster.events(AnswersExpired) == [AnswersExpired(3)]
        cluster.check()

    def test_answers_expire_by_number_as_well(self) -> None:
        cluster = self._cluster(request_horizon=2)
        for number in range(5):
            cluster.cancel("none", request_id=f"r{number}")
        cluster.pass_time(1)
        assert list(cluster.master.requests.answers) == ["r3", "r4"]
        cluster.check()

    def test_a_batch_at_a_time_expires(self) -> None:
        """P10a: a decision has a bound, however much is due at once."""
        cluster = self._cluster(request_horizon_ms=1_000)
        cluster.check_digests = False
        answers = cluster.master.requests.answers
        for number in range(2 * EXPIRY_BATCH + 5):
            cluster.master.requests.apply_request_accepted(RequestAccepted(request_id=f"r{number}", reply_partition=-1, subject=""), 0)
        assert [len(cluster.master.requests.decide_expiry(10**9, 1))] == [1]
        assert cluster.master.requests.decide_expiry(10**9, 1) == [AnswersExpired(EXPIRY_BATCH)]
        assert cluster.master.requests.decide_expiry(len(answers) - 3, 0) == [AnswersExpired(3)]
        assert cluster.master.requests.decide_expiry(len(answers), 0) == []

    def test_a_job_never_runs_twice_until_its_id_is_forgotten_by_age(self) -> None:
        cluster = self._cluster(request_horizon_ms=10_000)
        cluster.register()
        self._end(cluster, "job")
        cluster.pass_time(1)
        assert [e.job_id for e in cluster.events(JobEvicted)] == ["job"]
        cluster.pass_time(9_998)
        assert _code(cluster.submit(graph(vertex("a")), job_id="job", request_id="again")) == "DuplicateJobSubmission"
        cluster.pass_time(2_000)
        assert cluster.events(JobIdsExpired) == [JobIdsExpired(1)]
        assert _code(cluster.submit(graph(vertex("a")), job_id="job", request_id="at last")) == ""
        assert len(cluster.events(JobSubmitted)) == 2
        cluster.check()

    def test_an_id_counts_from_its_eviction_and_not_from_its_end(self) -> None:
        """The store remembered it until then."""
        cluster = ScriptedCluster(MasterSettings(job_store_capacity=1, request_horizon_ms=10_000))
        cluster.register()
        self._end(cluster, "first")
        cluster.pass_time(9_000)
        self._end(cluster, "second")
        cluster.pass_time(5_000)
        assert list(cluster.master.dispatcher.forgotten) == ["first"]
        cluster.check()

    def test_ids_expire_by_number_as_well_a_batch_at_a_time(self) -> None:
        cluster = self._cluster(request_horizon=3)
        cluster.register()
        for number in range(5):
            self._end(cluster, f"job-{number}")
        cluster.pass_time(1)
        assert list(cluster.master.dispatcher.forgotten) == ["job-2", "job-3", "job-4"]
        forgotten = cluster.master.dispatcher.forgotten
        assert cluster.master.dispatcher.decide_expiry(0, 0) == [JobIdsExpired(len(forgotten))]
        cluster.check()
        forgotten.update({f"more-{n}": forgotten["job-2"] for n in range(2 * EVICTION_BATCH)})
        assert cluster.master.dispatcher.decide_expiry(0, 0) == [JobIdsExpired(EVICTION_BATCH)]

    def test_what_is_due_and_what_is_decided_agree_to_the_millisecond(self) -> None:
        """Otherwise a timer would be due for ever, and decide nothing."""
        cluster = self._cluster(request_horizon_ms=10_000)
        cluster.register()
        self._end(cluster, "job")
        cluster.pass_time(1)
        [answer], [job] = list(cluster.master.requests.answers.values()), list(cluster.master.dispatcher.forgotten.values())
        times = {answer.answered_at_ms, job.evicted_at_ms}
        for now_ms in sorted({t + 10_000 + d for t in times for d in (-1, 0, 1)}):
            is_due = any(isinstance(v, ExpireAnswers) for v in cluster.master.due(now_ms, now_ms))
            assert is_due == bool(cluster.master.decide(ExpireAnswers(), now_ms)) == (now_ms > min(times) + 10_000)
            for store in (cluster.master.requests, cluster.master.dispatcher):
                assert store.is_expired(10, now_ms - 10_000) == bool(store.decide_expiry(10, now_ms - 10_000))


class TestWhatIsWritten:
    """P19: a master of the first release meets nothing in the log that it cannot read, until the level is raised."""

    def _schemas_of(self, cluster: ScriptedCluster) -> list[bytes]:
        return [value[len(MARKER) : HEADER_LENGTH] for value in cluster.log]

    def test_below_a_level_the_log_is_written_with_the_schema_that_the_level_had(self) -> None:
        cluster = ScriptedCluster()
        cluster.register()
        cluster.run(cluster.submit(graph(vertex("a"))))
        assert set(self._schemas_of(cluster)) == {fingerprint_of(load_released("Decision", 1))}
        cluster.fail_over()
        assert set(self._schemas_of(cluster)) == {fingerprint_of(load_released("Decision", 1))}
        cluster.check()

    def test_from_the_raise_on_it_is_written_with_that_of_the_level(self) -> None:
        cluster = ScriptedCluster()
        written: list[set[bytes]] = []
        for level in (UPKEEP_LEVEL, FEATURE_LEVEL):
            cluster.timer(RaiseFeatureLevel(level))
            before = len(cluster.log)
            cluster.cancel("none", request_id=f"r{level}")
            cluster.fail_over()
            written.append(set(self._schemas_of(cluster)[before:]))
        assert written == [{fingerprint_of(load_released("Decision", 2))}, {fingerprint_of(load_envelope("Decision"))}]
        cluster.check()

    @pytest.mark.parametrize("level", [FIRST_LEVEL, FEATURE_LEVEL])
    def test_an_event_that_a_level_does_not_have_cannot_be_written_at_it(self, level: int) -> None:
        taken = SnapshotTaken("s", 1, "d", 1, 1, "m")
        if level == FEATURE_LEVEL:
            assert CODEC.decode_events(CODEC.encode_events([taken], level), level) == (taken,)
        else:
            with pytest.raises(ValueError, match="SnapshotTaken"):
                CODEC.encode_events([taken], level)

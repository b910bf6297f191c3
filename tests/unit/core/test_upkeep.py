"""What a cluster knows about its own running: snapshots (P18), drills; and what it forgets by age (P8)."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.inputs import MAX_FREEZE_MS, DrillStep, ReportSnapshot
from eventflink.events.log_events import (
    AnswersExpired,
    DrillStepOrdered,
    JobEvicted,
    JobIdsExpired,
    JobSubmitted,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
    SnapshotConfirmed,
    SnapshotTaken,
)
from eventflink.events.topics import Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.release import recent_replies
from eventflink.master.dispatcher import EVICTION_BATCH
from eventflink.master.effects import DrillOrder, Effect, effects_of
from eventflink.master.inputs import ExpireAnswers
from eventflink.master.requests import EXPIRY_BATCH
from eventflink.master.settings import MasterSettings
from eventflink.master.upkeep import MAX_SNAPSHOTS, SnapshotRecord
from eventflink.model.statuses import DrillStepType
from tests.support.cluster import HORIZON_MS, ScriptedCluster, graph, replies, vertex
from tests.support.participants import World
from tests.support.scenarios import confirmation, snapshot

LOG_LENGTH = 3 * MAX_SNAPSHOTS


@pytest.fixture
def prepared(cluster: ScriptedCluster) -> ScriptedCluster:
    for number in range(LOG_LENGTH):  # What a snapshot can be of.
        cluster.cancel("none", request_id=f"before-{number}")
    return cluster


def _code(effects: list[Effect]) -> str:
    """Return the code of the one refusal among effects, or nothing if it is an acceptance."""
    [reply] = replies(effects)
    return reply.payload.code if isinstance(reply.payload, RequestRejected) else ""


class TestSnapshots:
    def _report(self, cluster: ScriptedCluster, number: int, log_offset: int, **more: Any) -> list[Effect]:
        return cluster.send(dataclasses.replace(snapshot(number, log_offset), reply_partition=0, **more))

    def _confirm(self, cluster: ScriptedCluster, report: ReportSnapshot, **more: Any) -> list[Effect]:
        return cluster.send(dataclasses.replace(confirmation(report), reply_partition=0, **more))

    def test_a_snapshot_is_remembered_with_what_was_said_of_it(self, prepared: ScriptedCluster) -> None:
        assert _code(self._report(prepared, 1, 7)) == ""
        assert prepared.master.upkeep.snapshots == {"snapshot-1": SnapshotRecord(7, "digest-7", 3, 1_000, "master-1")}
        assert prepared.master.upkeep.newest_confirmed() is None

    @pytest.mark.parametrize(("number", "log_offset"), [(1, 7), (1, 9), (2, 7), (2, 6), (2, -1)])
    def test_one_that_is_no_news_is_refused(self, prepared: ScriptedCluster, number: int, log_offset: int) -> None:
        self._report(prepared, 1, 7)
        assert _code(self._report(prepared, number, log_offset, request_id="other")) == "SnapshotOutdated"
        assert len(prepared.events(SnapshotTaken)) == 1

    def test_a_snapshot_of_what_is_not_written_yet_is_refused(self, prepared: ScriptedCluster) -> None:
        """It would keep out every real one: each would be older."""
        last = len(prepared.log) - 1
        assert _code(self._report(prepared, 1, last + 1)) == "InvalidRequest"
        assert _code(self._report(prepared, 2, last)) == ""

    def test_a_report_that_comes_twice_is_answered_twice_and_noted_once(self, prepared: ScriptedCluster) -> None:
        """P8."""
        assert [_code(self._report(prepared, 1, 7)) for _ in range(2)] == ["", ""]
        assert len(prepared.events(SnapshotTaken)) == 1
        assert len(prepared.events(RequestRepeated)) == 1

    def test_another_master_with_the_same_digest_confirms_it_once(self, prepared: ScriptedCluster) -> None:
        self._report(prepared, 1, 7)
        assert _code(self._confirm(prepared, snapshot(1, 7))) == ""
        assert _code(self._confirm(prepared, snapshot(1, 7), request_id="third", confirmed_by="master-3")) == ""
        assert prepared.events(SnapshotConfirmed) == [SnapshotConfirmed("snapshot-1", 7, "digest-7", "master-2")]
        assert prepared.master.upkeep.newest_confirmed() == "snapshot-1"

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
    def test_what_confirms_nothing_is_refused(self, prepared: ScriptedCluster, changes: dict[str, Any], code: str) -> None:
        """P18: trimming relies on it."""
        self._report(prepared, 1, 7)
        assert _code(self._confirm(prepared, snapshot(1, 7), **changes)) == code
        assert prepared.events(SnapshotConfirmed) == []

    def test_a_master_with_an_overlong_id_does_not_confirm_itself(self, prepared: ScriptedCluster) -> None:
        self._report(prepared, 1, 7, taken_by="m" * 200)
        assert _code(self._confirm(prepared, snapshot(1, 7), confirmed_by="m" * 200)) == "NotAnotherMaster"

    def test_only_the_newest_are_remembered_and_the_newest_confirmed_one_always(self, prepared: ScriptedCluster) -> None:
        for number in range(1, 4):
            self._report(prepared, number, number)
        self._confirm(prepared, snapshot(2, 2))
        for number in range(4, 3 * MAX_SNAPSHOTS):
            self._report(prepared, number, number)
        known = list(prepared.master.upkeep.snapshots)
        last = 3 * MAX_SNAPSHOTS
        assert known == ["snapshot-2", *[f"snapshot-{n}" for n in range(last - MAX_SNAPSHOTS + 1, last)]]
        assert prepared.master.upkeep.newest_confirmed() == "snapshot-2"


class TestDrills:
    @pytest.fixture
    def drilled(self) -> Iterator[ScriptedCluster]:
        cluster = ScriptedCluster(MasterSettings(drills_allowed=True))
        yield cluster
        cluster.check()

    def _step(self, cluster: ScriptedCluster, **more: Any) -> list[Effect]:
        fields: dict[str, Any] = {"drill_id": "drill", "step": "STOP", "master_id": "master-1", **more}
        return cluster.command(type="DrillStep", **fields)

    def test_by_default_nobody_can_make_a_master_fall(self, prepared: ScriptedCluster) -> None:
        effects = self._step(prepared)
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
        """What a drill asked is not among what a new leader resends; a repeated request is only answered again."""
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

    @pytest.mark.rule("P8")
    def test_an_answer_is_kept_exactly_for_the_horizon_where_nothing_waits(self) -> None:
        cluster = self._cluster(request_horizon_ms=HORIZON_MS)
        cluster.submit(graph(vertex("a")), request_id="r")
        [answered_at_ms] = [a.answered_at_ms for a in cluster.master.requests.answers.values()]
        left_ms = answered_at_ms + HORIZON_MS - cluster.leader.clock.read(cluster.monotonic_ms, cluster.wall_ms)
        cluster.pass_time(left_ms)
        assert "r" in cluster.master.requests.answers
        cluster.pass_time(1)
        assert "r" not in cluster.master.requests.answers
        assert cluster.events(AnswersExpired) == [AnswersExpired(1)]
        cluster.check()

    @pytest.mark.rule("P8")
    def test_a_request_that_waited_for_longer_than_answers_are_kept_finds_the_answer(self) -> None:
        """The cluster was down: what repeats a request was there in time, and must not be done a second time, nor refused."""
        cluster = self._cluster(request_horizon_ms=HORIZON_MS)
        cluster.cancel("none", request_id="r")
        cluster.put(Topic.COMMANDS, b'{"type": "CancelJob", "job_id": "other", "request_id": "r", "reply_partition": 0}')
        cluster.put(Topic.COMMANDS, b'{"type": "CancelJob", "job_id": "other", "request_id": "new", "reply_partition": 0}')
        cluster.wall_ms += 2 * HORIZON_MS
        cluster.fail_over()
        cluster.pass_time(1)
        assert cluster.events(RequestRepeated) == [RequestRepeated(request_id="r", reply_partition=0)]
        cluster.pass_time(1)
        assert list(cluster.master.requests.answers) == ["new"]
        cluster.check()

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
            assert is_due == bool(cluster.master.decide(ExpireAnswers(now_ms), now_ms)) == (now_ms > min(times) + 10_000)

"""Who leads is decided by the log alone (P1, P3), and the world sees only what was accepted (P4)."""

from typing import Any

import pytest

from eventflink.events.decision import Decision, InputCause
from eventflink.events.log_events import InputsSkipped, JobCleanedUp, LeadershipGranted, LogEvent
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.leader import LeadershipEnded, Released
from eventflink.leadership.participant import Followed, Promoted
from eventflink.model.statuses import IllegalTransition, Role
from tests.support.cluster import CODEC, REPORTS, START_MS, ScriptedCluster, deployments, graph, new_fold, replay, replies, vertex


def _decision(epoch: int, sequence: int, leader_id: str, fold: Fold | None = None, event: LogEvent | None = None, **more: Any) -> bytes:
    fields = {
        "epoch": epoch,
        "sequence": sequence,
        "leader_id": leader_id,
        "decided_at_ms": START_MS,
        "previous_hash": fold.running_hash if fold is not None else b"",
        "causes": (),
        "actor": "",
        "events": (event or InputsSkipped(1, "test"),),
        **more,
    }
    return CODEC.encode(Decision(**fields))


REFUSED = b'{"type": "CancelJob", "job_id": "none"}'
"""A command that has a decision of its own."""


def _grant(epoch: int, leader_id: str, sequence: int = 0) -> bytes:
    return _decision(epoch, sequence, leader_id, event=LeadershipGranted("m", "b"))


def _take(fold: Fold, value: bytes) -> Decision | None:
    return fold.fold_record(fold.last_offset + 1, 0, value)


class TestAcceptance:
    """P1: a grant of the next epoch, or the next decision of the granted leader; nothing else."""

    @pytest.fixture
    def fold(self) -> Fold:
        fold = new_fold()
        assert _take(fold, _grant(1, "one")) is not None
        assert _take(fold, _decision(1, 1, "one", fold)) is not None
        return fold

    @pytest.mark.rule("P1")
    @pytest.mark.parametrize(
        ("epoch", "sequence", "leader_id"),
        [(1, 1, "one"), (1, 3, "one"), (1, 0, "one"), (1, 2, "two"), (0, 2, "one"), (2, 2, "one"), (2, 0, "two"), (-1, 2, "one")],
    )
    def test_another_decision_is_rejected_and_without_effect(self, fold: Fold, epoch: int, sequence: int, leader_id: str) -> None:
        before, running_hash = fold.master.digest(), fold.running_hash
        assert _take(fold, _decision(epoch, sequence, leader_id, fold)) is None
        assert (fold.master.digest(), fold.running_hash, fold.rejected_count) == (before, running_hash, 1)
        assert _take(fold, _decision(1, 2, "one", fold)) is not None

    @pytest.mark.rule("P1")
    @pytest.mark.parametrize(("epoch", "sequence"), [(1, 0), (3, 0), (0, 0), (2, 1)])
    def test_a_grant_of_another_epoch_is_rejected(self, fold: Fold, epoch: int, sequence: int) -> None:
        assert _take(fold, _grant(epoch, "two", sequence)) is None
        assert fold.acceptance.leader_id == "one"

    @pytest.mark.rule("P1")
    def test_the_first_grant_of_an_epoch_wins_and_deposes_its_predecessor(self, fold: Fold) -> None:
        assert _take(fold, _grant(2, "two")) is not None
        assert _take(fold, _grant(2, "three")) is None
        assert _take(fold, _decision(1, 2, "one", fold)) is None
        assert _take(fold, _decision(2, 1, "three", fold)) is None
        assert _take(fold, _decision(2, 1, "two", fold)) is not None

    @pytest.mark.rule("P2")
    def test_one_content_per_epoch_and_sequence(self, fold: Fold) -> None:
        """P2: the second record under a number is rejected, whatever it says."""
        assert _take(fold, _decision(1, 2, "one", fold)) is not None
        assert _take(fold, _decision(1, 2, "one", fold, event=InputsSkipped(2, "another"))) is None

    @pytest.mark.rule("P3")
    def test_an_accepted_decision_made_after_other_records_is_divergence(self, fold: Fold) -> None:
        with pytest.raises(LogDiverged, match="log@2 epoch=1 sequence=2"):
            _take(fold, _decision(1, 2, "one", previous_hash=b"elsewhere"))

    def test_a_rejected_decision_with_another_hash_is_only_rejected(self, fold: Fold) -> None:
        assert _take(fold, _decision(1, 5, "one", previous_hash=b"elsewhere")) is None

    def test_rejected_records_do_not_enter_the_hash(self, fold: Fold) -> None:
        expected = _decision(1, 2, "one", fold)
        _take(fold, _grant(7, "nobody"))
        assert _take(fold, expected) is not None


class TestDensity:
    """P3: a redelivery is skipped, a hole means reload."""

    @pytest.mark.rule("P3")
    def test_a_redelivery_is_skipped(self) -> None:
        cluster = ScriptedCluster()
        fold = replay(cluster.log)
        before = fold.master.digest()
        for offset, value in enumerate(cluster.log):
            assert fold.fold_record(offset, 0, value) is None
        assert (fold.master.digest(), fold.accepted_count, fold.rejected_count) == (before, len(cluster.log), 0)

    @pytest.mark.rule("P3")
    def test_a_hole_is_noticed_whoever_reads(self) -> None:
        cluster = ScriptedCluster()
        with pytest.raises(LogNotDense, match="log offset 6 came after 3: 2 records are missing"):
            replay(cluster.log).fold_record(6, 0, cluster.log[-1])
        with pytest.raises(LogNotDense):
            cluster.participant.on_record(len(cluster.log) + 1, 0, cluster.log[-1], 0)

    @pytest.mark.rule("P3b")
    @pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xc3", b"\x01\xc3" + bytes(8)])
    def test_what_no_master_wrote_is_passed_over_by_everybody_alike(self, garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
        """By a standby, and by a leader with a decision on its way; what comes behind it counts."""
        cluster = ScriptedCluster()
        standby = replay(cluster.log)
        before = standby.running_hash
        assert standby.fold_record(4, 0, garbage) is None
        assert (standby.last_offset, standby.foreign_count, standby.rejected_count) == (4, 1, 0)
        assert standby.running_hash == before
        assert "ForeignRecord topic=log offset=4 count=1" in caplog.messages
        cluster.put(Topic.COMMANDS, b'{"type": "CancelJob", "job_id": "nobody"}')
        decided = cluster.decide()
        assert decided is not None
        assert cluster.participant.on_record(4, 0, garbage, 0) is None
        assert isinstance(cluster.participant.on_record(5, 0, decided, 0), Released)
        assert standby.fold_record(5, 0, decided) is not None
        assert standby.master.digest() == cluster.fold.master.digest()

    @pytest.mark.rule("P3b")
    @pytest.mark.parametrize("damaged", [b"\xc3\x01", b"\xc3\x01" + bytes(8)])
    def test_what_a_master_may_have_written_is_never_passed_over(self, damaged: bytes) -> None:
        """Fatal for a standby and for a leader alike, and it says where."""
        cluster = ScriptedCluster()
        with pytest.raises(LogUnusable, match="log@4"):
            replay(cluster.log).fold_record(4, 0, damaged)
        with pytest.raises(LogUnusable, match="log@4"):
            cluster.participant.on_record(4, 0, damaged, 0)

    @pytest.mark.rule("P3b")
    def test_many_foreign_records_write_few_lines(self, caplog: pytest.LogCaptureFixture) -> None:
        fold = replay(ScriptedCluster().log)
        for offset in range(4, 1_004):
            fold.fold_record(offset, 0, b"garbage")
        assert fold.foreign_count == 1_000
        assert sum("ForeignRecord" in message for message in caplog.messages) == 10

    def test_a_decision_that_cannot_be_applied_names_itself(self) -> None:
        cluster = ScriptedCluster()
        fold = replay(cluster.log)
        acceptance = fold.acceptance
        broken = _decision(acceptance.epoch, acceptance.sequence + 1, acceptance.leader_id, fold, JobCleanedUp("none"))
        with pytest.raises(LogUnusable, match=r"log@4 epoch=1 sequence=4 event=JobCleanedUp: .*job 'none' is not dirty"):
            fold.fold_record(4, 0, broken)

    def test_what_is_wrong_with_a_decision_is_said_in_short_whatever_it_holds(self) -> None:
        fold = replay(ScriptedCluster().log)
        acceptance = fold.acceptance
        broken = _decision(acceptance.epoch, acceptance.sequence + 1, acceptance.leader_id, fold, JobCleanedUp("x" * 100_000))
        with pytest.raises(LogUnusable, match="log@4") as caught:
            fold.fold_record(4, 0, broken)
        assert len(str(caught.value)) < 2_000


class TestRole:
    def test_a_master_is_standby_candidate_and_leader_in_turn(self) -> None:
        standby = ScriptedCluster().new_participant(new_fold())
        assert standby.role.value == Role.STANDBY
        grant = standby.campaign(0, START_MS)
        assert standby.role.value == Role.CANDIDATE
        assert isinstance(standby.on_record(0, START_MS, grant, 0), Promoted)
        assert standby.role.value == Role.LEADER
        with pytest.raises(IllegalTransition):
            standby.campaign(0, START_MS)

    def test_the_loser_of_an_election_learns_it_from_its_own_grant(self) -> None:
        standby = ScriptedCluster().new_participant(new_fold())
        grant = standby.campaign(0, START_MS)
        assert isinstance(standby.on_record(0, START_MS, _grant(1, "winner"), 0), Followed)
        assert standby.on_record(1, START_MS, grant, 0) is None
        assert standby.role is Role.STANDBY
        assert standby.fold.acceptance.leader_id == "winner"  # It continues as a standby, with the fold that it has.

    @pytest.mark.rule("L2")
    def test_a_candidate_gives_up_when_its_grant_is_not_read_back_within_a_lease(self) -> None:
        standby = ScriptedCluster(lease_timeout_ms=500).new_participant(new_fold())
        standby.campaign(1_000, START_MS)
        standby.check_lease(1_500)
        with pytest.raises(LeadershipEnded, match="grant"):
            standby.check_lease(1_501)
        assert standby.role is Role.STANDBY

    def test_a_foreign_grant_deposes_the_leader_whose_decisions_are_void(self) -> None:
        cluster = ScriptedCluster()
        cluster.register()
        cluster.put(Topic.COMMANDS, REFUSED)
        mine = cluster.leader.decide_next(START_MS, 0)
        assert mine is not None
        with pytest.raises(LeadershipEnded, match="the epoch 2 of rival began; 1 decisions are void"):
            cluster.participant.on_record(len(cluster.log), START_MS, _grant(2, "rival"), 0)
        assert (cluster.participant.role, cluster.participant.leader) == (Role.DEPOSED, None)
        fold = replay([*cluster.log, _grant(2, "rival"), mine])
        assert (fold.acceptance.leader_id, fold.rejected_count) == ("rival", 1)

    def test_a_rejected_foreign_record_is_passed_over(self) -> None:
        cluster = ScriptedCluster()
        for value in (_grant(1, "late"), _grant(9, "early"), _decision(1, 77, "leader-1")):
            offset = cluster.append(value)
            assert cluster.participant.on_record(offset, START_MS, value, 0) is None
        cluster.register()
        assert cluster.fold.rejected_count == 3
        cluster.check()

    @pytest.mark.rule("P2")
    def test_a_record_under_its_own_number_that_it_did_not_write_ends_the_leadership(self) -> None:
        """P2: somebody else's content was accepted for everyone; this state is not the log's."""
        cluster = ScriptedCluster()
        acceptance = cluster.fold.acceptance
        foreign = _decision(acceptance.epoch, acceptance.sequence + 1, acceptance.leader_id, cluster.fold)
        with pytest.raises(LeadershipEnded):
            cluster.participant.on_record(len(cluster.log), START_MS, foreign, 0)

    def test_a_leader_that_resigns_is_a_standby(self) -> None:
        cluster = ScriptedCluster()
        cluster.participant.resign()
        assert (cluster.participant.role, cluster.participant.leader) == (Role.STANDBY, None)

    def test_stepping_down_is_possible_from_every_role(self) -> None:
        cluster = ScriptedCluster()
        cluster.participant.step_down("the test says so")
        cluster.participant.step_down("the test says so")
        assert cluster.participant.role is Role.DEPOSED
        standby = cluster.new_participant(new_fold())
        standby.step_down("the test says so")
        assert standby.role.value == Role.STANDBY
        standby.campaign(0, START_MS)
        standby.step_down("the test says so")
        assert standby.role.value == Role.STANDBY


class TestRelease:
    """P4 and P2: effects wait for their decision to come back; decisions wait at most a lease."""

    @pytest.mark.rule("P4")
    def test_nothing_is_released_before_it_was_read_back(self, cluster: ScriptedCluster) -> None:
        cluster.register()
        cluster.put(Topic.SUBMISSIONS, b'{"name": "x", "vertices": [{"id": "a", "sql": "select 1"}]}')
        assert cluster.decide() is not None
        assert cluster.take_effects() == []
        cluster.read_back(len(cluster.log) - 1)
        [effect] = cluster.take_effects()
        assert deployments([effect])

    def test_decisions_are_pipelined_and_released_in_order(self, cluster: ScriptedCluster) -> None:
        cluster.register(slots=8)
        first = len(cluster.log)
        for number in range(3):
            cluster.put(Topic.SUBMISSIONS, b'{"reply_partition": 0, "job_graph": {"name": "x", "vertices": [{"id": "a", "sql": "s"}]}}')
            assert cluster.decide() is not None, number
        assert len(cluster.leader.unconfirmed) == 3
        for number in range(3):
            cluster.read_back(first + number)
            assert [r.request_id for r in replies(cluster.take_effects())] == [f"submissions-0-{number}"]

    @pytest.mark.rule("P4")
    def test_the_stamp_of_an_effect_is_where_its_decision_stands(self, cluster: ScriptedCluster) -> None:
        cluster.submit(graph(vertex("a")))
        released = cluster.released[-1]
        decision = CODEC.decode(cluster.log[released.offset])
        assert (released.epoch, released.sequence, released.leader_id) == (decision.epoch, decision.sequence, decision.leader_id)
        assert decision.causes == (InputCause(Topic.SUBMISSIONS, 0, 0, 0),)

    def test_a_redelivered_own_decision_is_released_once(self, cluster: ScriptedCluster) -> None:
        cluster.register()
        assert cluster.participant.on_record(len(cluster.log) - 1, 0, cluster.log[-1], 0) is None

    @pytest.mark.rule("L3")
    def test_no_more_decisions_than_the_window_are_unconfirmed(self) -> None:
        cluster = ScriptedCluster(window_size=3)
        for _ in range(5):
            cluster.put(Topic.COMMANDS, REFUSED)
        assert [cluster.decide() is not None for _ in range(5)] == [True, True, True, False, False]
        cluster.read_back(len(cluster.log) - 3)
        assert [cluster.decide() is not None for _ in range(2)] == [True, False]

    @pytest.mark.rule("L3")
    def test_nothing_is_decided_while_reading_back_lags(self) -> None:
        cluster = ScriptedCluster(lease_timeout_ms=1_000)
        cluster.put(Topic.COMMANDS, REFUSED)
        cluster.put(Topic.COMMANDS, REFUSED)
        assert cluster.decide() is not None
        cluster.monotonic_ms += 251
        assert cluster.decide() is None
        cluster.read_back(len(cluster.log) - 1)
        assert cluster.decide() is not None

    @pytest.mark.rule("P2", "L1")
    def test_a_decision_not_read_back_within_a_lease_ends_the_leadership(self) -> None:
        cluster = ScriptedCluster(lease_timeout_ms=1_000)
        cluster.put(Topic.COMMANDS, REFUSED)
        cluster.decide()
        cluster.participant.check_lease(1_000)
        with pytest.raises(LeadershipEnded, match="not read back within 1001 ms"):
            cluster.participant.check_lease(1_001)
        assert (cluster.participant.role, cluster.participant.leader) == (Role.DEPOSED, None)

    @pytest.mark.rule("L1")
    def test_a_leader_stops_sending_heartbeats_when_half_a_lease_is_gone(self) -> None:
        """L1: its heartbeats say that it decides, not that its process is alive."""
        cluster = ScriptedCluster(lease_timeout_ms=1_000)
        assert cluster.leader.may_send_heartbeat(10**9)
        cluster.put(Topic.COMMANDS, REFUSED)
        cluster.decide()
        assert cluster.leader.may_send_heartbeat(499)
        assert not cluster.leader.may_send_heartbeat(500)

    @pytest.mark.rule("L3")
    def test_sources_take_turns(self, cluster: ScriptedCluster) -> None:
        """L3: a flood on one topic starves neither the others nor the consequences."""
        cluster.register()
        for _ in range(50):
            cluster.put(Topic.SUBMISSIONS, b"garbage")
        cluster.put(Topic.TASKMANAGERS, REPORTS.encode([]))
        cluster.put(Topic.COMMANDS, REFUSED)
        first = len(cluster.log)
        cluster.settle()
        topics = [c.topic for v in cluster.log[first : first + 6] for c in CODEC.decode(v).causes]  # type: ignore[union-attr] # inputs
        assert {"submissions", "commands", "taskmanagers"} <= set(topics)

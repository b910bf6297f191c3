"""The life of a master over its terms: which end keeps the tail and which does not, back-off, and the three ways to exit.

The life is moved by hand over lists; everything in it is real.
"""

import gc
import itertools
import json

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath, LeaderHeartbeat, Resignation
from eventflink.events.log_events import RequestRejected
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership import intake
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.election import LogElection, Peers
from eventflink.leadership.fold import Fold, LogBehind, LogDiverged, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import HEARD_BACK_RECORDS, InboundTopic, Intake, TailFailed, TopicReplaced
from eventflink.leadership.leader import ApplyFailed, Deposed, Leader, LeadershipEnded
from eventflink.leadership.master_life import (
    FIRST_BACKOFF_MS,
    MAX_BACKOFF_MS,
    MAX_TICK_MS,
    MIN_DEAF_MS,
    MIN_TICK_MS,
    Deregister,
    Exit,
    Follow,
    MasterLife,
    Rebuild,
    Step,
    TurnFailed,
)
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import AppendFailed, ParticipantSettings
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.master.master import Master
from eventflink.model.statuses import ApplicationStatus, Role
from tests.support.cluster import CODEC, START_MS, graph, replay, vertex
from tests.support.hand import ListWires

LEADERSHIP = PayloadCodec("LeadershipEnvelope")
LEASE_MS = 1_000
TICK_MS = 20
SHUT_DOWN = b'{"type": "ShutDownCluster", "application_status": "FAILED", "request_id": "r", "reply_partition": 0}'


class LoopWires(ListWires):
    """What is said on `leadership` comes back to the master itself; the log comes back when `World.read_back` says so."""

    def __init__(self) -> None:
        super().__init__()
        self.leadership: list[bytes] = []
        self.failure: Exception | None = None

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:  # noqa: ARG002 - the port's signature
        if topic is Topic.LEADERSHIP:
            self.leadership.append(value)

    def poll(self) -> None:
        if self.failure is not None:
            raise self.failure


class Driver:
    """Carries out what a life asks for, when the test says so."""

    def __init__(self, log: list[bytes] | None = None) -> None:
        self.log = list(log or [])
        self.now_ms = 50_000
        self.wires = LoopWires()
        self.hears = True
        self.heartbeats_ms: list[int] = []
        settings = ParticipantSettings(master_id="m", incarnation="m-1", blob_address="m:1", lease_timeout_ms=LEASE_MS)
        self.minted = 0
        peers = Peers(LEASE_MS)
        self.life = MasterLife(settings, LogElection("m", "m-1", peers), peers, InboundDecoder(), self._mint)
        self.intake = self._new_intake()

    def _mint(self) -> str:
        self.minted += 1
        return f"leader-{self.minted}"

    def _new_intake(self) -> Intake:
        topics = {str(topic): InboundTopic(f"id-of-{topic}", 0) for topic in INBOUND}
        return Intake(topics, 1_000, lambda _topic: None, lambda _topic: None)

    def fold(self) -> Fold:
        return replay(self.log)

    def begin(self) -> Participant:
        """Rebuild and begin a term over the present tail."""
        step = self.life.rebuilt(self.fold())
        assert isinstance(step, Follow)
        self.wires = LoopWires()
        self.life.follow(step.fold, self.wires, self.intake, self.now_ms)
        assert self.life.participant is not None
        return self.life.participant

    def read_back(self) -> None:
        for value in self.wires.appended:
            self.intake.on_record(Topic.LOG, len(self.log), START_MS, None, value, self.now_ms)
            self.log.append(value)
        self.wires.appended.clear()

    def turn(self) -> Step | None:
        return self.life.turn(lambda: self.now_ms, START_MS + self.now_ms)

    def run(self, milliseconds: int) -> Step | None:
        """Let time pass; return the first step that is asked for."""
        for _ in range(milliseconds // TICK_MS):
            self.now_ms += TICK_MS
            for value in self.wires.leadership if self.hears else ():
                self.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, value, self.now_ms)
            self.wires.leadership.clear()
            if (step := self.life.tick(self.now_ms, START_MS + self.now_ms)) is not None:
                return step
            self.read_back()
            if (step := self.turn()) is not None:
                return step
        return None

    def run_when_due(self, milliseconds: int, step_ms: int | None = None) -> int:
        """Let time pass, with ticks only when one is due, or every `step_ms`; return how many there were."""
        end_ms, ticks = self.now_ms + milliseconds, 0
        while True:
            due_ms = self.life.next_due_ms(self.now_ms) if step_ms is None else self.now_ms + step_ms
            assert due_ms <= self.now_ms + MAX_TICK_MS
            self.now_ms = min(max(due_ms, self.now_ms), end_ms)
            if due_ms > end_ms:
                return ticks
            assert self.life.tick(self.now_ms, START_MS + self.now_ms) is None
            ticks += 1
            self.read_back()
            for value in self.wires.leadership:
                self.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, value, self.now_ms)
                self.heartbeats_ms += [self.now_ms] * isinstance(LEADERSHIP.decode(value)[0], LeaderHeartbeat)
            self.wires.leadership.clear()
            assert self.turn() is None

    def lead(self) -> Participant:
        participant = self.begin()
        assert self.run(3 * LEASE_MS) is None
        assert participant.leader is not None
        return participant


class TestTheBeginningOfATerm:
    """What was said before it."""

    @pytest.mark.rule("L2a")
    @pytest.mark.parametrize("kind", [LeaderDeath, Resignation])
    def test_a_master_that_reads_how_the_last_leadership_ended_waits_for_no_lease(self, kind: type[LeaderDeath | Resignation]) -> None:
        before = Driver()
        acceptance = before.lead().fold.acceptance
        end = LEADERSHIP.encode(kind(acceptance.epoch, acceptance.leader_id))
        driver = Driver(before.log)
        driver.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, end, driver.now_ms)
        participant = driver.begin()
        assert driver.run(5 * TICK_MS) is None
        assert participant.leader is not None

    @pytest.mark.rule("L2")
    def test_a_master_that_finds_no_grant_in_the_log_waits_for_no_lease_and_one_that_finds_one_does(self) -> None:
        first = Driver()
        participant = first.begin()
        assert first.run(5 * TICK_MS) is None
        assert participant.leader is not None
        second = Driver(first.log)
        participant = second.begin()
        assert second.run(LEASE_MS - TICK_MS) is None
        assert participant.leader is None

    @pytest.mark.rule("L2a")
    def test_the_end_of_a_leadership_before_the_last_one_is_no_end(self) -> None:
        log: list[bytes] = []
        ended = b""
        for _ in range(2):
            before = Driver(log)
            acceptance = before.lead().fold.acceptance
            ended = ended or LEADERSHIP.encode(Resignation(acceptance.epoch, acceptance.leader_id))
            log = before.log
        driver = Driver(log)
        driver.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, ended, driver.now_ms)
        driver.begin()
        assert driver.run(LEASE_MS - TICK_MS) is None
        assert len(driver.log) == len(log)

    def test_of_what_is_said_between_two_terms_the_last_is_kept(self) -> None:
        driver = Driver()
        for offset in range(2 * HEARD_BACK_RECORDS):
            driver.intake.on_record(Topic.LEADERSHIP, offset, START_MS, None, b"", driver.now_ms)
        assert [offset for offset, _ in driver.intake.said] == list(range(HEARD_BACK_RECORDS, 2 * HEARD_BACK_RECORDS))
        driver.begin()
        assert not driver.intake.said


class TestTheEndOfATerm:
    """What comes next."""

    def test_a_deposed_master_rebuilds_at_once_and_keeps_its_tail(self) -> None:
        driver = Driver()
        driver.lead()
        rival = Driver(driver.log)
        rival.lead()
        for offset in range(len(driver.log), len(rival.log)):
            driver.intake.on_record(Topic.LOG, offset, START_MS, None, rival.log[offset], driver.now_ms)
        step = driver.run(TICK_MS)
        assert isinstance(step, Rebuild)
        assert (step.after_ms, step.closes_tail, type(step.cause)) == (0, False, Deposed)
        assert driver.life.participant is None
        assert driver.intake.listener is None

    @pytest.mark.parametrize(
        "error", [LeadershipEnded("x"), AppendFailed("x"), LogNotDense("x"), LogBehind("x"), TailFailed("x"), OSError("x")]
    )
    def test_after_any_other_end_the_tail_is_closed_and_the_back_off_doubles_up_to_its_bound(self, error: Exception) -> None:
        driver = Driver()
        driver.life.start(driver.now_ms)
        waits: list[int] = []
        for _ in range(9):
            step = driver.life.failed(error, driver.now_ms)
            assert isinstance(step, Rebuild)
            assert step.closes_tail
            waits.append(step.after_ms)
            driver.now_ms += step.after_ms
        assert waits == [min(FIRST_BACKOFF_MS * 2**n, MAX_BACKOFF_MS) for n in range(9)]
        driver.now_ms += MAX_BACKOFF_MS + 1
        step = driver.life.failed(error, driver.now_ms)
        assert isinstance(step, Rebuild)
        assert step.after_ms == FIRST_BACKOFF_MS  # What lasted for long is no failure to begin.

    @pytest.mark.parametrize("error", [LogUnusable("log@3: garbage"), LogDiverged("log@3: other records"), TopicReplaced("gone")])
    def test_a_log_that_no_term_can_follow_ends_the_process_and_says_why(self, error: Exception) -> None:
        driver = Driver()
        driver.begin()
        step = driver.life.failed(error, driver.now_ms)
        assert step == Exit(None, error, is_failure=True)
        assert driver.life.participant is None

    def test_an_append_that_failed_ends_the_term(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.wires.failure = AppendFailed("not delivered")
        step = driver.run(TICK_MS)
        assert isinstance(step, Rebuild)
        assert isinstance(step.cause, AppendFailed)
        assert (participant.leader, participant.reads.closed) == (None, "not delivered")

    def test_a_defect_ends_the_leadership_and_names_where_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driver = Driver()
        driver.lead()

        def break_down(_self: Leader, _now_ms: int, _monotonic_ms: int) -> bytes | None:
            raise ZeroDivisionError("by nothing")

        monkeypatch.setattr(Leader, "decide_next", break_down)
        step = driver.turn()
        assert isinstance(step, Rebuild)
        assert isinstance(step.cause, TurnFailed)
        assert "ZeroDivisionError" in str(step.cause)
        assert "break_down, line" in str(step.cause)
        assert step.closes_tail

    def test_what_ended_a_term_keeps_no_state_in_memory(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.wires.failure = AppendFailed("not delivered")
        fold_id = id(participant.fold)
        del participant
        step = driver.run(TICK_MS)
        gc.collect()
        assert step is not None
        assert not [found for found in gc.get_objects() if isinstance(found, Fold) and id(found) == fold_id]

    def test_a_leadership_ends_when_the_refusal_of_what_it_could_not_apply_was_read_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driver = Driver()
        driver.lead()
        document = json.dumps(graph(vertex("a"))).encode()
        driver.intake.on_record(Topic.SUBMISSIONS, 0, START_MS, None, document, driver.now_ms)

        def break_down(_self: Master, _event: object, _at_ms: int) -> None:
            raise ValueError("it cannot be applied")

        with monkeypatch.context() as patch:
            patch.setattr(Master, "apply", break_down)
            assert driver.turn() is None
            assert driver.turn() is None, "the refusal is not read back yet"
        reads: list[Answered | ReadRefused] = []
        assert driver.life.participant is not None
        driver.life.participant.reads.ask(Read(0, lambda fold: fold.last_offset, reads.append))
        assert not reads, "the state is half changed"
        driver.read_back()
        step = driver.turn()
        assert isinstance(step, Rebuild)
        assert isinstance(step.cause, ApplyFailed)
        assert (step.after_ms, step.closes_tail) == (0, False)
        assert [type(read) for read in reads] == [ReadRefused]
        assert isinstance(LEADERSHIP.decode(driver.wires.leadership[-1])[0], Resignation), "the others need not wait for a lease"
        driver.lead()
        assert driver.fold().master.requests.cursors[Topic.SUBMISSIONS].next_offset == 1
        [refused] = [e for value in driver.log for e in CODEC.decode(value).events if isinstance(e, RequestRejected)]
        assert "it cannot be applied" in refused.message

    @pytest.mark.rule("L3")
    @pytest.mark.parametrize("bound", ["MAX_QUEUED_RECORDS", "MAX_QUEUED_BYTES"])
    def test_a_tail_that_left_records_of_the_log_out_while_the_state_was_rebuilt_is_closed(
        self, bound: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise a standby that missed only the last records would follow on, and not know."""
        log = [*_ended_log()[:3], b""]  # Whatever is shorter has to stay out as well: it would stand behind a hole.
        monkeypatch.setattr(intake, bound, 2 if bound == "MAX_QUEUED_RECORDS" else len(log[0]) + 1)
        driver = Driver()
        for offset, value in enumerate(log):
            driver.intake.on_record(Topic.LOG, offset, START_MS, None, value, driver.now_ms)
        assert len(driver.intake.log) == 2
        driver.begin()
        step = driver.run(TICK_MS)
        assert isinstance(step, Rebuild)
        assert isinstance(step.cause, TailFailed)
        assert step.closes_tail

    def test_what_waits_of_the_log_weighs_nothing_when_it_is_taken_and_what_no_master_wrote_never_does(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record, garbage = _ended_log()[0], bytes(1024)
        monkeypatch.setattr(intake, "MAX_QUEUED_BYTES", 2 * len(record))
        queue = Driver().intake
        for offset in range(0, 100, 2):
            assert queue.on_record(Topic.LOG, offset, START_MS, None, garbage, 0)
            assert queue.on_record(Topic.LOG, offset + 1, START_MS, None, record, 0)
            assert [queue.take_log_record() for _ in range(2)] == [(offset, START_MS, b""), (offset + 1, START_MS, record)]
        for offset in range(100, 1_100):
            assert queue.on_record(Topic.LOG, offset, START_MS, None, garbage, 0)
        assert [offset for offset, _, _ in queue.log] == list(range(100, 1_100))
        queue.check()

    @pytest.mark.rule("L1")
    def test_a_master_that_no_longer_hears_itself_opens_a_new_tail(self) -> None:
        driver = Driver()
        driver.begin()
        driver.hears = False
        step = driver.run(MIN_DEAF_MS - 100)
        assert step is None
        step = driver.run(200)
        assert isinstance(step, Rebuild)
        assert isinstance(step.cause, TailFailed)
        assert step.closes_tail


class TestTheExit:
    """Told to stop, or because the cluster has ended."""

    def test_between_two_terms_it_exits_at_once(self) -> None:
        driver = Driver()
        driver.life.start(driver.now_ms)
        assert driver.life.stop(driver.now_ms) == Exit()

    def test_a_leader_has_its_decisions_read_back_and_then_resigns(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, b"{}", driver.now_ms)
        assert driver.turn() is None
        assert not participant.is_drained
        assert driver.life.stop(driver.now_ms) is None
        assert driver.life.is_leaving
        driver.wires.leadership.clear()
        driver.read_back()
        assert driver.turn() == Exit()
        assert participant.role is Role.STANDBY
        assert len(driver.wires.leadership) == 1  # The resignation.
        assert driver.life.has_resigned

    def test_it_waits_for_at_most_a_lease(self) -> None:
        driver = Driver()
        driver.lead()
        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, b"{}", driver.now_ms)
        assert driver.turn() is None
        driver.life.stop(driver.now_ms)
        began_ms = driver.now_ms
        while (step := driver.life.tick(driver.now_ms, START_MS)) is None:
            driver.now_ms += TICK_MS
        assert isinstance(step, Exit)
        assert driver.now_ms - began_ms <= LEASE_MS + TICK_MS

    def test_an_error_while_it_leaves_ends_it(self) -> None:
        driver = Driver()
        driver.lead()
        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, b"{}", driver.now_ms)
        assert driver.turn() is None
        assert driver.life.stop(driver.now_ms) is None
        driver.wires.failure = AppendFailed("not delivered")
        step = driver.turn()
        assert isinstance(step, Exit)
        assert isinstance(step.cause, AppendFailed)
        assert not step.is_failure

    def test_a_leader_deregisters_its_cluster_before_it_leaves_and_a_standby_just_leaves(self) -> None:
        driver = Driver()
        participant = driver.lead()
        standby = Driver()
        standby.begin()
        for offset, value in enumerate(_ended_log()):
            standby.intake.on_record(Topic.LOG, offset, START_MS, None, value, standby.now_ms)
        assert standby.turn() == Exit(ApplicationStatus.FAILED)

        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, driver.now_ms)
        step = driver.run(10 * LEASE_MS)
        assert isinstance(step, Deregister)
        assert step.status is ApplicationStatus.FAILED
        assert participant.leader is not None  # It leads until the driver was told.
        assert driver.run(10 * TICK_MS) is None
        assert driver.life.stop(driver.now_ms) is None  # The deregistration is not cut short.
        assert driver.run(10 * TICK_MS) is None
        assert driver.life.leave(driver.now_ms) == Exit(ApplicationStatus.FAILED)

    def test_an_end_before_the_process_began_is_not_its_own(self) -> None:
        ended = Driver(_ended_log())
        assert isinstance(ended.life.rebuilt(ended.fold()), Follow)

    def test_an_end_between_two_terms_is(self) -> None:
        driver = Driver()
        driver.begin()
        assert isinstance(driver.life.failed(OSError("gone"), driver.now_ms), Rebuild)
        driver.log = _ended_log()
        assert driver.life.rebuilt(driver.fold()) == Exit(ApplicationStatus.FAILED)

    @pytest.mark.parametrize("between_terms", [False, True])
    def test_who_reads_late_that_the_cluster_ended_and_started_again_is_a_standby_of_it(self, *, between_terms: bool) -> None:
        successor = Driver(_ended_log())
        successor.lead()
        late = Driver()
        late.begin()
        if between_terms:
            assert isinstance(late.life.failed(OSError("gone"), late.now_ms), Rebuild)
            late.log = list(successor.log)
            late.begin()
        else:
            for offset, value in enumerate(successor.log):
                late.intake.on_record(Topic.LOG, offset, START_MS, None, value, late.now_ms)
            late.log = list(successor.log)
        assert late.run(3 * LEASE_MS) is None
        assert late.life.participant is not None
        assert late.life.participant.leader is not None


def _ended_log() -> list[bytes]:
    """Return the log of a cluster that a leader led to its end."""
    driver = Driver()
    driver.lead()
    driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, driver.now_ms)
    assert isinstance(driver.run(10 * LEASE_MS), Deregister)
    return driver.log


class TestTicks:
    """When a life wants to be called although nothing was read."""

    def test_a_leader_that_has_nothing_to_do_ticks_as_often_as_it_sends_heartbeats(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.run_when_due(LEASE_MS)
        ticks = driver.run_when_due(10 * LEASE_MS)
        assert ticks <= 10 * LEASE_MS // participant.settings.leader_heartbeat_interval_ms + 1

    def test_heartbeats_are_sent_when_they_are_due(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.run_when_due(LEASE_MS)
        driver.heartbeats_ms.clear()
        driver.run_when_due(2 * LEASE_MS)
        interval_ms = participant.settings.leader_heartbeat_interval_ms
        assert {later - earlier for earlier, later in itertools.pairwise(driver.heartbeats_ms)} == {interval_ms}

    @pytest.mark.parametrize("wait_ms", [0, 3, 640])
    def test_a_standby_that_sleeps_until_something_is_due_campaigns_when_a_sleepless_one_does(self, wait_ms: int) -> None:
        campaigned_ms = []
        for step_ms in (None, 1):
            driver = Driver()
            participant = driver.begin()
            driver.run_when_due(wait_ms, 1)
            participant.election.heard(LeaderHeartbeat(1, "leader-1", "l", "l:1", 0), driver.now_ms)
            while participant.role is Role.STANDBY:
                driver.run_when_due(MAX_TICK_MS, step_ms)
            campaigned_ms.append(participant._campaigned_ms)
        assert campaigned_ms[0] - campaigned_ms[1] <= 2 * MIN_TICK_MS  # One tick has it probe, the next one campaign.

    @pytest.mark.parametrize("end", [Resignation(1, "leader-1"), LeaderDeath(1, "leader-1")])
    def test_the_end_of_a_leadership_is_answered_as_soon_as_it_is_read(self, end: Resignation | LeaderDeath) -> None:
        leader = Driver()
        leader.lead()
        driver = Driver(leader.log)
        driver.begin()
        driver.run_when_due(LEASE_MS // 2)
        assert driver.life.next_due_ms(driver.now_ms) - driver.now_ms > MIN_TICK_MS
        value = LEADERSHIP.encode(end)
        assert driver.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, value, driver.now_ms), "no turn would be scheduled"
        assert driver.life.next_due_ms(driver.now_ms) - driver.now_ms <= MIN_TICK_MS

    def test_a_decision_that_is_read_back_in_time_brings_no_ticks(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.run_when_due(LEASE_MS)
        due_ms = driver.life.next_due_ms(driver.now_ms)
        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, driver.now_ms)
        driver.turn()
        assert participant.leader is not None
        assert participant.leader.unconfirmed
        assert driver.life.next_due_ms(driver.now_ms) == due_ms

    def test_a_leadership_ends_when_its_oldest_decision_is_a_lease_old(self) -> None:
        driver = Driver()
        participant = driver.lead()
        driver.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, driver.now_ms)
        driver.turn()
        decided_ms, step = driver.now_ms, None
        while step is None:
            driver.now_ms = driver.life.next_due_ms(driver.now_ms)
            step = driver.life.tick(driver.now_ms, START_MS + driver.now_ms)
        assert isinstance(step, Rebuild)
        assert "was not read back" in str(step.cause)
        assert participant.leader is None
        assert driver.now_ms - decided_ms <= LEASE_MS + MIN_TICK_MS

    def test_an_input_gives_a_turn_to_a_leader_alone(self) -> None:
        standby, leader = Driver(), Driver()
        standby.begin()
        assert not standby.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, standby.now_ms)
        leader.lead()
        assert leader.intake.on_record(Topic.COMMANDS, 0, START_MS, None, SHUT_DOWN, leader.now_ms)

    def test_what_masters_say_to_each_other_gives_a_turn_to_those_that_may_campaign(self) -> None:
        standby, leader = Driver(), Driver()
        standby.begin()
        leader.lead()
        word = LEADERSHIP.encode(Resignation(1, "leader-1"))
        assert standby.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, word, standby.now_ms)
        assert not leader.intake.on_record(Topic.LEADERSHIP, 0, START_MS, None, word, leader.now_ms)

    def test_ticks_never_follow_each_other_without_a_pause(self) -> None:
        driver = Driver()
        participant = driver.begin()
        participant.election.heard(Resignation(1, "leader-1"), driver.now_ms)
        for _ in range(3):
            assert driver.life.tick(driver.now_ms, START_MS) is None
            assert driver.life.next_due_ms(driver.now_ms) == driver.now_ms + MIN_TICK_MS
            driver.now_ms += MIN_TICK_MS

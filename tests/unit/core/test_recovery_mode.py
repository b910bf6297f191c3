"""P10: after a leader that crashed, what waited then is announced, and that read back, before it is decided."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from eventflink.events.decision import InputCause
from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.events.inputs import Disconnection
from eventflink.events.log_events import (
    FollowUpDecided,
    InputParked,
    InputsAttempted,
    InternalInputsAttempted,
    JobCleanupFailed,
    JobSubmitted,
    LogEvent,
    RequestRejected,
)
from eventflink.events.topics import Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.leader import Leader
from eventflink.leadership.master_life import MasterLife
from eventflink.leadership.recovery import ANNOUNCED_INPUTS
from eventflink.master.inputs import BindInputs, CleanupFailed, InternalInput, MasterInput
from eventflink.master.master import Master
from eventflink.master.parking import name_of
from eventflink.master.suspects import MAX_CRASHES
from eventflink.model.statuses import JobStatus, Role
from tests.support.cluster import CODEC, REPORTS, START_MS, ScriptedCluster, dead_letters, graph, replies, vertex
from tests.support.participants import LEADERSHIP, LEASE_MS, World


def _causes(value: bytes) -> list[tuple[str, int]]:
    return [(c.topic, c.first_offset) for c in CODEC.decode(value).causes if isinstance(c, InputCause)]


def _attempts(value: bytes) -> list[tuple[str, int]]:
    events = [e for e in CODEC.decode(value).events if isinstance(e, InputsAttempted)]
    return [(e.topic, offset) for e in events for offset in range(e.first_offset, e.last_offset + 1)]


def _wait(cluster: ScriptedCluster, count: int, topic: Topic = Topic.COMMANDS) -> None:
    """Have inputs come that nobody decides yet."""
    for number in range(count):
        cluster.put(
            topic, b'{"type": "CancelJob", "job_id": "none", "request_id": "%s%d", "reply_partition": 0}' % (topic.encode(), number)
        )


def _first_falls(world: World, node_id: str = "a") -> None:
    """Have a leader vanish."""
    world.start(node_id, election=SingleMaster())
    world.run(50)
    world.kill(world.leader())


class TestAnnouncements:
    @pytest.mark.rule("P10")
    def test_after_a_crash_what_waited_is_announced_and_that_read_back_before_it_is_decided(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 5)
        cluster.fail_over()
        announcement = cluster.decide()
        assert announcement is not None
        assert (_causes(announcement), _attempts(announcement)) == ([], [("commands", n) for n in range(5)])
        assert cluster.decide() is None, "the announcement is not read back"
        cluster.read_back(len(cluster.log) - 1)
        assert [cluster.decide() is not None for _ in range(5)] == [True] * 5, "what is announced is decided without waiting"
        cluster.check()

    def test_so_many_are_announced_at_once_and_the_next_ones_in_the_decision_of_the_last(self) -> None:
        """The recovery mode costs one event and one round trip for each portion, and not one for each input."""
        cluster = ScriptedCluster()
        _wait(cluster, 2 * ANNOUNCED_INPUTS + 5)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        assert len(cluster.log) - first == 1 + 2 * ANNOUNCED_INPUTS + 5
        sizes = [len(_attempts(v)) for v in cluster.log[first:] if _attempts(v)]
        assert sizes == [ANNOUNCED_INPUTS, ANNOUNCED_INPUTS, 5]
        cluster.check()

    def test_every_input_that_waited_is_announced_before_it_is_decided(self) -> None:
        cluster = ScriptedCluster()
        for topic in (Topic.COMMANDS, Topic.SUBMISSIONS, Topic.COMMANDS):
            _wait(cluster, 4, topic)
        cluster.put(Topic.TASKMANAGERS, REPORTS.encode([Disconnection("tm", "tm-1", "gone")]))
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        announced: set[tuple[str, int]] = set()
        decided = 0
        for value in cluster.log[first:]:
            for cause in _causes(value):
                assert cause in announced
                decided += 1
            announced.update(_attempts(value))
        assert decided == 13
        assert cluster.master.requests.attempts == {}
        cluster.check()

    @pytest.mark.rule("P10")
    def test_where_a_leader_crashed_after_announcing_several_the_next_announces_each_alone(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 6)
        cluster.fail_over()
        cluster.decide()
        cluster.read_back(len(cluster.log) - 1)
        for _ in range(2):  # Two of six are answered when the leader crashes.
            cluster.decide()
        cluster.read_back(len(cluster.log) - 2)
        cluster.read_back(len(cluster.log) - 1)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        assert [_attempts(v) for v in cluster.log[first:] if _attempts(v)] == [[("commands", n)] for n in range(2, 6)]
        assert [c for v in cluster.log[first:] for c in _causes(v)] == [("commands", n) for n in range(2, 6)]
        cluster.check()

    def test_the_recovery_mode_ends_with_the_last_input_that_waited(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 3)
        cluster.fail_over()
        first = len(cluster.log)
        _wait(cluster, 4, Topic.SUBMISSIONS)  # These come after the promotion: no leader can have crashed at them.
        cluster.settle()
        assert cluster.leader.recovery.remaining == 0
        assert {topic for v in cluster.log[first:] for topic, _ in _attempts(v)} == {"commands"}
        _wait(cluster, 3)
        assert [cluster.decide() is not None for _ in range(3)] == [True] * 3, "decisions are pipelined again"

    def test_where_nothing_waited_there_is_no_recovery_mode(self) -> None:
        cluster = ScriptedCluster()
        cluster.fail_over()
        cluster.settle()
        assert cluster.leader.recovery.remaining == 0
        _wait(cluster, 3)
        first = len(cluster.log)
        assert [cluster.decide() is not None for _ in range(3)] == [True] * 3
        assert not any(_attempts(v) for v in cluster.log[first:])

    def test_the_recovery_mode_ends_with_the_first_window_at_the_latest(self) -> None:
        cluster = ScriptedCluster(window_size=4)
        _wait(cluster, 20)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        assert [len(_attempts(v)) for v in cluster.log[first:] if _attempts(v)] == [20], "all of them fit into one announcement"
        assert sum(len(_causes(v)) for v in cluster.log[first:]) == 20
        assert cluster.leader.recovery.remaining == 0

    def test_after_a_resignation_there_is_no_recovery_mode(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 3)
        leader_id = cluster.fold.acceptance.leader_id
        cluster.participant = cluster.new_participant(cluster.fold)
        cluster.participant._resigned = leader_id
        cluster.lead()
        assert [cluster.decide() is not None for _ in range(3)] == [True] * 3
        assert not any(_attempts(v) for v in cluster.log)

    def test_the_resignation_of_an_earlier_leader_does_not_speak_for_the_one_that_crashed(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 3)
        cluster.participant = cluster.new_participant(cluster.fold)
        cluster.participant._resigned = "an earlier candidacy"
        cluster.lead()
        assert cluster.leader.recovery.remaining


class TestFairness:
    def test_all_topics_have_their_turn(self) -> None:
        """A long backlog of one topic would make the others look stuck to the standbys (L1)."""
        cluster = ScriptedCluster()
        _wait(cluster, 50, Topic.SUBMISSIONS)
        _wait(cluster, 5, Topic.COMMANDS)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        topics = [topic for v in cluster.log[first:] for topic, _ in _causes(v)]
        assert max(n for n, topic in enumerate(topics) if topic == "commands") < 12

    def test_timers_have_their_turn(self) -> None:
        cluster = ScriptedCluster()
        cluster.submit(graph(vertex("a")), job_id="dirty")
        cluster.cancel("dirty")
        _wait(cluster, 50)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.leader._opening = False
        for _ in range(3):
            cluster.decide()
            cluster.read_back(len(cluster.log) - 1)
        cluster.timer(CleanupFailed("dirty", "busy"))
        at = next(n for n, v in enumerate(cluster.log[first:]) if any(isinstance(e, JobCleanupFailed) for e in CODEC.decode(v).events))
        assert at < 12
        assert sum(len(_causes(v)) for v in cluster.log[first:]) == 50

    def test_what_came_after_the_promotion_does_not_wait_for_all_that_waited_before(self) -> None:
        """Clients that submit to the new leader are answered while it works through what its predecessor left."""
        cluster = ScriptedCluster()
        _wait(cluster, 50)
        cluster.fail_over()
        first = len(cluster.log)
        _wait(cluster, 2, Topic.SUBMISSIONS)
        cluster.settle()
        topics = [topic for v in cluster.log[first:] for topic, _ in _causes(v)]
        assert max(n for n, topic in enumerate(topics) if topic == "submissions") < 6
        assert len(cluster.log) - first <= 54, "an announcement costs no record of its own either way"

    def test_consequences_have_their_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("eventflink.leadership.leader.INLINE_STEPS", 0)
        cluster = ScriptedCluster()
        cluster.check_digests = False  # There is one after each of a hundred decisions, of a wide job.
        cluster.register("tm", slots=4)
        cluster.put(Topic.SUBMISSIONS, json.dumps({"job_id": "wide", "job_graph": graph(vertex("a", 300))}).encode())
        _wait(cluster, 50)
        cluster.fail_over()
        first = len(cluster.log)
        cluster.settle()
        follow_ups = [n for n, v in enumerate(cluster.log[first:]) if any(isinstance(e, FollowUpDecided) for e in CODEC.decode(v).events)]
        assert len(follow_ups) > 2
        assert follow_ups[2] < 20
        cluster.check()


class TestRefusal:
    """An input at which two leaders in a row crashed is refused, and the rest is decided."""

    def _crashing(self, monkeypatch: pytest.MonkeyPatch, cluster: ScriptedCluster, poison: tuple[str, int]) -> list[int]:
        """Have every leader die that decides the input; return a list that counts them."""
        crashes: list[int] = []
        decoded = Leader._decoded

        def deadly(self: Leader, record: InboundRecord, reason: str | None) -> Any:
            if (record.topic, record.offset) == poison and reason is None:
                crashes.append(cluster.terms)
                raise _ProcessDiesError
            return decoded(self, record, reason)

        monkeypatch.setattr(Leader, "_decoded", deadly)
        return crashes

    def _lead_until_at_rest(self, cluster: ScriptedCluster, more: Any = lambda: None) -> None:
        for _ in range(10):
            try:
                cluster.settle()
            except _ProcessDiesError:
                more()
                cluster.fail_over()
            else:
                return
        raise AssertionError("leaders crash for ever")

    @pytest.mark.rule("P10")
    def test_it_is_refused_with_a_reply_and_a_dead_letter_and_the_rest_is_decided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = ScriptedCluster()
        crashes = self._crashing(monkeypatch, cluster, ("commands", 2))
        _wait(cluster, 5)
        self._lead_until_at_rest(cluster)
        assert len(crashes) == 2 + MAX_CRASHES, "one leader decided it in passing, one among others that it announced, two alone"
        effects = [e for r in cluster.released for e in r.effects]
        answered = {r.request_id: r.payload for r in replies(effects)}
        assert set(answered) == {f"commands{n}" for n in range(5)}
        refusal = answered["commands2"]
        assert isinstance(refusal, RequestRejected)
        assert refusal.code == "InternalError"
        assert "2 leaders in a row crashed" in refusal.message
        [letter] = dead_letters(effects)
        assert "2 leaders in a row crashed" in letter.reason
        assert (letter.topic, letter.offset) == ("commands", 2)
        assert cluster.master.requests.attempts == {}
        cluster.check()

    @pytest.mark.rule("P10")
    def test_what_leaders_crash_at_is_refused_without_decoding_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It may be the decoder in which they crash."""
        cluster = ScriptedCluster()
        decode, crashes = InboundDecoder.decode, 0

        def deadly(self: InboundDecoder, record: InboundRecord) -> Any:
            nonlocal crashes
            if (record.topic, record.offset) == ("commands", 0):
                crashes += 1
                raise _ProcessDiesError
            return decode(self, record)

        monkeypatch.setattr(InboundDecoder, "decode", deadly)
        _wait(cluster, 2)
        self._lead_until_at_rest(cluster)
        assert crashes == 2 + MAX_CRASHES
        effects = [e for r in cluster.released for e in r.effects]
        assert {r.request_id: type(r.payload) for r in replies(effects)}["commands0"] is RequestRejected
        assert len(dead_letters(effects)) == 1

    @pytest.mark.parametrize("poison", [Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS])
    def test_it_is_refused_although_other_inputs_come_all_the_time(self, monkeypatch: pytest.MonkeyPatch, poison: Topic) -> None:
        """What is announced on one topic is not forgotten because something is announced on another one."""
        cluster = ScriptedCluster()
        crashes = self._crashing(monkeypatch, cluster, (str(poison), 1))
        numbers = itertools.count()

        def more() -> None:
            for topic in (Topic.SUBMISSIONS, Topic.COMMANDS):
                cluster.put(topic, b'{"type": "CancelJob", "job_id": "none", "request_id": "more%d"}' % next(numbers))
            cluster.put(Topic.TASKMANAGERS, REPORTS.encode([Disconnection("tm", "tm-1", "gone")]))

        for _ in range(3):
            more()
        self._lead_until_at_rest(cluster, more)
        assert len(crashes) <= 2 + MAX_CRASHES
        cluster.check()

    def test_an_input_at_which_one_leader_crashed_is_decided_by_the_next_that_survives(self) -> None:
        """It was killed by something else."""
        cluster = ScriptedCluster()
        _wait(cluster, 2)
        for leaders in (0, 1):  # First both are announced, then the first of them alone.
            cluster.fail_over()
            cluster.decide()
            cluster.read_back(len(cluster.log) - 1)
            assert cluster.master.requests.attempts["commands"].leaders == leaders
        cluster.fail_over()
        cluster.settle()
        assert [e.code for e in cluster.events(RequestRejected)] == ["UnknownJob"] * 2
        assert cluster.master.requests.attempts == {}
        cluster.check()

    def test_an_orderly_leader_refuses_what_two_others_crashed_at(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 1)
        for _ in range(MAX_CRASHES):
            cluster.fail_over()
            cluster.decide()
            cluster.read_back(len(cluster.log) - 1)
        cluster.participant = cluster.new_participant(cluster.fold)
        cluster.participant._resigned = cluster.fold.acceptance.leader_id
        cluster.lead()
        assert not cluster.leader.recovery.remaining
        cluster.settle()
        assert [e.code for e in cluster.events(RequestRejected)] == ["InternalError"]

    def test_an_announced_input_that_retention_removed_is_forgotten_and_nothing_waits_for_it(self) -> None:
        cluster = ScriptedCluster()
        _wait(cluster, 2)
        cluster.fail_over()
        cluster.decide()
        cluster.read_back(len(cluster.log) - 1)
        cluster.participant.intake.inboxes["commands"].waiting.clear()
        cluster.lose(Topic.COMMANDS, 1)
        assert cluster.master.requests.attempts == {}
        _wait(cluster, 2)
        cluster.settle()
        assert cluster.master.requests.attempts == {}
        assert len(cluster.events(RequestRejected)) == 2
        assert cluster.leader.recovery.remaining == 0
        cluster.check()

    def test_what_was_announced_of_a_topic_says_nothing_about_another_topic_of_that_name(self) -> None:
        """P9: after a rebind the same offset is another input, at which no leader crashed."""
        cluster = ScriptedCluster()
        _wait(cluster, 1)
        for _ in range(MAX_CRASHES):
            cluster.fail_over()
            cluster.decide()
            cluster.read_back(len(cluster.log) - 1)
        cluster.inbound["commands"].clear()
        _wait(cluster, 1)
        cluster.fail_over()
        cluster.timer(BindInputs("commands", "id-2", 0))
        assert [e.code for e in cluster.events(RequestRejected)] == ["UnknownJob"]
        cluster.check()

    def test_an_announced_input_that_vanished_keeps_nobody_from_the_others(self) -> None:
        """Neither lost nor there: the leader continues with other topics, in the same turn."""
        cluster = ScriptedCluster()
        _wait(cluster, 1)
        cluster.fail_over()
        cluster.decide()
        cluster.read_back(len(cluster.log) - 1)
        cluster.participant.intake.inboxes["commands"].waiting.clear()
        _wait(cluster, 1, Topic.SUBMISSIONS)
        value = cluster.decide()
        assert value is not None
        assert _causes(value) == [("submissions", 0)]


class TestWhatHasNotArrived:
    def test_what_waited_in_kafka_is_decided_in_recovery_mode_although_it_had_not_arrived_at_the_promotion(self, world: World) -> None:
        """A single master leads before it has read the inbound topics; the input that kills it would do so for ever."""
        _first_falls(world)
        for number in range(3):
            world.command(f"r{number}")
        node = world.start("b", election=SingleMaster())
        node.reads_inputs = False
        world.run_until(lambda: node.role is Role.LEADER)
        node.reads_inputs = True
        world.run(100)
        assert world.answered("b") == ["r0", "r1", "r2"]
        assert [(e.topic, e.first_offset, e.last_offset) for e in world.events(InputsAttempted)] == [("commands", 0, 2)]

    def test_what_never_arrives_is_waited_for_no_longer_than_a_lease(self, world: World) -> None:
        """The end of a topic may be a marker that no reader sees."""
        _first_falls(world)
        world.command("r0")
        world.command("marker")
        node = world.start("b", election=SingleMaster())
        del world.inbound[Topic.COMMANDS][1]
        world.run(100)
        assert node.participant.leader is not None
        assert node.participant.leader.recovery.remaining
        world.run(LEASE_MS)
        assert not node.participant.leader.recovery.remaining
        assert world.answered("b") == ["r0"]

    def test_a_standby_that_has_long_read_on_waits_for_nothing(self, world: World) -> None:
        world.start("a")
        standby = world.start("b")
        for number in range(5):
            world.command(f"r{number}")
        world.run(2 * LEASE_MS)
        world.kill(world.leader())
        world.run_until(lambda: standby.role is Role.LEADER)
        world.step()
        assert standby.participant.leader is not None
        assert not standby.participant.leader.recovery.remaining


class TestGuardiansWord:
    """Where guardians say at which input their masters died, it costs two leaderships, and nothing else is announced for it."""

    def _lead_until(self, world: World, condition: Callable[[], bool], end: str = "dies") -> int:
        """Let masters follow each other that die or hang, and of which each has a guardian; return how many did."""
        for number in range(10):
            world.start(f"m{number}", election=SingleMaster())
            try:
                world.run_until(condition)
            except _ProcessDiesError:
                node = world.nodes.pop(f"m{number}")
                assert node.wires.will is not None
                epoch, leader_id, deciding = node.wires.will.epoch, node.wires.will.leader_id, node.wires.deciding
                if end == "hangs":
                    world.leadership.append(LEADERSHIP.encode(LeaderHang(epoch, leader_id, deciding)))
                if end != "hangs" or number == 0:  # It is killed, which may be told late.
                    world.leadership.append(LEADERSHIP.encode(LeaderDeath(epoch, leader_id, deciding)))
            else:
                return number
        raise AssertionError("leaders crash for ever")

    @pytest.mark.rule("P10")
    @pytest.mark.parametrize("end", ["dies", "hangs"])
    @pytest.mark.parametrize("method", ["decode", "decide"])
    def test_an_input_at_which_a_leader_died_by_its_guardian_s_word_costs_one_more_and_is_refused(
        self, world: World, monkeypatch: pytest.MonkeyPatch, method: str, end: str
    ) -> None:
        crashes: list[str] = []
        decode, decide = InboundDecoder.decode, Master.decide

        def decode_or_die(self: InboundDecoder, record: InboundRecord) -> Any:
            if method == "decode" and (record.topic, record.offset) == ("commands", 40):
                crashes.append("decode")
                raise _ProcessDiesError
            return decode(self, record)

        def decide_or_die(self: Master, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
            if method == "decide" and getattr(value, "request_id", "") == "r40" and type(value).__name__ == "CancelJob":
                crashes.append("decide")
                raise _ProcessDiesError
            return decide(self, value, now_ms, leader_id)

        monkeypatch.setattr(InboundDecoder, "decode", decode_or_die)
        monkeypatch.setattr(Master, "decide", decide_or_die)
        for number in range(50):
            world.command(f"r{number}")
        died = self._lead_until(world, lambda: len(world.events(RequestRejected)) == 50, end)
        assert died == len(crashes) == 2
        codes = {event.request_id: event.code for event in world.events(RequestRejected)}
        assert codes == {f"r{number}": "InternalError" if number == 40 else "UnknownJob" for number in range(50)}
        alone = [(e.first_offset, e.last_offset, e.deaths) for e in world.events(InputsAttempted) if e.deaths]
        assert alone == [(40, 40, 1)]
        assert not world.events(InternalInputsAttempted), "it is known that it was none of those"
        world.check()

    def test_a_death_counts_also_where_the_input_is_the_last_that_is_left_of_several_that_were_announced(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then the log has it as announced alone, but by nobody."""
        _first_falls(world)
        for number in range(3):
            world.command(f"r{number}")
        crashes: list[str] = []
        decode = InboundDecoder.decode

        def decode_or_die(self: InboundDecoder, record: InboundRecord) -> Any:
            if (record.topic, record.offset) == ("commands", 2):
                crashes.append("decode")
                raise _ProcessDiesError
            return decode(self, record)

        monkeypatch.setattr(InboundDecoder, "decode", decode_or_die)
        died = self._lead_until(world, lambda: len(world.events(RequestRejected)) == 3)
        assert died == len(crashes) == 2
        assert [(e.first_offset, e.last_offset, e.deaths) for e in world.events(InputsAttempted)] == [(0, 2, 0), (2, 2, 1)]

    @pytest.mark.rule("P10")
    def test_a_follow_up_at_which_a_leader_died_by_its_guardian_s_word_costs_one_more_and_is_parked(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crashes = TestInternalInputs.crashing(monkeypatch, ("SCHEDULE_TASKS", "bad"))
        world.submit(graph(vertex("a")), "bad")
        world.submit(graph(vertex("a")), "good")
        died = self._lead_until(world, lambda: len(world.events(InputParked)) > 0 and len(world.events(JobSubmitted)) > 1)
        assert died == len(crashes) == 2
        [parked] = world.events(InputParked)
        assert (parked.input_type, parked.subject, parked.job_id) == ("SCHEDULE_TASKS", "bad", "bad")
        assert "2 leaders in a row crashed" in parked.reason
        assert [(e.names, e.deaths) for e in world.events(InternalInputsAttempted) if e.deaths] == [(("SCHEDULE_TASKS bad",), 1)]
        world.check()

    @pytest.mark.rule("P10")
    def test_a_timer_at_which_a_leader_died_by_its_guardian_s_word_is_not_looked_at_before_it_is_announced(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crashes = TestInternalInputs.crashing(monkeypatch, ("UnblockTaskManagers", ""))
        died = self._lead_until(world, lambda: len(world.events(InputParked)) > 0)
        assert died == len(crashes) == 2
        world.run(3 * LEASE_MS)
        assert len(crashes) == 2
        world.check()

    def test_what_is_survived_after_a_death_is_suspected_no_more(self, world: World) -> None:
        """It was killed by something else, just then."""
        leader = world.start("a", election=SingleMaster())
        world.run(50)
        world.command("r0")
        leader.wires.note_deciding("commands@0")
        world.kill(leader, is_guarded=True)
        for number in range(2):
            node = world.start(f"b{number}", election=SingleMaster())
            world.run(100)
            assert node.participant.leader is not None
            assert not node.participant.leader.recovery.suspect
            world.kill(node, is_guarded=True)
        assert [(e.first_offset, e.last_offset, e.deaths) for e in world.events(InputsAttempted)] == [(0, 0, 1)]
        assert [event.code for event in world.events(RequestRejected)] == ["UnknownJob"]
        assert not world.accepted().master.requests.attempts

    def test_after_a_turn_that_failed_nothing_is_said_to_be_decided(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The leadership is over, the process lives; when it dies one day, that was not at this input."""
        node = world.start("a", election=SingleMaster())
        world.run(50)
        life = MasterLife(
            node.participant.settings,
            node.election,
            node.peers,
            InboundDecoder(),
            world.mint_leader_id,
            participant=node.participant,
            _wires=node.wires,
        )
        monkeypatch.setattr(Leader, "_decoded", lambda *_: 1 // 0)
        world.command("r0")
        node.receive()
        life.turn(lambda: world.now_ms, world.wall_ms)
        assert life.participant is None
        assert not node.wires.deciding

    @pytest.mark.rule("P10")
    @pytest.mark.parametrize(
        "name",
        ["commands@", "commands@x", "commands@²", "commands@-1", "commands@1@2", "commands@" + "9" * 5_000, "@", "x" * 1000, "RestartsDue"],
    )
    def test_whatever_a_forged_death_says_was_decided_nothing_is_refused_for_it(self, world: World, name: str) -> None:
        leader = world.start("a", election=SingleMaster())
        world.run(50)
        world.command("r0")
        leader.wires.note_deciding(name)
        world.kill(leader, is_guarded=True)
        world.start("b", election=SingleMaster())
        world.run(100)
        assert [event.code for event in world.events(RequestRejected)] == ["UnknownJob"]


class _ProcessDiesError(BaseException):
    """What a crash is to a leader: nothing can catch it."""


def test_the_clock_of_an_announcement_is_the_logs(world: World) -> None:
    """An announcement is a decision like any other: accepted, with a time, in order."""
    _first_falls(world)
    world.command("r")
    world.start("b", election=SingleMaster())
    world.run(100)
    times = [CODEC.decode(v).decided_at_ms for v in world.log]
    assert times == sorted(times)
    assert times[0] >= START_MS


class TestInternalInputs:
    """A follow-up or a timer at which leaders crash is parked, and everything else goes on."""

    @staticmethod
    def crashing(monkeypatch: pytest.MonkeyPatch, name: tuple[str, str]) -> list[str]:
        """Have every leader die that decides the input, if only to see whether it is due; return a list that counts them."""
        crashes: list[str] = []
        decide = Master.decide

        def deadly(self: Master, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
            if isinstance(value, InternalInput) and name_of(value) == name:
                crashes.append(leader_id)
                raise _ProcessDiesError
            return decide(self, value, now_ms, leader_id)

        monkeypatch.setattr(Master, "decide", deadly)
        return crashes

    def _lead_until_at_rest(self, world: World, condition: Callable[[], bool]) -> int:
        """Let masters follow each other, each of which is a process of its own; return how many died."""
        for number in range(10):
            node = world.start(f"m{number}", election=SingleMaster())
            try:
                world.run_until(condition)
            except _ProcessDiesError:
                world.kill(node)
            else:
                return number
        raise AssertionError("leaders crash for ever")

    @pytest.mark.rule("P10")
    def test_a_follow_up_at_which_leaders_crash_is_parked_its_job_fails_and_the_rest_goes_on(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crashes = self.crashing(monkeypatch, ("SCHEDULE_TASKS", "bad"))
        world.submit(graph(vertex("a")), "bad")
        world.submit(graph(vertex("a")), "good")
        died = self._lead_until_at_rest(world, lambda: len(world.events(InputParked)) > 0 and len(world.events(JobSubmitted)) > 1)
        assert died == len(crashes) <= 2 + MAX_CRASHES, "one in passing, one before it was watched, two alone"
        [parked] = world.events(InputParked)
        assert (parked.input_type, parked.subject, parked.job_id) == ("SCHEDULE_TASKS", "bad", "bad")
        assert "2 leaders in a row crashed" in parked.reason
        world.run(100)
        assert world.accepted().master.dispatcher.jobs["bad"].status is JobStatus.FAILED
        assert world.accepted().master.dispatcher.jobs["good"].status is JobStatus.RUNNING
        assert not world.accepted().master.suspects.crashes
        world.check()

    @pytest.mark.rule("P10")
    def test_a_timer_at_which_leaders_crash_is_parked_although_nothing_may_be_due(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They crash when they look whether it is."""
        crashes = self.crashing(monkeypatch, ("UnblockTaskManagers", ""))
        died = self._lead_until_at_rest(world, lambda: len(world.events(InputParked)) > 0)
        assert died == len(crashes) <= 3 + MAX_CRASHES, "two before they were watched, one that announced all, two that announced it alone"
        [parked] = world.events(InputParked)
        assert (parked.input_type, parked.subject) == ("UnblockTaskManagers", "")
        world.run(3 * LEASE_MS)
        assert len(crashes) == died, "nobody looks at it any more"
        world.command("r0")
        world.run(100)
        assert "r0" in world.answered(f"m{died}")
        world.check()

    @pytest.mark.rule("P10")
    def test_what_leaders_survive_is_suspected_no_more(self, world: World) -> None:
        for number in range(4):
            node = world.start(f"m{number}", election=SingleMaster())
            world.run_until(lambda node=node: node.role is Role.LEADER)  # type: ignore[misc] # mypy infers nothing of the default
            world.run(300)
            world.kill(node)
        assert world.events(InternalInputsAttempted)
        assert not world.events(InputParked)
        assert not world.accepted().master.suspects.crashes, "each said more after what it announced"

    @pytest.mark.rule("P10")
    def test_after_a_long_leadership_nothing_internal_is_announced(self, world: World) -> None:
        """A kill now and then costs no round trips."""
        node = world.start("a", election=SingleMaster())
        world.run(60_000)
        world.submit(graph(vertex("a")), "late")
        world.run(100)
        world.kill(node)
        world.start("b", election=SingleMaster())
        world.run(1_000)
        assert not world.events(InternalInputsAttempted)

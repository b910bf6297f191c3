"""What one master holds, says and leaves behind: bounds, the end of a term, presence, the topics that it reads."""

import json

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderHeartbeat, MasterPresence, Resignation
from eventflink.events.inputs import Heartbeat, TaskManagerRegistration
from eventflink.events.log_events import InputsBound, InputsLost
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.intake import InboundTopic
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.statuses import Role
from tests.support.cluster import REPORTS
from tests.support.participants import LEASE_MS, Node, World

HEARTBEATS = PayloadCodec("HeartbeatEnvelope")


class TestBounds:
    """L3: a standby's memory has a bound, whatever the backlog."""

    def _backlog(self, world: World) -> tuple[Node, Node]:
        world.start("a")
        standby = world.start("b", capacity=100)
        world.run(2 * LEASE_MS)
        leader = world.leader()
        leader.is_frozen = True
        for number in range(1_000):
            world.command(f"r{number}")
        assert standby.wires.calls == [("resume", str(topic)) for topic in INBOUND], "what a term before may have paused is read on"
        return leader, standby

    @pytest.mark.rule("L3")
    def test_a_full_inbox_pauses_its_topic_and_holds_no_more(self, world: World) -> None:
        _, standby = self._backlog(world)
        world.run(LEASE_MS // 2)
        assert len(standby.intake.inboxes[Topic.COMMANDS].waiting) == 100
        assert standby.wires.calls[3:] == [("pause", "commands")]

    def test_reading_goes_on_as_decisions_are_accepted_and_ends_with_all_of_it(self, world: World) -> None:
        leader, standby = self._backlog(world)
        world.run(LEASE_MS // 2)
        leader.is_frozen = False
        world.run(LEASE_MS // 2)
        assert world.answered() == [f"r{n}" for n in range(1_000)]
        world.run(LEASE_MS // 2)
        inbox = standby.intake.inboxes[Topic.COMMANDS]
        assert (len(inbox.waiting), len(inbox.decided), inbox.byte_count) == (0, 0, 0)
        assert inbox.last_offset == 999
        assert standby.wires.calls[3:5] == [("pause", "commands"), ("resume", "commands")]
        assert not standby.intake.is_paused

    def test_a_new_leader_works_through_a_backlog_beyond_its_inbox(self, world: World) -> None:
        leader, _ = self._backlog(world)
        world.kill(leader)
        world.run_until(lambda: len(world.answered("b")) == 1_000)
        assert world.answered("b") == [f"r{n}" for n in range(1_000)]

    def test_what_a_term_paused_is_read_on_in_the_next_term(self, world: World) -> None:
        """The tail outlives a term that somebody else's leadership ended."""
        leader, standby = self._backlog(world)
        world.run(LEASE_MS // 2)
        assert standby.intake.is_paused
        standby.participant.step_down("the test says so")
        standby.begin()
        assert len(standby.intake.inboxes[Topic.COMMANDS].waiting) == 100
        leader.is_frozen = False
        world.run_until(lambda: standby.intake.inboxes[Topic.COMMANDS].last_offset == 999)

    def test_what_a_term_paused_and_was_decided_since_is_read_on_from_the_beginning_of_the_next(self, world: World) -> None:
        """And it is paused again as soon as it is full again."""
        leader, standby = self._backlog(world)
        world.run(LEASE_MS // 2)
        standby.participant.step_down("the test says so")
        leader.is_frozen = False
        leader.receive()
        leader.act()
        leader.is_frozen = True
        standby.positions["log"] = len(world.log)
        while standby.intake.log:
            standby.intake.take_log_record()
        for number in range(1_000):
            world.command(f"more{number}")
        standby.begin()
        assert Topic.COMMANDS not in standby.intake.is_paused
        assert not standby.intake.inboxes[Topic.COMMANDS].waiting
        for _ in range(3):
            standby.receive()
        assert len(standby.intake.inboxes[Topic.COMMANDS].waiting) == 100

    def test_no_more_than_a_window_is_unconfirmed_and_the_rest_is_decided_later(self, world: World) -> None:
        leader = world.start("a", election=SingleMaster(), window_size=8)
        world.run(100)
        leader.is_blind = True
        for number in range(50):
            world.command(f"r{number}")
        world.run(100)
        assert leader.participant.leader is not None
        assert len(leader.participant.leader.unconfirmed) == 8
        leader.is_blind = False
        world.run(100)
        assert len(world.answered()) == 50

    def test_a_standby_remembers_no_heartbeats_of_task_executors(self, world: World) -> None:
        """They would pile up for as long as it stands by; a leader starts all deadlines again."""
        node = world.start("a")
        for number in range(100):
            node.participant.on_heartbeat(b"garbage %d" % number, world.now_ms)
        assert node.participant._liveness._monitor.last_heard_ms == {}

    def test_heartbeats_of_task_managers_that_nobody_registered_cost_a_leader_nothing(self, world: World) -> None:
        """However many there are, and whatever they are called: not even until the next search for those that are silent."""
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("tm", "tm-1", "h", 1, 1)]))
        world.run(100)
        log, digest = len(world.log), leader.master.digest()
        for number in range(10_000):
            value = HEARTBEATS.encode(Heartbeat(f"unknown-{number}", f"unknown-{number}-1", 0, 1, 0))
            leader.participant.on_heartbeat(value, world.now_ms)
        for instance in ("tm-0", "", "tm-1" * 1_000):
            leader.participant.on_heartbeat(HEARTBEATS.encode(Heartbeat("tm", instance, 0, 1, 0)), world.now_ms)
        monitor = leader.participant._liveness._monitor
        assert set(monitor.last_heard_ms) == {"tm-1"}
        leader.participant.on_heartbeat(HEARTBEATS.encode(Heartbeat("tm", "tm-1", 0, 1, 0)), world.now_ms + 7)
        assert monitor.last_heard_ms["tm-1"] == world.now_ms + 7
        world.run(100)
        assert (len(world.log), leader.master.digest()) == (log, digest)

    def test_heartbeats_that_nobody_can_read_are_noted_in_one_line(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        with caplog.at_level("WARNING", "eventflink.leadership.liveness"):
            for number in range(20_000):
                leader.participant.on_heartbeat(b"garbage %d" % number, world.now_ms)
            assert [record.name for record in caplog.records].count("eventflink.leadership.liveness") == 1
            leader.participant.on_heartbeat(b"garbage", world.now_ms + 60_000)
        assert caplog.messages[-1].startswith("HeartbeatsUnreadable count=20000 error=the record does not start with the marker")


class TestLeaving:
    def test_a_draining_leader_decides_nothing_more_and_releases_what_it_decided(self, world: World) -> None:
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        leader.is_blind = True
        world.command("before")
        world.run(20)
        leader.participant.is_draining = True
        world.command("after")
        assert not leader.participant.is_drained
        leader.is_blind = False
        world.run(200)
        assert leader.participant.is_drained
        assert world.answered() == ["before"]

    def test_a_resignation_is_followed_at_once_by_the_next_leader_who_decides_the_rest(self, world: World) -> None:
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        old = world.leader()
        old.participant.is_draining = True
        world.command("rest")
        assert old.participant.resign()
        world.kill(old)
        assert world.run_until(lambda: other.role is Role.LEADER) <= 30
        world.run(30)
        assert world.answered() == ["rest"]
        assert world.said(Resignation) == [Resignation(1, "leader-1")]

    def test_who_does_not_lead_leaves_silently(self, world: World) -> None:
        world.start("a")
        standby = world.start("b")
        world.leader()
        assert not standby.participant.resign()
        assert world.said(Resignation) == []

    @pytest.mark.parametrize("end", ["resign", "deposed"])
    def test_a_term_that_is_over_takes_nothing_from_the_next_one(self, world: World, end: str) -> None:
        """Its tail and its inboxes are those of the next term: a turn that was scheduled before finds nothing to do."""
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        world.command("r")
        leader.receive()
        leader.participant.turn(lambda: world.now_ms, world.wall_ms)
        leader.receive()
        assert leader.intake.log
        if end == "resign":
            leader.participant.resign()
        else:
            leader.participant.step_down("the test says so")
        waiting = list(leader.intake.log)
        assert not leader.participant.turn(lambda: world.now_ms, world.wall_ms)
        leader.participant.tick(world.now_ms, world.wall_ms)
        assert list(leader.intake.log) == waiting
        world.kill(leader)


class TestPresence:
    def test_every_master_says_twice_per_lease_who_it_is_and_where_it_stands(self, world: World) -> None:
        world.start("a")
        world.start("b")
        world.run(2 * LEASE_MS)
        world.leader()
        world.leadership.clear()
        for node in world.nodes.values():
            node.positions["leadership"] = 0
        world.run(2 * LEASE_MS)
        said = world.said(MasterPresence)
        assert {(p.master_id, p.role, p.feature_level, p.incarnation) for p in said} == {
            ("a", Role.LEADER, FEATURE_LEVEL, "a-process"),
            ("b", Role.STANDBY, FEATURE_LEVEL, "b-process"),
        }
        assert len([p for p in said if p.master_id == "a"]) == 4
        assert {(p.epoch, p.log_offset) for p in said} == {(1, len(world.log) - 1)}
        assert len(world.said(LeaderHeartbeat)) == 20

    def test_no_two_words_of_one_process_have_the_same_number_over_all_its_terms(self, world: World) -> None:
        """One of an earlier term that comes late must prove nothing about this one (L2)."""
        node = world.start("a")
        world.run(3 * LEASE_MS)
        for _ in range(3):
            node.participant.step_down("the test says so")
            node.begin()
            world.run(LEASE_MS)
        numbers = [p.sequence for p in world.said(MasterPresence)]
        assert numbers == sorted(set(numbers))

    def test_a_master_knows_when_it_last_heard_itself(self, world: World) -> None:
        node = world.start("a")
        world.run(LEASE_MS)
        heard_ms = node.participant.heard_itself_ms
        assert heard_ms > 0
        node.is_deaf = True
        world.run(2 * LEASE_MS)
        assert node.participant.heard_itself_ms == heard_ms

    def test_a_record_that_cannot_be_read_says_why_and_changes_nothing(self, world: World) -> None:
        node = world.start("a")
        assert "has the fingerprint" in node.participant.on_leadership(b"\xc3\x01" + bytes(8), world.now_ms)
        assert node.participant.on_leadership(None, world.now_ms)
        assert node.participant.on_leadership(json.dumps({"epoch": 1}).encode(), world.now_ms)


class TestTopics:
    def test_the_first_leader_binds_every_inbound_topic_where_it_begins(self, world: World) -> None:
        world.start("a", topics={Topic.COMMANDS: InboundTopic("other", 7, 7)}, election=SingleMaster())
        world.run(50)
        bound = {e.topic: (e.topic_id, e.next_offset) for e in world.events(InputsBound)}
        assert bound == {**{str(t): (f"id-of-{t}", 0) for t in INBOUND}, "commands": ("other", 7)}

    @pytest.mark.rule("P9")
    def test_retention_that_overtook_a_cursor_is_a_decision(self, world: World) -> None:
        first = world.start("a", election=SingleMaster())
        world.run(50)
        world.kill(first)
        for number in range(6):
            world.command(f"r{number}")
        second = world.start("b", election=SingleMaster(), topics={Topic.COMMANDS: InboundTopic("id-of-commands", 4, 6)})
        world.run(50)
        assert world.events(InputsLost) == [InputsLost("commands", 0, 0, 4)]
        assert world.answered() == ["r4", "r5"]
        assert second.master.requests.cursors["commands"].next_offset == 6

    def _recreated(self, world: World) -> None:
        """Have a leader decide 20 commands, and the topic deleted and created again."""
        first = world.start("a", election=SingleMaster())
        for number in range(20):
            world.command(f"old{number}")
        world.run(100)
        world.kill(first)
        world.inbound[Topic.COMMANDS].clear()
        for number in range(5):
            world.command(f"new{number}")

    @pytest.mark.rule("P9")
    def test_a_rebound_topic_is_decided_from_its_first_record(self, world: World) -> None:
        """P9: its inbox starts empty; the offsets of the old topic mean nothing in it."""
        self._recreated(world)
        rebound = InboundTopic("id-2", 0, 5, is_rebound=True)
        node = world.start("b", election=SingleMaster(), topics={Topic.COMMANDS: rebound})
        world.run(100)
        assert world.events(InputsBound)[-1] == InputsBound("commands", 0, "id-2", 0)
        assert world.answered("b")[-5:] == [f"new{n}" for n in range(5)]
        assert node.master.requests.cursors["commands"].next_offset == 5

    def _truncated(self, world: World) -> None:
        """Have a leader decide 20 commands, and the topic lose all but 12 of them."""
        first = world.start("a", election=SingleMaster())
        for number in range(20):
            world.command(f"old{number}")
        world.run(100)
        world.kill(first)
        del world.inbound[Topic.COMMANDS][12:]

    @pytest.mark.rule("P5a")
    def test_a_truncated_topic_that_an_operator_rebinds_is_decided_from_its_end(self, world: World) -> None:
        self._truncated(world)
        rewound = InboundTopic("id-of-commands", 0, 12, is_rewound=True)
        node = world.start("b", election=SingleMaster(), topics={Topic.COMMANDS: rewound})
        for number in range(5):
            world.command(f"new{number}")
        world.run(100)
        assert world.events(InputsBound)[-1] == InputsBound("commands", 0, "id-of-commands", 12)
        assert world.answered("b")[-5:] == [f"new{n}" for n in range(5)]
        assert node.master.requests.cursors["commands"].next_offset == 17

    @pytest.mark.rule("P5a")
    def test_a_truncated_topic_is_rebound_once_however_many_terms_follow_on_one_tail(self, world: World) -> None:
        """By the time of the second term the cursor may stand where it stood before."""
        self._truncated(world)
        rewound = InboundTopic("id-of-commands", 0, 12, is_rewound=True)
        node = world.start("b", election=SingleMaster(), topics={Topic.COMMANDS: rewound})
        for number in range(8):
            world.command(f"new{number}")
        world.run(100)
        assert node.master.requests.cursors["commands"].next_offset == 20
        node.participant.step_down("the test says so")
        node.begin()
        world.run(2_000)
        assert [e.next_offset for e in world.events(InputsBound) if e.topic == "commands"] == [0, 12]
        assert world.answered("b")[-8:] == [f"new{n}" for n in range(8)]

    def test_a_rebound_topic_loses_nothing_over_terms_that_did_not_lead(self, world: World) -> None:
        """The records of the new topic have offsets that the old cursor has passed."""
        self._recreated(world)
        rebound = InboundTopic("id-2", 0, 5, is_rebound=True)
        node = world.start("b", topics={Topic.COMMANDS: rebound})
        node.receive()
        node.participant.step_down("the test says so")
        node.begin()
        assert len(node.intake.inboxes[Topic.COMMANDS].waiting) == 5
        world.leader()
        world.run(100)
        assert world.answered("b")[-5:] == [f"new{n}" for n in range(5)]

    def test_a_standby_keeps_what_it_holds_of_the_new_topic_while_a_leader_decides_the_old_one(self, world: World) -> None:
        leader = world.start("a", election=SingleMaster())
        world.run(50)
        for number in range(20):
            world.command(f"old{number}")
        leader.receive()  # It holds them, and the topic is gone.
        world.inbound[Topic.COMMANDS].clear()
        leader.reads_inputs = False
        for number in range(5):
            world.command(f"new{number}")
        node = world.start("b", topics={Topic.COMMANDS: InboundTopic("id-2", 0, 5, is_rebound=True)})
        world.run(100)
        assert len(node.intake.inboxes[Topic.COMMANDS].waiting) == 5
        assert len(world.answered("a")) == 20
        world.kill(leader)
        world.leader()
        world.run(100)
        assert world.answered("b")[-5:] == [f"new{n}" for n in range(5)]

    def test_a_topic_that_another_leader_rebound_is_not_bound_again(self, world: World) -> None:
        self._recreated(world)
        rebound = InboundTopic("id-2", 0, 5, is_rebound=True)
        for master_id in ("b", "c"):
            world.start(master_id, topics={Topic.COMMANDS: rebound})
        world.leader()
        world.run(100)
        world.kill(world.leader())
        world.leader()
        world.run(100)
        assert [e.topic_id for e in world.events(InputsBound) if e.topic == "commands"] == ["id-of-commands", "id-2"]
        assert world.accepted().master.requests.cursors["commands"].next_offset == 5

"""Whole masters against each other over one log: election, promotion, deposition. Only wires and clock are the test's."""

import pytest

from eventflink.events.effects import LeaderChanged, TaskDeployment
from eventflink.events.inputs import Heartbeat, TaskManagerRegistration
from eventflink.events.log_events import JobSubmitted, LeadershipGranted, RequestRejected
from eventflink.events.topics import Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.fold import LogBehind
from eventflink.leadership.intake import BEHIND_LEASES
from eventflink.leadership.leader import Deposed, LeadershipEnded
from eventflink.leadership.release import EFFECTS_PER_TURN
from eventflink.master.effects import CleanUp
from eventflink.master.inputs import CleanupsCompleted
from eventflink.model.statuses import Role
from tests.support.cluster import CODEC, REPORTS, graph, new_fold, vertex
from tests.support.participants import HEARTBEATS, LEASE_MS, Produced, World


def _deployed(world: World, since: int = 0) -> list[Produced]:
    return [p for p in world.produced[since:] if p.topic is Topic.DEPLOYMENTS]


def _register(world: World, slots: int, name: str = "tm") -> None:
    world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration(name, f"{name}-1", "host", 1, slots)]))


class TestElectionOfTwo:
    def test_one_of_two_leads_and_the_other_folds(self, world: World) -> None:
        first, second = world.start("a"), world.start("b")
        leader = world.leader()
        world.run(5 * LEASE_MS)
        assert [n.role for n in (first, second)] == [Role.LEADER, Role.STANDBY]
        assert leader is first
        assert len(world.events(LeadershipGranted)) == 1
        assert second.participant.fold.last_offset == len(world.log) - 1

    @pytest.mark.rule("L2")
    def test_on_a_log_without_a_grant_nobody_waits_for_a_lease(self, world: World) -> None:
        first, second = world.start("a"), world.start("b")
        assert world.run_until(lambda: Role.LEADER in (first.role, second.role)) <= 50
        world.run(3 * LEASE_MS)
        assert sorted([first.role, second.role]) == [Role.LEADER, Role.STANDBY]
        assert world.accepted().acceptance.epoch == 1
        assert first.ends == second.ends == []

    @pytest.mark.rule("L2")
    def test_a_master_that_believes_the_log_to_be_empty_deposes_nobody(self, world: World) -> None:
        """What it appends is a grant of the first epoch, which counts nowhere but at the beginning."""
        leader = world.start("a")
        world.leader()
        late = world.start("b")
        late.is_blind = late.is_deaf = True
        late.begin(new_fold())
        grants = len(world.log)
        world.run_until(lambda: late.role is Role.CANDIDATE, LEASE_MS // 2)
        assert len(world.log) > grants
        late.is_blind = late.is_deaf = False
        world.run(3 * LEASE_MS)
        assert (leader.role, late.role) == (Role.LEADER, Role.STANDBY)
        assert leader.ends == []
        assert world.accepted().acceptance.epoch == 1

    def test_the_other_one_leads_about_a_lease_after_the_leader_vanished(self, world: World) -> None:
        world.start("a")
        other = world.start("b")
        world.run(3 * LEASE_MS)
        world.kill(world.leader())
        assert world.run_until(lambda: other.role is Role.LEADER) <= 1.1 * LEASE_MS
        assert world.accepted().acceptance.epoch == 2

    @pytest.mark.rule("L1")
    def test_a_standby_that_missed_the_last_record_of_the_log_begins_to_read_anew(self, world: World) -> None:
        """No later record shows the hole; the leader's heartbeats do."""
        world.start("a")
        standby = world.start("b")
        world.run(2 * LEASE_MS)
        standby.is_blind = True
        world.put(Topic.COMMANDS, b"nonsense")
        world.run(100)
        standby.positions["log"] = len(world.log)
        standby.is_blind = False
        world.run((BEHIND_LEASES - 1) * LEASE_MS)
        assert standby.ends == []
        world.run(2 * LEASE_MS)
        assert [type(end) for end in standby.ends] == [LogBehind]
        assert standby.participant.fold.last_offset == len(world.log) - 1

    def test_a_standby_that_the_log_reaches_late_goes_on(self, world: World) -> None:
        world.start("a")
        standby = world.start("b")
        world.run(2 * LEASE_MS)
        for number in range(4):
            standby.is_blind = True
            world.put(Topic.COMMANDS, f"nonsense {number}".encode())
            world.run((BEHIND_LEASES - 2) * LEASE_MS)
            standby.is_blind = False
            world.run(100)
        assert standby.ends == []

    def test_of_two_grants_of_one_epoch_the_first_in_the_log_wins_and_the_loser_goes_on_as_a_standby(self, world: World) -> None:
        """Both are single masters, who campaign at once: neither knows of the other."""
        first, second = world.start("a", election=SingleMaster()), world.start("b", election=SingleMaster())
        world.now_ms += 10
        for node in (first, second):
            node.participant.tick(world.now_ms, world.wall_ms)
        assert [CODEC.decode(v).epoch for v in world.log] == [1, 1]
        for node in (first, second):
            node.receive()
            node.participant.turn(lambda: world.now_ms, world.wall_ms)
        assert (first.role, second.role, second.ends) == (Role.LEADER, Role.STANDBY, [])

    def test_a_frozen_leader_that_wakes_up_learns_from_the_log_that_it_was_deposed(self, world: World) -> None:
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        old = world.leader()
        old.is_frozen = True
        world.run_until(lambda: other.role is Role.LEADER)
        old.is_frozen = False
        world.run(2 * LEASE_MS)
        assert isinstance(old.ends[0], Deposed)
        assert (old.role, other.role) == (Role.STANDBY, Role.LEADER)

    @pytest.mark.rule("L2")
    def test_a_frozen_standby_that_wakes_up_deposes_nobody(self, world: World) -> None:
        """L2: also where an input waited, at the moment it was frozen, that was decided long since."""
        world.start("a")
        standby = world.start("b")
        world.run(3 * LEASE_MS)
        assert standby.role is Role.STANDBY
        world.command("waiting")
        standby.receive()
        standby.participant.tick(world.now_ms, world.wall_ms)
        standby.is_frozen = True
        world.run(8 * LEASE_MS)
        standby.is_frozen = False
        standby.act()  # It acts before anything that it missed has arrived.
        world.run(3 * LEASE_MS)
        assert len(world.events(LeadershipGranted)) == 1

    @pytest.mark.rule("L1")
    def test_a_leader_that_sends_heartbeats_but_does_not_see_an_input_is_replaced(self, world: World) -> None:
        """L1: its cursor stands still while the input waits at the standby."""
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        world.leader().reads_inputs = False
        world.command("r")
        world.run_until(lambda: other.role is Role.LEADER)
        world.run(100)
        assert world.answered() == ["r"]

    @pytest.mark.rule("L1")
    def test_a_leader_that_cannot_append_falls_within_a_lease(self, world: World) -> None:
        """P2: and it sends no heartbeat after half of one."""
        world.start("a")
        world.run(2 * LEASE_MS)
        leader = world.leader()
        leader.wires.is_cut = True
        world.command("r")
        world.run(LEASE_MS + 50)
        [end] = leader.ends
        assert isinstance(end, LeadershipEnded)
        assert "was not read back" in str(end)
        leader.wires.is_cut = False
        world.leader()
        world.run(100)
        assert world.answered() == ["r"]

    def test_a_candidate_whose_grant_is_not_read_back_gives_up(self, world: World) -> None:
        node = world.start("a", election=SingleMaster())
        node.wires.is_cut = True
        world.step()
        assert node.role.value == Role.CANDIDATE
        world.run(LEASE_MS + 20)
        assert "the grant was not read back" in str(node.ends[0])

    def test_a_master_whose_election_takes_the_leadership_back_falls(self, world: World) -> None:
        class Outside(SingleMaster):
            taken = False

            def may_lead(self) -> bool:
                return not self.taken

        outside = Outside()
        node = world.start("a", election=outside)
        world.leader()
        outside.taken = True
        world.step()
        assert "took the leadership back" in str(node.ends[0])


class TestPromotion:
    @pytest.mark.rule("P6")
    def test_a_new_leader_decides_at_once_what_it_holds_without_reading_anything_again(self, world: World) -> None:
        """The inbound topics are read before: nothing is loaded between the grant and the first decision."""
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        world.leader().is_frozen = True
        for number in range(20):
            world.command(f"r{number}")
        world.run(LEASE_MS // 2)
        assert len(other.intake.inboxes[Topic.COMMANDS].waiting) == 20
        other.reads_inputs = False
        world.run_until(lambda: other.role is Role.LEADER)
        world.run(20)
        assert world.answered("b") == [f"r{n}" for n in range(20)]

    def test_the_grant_and_the_first_decision_are_one_turn_apart(self, world: World) -> None:
        node = world.start("a", election=SingleMaster())
        world.command("r")
        world.step()
        assert [CODEC.decode(v).sequence for v in world.log[:2]] == [0, 1]
        assert node.role is Role.LEADER
        assert world.answered() == ["r"]

    @pytest.mark.rule("P6")
    def test_nothing_is_lost_when_the_leader_falls_with_decisions_that_were_not_accepted(self, world: World) -> None:
        """P6: they are void; the next leader decides their inputs again, the deposed one too, from memory."""
        node = world.start("a", election=SingleMaster())
        world.run(100)
        node.is_blind = True
        for number in range(5):
            world.submit(graph(vertex("a")), f"job-{number}", f"r{number}")
        world.run(50)
        assert len(node.intake.inboxes[Topic.SUBMISSIONS].decided) == 5
        assert world.answered() == []
        rival = world.start("b", election=SingleMaster())
        world.kill(rival)
        rival.participant.tick(world.now_ms, world.wall_ms)  # Its grant comes behind decisions that are accepted.
        del world.log[-6:-1], world.timestamps[-6:-1]  # They never reached the log.
        node.is_blind, node.reads_inputs = False, False
        node.positions["log"] = len(world.log) - 1
        world.run(LEASE_MS)
        assert isinstance(node.ends[0], Deposed)
        assert "5 decisions are void" in str(node.ends[0])
        world.leader()
        world.run(100)
        assert world.answered("a") == [f"r{n}" for n in range(5)]
        assert [e.job_id for e in world.events(JobSubmitted)] == [f"job-{n}" for n in range(5)]

    def test_what_the_leader_decided_is_not_decided_again_by_the_next(self, world: World) -> None:
        world.start("a")
        world.start("b")
        world.run(2 * LEASE_MS)
        for number in range(10):
            world.submit(graph(vertex("a")), f"job-{number}", f"r{number}")
        world.run(50)
        world.kill(world.leader())
        world.leader()
        world.run(LEASE_MS)
        assert len(world.events(JobSubmitted)) == 10
        assert not world.events(RequestRejected)

    def test_answers_of_the_last_decisions_are_given_again(self, world: World) -> None:
        """Their leader may have died before it sent them."""
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        world.command("r")
        world.run(50)
        world.kill(world.leader())
        world.run_until(lambda: other.role is Role.LEADER)
        world.run(50)
        assert world.answered("b") == ["r"]
        [again] = world.replies("b")
        assert again.fields["epoch"] == 1, "the answer names the decision that holds it"

    @pytest.mark.rule("L3")
    def test_what_is_said_again_is_paced_and_nothing_of_it_is_lost(self, world: World) -> None:
        """L3: the first decisions do not wait for ten thousand deployments."""
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        tasks = 3 * EFFECTS_PER_TURN + 5
        _register(world, tasks)
        world.submit(graph(vertex("a", tasks)), "wide")
        world.run(200)
        assert len([p for p in _deployed(world) if isinstance(p.payload, TaskDeployment)]) == tasks
        world.kill(world.leader())
        world.run_until(lambda: any(p.master_id == "b" and p.topic is Topic.DEPLOYMENTS for p in world.produced))
        world.run(50)
        mine = [p for p in _deployed(world) if p.master_id == "b"]
        assert isinstance(mine[0].payload, LeaderChanged)
        again = [p.payload for p in mine if isinstance(p.payload, TaskDeployment)]
        assert sorted(t.subtask_index for t in again) == list(range(tasks))
        assert all(p.fields["epoch"] == 2 for p in mine)
        assert other.role is Role.LEADER

    def test_one_turn_says_only_so_much_again(self, world: World) -> None:
        world.start("a")
        other = world.start("b")
        world.run(2 * LEASE_MS)
        tasks = 3 * EFFECTS_PER_TURN
        _register(world, tasks)
        world.submit(graph(vertex("a", tasks)), "wide")
        world.run(200)
        world.kill(world.leader())
        world.nodes.clear()
        world.now_ms += 2 * LEASE_MS
        counts: list[int] = []
        for _ in range(50):
            world.now_ms += 10
            other.receive()
            other.participant.tick(world.now_ms, world.wall_ms)
            before = len(_deployed(world))
            other.participant.turn(lambda: world.now_ms, world.wall_ms)
            counts.append(len(_deployed(world)) - before)
        assert max(counts) <= 2 * EFFECTS_PER_TURN
        assert sum(counts) == tasks + 1  # The change of leader is told in the only partition that is read.

    def test_unconfirmed_deployments_are_sent_again_at_intervals_also_under_load(self, world: World) -> None:
        """A leader under load always has decisions that are not read back; what it sends again waits for those before it (P4)."""
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        _register(world, 2)
        world.submit(graph(vertex("a", 2)), "job")
        world.run(100)
        sent = len(_deployed(world))
        for number in range(1_010):
            world.now_ms += 10
            world.heartbeats.append(HEARTBEATS.encode(Heartbeat("tm", "tm-1", number, 0, 2)))
            world.command(f"r{number}")  # Decided in this turn and read back in the next one.
            leader.receive()
            leader.participant.turn(lambda: world.now_ms, world.wall_ms)
            assert not leader.participant.is_drained
            leader.participant.tick(world.now_ms, world.wall_ms)
        again = _deployed(world, 0)[sent:]
        assert [p.payload.subtask_index for p in again if isinstance(p.payload, TaskDeployment)] == [0, 1]

    def test_what_is_sent_again_waits_for_the_decisions_that_it_follows_from(self, world: World) -> None:
        """P4: the state runs ahead of the log; a deployment that nobody accepted must not be sent, not even as a repetition."""
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        _register(world, 2)
        world.run(100)
        sent = len(_deployed(world))
        while leader.participant._next_resend_ms - world.now_ms > 100:
            world.heartbeats.append(HEARTBEATS.encode(Heartbeat("tm", "tm-1", 1, 0, 2)))
            world.step()
        leader.is_blind = True
        world.submit(graph(vertex("a", 2)), "job")
        world.run(200)
        assert leader.participant._resends, "it is due"
        assert len(_deployed(world)) == sent
        leader.is_blind = False
        world.run(50)
        assert [p.payload.subtask_index for p in _deployed(world)[sent:]] == [0, 1, 0, 1]

    def test_a_clean_up_is_handed_out_and_its_outcome_is_decided(self, world: World) -> None:
        leader = world.start("a", election=SingleMaster())
        world.run(100)
        world.submit(graph(vertex("a")), "job")
        world.command("c", job_id="job")
        world.run(50)
        assert leader.wires.clean_ups == [CleanUp("job", ())]
        leader.participant.later(CleanupsCompleted(("job", "job")))
        world.run(50)
        assert not leader.master.dispatcher.dirty

    def test_who_does_not_lead_needs_no_outcome(self, world: World) -> None:
        world.start("a")
        standby = world.start("b")
        world.leader()
        standby.participant.later(CleanupsCompleted(("job",)))
        world.run(50)
        assert standby.role is Role.STANDBY

"""What the guardian of a dead leader says, and what the other masters make of it: a hint that is fenced, and never a decision (L2a)."""

import pytest

from eventflink.events.effects import LeaderDeath, LeaderHeartbeat, Resignation
from eventflink.events.log_events import RequestRejected
from eventflink.model.statuses import Role
from tests.support.cluster import CODEC
from tests.support.participants import LEADERSHIP, LEASE_MS, Node, World


def _grants(world: World) -> int:
    """Return how often anybody campaigned."""
    return len([value for value in world.log if CODEC.decode(value).sequence == 0])


def _will(node: Node) -> LeaderDeath | None:
    return node.wires.will


def _started(world: World, *master_ids: str) -> Node:
    """Start masters, and return the one that leads when all have heard of each other."""
    for master_id in master_ids:
        world.start(master_id)
    world.run(3 * LEASE_MS)
    return world.leader()


class TestStandbys:
    @pytest.mark.rule("L2a")
    def test_the_first_campaigns_at_once_and_no_other_does(self, world: World) -> None:
        leader = _started(world, "a", "b", "c")
        world.kill(leader, is_guarded=True)
        assert world.run_until(lambda: world.nodes["b"].role is Role.LEADER) <= 30
        world.run(2 * LEASE_MS)
        assert _grants(world) == 2
        assert world.accepted().acceptance.epoch == 2

    def test_the_second_campaigns_when_the_first_is_gone_as_well(self, world: World) -> None:
        leader = _started(world, "a", "b", "c")
        world.kill(world.nodes["b"])
        world.kill(leader, is_guarded=True)
        assert world.run_until(lambda: world.nodes["c"].role is Role.LEADER) < LEASE_MS // 2
        assert _grants(world) == 2

    @pytest.mark.rule("L2a")
    @pytest.mark.parametrize(
        ("epoch", "leader_id"),
        [(1, "leader-1"), (2, "leader-1"), (1, "leader-2"), (3, "leader-2"), (3, "leader-3"), (2**40, "leader-2"), (2, "")],
    )
    @pytest.mark.parametrize("kind", [LeaderDeath, Resignation])
    def test_the_death_of_another_leadership_is_ignored(
        self, world: World, epoch: int, leader_id: str, kind: type[LeaderDeath | Resignation]
    ) -> None:
        """It is late, or forged. Nothing stays of it: the lease of the leader that lives counts as before."""
        world.kill(_started(world, "a", "b", "c"))
        leader = world.leader()
        world.run(2 * LEASE_MS)
        assert world.accepted().acceptance.leader_id == "leader-2"
        for _ in range(3):
            world.leadership.append(LEADERSHIP.encode(kind(epoch, leader_id)))
            world.run(LEASE_MS)
        assert _grants(world) == 2
        world.kill(leader)
        world.leader()
        world.run(3 * LEASE_MS)
        assert _grants(world) == 3

    @pytest.mark.rule("L2a")
    def test_a_standby_that_reads_of_a_death_before_the_log_deposes_nobody(self, world: World) -> None:
        """Its grant is of an epoch that another one has been granted by then."""
        leader = _started(world, "a", "b", "c")
        late = world.nodes["c"]
        late.is_blind = late.is_deaf = True
        world.kill(leader, is_guarded=True)
        world.run_until(lambda: world.nodes["b"].role is Role.LEADER)
        late.participant.on_leadership(LEADERSHIP.encode(leader.wires.will), world.now_ms)
        world.run_until(lambda: late.role is Role.CANDIDATE)
        late.is_blind = late.is_deaf = False
        world.run(2 * LEASE_MS)
        assert _grants(world) == 3
        assert world.nodes["b"].role is Role.LEADER
        assert world.accepted().acceptance.epoch == 2

    @pytest.mark.rule("L2a")
    @pytest.mark.parametrize("is_resigning", [True, False])
    def test_a_leader_after_one_that_died_is_in_recovery_mode_and_after_one_that_resigned_is_not(
        self, world: World, monkeypatch: pytest.MonkeyPatch, *, is_resigning: bool
    ) -> None:
        """P10: what the dead one was about to decide may have been its death."""
        entered = []
        leader = _started(world, "a", "b")
        monkeypatch.setattr("eventflink.leadership.recovery.RecoveryMode.enter_recovery", lambda *_: entered.append(True))
        if is_resigning:
            leader.participant.resign()
        world.kill(leader, is_guarded=True)
        world.run_until(lambda: world.nodes["b"].role is Role.LEADER, LEASE_MS // 2)
        assert entered == [True] * (not is_resigning)


class TestTheOneThatIsSaidToBeDead:
    @pytest.mark.rule("L2a")
    def test_it_leads_as_long_as_nobody_else_does(self, world: World) -> None:
        """A cluster of one master must not stand still because somebody says so."""
        leader = _started(world, "a")
        world.leadership.append(LEADERSHIP.encode(LeaderDeath(1, "leader-1")))
        world.command("r")
        world.run(2 * LEASE_MS)
        assert leader.role is Role.LEADER
        assert leader.ends == []
        assert leader.participant.next_due_ms(world.now_ms) > world.now_ms, "it would be busy with it for ever"
        assert world.answered() == ["r"]

    @pytest.mark.rule("L2a")
    def test_it_is_deposed_by_the_log_and_nothing_is_lost_or_done_twice(self, world: World) -> None:
        leader = _started(world, "a", "b")
        leader.is_blind = True
        world.command("decided in vain")
        world.run(20)
        world.leadership.append(LEADERSHIP.encode(LeaderDeath(1, "leader-1")))
        world.run_until(lambda: world.nodes["b"].role is Role.LEADER)
        leader.is_blind = False
        world.run(2 * LEASE_MS)
        assert leader.role is Role.STANDBY
        assert [event.request_id for event in world.events(RequestRejected)] == ["decided in vain"]
        assert world.accepted().acceptance.epoch == 2


class TestWill:
    def test_the_guardian_of_one_that_leads_or_may_have_been_granted_to_knows_its_leadership(self, world: World) -> None:
        first, second = world.start("a"), world.start("b")
        world.run_until(lambda: first.participant.role is not Role.STANDBY)
        assert _will(first) == LeaderDeath(1, "leader-1")
        world.leader()
        assert _will(first) == LeaderDeath(1, "leader-1")
        assert _will(second) is None

    def test_a_candidate_that_dies_with_its_grant_on_its_way_is_followed_at_once(self, world: World) -> None:
        leader = _started(world, "a", "b", "c")
        candidate = world.nodes["b"]
        candidate.is_blind = True
        world.kill(leader, is_guarded=True)
        world.run_until(lambda: candidate.role is Role.CANDIDATE)
        world.run(20)
        world.kill(candidate, is_guarded=True)
        assert world.run_until(lambda: world.nodes["c"].role is Role.LEADER) < LEASE_MS // 2
        assert world.accepted().acceptance.epoch == 3

    @pytest.mark.rule("L2a")
    def test_it_stands_when_the_leadership_ends_by_an_error_and_is_true_when_the_process_ends_later(self, world: World) -> None:
        leader = _started(world, "a", "b")
        world.command("decided and still on its way")
        leader.act()
        leader.participant.step_down("the test says so")
        assert _will(leader) == LeaderDeath(1, "leader-1")
        world.kill(leader, is_guarded=True)
        assert world.run_until(lambda: world.nodes["b"].role is Role.LEADER) < LEASE_MS // 2
        world.run(LEASE_MS)
        assert world.accepted().acceptance.epoch == 2
        assert [event.request_id for event in world.events(RequestRejected)] == ["decided and still on its way"]

    def test_it_is_void_when_another_one_was_granted_to(self, world: World) -> None:
        leader = _started(world, "a", "b")
        leader.is_frozen = True
        world.run_until(lambda: world.nodes["b"].role is Role.LEADER)
        leader.is_frozen = False
        world.run(100)
        assert _will(leader) is None
        assert _will(world.nodes["b"]) == LeaderDeath(2, "leader-2")


class TestForgedHeartbeats:
    """L2: whoever may write to `leadership` may name any leadership; only the log tells which there is."""

    @pytest.mark.rule("L2")
    @pytest.mark.parametrize(
        ("epoch", "leader_id"), [(1, "leader-1"), (2, "leader-1"), (2, ""), (3, "leader-3"), (3, "leader-2"), (2**62, "leader-2")]
    )
    def test_a_heartbeat_of_another_leadership_deposes_nobody_and_keeps_nobody_from_leading(
        self, world: World, epoch: int, leader_id: str
    ) -> None:
        world.kill(_started(world, "a", "b", "c"))
        leader = world.leader()
        world.run(LEASE_MS)
        forged = LEADERSHIP.encode(LeaderHeartbeat(epoch, leader_id, "nobody", "nowhere:1", 2**62))
        world.leadership.append(forged)
        world.run(15 * LEASE_MS)
        assert _grants(world) == 2
        assert [node.ends for node in world.nodes.values()] == [[], []]
        world.kill(leader)

        def is_followed() -> bool:
            world.leadership.append(forged)
            return any(node.role is Role.LEADER for node in world.nodes.values())

        assert world.run_until(is_followed) <= 2 * LEASE_MS
        assert _grants(world) == 3

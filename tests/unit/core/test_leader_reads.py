"""A read sees what was accepted, says up to where, and is refused when nobody can answer for it any more (P4, L4)."""

from typing import Any

import pytest

from eventflink.events.topics import Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.fold import Fold
from eventflink.leadership.reads import MAX_WAITING, Answered, Read, ReadRefused
from eventflink.model.statuses import Role
from tests.support.cluster import graph, vertex
from tests.support.participants import LEASE_MS, Node, World


class Asked:
    """A read of the job ids, and what came of it."""

    def __init__(self, node: Node, min_offset: int = -1, compute: Any = None, **more: Any) -> None:
        self.answers: list[Answered | ReadRefused] = []
        self.read = Read(min_offset, compute or (lambda fold: list(fold.master.dispatcher.jobs)), self.answers.append, **more)
        node.participant.reads.ask(self.read)

    @property
    def answer(self) -> Answered:
        [answer] = self.answers
        assert isinstance(answer, Answered), answer
        return answer

    @property
    def refusal(self) -> str:
        [answer] = self.answers
        assert isinstance(answer, ReadRefused), answer
        return str(answer)


def _leader(world: World) -> Node:
    node = world.start("a", election=SingleMaster())
    world.run(50)
    return node


def _decide(world: World, node: Node, job_id: str) -> None:
    """Have a job decided, and not read back."""
    world.submit(graph(vertex("a")), job_id)
    node.is_blind = True
    node.receive()
    node.participant.turn(lambda: world.now_ms, world.wall_ms)


def _read_back(world: World, node: Node) -> None:
    """Hand over all that was decided at once."""
    node.is_blind = False
    node.receive()
    node.participant.read_back(world.now_ms)


class TestLeader:
    def test_a_leader_at_rest_answers_at_once_with_the_offset_it_reflects(self, world: World) -> None:
        node = _leader(world)
        asked = Asked(node)
        assert asked.answer == Answered([], len(world.log) - 1, 1, Role.LEADER.value)

    def test_an_answer_waits_until_the_decisions_before_it_were_accepted(self, world: World) -> None:
        """P4: nobody may see what may never have been."""
        node = _leader(world)
        _decide(world, node, "job")
        asked = Asked(node)
        assert asked.answers == []
        _read_back(world, node)
        assert asked.answer == Answered(["job"], len(world.log) - 1, 1, Role.LEADER.value)

    def test_an_answer_does_not_wait_for_decisions_after_it_and_does_not_reflect_them(self, world: World) -> None:
        """L4: the offset says what is in it; who reads from that offset on misses nothing."""
        node = _leader(world)
        _decide(world, node, "one")
        before = len(world.log) - 1
        asked = Asked(node)
        _decide(world, node, "two")
        _decide(world, node, "three")
        later = Asked(node)
        _read_back(world, node)
        assert (asked.answer.value, asked.answer.log_offset) == (["one"], before)
        assert (later.answer.value, later.answer.log_offset) == (["one", "two", "three"], before + 2)

    def test_an_answer_is_computed_when_it_is_asked_for_and_not_when_it_is_given(self, world: World) -> None:
        node = _leader(world)
        _decide(world, node, "one")
        computed: list[int] = []
        Asked(node, compute=lambda _: computed.append(1))
        assert computed == [1]
        _read_back(world, node)
        assert computed == [1]

    def test_a_read_that_wants_quiet_is_computed_from_the_accepted_state_alone(self, world: World) -> None:
        node = _leader(world)
        _decide(world, node, "one")
        offsets: list[int] = []

        def compute(fold: Fold) -> None:
            assert node.participant.is_drained
            offsets.append(fold.last_offset)

        asked = Asked(node, compute=compute, when_quiet=True)
        assert offsets == []
        _read_back(world, node)
        assert offsets == [asked.answer.log_offset] == [len(world.log) - 1]

    @pytest.mark.parametrize("end", ["deposed", "resign"])
    def test_a_read_is_refused_when_the_leadership_ends_before_its_decisions_were_accepted(self, world: World, end: str) -> None:
        node = _leader(world)
        _decide(world, node, "job")
        held, waiting = Asked(node), Asked(node, min_offset=1_000)
        if end == "deposed":
            node.participant.step_down("deposed")
        else:
            node.participant.resign()
        reason = "deposed" if end == "deposed" else "the master stops"
        assert (held.refusal, waiting.refusal) == (reason, reason)
        assert Asked(node).refusal == reason, "and nothing is answered from a doubtful state afterwards"
        world.kill(node)

    def test_a_deposed_leader_refuses_what_it_held(self, world: World) -> None:
        node = _leader(world)
        _decide(world, node, "job")
        asked = Asked(node)
        world.log.pop()
        world.timestamps.pop()
        rival = world.start("b", election=SingleMaster())
        rival.participant.tick(world.now_ms, world.wall_ms)
        world.kill(rival)
        node.is_blind = False
        node.receive()
        node.act()
        assert "the epoch 2 of leader-2 began" in asked.refusal

    def test_a_leader_asked_for_an_offset_that_is_not_there_yet_waits_for_it(self, world: World) -> None:
        node = _leader(world)
        asked = Asked(node, min_offset=len(world.log))
        assert asked.answers == []
        world.submit(graph(vertex("a")), "job")
        world.run(20)
        assert asked.answer.value == ["job"]


class TestStandby:
    def test_a_standby_answers_from_what_it_has_folded(self, world: World) -> None:
        _leader(world)
        standby = world.start("b")
        world.submit(graph(vertex("a")), "job")
        world.run(50)
        assert Asked(standby).answer == Answered(["job"], len(world.log) - 1, 1, Role.STANDBY.value)

    def test_a_standby_waits_until_it_has_folded_the_offset_that_is_asked_for(self, world: World) -> None:
        """A linearizable read: who asks has fetched the end of the log before."""
        _leader(world)
        standby = world.start("b")
        world.run(20)
        standby.is_blind = True
        world.submit(graph(vertex("a")), "job")
        world.run(50)
        asked = Asked(standby, min_offset=len(world.log) - 1)
        stale = Asked(standby)
        assert (asked.answers, stale.answer.value) == ([], [])
        standby.is_blind = False
        world.run(20)
        assert asked.answer.value == ["job"]
        assert asked.answer.log_offset >= len(world.log) - 1

    def test_a_standby_that_is_promoted_answers_what_waited(self, world: World) -> None:
        world.start("a")
        standby = world.start("b")
        world.run(2 * LEASE_MS)
        asked = Asked(standby, min_offset=len(world.log))
        world.kill(world.leader())
        world.run_until(lambda: standby.role is Role.LEADER)
        world.run(20)
        assert asked.answer.epoch == 2


class TestBounds:
    def test_too_many_reads_that_wait_are_refused(self, world: World) -> None:
        node = _leader(world)
        reads = [Asked(node, min_offset=10**6) for _ in range(MAX_WAITING)]
        assert "ask again later" in Asked(node).refusal
        reads[0].read.is_cancelled = True
        world.step()
        assert Asked(node).answer.value == [], "who no longer waits takes no place"

    @pytest.mark.parametrize("held", [True, False])
    def test_who_no_longer_waits_gets_nothing(self, world: World, held: bool) -> None:  # noqa: FBT001 - a case
        node = _leader(world)
        _decide(world, node, "job")
        asked = Asked(node, min_offset=-1 if held else 10**6)
        asked.read.is_cancelled = True
        _read_back(world, node)
        world.run(50)
        node.participant.reads.abort("the end")
        assert asked.answers == []
        world.kill(node)

    def test_a_read_that_cannot_be_computed_is_refused_and_the_leader_goes_on(self, world: World) -> None:
        """A question must not end a leadership."""
        node = _leader(world)
        asked = Asked(node, min_offset=len(world.log), compute=lambda fold: fold.master.dispatcher.jobs["none"])
        world.command("r")
        world.run(50)
        assert "KeyError('none')" in asked.refusal
        assert (node.role, node.ends) == (Role.LEADER, [])
        assert world.answered() == ["r"]

    def test_a_read_is_answered_once(self, world: World) -> None:
        node = _leader(world)
        asked = Asked(node)
        world.put(Topic.COMMANDS, b"garbage")
        world.run(100)
        assert len(asked.answers) == 1

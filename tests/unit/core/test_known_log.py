"""P5a: what is known to have been in a topic is held against what is there, and nothing is decided on less."""

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.seal import Seals
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import InboundTopic, TopicReplaced
from eventflink.leadership.known_log import KnownLog, LogTruncated, check_heard, place_inbound
from eventflink.leadership.master_life import TRUNCATED_LOOKS, Exit, Rebuild
from eventflink.master.requests import Cursor
from tests.support.cluster import ScriptedCluster, graph, replay, vertex
from tests.unit.core.test_master_life import Driver

CODEC = PayloadCodec("LeadershipEnvelope")


def heartbeat(fold: Fold, log_offset: int, *, epoch: int | None = None, leader_id: str | None = None) -> bytes:
    acceptance = fold.acceptance
    epoch = acceptance.epoch if epoch is None else epoch
    return CODEC.encode(LeaderHeartbeat(epoch, acceptance.leader_id if leader_id is None else leader_id, "m", "m:1", log_offset))


def known_by(fold: Fold) -> KnownLog:
    known = KnownLog()
    known.note(fold)
    return known


@pytest.mark.rule("P5a")
def test_a_log_that_has_less_than_was_read_is_refused_by_what_is_missing(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), job_id="one")
    whole = replay(cluster.log)
    known = known_by(whole)
    known.check(whole)
    with pytest.raises(
        LogTruncated, match=rf"ends at 1, and the records 1 to {whole.last_offset} are missing, which this process has read"
    ):
        known.check(replay(cluster.log[:1]))
    with pytest.raises(LogTruncated, match=rf"the record {whole.last_offset} is missing"):
        known.check(replay(cluster.log[:-1]))
    cluster.submit(graph(vertex("a")), job_id="two")
    known.check(replay(cluster.log))


@pytest.mark.rule("P5a")
def test_a_log_with_other_records_where_some_were_read_is_refused(cluster: ScriptedCluster) -> None:
    other = ScriptedCluster()
    cluster.submit(graph(vertex("a")), job_id="one")
    other.submit(graph(vertex("a")), job_id="another")
    length = min(len(cluster.log), len(other.log))
    with pytest.raises(LogTruncated, match=f"up to the record {length - 1} it has other records"):
        known_by(replay(cluster.log[:length])).check(replay(other.log[:length]))


def test_what_is_known_never_becomes_less(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")), job_id="one")
    known = known_by(replay(cluster.log))
    known.note(replay(cluster.log[:1]))
    assert known == known_by(replay(cluster.log))


@pytest.mark.rule("P5a")
def test_a_master_whose_log_became_shorter_looks_again_and_then_ends_and_says_so() -> None:
    """A broker that is not in charge any more may name an earlier end for a moment."""
    driver = Driver()
    driver.lead()
    driver.life.end_term(None)
    shorter = driver.log[:1]
    assert len(shorter) < len(driver.log)
    error = LogTruncated("log", "it is shorter")
    with pytest.raises(LogTruncated):
        driver.life.known.check(replay(shorter))
    steps = [driver.life.failed(error, driver.now_ms) for _ in range(TRUNCATED_LOOKS)]
    assert [type(step) for step in steps] == [Rebuild] * (TRUNCATED_LOOKS - 1) + [Exit]
    assert steps[-1] == Exit(None, error, is_failure=True)
    assert driver.life.participant is None


@pytest.mark.rule("P5a")
def test_an_inbound_topic_that_became_shorter_ends_the_master_at_the_first_look() -> None:
    """At the second one it may have grown past the cursor, by what nobody would decide."""
    driver = Driver()
    driver.lead()
    error = LogTruncated("commands", "it is shorter")
    assert driver.life.failed(error, driver.now_ms) == Exit(None, error, is_failure=True)


def test_a_log_that_is_found_whole_at_the_second_look_is_led_from_again() -> None:
    driver = Driver()
    driver.lead()
    assert isinstance(driver.life.failed(LogTruncated("log", "it is shorter"), driver.now_ms), Rebuild)
    driver.life.known.check(driver.fold())
    assert driver.begin().fold.last_offset == len(driver.log) - 1


@pytest.mark.rule("P5a")
def test_a_log_that_ends_before_what_its_last_leader_said_to_have_read_is_refused(cluster: ScriptedCluster) -> None:
    fold = replay(cluster.log)
    check_heard(fold, [heartbeat(fold, fold.last_offset)])
    with pytest.raises(LogTruncated, match=rf"the records {fold.last_offset + 1} to 99 are missing, which the leader .* said to have read"):
        check_heard(fold, [heartbeat(fold, 99), heartbeat(fold, fold.last_offset)])


@pytest.mark.rule("P5a")
def test_a_grant_behind_a_loss_does_not_hide_what_the_leader_before_had_read(cluster: ScriptedCluster) -> None:
    """Until the leadership that it grants says itself how far it has read: an operator may have accepted the end meanwhile."""
    fold = replay(cluster.log)
    before, end = fold.acceptance.epoch, fold.last_offset
    fold.acceptance.advance(before + 1, 0, "a standby that had not noticed the loss")
    seal = Seals((b"the secret of this cluster, 32 chars",)).of(Topic.LEADERSHIP)
    sealed = PayloadCodec("LeadershipEnvelope", seal=seal)
    old, own = (sealed.encode(LeaderHeartbeat(e, fold.acceptance.leader_id, "m", "m:1", o)) for e, o in ((before, 99), (before + 1, end)))
    with pytest.raises(LogTruncated, match=rf"the records {end + 1} to 99 are missing, which the leader .* of epoch {before} said"):
        check_heard(fold, [old], seal)
    check_heard(fold, [old, own], seal)
    check_heard(fold, [old])  # Without a secret anybody could have said it.


@pytest.mark.rule("P5a")
def test_what_anybody_else_says_to_have_read_proves_nothing(cluster: ScriptedCluster) -> None:
    fold = replay(cluster.log)
    others = [{"epoch": fold.acceptance.epoch + 1}, {"epoch": 2**62}, {"leader_id": "somebody"}, {"epoch": 0}]
    check_heard(fold, [b"garbage", None, b"", *(heartbeat(fold, 2**62, **other) for other in others)])  # type: ignore[arg-type]


class TestInboundTopics:
    CURSOR = Cursor("id-1", 20)

    def test_one_that_reaches_to_its_cursor_is_read_from_there(self) -> None:
        for low, high, first in ((0, 20, 20), (0, 25, 20), (23, 25, 23)):
            found = InboundTopic("id-1", low, high)
            assert place_inbound("commands", self.CURSOR, found, may_rebind=True) == (found, first)
        fresh = InboundTopic("id-1", 3, 7)
        assert place_inbound("commands", None, fresh, may_rebind=False) == (fresh, 3)

    @pytest.mark.rule("P5a")
    def test_one_that_ends_before_its_cursor_stops_the_master_and_says_what_is_missing(self) -> None:
        with pytest.raises(LogTruncated, match=r"topic=commands: it ends at 12, and the records 12 to 19 are missing") as caught:
            place_inbound("commands", self.CURSOR, InboundTopic("id-1", 0, 12), may_rebind=False)
        assert "--rebind commands" in str(caught.value)
        assert caught.value.topic == Topic.COMMANDS

    def test_by_an_operators_word_it_is_read_from_its_end(self) -> None:
        found, first = place_inbound("commands", self.CURSOR, InboundTopic("id-1", 0, 12), may_rebind=True)
        assert (found.is_rewound, found.is_rebound, first) == (True, False, 12)

    def test_one_that_was_created_again_is_another_matter(self) -> None:
        with pytest.raises(TopicReplaced, match="deleted and created again"):
            place_inbound("commands", self.CURSOR, InboundTopic("id-2", 0, 12), may_rebind=False)
        found, first = place_inbound("commands", self.CURSOR, InboundTopic("id-2", 0, 12), may_rebind=True)
        assert (found.is_rewound, found.is_rebound, first) == (False, True, 0)

"""P19: a rolling upgrade between two feature levels, of which the newer one is invented (`tests/support/feature_levels.py`)."""

import pytest

from eventflink.events.codec import HEADER_LENGTH, DecisionCodec
from eventflink.events.inputs import DrillStep, TaskManagerRegistration
from eventflink.events.log_events import DrillStepOrdered, FeatureLevelRaised, RequestRejected, TaskManagerRegistered
from eventflink.events.schemas import MARKER, fingerprint_of
from eventflink.events.topics import Topic
from eventflink.leadership.election import SingleMaster
from eventflink.leadership.fold import LogUnusable
from eventflink.master.inputs import RaiseFeatureLevel
from eventflink.master.settings import MasterSettings
from eventflink.model.features import FEATURE_LEVEL, FIRST_LEVEL
from eventflink.model.statuses import DrillStepType
from tests.support.cluster import REPORTS, ScriptedCluster
from tests.support.feature_levels import ADDED_LEVEL, EARLIER, LATER, earlier_fold, later_fold
from tests.support.participants import LEASE_MS, Node, World

DRILLS = MasterSettings(drills_allowed=True)
RAISED = [FeatureLevelRaised(FIRST_LEVEL, ADDED_LEVEL)]


@pytest.fixture
def world() -> World:
    """Return a world whose masters know the invented level where nothing else is said, and whose log is read by one that does."""
    return World(new_fold=later_fold)


def _start(world: World, master_id: str, *, earlier: bool = False) -> Node:
    return world.start(master_id, settings=DRILLS, new_fold=earlier_fold if earlier else later_fold)


def _earlier_cluster(world: World) -> None:
    """Have a master of the earlier version lead first."""
    node = world.start("old", election=SingleMaster(), new_fold=earlier_fold)
    world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("tm", "tm-1", "h", 1, 1, metrics_address="h:1")]))
    world.run(50)
    world.kill(node)
    assert world.events(FeatureLevelRaised) == []
    assert len(world.events(TaskManagerRegistered)) == 1


def _schemas_of(records: list[bytes]) -> set[bytes]:
    return {value[len(MARKER) : HEADER_LENGTH] for value in records}


def _fingerprint(level: int) -> bytes:
    return fingerprint_of(LATER.registry.releases[level - 1])


def test_this_version_writes_the_newest_level_and_the_decision_is_released_once_a_level() -> None:
    assert DecisionCodec().feature_level == FEATURE_LEVEL
    assert ScriptedCluster().master.upkeep.feature_level == FIRST_LEVEL


class TestRaising:
    def test_a_new_cluster_writes_everything_at_once(self, world: World) -> None:
        """There is no older master that could have read its log."""
        world.start("a", election=SingleMaster())
        world.run(50)
        assert world.events(FeatureLevelRaised) == RAISED

    @pytest.mark.rule("P19")
    def test_it_is_raised_when_every_master_that_was_heard_of_can_read_it_and_not_before_three_leases(self, world: World) -> None:
        _earlier_cluster(world)
        _start(world, "a")
        _start(world, "b")
        world.leader()
        began_ms = world.now_ms
        world.run(3 * LEASE_MS - 100)
        assert world.events(FeatureLevelRaised) == []
        world.run_until(lambda: bool(world.events(FeatureLevelRaised)))
        assert world.now_ms - began_ms >= 3 * LEASE_MS
        world.run(5 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == RAISED

    def test_it_is_not_raised_while_an_older_master_is_heard_of_and_is_soon_after_it_left(self, world: World) -> None:
        _earlier_cluster(world)
        _start(world, "a")
        older = _start(world, "b", earlier=True)
        world.leader()
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []
        world.kill(older)
        world.run(3 * LEASE_MS - 600)
        assert world.events(FeatureLevelRaised) == [], "it may only be slow"
        world.run(LEASE_MS)
        assert len(world.events(FeatureLevelRaised)) == 1

    @pytest.mark.rule("P19")
    def test_it_is_not_raised_while_an_older_master_may_come_back(self, world: World) -> None:
        """It was cut off or stopped for some leases: it would find a log that it cannot read, and nobody could go back."""
        world.feature_level_wait_ms = 20 * LEASE_MS
        _earlier_cluster(world)
        _start(world, "a")
        older = _start(world, "b", earlier=True)
        world.leader()
        for _ in range(2):
            older.is_frozen = True
            world.run(19 * LEASE_MS)
            older.is_frozen = False
            world.run(2 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []
        assert older.ends == []
        world.kill(older)
        world.run(19 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []
        world.run(2 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == RAISED

    @pytest.mark.rule("P19")
    def test_it_is_never_raised_where_an_operator_says_so(self, world: World) -> None:
        world.feature_level_wait_ms = -1
        _earlier_cluster(world)
        _start(world, "a")
        world.run(30 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []

    def test_a_leader_never_raises_it_beyond_what_it_can_read_itself(self, world: World) -> None:
        world.start("a", election=SingleMaster(), new_fold=earlier_fold)
        _start(world, "b")
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []

    def test_a_leader_that_hears_nobody_raises_nothing(self, world: World) -> None:
        """It does not even hear itself: there may be older masters."""
        _earlier_cluster(world)
        deaf = world.start("a", election=SingleMaster())
        deaf.is_deaf = True
        world.run(10 * LEASE_MS)
        assert world.events(FeatureLevelRaised) == []

    def test_raising_to_a_level_that_is_reached_decides_nothing(self, cluster: ScriptedCluster) -> None:
        count = len(cluster.log)
        cluster.timer(RaiseFeatureLevel(FEATURE_LEVEL), RaiseFeatureLevel(FIRST_LEVEL - 1))
        assert len(cluster.log) == count


class TestRollingUpgrade:
    @pytest.mark.rule("P19")
    def test_what_a_level_added_is_written_once_it_was_raised_and_every_master_follows(self, world: World) -> None:
        _earlier_cluster(world)
        older, newer = _start(world, "a", earlier=True), _start(world, "b")
        older.is_frozen = True
        assert world.leader() is newer
        older.is_frozen = False
        step = DrillStep(drill_id="d", step=DrillStepType.STOP, master_id="b")
        world.send(step)
        world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("new", "new-1", "h", 1, 1, metrics_address="h:1")]))
        world.run(2 * LEASE_MS)
        assert [refused.code for refused in world.events(RequestRejected)] == ["FeatureLevelTooLow"]
        assert [registered.metrics_address for registered in world.events(TaskManagerRegistered)] == ["", ""]
        assert _schemas_of(world.log) == {_fingerprint(FIRST_LEVEL)}
        assert older.participant.fold.last_offset == len(world.log) - 1
        world.check()
        world.kill(older)
        world.run_until(lambda: bool(world.events(FeatureLevelRaised)))
        raised = len(world.log)
        _start(world, "c")
        world.send(step)
        world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("third", "third-1", "h", 1, 1, metrics_address="h:1")]))
        world.run(2 * LEASE_MS)
        assert len(world.events(DrillStepOrdered)) == 1
        assert [registered.metrics_address for registered in world.events(TaskManagerRegistered)] == ["", "", "h:1"]
        assert _schemas_of(world.log[:raised]) == {_fingerprint(FIRST_LEVEL)}, "the raise itself is written at the level before"
        assert _schemas_of(world.log[raised:]) == {_fingerprint(ADDED_LEVEL)}
        world.check()

    @pytest.mark.rule("P19")
    def test_an_older_master_that_meets_the_raise_goes_no_further(self, world: World) -> None:
        """It was frozen, so that nobody heard of it."""
        _earlier_cluster(world)
        older = _start(world, "a", earlier=True)
        older.is_frozen = True
        _start(world, "b")
        world.run_until(lambda: bool(world.events(FeatureLevelRaised)))
        older.is_frozen = False
        with pytest.raises(LogUnusable, match="the feature level is 2; this version reads up to 1"):
            world.run(LEASE_MS)

    def test_a_log_of_the_earlier_version_leads_to_the_same_state_in_the_later_one(self, world: World) -> None:
        _earlier_cluster(world)
        folds = later_fold(), earlier_fold()
        for fold in folds:
            for offset, value in enumerate(world.log):
                fold.fold_record(offset, 0, value)
        assert folds[0].master.digest() == folds[1].master.digest()
        assert folds[0].running_hash == folds[1].running_hash


@pytest.mark.rule("P19")
def test_an_event_that_a_level_does_not_have_cannot_be_written_at_it() -> None:
    """Whatever decides it: the log stays readable."""
    event = DrillStepOrdered("d", DrillStepType.STOP, "a", 0)
    for codec, level in ((LATER, FIRST_LEVEL), (EARLIER, FIRST_LEVEL)):
        with pytest.raises(ValueError, match=r"the schema of feature level 1 has no eventflink\.DrillStepOrdered"):
            codec.encode_events([event], level)
    assert LATER.decode_events(LATER.encode_events([event], ADDED_LEVEL), ADDED_LEVEL) == (event,)

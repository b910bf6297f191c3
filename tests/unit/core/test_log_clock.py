"""P20: no single clock moves the log's time, whether a master's or a broker's; what a process saw pass counts by its own."""

import pytest

from eventflink.events.log_events import SlotRequestTimedOut
from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.log_clock import LogClock, LogSightings
from eventflink.model.statuses import JobStatus, Role
from tests.support.cluster import START_MS, ScriptedCluster, graph, vertex
from tests.support.participants import LEASE_MS, World

YEAR_MS = 31_536_000_000
HOUR_MS = 3_600_000


def test_time_goes_on_at_the_pace_of_the_monotonic_clock() -> None:
    clock = LogClock(START_MS, 100)
    assert clock.read(100, START_MS) == START_MS
    assert clock.read(1_100, START_MS + 1_000) == START_MS + 1_000


@pytest.mark.rule("P20")
def test_a_wall_clock_far_ahead_draws_by_a_tenth_at_most() -> None:
    clock = LogClock(START_MS, 0)
    assert clock.read(1_000, START_MS + 10**10) == START_MS + 1_100


@pytest.mark.rule("P20")
def test_a_wall_clock_far_behind_neither_stops_nor_turns_time() -> None:
    clock = LogClock(START_MS, 0)
    assert clock.read(1_000, 0) == START_MS + 900
    assert clock.read(500, 0) == START_MS + 900
    assert clock.read(1_000, 0) == START_MS + 900


def test_it_meets_the_wall_clock_and_stays_there() -> None:
    clock = LogClock(START_MS, 0)
    for step in range(1, 100):
        now = clock.read(step * 100, START_MS + 500 + step * 100)
    assert now == START_MS + 500 + 9_900


def test_reading_often_draws_as_much_as_reading_seldom() -> None:
    """A busy leader reads it every millisecond: a tenth of a millisecond is not nothing."""
    often, seldom = LogClock(START_MS, 0), LogClock(START_MS, 0)
    for step in range(1, 1_001):
        now = often.read(step, START_MS + 10**9 + step)
    assert now == seldom.read(1_000, START_MS + 10**9 + 1_000) == START_MS + 1_100


@pytest.mark.rule("P20")
def test_the_time_of_decisions_never_goes_back_over_a_change_of_leader(cluster: ScriptedCluster) -> None:
    """Also where the new leader's wall clock is a year behind."""
    cluster.register()
    cluster.pass_time(5_000)
    cluster.submit(graph(vertex("a")))
    count = len(cluster.log)
    cluster.wall_ms += 2_000
    cluster.fail_over()
    cluster.wall_ms -= 31_536_000_000
    cluster.cancel()
    times = [d.decided_at_ms for d in cluster.decisions()]
    assert times == sorted(times)
    assert times[-1] - times[count - 1] == 2_000


class TestSightings:
    """For how long nobody has decided: what a process saw, and before that what two clocks say alike."""

    def test_what_a_process_followed_counts_by_its_own_clock_alone(self) -> None:
        sightings = LogSightings()
        sightings.rebuilt(Acceptance(1, 1, "a"), 1_000)
        sightings.followed(Acceptance(1, 2, "a"), 2_000)
        for claim_ms in (-YEAR_MS, 0, 1_500, YEAR_MS):
            assert sightings.silence_ms(claim_ms, claim_ms, 3_500) == 1_500

    @pytest.mark.rule("P20")
    @pytest.mark.parametrize(
        ("stamped_ms", "wall_ms", "silence_ms"),
        [
            (HOUR_MS, HOUR_MS, HOUR_MS),
            (YEAR_MS, HOUR_MS, HOUR_MS),
            (HOUR_MS, YEAR_MS, HOUR_MS),
            (-YEAR_MS, HOUR_MS, 500),
            (0, HOUR_MS, 500),
            (HOUR_MS, -YEAR_MS, 500),
        ],
    )
    def test_what_was_before_a_process_began_counts_as_far_as_both_clocks_say(self, stamped_ms: int, wall_ms: int, silence_ms: int) -> None:
        sightings = LogSightings()
        sightings.rebuilt(Acceptance(3, 7, "a"), 10_000)
        assert sightings.silence_ms(stamped_ms, wall_ms, 10_500) == silence_ms

    def test_what_was_written_between_two_terms_is_no_older_than_the_first_of_them(self) -> None:
        """The clock of a host on which both run, the broker and the master, may jump as one."""
        sightings = LogSightings()
        sightings.rebuilt(Acceptance(1, 0, "a"), 0)
        sightings.followed(Acceptance(1, 5, "a"), 10_000)
        sightings.rebuilt(Acceptance(2, 9, "b"), 14_000)
        assert sightings.silence_ms(YEAR_MS, YEAR_MS, 15_000) == 5_000
        assert sightings.silence_ms(3_000, 3_000, 15_000) == 3_000

    def test_what_was_seen_in_an_earlier_term_is_as_old_as_then(self) -> None:
        sightings = LogSightings()
        sightings.followed(Acceptance(1, 5, "a"), 10_000)
        sightings.rebuilt(Acceptance(1, 5, "a"), 14_000)
        assert sightings.silence_ms(0, 0, 15_000) == 5_000


class TestChangeOfLeader:
    """The broker that leads the log's partition has another clock from the election on."""

    @pytest.mark.rule("P20")
    @pytest.mark.parametrize("offset_ms", [YEAR_MS, HOUR_MS, -HOUR_MS, -YEAR_MS])
    def test_a_standby_that_followed_counts_what_it_saw_whatever_the_broker_stamps(self, world: World, offset_ms: int) -> None:
        for master_id in ("a", "b"):
            world.start(master_id)
        leader = world.leader()
        world.command("first")
        world.run(LEASE_MS)
        began_ms, decided_ms = world.now_ms, world.accepted().last_decided_at_ms
        world.kill(leader)
        world.stamp_offset_ms = offset_ms
        world.run_until(lambda: any(node.role is Role.LEADER for node in world.nodes.values()))
        world.command("second")
        world.run(50)
        truly_ms = world.now_ms - began_ms + LEASE_MS
        passed_ms = world.accepted().last_decided_at_ms - decided_ms
        assert truly_ms - 100 <= passed_ms <= truly_ms * 1.1

    @pytest.mark.rule("P20")
    @pytest.mark.parametrize("offset_ms", [YEAR_MS, 6 * 60_000])
    def test_a_broker_ahead_times_out_no_request_and_fails_no_job(self, offset_ms: int) -> None:
        cluster = ScriptedCluster()
        cluster.submit(graph(vertex("a", 5)), job_id="waits")
        cluster.stamp_offset_ms = offset_ms
        cluster.fail_over()
        cluster.pass_time(100)
        assert cluster.events(SlotRequestTimedOut) == []
        assert cluster.job("waits").status is not JobStatus.FAILED

    @pytest.mark.rule("P20")
    def test_hours_in_which_the_whole_cluster_was_down_count(self, world: World) -> None:
        world.start("a")
        node = world.leader()
        world.command("first")
        world.run(100)
        decided_ms = world.accepted().last_decided_at_ms
        world.kill(node)
        world.now_ms += 8 * HOUR_MS
        world.start("b")
        world.leader()
        world.command("second")
        world.run(50)
        assert 8 * HOUR_MS <= world.accepted().last_decided_at_ms - decided_ms <= 8 * HOUR_MS + 5 * LEASE_MS

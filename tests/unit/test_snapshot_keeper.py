"""When a master starts a snapshotter, and what it makes of its end; the snapshotter is a hand that the test moves."""

import asyncio
from dataclasses import dataclass, field

import pytest

from eventflink.master.upkeep import SnapshotRecord, Upkeep
from eventflink.model.configuration import Configuration, build_configuration
from eventflink.snapshots.keeper import (
    CONFIRM_GRACE_S,
    FIRST_BACKOFF_S,
    MAX_BACKOFF_S,
    TIMEOUT_S,
    MomentOfCluster,
    SnapshotKeeper,
    SnapshotTask,
)
from eventflink.snapshots.snapshotter import DONE, FAILED, REFUTED

INTERVAL = 1000


@dataclass
class Process:
    """A snapshotter that ends when the test says so."""

    code: int | None = None
    killed: bool = False

    def poll(self) -> int | None:
        return self.code

    def kill(self) -> None:
        self.killed = True

    def wait(self, timeout: float | None = None) -> int:
        assert timeout
        assert self.killed
        return -9


def _configuration(**changes: object) -> Configuration:
    keys = {"jobmanager.id": "me", "snapshots.interval-records": INTERVAL, "snapshots.trim-log": True}
    return build_configuration(keys | {name.replace("_", "-").replace("--", "."): value for name, value in changes.items()}, "test")


@dataclass
class Bench:
    """A keeper, its clock, the state that it sees, and what it started."""

    configuration: Configuration = field(default_factory=_configuration)
    now_s: float = 100.0
    offset: int = 0
    leads: bool = False
    rank: int = 0
    upkeep: Upkeep = field(default_factory=Upkeep)
    tasks: list[SnapshotTask] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    keeper: SnapshotKeeper = field(init=False)

    def __post_init__(self) -> None:
        self.keeper = SnapshotKeeper(self.configuration, self._start, lambda: self.now_s)

    def _start(self, task: SnapshotTask) -> Process:
        self.tasks.append(task)
        self.processes.append(Process())
        return self.processes[-1]

    def view(self) -> MomentOfCluster:
        return MomentOfCluster(self.offset, self.upkeep, self.leads, self.rank)

    def tick(self, offset: int | None = None) -> list[str]:
        """Tick, and return the modes that were started by it."""
        before = len(self.tasks)
        self.offset = self.offset if offset is None else offset
        self.keeper.tick(self.view())
        return [task.mode for task in self.tasks[before:]]

    def end(self, code: int) -> list[str]:
        self.processes[-1].code = code
        return self.tick()

    def taken(self, snapshot_id: str, offset: int, by: str, confirmed_by: str = "") -> None:
        self.upkeep.snapshots[snapshot_id] = SnapshotRecord(offset, "digest", 1, 1, by, confirmed_by)


def test_a_snapshot_is_taken_after_every_interval_of_records() -> None:
    bench = Bench()
    assert bench.tick(INTERVAL - 2) == []
    assert bench.tick(INTERVAL - 1) == ["take"]
    bench.taken("a", INTERVAL - 1, "me")
    assert bench.end(DONE) == []
    assert bench.tick(2 * INTERVAL - 2) == []
    assert bench.tick(2 * INTERVAL - 1) == ["take"]


def test_there_is_one_snapshotter_at_a_time() -> None:
    bench = Bench()
    assert bench.tick(INTERVAL) == ["take"]
    assert bench.tick(10 * INTERVAL) == []
    assert bench.end(DONE) == ["take"]


def test_a_snapshot_whose_report_is_still_undecided_is_not_taken_again() -> None:
    bench = Bench()
    assert bench.tick(INTERVAL) == ["take"]
    assert bench.end(DONE) == []
    assert bench.tick(INTERVAL + 5) == []


def test_masters_take_turns_by_rank_so_that_one_of_them_does_it() -> None:
    first, second, leader = Bench(rank=0), Bench(rank=1), Bench(rank=2, leads=True)
    assert [bench.tick(INTERVAL) for bench in (leader, second, first)] == [[], [], ["take"]]
    for bench in (second, leader):
        bench.taken("a", INTERVAL, "first")
        assert bench.tick(INTERVAL + INTERVAL // 2) == []


def test_a_leader_whose_standbys_do_nothing_does_it_itself() -> None:
    leader = Bench(rank=2, leads=True)
    assert leader.tick(INTERVAL + INTERVAL // 5 - 2) == []
    assert leader.tick(INTERVAL + INTERVAL // 5 - 1) == ["take"]


def test_no_snapshot_is_taken_where_the_interval_is_zero() -> None:
    bench = Bench(_configuration(snapshots__interval_records=0))
    assert bench.tick(10**9) == []


def test_the_snapshot_of_another_master_is_confirmed_from_confirmed_ones_only() -> None:
    bench = Bench()
    bench.taken("a", 10, "other", "third")
    bench.taken("b", 20, "other")
    bench.taken("c", 30, "other")
    assert bench.tick(40) == ["confirm"]
    assert bench.tasks[-1] == SnapshotTask("confirm", "c", ("a",))
    assert bench.end(DONE) == []  # The confirmation is on its way.
    assert bench.tick() == []


def test_a_snapshot_of_ones_own_is_not_confirmed_nor_one_that_is_already() -> None:
    bench = Bench()
    bench.taken("a", 10, "me")
    assert bench.tick(40) == []
    bench.taken("b", 20, "other", "third")
    assert bench.tick() == []


def test_a_master_of_lower_rank_leaves_the_confirmation_to_the_others_for_a_while() -> None:
    bench = Bench(rank=2)
    bench.taken("a", 10, "other")
    assert bench.tick(40) == []
    bench.now_s += 2 * CONFIRM_GRACE_S - 1
    assert bench.tick() == []
    bench.now_s += 1
    assert bench.tick() == ["confirm"]


def test_a_refuted_snapshot_is_not_asked_about_again_but_the_next_one_is() -> None:
    bench = Bench()
    bench.taken("a", 10, "other")
    assert bench.tick(40) == ["confirm"]
    assert bench.end(REFUTED) == []
    bench.now_s += MAX_BACKOFF_S
    assert bench.tick() == []
    bench.taken("b", 20, "other")
    assert bench.tick() == ["confirm"]
    assert bench.tasks[-1].snapshot_id == "b"


def test_only_the_leader_trims_once_behind_each_confirmed_snapshot() -> None:
    bench = Bench()
    bench.taken("a", 10, "me", "other")
    assert bench.tick(40) == []
    bench.leads = True
    assert bench.tick() == ["trim"]
    assert bench.tasks[-1] == SnapshotTask("trim", "a")
    assert bench.end(DONE) == []
    assert bench.tick() == []
    bench.taken("b", 20, "me", "other")
    assert bench.tick() == ["trim"]


def test_a_master_that_confirmed_a_snapshot_trims_behind_it_when_it_comes_to_lead() -> None:
    bench = Bench()
    bench.taken("a", 10, "other")
    assert bench.tick(40) == ["confirm"]
    assert bench.end(DONE) == []
    bench.upkeep.snapshots["a"].confirmed_by = "me"
    bench.leads = True
    assert bench.tick() == ["trim"]
    assert bench.end(REFUTED) == []  # It is damaged by now: nothing is deleted, and nobody asks again.
    assert bench.tick() == []


def test_nothing_is_trimmed_unless_it_is_configured_and_confirmed() -> None:
    unconfirmed = Bench(leads=True)
    unconfirmed.taken("a", 10, "me")
    assert unconfirmed.tick(40) == []
    unwanted = Bench(_configuration(snapshots__trim_log=False), leads=True)
    unwanted.taken("a", 10, "me", "other")
    assert unwanted.tick(40) == []


def test_a_snapshotter_that_fails_is_tried_again_with_growing_bounded_back_off() -> None:
    bench = Bench()
    assert bench.tick(INTERVAL) == ["take"]
    wanted_s = FIRST_BACKOFF_S
    for _ in range(12):
        assert bench.end(FAILED) == []
        bench.now_s += wanted_s - 0.5
        assert bench.tick() == []
        bench.now_s += 0.5
        assert bench.tick() == ["take"]
        wanted_s = min(2 * wanted_s, MAX_BACKOFF_S)
    assert bench.end(DONE) == []
    assert bench.tick(3 * INTERVAL) == ["take"]
    assert bench.end(FAILED) == []
    bench.now_s += FIRST_BACKOFF_S
    assert bench.tick() == ["take"]


def test_a_snapshotter_that_hangs_is_killed_after_its_time() -> None:
    bench = Bench()
    bench.tick(INTERVAL)
    bench.now_s += TIMEOUT_S - 1
    bench.tick()
    assert not bench.processes[0].killed
    bench.now_s += 1
    assert bench.tick() == []
    assert bench.processes[0].killed
    bench.now_s += FIRST_BACKOFF_S
    assert bench.tick() == ["take"]


def test_a_snapshotter_that_cannot_be_started_is_a_failure_like_any_other() -> None:
    tries = []

    def refuse(task: SnapshotTask) -> Process:
        tries.append(task)
        raise OSError("no more processes")

    keeper = SnapshotKeeper(_configuration(), refuse, lambda: 100.0)
    view = MomentOfCluster(INTERVAL, Upkeep(), leads=False, rank=0)
    keeper.tick(view)
    keeper.tick(view)
    assert len(tries) == 1


def test_the_snapshotter_ends_with_its_master() -> None:
    async def run_for_a_moment(bench: Bench) -> None:
        task = asyncio.create_task(bench.keeper.run(bench.view))
        await asyncio.sleep(0)
        assert bench.processes
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bench = Bench(offset=INTERVAL)
    asyncio.run(run_for_a_moment(bench))
    assert bench.processes[0].killed

"""Schedules that take the versions of tables: each version belongs to one job, whoever leads, and none is passed over in silence."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventflink.events.log_events import (
    JobSubmitted,
    RequestRejected,
    SchedulePaused,
    TableCursorSet,
    TableSightChanged,
    VersionsClaimed,
)
from eventflink.leadership.table_sightings import sighting_of
from eventflink.master.effects import TableWatch, due_table_watches
from eventflink.master.inputs import TableNotSeen, VersionsSeen
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, schedule_document
from eventflink.model.schedules import FollowedTable, TableVersion, VersionRange
from eventflink.model.statuses import CursorMove, ExecutionState
from eventflink.testing.simulation.outside_writers import OutsideTable
from eventflink.views.schedules import schedule_view
from tests.support.cluster import ScriptedCluster, graph, vertex

SALES = FollowedTable("/data/sales")
OF_VERSIONS = {"first": "starting-version", "last": "ending-version"}
JOB = graph(vertex("a"), name="of versions", parameters={name: {"type": "integer"} for name in OF_VERSIONS})
DELTA = {"table": {"path": "/data/sales"}, "format": "delta"}
ICEBERG = {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with slots for anything; its log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    scripted.pass_time(1)
    yield scripted
    scripted.check()


def put(cluster: ScriptedCluster, versions: object = DELTA, **more: Any) -> list[Any]:
    definition = {"versions": versions, "instant_parameters": OF_VERSIONS, "job": JOB, **more}
    return cluster.command(type="PutSchedule", schedule_id="s", definition=definition)


def see(
    cluster: ScriptedCluster, last: int, *, first: int = 0, table_id: str = "id-1", old: int | None = None, earlier_id: str = ""
) -> list[Any]:
    """Have the leader see a table that has these versions; those up to `old` were there before the schedule."""
    line = Line(table_id, first, last, first - 1 if old is None else old, earlier_id)
    news = [sighting_of(watch, line) for watch in due_table_watches(cluster.master)]
    return [done for each in news if each is not None for done in cluster.timer(each)]


class Line:
    """Versions of a table without a gap."""

    def __init__(self, table_id: str, first: int, last: int, old: int, earlier_id: str = "") -> None:
        self.table_id = table_id
        self._earlier_id = earlier_id
        self.last = TableVersion(last)
        self._first = first
        self._old = old

    def had_id(self, table_id: str, version: TableVersion) -> bool:
        del version
        return table_id == self._earlier_id

    def before(self, since_ms: int | None) -> TableVersion:
        return TableVersion(self._first - 1 if since_ms is None else self._old)

    def continue_from(self, cursor: TableVersion) -> TableVersion:
        return TableVersion(min(max(cursor.number, self._first - 1), self.last.number))


def told(cluster: ScriptedCluster) -> list[tuple[int, int]]:
    """Return the first and the last version of each job of the schedule, the first first."""
    jobs = [event.job_graph.parameters for event in cluster.events(JobSubmitted) if event.scheduled is not None]
    values = [{each.name: int(each.value or "") for each in parameters} for parameters in jobs]
    return [(each["first"], each["last"]) for each in values]


def moves(cluster: ScriptedCluster) -> list[tuple[CursorMove, int]]:
    return [(event.reason, event.version.number) for event in cluster.events(TableCursorSet)]


@pytest.mark.rule("P21")
def test_each_version_belongs_to_one_job_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"})
    cluster.run(see(cluster, 2))
    for number, last in enumerate((2, 3, 3, 7)):
        done = see(cluster, last)
        if number % 2:
            done = [*done, *cluster.fail_over().effects]
        cluster.run([*done, *see(cluster, last)])
    assert told(cluster) == [(0, 2), (3, 3), (4, 7)]
    assert [event.versions for event in cluster.events(VersionsClaimed)][-1] == VersionRange(TableVersion(3), TableVersion(7))
    sentences = [past.sentence for past in schedule_view(cluster.fold, "s").history]
    assert sentences == ["started, for versions 4 to 7.", "started, for version 3.", "started, for versions 0 to 2."]


def test_a_cursor_begins_with_the_next_version_unless_the_schedule_says_otherwise(cluster: ScriptedCluster) -> None:
    put(cluster)
    view = schedule_view(cluster.fold, "s")
    assert (view.when, view.takes) == ("each new version of /data/sales", "/data/sales")
    assert view.table_cursor is not None
    assert (view.table_cursor.table_id, view.table_cursor.version) == (None, None)
    see(cluster, 4, old=4)
    see(cluster, 4)
    assert (told(cluster), moves(cluster)) == ([], [(CursorMove.BEGUN, 4)])
    see(cluster, 5)
    assert told(cluster) == [(5, 5)]


def test_versions_that_came_since_the_schedule_was_stored_are_taken_also_where_nobody_looked(cluster: ScriptedCluster) -> None:
    put(cluster)
    stored_ms = cluster.wall_ms
    cluster.command(type="PauseSchedule", schedule_id="s", reason="not yet")
    cluster.pass_time(5_000)
    put(cluster, description="another version")
    [watch] = due_table_watches(cluster.master)
    assert (watch.table, watch.since_ms) == (SALES, stored_ms)
    see(cluster, 6, old=3)
    cluster.command(type="ResumeSchedule", schedule_id="s")
    see(cluster, 6)
    assert told(cluster) == [(4, 6)]


def test_versions_wait_while_a_job_runs_or_the_schedule_is_paused_and_are_one_firing_then(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"})
    see(cluster, 0)
    running = see(cluster, 0)
    see(cluster, 3)
    assert told(cluster) == [(0, 0)]
    assert [*due_table_watches(cluster.master)] == [], "nobody looks meanwhile"
    cluster.run(running)
    cluster.command(type="PauseSchedule", schedule_id="s", reason="later")
    see(cluster, 4)
    assert len(told(cluster)) == 1
    cluster.command(type="ResumeSchedule", schedule_id="s")
    see(cluster, 9)
    assert told(cluster) == [(0, 0), (1, 9)]


@pytest.mark.rule("P21")
def test_a_look_from_before_the_cursor_moved_starts_nothing(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, overlap="allow")
    see(cluster, 0)
    [watch] = due_table_watches(cluster.master)
    late = sighting_of(watch, Line("id-1", 0, 5, -1))
    assert isinstance(late, VersionsSeen)
    see(cluster, 3)
    cluster.timer(late)
    assert told(cluster) == [(0, 3)]
    see(cluster, 5)
    assert told(cluster) == [(0, 3), (4, 5)]


def test_a_table_whose_log_goes_on_under_another_id_goes_on(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, overlap="allow")
    see(cluster, 2)
    see(cluster, 2)
    see(cluster, 3, table_id="id-2", earlier_id="id-1")
    cluster.fail_over()
    see(cluster, 3, table_id="id-2", earlier_id="id-1")
    see(cluster, 4, table_id="id-2")
    assert told(cluster) == [(0, 2), (3, 3), (4, 4)]
    assert moves(cluster) == [(CursorMove.BEGUN, -1)]


def test_a_table_that_takes_the_place_of_another_begins_with_its_first_version(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, overlap="allow")
    see(cluster, 8)
    see(cluster, 8)
    see(cluster, 8, table_id="id-2", old=8)
    see(cluster, 8, table_id="id-2")
    assert told(cluster) == [(0, 8), (0, 8)]
    assert moves(cluster) == [(CursorMove.BEGUN, -1), (CursorMove.REPLACED, -1)]


def test_a_table_that_went_back_goes_on_with_what_comes_after_that(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, overlap="allow")
    for last in (8, 8, 5, 5, 7):
        see(cluster, last)
    assert moves(cluster) == [(CursorMove.BEGUN, -1), (CursorMove.REWOUND, 5)]
    assert told(cluster) == [(0, 8), (6, 7)]
    cursor = schedule_view(cluster.fold, "s").table_cursor
    assert cursor is not None
    assert (cursor.version, cursor.moved, cursor.lost) == (7, CursorMove.REWOUND, 0)


def test_versions_that_the_table_has_forgotten_are_counted(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, overlap="allow")
    see(cluster, 2)
    see(cluster, 2)
    see(cluster, 9, first=6)
    assert moves(cluster)[1:] == [(CursorMove.CLEANED, 5)]
    assert told(cluster) == [(0, 2), (6, 9)]
    cluster.fail_over()
    see(cluster, 12, first=12)
    cursor = schedule_view(cluster.fold, "s").table_cursor
    assert cursor is not None
    assert (cursor.version, cursor.lost) == (12, 5)


def test_another_version_of_the_schedule_keeps_the_cursor_unless_it_names_another_table(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"})
    see(cluster, 5)
    put(cluster, description="the same table", overlap="allow")
    see(cluster, 7)
    assert told(cluster) == [(0, 7)]
    put(cluster, {"table": {"path": "/data/returns"}, "format": "delta"})
    late = VersionsSeen("s", SALES, None, "id-1", TableVersion(7), TableVersion(9))
    cluster.timer(late)
    assert len(moves(cluster)) == 1, "what was seen of the old table says nothing of the new one"
    put(cluster, versions=None, interval="60s", instant_parameters={}, parameters={"first": 0, "last": 0})
    known = cluster.master.schedules.schedules["s"]
    assert (cluster.master.schedules.watchers, known.table_cursor) == ([], None)


def test_why_a_table_cannot_be_seen_is_known_until_it_is_seen_again(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"})
    for _ in range(2):
        cluster.timer(TableNotSeen("s", SALES, "table of Delta not found"))
    cluster.timer(TableNotSeen("s", FollowedTable("/data/returns"), "another one"))
    cluster.fail_over()
    cursor = schedule_view(cluster.fold, "s").table_cursor
    assert cursor is not None
    assert cursor.fault == "table of Delta not found"
    see(cluster, 1)
    see(cluster, 1)
    assert [event.fault for event in cluster.events(TableSightChanged)] == ["table of Delta not found", ""]
    assert told(cluster) == [(0, 1)]


def test_a_table_that_is_seen_again_without_anything_new_says_so(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, 1, old=1)
    cluster.timer(TableNotSeen("s", SALES, "the store does not answer"))
    see(cluster, 1)
    see(cluster, 1)
    assert [event.fault for event in cluster.events(TableSightChanged)] == ["the store does not answer", ""]


def test_a_job_that_fails_keeps_its_versions_for_a_rerun(cluster: ScriptedCluster) -> None:
    put(cluster, {**DELTA, "begin": "earliest"})
    see(cluster, 3)
    cluster.run(see(cluster, 3), lambda _: ExecutionState.FAILED)
    [failed] = [event.job_id for event in cluster.events(JobSubmitted)]
    cluster.command(type="RerunJob", job_id="again", rerun_of=failed)
    assert [*cluster.job("again").execution_graph.graph.parameters] == [*cluster.job(failed).execution_graph.graph.parameters]
    see(cluster, 3)
    assert len(told(cluster)) == 2, "the job and its rerun"


def test_a_job_that_cannot_be_started_pauses_the_schedule_and_the_versions_stay(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cluster, {**DELTA, "begin": "earliest"}, time_zone="Europe/Berlin", **{"except": ["2026-01-01"]})
    see(cluster, 0)
    from eventflink.model.schedules import InstantUnknown  # noqa: PLC0415 - of this test alone

    def unknown(name: str) -> None:
        raise InstantUnknown(f"this host does not know the time zone '{name}'")

    with monkeypatch.context() as patch:
        patch.setattr("eventflink.model.schedules._zone", unknown)
        see(cluster, 0)
    [paused] = cluster.events(SchedulePaused)
    assert paused.reason.startswith("its job cannot be started for the versions that are there: this host does not know")
    cluster.command(type="ResumeSchedule", schedule_id="s")
    see(cluster, 1)
    assert told(cluster) == [(0, 1)]


def test_there_is_no_backfill_of_versions(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.command(type="StartBackfill", schedule_id="s", first_ms=0, end_ms=10**9)
    [refused] = cluster.events(RequestRejected)
    assert refused.message == "schedule 's' has no instants but the new versions of its table: run one again"


def test_the_job_of_a_table_of_iceberg_is_told_its_snapshots(cluster: ScriptedCluster) -> None:
    put(cluster, {**ICEBERG, "begin": "earliest"}, instant_parameters={"first": "start-snapshot", "last": "end-snapshot"}, overlap="allow")
    table = FollowedTable(catalog="lake", name="shop.sales")
    for base, last in (((0, 0), (1, 71)), ((0, 0), (1, 71)), ((1, 71), (3, 73))):
        [watch] = due_table_watches(cluster.master)
        cluster.timer(VersionsSeen("s", table, watch.cursor, "uuid", TableVersion(*base), TableVersion(*last)))
    assert told(cluster) == [(0, 71), (71, 73)]
    assert schedule_view(cluster.fold, "s").history[0].sentence == "started, for versions 2 to 3, snapshot 73."
    cursor = schedule_view(cluster.fold, "s").table_cursor
    assert cursor is not None
    assert (cursor.table, cursor.version, cursor.snapshot_id) == ("shop.sales in lake", 3, "73")


@given(
    looks=st.lists(st.integers(0, 60_000), min_size=1, max_size=20).map(sorted),
    begins=st.booleans(),
)
def test_the_jobs_of_a_table_follow_one_another_whenever_it_is_looked_at(looks: list[int], *, begins: bool) -> None:
    """The simulation's table goes back, is made anew and forgets: what is taken of one table never overlaps but where it went back."""
    cursor: TableVersion | None = None
    table_id = ""
    for time_ms in looks:
        line = OutsideTable("t", time_ms, 60_000, 10**6 + time_ms)
        watch = TableWatch("s", SALES, table_id, cursor, 10**6 if begins else None)
        seen = sighting_of(watch, line)
        if seen is None:
            assert (table_id, cursor) == (line.table_id, line.last)
            continue
        assert seen.base.number <= seen.last.number == line.last.number
        if cursor is not None and table_id == line.table_id:
            assert seen.base.number == cursor.number or seen.base == seen.last or seen.base.number > cursor.number
        cursor, table_id = seen.last, line.table_id


INVALID = [
    ({"versions": "sales"}, "versions: "),
    (
        {"versions": {"table": {"path": "sales"}, "format": "delta"}},
        "versions.table: invalid path: 'sales'; give an absolute path or a URL",
    ),
    ({"versions": {"table": {"path": "ftp://a/b"}, "format": "delta"}}, "versions: invalid place: 'ftp://a/b'; give a path, or a URL"),
    ({"versions": {"table": {"path": "/a"}}}, "versions.format: it is missing"),
    ({"versions": {"table": {"path": "/a"}, "format": "parquet"}}, "versions.format: must be 'delta' or 'iceberg', not 'parquet'"),
    ({"versions": {"table": {"path": "/a"}, "format": "iceberg"}}, "versions: table.catalog: it is missing: a table of format iceberg"),
    ({"versions": {"table": {"catalog": "c", "name": "sales"}, "format": "iceberg"}}, "versions.table: invalid name: 'sales'"),
    ({"versions": {**DELTA, "from": "earliest"}}, "versions.from: unknown key"),
    ({"versions": DELTA, "overlap": "skip"}, "overlap: with 'versions' it is 'queue', so that versions wait while a job runs, or 'allow'"),
    ({"versions": DELTA, "catch_up": "last"}, "catch_up: with 'versions' it is 'all'"),
    ({"versions": DELTA, "jitter": "1s"}, "invalid jitter: a schedule with 'versions' has no jitter"),
    ({"versions": DELTA, "records": "orders"}, "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'"),
    (
        {"versions": DELTA, "instant_parameters": {"first": "start-snapshot"}},
        "'start-snapshot' is not known of a schedule with 'versions'; known: date, timestamp, starting-version, ending-version",
    ),
    (
        {"versions": ICEBERG, "instant_parameters": {"first": "starting-version"}},
        "'starting-version' is not known of a schedule with 'versions'; known: date, timestamp, start-snapshot, end-snapshot",
    ),
    ({"versions": DELTA}, "parameter 'first': it has neither a default nor a value"),
]


@pytest.mark.parametrize(("document", "message"), INVALID, ids=[message[:50] for _, message in INVALID])
def test_what_would_pass_over_versions_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule) as raised:
        check_schedule({"job": JOB, **document})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "versions", [DELTA, {**DELTA, "begin": "earliest"}, {"table": {"path": "s3://b/sales/"}, "format": "delta"}, ICEBERG]
)
def test_a_schedule_of_versions_is_the_document_that_it_was_made_of(versions: dict[str, Any]) -> None:
    told_by = OF_VERSIONS if versions["format"] == "delta" else {"first": "start-snapshot", "last": "end-snapshot"}
    definition = check_schedule({"versions": versions, "instant_parameters": told_by, "job": JOB})
    assert check_schedule(schedule_document(definition)) == definition
    assert str(definition.timing.versions) in ("/data/sales", "s3a://b/sales", "shop.sales in lake")

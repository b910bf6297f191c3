"""What a look at a table of Delta or Iceberg finds: each new version, whatever was cleaned up, and another table in the same place.

The tables are real: deltalake and pyiceberg write them, which know nothing of us.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from eventflink.entrypoint import outside_looks
from eventflink.entrypoint.outside_looks import LookFailed, OutsideLook
from eventflink.jobs import stored_files
from eventflink.jobs.stored_files import FileStamp
from eventflink.master.effects import TableWatch
from eventflink.master.inputs import VersionsSeen
from eventflink.model.places import Place
from eventflink.model.schedules import FollowedTable, TableVersion
from tests.support.iceberg_tables import CATALOG, TABLE, catalog_in, loaded

EARLIEST, ROWS = None, pa.table({"number": [1, 2, 3]})


class Watched:
    """A table, and the cursor of a schedule in it."""

    def __init__(self, table: FollowedTable, look: OutsideLook) -> None:
        self.table = table
        self.table_id = ""
        self.cursor: TableVersion | None = None
        self._look = look

    def seen(self, since_ms: int | None = EARLIEST) -> VersionsSeen | None:
        watch = TableWatch("s", self.table, self.table_id, self.cursor, since_ms if self.cursor is None else None)
        found = self._look.look([watch])
        return found[0] if found else None

    def news(self, since_ms: int | None = EARLIEST) -> tuple[int, int] | None:
        """Return behind which version the new ones begin, and the last one; the cursor passes them. None: there is nothing."""
        if (seen := self.seen(since_ms)) is None:
            return None
        self.table_id, self.cursor = seen.table_id, seen.last
        return seen.base.number, seen.last.number


def append(path: Path, times: int = 1) -> None:
    for _ in range(times):
        write_deltalake(str(path), ROWS, mode="append")


def delta(path: Path, look: OutsideLook | None = None) -> Watched:
    return Watched(FollowedTable(str(path)), look or OutsideLook(()))


def commit_file(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020}.json"


def test_each_new_version_of_a_table_of_delta_is_seen_once(tmp_path: Path) -> None:
    table = delta(tmp_path)
    append(tmp_path, 2)
    assert table.news() == (-1, 1)
    assert table.news() is None
    append(tmp_path)
    assert table.news() == (1, 2)
    append(tmp_path, 9)
    assert table.news() == (2, 11)
    assert table.news() is None
    assert table.table_id == str(DeltaTable(str(tmp_path)).metadata().id)


def test_what_is_read_of_a_table_does_not_grow_with_its_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, asked = delta(tmp_path), list[str]()
    append(tmp_path, 12)
    table.news()

    def stamp_of(place: Place) -> FileStamp | None:
        asked.append(place.text.rpartition("/")[2])
        return stored_files.stamp_of(place)

    def names_in(place: Place) -> list[str]:
        asked.append("a list of all")
        return stored_files.names_in(place)

    monkeypatch.setattr(outside_looks, "stamp_of", stamp_of)
    monkeypatch.setattr(outside_looks, "names_in", names_in)
    assert table.news() is None
    assert asked == [f"{version:020}.json" for version in (11, 12)]
    asked.clear()
    append(tmp_path, 5)
    assert table.news() == (11, 16)
    assert "a list of all" not in asked


def test_a_table_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    table = delta(tmp_path / "later")
    for folder in (tmp_path, tmp_path / "later", tmp_path / "later" / "_delta_log"):
        folder.mkdir(exist_ok=True)
        with pytest.raises(LookFailed, match=r"table of Delta not found: .*/later has no _delta_log with commits; it is waited for"):
            table.seen()
    append(tmp_path / "later")
    assert table.news() == (-1, 0)


def test_a_store_that_fails_in_a_way_of_its_own_is_told_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_place: object) -> None:
        raise RuntimeError("the driver has a defect")

    monkeypatch.setattr(outside_looks, "stamp_of", fail)
    with pytest.raises(LookFailed, match=r"^s3a://raw/_SUCCESS: RuntimeError: the driver has a defect$"):
        OutsideLook(()).is_there("s3a://raw/_SUCCESS")


def test_the_cursor_begins_with_what_came_since_a_time(tmp_path: Path) -> None:
    append(tmp_path, 5)
    for version in range(5):
        os.utime(commit_file(tmp_path, version), (1_000 + version, 1_000 + version))
    assert delta(tmp_path).news(1_002_500) == (2, 4)
    assert delta(tmp_path).news(1_003_000) == (2, 4)
    assert delta(tmp_path).news(2_000_000) == (4, 4)
    assert delta(tmp_path).news(1_000) == (-1, 4)


def test_a_table_that_is_made_anew_is_another_one_also_with_as_many_versions(tmp_path: Path) -> None:
    table = delta(tmp_path)
    append(tmp_path, 3)
    table.news()
    before = table.table_id
    shutil.rmtree(tmp_path)
    with pytest.raises(LookFailed):
        table.seen()
    append(tmp_path, 3)
    assert table.news() == (-1, 2)
    assert table.table_id != before


@pytest.mark.parametrize("is_new_leader", [False, True])
def test_a_table_that_is_replaced_within_its_log_goes_on_whoever_looks(tmp_path: Path, *, is_new_leader: bool) -> None:
    table = delta(tmp_path)
    append(tmp_path, 3)
    assert table.news() == (-1, 2)
    before = table.table_id
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in (0, 1):  # Those are cleaned up: the checkpoint alone knows the id that the table had.
        commit_file(tmp_path, version).unlink()
    for number in (3, 4):
        DeltaTable.create(str(tmp_path), schema=pa.schema([("n", pa.int64())]), mode="overwrite")
        after = delta(tmp_path) if is_new_leader else table
        after.table_id, after.cursor = table.table_id, table.cursor
        table = after
        assert table.news() == (number - 1, number)
    assert table.table_id == str(DeltaTable(str(tmp_path)).metadata().id) != before
    again = delta(tmp_path)
    again.table_id, again.cursor = table.table_id, table.cursor
    assert again.news() is None


def test_a_table_that_is_restored_by_delta_has_a_new_version_and_one_whose_log_is_put_back_an_older_one(tmp_path: Path) -> None:
    table = delta(tmp_path)
    append(tmp_path, 4)
    table.news()
    DeltaTable(str(tmp_path)).restore(1)
    assert table.news() == (3, 4)
    for version in (3, 4):
        commit_file(tmp_path, version).unlink()
    assert table.news() == (2, 2), "nothing is new, and the cursor goes back"
    append(tmp_path)
    assert table.news() == (2, 3)


def test_versions_whose_commits_are_cleaned_up_are_passed_over(tmp_path: Path) -> None:
    table = delta(tmp_path)
    append(tmp_path, 2)
    table.news()
    append(tmp_path, 6)
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(5):
        commit_file(tmp_path, version).unlink()
    assert table.news() == (4, 7)
    fresh = delta(tmp_path)
    assert fresh.news() == (4, 7)
    assert fresh.table_id == table.table_id, "the checkpoint says which table it is"


def test_a_table_of_which_a_checkpoint_alone_is_left_is_at_its_version(tmp_path: Path) -> None:
    append(tmp_path, 3)
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(3):
        commit_file(tmp_path, version).unlink()
    table = delta(tmp_path)
    assert table.news() == (2, 2)
    assert table.news() is None


def test_a_log_that_is_damaged_is_named(tmp_path: Path) -> None:
    append(tmp_path)
    commit_file(tmp_path, 0).write_text('{"metaData"')
    with pytest.raises(LookFailed, match=f"{tmp_path}: JSONDecodeError"):
        delta(tmp_path).seen()
    commit_file(tmp_path, 0).write_text(json.dumps({"commitInfo": {}}))
    with pytest.raises(LookFailed, match="says which table it is: its log is damaged"):
        delta(tmp_path).seen()


def test_commits_that_change_no_rows_are_versions_as_well(tmp_path: Path) -> None:
    table = delta(tmp_path)
    append(tmp_path)
    table.news()
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})
    assert table.news() == (0, 1)


# -- tables of Iceberg ------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    """A catalogue in a file, with a table without rows."""
    catalog = loaded(catalog_in(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(TABLE, schema=ROWS.schema)
    return catalog


@pytest.fixture
def look(tmp_path: Path) -> OutsideLook:
    return OutsideLook((catalog_in(tmp_path),))


SALES = FollowedTable(catalog=CATALOG, name=TABLE)


def test_each_new_version_of_a_table_of_iceberg_is_seen_once_with_its_snapshots(lake: Any, look: OutsideLook) -> None:
    table = Watched(SALES, look)
    assert table.news() == (0, 0), "there is no snapshot"
    assert table.news() is None
    lake.load_table(TABLE).append(ROWS)
    assert table.news() == (0, 1)
    for _ in range(2):
        lake.load_table(TABLE).append(ROWS)
    seen = table.seen()
    assert seen is not None
    snapshots = [snapshot.snapshot_id for snapshot in lake.load_table(TABLE).metadata.snapshots]
    assert (seen.base, seen.last) == (TableVersion(1, snapshots[0]), TableVersion(3, snapshots[2]))
    assert table.news() == (1, 3)
    assert table.news() is None


def test_the_cursor_of_a_table_of_iceberg_begins_with_what_came_since_a_time(lake: Any, look: OutsideLook) -> None:
    for _ in range(3):
        lake.load_table(TABLE).append(ROWS)
    times = [snapshot.timestamp_ms for snapshot in lake.load_table(TABLE).metadata.snapshots]
    assert Watched(SALES, look).news() == (0, 3)
    assert Watched(SALES, look).news(times[2] + 1) == (3, 3)
    assert Watched(SALES, look).news(times[0]) == (0, 3)


def test_a_table_of_iceberg_that_is_rolled_back_goes_on_with_what_comes_after_that(lake: Any, look: OutsideLook) -> None:
    table = Watched(SALES, look)
    for _ in range(3):
        lake.load_table(TABLE).append(ROWS)
    table.news()
    sales = lake.load_table(TABLE)
    sales.manage_snapshots().rollback_to_snapshot(sales.metadata.snapshots[1].snapshot_id).commit()
    assert table.news() == (2, 2)
    lake.load_table(TABLE).append(ROWS)
    assert table.news() == (2, 4)


def test_a_table_of_iceberg_that_is_rolled_back_between_two_looks_begins_where_both_lines_part(lake: Any, look: OutsideLook) -> None:
    table = Watched(SALES, look)
    for _ in range(3):
        lake.load_table(TABLE).append(ROWS)
    table.news()
    sales = lake.load_table(TABLE)
    sales.manage_snapshots().rollback_to_snapshot(sales.metadata.snapshots[1].snapshot_id).commit()
    lake.load_table(TABLE).append(ROWS)
    assert table.news() == (2, 4)


def test_snapshots_that_are_expired_are_passed_over_where_nobody_had_them(lake: Any, look: OutsideLook) -> None:
    had, behind = Watched(SALES, look), Watched(SALES, look)
    lake.load_table(TABLE).append(ROWS)
    had.news(), behind.news()
    for _ in range(3):
        lake.load_table(TABLE).append(ROWS)
    had.news()
    lake.load_table(TABLE).append(ROWS)
    sales = lake.load_table(TABLE)
    sales.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in sales.metadata.snapshots[:4]]).commit()
    assert had.news() == (4, 5), "the cursor's own snapshot may be gone: what came after it is there"
    assert behind.news() == (4, 5)


def test_a_table_of_iceberg_that_is_made_anew_is_another_one(lake: Any, look: OutsideLook) -> None:
    table = Watched(SALES, look)
    lake.load_table(TABLE).append(ROWS)
    table.news()
    before = table.table_id
    lake.drop_table(TABLE)
    with pytest.raises(LookFailed, match=r"table not found: 'shop\.sales' in catalogue 'lake'; it is waited for"):
        table.seen()
    lake.create_table(TABLE, schema=ROWS.schema)
    lake.load_table(TABLE).append(ROWS)
    assert table.news() == (0, 1)
    assert table.table_id != before


def test_a_catalogue_that_is_not_configured_is_named(look: OutsideLook) -> None:
    with pytest.raises(LookFailed, match="catalogue of Iceberg 'pond' not found: this master has lake"):
        Watched(FollowedTable(catalog="pond", name=TABLE), look).seen()


def test_where_pyiceberg_is_not_installed_that_is_said(look: OutsideLook, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(LookFailed, match=r"pip install 'eventflink\[iceberg\]', where masters are installed"):
        Watched(SALES, look).seen()

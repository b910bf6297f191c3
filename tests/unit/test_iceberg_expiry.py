"""Old versions of a table of Iceberg go with the files that only they had, and nothing else goes."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots

from eventflink.streams import iceberg_upkeep
from eventflink.streams.failures import SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_table import find_table
from eventflink.streams.iceberg_upkeep import Expiry, expire_snapshots
from tests.support.iceberg_tables import TABLE, catalog_in, loaded

HOUR_MS = 3_600_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = loaded(catalog_in(tmp_path))
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Return a table of four versions: two rows, one more, all of them replaced, and one more again."""
    table = catalog.create_table(TABLE, pa.schema([("number", pa.int64())]))
    table.append(rows(1, 2))
    table.append(rows(3))
    table.overwrite(rows(4))
    table.append(rows(5))
    return table


def rows(*numbers: int) -> pa.Table:
    return pa.table({"number": list(numbers)})


def expired(catalog: Catalog, *, hours: int = 2, least_kept: int = 1) -> Expiry:
    """Expire what is older than an hour, some hours later."""
    table = find_table(catalog, TABLE)
    [newest] = [each for each in table.loaded.snapshots() if each.snapshot_id == table.snapshot_id]
    return expire_snapshots(table, HOUR_MS, least_kept, newest.timestamp_ms + hours * HOUR_MS)


def files(table: Table) -> set[str]:
    return {str(path) for path in Path(table.location().removeprefix("file://")).rglob("*") if path.suffix in (".parquet", ".avro")}


def known(table: Table) -> set[str]:
    """Return the files that some version of the table has."""
    of_all = set[str]()
    for snapshot in table.snapshots():
        manifests = snapshot.manifests(table.io)
        of_all |= {snapshot.manifest_list, *[each.manifest_path for each in manifests]}
        of_all |= {entry.data_file.file_path for each in manifests for entry in each.fetch_manifest_entry(table.io)}
    return {path.removeprefix("file://") for path in of_all}


def numbers(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["number"].to_pylist())


def test_what_only_old_versions_had_is_gone_and_the_newest_one_is_whole(catalog: Catalog, table: Table) -> None:
    done = expired(catalog)
    assert (done.snapshots, done.data_files) == (len(table.snapshots()) - 1, 2)
    assert numbers(table) == [4, 5]
    assert files(table) == known(table)
    assert expired(catalog) == Expiry(0, 0, 0)


def test_files_that_an_earlier_expiry_has_removed_keep_no_others_in_the_table(catalog: Catalog, table: Table) -> None:
    """A version that replaces files names them, also when they are gone."""
    for number in range(3):
        table.refresh()
        for small in range(20):
            table.append(rows(small))
        table.overwrite(rows(100 + number))
        table.append(rows(number))
        expired(catalog)
        table.refresh()
        assert files(table) == known(table)


def test_what_is_young_or_named_or_among_the_last_ones_stays(catalog: Catalog, table: Table) -> None:
    first, second = table.snapshots()[:2]
    assert expired(catalog, hours=0) == Expiry(0, 0, 0)
    assert expired(catalog, least_kept=100) == Expiry(0, 0, 0)
    table.manage_snapshots().create_tag(second.snapshot_id, "closing").commit()
    assert expired(catalog).data_files == 0
    assert sorted(table.refresh().scan(snapshot_id=second.snapshot_id).to_arrow()["number"].to_pylist()) == [1, 2, 3]
    assert first.snapshot_id not in {each.snapshot_id for each in table.snapshots()}
    assert (numbers(table), files(table)) == ([4, 5], known(table))


def test_nothing_is_removed_of_a_table_whose_files_others_have(catalog: Catalog, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    with pytest.raises(
        TableUnusable, match=r"the table lake\.shop\.sales has the property gc\.enabled false: others have its files as well"
    ):
        expired(catalog)


@pytest.mark.parametrize("is_committed", [True, False])
def test_files_go_only_where_it_is_known_that_their_versions_are_gone(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    """Whatever the catalogue answers."""
    commit = ExpireSnapshots.commit

    def fails(expiry: ExpireSnapshots) -> None:
        if is_committed:
            commit(expiry)
        raise OSError("no answer")

    monkeypatch.setattr(ExpireSnapshots, "commit", fails)
    monkeypatch.setattr(iceberg_upkeep, "_PATIENCE_S", 0.2)
    before = files(table)
    if is_committed:
        assert expired(catalog).data_files == 2
    else:
        with pytest.raises(SinkUnavailable, match=r"the table lake\.shop\.sales has its old versions: OSError: no answer"):
            expired(catalog)
        assert files(table) == before
    assert (numbers(table), files(table) >= known(table)) == ([4, 5], True)


def test_a_version_that_comes_meanwhile_keeps_its_files(catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, happened = ExpireSnapshots.commit, list[bool]()

    def interrupted(expiry: ExpireSnapshots) -> None:
        if not happened:
            happened.append(True)
            loaded_again = catalog.load_table(TABLE)
            loaded_again.append(rows(6))
            raise CommitFailedException("another one was quicker")
        commit(expiry)

    monkeypatch.setattr(ExpireSnapshots, "commit", interrupted)
    assert expired(catalog).data_files == 2
    assert (numbers(table), files(table)) == ([4, 5, 6], known(table))

"""The upkeep of a table of Iceberg: its small files become large ones, and what only old versions need is removed.

Tasks do it (`eventflink/iceberg.py`). Spark writes the files anew; what is committed and removed is said here, by pyiceberg. The rules it
keeps:

- A file is replaced if it is in the newest version as it was when it was read, with the same deleted rows. Others may write meanwhile.
- A file is removed if it was in a version that is gone and is in none that the table has after that.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.backoff import Backoff
from eventflink.model.packages import needs
from eventflink.streams.failures import SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_catalogs import ask
from eventflink.streams.iceberg_conditions import InvalidCondition, condition_of
from eventflink.streams.iceberg_files import write_files
from eventflink.streams.iceberg_rows import read_scan
from eventflink.streams.iceberg_scan import ScannedFile, plan_version
from eventflink.streams.iceberg_table import Fit, IcebergTable, file_contents

with needs("iceberg", "a table of Iceberg"):
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.expressions import AlwaysTrue, BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.utils.properties import property_as_bool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

MAX_PARTITIONS: Final = 1_000
"""Of one compaction: each is a query of Spark. What is beyond that is left to the next one."""
_SMALL: Final = 0.75
"""A file is small below this part of what a file is to have."""
_PATIENCE_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_AT_ONCE: Final = 8
_FILES_REMAIN: Final = "gc.enabled"
"""The property of a table whose files others have as well."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction."""

    partitions: int
    """The number of partitions whose files were replaced."""
    files_before: int
    """The number of files that were replaced."""
    files_after: int
    """The number of files that replaced them."""
    rows: int
    """The number of rows in these."""
    bytes_after: int
    """The size of these."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The number of versions and files that an expiry removed."""

    snapshots: int
    data_files: int
    """Files with rows, and files that name deleted rows."""
    metadata_files: int
    """Manifests, and lists of manifests."""


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The files of a partition, and those that replace them."""

    old: Sequence[FileScanTask]
    new: Sequence[DataFile]


def compact_table(
    spark: "SparkSession", table: IcebergTable, where: str | None, parameters: dict[str, Any], least_files: int
) -> Compaction:
    """Replace the small files of each partition, and those with deleted rows, by as few as their size allows.

    Args:
        spark: what reads and writes them.
        table: whose files they are.
        where: a condition; only files that may have rows which fulfil it are looked at. None: all are.
        parameters: those that the condition may name.
        least_files: how many small files a partition has to have; one with deleted rows is enough.

    Raises:
        TableUnusable: the condition is none, or Spark cannot read or write the table.
        SinkUnavailable: the catalogue does not answer, or others were always quicker.

    """
    version = table.snapshot_id
    if version is None:
        return Compaction(0, 0, 0, 0, 0)
    condition = _condition_of(table, where, parameters)
    chosen = _chosen(table, condition, least_files)
    scan = replace(plan_version(table, version, condition), condition=AlwaysTrue())
    files, fit, rewritten = {file.path: file for file in scan.files}, table.fit_of_all(), list[_Rewritten]()
    try:
        for tasks in chosen[:MAX_PARTITIONS]:
            read = tuple(files[task.file.file_path] for task in tasks)
            rows = read_scan(spark, replace(scan, files=read))
            count = -(-sum(task.file.file_size_in_bytes for task in tasks) // table.target_file_bytes)
            rewritten.append(_Rewritten(tasks, write_files(rows.coalesce(max(1, count)), table, fit)))
            _check_rows(table, rewritten[-1], read)
    except BaseException:
        table.remove([file.file_path for each in rewritten for file in each.new])
        raise
    if len(chosen) > MAX_PARTITIONS:
        logger.warning("CompactionIsPartial table=%s partitions=%d left=%d", table.name, MAX_PARTITIONS, len(chosen) - MAX_PARTITIONS)
    done = _replace(table, fit, rewritten)
    new = [file for each in done for file in each.new]
    return Compaction(
        partitions=len(done),
        files_before=sum(len(each.old) for each in done),
        files_after=len(new),
        rows=sum(file.record_count for file in new),
        bytes_after=sum(file.file_size_in_bytes for file in new),
    )


def _check_rows(table: IcebergTable, rewritten: _Rewritten, read: Sequence[ScannedFile]) -> None:
    """Check that the new files of a partition have as many rows as the old ones have that are not deleted.

    Raises:
        TableUnusable: they have more or fewer.

    """
    before = sum(file.rows for file in read)
    if (after := sum(file.record_count for file in rewritten.new)) != before:
        raise TableUnusable(
            f"the table {table.name} was not compacted: its files have {before} rows by the catalogue, such as "
            f"{rewritten.old[0].file.file_path}, and Spark read {after} from them"
        )


def _condition_of(table: IcebergTable, where: str | None, parameters: dict[str, Any]) -> BooleanExpression:
    try:
        return condition_of(where, table.loaded.schema(), parameters) if where is not None else AlwaysTrue()
    except InvalidCondition as error:
        raise TableUnusable(f"invalid where of a compaction of the table {table.name}: {error}") from error


def _chosen(table: IcebergTable, condition: BooleanExpression, least_files: int) -> list[list[FileScanTask]]:
    """Return the files of each partition that are to be replaced."""
    small_bytes = _SMALL * table.target_file_bytes
    partitions: dict[tuple[Any, ...], list[FileScanTask]] = {}
    for task in ask(table.loaded.catalog.name, lambda: table.files_with(condition, table.snapshot_id)):
        if task.delete_files or task.file.file_size_in_bytes < small_bytes:
            partitions.setdefault((task.file.spec_id, *task.file.partition), []).append(task)
    return [tasks for tasks in partitions.values() if len(tasks) >= least_files or any(task.delete_files for task in tasks)]


def _replace(table: IcebergTable, fit: Fit, rewritten: Sequence[_Rewritten]) -> list[_Rewritten]:
    """Commit the new files in the place of the old ones, for each partition whose old ones are still there; return these.

    Raises:
        SinkUnavailable: whether they are in the table is not known, or others were always quicker.

    """
    deadline_s, pauses, left = time.monotonic() + _PATIENCE_S, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), list(rewritten)
    while left:
        there = _all_contents(table)
        changed = [not file_contents(each.old) <= there for each in left]
        table.remove([file.file_path for each in compress(left, changed) for file in each.new])
        left = [each for each, is_changed in zip(left, changed, strict=True) if not is_changed]
        new, old = [file for each in left for file in each.new], [task for each in left for task in each.old]
        try:
            if left:
                table.replace_files(fit, new, old)
        except CommitFailedException as error:
            if time.monotonic() > deadline_s:
                table.remove([file.file_path for file in new])
                raise SinkUnavailable(f"the table {table.name} is as it was: others were quicker for {_PATIENCE_S:.0f} s") from error
            time.sleep(pauses.next())
        except SinkUnavailable:
            table.remove([file.file_path for file in new])
            raise
        except Exception as error:  # whatever the catalogue raised, it may have committed before
            table.refresh()
            there = _all_contents(table)
            if file_contents(old) & there or not {file.file_path for file in new} <= {path for path, *_ in there}:
                raise SinkUnavailable(f"the table {table.name} may be as it was: {type(error).__name__}: {error}") from error
            return left
        else:
            return left
        table.refresh()
    return left


def _all_contents(table: IcebergTable) -> set[tuple[str, ...]]:
    return file_contents(ask(table.loaded.catalog.name, lambda: table.files_with(AlwaysTrue(), table.snapshot_id)))


def expire_snapshots(table: IcebergTable, older_than_ms: int, least_kept: int, now_ms: int) -> Expiry:
    """Remove the versions of a table that are older than that, and the files that only they had.

    Those that branches and tags name stay, and so do the newest ones of the table.

    Args:
        table: whose versions they are.
        older_than_ms: how old a version has to be.
        least_kept: how many of the newest ones stay however old they are.
        now_ms: the time.

    Raises:
        TableUnusable: others have the files of the table as well.
        SinkUnavailable: the catalogue does not answer, or others were always quicker.

    """
    if not property_as_bool(table.loaded.properties, _FILES_REMAIN, default=True):
        raise TableUnusable(
            f"the table {table.name} has the property {_FILES_REMAIN} false: others have its files as well, so none is removed"
        )
    deadline_s, pauses = time.monotonic() + _PATIENCE_S, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while expired := _expired(table.loaded, now_ms - older_than_ms, least_kept):
        manifests = _manifests_of(table, expired)
        failed: Exception | None = None
        try:
            table.loaded.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in expired]).commit()
        except Exception as error:  # noqa: BLE001 - whatever the catalogue raised, it may have committed before
            failed = error
        table.refresh()
        if not {each.snapshot_id for each in expired} & {each.snapshot_id for each in table.loaded.snapshots()}:
            return _removed(table, expired, manifests)
        if time.monotonic() > deadline_s:
            raise SinkUnavailable(f"the table {table.name} has its old versions: {type(failed).__name__}: {failed}") from failed
        time.sleep(pauses.next())
    return Expiry(0, 0, 0)


def _manifests_of(table: IcebergTable, snapshots: Sequence[Snapshot]) -> dict[str, ManifestFile]:
    """Return the manifests of some versions by their paths: most versions share most of them."""

    def read(snapshot: Snapshot) -> list[ManifestFile]:
        return ask(table.loaded.catalog.name, lambda: snapshot.manifests(table.loaded.io))

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return {each.manifest_path: each for of_one in threads.map(read, snapshots) for each in of_one}


def _expired(table: Table, before_ms: int, least_kept: int) -> list[Snapshot]:
    """Return the versions that are too old."""
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    newest, count = table.current_snapshot(), 0
    while newest is not None and count < least_kept:
        kept.add(newest.snapshot_id)
        count += 1
        newest = table.snapshot_by_id(newest.parent_snapshot_id) if newest.parent_snapshot_id is not None else None
    return [each for each in table.snapshots() if each.timestamp_ms < before_ms and each.snapshot_id not in kept]


def _removed(table: IcebergTable, expired: Sequence[Snapshot], manifests: Mapping[str, ManifestFile]) -> Expiry:
    """Remove the files that only expired versions had; one that cannot be removed is logged, and is no file of the table any more."""
    current = _manifests_of(table, table.loaded.snapshots())
    old = {path: each for path, each in manifests.items() if path not in current}
    data = _files_in(table, old.values(), are_gone=True)
    if data:
        data -= _files_in(table, current.values(), are_gone=False)
    removed = Expiry(len(expired), _remove(table, data), _remove(table, [*old, *[each.manifest_list for each in expired]]))
    what = (table.name, removed.snapshots, removed.data_files, removed.metadata_files)
    logger.info("SnapshotsExpired table=%s snapshots=%d data_files=%d metadata_files=%d", *what)
    return removed


def _remove(table: IcebergTable, paths: Iterable[str]) -> int:
    all_paths = sorted(paths)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return sum(threads.map(table.remove, [all_paths[first::_AT_ONCE] for first in range(_AT_ONCE)]))


def _files_in(table: IcebergTable, manifests: Iterable[ManifestFile], *, are_gone: bool) -> set[str]:
    """Return the files that manifests name: also those that they say to be gone, or without these."""
    io = table.loaded.io
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        entries = threads.map(lambda manifest: manifest.fetch_manifest_entry(io, discard_deleted=not are_gone), manifests)
        return {entry.data_file.file_path for of_one in entries for entry in of_one}

"""What others have written for which jobs start: which versions a table has, and whether a file is there.

A table of Delta is read by the files of its log, one of Iceberg by its catalogue; no row is read. What follows from a look is in
`leadership/table_sightings.py`, and when to look in `entrypoint/outside_watching.py`. The rule: what is read of a table grows with what is
new in it, and not with its age; what cannot be read raises one error that says why.
"""

import json
import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.jobs.stored_files import FileStamp, StoreFailed, names_in, opened, read_if_there, stamp_of
from eventflink.leadership.table_sightings import TableLine, sighting_of
from eventflink.master.effects import TableWatch
from eventflink.master.inputs import VersionsSeen
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.places import Place, parse_place
from eventflink.model.schedules import FollowedTable, TableVersion
from eventflink.streams.delta_table import files_to_read
from eventflink.streams.failures import SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_catalogs import ask, load_named_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_COMMIT: Final = re.compile(r"(\d{20})\.json")


class LookFailed(Exception):
    """A table, or a file, cannot be looked at; the message says why, for people."""


class OutsideLook:
    """Looks at tables and files; at each one in one thread at a time."""

    def __init__(self, catalogs: Sequence[IcebergCatalog]) -> None:
        """Take the catalogues of Iceberg that schedules may name."""
        self._catalogs = catalogs
        self._loaded: dict[str, Catalog] = {}
        """By table: each look has a connection of its own."""
        self._known: dict[str, _KnownLog] = {}
        self._secrets: set[str] = set()
        """What no message may show."""
        self._lock = threading.Lock()

    def look(self, watches: Sequence[TableWatch]) -> list[VersionsSeen]:
        """Return what schedules have to learn of a table that all of them name.

        Raises:
            LookFailed: it is not there, or cannot be read.

        """
        table = watches[0].table
        try:
            line = self._look_at_delta(table) if table.is_delta else self._look_at_iceberg(table)
            found = [sighting_of(watch, line) for watch in watches]
        except Exception as error:  # each store, and each kind of catalogue, has errors of its own
            self._forget(table)
            is_told = isinstance(error, LookFailed | OSError | StoreFailed | TableUnusable | SinkUnavailable)
            message = str(error) if is_told else f"{table}: {type(error).__name__}: {error}"
            for secret in list(self._secrets):
                message = message.replace(secret, "***")
            raise LookFailed(message) from error
        return [each for each in found if each is not None]

    def is_there(self, file: str) -> bool:
        """Tell whether there is such a file.

        Raises:
            LookFailed: its store, or its directory, does not say.

        """
        try:
            return stamp_of(parse_place(file)) is not None
        except Exception as error:  # each store has errors of its own
            is_told = isinstance(error, OSError | ValueError | StoreFailed)
            raise LookFailed(str(error) if is_told else f"{file}: {type(error).__name__}: {error}") from error

    def forget_others(self, names: Collection[str]) -> None:
        """Keep nothing of other tables than these."""
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in names}
            self._loaded = {name: catalog for name, catalog in self._loaded.items() if name in names}

    def _forget(self, table: FollowedTable) -> None:
        with self._lock:
            self._known.pop(str(table), None)
            self._loaded.pop(str(table), None)

    def _look_at_delta(self, table: FollowedTable) -> TableLine:
        log = parse_place(table.path) / "_delta_log"
        with self._lock:
            known = self._known.get(str(table))
        known = _read_on(log, known) if known is not None and stamp_of(_commit(log, known.newest)) == known.stamp else _read_log(table, log)
        with self._lock:
            self._known[str(table)] = known
        return _DeltaLine(log, known)

    def _look_at_iceberg(self, table: FollowedTable) -> TableLine:
        with self._lock:
            catalog = self._loaded.get(str(table))
        if catalog is None:
            catalog = load_named_catalog(self._catalogs, table.catalog, self._secrets.add, "master")
            with self._lock:
                self._loaded[str(table)] = catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415 - an extra, which is there by now

        def load() -> "Table":
            try:
                return catalog.load_table(table.name)
            except (NoSuchTableError, NoSuchNamespaceError) as error:
                raise TableUnusable(f"table not found: '{table.name}' in catalogue '{table.catalog}'; it is waited for") from error

        return _IcebergLine(ask(table.catalog, load))


# -- tables of Delta --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _KnownLog:
    """What a look has found in the log of a table of Delta."""

    table_id: str
    newest: int
    stamp: FileStamp | None
    """Of the newest commit: while the stamp is the same, nothing was written over that commit."""


class _DeltaLine:
    """The commits of a table of Delta."""

    def __init__(self, log: Place, known: _KnownLog) -> None:
        self._log = log
        self._known = known

    @property
    def table_id(self) -> str:
        return self._known.table_id

    @property
    def last(self) -> TableVersion:
        return TableVersion(self._known.newest)

    def had_id(self, table_id: str, version: TableVersion) -> bool:
        """Read which id the table had then; where no file of the log says it, it is not known to have had this one."""
        if version.number > self._known.newest:
            return False
        return table_id == _id_by(self._log, [name for name in names_in(self._log) if _version_of_file(name) <= version.number])

    def before(self, since_ms: int | None) -> TableVersion:
        first = _first_of(self._log, self._known.newest)
        if since_ms is None:
            return TableVersion(first - 1)
        return TableVersion(next((each for each in range(self._known.newest, first - 1, -1) if self._is_older(each, since_ms)), first - 1))

    def continue_from(self, cursor: TableVersion) -> TableVersion:
        if cursor.number >= self._known.newest:
            return self.last
        if stamp_of(_commit(self._log, cursor.number + 1)) is not None:
            return cursor
        return TableVersion(max(cursor.number, _first_of(self._log, self._known.newest) - 1))

    def _is_older(self, version: int, since_ms: int) -> bool:
        stamp = stamp_of(_commit(self._log, version))
        return stamp is None or stamp.modified_ms is None or stamp.modified_ms < since_ms


def _commit(log: Place, version: int) -> Place:
    return log / f"{version:020}.json"


def _read_on(log: Place, known: _KnownLog) -> _KnownLog:
    """Return what is known of a log with the commits that have come: they follow one another, so the newest is found by doubled steps.

    One that replaces the table by another, such as `CREATE OR REPLACE TABLE`, gives it another id.
    """
    newest, step = known.newest, 1
    while stamp_of(_commit(log, newest + step)) is not None:
        newest, step = newest + step, 2 * step
    while step > 1:
        step //= 2
        if stamp_of(_commit(log, newest + step)) is not None:
            newest += step
    if newest == known.newest:
        return known
    new_id = next((found for each in range(newest, known.newest, -1) if (found := _id_in(_commit(log, each)))), "")
    return _KnownLog(new_id or known.table_id, newest, stamp_of(_commit(log, newest)))


def _versions_in(names: Iterable[str]) -> list[int]:
    return sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))


def _first_of(log: Place, newest: int) -> int:
    """Return the first of the commits that reach up to the newest one without a gap; behind the newest, where none is there."""
    there, first = set(_versions_in(names_in(log))), newest + 1
    while first - 1 in there:
        first -= 1
    return first


def _read_log(table: FollowedTable, log: Place) -> _KnownLog:
    """Return what the whole log has. Of one whose commits are all cleaned up, the newest checkpoint is the newest version."""
    names = names_in(log)
    checkpoint, _, _ = files_to_read(names)
    commits = _versions_in(names)
    newest = max([*commits[-1:], *(int(name[:20]) for name in checkpoint)], default=None)
    if newest is None:
        raise LookFailed(f"table of Delta not found: {table.path} has no _delta_log with commits; it is waited for")
    if not (table_id := _id_by(log, names)):
        raise LookFailed(f"no commit and no checkpoint in {log} says which table it is: its log is damaged")
    return _KnownLog(table_id, newest, stamp_of(_commit(log, newest)))


def _version_of_file(name: str) -> int:
    """Return the version of which a commit or a checkpoint is; above all versions for other files."""
    return int(name[:20]) if name[:20].isdecimal() else sys.maxsize


def _id_by(log: Place, names: Iterable[str]) -> str:
    """Return the id that the table has by these files of its log: what the newest one says that names it; empty: none does."""
    checkpoint, newer, older = files_to_read(names)
    return next((found for name in [*newer[::-1], *checkpoint, *older] if (found := _id_in(log / name))), "")


def _id_in(file: Place) -> str:
    """Return the id of the table that a file of its log names; empty: it names none, as most commits do."""
    if file.text.endswith(".parquet"):
        import pyarrow.parquet as pq  # noqa: PLC0415 - it takes long, and few tables have no other file that says it

        with opened(file) as source:
            rows = pq.ParquetFile(source).read(columns=["metaData.id"]).column("metaData").to_pylist()
        return next((str(row["id"]) for row in rows if row is not None and row["id"] is not None), "")
    return next(_ids_in(read_if_there(file) or b""), "")


def _ids_in(content: bytes) -> Iterator[str]:
    for line in content.splitlines():
        action = json.loads(line) if b'"metaData"' in line else {}
        if isinstance(found := action.get("metaData"), dict):
            yield str(found.get("id") or "")


# -- tables of Iceberg ------------------------------------------------------------------------------------------------


class _IcebergLine:
    """The snapshots of a table of Iceberg from which its present one has come."""

    def __init__(self, table: "Table") -> None:
        metadata = table.metadata
        if metadata.format_version < 2:  # noqa: PLR2004 - the number of the format
            raise LookFailed("the table is of Iceberg's format 1, whose versions have no numbers: set its property format-version to 2")
        known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        self.table_id = str(metadata.table_uuid)
        self._line: list[Snapshot] = []
        """The newest first."""
        snapshot = known.get(metadata.current_snapshot_id or 0)
        while snapshot is not None:
            self._line.append(snapshot)
            snapshot = known.get(snapshot.parent_snapshot_id or 0)

    @property
    def last(self) -> TableVersion:
        return _version_of(self._line[0]) if self._line else TableVersion(0)

    def had_id(self, table_id: str, version: TableVersion) -> bool:
        del table_id, version  # A table keeps its id.
        return False

    def before(self, since_ms: int | None) -> TableVersion:
        older = (each for each in self._line if since_ms is not None and each.timestamp_ms < since_ms)
        return next((_version_of(each) for each in older), self._begin())

    def continue_from(self, cursor: TableVersion) -> TableVersion:
        begin = self._begin()
        is_begin = begin.snapshot_id == cursor.snapshot_id or (not begin.snapshot_id and begin.number == cursor.number)
        if is_begin or cursor in map(_version_of, self._line):
            return cursor
        common = (_version_of(each) for each in self._line if (each.sequence_number or 0) <= cursor.number)
        return next(common, begin)

    def _begin(self) -> TableVersion:
        """Return the version before the first that is there: there was none, or the table has forgotten it, and often its id, too."""
        if not self._line:
            return TableVersion(0)
        return TableVersion(max(0, (self._line[-1].sequence_number or 0) - 1), self._line[-1].parent_snapshot_id or 0)


def _version_of(snapshot: "Snapshot") -> TableVersion:
    return TableVersion(snapshot.sequence_number or 0, snapshot.snapshot_id)

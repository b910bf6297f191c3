"""The sink for tables of Iceberg that counts each batch once: a batch, and the mark that it was written, are one commit of the table.

It runs where Spark calls `foreachBatch`, and asks the catalogue from there. What is done with a batch is decided in `sink_protocol.py`;
here it is carried out, on the commits of `iceberg_table.py`. The rules it keeps:

- A newer query takes the mark over before it writes, by a commit without files. Since a commit counts only beside the snapshot that was
  looked at, an older query finds that mark instead of committing (S2, S3). The first query of all has nobody to take it from.
- A batch without rows makes no commit. So the mark may be behind the batches that have none, whose repetition harms nobody.
- Nothing that leaves this process has a secret of the catalogue in it: Spark's log has what is raised here.
"""

import logging
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.backoff import Backoff
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.places import Place
from eventflink.model.secret_masks import hide, masked
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.failures import CheckpointLost, ClientSilent, SinkFenced, SinkTaken, SinkUnavailable, StreamUnusable
from eventflink.streams.iceberg_catalogs import load_catalog
from eventflink.streams.merging import MergeBy
from eventflink.streams.progress import offsets_fingerprint
from eventflink.streams.sink_protocol import (
    BeginTransaction,
    Commit,
    ComputeBatch,
    FenceOlder,
    Mark,
    ReadMark,
    SendMark,
    SinkProtocol,
    SinkStep,
    WriteRecords,
    next_step,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask
    from pyspark.sql import DataFrame

    from eventflink.streams.iceberg_merge import Merge
    from eventflink.streams.iceberg_table import Fit, IcebergTable

logger = logging.getLogger(__name__)

_TRIES: Final = 20
"""How often older queries may commit while a newer one takes the mark over; each has few batches left to write."""
_MERGES: Final = 5
"""How often a batch is merged whose table others change at the same time."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_FIRST: Final = (1, 1)
"""The attempt and the query before which there is none."""


@dataclass(frozen=True, slots=True)
class IcebergSinkSettings:
    """Where batches go, and whose they are."""

    catalog: IcebergCatalog
    """It travels into another process, where its references are resolved."""
    name: str
    """What the table is called in the catalogue."""
    partition_by: tuple[str, ...]
    writer_id: str
    """The id of the subtask, the same for all its attempts."""
    attempt: int
    query: int
    """Its number within the attempt, which may stop one and start another."""
    location: str
    """The checkpoint directory of the subtask."""
    first_batch_id: int = 0
    """Batches below it are in the table, written by the job from whose savepoint this one began."""
    merge_by: MergeBy | None = None
    """By what rows are merged; None: they are appended."""

    @property
    def target(self) -> str:
        """What the sink is called in messages."""
        return f"the table {self.catalog.name}.{self.name}"


class IcebergSink:
    """What Spark calls with each batch of a stream; each subtask has its own mark in the table."""

    def __init__(self, settings: IcebergSinkSettings) -> None:
        """Look at nothing: the object is pickled, and works in another process."""
        self._settings = settings
        self._protocol = SinkProtocol(settings)
        self._opened: IcebergTable | None = None
        self._seen: Mapping[str, Any] | None = None
        """The mark that the table had when it was looked at last, or that was put there since."""
        self._batch: _Files | None = None
        """The files of the batch that is written."""
        self._mark: Mark | None = None
        """What the next commit makes the mark."""
        self._watch = ClientWatch()

    def make_table(self, rows: "DataFrame") -> None:
        """Check that rows fit the table before a query begins, and make the table where there is none.

        Raises:
            TableUnusable: they do not, a table cannot have such columns, or the catalogue cannot be used.
            SinkUnavailable: the catalogue does not answer.

        """
        settings = self._settings
        catalog = load_catalog(settings.catalog, hide)
        from eventflink.streams.iceberg_table import open_table  # noqa: PLC0415 - what it needs is an extra

        columns = self._of_table(rows).schema
        open_table(catalog, settings.name, columns, settings.partition_by).fit(columns, settings.partition_by, settings.merge_by)

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a batch in one commit, or only compute it if it was written before.

        Raises:
            SinkFenced: a newer query writes.
            SinkUnavailable: the catalogue did not take it, or did not say so.
            TableUnusable: the rows do not fit the table any more, or the catalogue cannot be used from here.
            CheckpointLost: the checkpoint directory does not fit what was written.
            ClientSilent: nobody waits for this stream any more.

        """
        self._watch.check(batch.sparkSession)
        steps = self._protocol.steps(batch_id, self._offsets_of(batch_id), self._offsets_of(batch_id - 1))
        with _without_secrets():
            self._open("Spark server")
            self._carry_out_all(steps, batch, batch_id)

    def settle(self, next_batch_id: int) -> int:
        """Let no older query write any more, and return the number of the batch that the table has not got yet.

        Args:
            next_batch_id: the first batch that the checkpoint directory does not have as done.

        Raises:
            SinkFenced: a newer attempt writes.
            SinkUnavailable: the catalogue does not answer, or did not take the mark.
            CheckpointLost: the checkpoint directory is behind what was written.

        """
        self._open("TaskExecutor")
        steps = self._protocol.settling(next_batch_id, self._offsets_of(next_batch_id), self._offsets_of(next_batch_id - 1))
        self._carry_out_all(steps, None, next_batch_id)
        return self._protocol.next_batch_id

    def _open(self, who: str) -> None:
        if self._opened is None:
            catalog = load_catalog(self._settings.catalog, hide, who)
            from eventflink.streams.iceberg_table import find_table  # noqa: PLC0415 - what it needs is an extra

            self._opened = find_table(catalog, self._settings.name, " was there when the stream began")

    @property
    def _table(self) -> "IcebergTable":
        assert self._opened is not None  # noqa: S101 - it is opened before any step is carried out
        return self._opened

    def _carry_out_all(self, steps: Generator[SinkStep, Mark | None, None], batch: "DataFrame | None", batch_id: int) -> None:
        step = next_step(steps, None)
        while step is not None:
            step = next_step(steps, self._carry_out(step, batch, batch_id))

    def _carry_out(self, step: SinkStep, batch: "DataFrame | None", batch_id: int) -> Mark | None:
        match step:
            case ReadMark(awaits_transactions=awaits_transactions):
                if not awaits_transactions:  # Else it was looked at when the mark was taken over.
                    self._table.refresh()
                return self._look()
            case FenceOlder():
                self._take_over()
            case ComputeBatch():
                assert batch is not None  # noqa: S101 - who settles has no batch, and computes none
                logger.info("BatchRepeated writer=%s batch=%d", self._settings.writer_id, batch_id)
                batch.write.format("noop").mode("overwrite").save()
            case BeginTransaction():
                self._batch = self._mark = None
            case WriteRecords():
                assert batch is not None  # noqa: S101 - likewise
                self._batch = self._write_files(batch, batch_id)
            case SendMark(mark=mark):
                self._mark = mark
            case Commit():
                self._commit(batch, batch_id)
        return None

    def _look(self) -> Mark | None:
        """Return the mark as the table had it when that was looked at last."""
        self._seen = self._table.mark_of(self._settings.writer_id)
        return self._mark_in(self._seen)

    def _mark_in(self, said: Mapping[str, Any] | None) -> Mark | None:
        if said is None:
            return None
        try:
            return Mark(int(said["next_batch"]), int(said["attempt"]), str(said["offsets"]), int(said["query"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SinkTaken(
                f"{self._settings.target} has rows of {self._settings.writer_id} that no stream has written, from another job of the same "
                "id: submit this one with an id that no other job has had"
            ) from error

    def _take_over(self) -> None:
        """Put the own number into the mark, which stays what it is otherwise; a newer query's is left for who looks next."""
        settings = self._settings
        own = (settings.attempt, settings.query)
        if own == _FIRST:
            return
        for _ in range(_TRIES):
            there = self._look()
            if there is not None and (there.attempt, there.query) >= own:
                return
            next_batch_id, offsets = (there.next_batch_id, there.offsets) if there is not None else (settings.first_batch_id, "")
            if self._move(Mark(next_batch_id, settings.attempt, offsets, settings.query)):
                return
        raise SinkUnavailable(f"older queries of {settings.writer_id} wrote to {settings.target} {_TRIES} times before this one did")

    def _of_table(self, rows: "DataFrame") -> "DataFrame":
        return rows if self._settings.merge_by is None else self._settings.merge_by.rows_of_table(rows)

    def _write_files(self, batch: "DataFrame", batch_id: int) -> "_Files":
        from eventflink.streams.iceberg_files import write_files  # noqa: PLC0415 - what it needs is an extra
        from eventflink.streams.iceberg_merge import write_merged  # noqa: PLC0415 - likewise

        self._table.refresh()  # Its columns may be others by now.
        table, by = self._table, self._settings.merge_by
        fit = table.fit(self._of_table(batch).schema, self._settings.partition_by, by)
        # Of a query that was stopped the last batch may still be there, in the session that the next one has.
        if by is None:
            return _Files(fit, write_files(batch, table, fit, settings_stay=True))
        what = f"batch {batch_id} of {self._settings.writer_id}"
        merge = write_merged(batch, table, fit, by, table.snapshot_id, one_of_each_in=what, settings_stay=True)
        return _Files(fit, merge.files, merge)

    def _commit(self, batch: "DataFrame | None", batch_id: int) -> None:
        """Commit what was written, or the mark alone; what others have changed meanwhile is merged into as it is then.

        Raises:
            SinkFenced: a newer query has taken the mark over.
            SinkUnavailable: others were quicker each time.

        """
        settings, mark, pauses = self._settings, self._mark, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        assert mark is not None  # noqa: S101 - it is sent before
        for remaining in reversed(range(_MERGES)):
            written = self._batch or _Files()
            if not written.changes_table and (written.fit is not None or mark == self._mark_in(self._seen)):
                return
            try:
                is_moved = self._move(mark, written)
                break
            except _MergedIntoOther as error:
                if batch is None or not remaining:
                    says = f"nothing was merged into {settings.target}: others changed it each time at the same moment"
                    raise SinkUnavailable(says) from error
                logger.info("BatchMergedAgain writer=%s batch=%d", settings.writer_id, batch_id)
                time.sleep(pauses.next())
                self._batch = self._write_files(batch, batch_id)
        if not is_moved:
            raise SinkFenced(f"a newer query of {settings.writer_id} writes to {settings.target}: batch {batch_id} was not written")
        logger.info("BatchWritten writer=%s batch=%d files=%d", settings.writer_id, batch_id, len(written.files))

    def _move(self, mark: Mark, written: "_Files | None" = None) -> bool:
        """Commit files with a mark, and return true; unless the mark was moved since it was looked at, by another query."""
        from eventflink.streams.iceberg_table import commit_once  # noqa: PLC0415 - what it needs is an extra

        said = {
            "attempt": mark.attempt,
            "query": mark.query,
            "next_batch": mark.next_batch_id,
            "offsets": mark.offsets,
            "commit": uuid.uuid4().hex,
        }
        before, writer_id = (self._seen or {}).get("commit"), self._settings.writer_id
        new = written or _Files()

        def is_moved(there: Mapping[str, Any]) -> bool:
            return there.get("commit") != before

        found = commit_once(self._table, new.fit, new.files, lambda: new.find_replaced(self._table), writer_id, said, is_moved)
        if is_own := found.get("commit") == said["commit"]:
            self._seen = found
        return is_own

    def _offsets_of(self, batch_id: int) -> str:
        return offsets_fingerprint(Place(self._settings.location), batch_id)


class _MergedIntoOther(Exception):
    """Others have changed what a batch was merged into."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a batch."""

    fit: "Fit | None" = None
    """None: there is no batch."""
    files: "Sequence[DataFile]" = ()
    merge: "Merge | None" = None
    """By which they replace others; None: they replace none."""

    @property
    def changes_table(self) -> bool:
        return bool(self.files) or (self.merge is not None and bool(self.merge.replaced))

    def find_replaced(self, table: "IcebergTable") -> "Sequence[FileScanTask]":
        """Return which files of the newest snapshot go.

        Raises:
            _MergedIntoOther: others have changed what was compared.

        """
        found = self.merge.find_replaced(table) if self.merge is not None else []
        if found is None:
            raise _MergedIntoOther
        return found


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Have what is raised, and what that was raised from, say no secret of the catalogue."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    try:
        yield
    except PySparkException:  # Spark knows none, and says what is wrong with the rows.
        raise
    except (StreamUnusable, SinkFenced, SinkTaken, SinkUnavailable, CheckpointLost, ClientSilent) as error:
        raise type(error)(masked(str(error))) from None
    except Exception as error:  # noqa: BLE001 - each FileIO has errors of its own
        raise SinkUnavailable(masked(f"the batch was not written: {type(error).__name__}: {error}")) from None

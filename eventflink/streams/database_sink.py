"""A sink for databases that counts each batch once: a batch, and the mark that it was written, are one transaction of the database.

For users: a job declares an object of `DatabaseSink` as its sink, `python: "module:object"`. Like the sink for Kafka it runs where Spark
calls it. What is done with a batch is decided in `sink_protocol.py`; here it is carried out, and these rules are kept besides:

- A newer query takes the mark over before it writes, after which nothing of an older one can be committed (S2); an attempt that stops its
  query takes it over as well (S3). The mark's row is locked for the moment of a commit only, so a newer query does not wait for what an
  older one has begun.
- Each batch moves the mark, also one without rows. So a batch beyond the next one says that the database has lost what it had.
- Whether the connection commits by itself is tried, since drivers say it in many ways. Only the sink commits.
"""

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from eventflink.model.places import Place
from eventflink.streams.failures import CheckpointLost, SinkFenced, StreamUnusable
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
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS stream_marks "
    "(writer_id VARCHAR(700) PRIMARY KEY, attempt BIGINT NOT NULL, next_batch_id BIGINT NOT NULL, offsets VARCHAR(64))"
)
_TAKE: Final = "UPDATE stream_marks SET attempt = ? WHERE writer_id = ? AND attempt < ?"
_TRY: Final = "UPDATE stream_marks SET attempt = -attempt WHERE writer_id = ? AND attempt = ?"
"""A number that is older than all: should it stay, any query can take the mark over."""
_READ: Final = "SELECT attempt, next_batch_id, offsets FROM stream_marks WHERE writer_id = ?"
_BEGIN: Final = "INSERT INTO stream_marks (writer_id, attempt, next_batch_id, offsets) VALUES (?, ?, ?, '')"
_ADVANCE: Final = "UPDATE stream_marks SET next_batch_id = ?, offsets = ? WHERE writer_id = ? AND attempt = ?"

_QUERIES: Final = 1_000_000
"""The column `attempt` counts queries: the number of the attempt times this, and the number of the query within the attempt."""


@dataclass(frozen=True, slots=True)
class DatabaseSinkSettings:
    """Whose batches they are."""

    writer_id: str
    """The name of the subtask in `stream_marks`, the same for all its attempts."""
    attempt: int
    """Its number, from 1 on; a newer one has a higher number."""
    query: int
    """Its number within the attempt, which may stop one and start another."""
    location: str
    """The checkpoint directory of the subtask."""
    first_batch_id: int = 0
    """Batches below it were written by the job from whose savepoint this one began."""

    @property
    def target(self) -> str:
        """What the sink is called in messages."""
        return "the database"

    @property
    def number(self) -> int:
        """What the column `attempt` says of this query."""
        return self.attempt * _QUERIES + self.query


class DatabaseSink:
    """What Spark calls with each batch of a stream; each subtask has its own mark, a row of the table `stream_marks`."""

    def __init__(self, connect: Callable[[], Any], write: Callable[[Any, "DataFrame"], Any], *, placeholder: str = "%s") -> None:
        """Connect to nothing: the object is pickled, and works in another process.

        Args:
            connect: returns a new connection of the DB-API (PEP 249), which begins a transaction by itself.
            write: writes a batch by the connection it gets with it. It neither commits nor rolls back.
            placeholder: of a parameter in SQL, as the driver wants it; `?` for some.

        """
        self._connect = connect
        self._write = write
        self._placeholder = placeholder
        self._of: DatabaseSinkSettings | None = None
        self._protocol: SinkProtocol | None = None
        self._connection: Any = None

    def of(self, settings: DatabaseSinkSettings) -> "DatabaseSink":
        """Return the sink of one query; a stream of the cluster does that itself."""
        sink = DatabaseSink(self._connect, self._write, placeholder=self._placeholder)
        sink._of = settings
        return sink

    def settle(self, next_batch_id: int) -> int:
        """Take the mark over from a query that was stopped, so that it commits nothing more, and return the batch that is not there yet.

        Args:
            next_batch_id: the first batch that the checkpoint directory does not have as done.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: the checkpoint directory does not fit what was written.
            StreamUnusable: the connection commits by itself.

        """
        protocol = self._open()
        try:
            steps = protocol.settling(next_batch_id, self._offsets_of(next_batch_id), self._offsets_of(next_batch_id - 1))
            self._carry_out_all(protocol, steps, None, next_batch_id)
        finally:
            self._give_up()
        return protocol.next_batch_id

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a batch in one transaction, or only compute it if it was written before.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: the checkpoint directory does not fit what was written.
            StreamUnusable: the connection commits by itself, the user's function commits, or it is not said whose sink this is.

        """
        protocol = self._open()
        try:
            steps = protocol.steps(batch_id, self._offsets_of(batch_id), self._offsets_of(batch_id - 1))
            self._carry_out_all(protocol, steps, batch, batch_id)
        except BaseException:
            self._give_up()
            raise

    def _open(self) -> SinkProtocol:
        if self._protocol is None:
            self._protocol, self._connection = SinkProtocol(self._settings), self._connect()
        return self._protocol

    @property
    def _settings(self) -> DatabaseSinkSettings:
        if self._of is None:
            raise StreamUnusable("invalid DatabaseSink: it has no settings; declare it as the sink of a stream, or call `of` with them")
        return self._of

    def _offsets_of(self, batch_id: int) -> str:
        return offsets_fingerprint(Place(self._settings.location), batch_id)

    def _carry_out_all(
        self, protocol: SinkProtocol, steps: Generator[SinkStep, Mark | None, None], batch: "DataFrame | None", batch_id: int
    ) -> None:
        step = next_step(steps, None)
        while step is not None:
            if isinstance(step, BeginTransaction) and batch_id > protocol.next_batch_id:
                raise CheckpointLost(
                    f"batch {batch_id} is to be written to the database, and batch {protocol.next_batch_id} was not: the database, or its "
                    f"table stream_marks, is behind the checkpoint directory"
                )
            step = next_step(steps, self._carry_out(step, batch, batch_id))

    def _carry_out(self, step: SinkStep, batch: "DataFrame | None", batch_id: int) -> Mark | None:
        match step:
            case ReadMark(awaits_transactions=awaits_transactions):
                if not awaits_transactions:
                    self._make_table()
                mark = self._read_mark()
                self._connection.rollback()
                return mark
            case FenceOlder():
                self._take_over()
                self._try_rollback()
            case ComputeBatch():
                assert batch is not None  # noqa: S101 - who settles has no batch, and computes none
                logger.info("BatchRepeated writer=%s batch=%d", self._settings.writer_id, batch_id)
                batch.write.format("noop").mode("overwrite").save()
            case BeginTransaction():
                self._read_mark()  # With that it begins: what the user's function puts into a block of its own does not end it.
            case WriteRecords():
                assert batch is not None  # noqa: S101 - likewise
                self._write(_Uncommitted(self._connection), batch)
            case SendMark(mark=mark):
                writer_id = self._settings.writer_id
                self._execute(_ADVANCE, mark.next_batch_id, mark.offsets, writer_id, self._settings.number)
                if self._read_mark() != mark:
                    raise SinkFenced(f"a newer query of {writer_id} writes to the database: batch {batch_id} was not written")
            case Commit():
                self._connection.commit()
        return None

    def _take_over(self) -> None:
        """Take the mark over from older queries, or make it."""
        settings = self._settings
        self._execute(_TAKE, settings.number, settings.writer_id, settings.number)
        if self._read_mark() is None:
            self._execute(_BEGIN, settings.writer_id, settings.number, settings.first_batch_id)
        self._connection.commit()

    def _try_rollback(self) -> None:
        """Change the mark, and see whether a rollback undoes it."""
        self._execute(_TRY, self._settings.writer_id, self._settings.number)
        self._connection.rollback()
        mark = self._read_mark()
        self._connection.rollback()
        if mark is not None and mark.attempt < 0:
            raise StreamUnusable(
                "the connection commits by itself, or the table stream_marks has no transactions, and a batch and its mark have to be one: "
                "let `connect` return a connection without autocommit (sqlite3: with an isolation_level)"
            )

    def _make_table(self) -> None:
        try:
            self._execute(_MAKE)
            self._connection.commit()
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            # Another subtask makes it at this moment, or it is there and this user may make none. Where it is missing, the next step fails.
            logger.warning("TableNotMade table=stream_marks error=%s", error)
            self._connection.rollback()

    def _read_mark(self) -> Mark | None:
        row = self._execute(_READ, self._settings.writer_id).fetchone()
        if row is None:
            return None
        number, next_batch_id, offsets = _values(row)
        attempt, query = divmod(int(number), _QUERIES)
        return Mark(int(next_batch_id), attempt, offsets or "", query)

    def _execute(self, statement: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._placeholder), values)
        return cursor

    def _give_up(self) -> None:
        """Roll back and close; what cannot be rolled back ends with its connection."""
        connection, self._connection, self._protocol = self._connection, None, None
        with contextlib.suppress(Exception):
            connection.rollback()
        with contextlib.suppress(Exception):
            connection.close()


class _Uncommitted:
    """The connection for the user's function, which cannot end the transaction by it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def _refuse(self, *_: object) -> NoReturn:
        raise StreamUnusable(
            "the function of a DatabaseSink ends the transaction, which would lose or double its batch: leave out commit, rollback, close "
            "and `with connection`"
        )

    commit = rollback = close = __enter__ = __exit__ = _refuse


def _values(row: object) -> list[Any]:
    """Return the columns of a row in their order, whatever the driver makes of it.

    Raises:
        StreamUnusable: it has no columns.

    """
    if isinstance(row, Mapping):
        return list(row.values())
    if isinstance(row, Iterable):
        return list(row)
    raise StreamUnusable(f"invalid row of stream_marks: {type(row).__name__}: let `connect` return a connection whose rows have columns")

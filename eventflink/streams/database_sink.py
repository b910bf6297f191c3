"""A sink for databases that counts each batch once: a batch, and the mark that it was written, are one transaction of the database.

For users: a job declares an object of `DatabaseSink` as its sink, `python: "module:object"`. Like the sink for Kafka it runs where Spark
calls it, and keeps two rules: a batch below the mark is not written again (S1), and a newer query takes the mark over before it writes,
after which nothing of an older one can be committed (S2); an attempt that stops its query takes it over as well (S3). The mark's row is
locked for the moment of a commit only, so a newer query does not wait for what an older one has begun.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eventflink.streams.failures import CheckpointLost, SinkFenced, StreamUnusable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS stream_marks (writer_id VARCHAR(700) PRIMARY KEY, attempt BIGINT NOT NULL, next_batch_id BIGINT NOT NULL)"
)
_TAKE: Final = "UPDATE stream_marks SET attempt = ? WHERE writer_id = ? AND attempt < ?"
_READ: Final = "SELECT attempt, next_batch_id FROM stream_marks WHERE writer_id = ?"
_BEGIN: Final = "INSERT INTO stream_marks (writer_id, attempt, next_batch_id) VALUES (?, ?, ?)"
_ADVANCE: Final = "UPDATE stream_marks SET next_batch_id = ? WHERE writer_id = ? AND attempt = ?"

_QUERIES: Final = 1_000_000
"""The column `attempt` counts queries: the number of the attempt times this, and the number of the query within the attempt."""


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
        self._writer_id = ""
        self._query = 0
        self._first_batch_id = 0
        self._connection: Any = None
        self._next_batch_id = 0

    def of(self, writer_id: str, attempt: int, query: int = 0, first_batch_id: int = 0) -> "DatabaseSink":
        """Return the sink of one query; a stream of the cluster does that itself.

        Args:
            writer_id: of the subtask, the same for all its attempts.
            attempt: its number, from 1 on; a newer one has a higher number.
            query: its number within the attempt, which may stop one and start another.
            first_batch_id: batches below it were written by the job from whose savepoint this one began.

        """
        sink = DatabaseSink(self._connect, self._write, placeholder=self._placeholder)
        sink._writer_id, sink._query, sink._first_batch_id = writer_id, attempt * _QUERIES + query, first_batch_id
        return sink

    def settle(self, next_batch_id: int) -> int:
        """Take the mark over from a query that was stopped, so that it commits nothing more, and return the batch that is not there yet.

        Args:
            next_batch_id: the first batch that the checkpoint directory does not have as done.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: the checkpoint directory is behind what was written.
            StreamUnusable: the connection commits by itself.

        """
        self._connection = self._connect()
        try:
            self._begin(next_batch_id)
        finally:
            self._give_up()
        return self._next_batch_id

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Write a batch in one transaction, or only compute it if it was written before.

        Raises:
            SinkFenced: a newer attempt writes.
            CheckpointLost: batches beyond the next one were written before.
            StreamUnusable: the connection commits by itself, or it is not said whose sink this is.

        """
        if not self._writer_id:
            raise StreamUnusable("a DatabaseSink is the sink of a stream, or is told by `of` whose it is")
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._begin(batch_id)
            if batch_id < self._next_batch_id:
                logger.info("BatchRepeated writer=%s batch=%d", self._writer_id, batch_id)
                batch.write.format("noop").mode("overwrite").save()
            else:
                self._write_batch(batch, batch_id)
        except BaseException:
            self._give_up()
            raise

    def _write_batch(self, batch: "DataFrame", batch_id: int) -> None:
        self._check_mark()  # The transaction begins with that: what the user's function puts into a block of its own does not end it.
        self._write(self._connection, batch)
        if self._execute(_ADVANCE, batch_id + 1, self._writer_id, self._query).rowcount != 1:
            raise SinkFenced(f"a newer query of {self._writer_id} writes to the database: batch {batch_id} was not written")
        self._connection.commit()
        self._next_batch_id = batch_id + 1

    def _begin(self, batch_id: int) -> None:
        """Take the mark over, and refuse a checkpoint directory that does not fit it."""
        self._take_over()
        # Spark repeats the last batch at the most. Who begins further back would read other records under numbers that were written.
        if self._next_batch_id > batch_id + 1:
            raise CheckpointLost(
                f"batch {batch_id} is to be written to the database, and batch {self._next_batch_id - 1} was written before: "
                f"the checkpoint directory was lost, or another job was called {self._writer_id}"
            )

    def _take_over(self) -> None:
        """Take the mark over from older queries, and learn which batches they have written."""
        if getattr(self._connection, "autocommit", False) is True:
            raise StreamUnusable("the connection commits by itself: a batch and its mark have to be one transaction")
        self._make_table()
        self._execute(_TAKE, self._query, self._writer_id, self._query)
        if (next_batch_id := self._check_mark()) is None:
            self._execute(_BEGIN, self._writer_id, self._query, self._first_batch_id)
        self._connection.commit()
        self._next_batch_id = self._first_batch_id if next_batch_id is None else next_batch_id

    def _make_table(self) -> None:
        try:
            self._execute(_MAKE)
            self._connection.commit()
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            # Another subtask makes it at this moment, or it is there and this user may make none. Where it is missing, the next step fails.
            logger.warning("TableNotMade table=stream_marks error=%s", error)
            self._connection.rollback()

    def _check_mark(self) -> int | None:
        """Return the number of the next batch; None if the writer has no mark."""
        mark = self._execute(_READ, self._writer_id).fetchone()
        if mark is not None and mark[0] != self._query:
            raise SinkFenced(f"{_name(mark[0])} of {self._writer_id} has written to the database: this is {_name(self._query)}")
        return None if mark is None else int(mark[1])

    def _execute(self, statement: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._placeholder), values)
        return cursor

    def _give_up(self) -> None:
        """Roll back and close; what cannot be rolled back ends with its connection."""
        connection, self._connection = self._connection, None
        with contextlib.suppress(Exception):
            connection.rollback()
        with contextlib.suppress(Exception):
            connection.close()


def _name(query: int) -> str:
    attempt, number = divmod(query, _QUERIES)
    return f"query {number} of attempt {attempt}"

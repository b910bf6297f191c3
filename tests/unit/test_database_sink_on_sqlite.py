"""The sink for databases before SQLite: what it refuses of a checkpoint directory, a connection and a function that do not fit."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from eventflink.model.places import Place
from eventflink.streams.database_sink import DatabaseSink, DatabaseSinkSettings
from eventflink.streams.failures import CheckpointLost, StreamUnusable
from eventflink.streams.progress import begun_batch_place

Connect = Callable[[], Any]


def insert(connection: Any, batch: Any) -> None:
    connection.cursor().executemany("INSERT INTO sales VALUES (?)", [(number,) for number in batch.numbers])


def insert_and_commit(connection: Any, batch: Any) -> None:
    insert(connection, batch)
    connection.commit()


def insert_and_roll_back(connection: Any, batch: Any) -> None:
    insert(connection, batch)
    try:
        connection.execute("INSERT INTO nowhere VALUES (1)")
    except sqlite3.OperationalError:
        connection.rollback()


def insert_in_a_block(connection: Any, batch: Any) -> None:
    with connection:
        insert(connection, batch)


class SaysAutocommitByMethod:
    """A connection like that of PyMySQL: `autocommit` is its method, which switches that on and off."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - so it is there
        self._connection.isolation_level = None if value else "DEFERRED"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def as_number(_: sqlite3.Cursor, row: tuple[Any, ...]) -> int:
    return int(row[0])


class Subtask:
    """The subtask of a stream: its checkpoint directory, as far as the sink looks into it, and a table of its database."""

    def __init__(self, directory: Path) -> None:
        self.location = Place(str(directory / "checkpoint"))
        begun_batch_place(self.location, 0).path.parent.mkdir(parents=True)
        self.database = directory / "database"
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("CREATE TABLE sales (number INTEGER)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database)

    def sink(self, attempt: int, connect: Connect | None = None, write: Callable[[Any, Any], Any] = insert) -> DatabaseSink:
        settings = DatabaseSinkSettings("cluster/job/stream/0", attempt, 1, str(self.location))
        return DatabaseSink(connect or self.connect, write, placeholder="?").of(settings)

    def write(self, sink: DatabaseSink, batch_id: int, *numbers: int) -> None:
        """Note in the directory what a batch reads, and write the batch."""
        begun_batch_place(self.location, batch_id).path.write_text(f'v1\n{{"batchTimestampMs":0}}\n{numbers}')
        sink(MagicMock(numbers=numbers), batch_id)

    def lose_note(self, batch_id: int) -> None:
        begun_batch_place(self.location, batch_id).path.unlink()

    def rows(self) -> list[int]:
        with closing(self.connect()) as connection:
            return [number for (number,) in connection.execute("SELECT number FROM sales ORDER BY number")]


@pytest.fixture
def subtask(tmp_path: Path) -> Subtask:
    return Subtask(tmp_path)


@pytest.fixture
def written(subtask: Subtask) -> Iterator[Subtask]:
    """A subtask whose first attempt has written the batches 0 and 1, and ended before Spark noted the last as done."""
    sink = subtask.sink(1)
    subtask.write(sink, 0, 1, 2)
    subtask.write(sink, 1, 3, 4)
    yield subtask
    assert subtask.rows()[:4] == [1, 2, 3, 4]


@pytest.mark.rule("S1")
def test_a_batch_that_reads_what_the_last_one_read_is_not_written_to_sqlite_again(written: Subtask) -> None:
    second = written.sink(2)
    written.write(second, 1, 3, 4)
    written.write(second, 2, 5)
    assert written.rows() == [1, 2, 3, 4, 5]


@pytest.mark.rule("S1")
def test_a_batch_that_has_got_other_records_than_the_written_one_of_its_number_is_noticed(written: Subtask) -> None:
    with pytest.raises(CheckpointLost, match="batch 1 was written to the database before, and had read up to other offsets"):
        written.write(written.sink(2), 1, 3, 4, 5, 6)


@pytest.mark.rule("S3")
def test_no_savepoint_is_taken_of_a_directory_that_lost_the_batch_that_is_in_the_database(written: Subtask) -> None:
    assert written.sink(2).settle(1) == 2
    written.lose_note(1)
    with pytest.raises(CheckpointLost, match="batch 1 was written to the database, and the checkpoint directory does not have it"):
        written.sink(3).settle(1)


@pytest.mark.rule("S1")
def test_a_database_that_is_behind_the_directory_is_noticed(written: Subtask) -> None:
    with pytest.raises(CheckpointLost, match="batch 7 is to be written to the database, and batch 2 was not"):
        written.write(written.sink(2), 7, 8)
    with pytest.raises(CheckpointLost, match="batch 7 is to be written to the database, and batch 2 was not"):
        written.sink(3).settle(7)
    written.write(written.sink(4), 2, 5)
    assert written.rows() == [1, 2, 3, 4, 5]


def sqlite_that_commits(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize("connect", [sqlite_that_commits, SaysAutocommitByMethod])
def test_a_connection_that_commits_by_itself_is_refused_however_it_says_so(subtask: Subtask, connect: Callable[[Path], Any]) -> None:
    for attempt in (1, 2, 2):
        with pytest.raises(StreamUnusable, match="the connection commits by itself"):
            subtask.write(subtask.sink(attempt, lambda: connect(subtask.database)), 0, 1, 2)
    assert subtask.rows() == []
    subtask.write(subtask.sink(2), 0, 1, 2)
    assert subtask.rows() == [1, 2]


@pytest.mark.parametrize("level", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_a_connection_that_begins_a_transaction_by_itself_is_taken_however_it_does(subtask: Subtask, level: Any) -> None:
    for attempt in (1, 2):
        subtask.write(subtask.sink(attempt, lambda: sqlite3.connect(subtask.database, isolation_level=level)), 0, 1, 2)
    assert subtask.rows() == [1, 2]


@pytest.mark.parametrize("write", [insert_and_commit, insert_and_roll_back, insert_in_a_block])
def test_a_function_that_ends_the_transaction_is_refused_and_its_batch_is_not_written(
    subtask: Subtask, write: Callable[[Any, Any], Any]
) -> None:
    with pytest.raises(StreamUnusable, match="the function of a DatabaseSink ends the transaction"):
        subtask.write(subtask.sink(1, write=write), 0, 1, 2)
    assert subtask.rows() == []
    subtask.write(subtask.sink(2), 0, 1, 2)
    assert subtask.rows() == [1, 2]


@pytest.mark.parametrize("row_factory", [sqlite3.Row, as_dict])
def test_the_rows_of_sqlite_may_be_of_another_kind(subtask: Subtask, row_factory: Any) -> None:
    def connect() -> sqlite3.Connection:
        connection = subtask.connect()
        connection.row_factory = row_factory
        return connection

    for attempt in (1, 2):
        subtask.write(subtask.sink(attempt, connect), 0, 1, 2)
    assert subtask.rows() == [1, 2]


def test_rows_without_columns_are_refused(subtask: Subtask) -> None:
    def connect() -> sqlite3.Connection:
        connection = subtask.connect()
        connection.row_factory = as_number
        return connection

    subtask.write(subtask.sink(1), 0, 1, 2)
    with pytest.raises(StreamUnusable, match="invalid row of stream_marks: int"):
        subtask.write(subtask.sink(2, connect), 0, 1, 2)

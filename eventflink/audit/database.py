"""An embedded SQL engine over the tables of the log, in memory and for one question.

A query is data, not a program: the engine can neither read nor write files, loads no extensions, reaches no network, sees
no variable of this process, its configuration is locked before the query is looked at, and the query is a single SELECT.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from eventflink.audit import QueryInvalid
from eventflink.audit.entries import Entry
from eventflink.audit.tables import SCHEMAS, Leaderships, TableBuilder, decision_row, event_rows

MEMORY_LIMIT: Final = "2GB"
_FETCH_ROWS: Final = 1_000

_SETTINGS: Final[dict[str, str]] = {
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}

_FAILURES: Final = (duckdb.Error, RuntimeError)
"""The engine's errors are its own; what a signal or a value of Python does to it comes as a RuntimeError."""

_VIEWS: Final = {
    "rejected_decisions": ("decisions", "SELECT * EXCLUDE (accepted) FROM decisions WHERE NOT accepted"),
}
"""By name: the table that the view needs, and what it is."""

_TYPES: Final = {
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("ms"): "TIMESTAMP_MS",
}

_UNKNOWN_TABLE: Final = re.compile(r"Table with name (.*) does not exist!")
"""As the engine says it, which goes on with one of its own tables."""

_FAILURES_BY_TYPE: Final = """
SELECT payload->>'$.cause.failure_type' AS failure, count(*) AS attempts, count(DISTINCT job_id) AS jobs
FROM events WHERE type = 'TaskFailed' AND accepted GROUP BY ALL ORDER BY attempts DESC"""

_WAITS_BY_JOB: Final = """
SELECT r.job_id, count(*) AS slots, max(a.decided_at - r.decided_at) AS longest
FROM events r JOIN events a USING (allocation_id)
WHERE r.type = 'SlotRequested' AND a.type = 'SlotAllocated' AND r.accepted AND a.accepted GROUP BY ALL ORDER BY longest DESC"""

_LEADERSHIPS: Final = """
SELECT epoch, master_id, accepted, granted_at, last_appended_at - granted_at AS lasted, decisions
FROM leaderships ORDER BY granted_offset"""

_REJECTED: Final = "SELECT log_offset, epoch, sequence, leader_id, rejection FROM rejected_decisions ORDER BY log_offset"

_JOBS_BY_ACTOR: Final = """
SELECT payload->>'$.actor' AS actor, count(*) AS jobs
FROM events WHERE type = 'JobSubmitted' AND accepted GROUP BY ALL ORDER BY jobs DESC"""

EXAMPLES: Final[tuple[tuple[str, str], ...]] = (
    ("Which leaderships were there, and how long did each last?", _LEADERSHIPS.strip()),
    ("Which decisions did not count, and why?", _REJECTED),
    ("Who asked for how many jobs?", _JOBS_BY_ACTOR.strip()),
    ("What fails, and how often?", _FAILURES_BY_TYPE.strip()),
    ("How long did slot requests wait, by job?", _WAITS_BY_JOB.strip()),
)
"""Questions, and the queries that answer them."""


def table_columns() -> dict[str, list[tuple[str, str]]]:
    """Return every table and view with the names and types of its columns."""
    columns = {name: [(field.name, _TYPES[field.type].removesuffix("_MS")) for field in schema] for name, schema in SCHEMAS.items()}
    for view, (table, _) in _VIEWS.items():
        columns[view] = [column for column in columns[table] if column[0] != "accepted"]
    return columns


def tables_of(sql: str) -> frozenset[str]:
    """Return the tables that a query may read: those that it names anywhere, or all where it names none."""
    text = sql.lower()
    named = {name for name in SCHEMAS if name in text} | {table for view, (table, _) in _VIEWS.items() if view in text}
    return frozenset(named or SCHEMAS)


class QueryResult:
    """The result of a query; rows are fetched as they are wanted, once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        description: Sequence[Sequence[Any]] = connection.description or ()
        self.columns: tuple[str, ...] = tuple(str(column[0]) for column in description)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows.

        Raises:
            QueryInvalid: the engine cannot continue: a value does not convert, or memory is out.

        """
        while True:
            try:
                rows = self._connection.fetchmany(_FETCH_ROWS)
            except _FAILURES as error:
                raise _invalid(error) from error
            if not rows:
                return
            yield from rows


class AuditDatabase:
    """Some of the tables, filled from entries of the log, and one query over them."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
        self._connection.execute("SET enable_external_access = false")  # The last setting: it forbids some of the others.
        self._builders = {name: TableBuilder(SCHEMAS[name]) for name in tables}
        self._leaderships = Leaderships()
        for name in self._builders:
            columns = ", ".join(f'"{field.name}" {_TYPES[field.type]}' for field in SCHEMAS[name])
            self._connection.execute(f"CREATE TABLE {name} ({columns})")
        for view, (table, query) in _VIEWS.items():
            if table in self._builders:
                self._connection.execute(f"CREATE VIEW {view} AS {query}")
        self._connection.execute("SET lock_configuration = true")

    def load(self, entries: Iterable[Entry]) -> None:
        """Fill the tables.

        Raises:
            QueryInvalid: they do not fit into the memory that the engine may take.

        """
        decisions, events = self._builders.get("decisions"), self._builders.get("events")
        for entry in entries:
            if decisions is not None:
                decisions.add_row(decision_row(entry))
            if events is not None:
                for row in event_rows(entry):
                    events.add_row(row)
            if "leaderships" in self._builders:
                self._leaderships.follow_entry(entry)
            self._flush(only_full=True)
        if "leaderships" in self._builders:
            for row in self._leaderships.rows():
                self._builders["leaderships"].add_row(row)
        self._flush(only_full=False)

    def _flush(self, *, only_full: bool) -> None:
        for name, builder in self._builders.items():
            if only_full and not builder.is_full():
                continue
            self._connection.register("batch", builder.take_batch())
            try:
                self._connection.execute(f"INSERT INTO {name} SELECT * FROM batch")  # noqa: S608 - the name is one of ours
            except duckdb.OutOfMemoryException as error:
                raise QueryInvalid(
                    f"the part of the log does not fit into {_SETTINGS['memory_limit']}; ask for less of it with --from and --until"
                ) from error
            finally:
                self._connection.unregister("batch")

    def check(self, sql: str) -> None:
        """Have the engine plan a query, which needs no rows: so that a mistake is told before a long log is read.

        Raises:
            QueryInvalid: it is not one SELECT, or names what does not exist.

        """
        check_query(sql)
        try:
            self._connection.execute(f"EXPLAIN {sql}")
        except _FAILURES as error:
            raise _invalid(error) from error

    def ask(self, sql: str) -> QueryResult:
        """Run one SELECT.

        Raises:
            QueryInvalid: it is not a valid query, or the engine cannot answer it.

        """
        check_query(sql)
        try:
            self._connection.execute(sql)
        except _FAILURES as error:
            raise _invalid(error) from error
        return QueryResult(self._connection)

    def close(self) -> None:
        """Let the memory go."""
        self._connection.close()


def check_query(sql: str) -> None:
    """Check, without any table, that a text is one SELECT.

    Raises:
        QueryInvalid: it is not.

    """
    try:
        statements = duckdb.extract_statements(sql)
    except _FAILURES as error:
        raise _invalid(error) from error
    if len(statements) != 1:
        raise QueryInvalid(f"one query is answered at a time, not {len(statements)}")
    if statements[0].type is not duckdb.StatementType.SELECT:
        raise QueryInvalid(f"the log is only asked: SELECT, not {statements[0].type.name}")


def _invalid(error: Exception) -> BaseException:
    """Return what an error of the engine is to a caller: its message on one line, without the marks below its copy of the query."""
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    if isinstance(error, duckdb.CatalogException) and (unknown := _UNKNOWN_TABLE.search(str(error))):
        return QueryInvalid(f"table not found: '{unknown[1]}'; there are {', '.join(sorted(table_columns()))}")
    lines = [line.strip() for line in str(error).replace("LINE 1: EXPLAIN ", "LINE 1: ").splitlines()]
    return QueryInvalid(" ".join(line for line in lines if line and set(line) - {"^", "~", " "}))

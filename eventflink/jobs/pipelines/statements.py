"""The statements in the SQL files of a pipeline: which data set or flow each of them defines, and by which query.

Spark 4.2 reads these statements in its pipeline runner alone, and refuses them elsewhere. So they are divided here; their queries, columns
and clauses stay as they are written, for Spark to read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from eventflink.model.sql_script import divided, masked


class InvalidPipeline(ValueError):
    """A pipeline cannot be a job; the message names the file and the definition."""


class DataSetKind(Enum):
    """What a definition makes."""

    MATERIALIZED_VIEW = "materialized view"
    """A table whose rows are those of a query, all of them computed anew each time."""
    STREAMING_TABLE = "streaming table"
    """A table to which flows append what is new in their sources."""
    TEMPORARY_VIEW = "temporary view"
    """A query with a name, which nothing stores."""
    SINK = "sink"
    """Something outside Spark's catalogue to which flows write."""


@dataclass(frozen=True, slots=True)
class SqlDefinition:
    """A data set, a flow, or both: a data set with a query has a flow of its name."""

    kind: DataSetKind | None
    """None: a flow into a data set that another statement defines."""
    name: str
    columns: str
    """What stands in brackets behind the name."""
    clauses: str
    """What stands between the name and `AS`, such as `USING delta PARTITIONED BY (day)`."""
    query: str
    """Empty: only flows of their own write to it."""
    target: str
    """The data set that the query writes to."""


@dataclass(frozen=True, slots=True)
class SqlSetting:
    """A setting for the flows that follow in the file."""

    key: str
    value: str


_PART: Final = r"(?:`(?:[^`]|``)*`|\w+)"
_NAME: Final = rf"(?!IDENTIFIER\s*\(){_PART}(?:\s*\.\s*{_PART})*(?=[\s(]|\Z)"
_IF_NOT_THERE: Final = r"(?:IF\s+NOT\s+EXISTS\s+)?"
_DATA_SET: Final = re.compile(
    rf"CREATE\s+(?:(?P<view>MATERIALIZED\s+VIEW)|(?P<table>STREAMING\s+TABLE))\s+{_IF_NOT_THERE}(?P<name>{_NAME})", re.IGNORECASE
)
_TEMPORARY: Final = re.compile(rf"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+{_IF_NOT_THERE}(?P<name>{_NAME})", re.IGNORECASE)
_FLOW: Final = re.compile(rf"CREATE\s+FLOW\s+(?P<name>{_NAME})", re.IGNORECASE)
_INSERT: Final = re.compile(rf"\s*INSERT\s+INTO\s+(?:TABLE\s+)?(?P<target>{_NAME})\s+BY\s+NAME\b", re.IGNORECASE)
_AUTO_CDC: Final = re.compile(r"\s*AUTO\s+CDC\b|\s*APPLY\s+CHANGES\b", re.IGNORECASE)
_SET: Final = re.compile(r"SET\s+(?P<key>[\w.-]+|`[^`]+`)\s*=\s*(?P<value>.*?)\s*", re.IGNORECASE | re.DOTALL)
_AS: Final = re.compile(r"\bAS\b|[()]", re.IGNORECASE)
_OPENING: Final = re.compile(r"\s*\(")
_VARIABLE: Final = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?([^}]+)\}")
_BRACKET: Final = re.compile(r"[()]")

NO_AUTO_CDC: Final = (
    "a flow of AUTO CDC is only known to Spark's own runner, which goes on after its task has ended: write the changes by a stream with "
    "keys, or by MERGE"
)


def substituted(sql: str, value_of: Callable[[str], str | None]) -> str:
    """Return a text with the values of settings in place of `${key}`, as Spark reads it; what is no setting stays."""
    return _VARIABLE.sub(lambda found: value if (value := value_of(found[1].strip())) is not None else found[0], sql)


def definitions_of(sql: str, file: str, value_of: Callable[[str], str | None] = lambda _: None) -> list[SqlDefinition | SqlSetting]:
    """Return what a SQL file of a pipeline defines, in order.

    Args:
        sql: the text.
        file: its name, for messages.
        value_of: gives the value of a setting; None: it is none. A `SET` before a statement comes first.

    Raises:
        InvalidPipeline: a statement defines nothing that a pipeline can have; the message names its line.

    Example:
        `CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) FROM orders` has the name and target `totals`, and the query behind `AS`.

    """
    found: list[SqlDefinition | SqlSetting] = []
    settings: dict[str, str] = {}
    for statement in divided(sql):
        try:
            text = substituted(statement.text, lambda key: settings.get(key, value_of(key)))
            found.append(_definition_of(text, masked(text)))
            if isinstance(setting := found[-1], SqlSetting):
                settings[setting.key] = setting.value
        except InvalidPipeline as error:
            raise InvalidPipeline(f"{file}, line {statement.line}: {error}") from None
    return found


def _definition_of(text: str, hidden: str) -> SqlDefinition | SqlSetting:
    if found := _SET.fullmatch(hidden):
        return SqlSetting(found["key"].strip("`"), text[slice(*found.span("value"))])
    if found := _DATA_SET.match(hidden):
        kind = DataSetKind.MATERIALIZED_VIEW if found["view"] else DataSetKind.STREAMING_TABLE
    elif found := _TEMPORARY.match(hidden):
        kind = DataSetKind.TEMPORARY_VIEW
    elif found := _FLOW.match(hidden):
        return _flow_of(found["name"], text, hidden, found.end())
    else:
        raise InvalidPipeline(
            "it defines nothing of a pipeline: CREATE MATERIALIZED VIEW, CREATE STREAMING TABLE, CREATE TEMPORARY VIEW, CREATE FLOW and "
            "SET do; name tables with their catalogue and database in place of USE and SET CATALOG"
        )
    columns_begin, columns_end = _columns_behind(hidden, found.end())
    clauses_begin = columns_end + 1 if columns_end > found.end() else columns_end
    query_begins = _query_behind(hidden, clauses_begin)
    clauses_end = len(text) if query_begins is None else query_begins - len("AS")
    query = "" if query_begins is None else text[query_begins:].strip()
    if not query and kind is not DataSetKind.STREAMING_TABLE:
        raise InvalidPipeline(f"{kind.value} '{found['name']}' has no query: write AS and a SELECT behind it")
    name, columns, clauses = found["name"], text[columns_begin:columns_end], text[clauses_begin:clauses_end]
    return SqlDefinition(kind, name, columns.strip(), clauses.strip(), query, name)


def _flow_of(name: str, text: str, hidden: str, position: int) -> SqlDefinition:
    begins = _query_behind(hidden, position)
    behind = hidden[begins:] if begins is not None else ""
    if _AUTO_CDC.match(behind):
        raise InvalidPipeline(f"flow '{name}': {NO_AUTO_CDC}")
    insert = _INSERT.match(behind)
    if begins is None or insert is None:
        raise InvalidPipeline(f"flow '{name}' does not say where it writes: write AS INSERT INTO, a streaming table, BY NAME and a query")
    return SqlDefinition(None, name, "", "", text[begins + insert.end() :].strip(), insert["target"])


def _query_behind(hidden: str, position: int) -> int | None:
    """Return where the query begins behind the first `AS` in no brackets; None: there is none."""
    depth = 0
    for token in _AS.finditer(hidden, position):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0] not in "()":
            return token.end()
    return None


def _columns_behind(hidden: str, position: int) -> tuple[int, int]:
    """Return where the columns in brackets behind a name begin and end; both are the position where there are none."""
    opening = _OPENING.match(hidden, position)
    if opening is None:
        return position, position
    depth = 1
    for token in _BRACKET.finditer(hidden, opening.end()):
        depth += 1 if token[0] == "(" else -1
        if depth == 0:
            return opening.end(), token.start()
    raise InvalidPipeline("a bracket is opened and never closed")

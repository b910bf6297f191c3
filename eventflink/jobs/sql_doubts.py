"""What looks wrong in the SQL of a job before it runs: a statement that cannot be read, and an edge that seems to be missing.

sqlglot reads most of Spark's SQL, and not all of it, and only Spark's catalogue knows the tables. The rule this module keeps: a doubt is a
warning, and never a reason to refuse a job.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final

from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.model.sql_script import Statement, is_compound, pointed_at, statements_of
from eventflink.model.statuses import TaskType

MAX_DOUBTS: Final = 10
_MAX_LENGTH: Final = 8_192
"""Longer statements are not read: some of 64 KiB take seconds."""
_WITHIN_S: Final = 2.0
"""No further vertex is read after this time: a person waits."""
_DIALECT: Final = "databricks"
"""Spark's, with paths into variants, which Spark has as well."""
_WINDOW: Final = re.compile(r"\bwindow\b(?!\s+\w+\s+AS\b)", re.IGNORECASE)
_NO_WINDOW: Final = "windov"
"""A name of the same length: sqlglot takes `window`, Spark's function and the column of its rows, for the begin of a WINDOW clause."""


def doubts_of(graph: JobGraph, texts: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return what looks wrong in the statements of a graph, in words, at most `MAX_DOUBTS`; nothing where sqlglot is not installed.

    `texts` are those of the files that vertices name, by their paths.

    Example:
        `SELECT a FROM orders WHERE` has one, with a caret below its end.

    """
    if find_spec("sqlglot") is None:  # A client may be without it: it comes with `eventflink[cluster]`.
        return []
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # It warns of what it takes for a command, such as SET TIME ZONE.
    found: list[str] = []
    deadline = time.monotonic() + _WITHIN_S
    for vertex in graph.vertices:
        sql = vertex.task if vertex.task_type is TaskType.SQL else texts.get(vertex.task)
        if sql is not None:
            inputs = {edge.input_name.lower() for edge in graph.edges if edge.target == vertex.vertex_id}
            sources = (*(vertex.stream.sources if vertex.stream is not None else ()), *vertex.sources)
            inputs |= {source.name.lower() for source in sources}
            others = {other.vertex_id.lower(): other.vertex_id for other in graph.vertices if other is not vertex}
            found.extend(_doubts_of_vertex(vertex, sql, {name: other for name, other in others.items() if name not in inputs}))
        if len(found) >= MAX_DOUBTS or time.monotonic() > deadline:
            break
    return found[:MAX_DOUBTS]


def _doubts_of_vertex(vertex: JobVertex, sql: str, others: dict[str, str]) -> Iterator[str]:
    import sqlglot  # noqa: PLC0415 - for jobs with SQL alone
    from sqlglot import expressions  # noqa: PLC0415

    made: set[str] = set()
    for statement in statements_of(sql):
        if is_compound(statement.text) or len(statement.text) > _MAX_LENGTH:
            return
        try:
            [parsed, *_] = sqlglot.parse(_WINDOW.sub(_NO_WINDOW, statement.text), read=_DIALECT) or [None]
        except sqlglot.errors.ParseError as error:
            yield f"vertex '{vertex.vertex_id}': here the statement looks like no SQL of Spark's:{_place_in(statement, error.errors[:1])}"
            return
        except (sqlglot.errors.SqlglotError, RecursionError):  # A quote does not end, or brackets nest too deeply.
            yield f"vertex '{vertex.vertex_id}': the statement in line {statement.line} looks like no SQL of Spark's"
            return
        if parsed is None:
            continue
        own = made | {each.alias_or_name.lower() for each in parsed.find_all(expressions.CTE)}
        written = parsed.find(expressions.Table) if isinstance(parsed, expressions.DDL | expressions.DML) else None
        tables = [table for table in parsed.find_all(expressions.Table) if table is not written and not _is_known_otherwise(table)]
        for name in sorted({table.name.lower() for table in tables} & others.keys() - own):
            edge = f"{{from: {others[name]}, to: {vertex.vertex_id}}}"
            yield f"vertex '{vertex.vertex_id}' reads '{name}' and has no such input: is an edge missing, {edge}?"
        if written is not None:
            made.add(written.name.lower())


def _is_known_otherwise(table: Any) -> bool:
    """Tell whether a name has a schema before it, or stands in a hint, which repeats a name of the statement."""
    from sqlglot import expressions  # noqa: PLC0415

    return bool(table.db) or table.find_ancestor(expressions.Hint) is not None


def _place_in(statement: Statement, errors: list[dict[str, object]]) -> str:
    """Return the line of an error with a caret below the word at which it was found."""
    for error in errors:
        line, behind, word = error.get("line"), error.get("col"), error.get("highlight")
        if isinstance(line, int) and isinstance(behind, int) and isinstance(word, str):
            return pointed_at(statement, line, max(0, behind - len(word)))
    return ""

"""Which tables a query names, as it is written: in a plan of Spark Connect, and in the SQL within.

An edge too many has a data set wait; for want of one it would read what another run has left. So where SQL cannot be read, each known name
that stands in it counts.
"""

import re
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import Any, Final

from eventflink.jobs.connect_messages import messages_in
from eventflink.jobs.pipelines.definitions import parts_of
from eventflink.jobs.pipelines.statements import InvalidPipeline, substituted
from eventflink.model.sql_script import masked, quoted

_NAME: Final = r"(?:`[^`]*`|\w+)(?:\.(?:`[^`]*`|\w+))*"
_WORD: Final = re.compile(r"`[^`]+`|\w+")
_STREAM: Final = re.compile(rf"\bSTREAM(?:\s*\(\s*(?P<inner>{_NAME})\s*\)|\s+(?!AS\b)(?P<bare>{_NAME}))", re.IGNORECASE)
_TABLE_ARGUMENT: Final = re.compile(rf"\bTABLE\s*\(\s*({_NAME})\s*\)", re.IGNORECASE)
_SPELLED: Final = re.compile(r"""\bIDENTIFIER\s*\(\s*(?:'([^']*)'|"([^"]*)")\s*\)""", re.IGNORECASE)
_MADE_UP: Final = re.compile(r"\b(?:FROM|JOIN|TABLE|STREAM)\s*\(?\s*IDENTIFIER\s*\((?!\s*x+\s*\))", re.IGNORECASE)
"""A table whose name is put together when the query runs; in a masked query."""


def tables_in(relation: Any, names: Collection[str], value_of: Callable[[str], str | None] = lambda _: None) -> list[str]:
    """Return the names of tables in a plan.

    Args:
        relation: the plan, a `Relation` of Spark Connect.
        names: the last parts of the names that matter, in lower case.
        value_of: gives the value of a setting, for `${key}` in a query; None: there is no such setting.

    Raises:
        InvalidPipeline: one is only known when the query runs.

    """
    found: list[str] = []
    for message in messages_in(relation):
        if message.DESCRIPTOR.name == "NamedTable":
            found.append(message.unparsed_identifier)
        elif message.DESCRIPTOR.name == "SQL":
            found += tables_of_query(substituted(message.query, value_of), names)
    return found


def tables_of_query(query: str, names: Collection[str]) -> list[str]:
    """Return the names of tables in a query.

    Args:
        query: in Spark's SQL.
        names: the last parts of the names that matter, in lower case.

    Raises:
        InvalidPipeline: one is only known when the query runs.

    Example:
        `SELECT * FROM STREAM(events) JOIN sales.rates` has `events` and `sales.rates`.

    """
    hidden = masked(query)
    if _MADE_UP.search(hidden):
        raise InvalidPipeline("a table is named by an IDENTIFIER that is only known when the query runs: write its name")
    named = [each[0] or each[1] for each in _SPELLED.findall(query)] + _TABLE_ARGUMENT.findall(hidden)
    plain = _STREAM.sub(lambda found: f"      {found['bare'] or found['inner']}", hidden)
    if (tables := _tables_read_by_sqlglot(plain)) is not None:
        return [*named, *tables]
    words = {parts_of(word)[-1] for word in _WORD.findall(hidden)}
    return [*named, *(quoted(name) for name in sorted(words & set(names)))]


def _tables_read_by_sqlglot(query: str) -> list[str] | None:
    """Return the tables of a query; None: sqlglot is not here, cannot read it, or finds none."""
    if find_spec("sqlglot") is None:
        return None
    import sqlglot  # noqa: PLC0415 - for pipelines with SQL alone
    from sqlglot import expressions  # noqa: PLC0415

    try:
        parsed = sqlglot.parse_one(query, read="databricks")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    tables = [each for each in parsed.find_all(expressions.Table) if each.name and each.find_ancestor(expressions.Hint) is None]
    read = [each for each in tables if each.db or not _is_of_query(each)]
    return [".".join(quoted(part.name) for part in table.parts) for table in read] if tables else None


def _is_of_query(table: Any) -> bool:
    """Tell whether a name is that of a common table expression (`WITH`) there; in its own body it is one only where that is recursive."""
    from sqlglot import expressions  # noqa: PLC0415 - as above

    name, node, body = table.name.lower(), table, None
    while node is not None:
        with_clause = node.args.get("with_") or node.args.get("with")
        for each in with_clause.expressions if with_clause is not None else ():
            if each.alias_or_name.lower() == name and (each is not body or with_clause.args.get("recursive")):
                return True
        if isinstance(node, expressions.CTE):
            body = node
        node = node.parent
    return False

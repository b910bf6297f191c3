"""What Spark says of a statement that it cannot run, with what a reader needs besides: the place in the statement, and a missing edge.

Notes are added to Spark's own error (PEP 678): its type and its message stay what they are.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from eventflink.model.sql_script import Statement, pointed_at

_PLACE: Final = re.compile(r"\bline (\d+),? pos (\d+)")
_NAME: Final = re.compile(r"`((?:[^`]|``)*)`")
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_UNBOUND: Final = "UNBOUND_SQL_PARAMETER"


def explain(error: Any, statement: Statement, inputs: Iterable[str], arguments: Collection[str] = ()) -> None:
    """Add notes to an error of Spark about a statement of a vertex with these inputs, which was given these arguments."""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() == _UNBOUND and (name := parameters.get("name", "").strip("`")) in arguments:
        error.add_note(
            f"the statement was given '{name}': where 'spark.tables: delta' is set, Delta's parser drops what is no single value "
            "(delta-io/delta#7640): give it as a column of a view"
        )
    if error.getCondition() == _NOT_FOUND:
        name = ".".join(_NAME.findall(parameters.get("relationName", "")))
        has = ", ".join(inputs) or "none"
        error.add_note(f"the vertex has no input '{name}' either (it has {has}): if a vertex writes it, an edge from there is missing")
    if place := _PLACE.search(str(error)):
        error.add_note(pointed_at(statement, int(place[1]), int(place[2])))
    elif (token := parameters.get("error", "").strip("'")) and len(found := list(re.finditer(_word(token), statement.text))) == 1:
        before = statement.text[: found[0].start()]  # Of some errors Spark tells the token alone; one that stands once is at its place.
        error.add_note(pointed_at(statement, before.count("\n") + 1, len(before) - before.rfind("\n") - 1))


def _word(token: str) -> str:
    return rf"(?<!\w){re.escape(token)}(?!\w)"

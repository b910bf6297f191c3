"""The statements in the `sql` of a vertex: where each begins and ends, as Spark reads quotes and comments. What they mean, Spark knows.

The rule it keeps: what Spark takes as one statement is never divided. So a compound one (`BEGIN … END`) takes all that follows it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

LINE_COMMENT: Final = r"--(?>\\\n|[^\r\n])*"
QUOTED: Final = (
    r"""(?<!\w)r(?:'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))"""
    r"""|'(?>[^'\\]|\\.)*(?:'|\\?\Z)|"(?>[^"\\]|\\.)*(?:"|\\?\Z)|`[^`]*(?:`|\Z)"""
)
"""Texts and names in quotes; a text after `r` has no escapes. Without regard to case, and with a dot for every character.

One that is not closed goes to the end: Spark refuses it, and to begin again behind each of many such quotes would take quadratic time.
"""
_TOKEN: Final = re.compile(
    rf"(?P<space>\s+|{LINE_COMMENT})|(?P<comment>/\*(?!\+))|(?P<end>;)|{QUOTED}|(?<!\w)(?P<dollars>\$\w*\$).*?(?:(?P=dollars)|\Z)|\w+|.",
    re.IGNORECASE | re.DOTALL,
)
_NAME: Final = re.compile(r"`(?P<quoted>(?>[^`]|``)*)`|(?P<plain>\w+)")
_EDGE_OF_COMMENT: Final = re.compile(r"/\*|\*/")
_COMPOUND: Final = re.compile(r"(?:\w+\s*:\s*)?BEGIN\b", re.IGNORECASE)


_MOST: Final = 200
_BEFORE: Final = 120
"""How much of a line is shown with a caret below it, and how much of that before it."""


class Statement(NamedTuple):
    """One of them, with the line of the text that it begins in; the first is 1."""

    text: str
    line: int


def quoted(name: str) -> str:
    """Return the name of a column, a view or a field as SQL has it whatever its characters are."""
    return "`" + name.replace("`", "``") + "`"


def column_names(columns: str) -> list[str]:
    """Return the names of columns that a schema declares, as Spark's DDL has them; of what is no DDL, anything.

    Example:
        "id BIGINT, `a b` STRUCT<x: INT, y: INT>" has the columns `id` and `a b`.

    """
    names: list[str] = []
    depth, is_next = 0, True
    for match in _TOKEN.finditer(columns):
        written = match.group()
        depth += (written in ("(", "<")) - (written in (")", ">"))
        if is_next and match.lastgroup != "space":
            if name := _NAME.match(columns, match.start()):
                names.append(name["plain"] or name["quoted"].replace("``", "`"))
            is_next = False
        is_next |= written == "," and not depth
    return names


def statements_of(sql: str) -> list[Statement]:
    """Return the statements between the semicolons of a text; comments alone are none. What is one statement stays as it is.

    Example:
        "SET VAR day = '1;2'; SELECT day -- the last; one" has the statements `SET VAR day = '1;2'` and `SELECT day -- the last; one`.

    """
    found = divided(sql)
    return found if len(found) > 1 else [Statement(sql, 1)]


def divided(sql: str) -> list[Statement]:
    """Return the statements of a text, also a single one, without what stands before and behind it; none where there are comments alone."""
    return [Statement(sql[start:end], sql.count("\n", 0, start) + 1) for start, end in _places_of(sql)]


def has_statement(sql: str) -> bool:
    """Tell whether a text is more than spaces, comments and semicolons."""
    return next(_places_of(sql), None) is not None


def _places_of(sql: str) -> Iterator[tuple[int, int]]:
    begins, position = -1, 0
    while token := _TOKEN.match(sql, position):
        position = token.end()
        if token["comment"]:
            position = _end_of_comment(sql, position)
        elif token["end"]:
            if begins >= 0:
                yield begins, token.start()
            begins = -1
        elif begins < 0 and not token["space"]:
            begins = token.start()
            if _COMPOUND.match(sql, begins):
                break
    if begins >= 0:
        yield begins, len(sql)


def masked(sql: str) -> str:
    """Return a text of the same length with spaces for comments and `x` for texts in quotes; names in backquotes stay.

    Example:
        "SELECT 'a' -- b" is `SELECT xxx     `.

    """
    parts, position = [], 0
    while token := _TOKEN.match(sql, position):
        position = _end_of_comment(sql, token.end()) if token["comment"] else token.end()
        if token["comment"] or token["space"]:
            parts.append(" " * (position - token.start()))
        elif token["dollars"] or (len(token[0]) > 1 and token[0][-1] in "'\""):
            parts.append("x" * len(token[0]))
        else:
            parts.append(token[0])
    return "".join(parts)


def line_comments_of(sql: str) -> list[str]:
    """Return the comments that go to the end of their lines, without the spaces behind them."""
    found, position = [], 0
    while token := _TOKEN.match(sql, position):
        position = _end_of_comment(sql, token.end()) if token["comment"] else token.end()
        if token["space"] and token[0].startswith("--"):
            found.append(token[0].rstrip())
    return found


def _end_of_comment(sql: str, position: int) -> int:
    """Return where a comment ends that has begun before; it may have others within, and ends with the text at the latest."""
    depth = 1
    while depth and (edge := _EDGE_OF_COMMENT.search(sql, position)):
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return len(sql) if depth else position


def pointed_at(statement: Statement, line: int, position: int) -> str:
    """Return a line of the statement (1 is its first), by its number in the whole text, and below it a caret at the position (from 0).

    Example:
        `SELECT a frm t`, 1, 13 is `  1 | SELECT a frm t` and a caret below the `t`.

    """
    lines = statement.text.splitlines() or [""]
    text = lines[min(line, len(lines)) - 1]
    if position > _BEFORE:
        text, position = f"…{text[position - _BEFORE + 1 :]}", _BEFORE
    text = text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
    before = "".join(c if c == "\t" else " " for c in text[:position])
    number = f"{line + statement.line - 1:>3} | "
    return f"\n{number}{text}\n{' ' * len(number)}{before}^"


def is_compound(statement: str) -> bool:
    """Tell whether a statement is a compound one (`BEGIN … END`)."""
    return _COMPOUND.match(statement) is not None

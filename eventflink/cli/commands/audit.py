"""`eventflink audit`: SQL over the log."""

import csv
import datetime as dt
import decimal
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.audit.database import EXAMPLES, AuditDatabase, QueryResult, check_query, table_columns, tables_of
from eventflink.audit.entries import judge_for, read_entries
from eventflink.audit.filters import LogPlace, Range, entries_within
from eventflink.audit.plain import json_text
from eventflink.cli.failures import ExitCode
from eventflink.cli.log_questions import range_options, reading_log, remark_on_beginning
from eventflink.cli.session import Session, pass_session
from eventflink.log.replay import new_fold
from eventflink.model.texts import printable


@click.command()
@click.argument("sql", required=False)
@range_options
@click.option("--limit", type=click.IntRange(min=1), default=1_000, show_default=True, help="Draw only so many rows of a table.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a row.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@pass_session
def audit(session: Session, sql: str | None, first: LogPlace, last: LogPlace, limit: int, *, as_json: bool, as_csv: bool) -> int:
    """Answer one SELECT over the log; without SQL show the tables and what can be asked of them."""
    if as_json and as_csv:
        raise click.UsageError("give one of --json and --csv")
    if sql is None:
        _print_tables(session, as_json=as_json)
        return ExitCode.OK
    check_query(sql)
    database = AuditDatabase(tables_of(sql))
    try:
        database.check(sql)
        with session.working("reading the log"):
            _load(session, database, Range(first, last))
        answer = database.ask(sql)
        if as_json:
            _print_json(answer)
        elif as_csv:
            _print_csv(answer)
        else:
            _print_table(session, answer, limit)
    finally:
        database.close()
    return ExitCode.OK


def _load(session: Session, database: AuditDatabase, wanted: Range) -> None:
    with reading_log(session) as log:
        first_offset, end = log.bounds()
        remark_on_beginning(session, first_offset)
        records = log.read(first_offset, wanted.end_offset(end))
        database.load(entries_within(read_entries(records, judge_for(first_offset, new_fold(session.access))), wanted))


def _print_tables(session: Session, *, as_json: bool) -> None:
    columns = table_columns()
    if as_json:
        tables = {name: dict(described) for name, described in columns.items()}
        session.print_json({"tables": tables, "examples": [{"question": q, "sql": sql} for q, sql in EXAMPLES]})
        return
    for name, described in columns.items():
        session.out.print(Text.assemble((name, "bold"), "  ", ", ".join(f"{column} {kind}" for column, kind in described)))
    session.out.print("\nFor example:", markup=False)
    for question, sql in EXAMPLES:
        session.out.print(Text.assemble("\n", (f"-- {question}", "dim"), "\n", sql))


def _print_table(session: Session, answer: QueryResult, limit: int) -> None:
    rows = answer.rows()
    shown = list(islice(rows, limit))
    table = Table(caption=f"{len(shown)} rows", caption_justify="left")
    for index, name in enumerate(answer.columns):
        numeric = all(isinstance(row[index], int | float | decimal.Decimal | None) for row in shown)
        table.add_column(Text(printable(name)), justify="right" if numeric and shown else "left")
    for row in shown:
        table.add_row(*(Text(printable(_cell(value))) for value in row))
    session.out.print(table)
    more = sum(1 for _ in rows)
    if more:
        session.err.print(f"{more} more rows are not shown (--limit, --json, --csv)")


def _print_json(answer: QueryResult) -> None:
    names = unique(answer.columns)
    for row in answer.rows():
        sys.stdout.write(json_text(dict(zip(names, map(_plain, row), strict=True))) + "\n")


def _print_csv(answer: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(unique(answer.columns))
    writer.writerows([_cell(value) for value in row] for row in answer.rows())


def unique(names: Sequence[str]) -> list[str]:
    """Return the names of columns, each with a number behind it that stood there before."""
    seen: Counter[str] = Counter()
    return list(_numbered(names, seen))


def _numbered(names: Sequence[str], seen: Counter[str]) -> Iterator[str]:
    for name in names:
        unused = name
        while unused in seen:
            unused = f"{name}_{seen[name]}"
            seen[name] += 1
        seen[unused] += 1
        yield unused


def _cell(value: Any) -> str:
    told = _plain(value)
    if told is None:
        return ""
    if isinstance(told, list | dict):
        return json_text(told)
    return f"{told:.3f}" if isinstance(told, float) else str(told)


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one return for each kind of value
    """Return a value of the engine as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return float(value)
        case dt.datetime():
            return value.isoformat(timespec="milliseconds")
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case _:
            return str(value)

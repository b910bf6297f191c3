"""In a file or a pipe a table is its columns' full text, a line for each row, however long and whatever stands in it."""

import io

from rich.table import Table
from rich.text import Text

from eventflink.cli.plain_tables import PlainConsole


def printed(table: Table) -> list[str]:
    out = io.StringIO()
    PlainConsole(file=out, highlight=False).print(table)
    return out.getvalue().splitlines()


def a_table(*rows: tuple[str | Text, str | Text]) -> Table:
    table = Table(title="a title", caption="a caption")
    table.add_column("name")
    table.add_column("count", justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def test_each_row_is_one_line_and_columns_stand_below_each_other() -> None:
    assert printed(a_table(("a", "1"), ("longer", "23"), ("", ""))) == [
        "a title",
        "name    count",
        "a           1",
        "longer     23",
        "",
        "a caption",
    ]


def test_nothing_is_abridged_or_broken() -> None:
    long = "x" * 5_000
    assert printed(a_table((long, "1")))[2] == f"{long}      1"


def test_lines_within_a_cell_do_not_become_rows() -> None:
    assert printed(a_table((Text("one\n  two\n"), "1")))[2] == "one; two      1"


def test_text_of_users_is_no_markup_and_ours_is_not_shown() -> None:
    lines = printed(a_table((Text("[red]x[/red]"), "[bold]1[/bold]"), ("日本", "2")))
    assert lines[2:4] == ["[red]x[/red]      1", "日本              2"]

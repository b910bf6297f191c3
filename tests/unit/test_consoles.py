"""In a file or a pipe a table is its columns' full text, a line for each row; no text that is printed is obeyed by a terminal."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from eventflink.cli import printer
from eventflink.cli.consoles import PlainConsole, SafeConsole
from eventflink.cli.printer import echo


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


HOSTILE = "\x1b[2J\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eesrever \x08\r\x7f"


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "renderable",
    [
        HOSTILE,
        Text(HOSTILE),
        Text.assemble("a ", (HOSTILE, "bold")),
        a_table((HOSTILE, Text(HOSTILE))),
        Group(HOSTILE, Text(HOSTILE)),
        Panel(HOSTILE, title=Text(HOSTILE)),
    ],
)
def test_no_text_is_obeyed_by_a_terminal_however_it_is_printed(renderable: Any, *, is_terminal: bool) -> None:
    out = io.StringIO()
    kind = SafeConsole if is_terminal else PlainConsole
    kind(file=out, highlight=False, force_terminal=is_terminal, color_system=None).print(renderable)
    text = out.getvalue()
    assert "red" in text
    without_style = re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\x1b[31m", "\0"))  # Bold is Rich's own; red is not.
    assert all(c.isprintable() or c == "\n" for c in without_style), text


def test_lines_that_are_echoed_are_not_obeyed_either(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"one\n{HOSTILE}")
    echo(HOSTILE, err=True)
    said = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)
    assert said.out.startswith("one\n")


def test_what_an_encoding_does_not_have_ends_no_output() -> None:
    """A name in a terminal of latin-1."""
    program = "from eventflink.cli.printer import *; replace_what_cannot_be_encoded(); echo('a \\u732b'); echo('b')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONIOENCODING": "latin-1"}, capture_output=True, check=True
    )
    assert done.stdout == b"a \\u732b\nb\n"


def test_commands_print_by_consoles_and_the_printer_alone() -> None:
    """`sys.stdout.write` is left to what is printable by itself: the lines of `events`, and the JSON and CSV of `audit`."""
    room = Path(printer.__file__).parent
    found = {
        f"{path.relative_to(room)}: {match}"
        for path in room.rglob("*.py")
        for match in re.findall(
            r"click\.echo|get_binary_stream|(?<![\w.])(?<!def )print\(|(?<!Safe)(?<!Plain)Console\(|stdout\.write", path.read_text()
        )
    }
    assert found == {
        "printer.py: click.echo",
        "printer.py: get_binary_stream",
        "commands/events.py: stdout.write",
        "commands/audit.py: stdout.write",
    }

"""Tables for programs: where output goes into a file or a pipe, a table is its columns' full text, one line for each row.

So `grep`, `awk` and `cut` work on what a command prints, and nothing is abridged or broken into lines because of a width.
"""

from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

_GAP: Final = "  "


class PlainConsole(Console):
    """A console that is no terminal: nothing is wrapped, and tables have no lines."""

    def __init__(self, **settings: Any) -> None:
        """Take the settings of any console."""
        super().__init__(soft_wrap=True, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as any console does; tables as lines of text."""
        super().print(*(self._plain(each) if isinstance(each, Table) else each for each in objects), **settings)

    def _plain(self, table: Table) -> Text:
        cells = [[self._text(cell) for cell in (column.header, *column.cells)] for column in table.columns]
        columns = [_padded(column, texts) for column, texts in zip(table.columns, cells, strict=True)]
        lines = [_GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
        around = [self._text(each) for each in (table.title or "", table.caption or "")]
        return Text("\n".join([*filter(None, around[:1]), *lines, *filter(None, around[1:])]))

    def _text(self, value: Any) -> str:
        text = value if isinstance(value, Text) else self.render_str(str(value))
        return "; ".join(line.strip() for line in text.plain.splitlines() if line.strip())


def _padded(column: Column, texts: list[str]) -> list[str]:
    width = max(map(cell_len, texts))
    return [" " * (width - cell_len(t)) + t if column.justify == "right" else t + " " * (width - cell_len(t)) for t in texts]

"""The consoles that commands print on: one for terminals, and one for files and pipes.

On neither is a text obeyed: what others have said (a job's name, an error, a row) never moves a cursor or changes colours. In a file or a
pipe a table is its columns' full text, one line for each row: so `grep`, `awk` and `cut` work on what a command prints, and nothing is
abridged or broken into lines because of a width.
"""

from collections.abc import Iterable
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from eventflink.model.texts import printable

_GAP: Final = "  "


class SafeConsole(Console):
    """A console on which only Rich itself tells the terminal what to do."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of anything that is printed, without what the terminal would obey."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


class PlainConsole(SafeConsole):
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
        return "; ".join(printable(line.strip()) for line in text.plain.splitlines() if line.strip())


def _padded(column: Column, texts: list[str]) -> list[str]:
    width = max(map(cell_len, texts))
    return [" " * (width - cell_len(t)) + t if column.justify == "right" else t + " " * (width - cell_len(t)) for t in texts]

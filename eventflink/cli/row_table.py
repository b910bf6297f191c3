"""How the rows of a result are drawn for people, by every command that shows some."""

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from eventflink.jobs.plain_rows import python_columns
from eventflink.model.plain_values import cell_text


def draw_rows(table: pa.Table, caption: str = "") -> Table:
    """Return rows as a table for people; without a caption it says how many they are."""
    drawn = Table(caption=caption or f"{table.num_rows} rows", caption_justify="left")
    numeric = {
        name
        for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind)
    }
    for name in table.column_names:
        drawn.add_column(Text(name), justify="right" if name in numeric else "left")
    for row in zip(*python_columns(table), strict=True):
        drawn.add_row(*(Text(cell_text(value)) for value in row))
    return drawn

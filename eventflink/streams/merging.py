"""Which rows of a table new ones replace or delete, and which of several new ones counts: what tables of each format have in common.

How a table is changed is `delta_table.py`'s and `iceberg_merge.py`'s. The rule it keeps: of rows with the same keys one counts, or the
merge fails and says which keys; nothing depends on the order in which Spark gives rows.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.model.sql_script import quoted
from eventflink.streams.failures import TableUnusable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventflink.model.stream_document import TableSinkDocument

_HAS_NO_ORDER: Final = re.compile(r"\b(map<|variant\b|geometry\b|geography\b)")
"""In what Spark calls a type whose values it does not compare."""
_RESERVED: Final = "eventflink__"
_NUMBER: Final = "eventflink__number"
"""The column that numbers, or counts, the rows with the same keys."""


def find_reserved_fault(names: Iterable[str], what: str) -> str:
    """Return which column of the table, or of the rows, is called as those that sinks put beside the user's; empty: none."""
    reserved = next((name for name in names if name.lower().startswith(_RESERVED)), None)
    return f"column '{reserved}' of {what} begins as the sink's own do: give it another name" if reserved is not None else ""


@dataclass(frozen=True, slots=True)
class MergeBy:
    """By what rows are merged into a table."""

    keys: tuple[str, ...]
    """The columns in which a new row and the ones that it replaces or deletes are the same; null is equal to null."""
    latest_by: str | None = None
    """The column by which of rows with the same keys one is the latest; no row of the table is replaced or deleted by an earlier one."""
    delete_when: str | None = None
    """The column, which the table does not have, that says which new rows delete."""

    @property
    def takes_one_of_each(self) -> bool:
        """Whether several new rows with the same keys are refused also where the table has none with these."""
        return self.latest_by is not None or self.delete_when is not None

    def rows_of_table(self, rows: "DataFrame") -> "DataFrame":
        """Return rows with the columns alone that the table gets.

        Raises:
            TableUnusable: they lack a column that is named here, or the one that says what deletes is none of boolean values.

        """
        if fault := find_reserved_fault(rows.columns, "the rows"):
            raise TableUnusable(fault)
        there = {field.name.lower(): field for field in rows.schema.fields}
        for key, named in (("keys", self.keys), ("latest_by", (self.latest_by,)), ("delete_when", (self.delete_when,))):
            if missing := [name for name in named if name is not None and name.lower() not in there]:
                raise TableUnusable(f"{key} of the sink names column '{missing[0]}', which the rows do not have: {', '.join(rows.columns)}")
        for name in (*self.keys, *((self.latest_by,) if self.latest_by is not None else ())):
            if _HAS_NO_ORDER.search(kind := there[name.lower()].dataType.simpleString()):
                raise TableUnusable(f"column '{name}' is {kind}, by which Spark cannot compare rows: it is no column for keys or latest_by")
        if self.delete_when is None:
            return rows
        said = there[self.delete_when.lower()]
        if (kind := said.dataType.simpleString()) != "boolean":
            raise TableUnusable(f"delete_when of the sink names column '{said.name}', which is {kind}: it has to be boolean")
        return rows.drop(said.name)

    def check_table(self, columns: Iterable[str], table: str) -> None:
        """Check that a table lacks the column that says what deletes.

        Raises:
            TableUnusable: it has it, and would get nulls there.

        """
        if self.delete_when is not None and self.delete_when.lower() in map(str.lower, columns):
            raise TableUnusable(f"delete_when of the sink names column '{self.delete_when}', which the table {table} has: name another one")

    def one_row_of_each(self, rows: "DataFrame", what: str) -> "DataFrame":
        """Return one row of those with the same keys, the latest; rows that fail where there are several, and none is the latest.

        Args:
            rows: the new rows; of equally late ones it is any.
            what: the batch or task that has them, for the message.

        """
        from pyspark.sql import Window  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
        from pyspark.sql import functions as f  # noqa: PLC0415 - likewise

        of_keys = Window.partitionBy(*map(quoted, self.keys))
        if self.latest_by is not None:
            numbered = rows.withColumn(_NUMBER, f.row_number().over(of_keys.orderBy(f.col(quoted(self.latest_by)).desc_nulls_last())))
            return numbered.where(f.col(_NUMBER) == 1).drop(_NUMBER)
        said = [f.concat(f.lit(f"{key}="), f.coalesce(f.col(quoted(key)).cast("string"), f.lit("null"))) for key in self.keys]
        message = f.concat(
            f.lit(f"{what} has several rows with the same keys ("),
            f.concat_ws(", ", *said),
            f.lit("): name in 'latest_by' which one counts"),
        )
        counted = rows.withColumn(_NUMBER, f.count(f.lit(1)).over(of_keys))
        failed = f.raise_error(message).cast("boolean")
        is_one = f.when(f.col(_NUMBER) > 1, failed).otherwise(f.lit(True))  # noqa: FBT003 - a value of SQL
        return counted.where(is_one).drop(_NUMBER)


def merge_of(table: "TableSinkDocument") -> MergeBy | None:
    """Return by what a sink merges; None: it does not."""
    return MergeBy(tuple(table.keys), table.latest_by, table.delete_when) if table.mode == "merge" else None

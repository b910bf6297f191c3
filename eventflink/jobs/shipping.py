"""Which rows of an input belong to which subtask.

A share is a filter on what the writers left as Parquet: it is computed by Spark, and every subtask computes the same function, so that
together the shares are the whole and no row is in two of them. That holds for a repeated attempt as well: nothing here depends on
partitions, order, time or chance. Nothing here opens a session.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.model.statuses import ShipStrategy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_GLOB_CHARACTERS: Final = re.compile(r"([\\\[\]{}*?])")


class InputUnusable(Exception):
    """An input cannot be shared out as its edge says; the message says what is wrong with which input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Who asks: one of `parallelism` subtasks; key groups are counted by `max_parallelism`."""

    subtask_index: int
    parallelism: int
    max_parallelism: int


def key_groups_of(share: Share) -> range:
    """Return the key groups that the subtask owns, as Flink does it: a range, empty where there are more subtasks than groups."""
    first = -(-share.subtask_index * share.max_parallelism // share.parallelism)
    end = -(-(share.subtask_index + 1) * share.max_parallelism // share.parallelism)
    return range(first, end)


def read_share(
    spark: "SparkSession", name: str, ship: ShipStrategy, keys: Sequence[str], locations: Sequence[str], share: Share
) -> "DataFrame":
    """Return the rows of the input `name` that belong to the subtask.

    Args:
        spark: the session that reads.
        name: the input's name, for messages.
        ship: how the edge shares out.
        keys: the columns of a HASH edge.
        locations: Parquet directories: one for each subtask of the writer, in their order.
        share: whose rows.

    Raises:
        InputUnusable: there are no locations, none for this subtask, or a key is not a column.

    """
    if not locations:
        raise InputUnusable(f"input '{name}' has no data: the deployment names no location")
    if ship is ShipStrategy.FORWARD:
        if share.subtask_index >= len(locations):
            raise InputUnusable(
                f"input '{name}' is shipped forward from {len(locations)} subtasks, so subtask {share.subtask_index} has no partner"
            )
        return read_parquet(spark, [locations[share.subtask_index]])
    rows = read_parquet(spark, locations)
    if ship is ShipStrategy.HASH:
        return _hash_share(rows, name, keys, share)
    if ship is ShipStrategy.REBALANCE and share.parallelism > 1:
        return _rebalance_share(rows, share)
    return rows


def share_rows(rows: "DataFrame", subtask_index: int, parallelism: int) -> "DataFrame":
    """Return the subtask's rows of any DataFrame that has the same rows for every subtask, such as a file that all of them read.

    Rows are told apart by what is in them, so equal rows stay together, and a row of `rand()` belongs to nobody in particular.

    Raises:
        InputUnusable: no column can be hashed (Spark hashes no maps and no variants).

    """
    if parallelism == 1:
        return rows
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    names = [f.name for f in rows.schema.fields if _is_hashable(f.dataType)]
    if not names:
        raise InputUnusable("the rows cannot be shared out: none of their columns can be hashed")
    hashed = functions.xxhash64(*[_column(n) for n in names])
    return rows.filter(functions.pmod(hashed, functions.lit(parallelism)) == functions.lit(subtask_index))


def read_parquet(spark: "SparkSession", locations: Sequence[str], *, merge_columns: bool = False) -> "DataFrame":
    """Read directories or files whose names are names and no patterns; with the columns of the first of them, or of all."""
    reader = spark.read.option("mergeSchema", value=True) if merge_columns else spark.read
    return reader.parquet(*[_GLOB_CHARACTERS.sub(r"\\\1", location) for location in locations])


def _hash_share(rows: "DataFrame", name: str, keys: Sequence[str], share: Share) -> "DataFrame":
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if not keys:
        raise InputUnusable(f"input '{name}' is shipped by hash of no column: its edge names no keys")
    types = {field.name: field.dataType for field in rows.schema.fields}
    missing = [key for key in keys if key not in types]
    if missing:
        raise InputUnusable(
            f"input '{name}' is shipped by hash of column{'s' if len(missing) > 1 else ''} {', '.join(missing)}, which it does not have; "
            f"it has {', '.join(types) or 'none'}"
        )
    if share.parallelism == 1:
        return rows
    group = functions.pmod(functions.hash(*[_normal_key(key, types[key]) for key in keys]), functions.lit(share.max_parallelism))
    owned = key_groups_of(share)
    return rows.filter((group >= functions.lit(owned.start)) & (group < functions.lit(owned.stop)))


def _normal_key(key: str, data_type: "DataType") -> "Column":
    """Widen numbers: Spark hashes 1 as INT and 1 as BIGINT differently, and both inputs of a join must agree."""
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if isinstance(data_type, types.ByteType | types.ShortType | types.IntegerType):
        return _column(key).cast("bigint")
    return _column(key).cast("double") if isinstance(data_type, types.FloatType) else _column(key)


def _rebalance_share(rows: "DataFrame", share: Share) -> "DataFrame":
    """Deal out the rows of each file in turn, beginning at a subtask that the file's name decides."""
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    metadata = rows.metadataColumn("_metadata")
    first = functions.pmod(functions.xxhash64(metadata.getField("file_name")), functions.lit(share.parallelism))
    turn = functions.pmod(metadata.getField("row_index") + first, functions.lit(share.parallelism))
    return rows.filter(turn == functions.lit(share.subtask_index))


def _column(name: str) -> "Column":
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return functions.col("`" + name.replace("`", "``") + "`")


def _is_hashable(data_type: "DataType") -> bool:
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if isinstance(data_type, types.ArrayType):
        return _is_hashable(data_type.elementType)
    if isinstance(data_type, types.StructType):
        return all(_is_hashable(f.dataType) for f in data_type.fields)
    return not isinstance(data_type, types.MapType | types.VariantType)

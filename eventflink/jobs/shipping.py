"""Which rows of an input belong to which subtask.

A share is a filter on what the writers left as Parquet: it is computed by Spark, and every subtask computes the same function, so that
together the shares are the whole and no row is in two of them. That holds for a repeated attempt as well: nothing here depends on
partitions, order, time or chance. Nothing here opens a session.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eventflink.jobs.hash_keys import common_type, is_brought_by_zone
from eventflink.model.places import literal
from eventflink.model.sql_script import quoted
from eventflink.model.statuses import ShipStrategy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_NOTHING_LEFT: Final = (
    "input '{}' has no columns: its writer had no rows to run for, and left nothing; say the columns by 'schema' of the edge, such as "
    "'path STRING, bytes BIGINT'"
)
_ZONE: Final = "spark.sql.session.timeZone"
_UTC: Final = ("UTC", "GMT", "Z", "+00:00", "Etc/UTC", "Etc/GMT", "Etc/UCT", "Etc/Zulu", "UCT", "Zulu", "Universal", "Etc/Universal")


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
    spark: "SparkSession", name: str, ship: ShipStrategy, locations: Sequence[str], share: Share, row_schema: str = ""
) -> "DataFrame":
    """Return the rows of the input `name` that belong to the subtask; those of hash edges are read by `HashInputs`.

    Args:
        spark: the session that reads.
        name: the input's name, for messages.
        ship: how the edge shares out.
        locations: Parquet directories: one for each subtask of the writer, in their order; of a forward edge that of the partner.
        share: whose rows.
        row_schema: the columns, as Spark's DDL, also where there are no locations; empty: they are not said.

    Raises:
        InputUnusable: there are other columns, or no locations and no columns.

    """
    if not locations:
        return _no_rows(spark, name, row_schema)
    rows = _read_all(spark, name, locations, row_schema)
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


def read_parquet(
    spark: "SparkSession", locations: Sequence[str], *, merge_columns: bool = False, columns: str | None = None
) -> "DataFrame":
    """Read directories or files whose names are names and no patterns; with the columns of the first of them, or of all, or with these."""
    reader = spark.read.option("mergeSchema", value=True) if merge_columns else spark.read
    reader = reader if columns is None else reader.schema(columns)
    return reader.parquet(*[literal(location) for location in locations])


def _no_rows(spark: "SparkSession", name: str, row_schema: str) -> "DataFrame":
    """Return the rows of an input to which nothing was left, by a mapped vertex without rows or a skipped one: none, with these columns."""
    if not row_schema:
        raise InputUnusable(_NOTHING_LEFT.format(name))
    return spark.createDataFrame([], row_schema)


def _read_all(spark: "SparkSession", name: str, locations: Sequence[str], row_schema: str) -> "DataFrame":
    """Return what all subtasks of a writer left; where some have columns that others have not, those are null in the rows of the others.

    Where the edge says the columns there have to be these: a wrong word would else show in the first night without rows.
    """
    rows = _read_parts(spark, name, locations)
    if row_schema:
        said, found = ({f.name: f.dataType for f in each.schema.fields} for each in (_no_rows(spark, name, row_schema), rows))
        if said != found:
            has = ", ".join(f"{column} {kind.simpleString().upper()}" for column, kind in found.items())
            raise InputUnusable(f"input '{name}' has the columns {has}, and its edge says {row_schema}: mend one of them")
    return rows


def _read_parts(spark: "SparkSession", name: str, locations: Sequence[str]) -> "DataFrame":
    if len(locations) == 1:
        return read_parquet(spark, locations)
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    rows = read_parquet(spark, locations, merge_columns=True)
    try:
        rows.schema  # noqa: B018 - asks Spark, which compares what the subtasks left
    except PySparkException as error:
        if error.getCondition() != "CANNOT_MERGE_SCHEMAS":
            raise
        found = {key: " ".join(text.split()) for key, text in error.getMessageParameters().items()}
        raise InputUnusable(
            f"input '{name}': subtasks of its writer left columns of one name with different types, {found.get('left')} and "
            f"{found.get('right')}: cast them where they are written"
        ) from error
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HashInput:
    """An input that comes over a hash edge."""

    name: str
    keys: Sequence[str]
    locations: Sequence[str]
    row_schema: str = ""
    """The columns, as Spark's DDL, also where there are no locations; empty: they are not said."""


class HashInputs:
    """The inputs of a subtask that come over hash edges: all are divided by the same types, so that equal keys meet."""

    def __init__(self, inputs: Sequence[HashInput], share: Share) -> None:
        """Read nothing yet."""
        self._inputs = {each.name: each for each in inputs}
        self._share = share
        self._rows: dict[str, DataFrame] = {}
        self._types: list[DataType] = []
        self._by_zone: tuple[SparkSession, str] | None = None
        """Keys that meet in UTC alone, for messages, and the session that read them; None: its time zone decides nothing."""

    def read(self, spark: "SparkSession", name: str) -> "DataFrame":
        """Return the rows of an input that belong to the subtask.

        Raises:
            InputUnusable: an input has no locations or lacks a key, the keys of two inputs do not come to one type, or to none in the
                session's time zone.

        """
        if not self._rows:
            rows = {each.name: _rows_with_keys(spark, each) for each in self._inputs.values()}
            self._types = self._common_types(rows) if self._share.parallelism > 1 else []
            found = self._find_by_zone(rows)
            self._by_zone = (spark, found) if found else None
            self.check_zone()
            self._rows = rows
        rows_of_it, keys, share = self._rows[name], self._inputs[name].keys, self._share
        if share.parallelism == 1:
            return rows_of_it
        from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

        own = _types_of(rows_of_it)
        hashed = [_column(key) if own[key] == common else _column(key).cast(common) for key, common in zip(keys, self._types, strict=True)]
        group = functions.pmod(functions.hash(*hashed), functions.lit(share.max_parallelism))
        owned = key_groups_of(share)
        return rows_of_it.filter((group >= functions.lit(owned.start)) & (group < functions.lit(owned.stop)))

    def check_zone(self) -> None:
        """Refuse a time zone, which the task may have set since, by which keys are equal that were not brought together.

        Raises:
            InputUnusable: there are such keys, and it is not UTC.

        """
        if self._by_zone is None:
            return
        spark, found = self._by_zone
        if (zone := spark.conf.get(_ZONE)) not in _UTC:
            raise InputUnusable(
                f"the hash edges of this vertex bring together {found}: which of them are equal depends on the time zone of the "
                f"session ({_ZONE}), which is {zone}; equal rows would not meet: cast one of them where it is written, or let the zone be "
                "UTC"
            )

    def _find_by_zone(self, rows: "dict[str, DataFrame]") -> str:
        for position, common in enumerate(self._types):
            kinds = {
                f"{each.name}.{each.keys[position]}": _types_of(rows[each.name])[each.keys[position]] for each in self._inputs.values()
            }
            if any(is_brought_by_zone(kind, common) for kind in kinds.values()):
                return ", ".join(f"{key}, which is {kind.simpleString()}" for key, kind in kinds.items())
        return ""

    def _common_types(self, rows: "dict[str, DataFrame]") -> "list[DataType]":
        """Return to which type the keys of each position are brought."""
        positions = zip(
            *[[(each.name, key, _types_of(rows[each.name])[key]) for key in each.keys] for each in self._inputs.values()], strict=True
        )
        return [_common_type(position) for position in positions]


def _common_type(keys: "Sequence[tuple[str, str, DataType]]") -> "DataType":
    """Return to which type keys that meet are brought, each given with its input and column."""
    first_input, first_key, found = keys[0]
    for name, key, kind in keys:
        common = common_type(found, kind)
        if common is None:
            one, other = f"{first_input}.{first_key} is {keys[0][2].simpleString()}", f"{name}.{key} is {kind.simpleString()}"
            if (name, key) == (first_input, first_key):
                why = f"equal keys of type {kind.simpleString()} may have different hashes"
                raise InputUnusable(f"input '{name}' cannot be shipped by hash of '{key}': {why}")
            raise InputUnusable(
                f"the hash edges of this vertex bring together keys that are not of one type: {one}, {other}; equal rows would not meet: "
                "cast one of them where it is written"
            )
        found = common
    return found


def _types_of(rows: "DataFrame") -> "dict[str, DataType]":
    return {field.name: field.dataType for field in rows.schema.fields}


def _rows_with_keys(spark: "SparkSession", source: HashInput) -> "DataFrame":
    """Return all rows of an input, which has its keys."""
    name = source.name
    if not source.keys:
        raise InputUnusable(f"input '{name}' is shipped by hash, but its edge has no keys: name the columns to hash")
    rows = _read_all(spark, name, source.locations, source.row_schema) if source.locations else _no_rows(spark, name, source.row_schema)
    columns = rows.columns
    if missing := [key for key in source.keys if key not in columns]:
        raise InputUnusable(
            f"input '{name}' is shipped by hash of column{'s' if len(missing) > 1 else ''} {', '.join(missing)}, which it does not have; "
            f"it has {', '.join(columns) or 'none'}"
        )
    return rows


def _rebalance_share(rows: "DataFrame", share: Share) -> "DataFrame":
    """Deal out the rows of each file in turn, beginning at a subtask that the file's name decides."""
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    metadata = rows.metadataColumn("_metadata")
    first = functions.pmod(functions.xxhash64(metadata.getField("file_name")), functions.lit(share.parallelism))
    turn = functions.pmod(metadata.getField("row_index") + first, functions.lit(share.parallelism))
    return rows.filter(turn == functions.lit(share.subtask_index))


def _column(name: str) -> "Column":
    from pyspark.sql import functions  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return functions.col(quoted(name))


def _is_hashable(data_type: "DataType") -> bool:
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if isinstance(data_type, types.ArrayType):
        return _is_hashable(data_type.elementType)
    if isinstance(data_type, types.StructType):
        return all(_is_hashable(f.dataType) for f in data_type.fields)
    return not isinstance(data_type, types.MapType | types.VariantType)

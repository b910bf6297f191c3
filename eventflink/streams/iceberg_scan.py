"""Tables of Iceberg as sources read them: which version, which files, how columns are found in a file, and which of its rows are deleted.

All is planned here, in the process of the task, by pyiceberg; Spark reads the files (`iceberg_rows.py`). The rules kept here:

- Columns are found by Iceberg's ids. A file without ids is looked into, and has them by the table's mapping of names, and by nothing else.
- No row is returned that is deleted. What cannot be left out for sure, such as rows that are deleted by their values, is refused.
- A file is left out only where its partition or its statistics say that no row of it fulfils the condition.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.batch_source_document import SourceTableDocument
from eventflink.model.packages import needs
from eventflink.model.places import SCHEMES, literal
from eventflink.model.texts import did_you_mean
from eventflink.streams.failures import TableUnusable
from eventflink.streams.iceberg_catalogs import ask
from eventflink.streams.iceberg_conditions import InvalidCondition, condition_of, files_with
from eventflink.streams.iceberg_table import FIELD_ID, IcebergTable, NoSuchType, spark_struct, spark_type

with needs("iceberg", "a table of Iceberg"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyiceberg.catalog import Catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.expressions import AlwaysTrue, BooleanExpression
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.table.puffin import PuffinFile
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType, FixedType, IcebergType, ListType, MapType, NestedField, StructType, TimeType, UUIDType

if TYPE_CHECKING:
    from pyspark.sql import types as spark_types

MAX_FILES: Final = 100_000
"""Of one source: all their names are told to Spark."""
MAX_DELETED: Final = 1_000_000
"""Positions of deleted rows in these files: all of them pass through the process of the task."""
_READ_AT_ONCE: Final = 8
_COMPACT: Final = "rewrite its files by a compaction"
_NAMED: Final = 8
"""How many others a message names of what was not found."""

_AS_FILES_HAVE_THEM: Final[Mapping[type[IcebergType], str]] = {UUIDType: "binary", FixedType: "binary", TimeType: "bigint"}
"""What Spark reads for types of Iceberg that it does not have."""
_ID_IN_FILE: Final = b"PARQUET:field_id"
_UNKNOWN_TO_FILES: Final = "eventflink__"
"""How a name begins that stands in no file. What is found by its id has such a name, or Spark takes the type of another column that has
the same name in the file; and so has a column that is not there."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file with rows of a version of a table."""

    path: str
    """As the table has it."""
    rows: int
    """The number of its rows that are not deleted."""
    columns: "spark_types.StructType"
    """What Spark finds the columns by, in their order: ids, or the names that this file has for them."""
    filled: Mapping[int, Any]
    """Values of columns that the file lacks since all its rows have the same, by the position of the column."""
    deleted: tuple[Any, ...] = ()
    """The positions of its deleted rows, as arrays."""

    @property
    def is_plain(self) -> bool:
        """Whether all its rows are as the file has them."""
        return not self.filled and not self.deleted


@dataclass(frozen=True, slots=True)
class Scan:
    """What is read of a table."""

    table: str
    """What it is called in messages."""
    snapshot_id: int | None
    """The version; None: there is none yet."""
    schema: Schema
    """Its columns."""
    columns: "spark_types.StructType"
    """The same, with the types that Spark reads."""
    condition: BooleanExpression
    """What rows have to fulfil, on these columns."""
    files: tuple[ScannedFile, ...]
    rows: int
    """How many rows the files have that are not deleted, whatever the condition."""
    size_bytes: int
    """How large the files are."""

    @property
    def has_condition(self) -> bool:
        """Whether some of these rows may be left out."""
        return not isinstance(self.condition, AlwaysTrue)


def plan_scan(catalog: Catalog, declared: SourceTableDocument, parameters: Mapping[str, Any]) -> Scan:
    """Return what is read of a table.

    Raises:
        TableUnusable: there is no such table, version or column, the condition is none, or the files are such that rows would be wrong.
        SinkUnavailable: the catalogue does not answer, or the store of the files.

    """
    name = declared.name or ""
    table = ask(catalog.name, lambda: _load(catalog, name))
    return ask(catalog.name, lambda: _plan(table, f"{catalog.name}.{name}", declared, parameters))


def plan_version(table: IcebergTable, snapshot_id: int, condition: BooleanExpression) -> Scan:
    """Return the rows of a version that may fulfil a condition, with the columns that the table has now; raises as `plan_scan` does."""
    loaded, name = table.loaded, table.name
    return ask(loaded.catalog.name, lambda: _plan_files(loaded, name, snapshot_id, loaded.schema(), condition))


def _load(catalog: Catalog, name: str) -> Table:
    namespace = name.rpartition(".")[0]
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        try:
            there = [".".join(each) for each in catalog.list_tables(namespace)]
        except NoSuchNamespaceError:
            there = []
        raise TableUnusable(
            f"table of Iceberg not found: '{name}' in the catalogue '{catalog.name}'{did_you_mean(name, there)}; its namespace has "
            f"{_some(there)}: name one of these, or run what writes it first"
        ) from error


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "") if names else "none"


def _plan(table: Table, name: str, declared: SourceTableDocument, parameters: Mapping[str, Any]) -> Scan:
    snapshot_id = _snapshot_of(table, name, declared)
    schema = table.schema() if declared.is_newest else table.scan(snapshot_id=snapshot_id).projection()
    try:
        condition = condition_of(declared.where, schema, parameters) if declared.where is not None else AlwaysTrue()
    except InvalidCondition as error:
        raise TableUnusable(f"invalid where of the source, which is the table {name}: {error}") from error
    return _plan_files(table, name, snapshot_id, schema, condition)


def _plan_files(table: Table, name: str, snapshot_id: int | None, schema: Schema, condition: BooleanExpression) -> Scan:
    """Return what is read of a version by a condition on its columns."""
    columns, tasks = _columns_of(schema, name), []
    if snapshot_id is not None:
        try:
            tasks = files_with(table, condition, snapshot_id, schema)
        except (NotImplementedError, ValueError) as error:
            if "equality deletes" not in str(error):
                raise
            raise TableUnusable(
                f"the table {name} has rows that are deleted by their values (equality deletes), which cannot be left out: {_COMPACT}, "
                "in an engine that applies them"
            ) from error
    if len(tasks) > MAX_FILES:
        raise TableUnusable(
            f"the table {name} has {len(tasks)} files to be read; at most {MAX_FILES} can be: {_COMPACT}, or read fewer by 'where'"
        )
    deletes = _Deletes(table.io, name, [each for task in tasks for each in task.delete_files])
    layouts = _Layouts(table, name, schema)
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        files = tuple(threads.map(lambda task: _scanned(task, layouts, deletes), tasks))
    rows = sum(file.rows for file in files)
    bound = bind(schema, condition, case_sensitive=False)
    return Scan(name, snapshot_id, schema, columns, bound, files, rows, sum(task.file.file_size_in_bytes for task in tasks))


def _snapshot_of(table: Table, name: str, declared: SourceTableDocument) -> int | None:
    """Return which version is read.

    Raises:
        TableUnusable: there is no such version.

    """
    if declared.ref is not None:
        if (snapshot := table.snapshot_by_name(declared.ref)) is None:
            there = sorted(table.refs())
            raise TableUnusable(
                f"branch or tag not found: '{declared.ref}' of the table {name}{did_you_mean(declared.ref, there)}; it has {_some(there)}"
            )
    elif declared.snapshot is not None:
        if (snapshot := table.snapshot_by_id(declared.snapshot)) is None:
            newest = [str(each.snapshot_id) for each in reversed(table.snapshots())]
            raise TableUnusable(
                f"snapshot not found: {declared.snapshot} of the table {name}; it may have been expired. The table has {_some(newest)}"
            )
    elif declared.as_of is not None:
        at_ms = int(dt.datetime.fromisoformat(declared.as_of).timestamp() * 1_000)
        if (snapshot := table.snapshot_as_of_timestamp(at_ms)) is None:
            times = [dt.datetime.fromtimestamp(each.timestamp_ms / 1_000, dt.UTC).isoformat() for each in table.history()]
            first = f"its first one is of {times[0]}" if times else "it has none yet"
            raise TableUnusable(f"snapshot not found: as of {declared.as_of} the table {name} had none; {first}")
    else:
        snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot is not None else None


def _columns_of(schema: Schema, name: str) -> "spark_types.StructType":
    if defaults := [field.name for field in schema.fields if field.initial_default is not None]:
        raise TableUnusable(
            f"the table {name} cannot be read: column '{defaults[0]}' has a default for rows that were written before it, which Spark does "
            "not know: rewrite the files of the table"
        )
    try:
        return _renamed(spark_struct(schema.fields, _AS_FILES_HAVE_THEM), with_ids=False)
    except NoSuchType as error:
        raise TableUnusable(f"the table {name} cannot be read: {error}") from error


def _scanned(task: FileScanTask, layouts: "_Layouts", deletes: "_Deletes") -> ScannedFile:
    columns, filled = layouts.find(task.file)
    deleted = deletes.of_file(task)
    return ScannedFile(task.file.file_path, task.file.record_count - sum(map(len, deleted)), columns, filled, deleted)


class _Layouts:
    """How the columns of a table's files are found."""

    def __init__(self, table: Table, name: str, schema: Schema) -> None:
        self._table = table
        self._name = name
        self._schema = schema
        self._by_ids = _renamed(spark_struct(schema.fields, _AS_FILES_HAVE_THEM), with_ids=True)
        self._mapping = table.name_mapping()

    def find(self, file: DataFile) -> "tuple[spark_types.StructType, Mapping[int, Any]]":
        """Return by what the columns of a file are found, and the values of those that only the table knows.

        Raises:
            TableUnusable: Spark cannot read the file, or its columns are not known.

        """
        if file.file_format != FileFormat.PARQUET:
            raise TableUnusable(
                f"the table {self._name} has files of {file.file_format.value}, such as {file.file_path}, and sources read those of "
                f"Parquet: {_COMPACT}, with the table's property write.format.default parquet"
            )
        if self._mapping is None:  # Then every file has ids; one that has none is refused by Spark.
            return self._by_ids, {}
        with self._table.io.new_input(file.file_path).open() as stream:
            there: pa.Schema = pq.read_schema(stream)
        if any(field.metadata and _ID_IN_FILE in field.metadata for field in there):
            return self._by_ids, {}
        columns = _by_name(self._schema.fields, self._mapping.root, there)
        return columns, self._filled(file, [field.name.startswith(_UNKNOWN_TO_FILES) for field in columns.fields])

    def _filled(self, file: DataFile, is_absent: Sequence[bool]) -> Mapping[int, Any]:
        """Return the values of columns by which the file's partition is made, and which are not in the file.

        Raises:
            TableUnusable: such a value is not known.

        """
        filled = {}
        positions = {field.field_id: number for number, field in enumerate(self._schema.fields)}
        for number, field in enumerate(self._table.specs()[file.spec_id].fields):
            position = positions.get(field.source_id)
            if position is not None and is_absent[position] and isinstance(field.transform, IdentityTransform):
                column = self._schema.fields[position]
                if isinstance(column.field_type, DoubleType):
                    raise TableUnusable(
                        f"the table {self._name} has the file {file.file_path} without column '{column.name}', a double by which "
                        f"the table is partitioned; pyiceberg does not know its value exactly: {_COMPACT}, in an engine that does"
                    )
                filled[position] = file.partition[number]
        return filled


def without_ids(columns: "spark_types.StructType") -> "spark_types.StructType":
    """Return columns as they are called, to be found by that in files, and what they have in them likewise."""
    return _renamed(columns, with_ids=False)


def _renamed(columns: "spark_types.StructType", *, with_ids: bool) -> "spark_types.StructType":
    """Return columns to be found by their ids, or as they are called without these, and what they have in them likewise."""
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    def renamed(kind: "spark_types.DataType") -> "spark_types.DataType":
        match kind:
            case types.StructType():
                return _renamed(kind, with_ids=with_ids)
            case types.ArrayType():
                return types.ArrayType(renamed(kind.elementType))
            case types.MapType():
                return types.MapType(renamed(kind.keyType), renamed(kind.valueType))
        return kind

    return types.StructType(
        [
            types.StructField(f"{_UNKNOWN_TO_FILES}{each.metadata[FIELD_ID]}", renamed(each.dataType), metadata=each.metadata)
            if with_ids
            else types.StructField(each.name, renamed(each.dataType))
            for each in columns.fields
        ]
    )


def _by_name(fields: Iterable[NestedField], mapping: Sequence[MappedField], there: Any) -> "spark_types.StructType":
    """Return columns of the table by the names that they have in a file.

    Args:
        fields: the columns, or the parts of one.
        mapping: which names they may have.
        there: the columns of the file, or the parts of one, as Arrow has them.

    """
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    by_id, columns = {each.field_id: each for each in mapping}, []
    names_there = {field.name for field in there}
    for field in fields:
        mapped = by_id.get(field.field_id)
        name = next((each for each in mapped.names if each in names_there), None) if mapped is not None else None
        if mapped is None or name is None:
            [plain] = _renamed(spark_struct([field], _AS_FILES_HAVE_THEM), with_ids=False).fields
            column = types.StructField(f"{_UNKNOWN_TO_FILES}{field.field_id}", plain.dataType)
        else:
            column = types.StructField(name, _type_by_name(field.field_type, mapped.fields, there.field(name).type))
        columns.append(column)
    return types.StructType(columns)


def _type_by_name(kind: IcebergType, mapping: Sequence[MappedField], there: Any) -> "spark_types.DataType":
    from pyspark.sql import types  # noqa: PLC0415 - likewise

    by_id = {each.field_id: each.fields for each in mapping}
    match kind:
        case StructType():
            return _by_name(kind.fields, mapping, there)
        case ListType():
            return types.ArrayType(_type_by_name(kind.element_type, by_id.get(kind.element_id, []), there.value_type))
        case MapType():
            key = _type_by_name(kind.key_type, by_id.get(kind.key_id, []), there.key_type)
            return types.MapType(key, _type_by_name(kind.value_type, by_id.get(kind.value_id, []), there.item_type))
    return spark_type(kind, _AS_FILES_HAVE_THEM)


class _Deletes:
    """Which rows of files are deleted, by their positions."""

    def __init__(self, io: FileIO, name: str, files: Sequence[DataFile]) -> None:
        self._name = name
        distinct = {(each.file_path, each.record_count): each for each in files}
        if (positions := sum(each.record_count for each in distinct.values())) > MAX_DELETED:
            raise TableUnusable(
                f"the table {name} has {positions} deleted rows in the files to be read; at most {MAX_DELETED} can be left out: {_COMPACT}"
            )
        paths = list(dict.fromkeys(each.file_path for each in files))
        formats = {each.file_path: each.file_format for each in files}
        with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
            self._read = dict(zip(paths, threads.map(lambda path: self._read_file(io, path, formats[path]), paths), strict=True))

    def _read_file(self, io: FileIO, path: str, kind: FileFormat) -> "Mapping[str, Any] | pa.Table":
        """Return what a file deletes: of a deletion vector the positions by file, else a table of both."""
        with io.new_input(path).open() as stream:
            if kind == FileFormat.PUFFIN:
                return {
                    each.referenced_data_file: each.to_vector() for each in deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
                }
            if kind == FileFormat.PARQUET:
                return pq.read_table(stream, columns=["file_path", "pos"])
        raise TableUnusable(
            f"the table {self._name} says which rows are deleted in files of {kind.value}, such as {path}, which are not read: {_COMPACT}"
        )

    def of_file(self, task: FileScanTask) -> tuple[Any, ...]:
        """Return the positions of the deleted rows of a file.

        Raises:
            TableUnusable: there are others than the table says.

        """
        found = []
        for delete in task.delete_files:
            read = self._read[delete.file_path]
            if isinstance(read, pa.Table):
                positions = read.filter(pc.equal(read["file_path"], task.file.file_path))["pos"]
            else:
                positions = read.get(task.file.file_path, pa.chunked_array([], pa.int64()))
                if len(positions) != delete.record_count:
                    raise TableUnusable(
                        f"the table {self._name} has {delete.record_count} deleted rows of {task.file.file_path}, and {delete.file_path} "
                        f"has {len(positions)}: {_COMPACT}"
                    )
            found.append(positions.combine_chunks())
        distinct = [pc.unique(pa.concat_arrays([each.cast(pa.int64()) for each in found]))] if found else []
        return tuple(each for each in distinct if len(each))


def spark_path(path: str, table: str) -> str:
    """Return what Spark finds a file by that a table has.

    Raises:
        TableUnusable: Spark knows no such place.

    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        path = f"file://{path}"
    elif scheme[1] in SCHEMES:
        path = SCHEMES[scheme[1]] + path[len(scheme[1]) :]
    elif scheme[1] != "file":
        raise TableUnusable(f"the table {table} has the file {path}: Spark reads no files of {scheme[1]}")
    return literal(path)


def place_key(path: str) -> str:
    """Return what is the same in the name that the table has for a file and in the one that Spark has."""
    return _SCHEME.sub("", path, count=1).lstrip("/")

"""Tables of Iceberg as sinks write them: which columns the rows have there, the files with their statistics, and one commit with a mark.

Spark writes the files; what they are is told to the catalogue from here, by pyiceberg. The mark of a writer (which subtask, which attempt)
is a property of the table, and stands in the summary of the snapshot that the same commit makes. The rules kept here:

- Each commit has a new snapshot and its writer's mark, and asserts that the newest snapshot is the one that was looked at. So nobody has
  changed the mark between the look and the commit, and of two attempts that look at the same moment one commits.
- A commit is tried once. One that fails looks at the table again: pyiceberg's own tries would not.
- Nothing is removed that may be in the table: after an error that does not say whether the commit is there, all files stay.
"""

import hashlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.backoff import Backoff
from eventflink.model.packages import needs
from eventflink.streams.failures import SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_catalogs import ask
from eventflink.streams.iceberg_conditions import files_with
from eventflink.streams.merging import MergeBy, find_reserved_fault

with needs("iceberg", "a table of Iceberg"):
    import pyarrow.parquet as pq
    from pyiceberg.catalog import Catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, EqualTo, In, IsNull, Or
    from pyiceberg.io.fileformat import DataFileStatistics
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table, TableProperties, Transaction
    from pyiceberg.table.update import AddSnapshotUpdate, AssertCurrentSchemaId, AssertDefaultSpecId, AssertTableUUID
    from pyiceberg.transforms import IdentityTransform, VoidTransform
    from pyiceberg.typedef import Record
    from pyiceberg.types import (
        BinaryType,
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        IcebergType,
        IntegerType,
        ListType,
        LongType,
        MapType,
        NestedField,
        PrimitiveType,
        StringType,
        StructType,
        TimestampType,
        TimestamptzType,
    )

if TYPE_CHECKING:
    from pyspark.sql import types as spark_types

logger = logging.getLogger(__name__)

MARK: Final = "eventflink.mark"
"""Where the summary of a snapshot says whose it is."""
_PROPERTY: Final = "eventflink.writer."
"""Where the table says what it has of a writer: behind it stands a digest of the writer's id, which may be too long for a catalogue."""
_KEPT_MS: Final = 30 * 24 * 3_600_000
"""How long a mark is kept: each job has writers of its own, and a table has all its properties in each of its versions."""

FIELD_ID: Final = "parquet.field.id"
"""By which Spark writes the id of a column into a file."""

_PATIENCE_S: Final = 120.0
"""How long a commit may lose against others."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_READ_AT_ONCE: Final = 8
_MOST_PROBLEMS: Final = 3

_PRIMITIVES: Final[dict[str, PrimitiveType]] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
"""The types of columns, by what Spark calls them. Of those that become one, the last is what it is read as."""


_COUNTS = MetricsMode(MetricModeTypes.COUNTS)
"""Of a column that is told without its least and its greatest value."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows fit a table: what is written of them."""

    columns: "spark_types.StructType"
    """The columns that they have, as the table has them."""
    partition_by: tuple[str, ...]
    """The columns by which the table is partitioned."""
    schema_id: int
    spec_id: int
    has_field_ids: bool
    """Whether the files have the ids of the columns: Spark writes none for what is in lists and maps, so those are found by their names."""


class NoSuchType(Exception):
    """There is no type of Iceberg, or of Spark, for another one."""


class IcebergTable:
    """A table of a catalogue; what is known of it is as new as the last look."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def loaded(self) -> Table:
        """The table, as pyiceberg has it."""
        return self._table

    @property
    def name(self) -> str:
        """What the table is called in messages."""
        return f"{self._table.catalog.name}.{'.'.join(self._table.name())}"

    @property
    def data_location(self) -> str:
        """Below which place its files are."""
        properties, location = self._table.properties, self._table.location().rstrip("/")
        return str(properties.get(TableProperties.WRITE_DATA_PATH, f"{location}/data")).rstrip("/")

    @property
    def compression(self) -> str:
        """How its files are compressed, as both Iceberg and Spark call it."""
        default = TableProperties.PARQUET_COMPRESSION_DEFAULT
        return str(self._table.properties.get(TableProperties.PARQUET_COMPRESSION, default))

    @property
    def target_file_bytes(self) -> int:
        """How large its files are to be."""
        name, default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
        return max(1, int(self._table.properties.get(name, default)))

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot; None: there is none yet."""
        snapshot = self._table.current_snapshot()
        return snapshot.snapshot_id if snapshot is not None else None

    def fit(self, rows: "spark_types.StructType", partition_by: Sequence[str], merge_by: MergeBy | None = None) -> Fit:
        """Return how rows of these columns fit, which are appended unless they are merged.

        Raises:
            TableUnusable: they do not.

        """
        schema, spec = self._table.schema(), self._table.spec()
        if fault := _find_name_fault([field.name for field in schema.fields], "the table") or _find_name_fault(rows.names, "the rows"):
            raise TableUnusable(f"the rows do not fit the table {self.name}: {fault}")
        if merge_by is not None:
            merge_by.check_table([field.name for field in schema.fields], self.name)
        there, have = {field.name.lower(): field for field in schema.fields}, {field.name.lower(): field for field in rows.fields}
        problems = [f"the table has no column '{field.name}'" for name, field in have.items() if name not in there]
        problems += [fault for name, field in have.items() if name in there and (fault := _find_type_fault(field, there[name]))]
        problems += [fault for name, field in there.items() if name not in have and (fault := _find_lack_fault(field))]
        columns, faults = _partition_columns(spec, schema)
        problems += faults
        if not faults and partition_by and [name.lower() for name in partition_by] != [name.lower() for name in columns]:
            by = ", ".join(columns) or "no partitions"
            problems.append(f"partition_by names {', '.join(partition_by)}, and the table has {by}")
        problems += [f"the table is partitioned by '{name}', and the rows do not have it" for name in columns if name.lower() not in have]
        if problems:
            raise TableUnusable(f"the rows do not fit the table {self.name}: {'; '.join(problems[:_MOST_PROBLEMS])}")
        written = spark_struct([field for name, field in there.items() if name in have])
        return self._fit(written, columns)

    def fit_of_all(self) -> Fit:
        """Return how rows fit that the table has.

        Raises:
            TableUnusable: Spark cannot write them.

        """
        columns, faults = _partition_columns(self._table.spec(), self._table.schema())
        try:
            written = spark_struct(self._table.schema().fields)
        except NoSuchType as error:
            faults.append(str(error))
        if fault := _find_name_fault([field.name for field in self._table.schema().fields], "the table"):
            faults.append(fault)
        if faults:
            raise TableUnusable(f"the rows of the table {self.name} cannot be written again: {'; '.join(faults)}")
        return self._fit(written, columns)

    def _fit(self, columns: "spark_types.StructType", partition_by: Sequence[str]) -> Fit:
        schema = self._table.schema()
        has_field_ids = not any(_is_found_by_name(field.field_type) for field in schema.fields)
        return Fit(columns, tuple(partition_by), schema.schema_id, self._table.spec().spec_id, has_field_ids)

    def describe_files(self, fit: Fit, paths: Sequence[str], written_rows: int) -> list[DataFile]:
        """Return what the table is told of files that Spark has written, from their ends; those without rows are left out.

        Raises:
            TableUnusable: this process does not see what Spark has written, or there are nulls where the table has none.

        """
        where = f"Spark wrote {written_rows} rows to the table {self.name}, where host {socket.gethostname()} finds"
        shared = "Spark, and the FileIO of its catalogue here, must see the same files below the location of the table"
        try:
            with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
                found = [file for file in threads.map(lambda path: self._describe_file(fit, path), paths) if file is not None]
        except OSError as error:
            raise TableUnusable(f"{where} a file that cannot be read ({error}): {shared}") from error
        if (rows := sum(file.record_count for file in found)) != written_rows:
            raise TableUnusable(f"{where} {rows} in {len(paths)} files: {shared}")
        return found

    def _describe_file(self, fit: Fit, path: str) -> DataFile | None:
        metadata, schema, spec = self._table.metadata, self._table.schema(), self._table.spec()
        source = self._table.io.new_input(path)
        with source.open() as stream:
            file = pq.ParquetFile(stream)
            if not file.metadata.num_rows:
                return None
            # From a row, and not from the statistics: they are cut, and know neither each type nor each value.
            row: dict[str, Any] = {}
            if fit.partition_by:
                [row] = self._first_row(file, fit.partition_by)
            self._check_parts(file, schema)
        self._check_nulls(file.metadata, schema)
        values = [
            None if isinstance(field.transform, VoidTransform) else partition_record_value(field, row[field_name], schema)
            for field in spec.fields
            for field_name in [schema.find_column_name(field.source_id)]
        ]
        plan = compute_statistics_plan(schema, metadata.properties)
        try:
            statistics = _statistics_of(file.metadata, schema, plan)
        except (ValueError, OverflowError):  # Python has no such text, or no such date; without bounds the file is read more often.
            statistics = _statistics_of(file.metadata, schema, {key: replace(each, mode=_COUNTS) for key, each in plan.items()})
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            file_size_in_bytes=len(source),
            sort_order_id=None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **_serialized(statistics),
        )

    def _first_row(self, file: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
        try:
            return next(file.iter_batches(batch_size=1, columns=list(columns))).to_pylist()  # type: ignore[no-any-return]
        except (ValueError, OverflowError) as error:
            by = f"by which it is partitioned ({', '.join(columns)})"
            raise TableUnusable(
                f"the rows do not fit the table {self.name}: a value {by} cannot be told to its catalogue: {error}"
            ) from error

    def _check_nulls(self, parquet: Any, schema: Schema) -> None:
        required = {field.name for field in schema.fields if field.required and isinstance(field.field_type, PrimitiveType)}
        for group in range(parquet.num_row_groups) if required else ():
            for column in map(parquet.row_group(group).column, range(parquet.num_columns)):
                # What is in a struct, list or map has a path too, which may be the same: then it is no column of the table, or refused.
                if column.path_in_schema in required and (column.statistics is None or column.statistics.null_count):
                    raise self._null_in(column.path_in_schema)

    def _check_parts(self, file: Any, schema: Schema) -> None:
        """Check the columns that have parts, of which statistics tell no null from an empty list."""
        required = [field.name for field in schema.fields if field.required and not isinstance(field.field_type, PrimitiveType)]
        for name in [name for name in required if name in file.schema_arrow.names]:
            if any(batch.column(name).null_count for batch in file.iter_batches(columns=[name])):
                raise self._null_in(name)

    def _null_in(self, column: str) -> TableUnusable:
        return TableUnusable(f"the rows do not fit the table {self.name}: column '{column}' is null in some, and required there")

    def mark_of(self, writer_id: str) -> dict[str, Any] | None:
        """Return what the table has of a writer, as far as was looked; None: nothing."""
        marks = (_mark_in(text) for text in self._mark_texts(writer_id) if text and writer_id in text)
        return next((mark for mark in marks if mark.get("writer") == writer_id), None)

    def _mark_texts(self, writer_id: str) -> Iterator[str | None]:
        yield self._table.properties.get(property_of(writer_id))
        # A property may have been removed by hand; what a snapshot says stays until that is expired.
        for snapshot in reversed(self._table.snapshots()):
            if snapshot.summary is not None:
                yield snapshot.summary[MARK]

    def refresh(self) -> None:
        """Look again.

        Raises:
            SinkUnavailable: the catalogue does not answer.

        """
        ask(self._table.catalog.name, self._table.refresh)

    def replaced_by(self, new: Iterable[DataFile], *, is_all: bool) -> BooleanExpression:
        """Return which rows new files replace: all, or those of the partitions that they are in."""
        if is_all:
            return AlwaysTrue()
        columns, _ = _partition_columns(self._table.spec(), self._table.schema())
        partitions = {tuple(self._values_of(file.partition)) for file in new}
        if len(columns) == 1:
            return self.rows_near(partitions)
        each_one = [
            And(
                *[IsNull(name) if value is None else EqualTo(name, value) for name, value in zip(columns, values, strict=True)],
                AlwaysTrue(),
            )
            for values in partitions
        ]
        return Or(*each_one, AlwaysFalse(), AlwaysFalse())

    def rows_beside(self, new: Iterable[DataFile]) -> BooleanExpression:
        """Return the rows near the partitions that new files are in."""
        return self.rows_near({tuple(self._values_of(file.partition)) for file in new})

    def rows_near(self, partitions: Iterable[tuple[Any, ...]]) -> BooleanExpression:
        """Return the rows each of whose partition columns has the value of a partition: all of theirs, and maybe others.

        It is looked at once for each file, where a condition of each partition would be looked at for each of the others' files.

        Args:
            partitions: by the values of their columns; of a date that is its day after 1970.

        """
        columns, _ = _partition_columns(self._table.spec(), self._table.schema())
        each_one = []
        for name, *values in zip(columns, *partitions, strict=True):
            is_null = IsNull(name) if None in values else AlwaysFalse()
            each_one.append(Or(In(name, {value for value in values if value is not None}), is_null))
        return And(*each_one, AlwaysTrue(), AlwaysTrue())

    def _values_of(self, partition: Record) -> Iterator[Any]:
        for position, field in enumerate(self._table.spec().fields):
            if not isinstance(field.transform, VoidTransform):
                yield partition[position]

    def files_with(self, replaced: BooleanExpression, snapshot_id: int | None) -> list[FileScanTask]:
        """Return the files of a snapshot that have such rows.

        Raises:
            SinkUnavailable: the snapshot is not there any more.

        """
        if snapshot_id is None:
            return []
        if self._table.snapshot_by_id(snapshot_id) is None:
            raise SinkUnavailable(f"snapshot {snapshot_id} of the table {self.name} is gone, by which it is told what others have changed")
        return files_with(self._table, replaced, snapshot_id)

    def files_as_they_were(self, rows: BooleanExpression, version: int | None) -> list[FileScanTask] | None:
        """Return the files that have such rows in the newest snapshot; None: in an older one they were others.

        Raises:
            SinkUnavailable: that one is not there any more.

        """
        there = self.files_with(rows, self.snapshot_id)
        if self.snapshot_id != version and file_contents(there) != file_contents(self.files_with(rows, version)):
            return None
        return there

    def check_partitioned(self, files: Iterable[FileScanTask]) -> None:
        """Check that each of some files has rows of one partition only.

        Raises:
            TableUnusable: one was written when the table had other partitions.

        """
        if others := [task.file.file_path for task in files if task.file.spec_id != self._table.spec().spec_id]:
            raise TableUnusable(
                f"the table {self.name} has files of older partitions, such as {others[0]}, which the sink would have to take apart: "
                "rewrite its files first"
            )

    def commit(
        self, fit: Fit | None, new: Sequence[DataFile], replaced: Sequence[FileScanTask], writer_id: str, said: Mapping[str, Any]
    ) -> None:
        """Try once to commit files, beside what was looked at last; without a `fit` there are none, and the mark alone is committed.

        Raises:
            CommitFailedException: the table was changed since; nothing is there of the commit.
            SinkUnavailable: its columns or partitions were changed.
            Exception: of each catalogue its own; whether the commit is there is not known.

        """
        now_ms = int(time.time() * 1000)
        text = json.dumps({"writer": writer_id, "at_ms": now_ms, **said})
        properties = {property_of(writer_id): text}
        old = [name for name, mark in self._marks() if mark.get("at_ms", now_ms) < now_ms - _KEPT_MS and name not in properties]
        self._try(fit, new, replaced, {MARK: text}, properties, old)

    def replace_files(self, fit: Fit, new: Sequence[DataFile], replaced: Sequence[FileScanTask]) -> None:
        """Try once to commit files with the same rows as those that they replace; raises as `commit` does."""
        self._try(fit, new, replaced, {}, {}, [])

    def _try(
        self,
        fit: Fit | None,
        new: Sequence[DataFile],
        replaced: Sequence[FileScanTask],
        summary: dict[str, str],
        properties: dict[str, str],
        old_properties: Sequence[str],
    ) -> None:
        if fit is not None and (fit.schema_id, fit.spec_id) != (self._table.schema().schema_id, self._table.spec().spec_id):
            raise SinkUnavailable(f"nothing was written to the table {self.name}: its columns or partitions were changed meanwhile")
        transaction = _OneTry(self._table)
        transaction.write(new, replaced, summary)
        if fit is not None and not fit.has_field_ids and self._table.name_mapping() is None:
            properties = properties | {TableProperties.DEFAULT_NAME_MAPPING: self._table.schema().name_mapping.model_dump_json()}
        if properties:
            transaction.set_properties(properties)
        if old_properties:
            transaction.remove_properties(*old_properties)
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            transaction.remove_files()
            raise

    def _marks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, text in self._table.properties.items():
            if name.startswith(_PROPERTY):
                yield name, _mark_in(text)

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files that no version has, up to the first one that cannot be removed; return how many were."""
        removed = 0
        for path in paths:
            try:
                self._table.io.delete(path)
            except FileNotFoundError:  # Somebody was quicker, or an older version of the table has named it as well.
                continue
            except Exception as error:  # noqa: BLE001 - each FileIO has errors of its own, and nothing depends on it
                logger.warning("FileNotRemoved path=%s error=%s", path, type(error).__name__)
                break
            removed += 1
        return removed


class _OneTry(Transaction):  # type: ignore[misc]
    """A transaction of one snapshot, which is tried once, and asserts all that the snapshot was made for."""

    def write(self, new: Sequence[DataFile], replaced: Sequence[FileScanTask], summary: dict[str, str]) -> None:
        """Put new files in the place of others."""
        if not replaced:
            with self._append_snapshot_producer(summary) as appending:
                for file in new:
                    appending.append_data_file(file)
            return
        with self.update_snapshot(snapshot_properties=summary).overwrite() as overwriting:
            overwriting.delete_by_predicate(AlwaysTrue())
            for task in replaced:
                overwriting.delete_data_file(task.file)
            for file in new:
                overwriting.append_data_file(file)

    def commit_transaction(self) -> Table:
        """Commit, or raise what the catalogue says; a second try would not look whether another attempt was quicker."""
        metadata = self._table.metadata
        asserted = (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        )
        self._table._do_commit(updates=self._updates, requirements=(*self._requirements, *asserted))  # noqa: SLF001 - what a transaction calls
        return self._table

    def remove_files(self) -> None:
        """Remove what tells of the snapshot, which is not in the table; its files with rows stay, for the next try."""
        io = self._table.io
        for snapshot in [update.snapshot for update in self._updates if isinstance(update, AddSnapshotUpdate)]:
            written = [each.manifest_path for each in snapshot.manifests(io) if each.added_snapshot_id == snapshot.snapshot_id]
            IcebergTable(self._table).remove([*written, snapshot.manifest_list])


def open_table(catalog: Catalog, name: str, rows: "spark_types.StructType", partition_by: Sequence[str]) -> IcebergTable:
    """Return a table, which is made for these rows where there is none.

    Raises:
        TableUnusable: a table cannot have such columns.
        SinkUnavailable: the catalogue does not answer, or refuses.

    """

    def load_or_make() -> Table:
        try:
            return catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return _make(catalog, name, rows, partition_by)

    return IcebergTable(ask(catalog.name, load_or_make))


def find_table(catalog: Catalog, name: str, why: str = "") -> IcebergTable:
    """Return a table that was made before.

    Args:
        catalog: where it is.
        name: of the table.
        why: it should be there, for the message.

    Raises:
        TableUnusable: it is not there.
        SinkUnavailable: the catalogue does not answer, or refuses.

    """

    def load() -> Table:
        try:
            return catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableUnusable(f"table of Iceberg not found: {catalog.name}.{name}{why}") from error

    return IcebergTable(ask(catalog.name, load))


def _make(catalog: Catalog, name: str, rows: "spark_types.StructType", partition_by: Sequence[str]) -> Table:
    try:
        schema, spec = _schema_of(rows, partition_by)
    except NoSuchType as error:
        raise TableUnusable(f"the table {catalog.name}.{name} cannot be made: {error}") from error
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    return catalog.create_table(name, schema, partition_spec=spec)


def _schema_of(rows: "spark_types.StructType", partition_by: Sequence[str]) -> tuple[Schema, PartitionSpec]:
    """Return what a table of rows is made with; the catalogue gives the columns ids of its own."""
    if fault := _find_name_fault(rows.names, "the rows"):
        raise NoSuchType(fault)
    ids = count(1)
    fields = [NestedField(next(ids), field.name, _iceberg_type(field.name, field.dataType, ids), required=False) for field in rows.fields]
    by_name = {field.name.lower(): field for field in fields}
    if missing := [column for column in partition_by if column.lower() not in by_name]:
        raise NoSuchType(f"partition_by of the sink names column '{missing[0]}', which the rows do not have: {', '.join(rows.names)}")
    named = [by_name[column.lower()] for column in partition_by]
    schema = Schema(*fields)
    spec = PartitionSpec(*[PartitionField(each.field_id, 1_000 + n, IdentityTransform(), each.name) for n, each in enumerate(named)])
    _, faults = _partition_columns(spec, schema)
    if faults:
        raise NoSuchType("; ".join(faults))
    return schema, spec


def commit_once(
    table: IcebergTable,
    fit: Fit | None,
    new: Sequence[DataFile],
    find_replaced: Callable[[], Sequence[FileScanTask]],
    writer_id: str,
    said: Mapping[str, Any],
    is_done: Callable[[Mapping[str, Any]], bool],
) -> Mapping[str, Any]:
    """Commit files with a writer's mark, unless a mark is there after which they must not be; return the mark that is there in the end.

    Where it is known that nothing of them is in the table, they are removed.

    Args:
        table: looked at before now.
        fit: how the rows fit; None: there are no files.
        new: the files.
        find_replaced: returns which files they replace in the newest snapshot; may raise that they must not.
        writer_id: whose mark it is.
        said: the mark; who compares it with what is returned learns whether it was this commit.
        is_done: tells whether nothing is to be written after a mark.

    Raises:
        SinkUnavailable: nothing was written, or whether anything was is not known.

    """
    deadline_s, pauses = time.monotonic() + _PATIENCE_S, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        if (mark := table.mark_of(writer_id)) is not None and is_done(mark):
            if mark.get("commit") != said.get("commit"):
                table.remove([file.file_path for file in new])
            return mark
        replaced = _find_or_remove(table, new, find_replaced)
        try:
            table.commit(fit, new, replaced, writer_id, said)
        except CommitFailedException as error:
            if time.monotonic() > deadline_s:
                table.remove([file.file_path for file in new])
                says = f"nothing was written to the table {table.name}: others were quicker for {_PATIENCE_S:.0f} s"
                raise SinkUnavailable(says) from error
            time.sleep(pauses.next())
        except (SinkUnavailable, TableUnusable):
            table.remove([file.file_path for file in new])
            raise
        except Exception as error:  # whatever the catalogue raised, it may have committed before
            table.refresh()
            if (mark := table.mark_of(writer_id)) is None or not is_done(mark):
                raise SinkUnavailable(
                    f"the table {table.name} does not have what was to be committed: {type(error).__name__}: {error}; "
                    "the next attempt looks again"
                ) from error
        else:
            return said
        table.refresh()


def _find_or_remove(table: IcebergTable, new: Sequence[DataFile], find: Callable[[], Sequence[FileScanTask]]) -> Sequence[FileScanTask]:
    """Return what new files replace; where that cannot be found, nothing was committed of them, and they are removed."""
    try:
        return find()
    except BaseException:
        table.remove([file.file_path for file in new])
        raise


def file_contents(files: Iterable[FileScanTask]) -> set[tuple[str, ...]]:
    """Return what files have: their paths, each with those of the files that say which rows of it are deleted."""
    return {(task.file.file_path, *sorted(each.file_path for each in task.delete_files)) for task in files}


def _serialized(statistics: DataFileStatistics) -> dict[str, Any]:
    """Return the statistics of a file as the table is told them, without the upper bounds that cannot be written.

    Of a long text the bound is its beginning, whose last character pyiceberg raises by one. Behind U+D7FF come surrogates, which are no
    characters of a text. A column without an upper bound is read more often than it need be, and nothing of it is missed.
    """
    for column in statistics.column_aggregates.values():
        try:
            column.max_as_bytes()
        except UnicodeEncodeError:
            column.current_max = None
    return dict(statistics.to_serialized_dict())


def _statistics_of(parquet: Any, schema: Schema, plan: Mapping[int, Any]) -> DataFileStatistics:
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=parquet, stats_columns=plan, parquet_column_mapping=parquet_path_to_id_mapping(schema)
    )


def property_of(writer_id: str) -> str:
    """Return the property of a table that has the mark of a writer."""
    return _PROPERTY + hashlib.blake2b(writer_id.encode(), digest_size=16).hexdigest()


def _mark_in(text: str) -> dict[str, Any]:
    """Return a mark; nothing of what is none."""
    try:
        mark = json.loads(text)
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def _partition_columns(spec: PartitionSpec, schema: Schema) -> tuple[list[str], list[str]]:
    """Return the columns by which a table is partitioned, and why rows cannot be sorted by them."""
    columns, faults, whole = list[str](), list[str](), "and the sink knows partitions by the values of columns alone"
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):  # A column by which an older version of the table was partitioned.
            continue
        column, source = schema.find_column_name(field.source_id) or "", schema.find_field(field.source_id)
        if not isinstance(field.transform, IdentityTransform):
            faults.append(f"the table is partitioned by {field.transform} of '{column}', {whole}")
        elif source.name != column:
            faults.append(f"the table is partitioned by '{column}', a part of a column, {whole}")
        elif isinstance(source.field_type, FloatType | DoubleType) or not isinstance(source.field_type, PrimitiveType):
            faults.append(f"the sink knows no partitions by '{column}', which is {source.field_type}")
        columns.append(column)
    return columns, faults


def _find_name_fault(names: Sequence[str], what: str) -> str:
    """Return which columns Spark takes for one, or are called as the sink's own; empty: none."""
    if fault := find_reserved_fault(names, what):
        return fault
    first: dict[str, str] = {}
    for name in names:
        if (before := first.get(name.lower())) is not None:
            return f"columns '{before}' and '{name}' of {what} are one for Spark, which knows no upper and lower case: rename one"
        first[name.lower()] = name
    return ""


def _find_type_fault(field: "spark_types.StructField", there: NestedField) -> str:
    """Return why a column of the rows is none of the table's; empty: it is."""
    if isinstance(there.field_type, StructType | ListType | MapType) and _has_required_parts(there.field_type):
        return f"column '{field.name}' has parts in the table that may not be null, which the sink does not check"
    try:
        kind = spark_type(_iceberg_type(field.name, field.dataType, count(1))).simpleString()
        in_table = spark_type(there.field_type).simpleString()
    except NoSuchType as error:
        return str(error) if field.name in str(error) else f"column '{field.name}' is {there.field_type} in the table: {error}"
    return "" if kind.lower() == in_table.lower() else f"column '{field.name}' is {kind}, and {in_table} in the table"


def _find_lack_fault(field: NestedField) -> str:
    """Return why the rows must not lack a column of the table; empty: they may."""
    if field.required:
        return f"the table needs column '{field.name}', and the rows do not have it"
    if field.initial_default is not None or field.write_default is not None:
        return f"column '{field.name}' has a default in the table, which the sink does not write: the rows must have it"
    return ""


def _parts_of(kind: IcebergType) -> tuple[tuple[IcebergType, bool], ...]:
    """Return what a type is made of, and whether that is required."""
    match kind:
        case StructType():
            return tuple([(field.field_type, field.required) for field in kind.fields])
        case ListType():
            return ((kind.element_type, kind.element_required),)
        case MapType():
            return (kind.key_type, False), (kind.value_type, kind.value_required)
        case _:
            return ()


def _has_required_parts(kind: IcebergType) -> bool:
    return any(is_required or _has_required_parts(part) for part, is_required in _parts_of(kind))


def _is_found_by_name(kind: IcebergType) -> bool:
    return isinstance(kind, ListType | MapType) or any(_is_found_by_name(part) for part, _ in _parts_of(kind))


def _iceberg_type(column: str, kind: "spark_types.DataType", ids: Iterator[int]) -> IcebergType:
    from pyspark.sql import types  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    match kind:
        case types.StructType():
            return StructType(
                *[NestedField(next(ids), each.name, _iceberg_type(column, each.dataType, ids), required=False) for each in kind.fields]
            )
        case types.ArrayType():
            return ListType(next(ids), _iceberg_type(column, kind.elementType, ids), element_required=False)
        case types.MapType():
            key, value = _iceberg_type(column, kind.keyType, ids), _iceberg_type(column, kind.valueType, ids)
            return MapType(next(ids), key, next(ids), value, value_required=False)
        case types.DecimalType():
            return DecimalType(kind.precision, kind.scale)
    if (found := _PRIMITIVES.get(kind.simpleString())) is None:
        raise NoSuchType(f"column '{column}' is {kind.simpleString()}, which a table of Iceberg cannot have: cast it")
    return found


def spark_struct(fields: Iterable[NestedField], others: Mapping[type[IcebergType], str] | None = None) -> "spark_types.StructType":
    """Return columns as Spark has them, with their ids.

    Args:
        fields: the columns of the table.
        others: what Spark calls the types that it does not have itself, and reads as others.

    Raises:
        NoSuchType: Spark has none for one of them.

    """
    from pyspark.sql import types  # noqa: PLC0415 - likewise

    named = [(each, spark_type(each.field_type, others)) for each in fields]
    return types.StructType([types.StructField(each.name, kind, nullable=True, metadata={FIELD_ID: each.field_id}) for each, kind in named])


def spark_type(kind: IcebergType, others: Mapping[type[IcebergType], str] | None = None) -> "spark_types.DataType":
    """Return a type as Spark has it; raises as `spark_struct` does."""
    from pyspark.sql import types  # noqa: PLC0415 - likewise

    match kind:
        case StructType():
            return spark_struct(kind.fields, others)
        case ListType():
            return types.ArrayType(spark_type(kind.element_type, others), containsNull=True)
        case MapType():
            return types.MapType(spark_type(kind.key_type, others), spark_type(kind.value_type, others), valueContainsNull=True)
        case DecimalType():
            return types.DecimalType(kind.precision, kind.scale)
    named = {str(each): name for name, each in _PRIMITIVES.items()}
    if (name := (others or {}).get(type(kind)) or named.get(str(kind))) is None:
        raise NoSuchType(f"Spark has no such type as {kind}")
    of_spark: list[type[spark_types.DataType]] = [types.BooleanType, types.IntegerType, types.LongType, types.FloatType, types.DoubleType]
    of_spark += [types.StringType, types.BinaryType, types.DateType, types.TimestampType, types.TimestampNTZType]
    # Not by `fromDDL`, which has Spark parse each name, and needs a session for that.
    return {each().simpleString(): each() for each in of_spark}[name]

"""Tables by the names that they have in the catalogue of a Spark: what tasks ask of them, and write into statements about them."""

from typing import TYPE_CHECKING, Any, Final

from eventflink.model.sql_script import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_OWN: Final = "spark_catalog"
_IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
KEEPS_TABLES: Final = (
    f"name an engine whose {_IMPLEMENTATION} is hive, or a catalogue that it has beside its own, or set spark.local.catalog where "
    "TaskExecutors are configured"
)
"""What is to be done where a Spark forgets its tables."""


def forgets_tables(session: "SparkSession", name: str = "") -> bool:
    """Tell whether a table is forgotten when the Spark ends.

    Args:
        session: of the task.
        name: of the table, with its catalogue or not; empty: one in the session's own catalogue.

    """
    parts = name.replace("`", "").split(".")
    catalog = parts[0] if len(parts) > 2 else session.catalog.currentCatalog()  # noqa: PLR2004 - catalogue, database, table
    return catalog == _SPARKS_OWN and session.conf.get(_IMPLEMENTATION, "in-memory") == "in-memory"


def properties_of(session: "SparkSession", table: str) -> dict[str, str] | None:
    """Return the properties of a table; None: the table does not exist."""
    if not session.catalog.tableExists(table):
        return None
    return {row[0]: row[1] for row in session.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def provider_of(session: "SparkSession", table: str) -> str:
    """Return the format of a table, such as `delta`; empty: its catalogue does not say."""
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return next((str(row[1]).lower() for row in rows if row[0] == "Provider"), "")


def column_list(schema: Any, *, keep_nulls_out: bool = True) -> str:
    """Return the columns of a `StructType` as `CREATE TABLE` has them.

    Args:
        schema: the type of the rows.
        keep_nulls_out: whether a column that has no null says so.

    """
    return ", ".join(
        f"{quoted(each.name)} {sql_type(each.dataType)}{' NOT NULL' if keep_nulls_out and not each.nullable else ''}"
        for each in schema.fields
    )


def sql_type(data_type: Any) -> str:
    """Return a `DataType` as SQL has it, with the names of fields in quotes."""
    kind = type(data_type).__name__
    if kind == "StructType":
        return f"STRUCT<{', '.join(f'{quoted(each.name)}: {sql_type(each.dataType)}' for each in data_type.fields)}>"
    if kind == "ArrayType":
        return f"ARRAY<{sql_type(data_type.elementType)}>"
    if kind == "MapType":
        return f"MAP<{sql_type(data_type.keyType)}, {sql_type(data_type.valueType)}>"
    text: str = data_type.simpleString()
    return text


def sql_text(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

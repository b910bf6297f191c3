"""A session of Spark's client that builds queries and has no server.

A query that is built here says which tables it names. Nothing is ever computed from it, so what it has of settings, types and columns
counts for no result: a table has no columns here. Who asks for rows is refused. The session stands in place of methods of pyspark's client
that are not documented, of the version that is installed with eventflink.
"""

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from eventflink.model.sql_script import masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_CONNECT_MODE: Final = {"SPARK_CONNECT_MODE_ENABLED": "1"}
"""What the environment of the process has to say: `SparkSession` is the client's."""

_SPARKS_OWN: Final[Mapping[str, str]] = {
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.session.localRelationCacheThreshold": "2147483647",
    "spark.sql.session.localRelationSizeLimit": "3221225472",
    "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationChunkSizeBytes": "16777216",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": "1073741824",
    "spark.sql.execution.pandas.convertToArrowArraySafely": "false",
    "spark.sql.execution.pandas.inferPandasDictAsMap": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    "spark.sql.execution.pythonUDTF.arrow.enabled": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled": "false",
    "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled": "false",
    "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled": "false",
}
"""What the client asks for when it builds a query."""

_FIELD: Final = re.compile(r"\s*(`[^`]*`|\w+)\s*[:\s]\s*(.*)", re.DOTALL)
_BEHIND_TYPE: Final = re.compile(r"\s+(?:NOT\s+NULL|COMMENT\s+x+|DEFAULT\s.*)\s*$", re.IGNORECASE | re.DOTALL)
_NESTED: Final = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_WITH_NUMBERS: Final = re.compile(r"(decimal|dec|numeric|varchar|char)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)


class NeedsSpark(Exception):
    """A query cannot be built without a running Spark."""


def make_offline_session(configuration: Mapping[str, str], asked: set[str]) -> "SparkSession":
    """Return a session, as the one that is active.

    Args:
        configuration: the settings that it knows.
        asked: takes what queries were built with that is not here, such as `schema`, the columns of a table.

    """
    from pyspark.sql.connect.client.core import ConfigResult  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.sql.connect.group import GroupedData  # noqa: PLC0415 - likewise
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - likewise
    from pyspark.sql.types import StructType  # noqa: PLC0415 - likewise

    settings = {**_SPARKS_OWN, **configuration}

    def configure(operation: Any) -> ConfigResult:
        kind = operation.WhichOneof("op_type")
        wanted = getattr(operation, kind)
        if kind == "set":
            settings.update({each.key: each.value for each in wanted.pairs})
            return ConfigResult([], [])
        if kind == "unset":
            for key in wanted.keys:
                settings.pop(key, None)
            return ConfigResult([], [])
        pairs = [(each.key, each.value if each.HasField("value") else None) for each in getattr(wanted, "pairs", ())]
        pairs += [(key, None) for key in getattr(wanted, "keys", ())]
        missing = [key for key, _ in pairs if key not in settings]
        if not pairs or (missing and kind == "get"):
            raise NeedsSpark(f"setting not found: '{', '.join(missing) or 'all'}'; give it under 'configuration', or give a default")
        return ConfigResult([(key, settings.get(key, default)) for key, default in pairs], [])

    def analyze(method: str, **arguments: Any) -> SimpleNamespace:
        if method == "ddl_parse":
            return SimpleNamespace(parsed=parse_types(arguments["ddl_string"]))
        if method != "schema":
            _refuse(method)
        asked.add(method)
        return SimpleNamespace(schema=StructType([]))

    def aggregate(grouped: Any, function: str, columns: list[str]) -> Any:
        return grouped.agg(dict.fromkeys(columns or ["*"], function))  # Without a look at the types of the columns.

    GroupedData._numeric_agg = aggregate  # noqa: SLF001 - there is no other place for it
    session: Any = ConnectSession("sc://localhost:1")
    client = session.client
    client.config = configure
    client.execute_command = lambda *_, **__: (None, {}, None)  # A statement stays a plan, which names its tables.
    client._analyze = analyze  # noqa: SLF001 - there is no other place for it
    client._stub = _NoServer()  # noqa: SLF001 - likewise
    ConnectSession._set_default_and_active_session(session)  # noqa: SLF001 - `create` would ask a server
    made: SparkSession = session
    return made


class _NoServer:
    """Stands where the client has its server."""

    def __getattr__(self, method: str) -> NoReturn:
        _refuse(method)


def _refuse(method: str) -> NoReturn:
    raise NeedsSpark(f"it asks Spark for rows ({method}) while it is defined: a data set is defined by a query alone")


def parse_types(text: str) -> Any:
    """Return the type that a text names, or a `StructType` of the columns in it.

    Raises:
        NeedsSpark: it names a type that only Spark knows.

    Example:
        `int` is `IntegerType()`, and `a INT, b ARRAY<STRING> NOT NULL` a `StructType` with two fields.

    """
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - Spark is loaded by those who use it

    try:
        return _parse_type(text)
    except NeedsSpark:
        fields = [_FIELD.fullmatch(each) for each in divided_at_commas(text)]
        if not fields or None in fields:
            raise
        parts = [(found[1].strip("`"), found[2]) for found in fields if found is not None]
        return StructType([StructField(name, _parse_type(of_column)) for name, of_column in parts])


def _parse_type(text: str) -> Any:
    from pyspark.sql import types  # noqa: PLC0415 - Spark is loaded by those who use it

    hidden = masked(text)
    while found := _BEHIND_TYPE.search(hidden):
        hidden = hidden[: found.start()]
    hidden = hidden.strip()
    simple = {
        "boolean": types.BooleanType,
        "tinyint": types.ByteType,
        "byte": types.ByteType,
        "smallint": types.ShortType,
        "short": types.ShortType,
        "int": types.IntegerType,
        "integer": types.IntegerType,
        "bigint": types.LongType,
        "long": types.LongType,
        "float": types.FloatType,
        "real": types.FloatType,
        "double": types.DoubleType,
        "decimal": types.DecimalType,
        "dec": types.DecimalType,
        "numeric": types.DecimalType,
        "string": types.StringType,
        "binary": types.BinaryType,
        "date": types.DateType,
        "timestamp": types.TimestampType,
        "timestamp_ltz": types.TimestampType,
        "timestamp_ntz": types.TimestampNTZType,
        "variant": types.VariantType,
        "void": types.NullType,
    }
    if (known := simple.get(hidden.lower())) is not None:
        return known()
    if found := _WITH_NUMBERS.fullmatch(hidden):
        numbers = [int(each) for each in found.groups()[1:] if each is not None]
        return {"varchar": types.VarcharType, "char": types.CharType}.get(found[1].lower(), types.DecimalType)(*numbers)
    if found := _NESTED.fullmatch(hidden):
        parts = divided_at_commas(found[2])
        if found[1].lower() == "array":
            return types.ArrayType(_parse_type(found[2]))
        if found[1].lower() == "map":
            return types.MapType(*[_parse_type(each) for each in parts])
        return parse_types(found[2])
    raise NeedsSpark(f"invalid type: '{hidden[:100]}' is none that is known without a running Spark; give it as a DataType")


def divided_at_commas(text: str) -> list[str]:
    """Return what stands between the commas that are in no brackets."""
    parts, depth, begins = [], 0, 0
    hidden = masked(text)
    for position, character in enumerate(hidden):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[begins:position])
            begins = position + 1
    return [*parts, text[begins:]]

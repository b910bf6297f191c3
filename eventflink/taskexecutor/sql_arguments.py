"""The arguments of SQL statements, where Spark would change them.

Delta Lake's parser drops them since Spark 4.1 (delta-io/delta#7640), and Spark Connect gives a decimal as many digits as its value has. A
statement that is given such arguments becomes `EXECUTE IMMEDIATE '…' USING …`, which binds them behind the parser. The rule it keeps: a
value has the type that Spark's client gave it. What has no literal of its own (arrays, maps, columns) stays, and fails as Spark says.
Spark 4.0 binds nothing but plain literals so, and Delta's parser leaves it its arguments: there statements stay as they are.
"""

import datetime as dt
import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from eventflink.streams.delta_table import DELTA_EXTENSION
from eventflink.taskexecutor.spark_versions import version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BINDS_IMMEDIATE: Final = (4, 1)
"""The oldest Spark whose `EXECUTE IMMEDIATE` takes casts as arguments."""
_EPOCH: Final = dt.date(1970, 1, 1)
_MIDNIGHT: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a time without a zone is what is written
_NUMBERS: Final = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}

InsteadOf = Callable[[Any], Any]
"""Returns the command that is sent in place of one, which may be the same."""


def rewrite_commands(client: Any, instead_of: InsteadOf, on_clone: Callable[[Any], None]) -> None:
    """Have a client of Spark send other commands from now on; `on_clone` is called with each client that is made of it."""
    execute: Callable[..., Any] = client.execute_command
    stream: Callable[..., Any] = client.execute_command_as_iterator
    clone: Callable[..., Any] = client.clone

    def execute_command(command: Any, observations: Any = None) -> Any:
        return execute(instead_of(command), observations)

    def execute_command_as_iterator(command: Any, observations: Any = None) -> Any:
        return stream(instead_of(command), observations)

    def clone_watched(*arguments: Any, **named: Any) -> Any:
        cloned = clone(*arguments, **named)
        on_clone(cloned)
        return cloned

    client.execute_command = execute_command
    client.execute_command_as_iterator = execute_command_as_iterator
    client.clone = clone_watched


def statement_of(command: Any) -> Any:
    """Return the statement of a command, which stands beside the DataFrames that it names, if it names some."""
    read = command.sql_command.input
    return read.with_relations.root.sql if read.HasField("with_relations") else read.sql


def keep_arguments(session: "SparkSession") -> None:
    """Have the statements of a session keep their arguments, and the types of these."""

    @functools.cache
    def has_delta() -> bool:
        return DELTA_EXTENSION in (session.conf.get("spark.sql.extensions", "") or "")

    @functools.cache
    def binds_immediate() -> bool:
        return version_of(session.version) >= _BINDS_IMMEDIATE

    def is_changed(statement: Any) -> bool:
        return _has_arguments(statement) and (_has_decimals(statement) or has_delta()) and binds_immediate()

    def instead_of(command: Any) -> Any:
        if not command.HasField("sql_command"):
            return command
        statement = statement_of(command)
        if not is_changed(statement) or (text := immediate(statement)) is None:
            return command
        instead = type(command)()
        instead.CopyFrom(command)
        bound = statement_of(instead)
        bound.query = text
        for each in ("named_arguments", "pos_arguments"):
            bound.ClearField(each)
        return instead

    def watch(client: Any) -> None:
        rewrite_commands(client, instead_of, watch)

    watch(session.client)


def _has_arguments(statement: Any) -> bool:
    """Tell whether a statement names one of its arguments: each of a vertex is given its parallelism, and few ask for that."""
    named = any(re.search(rf":\s*`?{re.escape(name)}\b", statement.query) for name in statement.named_arguments)
    return named or bool(statement.pos_arguments)


def _has_decimals(statement: Any) -> bool:
    values = [*statement.named_arguments.values(), *statement.pos_arguments]
    return any(each.literal.WhichOneof("literal_type") == "decimal" or each.literal.null.HasField("decimal") for each in values)


def immediate(statement: Any) -> str | None:
    """Return a statement with its arguments as one that has none; None: an argument has no literal."""
    named = [(f" AS `{name.replace('`', '``')}`", value) for name, value in statement.named_arguments.items()]
    values = [(literal_of(value), alias) for alias, value in [*named, *(("", value) for value in statement.pos_arguments)]]
    if any(value is None for value, _ in values):
        return None
    return f"EXECUTE IMMEDIATE {_quoted(statement.query)} USING {', '.join(f'{value}{alias}' for value, alias in values)}"


def literal_of(expression: Any) -> str | None:
    """Return the SQL of an argument, of the type that it has; None: it is no single value."""
    if expression.WhichOneof("expr_type") != "literal":
        return None
    literal = expression.literal
    kind = literal.WhichOneof("literal_type") or ""
    if kind in _NUMBERS:
        return f"CAST('{getattr(literal, kind)!r}' AS {_NUMBERS[kind]})"
    write = _LITERALS.get(kind)
    return write(literal) if write is not None else None


def _decimal(written: Any) -> str:
    """Return a decimal with as many digits as it has, or as are said where these are more: so Spark's server takes it."""
    value = Decimal(written.value)
    scale = max(0, -int(value.as_tuple().exponent), written.scale)
    precision = max(len(value.as_tuple().digits), written.precision, scale)
    return f"CAST('{value:f}' AS DECIMAL({precision},{scale}))"


def _null(kind: Any) -> str:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return (
        "NULL" if kind.WhichOneof("kind") in (None, "null") else f"CAST(NULL AS {proto_schema_to_pyspark_data_type(kind).simpleString()})"
    )


def _quoted(text: str) -> str:
    """Return a text as SQL has it; backslashes begin escapes there."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_LITERALS: Final[dict[str, Callable[[Any], str]]] = {
    "null": lambda literal: _null(literal.null),
    "binary": lambda literal: f"X'{literal.binary.hex()}'",
    "boolean": lambda literal: "TRUE" if literal.boolean else "FALSE",
    "string": lambda literal: _quoted(literal.string),
    "date": lambda literal: f"DATE'{_EPOCH + dt.timedelta(days=literal.date)}'",
    "timestamp": lambda literal: f"timestamp_micros({literal.timestamp})",
    "timestamp_ntz": lambda literal: f"TIMESTAMP_NTZ'{_MIDNIGHT + dt.timedelta(microseconds=literal.timestamp_ntz)}'",
    "day_time_interval": lambda literal: f"make_dt_interval(0, 0, 0, {Decimal(literal.day_time_interval).scaleb(-6):f})",
    "decimal": lambda literal: _decimal(literal.decimal),
}
"""How a value of each kind is written in SQL."""

"""What tasks have Spark write outside of their outputs, and what is done in its place: its rows are computed, and go nowhere.

Every write passes through the client of a task's session, as a command; one is let through, that of an output of the task. The rule it
keeps: a statement that is not known to change its session alone is not sent. What a function writes without Spark is not seen here.
"""

import re
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.places import Place
from eventflink.taskexecutor.failure_causes import TaskUnusable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_NOWHERE: Final = "noop"
"""Spark's sink that takes all rows and keeps none."""
_NO_ROWS: Final = "RESET spark.eventflink.nothing"
"""A statement that does nothing and has no columns: what Spark answers to one that writes."""
_SPACE: Final = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)"
_INSERTS: Final = rf"\bINSERT{_SPACE}+(?:INTO|OVERWRITE)\b"
_TEMPORARY: Final = rf"(?:OR{_SPACE}+REPLACE{_SPACE}+)?(?:GLOBAL{_SPACE}+)?TEMP(?:ORARY)?"
_HARMLESS: Final = re.compile(
    rf"{_SPACE}*(?:\(|(?:SELECT|VALUES|TABLE|MAP|REDUCE|SHOW|DESC|DESCRIBE|EXPLAIN|LIST|SET|RESET|USE|DECLARE|CACHE|UNCACHE|CLEAR|REFRESH|ADD"
    rf"|(?:CREATE|DROP){_SPACE}+{_TEMPORARY}|(?:WITH|FROM)(?!.*{_INSERTS}))\b)",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin that change nothing but their session."""
_RUNS_OTHERS: Final = re.compile(rf"{_SPACE}*(?:BEGIN|EXECUTE|CALL)\b", re.IGNORECASE | re.DOTALL)
"""How statements begin that may run others while they are explained."""
_SHOWN: Final = 80


class StreamWithheld(TaskUnusable):
    """A batch task starts a stream that writes."""


class WithheldWrites:
    """The writes of the tasks of one run, which are not done."""

    def __init__(self, own_place: Place) -> None:
        """Take where the outputs of the tasks go."""
        self._own = f"{own_place}/"
        self.told: list[str] = []
        """What was not written, since it was asked for last."""

    def take_told(self) -> tuple[str, ...]:
        """Return what was not written since this was asked last."""
        told, self.told = self.told, []
        return tuple(told)

    def watch(self, session: "SparkSession") -> None:
        """Withhold what the session would write from now on."""
        client: Any = session.client
        execute: Callable[..., Any] = client.execute_command
        stream: Callable[..., Any] = client.execute_command_as_iterator

        def execute_command(command: Any, observations: Any = None) -> Any:
            return execute(self._instead_of(command, execute), observations)

        def execute_command_as_iterator(command: Any, observations: Any = None) -> Any:
            if command.HasField("write_stream_operation_start"):
                raise StreamWithheld("a batch task starts a stream, which would write: run it with --sinks, or on a cluster")
            return stream(self._instead_of(command, execute), observations)

        client.execute_command = execute_command
        client.execute_command_as_iterator = execute_command_as_iterator

    def _instead_of(self, command: Any, check: "Callable[[Any], Any]") -> Any:
        kind = command.WhichOneof("command_type")
        if kind == "write_operation":
            write = command.write_operation
            if write.path.startswith(self._own) or write.source == _NOWHERE:
                return command
            self.told.append(f"{write.source or 'parquet'} to {write.path or write.table.table_name or _options_of(write)}")
            return _nowhere(command, write.input)
        if kind == "write_operation_v2":
            self.told.append(f"table {command.write_operation_v2.table_name}")
            return _nowhere(command, command.write_operation_v2.input)
        if kind == "merge_into_table_command":
            self.told.append(f"merge into {command.merge_into_table_command.target_table_name}")
            return _nowhere(command, command.merge_into_table_command.source_table_plan)
        statement = _sql_of(command).query if kind == "sql_command" else ""
        if kind == "sql_command" and writes(statement):
            if not _RUNS_OTHERS.match(statement):
                check(_explaining(command))  # What is no statement is an error here as well; whether its table is there is not asked.
            self.told.append(f"SQL: {' '.join(statement.split())[:_SHOWN]}")
            return _statement(command, _NO_ROWS)
        return command


def writes(statement: str) -> bool:
    """Tell whether a statement of Spark SQL changes more than its session."""
    return _HARMLESS.match(statement) is None


def _sql_of(command: Any) -> Any:
    """Return the statement of a command, which stands beside the DataFrames that it names, if it names some."""
    read = command.sql_command.input
    return read.with_relations.root.sql if read.HasField("with_relations") else read.sql


def _options_of(write: Any) -> str:
    """Return where a write goes that has neither path nor table: what its options say of that, without what may be a secret."""
    said = [write.options[key] for key in write.options if key.lower() in ("dbtable", "topic", "path")]
    return said[0] if said else "nowhere that it names"


def _nowhere(command: Any, rows: Any) -> Any:
    """Return a command that computes the rows and keeps none."""
    instead = type(command)()
    instead.write_operation.input.CopyFrom(rows)
    instead.write_operation.source = _NOWHERE
    instead.write_operation.mode = instead.write_operation.SAVE_MODE_OVERWRITE
    return instead


def _explaining(command: Any) -> Any:
    """Return a command that has the statement explained."""
    instead = type(command)()
    instead.CopyFrom(command)
    _sql_of(instead).query = f"EXPLAIN {_sql_of(command).query}"
    return instead


def _statement(command: Any, text: str) -> Any:
    instead = type(command)()
    instead.sql_command.input.sql.query = text
    return instead

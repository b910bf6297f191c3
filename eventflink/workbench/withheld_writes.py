"""What tasks have Spark write outside of their outputs, and what is done in its place: its rows are computed, and go nowhere.

Everything that a task has Spark do passes through the client of its session, or of a clone of that. The rule it keeps: a statement, a
command or a request to the catalog that is not known to change its session alone is not sent; where a task cannot go on without it, the
task fails. One write is let through, that of an output of the task. What a function writes without Spark is not seen here.
"""

import re
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.places import Place
from eventflink.model.secret_masks import masked
from eventflink.model.sql_script import LINE_COMMENT, QUOTED
from eventflink.taskexecutor.failure_causes import TaskUnusable
from eventflink.taskexecutor.sql_arguments import rewrite_commands, statement_of

if TYPE_CHECKING:
    from collections.abc import Callable

_NOWHERE: Final = "noop"
"""Spark's sink that takes all rows and keeps none."""
_NO_ROWS: Final = "RESET spark.eventflink.nothing"
"""A statement that does nothing and has no columns: what Spark answers to one that writes."""
_COMMENT: Final = rf"(?>{LINE_COMMENT}|/\*(?>[^*/]|\*(?!/)|/(?!\*))*\*/)"
"""A comment as Spark reads it. One with another in it is none here, so its statement counts as one that writes."""
_SPACE: Final = rf"(?>\s|{_COMMENT})"
_TEMPORARY: Final = rf"(?:OR{_SPACE}++REPLACE{_SPACE}++)?(?:GLOBAL{_SPACE}++)?TEMP(?:ORARY)?"
_HARMLESS: Final = re.compile(
    rf"{_SPACE}*+(?:\(|(?:SELECT|VALUES|TABLE|MAP|REDUCE|SHOW|DESC|DESCRIBE|EXPLAIN|LIST|SET|RESET|USE|DECLARE|CACHE|UNCACHE|CLEAR|REFRESH"
    rf"|ADD|(?:CREATE|DROP){_SPACE}++{_TEMPORARY}|(?P<either>WITH|FROM))\b)",
    re.IGNORECASE,
)
"""How statements begin that change nothing but their session, and those that may be `either`."""
_QUOTED: Final = re.compile(rf"{_COMMENT}|{QUOTED}", re.IGNORECASE | re.DOTALL)
"""The parts of a statement in which no words of its own stand."""
_BRACKET: Final = re.compile(r"([()])")
_UNREAD: Final = re.compile(r"\$\w*\$|/\*|\*/")
"""A text in dollars, and a comment with another in it: where they end is not found out here."""
_NAMED: Final = r"(?:\w+|'') (?:\(\) )?(?:MAX RECURSION LEVEL \w+ )?(?:AS )?\(\)"
_QUERY: Final = re.compile(
    rf"(?:WITH (?:RECURSIVE )?(?>{_NAMED}(?: ?, ?{_NAMED})*) (?:\(\)|(?:SELECT|VALUES|TABLE|MAP|REDUCE|FROM)\b)|FROM\b)", re.IGNORECASE
)
"""How a query begins with WITH or FROM, as `_outermost` gives it: what changes something stands behind the named queries as well."""
_INSERTS: Final = re.compile(r"(?<![.\w])INSERT (?:INTO|OVERWRITE|WITH SCHEMA)\b", re.IGNORECASE)
"""What stands where a statement that begins like a query has its rows inserted, as in FROM … INSERT INTO …."""
_DROPS_VIEW: Final = re.compile(
    rf"{_SPACE}*+DROP{_SPACE}++VIEW{_SPACE}++(?:IF{_SPACE}++EXISTS{_SPACE}++)?(?P<of_all>global_temp\.)?`?(?P<name>\w+)`?{_SPACE}*+;?\s*\Z",
    re.IGNORECASE,
)
_SCRIPT: Final = re.compile(rf"{_SPACE}*+(?:\w+{_SPACE}*+:{_SPACE}*+)?(?:BEGIN|EXECUTE|CALL)\b", re.IGNORECASE)
"""How statements begin that run others: which ones, and what rows they have, is known only when they are run."""
_WRITES: Final = ("write_operation", "write_operation_v2", "merge_into_table_command")
_COMMANDS: Final = frozenset(
    (
        "register_function",
        "register_table_function",
        "register_data_source",
        "create_dataframe_view",
        "checkpoint_command",
        "remove_cached_remote_relation_command",
        "get_resources_command",
        "create_resource_profile_command",
        "ml_command",
        "streaming_query_command",
        "streaming_query_manager_command",
        "streaming_query_listener_bus_command",
    )
)
"""Kinds of commands that change nothing but their session."""
_CATALOG_READS: Final = re.compile(
    r"(?:set_)?current_\w+|(?:list|get|refresh)_\w+|\w+_exists|is_cached|(?:un)?cache_table|clear_cache|drop_(?:global_)?temp_view"
)
"""Kinds of requests to the catalog that change nothing but their session."""
_CATALOG_CREATES: Final = ("create_table", "create_external_table")
_SHOWN: Final = 80


class SinksNeeded(TaskUnusable):
    """A batch task has Spark do what may write, and cannot go on without what that returns."""

    def __init__(self, what: str) -> None:
        """Take what it is, as the subject of a sentence."""
        super().__init__(f"{what}: run it with --sinks, or on a cluster")


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

    def watch(self, client: Any) -> None:
        """Withhold what a session's client, and each clone of it, would have Spark write from now on."""
        to_table: Callable[..., Any] = client.to_table  # The only way that a request to the catalog takes.

        def catalog_to_table(plan: Any, observations: Any) -> Any:
            if plan.HasField("root") and plan.root.HasField("catalog"):
                plan.root.CopyFrom(self._instead_of_catalog(plan.root, client))
            return to_table(plan, observations)

        rewrite_commands(client, lambda command: self._instead_of(command, client), self.watch)
        client.to_table = catalog_to_table

    def tell(self, what: str) -> None:
        """Note what was not written, without secrets."""
        self.told.append(masked(what))

    def _instead_of(self, command: Any, client: Any) -> Any:
        kind = command.WhichOneof("command_type")
        if kind in _WRITES:
            return self._instead_of_write(command, kind)
        if kind == "sql_command":
            return self._instead_of_statement(command, client)
        if kind == "ml_command" and command.ml_command.HasField("write"):
            self.tell(f"model to {command.ml_command.write.path}")
            return _statement(command, _NO_ROWS)
        if kind == "write_stream_operation_start":
            raise SinksNeeded("a batch task starts a stream, which would write")
        if kind not in _COMMANDS:
            raise SinksNeeded(f"a batch task sends a command that may write ('{kind}')")
        return command

    def _instead_of_write(self, command: Any, kind: str) -> Any:
        write = getattr(command, kind)
        if kind == "merge_into_table_command":
            self.tell(f"merge into {write.target_table_name}")
            return _nowhere(command, write.source_table_plan)
        if kind == "write_operation_v2":
            self.tell(f"table {write.table_name}")
        elif write.path.startswith(self._own) or write.source == _NOWHERE:
            return command
        else:
            self.tell(f"{write.source or 'parquet'} to {write.path or write.table.table_name or _options_of(write)}")
        return _nowhere(command, write.input)

    def _instead_of_statement(self, command: Any, client: Any) -> Any:
        statement = statement_of(command).query
        if not writes(statement):
            return command
        if _SCRIPT.match(statement):
            raise SinksNeeded("a script (BEGIN, EXECUTE IMMEDIATE, CALL) may write, and is not run to find out which rows it has")
        dropped = _DROPS_VIEW.match(statement)
        if dropped and (dropped["of_all"] or _is_temporary(dropped["name"], client)):
            return command
        # An invalid statement fails here too; whether its table exists is not checked.
        client.execute_command(_explaining(command))
        self.tell(f"SQL: {' '.join(masked(statement).split())[:_SHOWN]}")
        return _statement(command, _NO_ROWS)

    def _instead_of_catalog(self, root: Any, client: Any) -> Any:
        kind = root.catalog.WhichOneof("cat_type")
        if kind is None or _CATALOG_READS.fullmatch(kind):
            return root
        if kind in _CATALOG_CREATES:
            raise SinksNeeded("a batch task creates a table by the catalog, and may use it")
        request = getattr(root.catalog, kind)
        name = next((str(value) for _, value in request.ListFields()), "")
        if kind == "drop_view" and _is_temporary(name, client):
            return root
        self.tell(f"{kind.replace('_', ' ')} {name}")
        instead = type(root)()
        instead.catalog.current_database.SetInParent()
        return instead


def writes(statement: str) -> bool:
    """Tell whether a statement of Spark SQL changes more than its session, or may."""
    begin = _HARMLESS.match(statement)
    if begin is None or begin["either"] is None:
        return begin is None
    text = _QUOTED.sub(_blank, statement)
    outermost = _outermost(text)
    return _UNREAD.search(text) is not None or _QUERY.match(outermost) is None or _INSERTS.search(outermost) is not None


def _outermost(text: str) -> str:
    """Return the words of a statement, one space apart, with nothing in its brackets: in these no statement but a query may stand."""
    parts, depth = list[str](), 0
    for part in _BRACKET.split(text):
        if part == "(":
            depth += 1
        elif part == ")":
            depth = max(depth - 1, 0)
            parts.append("" if depth else " () ")
        elif not depth:
            parts.append(part)
    return " ".join("".join(parts).split())


def _blank(quoted: re.Match[str]) -> str:
    return {"`": " name ", "-": " ", "/": " "}.get(quoted[0][0], " '' ")


def _is_temporary(view: str, client: Any) -> bool:
    """Tell whether a name without a database is that of a temporary view of the client's session."""
    from pyspark.sql.connect.proto import Plan  # noqa: PLC0415 - only tasks that use Spark load it

    plan = Plan()
    plan.root.catalog.list_tables.SetInParent()
    tables = client.to_table(plan, {})[0].to_pylist()
    return any(each["isTemporary"] and each["name"].lower() == view.lower() for each in tables)


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
    statement_of(instead).query = f"EXPLAIN {statement_of(command).query}"
    return instead


def _statement(command: Any, text: str) -> Any:
    instead = type(command)()
    instead.sql_command.input.sql.query = text
    return instead

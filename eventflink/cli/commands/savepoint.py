"""`eventflink savepoint`: taking a savepoint, removing one, and what is in one.

As Flink spells it, `savepoint JOB [DIRECTORY]` takes one and `savepoint --dispose PATH` removes one; both have a name of their own as well.
"""

import dataclasses
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.checkpoint_options import describe_savepoint, timeout_option
from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.places import Place
from eventflink.session.cluster_session import actor_name
from eventflink.streams.savepoint import (
    UNKNOWN,
    Savepoint,
    SubtaskManifest,
    dispose_savepoint,
    open_path,
    part_path,
    read_savepoint,
)
from eventflink.streams.savepoint_copy import install_checkpoint

_DISPOSE: Final = ("-d", "--dispose")
_SHOWN_OFFSET: Final = 60
_MAX_ROWS: Final = 100_000
_MAX_OTHERS: Final = 8
_SPARK_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}

_SPARK_CONNECT: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
"""With these set, Spark refuses to start in this process; a user may have them set for other work."""


class _FlinkSpelling(click.Group):
    """Takes a first word that is no command of the group for a job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in _DISPOSE:
            args = ["dispose", *args[1:]]
        elif args and args[0] not in (*self.commands, "--help"):
            args = ["trigger", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_FlinkSpelling)
def savepoint() -> None:
    """Take, inspect or remove a savepoint.

    \b
    eventflink savepoint JOB_ID [DIRECTORY]   takes one
    eventflink savepoint --dispose PATH       removes one
    """  # noqa: D301 - click wants the character, not the letters


@savepoint.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.argument("directory", default="")
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def trigger(session: Session, job_id: str, directory: str, timeout_s: float, *, as_json: bool) -> int:
    """Take a savepoint of the job JOB_ID in DIRECTORY (default: execution.checkpointing.savepoint-dir); the job goes on."""
    with session.working("waiting for the savepoint"), DispatcherGateway(session.access) as gateway:
        taken = gateway.trigger_savepoint(job_id, directory, timeout_s, actor=actor_name())
    if as_json:
        session.print_json(dataclasses.asdict(taken))
    else:
        echo(describe_savepoint(taken))
    return ExitCode.OK


@savepoint.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def dispose(session: Session, path: str, *, as_json: bool) -> int:
    """Remove the savepoint PATH, whole or not; what is none is refused."""
    removed = dispose_savepoint(path)
    if as_json:
        session.print_json({"path": path, "job_id": removed.job_id})
    else:
        echo(f"the savepoint of {removed.job_id} is removed: {path}")
    return ExitCode.OK


@savepoint.command()
@click.argument("path")
@click.option("--state", "place", metavar="VERTEX[/SUBTASK[/OPERATOR]]", help="Show the rows of this state instead; starts a Spark.")
@click.option("--limit", type=click.IntRange(1, _MAX_ROWS), default=20, show_default=True, help="Show so many rows at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def inspect(session: Session, path: str, place: str | None, limit: int, *, as_json: bool) -> int:
    """Show what the savepoint PATH has: offsets, operators, keys, sizes."""
    found = read_savepoint(path)
    if place is not None:
        return _show_state(session, found, place, limit, as_json=as_json)
    if as_json:
        parts = [part.model_dump(mode="json") for part in found.parts]
        session.print_json({"path": path, **found.manifest.model_dump(mode="json"), "parts": parts})
        return ExitCode.OK
    manifest = found.manifest
    at = datetime.fromtimestamp(manifest.triggered_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    size = sum(part.bytes for part in found.parts)
    session.out.print(
        Text(
            f"savepoint {manifest.savepoint_id} of {manifest.job_name} ({manifest.job_id}) on cluster {manifest.cluster_id}, {at}, "
            f"{manifest.mode.lower()}; {sum(part.files for part in found.parts)} files, {size} bytes"
        )
    )
    session.out.print(_parts_table(found))
    session.out.print(_operators_table(found))
    return ExitCode.OK


def _parts_table(found: Savepoint) -> Table:
    table = Table(title="streams", title_justify="left")
    for heading in ("task", "batch", "sink's next", "files", "bytes"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    table.add_column("sources")
    table.add_column("offsets")
    for part in found.parts:
        sources = ", ".join(f"{source.name} ({source.connector.lower()} {source.location})" for source in part.sources)
        offsets = "\n".join(o if len(o) <= _SHOWN_OFFSET else o[: _SHOWN_OFFSET - 1] + "…" for o in part.offsets)
        numbers = map(str, (part.batch_id, part.next_sink_batch_id, part.files, part.bytes))
        table.add_row(Text(f"{part.vertex_id}[{part.subtask_index}]"), *numbers, Text(sources), Text(offsets))
    return table


def _operators_table(found: Savepoint) -> Table:
    table = Table(title="stateful operators", title_justify="left")
    for heading in ("task", "operator", "name", "partitions", "keys", "bytes in memory"):
        table.add_column(heading, justify="left" if heading in ("task", "name") else "right")
    for part in found.parts:
        for operator in part.operators:
            known = ["?" if number == UNKNOWN else str(number) for number in (operator.rows, operator.memory_bytes)]
            numbers = (str(operator.operator_id), Text(operator.name), str(operator.partitions))
            table.add_row(Text(f"{part.vertex_id}[{part.subtask_index}]"), *numbers, *known)
    return table


# -- rows of state ----------------------------------------------------------------------------------------------------


def _show_state(session: Session, found: Savepoint, place: str, limit: int, *, as_json: bool) -> int:
    part, operator_id = _find_state(found, place)
    with session.working("starting a Spark and reading the state"):
        rows = _read_state(found.path, part, operator_id, limit)
    if as_json:
        session.print_json({"task": f"{part.vertex_id}[{part.subtask_index}]", "operator": operator_id, "rows": rows})
        return ExitCode.OK
    others = [f"{p.vertex_id}/{p.subtask_index}" for p in found.parts if p.vertex_id == part.vertex_id and p is not part]
    more = f"; other subtasks: {', '.join(others[:_MAX_OTHERS])}" if others else ""
    table = Table(title=f"{part.vertex_id}[{part.subtask_index}], operator {operator_id}{more}", title_justify="left")
    for column in rows[0] if rows else ("no rows",):
        table.add_column(column)
    for row in rows:
        table.add_row(*[Text(str(value)) for value in row.values()])
    session.out.print(table)
    return ExitCode.OK


def _find_state(found: Savepoint, place: str) -> tuple[SubtaskManifest, int]:
    vertex_id, _, rest = place.partition("/")
    index, _, operator = rest.partition("/")
    parts = [part for part in found.parts if part.vertex_id == vertex_id and str(part.subtask_index) == (index or "0")]
    operators = [each.operator_id for part in parts for each in part.operators if str(each.operator_id) == (operator or "0")]
    if not operators:
        have = [f"{p.vertex_id}/{p.subtask_index}/{each.operator_id}" for p in found.parts for each in p.operators]
        raise CommandFailed(ExitCode.USAGE, f"--state: state not found: '{place}'; the savepoint has {', '.join(have) or 'no states'}")
    return parts[0], operators[0]


def _read_state(path: str, part: SubtaskManifest, operator_id: int, limit: int) -> list[dict[str, Any]]:
    """Return rows of a state store, read by a Spark of this process from a copy of the part."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark is loaded by those who use it

    files, root = open_path(path)
    directory = Path(tempfile.mkdtemp(prefix="eventflink-savepoint-"))
    for name in _SPARK_CONNECT:
        os.environ.pop(name, None)
    try:
        location = directory / "checkpoint"
        install_checkpoint(files, part_path(root, part.vertex_id, part.subtask_index), part, Place(str(location)), {})
        spark = SparkSession.builder.master("local[1]").config(map=_SPARK_QUIET).getOrCreate()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            spark.streams.active  # noqa: B018 - what reads a state store asks the coordinator of them, which this starts
            state = spark.read.format("statestore").option("operatorId", operator_id).load(str(location))
            return [row.asDict(recursive=True) for row in state.limit(limit).collect()]
        except PySparkException as error:
            raise CommandFailed(ExitCode.NEGATIVE, f"Spark cannot read this state: {str(error).partition(chr(10))[0][:500]}") from error
        finally:
            spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)

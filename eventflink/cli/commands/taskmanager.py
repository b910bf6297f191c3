"""`eventflink taskmanager`: the registered TaskManagers, which of them get no new tasks, and what they have of themselves to read.

Files travel as those of tasks do: an order to the TaskExecutor, an upload to the blob store, an event with the key.
"""

import json
from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.completion import complete_task_managers
from eventflink.cli.drawing import print_pending_workers, say_blocked, task_manager_table
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import write_file
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_cluster
from eventflink.gateways.leader import find_leader
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.statuses import TaskManagerFile
from eventflink.session.cluster_session import actor_name

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_TIMEOUT = click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds to wait.")


@click.group()
def taskmanager() -> None:
    """Show the TaskManagers and their logs; block one for new tasks, or unblock it."""


@taskmanager.command("list")
@_AS_JSON
@pass_session
def list_task_managers(session: Session, *, as_json: bool) -> int:
    """List the registered TaskManagers with their slots, and those that are blocked."""
    view = ask_cluster(session)
    shown = {
        name: getattr(view, name)
        for name in ("task_managers", "workers", "blocked", "slots", "slots_free", "slots_pending", "slot_requests", "log_offset")
    }
    if as_json:
        session.print_json(shown)
        return ExitCode.OK
    session.out.print(task_manager_table(view))
    print_pending_workers(session, view.workers)
    registered = {row.task_manager_id for row in view.task_managers}
    for blocked in view.blocked:
        if blocked.task_manager_id not in registered:
            session.out.print(Text(f"{blocked.task_manager_id} is not registered, and {say_blocked(blocked)}", style="yellow"))
    return ExitCode.OK


@taskmanager.command("block")
@click.argument("task_manager_id", shell_complete=complete_task_managers)
@click.option("--reason", default="", help="Why; shown with the TaskManager.")
@click.option("--for", "duration_s", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Unblock it automatically after this time.")
@_AS_JSON
@pass_session
def block(session: Session, task_manager_id: str, reason: str, duration_s: float | None, *, as_json: bool) -> int:
    """Place no new tasks on TASK_MANAGER_ID; what runs there keeps running. A restart of it does not unblock it."""
    with ResourceManagerGateway(session.access) as gateway:
        duration_ms = round((duration_s or 0) * 1000)
        accepted = gateway.block_task_manager(task_manager_id, reason, duration_ms=duration_ms, actor=actor_name())
    return session.print_accepted(accepted, f"{task_manager_id} gets no new tasks", as_json=as_json, task_manager_id=task_manager_id)


@taskmanager.command("unblock")
@click.argument("task_manager_id", shell_complete=complete_task_managers)
@_AS_JSON
@pass_session
def unblock(session: Session, task_manager_id: str, *, as_json: bool) -> int:
    """Place new tasks on TASK_MANAGER_ID again."""
    with ResourceManagerGateway(session.access) as gateway:
        accepted = gateway.unblock_task_manager(task_manager_id, actor=actor_name())
    return session.print_accepted(accepted, f"{task_manager_id} gets new tasks", as_json=as_json, task_manager_id=task_manager_id)


@taskmanager.command("logs")
@click.argument("task_manager_id", shell_complete=complete_task_managers)
@click.option("--file", "name", default="", metavar="NAME", help="One of the logs that --list shows. Default: the TaskExecutor's own log.")
@click.option("--stdout", "wants_stdout", is_flag=True, help="What it prints on standard output.")
@click.option("--list", "wants_list", is_flag=True, help="List its logs instead.")
@_TIMEOUT
@_AS_JSON
@pass_session
def logs(
    session: Session, task_manager_id: str, name: str, timeout_s: float, *, wants_stdout: bool, wants_list: bool, as_json: bool
) -> int:
    """Show a log of the TaskExecutor TASK_MANAGER_ID itself, on standard output, or the list of its logs."""
    if sum((bool(name), wants_stdout, wants_list)) > 1:
        raise click.UsageError("--file, --stdout and --list are each for something else: give one of them")
    if as_json and not wants_list:
        raise click.UsageError("--json is for --list; a log is shown as it is")
    with session.working("waiting for the TaskExecutor"), ResourceManagerGateway(session.access) as gateway:
        if wants_list:
            key = gateway.request_task_manager_log_list(task_manager_id, actor=actor_name(), timeout_s=timeout_s)
        elif name:
            key = gateway.request_task_manager_file_upload_by_name(task_manager_id, name, actor=actor_name(), timeout_s=timeout_s)
        else:
            file = TaskManagerFile.STDOUT if wants_stdout else TaskManagerFile.LOG
            key = gateway.request_task_manager_file_upload_by_type(task_manager_id, file, actor=actor_name(), timeout_s=timeout_s)
    data = _fetch(session, key)
    if not wants_list:
        write_file(data)
        return ExitCode.OK
    listed = json.loads(data)
    if as_json:
        session.print_json({"task_manager_id": task_manager_id, **listed})
    else:
        session.out.print(draw_logs(listed["logs"]))
    return ExitCode.OK


def draw_logs(listed: list[dict[str, Any]]) -> Table:
    """Return a list of logs as a table."""
    table = Table()
    for heading in ("log", "bytes", "last written"):
        table.add_column(heading, justify="right" if heading == "bytes" else "left")
    for log in listed:
        written = datetime.fromtimestamp(log["modified_at_ms"] / 1000, UTC).isoformat(timespec="seconds")
        table.add_row(Text(log["name"]), str(log["size_bytes"]), written)
    return table


@taskmanager.command("thread-dump")
@click.argument("task_manager_id", shell_complete=complete_task_managers)
@_TIMEOUT
@pass_session
def thread_dump(session: Session, task_manager_id: str, timeout_s: float) -> int:
    """Show the stacks of all threads of the TaskExecutor TASK_MANAGER_ID, on standard output."""
    with session.working("waiting for the TaskExecutor"), ResourceManagerGateway(session.access) as gateway:
        key = gateway.request_thread_dump(task_manager_id, actor=actor_name(), timeout_s=timeout_s)
    write_file(_fetch(session, key))
    return ExitCode.OK


def _fetch(session: Session, key: str) -> bytes:
    blob_address = find_leader(session.access).blob_address
    return get_blob(blob_address, key, tls=tls_files(session.configuration))

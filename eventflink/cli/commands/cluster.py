"""`eventflink cluster`: the daemons that `masters` and `workers` of the configuration directory name, on all their hosts."""

import sys
from typing import Any

import click
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from eventflink.cli.cluster.coordinator import Coordinator, Outcome, all_ended, all_up, with_look
from eventflink.cli.cluster.daemons import DaemonReport, DaemonState, HostRequest
from eventflink.cli.cluster.host_agent import HostAgent
from eventflink.cli.cluster.joining import ClusterLook
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.model.document_faults import describe_fault
from eventflink.processes.pid_files import DaemonKind

_NAMES = {
    DaemonKind.BROKER: "Kafka",
    DaemonKind.MASTER: "master",
    DaemonKind.TASK_EXECUTOR: "TaskExecutor",
    DaemonKind.REST: "REST process",
    DaemonKind.WORKER: "worker",
}
_WORDS = {
    DaemonState.STARTED: "is started",
    DaemonState.RUNNING: "runs",
    DaemonState.NOT_JOINED: "lives, but has not joined",
    DaemonState.DIED: "died",
    DaemonState.DOWN: "did not run",
    DaemonState.STOPPED: "is stopped",
    DaemonState.KILLED: "is killed",
}
_STYLES = {DaemonState.RUNNING: "green", DaemonState.DOWN: "bold red", DaemonState.NOT_JOINED: "yellow"}
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_MAX_REQUEST_BYTES = 16 * 1024 * 1024


@click.group()
def cluster() -> None:
    """Start, stop and show the daemons that the configuration names.

    Which ones those are, and on which hosts, stands in the files masters and workers of the configuration directory; other hosts
    are reached by ssh. The daemons of this host have pid files in env.pid.dir and logs in env.log.dir.
    """


@cluster.command()
@_AS_JSON
@pass_session
def start(session: Session, *, as_json: bool) -> int:
    """Start every daemon that does not run, and wait until all have joined the cluster.

    Where bootstrap.servers is empty, the embedded Kafka broker is one of them. The exit code is 1 if something did not come up.
    """
    coordinator = Coordinator(session, _teller(session, as_json=as_json))
    for remark in coordinator.remarks():
        session.err.print(remark, style="yellow", markup=False)
    outcome = coordinator.start()
    return _tell_outcome(session, outcome, "running", is_done=all_up(outcome), as_json=as_json)


@cluster.command()
@_AS_JSON
@pass_session
def stop(session: Session, *, as_json: bool) -> int:
    """Stop REST processes and TaskExecutors, then masters, then workers of the resource driver, then the broker if it was started so.

    Each has cluster.stop-timeout for an orderly end and is killed after that; then the exit code is 1.
    """
    outcome = Coordinator(session, _teller(session, as_json=as_json)).stop()
    if not outcome.reports and not outcome.failures and not as_json:
        session.out.print("nothing runs")
    return _tell_outcome(session, outcome, "stopped", is_done=all_ended(outcome), as_json=as_json)


@cluster.command()
@_AS_JSON
@pass_session
def status(session: Session, *, as_json: bool) -> int:
    """Show every daemon; the exit code is 1 if one that the configuration names does not run or has not joined."""
    coordinator = Coordinator(session, lambda _report: None)
    with session.working("asking the hosts and the cluster"):
        outcome, seen = coordinator.status()
    reports = with_look(outcome, seen)
    is_whole = not outcome.failures and all(report.state is DaemonState.RUNNING for report in reports if report.is_named)
    if as_json:
        rows = [report.model_dump(mode="json") | _part(report, seen) for report in reports]
        session.print_json({"running": is_whole, "daemons": rows, "failures": outcome.failures, "problem": seen.problem})
    else:
        _print_table(session, reports, seen)
        _tell_failures(session, outcome.failures)
        if seen.problem:
            session.err.print(seen.problem, style="yellow", markup=False)
    return ExitCode.OK if is_whole else ExitCode.NEGATIVE


@cluster.command("on-host", hidden=True)
@pass_session
def on_host(session: Session) -> int:
    """Do on this host what a request on standard input asks for; print one report. `cluster` calls it by ssh."""
    try:
        request = HostRequest.model_validate_json(sys.stdin.buffer.read(_MAX_REQUEST_BYTES))
    except ValidationError as error:
        raise click.UsageError(f"standard input is not a request: {describe_fault(error.errors()[0])}") from error
    echo(HostAgent(session).serve(request).model_dump_json())
    return ExitCode.OK


def _tell_outcome(session: Session, outcome: Outcome, done: str, *, is_done: bool, as_json: bool) -> int:
    """Print what failed, or all of it as JSON; return the exit code."""
    if as_json:
        rows = [report.model_dump(mode="json") for report in outcome.reports]
        session.print_json({done: is_done, "daemons": rows, "failures": outcome.failures})
    else:
        _tell_failures(session, outcome.failures)
    return ExitCode.OK if is_done else ExitCode.NEGATIVE


def _teller(session: Session, *, as_json: bool) -> Any:
    def tell(report: DaemonReport) -> None:
        if as_json:
            return  # All of them are in the document at the end.
        where = f" (process {report.process_id})" if report.process_id else ""
        what = f"{_NAMES[report.kind]} {report.daemon_id} on {report.host} {_WORDS[report.state]}{where}"
        session.out.print(f"{what}: {report.detail}" if report.detail else what, markup=False)
        if report.state in (DaemonState.DIED, DaemonState.NOT_JOINED):
            session.out.print(f"its log is {report.log_path} on {report.host}", markup=False)

    return tell


def _tell_failures(session: Session, failures: list[str]) -> None:
    for failure in failures:
        session.err.print(failure, style="bold red", markup=False)


def _part(report: DaemonReport, seen: ClusterLook) -> dict[str, Any]:
    """Return the part that a daemon has in its cluster."""
    if report.state is DaemonState.RUNNING:
        if report.kind is DaemonKind.MASTER:
            master = seen.masters[report.daemon_id]
            return {"role": master.role, "epoch": master.epoch, "query_address": master.query_address}
        if report.kind is DaemonKind.TASK_EXECUTOR:
            manager = seen.task_managers[report.daemon_id]
            return {"role": "TASK_MANAGER", "slots": manager["slots"], "slots_free": manager["slots_free"]}
    return {"role": None}


def _describe(report: DaemonReport, seen: ClusterLook) -> str:
    part = _part(report, seen)
    match part["role"]:
        case None:
            return ""
        case "TASK_MANAGER":
            return f"{part['slots_free']} of {part['slots']} slots free"
        case "LEADER":
            return f"leads, epoch {part['epoch']}"
        case role:
            return f"{role.lower()}, epoch {part['epoch']}"


def _print_table(session: Session, reports: list[DaemonReport], seen: ClusterLook) -> None:
    table = Table()
    for heading in ("daemon", "host", "state", "part", "pid", "up since", "log"):
        table.add_column(heading, justify="right" if heading == "pid" else "left", overflow="fold")
    for report in reports:
        state = report.state if report.is_named else f"{report.state}, not in the configuration"
        table.add_row(
            Text(f"{_NAMES[report.kind]} {report.daemon_id}"),
            report.host,
            Text(state, style=_STYLES.get(report.state, "")),
            _describe(report, seen) or Text(report.detail),
            str(report.process_id or ""),
            report.up_since or "",
            Text(report.log_path),
        )
    session.out.print(table)

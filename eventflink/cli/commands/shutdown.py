"""`eventflink shutdown`: the end of a whole cluster, in order."""

import time

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.events.log_events import ClusterStopped
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.follow import LogFollower
from eventflink.model.statuses import ApplicationStatus
from eventflink.session.cluster_session import actor_name

_POLL_S = 0.25


@click.command()
@click.option(
    "--status",
    type=click.Choice([status.value for status in ApplicationStatus]),
    default=ApplicationStatus.SUCCEEDED.value,
    show_default=True,
    help="How the cluster's work ended; it decides the exit code of the masters.",
)
@click.option("--diagnostics", default="", help="An explanation of the status, for the log.")
@click.option(
    "--cancel-jobs", is_flag=True, help="Cancel the jobs. Default: suspend them; they are resumed when masters are started again."
)
@click.option("--wait", is_flag=True, help="Wait until the cluster has stopped.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=300.0, metavar="SECONDS", help="Wait no longer than this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def shutdown(session: Session, status: str, diagnostics: str, timeout_s: float, *, cancel_jobs: bool, wait: bool, as_json: bool) -> int:
    """Shut down the whole cluster: its jobs, then its TaskExecutors, then its masters."""
    with session.working("waiting for the answer"), DispatcherGateway(session.access) as gateway:
        accepted = gateway.shut_down_cluster(ApplicationStatus(status), diagnostics, cancel_jobs=cancel_jobs, actor=actor_name())
    if wait:
        with session.working("waiting for the end of the cluster"):
            _wait_for_end(session, accepted.log_offset, timeout_s)
    if as_json:
        session.print_json({"request_id": accepted.request_id, "log_offset": accepted.log_offset, "stopped": wait})
    else:
        echo(f"the cluster '{session.cluster_id}' {'has stopped' if wait else 'is being shut down'} (log offset {accepted.log_offset})")
    return ExitCode.OK


def _wait_for_end(session: Session, offset: int, timeout_s: float) -> None:
    """Follow the log until it says that the cluster has stopped.

    Raises:
        CommandFailed: it does not within the time.

    """
    deadline = time.monotonic() + timeout_s
    with LogFollower(session.access, offset) as follower:
        while time.monotonic() < deadline:
            if any(isinstance(event, ClusterStopped) for event in follower.accepted_events(_POLL_S)):
                return
    raise CommandFailed(ExitCode.UNREACHABLE, f"the cluster has not stopped within {timeout_s:g} s; the shutdown continues")

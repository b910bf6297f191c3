"""`eventflink stop`: a savepoint, and with it the end of a job."""

import dataclasses

import click

from eventflink.cli.checkpoint_options import describe_savepoint, timeout_option
from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("-p", "--savepoint-path", "directory", default="", help="Where to make it. Default: execution.checkpointing.savepoint-dir.")
@click.option("-d", "--drain", is_flag=True, help="Read what the sources have by now first.")
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def stop(session: Session, job_id: str, directory: str, timeout_s: float, *, drain: bool, as_json: bool) -> int:
    """Stop the job JOB_ID with a savepoint, after which nothing is read, and wait until the job has ended."""
    with (
        session.working("waiting for the savepoint and the end of the job"),
        DispatcherGateway(session.access) as gateway,
    ):
        taken = gateway.stop_with_savepoint(job_id, directory, timeout_s, drain=drain, actor=actor_name())
        if not as_json:
            echo(describe_savepoint(taken))
        status = gateway.request_job_result(job_id, timeout_s=timeout_s).status
    if as_json:
        session.print_json(dataclasses.asdict(taken) | {"status": status})
    else:
        echo(f"{job_id} {status}")
    return ExitCode.OK if status is JobStatus.FINISHED else ExitCode.NEGATIVE

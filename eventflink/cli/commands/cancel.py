"""`eventflink cancel`: the end of a job, asked for."""

import click

from eventflink.cli.checkpoint_options import describe_savepoint
from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.blocking import done_by
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.gateway import DEFAULT_CHECKPOINT_TIMEOUT_S
from eventflink.model.statuses import JobStatus
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", required=False, shell_complete=complete_jobs)
@click.option(
    "-s",
    "--with-savepoint",
    "directory",
    is_flag=False,
    flag_value="",
    metavar="[DIRECTORY]",
    help="Take a savepoint first, after which nothing is read. Default directory: execution.checkpointing.savepoint-dir.",
)
@click.option("--closing", is_flag=True, help="Cancel also the closing vertices, if they run.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Wait no longer than this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def cancel(
    session: Session, job_id: str | None, directory: str | None, timeout_s: float | None, *, closing: bool, wait: bool, as_json: bool
) -> int:
    """Cancel the job JOB_ID."""
    if job_id is None and directory:
        job_id, directory = directory, ""  # As in Flink, whose option may have no value either.
    if job_id is None:
        raise click.MissingParameter(param_type="argument", param_hint="'JOB_ID'")
    what = "waiting for the end of the job" if wait else "waiting for the answer"
    deadline = Deadline.after(timeout_s)
    options = done_by(deadline, timeout_s)
    with session.working(what), DispatcherGateway(session.access, **options) as gateway:
        if directory is not None:
            within_s = deadline.left_s(DEFAULT_CHECKPOINT_TIMEOUT_S)
            taken = gateway.trigger_savepoint(job_id, directory, within_s, cancel_job=True, actor=actor_name())
            echo(describe_savepoint(taken), err=as_json)
        accepted = gateway.cancel_job(job_id, closing=closing, actor=actor_name())
        status = gateway.request_job_result(job_id, timeout_s=deadline.left_s()).status if wait else None
    if as_json:
        session.print_json({"job_id": job_id, "request_id": accepted.request_id, "log_offset": accepted.log_offset, "status": status})
    else:
        echo(f"{job_id} {status}" if status else f"{job_id} is being cancelled (log offset {accepted.log_offset})")
    return ExitCode.OK if status in (None, JobStatus.CANCELED) else ExitCode.NEGATIVE

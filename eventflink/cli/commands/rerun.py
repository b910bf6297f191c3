"""`eventflink rerun`: a job that has ended runs again, as another job."""

import time

import click

from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.session import Session, pass_session
from eventflink.cli.submission import follow, param_option
from eventflink.gateways.blocking import done_by
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("rerun_of", metavar="JOB_ID", shell_complete=complete_jobs)
@click.option("--failed", is_flag=True, help="Run what had not finished; take the outputs of what had, where nothing of it has changed.")
@click.option(
    "--from",
    "from_vertices",
    multiple=True,
    metavar="VERTEX",
    shell_complete=complete_vertices,
    help="Run VERTEX and all that reads it, and take the rest; repeatable.",
)
@param_option
@click.option("--job-id", metavar="NEW_ID", help="The id of the job that runs. Default: a new one.")
@click.option("-d", "--detach", "--detached", is_flag=True, help="Do not wait for the job's end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines for people.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Wait no longer, for answer and end together."
)
@pass_session
def rerun(
    session: Session,
    rerun_of: str,
    from_vertices: tuple[str, ...],
    parameters: dict[str, str],
    job_id: str | None,
    timeout_s: float | None,
    *,
    failed: bool,
    detach: bool,
    as_json: bool,
) -> int:
    """Run the ended job JOB_ID again, with its graph and its code, and wait for the end.

    It is a job of its own, under a new id; the ended job stays as it is. Parameters that no --param names have the values of that job. It
    runs from the beginning, unless --failed or --from says otherwise; 'eventflink status' tells what was taken, and why.
    """
    if failed and from_vertices:
        raise click.UsageError("--failed and --from are two ways to say where to begin; give one of them")
    began_s = time.monotonic()
    options = done_by(Deadline.after(timeout_s, began_s), timeout_s)
    with session.working("submitting"), DispatcherGateway(session.access, **options) as gateway:
        accepted = gateway.rerun_job(rerun_of, job_id, parameters, failed=failed, from_vertices=from_vertices, actor=actor_name())
    report = {"job_id": accepted.job_id, "rerun_of": rerun_of, "request_id": accepted.request_id, "log_offset": accepted.log_offset}
    return follow(session, accepted, report, timeout_s, began_s, detach=detach, as_json=as_json)

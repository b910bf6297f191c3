"""`eventflink suspend`: stop a job without ending it."""

import click

from eventflink.cli.commands.submit import actor_name
from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway


@click.command()
@click.argument("job_id")
@click.option("--reason", default="", help="Why; shown with the job's status.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def suspend(session: Session, job_id: str, reason: str, *, as_json: bool) -> int:
    """Suspend the job JOB_ID: its tasks end, finished results stay; 'eventflink resume' resumes it."""
    with DispatcherGateway(session.bootstrap, session.cluster_id) as gateway:
        accepted = gateway.suspend_job(job_id, reason, actor=actor_name())
    if as_json:
        session.print_json({"job_id": job_id, "request_id": accepted.request_id, "log_offset": accepted.log_offset})
    else:
        click.echo(f"{job_id} is suspended (log offset {accepted.log_offset})")
    return ExitCode.OK

"""`eventflink suspend`: stop a job without ending it."""

import click

from eventflink.cli.completion import complete_jobs
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--reason", default="", help="Why; shown with the job's status.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def suspend(session: Session, job_id: str, reason: str, *, as_json: bool) -> int:
    """Suspend the job JOB_ID: its tasks end, finished results stay; 'eventflink resume' resumes it."""
    with session.working("waiting for the answer"), DispatcherGateway(session.access) as gateway:
        accepted = gateway.suspend_job(job_id, reason, actor=actor_name())
    return session.print_accepted(accepted, f"{job_id} is suspended", as_json=as_json, job_id=job_id)

"""`eventflink resume`: a suspended job runs again."""

import click

from eventflink.cli.completion import complete_jobs
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def resume(session: Session, job_id: str, *, as_json: bool) -> int:
    """Resume the suspended job JOB_ID: the tasks that had not finished run again."""
    with session.working("waiting for the answer"), DispatcherGateway(session.access) as gateway:
        accepted = gateway.resume_job(job_id, actor=actor_name())
    return session.print_accepted(accepted, f"{job_id} is resumed", as_json=as_json, job_id=job_id)

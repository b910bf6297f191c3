"""`eventflink dismiss`: removes a failed job from the problems of the cluster."""

import click

from eventflink.cli.completion import complete_jobs
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.option("--reason", default="", help="Why, for the log.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def dismiss(session: Session, job_id: str, reason: str, *, as_json: bool) -> int:
    """Dismiss the failure of the job JOB_ID: the cluster no longer counts it as a problem, and the job stays FAILED."""
    with session.working("waiting for the answer"), DispatcherGateway(session.access) as gateway:
        accepted = gateway.dismiss_job_failure(job_id, reason, actor=actor_name())
    return session.print_accepted(accepted, f"the failure of {job_id} is dismissed", as_json=as_json, job_id=job_id)

"""`eventflink checkpoint`: take a checkpoint of a job's streams now, and wait until it is complete."""

import dataclasses

import click

from eventflink.cli.checkpoint_options import timeout_option
from eventflink.cli.completion import complete_jobs
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def checkpoint(session: Session, job_id: str, timeout_s: float, *, as_json: bool) -> int:
    """Take a checkpoint of the job JOB_ID, and wait until it is complete."""
    with session.working("waiting for the checkpoint"), DispatcherGateway(session.access) as gateway:
        completed = gateway.trigger_checkpoint(job_id, timeout_s, actor=actor_name())
    if as_json:
        session.print_json(dataclasses.asdict(completed))
    else:
        state = f", state of {completed.state_rows} rows and {completed.state_bytes} bytes" if completed.state_rows else ""
        echo(f"checkpoint {completed.checkpoint_id} of {job_id} is complete after {completed.duration_ms} ms{state}")
    return ExitCode.OK

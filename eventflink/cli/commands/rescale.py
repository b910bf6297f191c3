"""`eventflink rescale`: another parallelism of a vertex, asked for."""

import click

from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.argument("vertex_id", shell_complete=complete_vertices)
@click.argument("parallelism", type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def rescale(session: Session, job_id: str, vertex_id: str, parallelism: int, *, as_json: bool) -> int:
    """Have the vertex VERTEX_ID of the job JOB_ID run in PARALLELISM subtasks."""
    with session.working("waiting for the answer"), JobMasterGateway(session.access, job_id=job_id) as gateway:
        accepted = gateway.rescale_job(vertex_id, parallelism, actor=actor_name())
    said = f"{job_id}/{vertex_id} is to have {parallelism} subtasks"
    return session.print_accepted(accepted, said, as_json=as_json, job_id=job_id, vertex_id=vertex_id, parallelism=parallelism)

"""`eventflink logs`: a file that a task attempt wrote, from wherever it ran.

The file travels as the architecture says: a request, an order to the TaskExecutor, an upload to the blob store, an event with the
key; so that this command needs no way to the TaskExecutor's host.
"""

import click

from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.folding import find_job, read_fold
from eventflink.cli.session import Session, actor_name, pass_session
from eventflink.gateways.leader import find_leader
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.argument("vertex_id", shell_complete=complete_vertices)
@click.option("--subtask", type=click.IntRange(min=0), default=0, show_default=True, help="Which of the vertex's subtasks, from 0.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt, from 1. Default: the newest.")
@click.option("--file", "file_name", type=click.Choice([f.lower() for f in TaskFile]), default="log", show_default=True, help="Which file.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds to wait for it.")
@pass_session
def logs(session: Session, job_id: str, vertex_id: str, subtask: int, attempt: int | None, file_name: str, timeout_s: float) -> int:
    """Show a file that a task of JOB_ID wrote, on standard output."""
    wanted = _find_attempt(session, job_id, vertex_id, subtask, attempt)
    blob_address = find_leader(session.bootstrap, session.cluster_id).blob_address
    with ResourceManagerGateway(session.bootstrap, session.cluster_id) as gateway:
        key = gateway.request_task_manager_file_upload(wanted, TaskFile(file_name.upper()), actor=actor_name(), timeout_s=timeout_s)
    click.get_binary_stream("stdout").write(get_blob(blob_address, key, tls=tls_files(session.configuration)))
    return ExitCode.OK


def _find_attempt(session: Session, job_id: str, vertex_id: str, subtask_index: int, attempt: int | None) -> AttemptId:
    """Return the attempt that is meant.

    Raises:
        CommandFailed: there is no such job, vertex or subtask.

    """
    job = find_job(read_fold(session.bootstrap, session.cluster_id), job_id)
    subtask = job.execution_graph.subtask(vertex_id, subtask_index)
    if subtask is None:
        has = ", ".join(f"{name}[0..{len(vertex.subtasks) - 1}]" for name, vertex in job.execution_graph.vertices.items())
        raise CommandFailed(ExitCode.NEGATIVE, f"job {job.job_id} has no task {vertex_id}[{subtask_index}]; it has {has}")
    return AttemptId(job.job_id, vertex_id, subtask_index, attempt or subtask.attempt)

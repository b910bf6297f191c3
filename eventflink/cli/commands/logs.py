"""`eventflink logs`: the files that tasks wrote, from wherever they ran, once or as they grow.

A file travels as the architecture says: a request, an order to the TaskExecutor, an upload to the blob store, an event with the
key; so that this command needs no way to the TaskExecutor's host.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import click

from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.growing_files import MAX_FILES, FollowedFiles, prefixed
from eventflink.cli.printer import write_file
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_job
from eventflink.documents.one_job import JobInfo, SubtaskInfo
from eventflink.gateways.leader import find_leader
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("job_id", shell_complete=complete_jobs)
@click.argument("vertex_id", required=False, shell_complete=complete_vertices)
@click.option("--subtask", type=click.IntRange(min=0), help="Which of the vertex's subtasks, from 0. Default: 0; with --follow all.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt, from 1. Default: the newest.")
@click.option("--file", "file_name", type=click.Choice([f.lower() for f in TaskFile]), default="log", show_default=True, help="Which file.")
@click.option("--follow", "-f", is_flag=True, help="Then show what comes, until the job has ended or Ctrl-C.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds to wait for it.")
@pass_session
def logs(
    session: Session,
    job_id: str,
    vertex_id: str | None,
    subtask: int | None,
    attempt: int | None,
    file_name: str,
    timeout_s: float,
    *,
    follow: bool,
) -> int:
    """Show a file that a task of JOB_ID wrote, on standard output.

    With --follow, VERTEX_ID may be left out: then the files of all tasks are shown, each line behind the name of its task.
    """
    file = TaskFile(file_name.upper())
    if follow:
        if attempt is not None:
            raise click.UsageError("--follow goes on with the newest attempts: leave --attempt out")
        _follow(session, job_id, vertex_id, subtask, file, timeout_s)
        return ExitCode.OK
    if vertex_id is None:
        raise click.MissingParameter(param_type="argument", param_hint="'VERTEX_ID' (only --follow shows all)")
    job = ask_job(session, job_id)
    wanted = find_attempt(job, vertex_id, subtask or 0, attempt)
    with session.working(f"waiting for the {file_name} of {wanted}"):
        blob_address = find_leader(session.access).blob_address
        with ResourceManagerGateway(session.access) as gateway:
            key = gateway.request_task_manager_file_upload(wanted, file, actor=actor_name(), timeout_s=timeout_s)
        data = get_blob(blob_address, key, tls=tls_files(session.configuration))
    write_file(data)
    return ExitCode.OK


def _follow(session: Session, job_id: str, vertex_id: str | None, subtask: int | None, file: TaskFile, timeout_s: float) -> None:
    def select(job: JobInfo) -> Sequence[AttemptId]:
        return attempts_of(job, vertex_id, subtask)

    def write(attempt: AttemptId, lines: list[bytes]) -> None:
        write_file(prefixed(attempt, lines) if vertex_id is None or subtask is None else b"".join(b"%s\n" % line for line in lines))

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(FollowedFiles(session, job_id, file, select, write, timeout_s).follow())


def find_attempt(job: JobInfo, vertex_id: str, subtask_index: int, attempt: int | None) -> AttemptId:
    """Return the attempt of a job's view that is meant; the newest, where none is given.

    Raises:
        CommandFailed: there is no such vertex or subtask.

    """
    found = _subtasks(job, vertex_id, subtask_index)
    return AttemptId(job.job_id, vertex_id, subtask_index, attempt or found[0].attempt)


def attempts_of(job: JobInfo, vertex_id: str | None, subtask_index: int | None) -> list[AttemptId]:
    """Return the newest attempts that were deployed: of one subtask, of a vertex, or of all vertices of a job's view.

    Raises:
        CommandFailed: there is no such vertex or subtask, or more of them than can be followed.

    """
    names = [vertex_id] if vertex_id is not None else [vertex.vertex_id for vertex in job.vertices]
    found = [
        AttemptId(job.job_id, name, subtask.subtask_index, subtask.attempt)
        for name in names
        for subtask in _subtasks(job, name, subtask_index)
        if subtask.task_manager_id
    ]
    if len(found) > MAX_FILES:
        raise CommandFailed(
            ExitCode.USAGE, f"{len(found)} tasks are more than the {MAX_FILES} that can be followed: name a vertex, or --subtask"
        )
    return found


def _subtasks(job: JobInfo, vertex_id: str, subtask_index: int | None) -> list[SubtaskInfo]:
    vertices = {vertex.vertex_id: vertex.subtasks for vertex in job.vertices}
    found = [each for each in vertices.get(vertex_id, ()) if subtask_index in (None, each.subtask_index)]
    if not found:
        has = ", ".join(f"{name}[0..{len(subtasks) - 1}]" for name, subtasks in vertices.items())
        task = vertex_id if subtask_index is None else f"{vertex_id}[{subtask_index}]"
        raise CommandFailed(ExitCode.NEGATIVE, f"job {job.job_id} has no task {task}; it has {has}")
    return found

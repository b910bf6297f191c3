"""`eventflink rerun`: a job that has ended runs again, as another job, also with mended code."""

import time
from pathlib import Path

import click

from eventflink.blob import BlobError
from eventflink.blob.tls import tls_files
from eventflink.cli.completion import complete_jobs, complete_vertices
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.id_type import JOB_ID
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_document
from eventflink.cli.submission import follow, packed, param_option, read_job_of, warn_of_code_left_out
from eventflink.documents.one_job import DocumentPage
from eventflink.gateways.blocking import done_by
from eventflink.gateways.code import ship_newer_code
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway, new_job_id
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.jobs.archive import build_archive
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, graph_digest, parse_job_graph
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("rerun_of", metavar="JOB_ID", shell_complete=complete_jobs)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--failed", is_flag=True, help="Run what had not finished; take the outputs of what had, where nothing of it has changed.")
@click.option(
    "--from",
    "from_vertices",
    multiple=True,
    metavar="VERTEX",
    shell_complete=complete_vertices,
    help="Run VERTEX and all that reads it, and take the rest; repeatable.",
)
@click.option(
    "--code",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file or directory with Python code that the job has from now on; repeatable.",
)
@param_option
@click.option("--job-id", type=JOB_ID, metavar="NEW_ID", help="The id of the job that runs. Default: a new one.")
@click.option("-d", "--detach", "--detached", is_flag=True, help="Do not wait for the job's end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines for people.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Wait no longer, for answer and end together."
)
@pass_session
def rerun(
    session: Session,
    rerun_of: str,
    file: Path | None,
    from_vertices: tuple[str, ...],
    code: tuple[Path, ...],
    parameters: dict[str, str],
    job_id: str | None,
    timeout_s: float | None,
    *,
    failed: bool,
    detach: bool,
    as_json: bool,
) -> int:
    """Run the ended job JOB_ID again and wait for the end: with its graph and its code, or with those of FILE and --code.

    It is a job of its own, under a new id; the ended job stays as it is. FILE is the job's document (JSON, YAML or Python) after it was
    mended; without --code it has the code that the job had. Parameters that no --param names have the values of that job. It runs from the
    beginning, unless --failed or --from says otherwise; 'eventflink status' tells what was taken, and why.
    """
    if failed and from_vertices:
        raise click.UsageError("--failed and --from are two ways to say where to begin; give one of them")
    job = read_job_of(file, session) if file is not None else None
    archives = packed(session, job, code, None) if job is not None else [build_archive(code)] if code else []
    began_s = time.monotonic()
    deadline, job_id = Deadline.after(timeout_s, began_s), job_id or new_job_id()
    with session.working("submitting"), DispatcherGateway(session.access, **done_by(deadline, timeout_s)) as gateway:
        graph = None
        if job is not None or archives:
            page = ask_document(session, rerun_of)
            graph = job.graph if job is not None else _graph_of(page)
            if code or not page.document.get("code_archives"):
                warn_of_code_left_out(session, graph, archives, file or Path())
            graph = _with_code(session, gateway, graph, archives, page, job_id, deadline)
        accepted = gateway.rerun_job(
            rerun_of, job_id, parameters, failed=failed, from_vertices=from_vertices, job_graph=graph, actor=actor_name()
        )
    report = {"job_id": accepted.job_id, "rerun_of": rerun_of, "request_id": accepted.request_id, "log_offset": accepted.log_offset}
    return follow(session, accepted, report, timeout_s, began_s, detach=detach, as_json=as_json)


def _graph_of(page: DocumentPage) -> JobGraph:
    """Return the graph of an ended job.

    Raises:
        CommandFailed: what is shown of its document is not all of it.

    """
    hidden = CommandFailed(ExitCode.USAGE, f"the document of {page.job_id} has secrets, which are not shown; {_advice(page)}")
    try:
        graph = parse_job_graph(page.document, f"the document of {page.job_id}", None)
    except InvalidJobGraph as error:
        raise hidden from error
    if graph_digest(graph) != page.graph_digest:
        raise hidden
    return graph


def _with_code(
    session: Session,
    gateway: DispatcherGateway,
    graph: JobGraph,
    archives: list[bytes],
    page: DocumentPage,
    job_id: str,
    deadline: Deadline,
) -> JobGraph:
    """Return a graph with these archives, or with the code that the ended job had.

    Raises:
        CommandFailed: that code is gone.

    """
    before = page.document.get("code_archives", [])
    if not archives and not before:
        return graph
    tls, address = tls_files(session.configuration), gateway.find_leader(deadline.left_s(DEFAULT_CONNECT_TIMEOUT_S)).blob_address
    try:
        return ship_newer_code(graph, address, archives, before, tls, job_id=job_id, left_s=deadline.left_s)
    except BlobError as error:
        raise CommandFailed(ExitCode.NEGATIVE, f"the code of {page.job_id} cannot be had: {error}; {_advice(page)}") from error


def _advice(page: DocumentPage) -> str:
    return f"name its document and its code: eventflink rerun {page.job_id} FILE --code PATH"

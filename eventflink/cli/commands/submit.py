"""`eventflink submit`: a JobGraph document, and the code that it needs, to the cluster."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from eventflink.blob.tls import tls_files
from eventflink.cli.id_type import JOB_ID
from eventflink.cli.session import Session, pass_session
from eventflink.cli.submission import follow, packed, param_option, read_job_of, with_code
from eventflink.gateways.blocking import done_by
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway, new_job_id
from eventflink.gateways.request_channel import Accepted
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import bind_parameters
from eventflink.session.cluster_session import actor_name


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--code", type=click.Path(path_type=Path), multiple=True, help="A file or directory with the job's Python code; repeatable.")
@param_option
@click.option("-s", "--from-savepoint", "savepoint_path", metavar="PATH", help="Let the streams begin in this savepoint.")
@click.option("-n", "--allow-non-restored-state", is_flag=True, help="Leave behind what the savepoint has and the job does not.")
@click.option("--job-id", type=JOB_ID, help="The job's id. Default: a new one.")
@click.option("-d", "--detach", "--detached", is_flag=True, help="Do not wait for the job's end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines for people.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Wait no longer, for the upload, the answer and the end together.",
)
@pass_session
def submit(
    session: Session,
    file: Path,
    code: tuple[Path, ...],
    parameters: dict[str, str],
    job_id: str | None,
    timeout_s: float | None,
    savepoint_path: str | None,
    *,
    allow_non_restored_state: bool,
    detach: bool,
    as_json: bool,
) -> int:
    """Submit the job that FILE (JSON, YAML or Python; - for standard input) describes, and wait for its end."""
    job = read_job_of(file, session)
    graph = bind_parameters(job.graph, parameters)
    if savepoint_path is not None or graph.restore is not None:
        from eventflink.streams.savepoint_restore import begin_in_savepoint  # noqa: PLC0415 - most jobs begin without one

        graph = begin_in_savepoint(graph, savepoint_path, allow_non_restored_state=allow_non_restored_state)
    archives = packed(session, job, code, file)
    began_s = time.monotonic()
    with session.working("submitting"):
        accepted = _submit(session, graph, archives, job_id, timeout_s, Deadline.after(timeout_s, began_s))
    report = {"job_id": accepted.job_id, "name": graph.name, "request_id": accepted.request_id, "log_offset": accepted.log_offset}
    return follow(session, accepted, report, timeout_s, began_s, detach=detach, as_json=as_json)


def _submit(
    session: Session, graph: JobGraph, archives: Sequence[bytes], job_id: str | None, timeout_s: float | None, deadline: Deadline
) -> Accepted:
    """Submit the job; neither Kafka, nor the leader, nor its blob server is waited for beyond the deadline, `timeout_s` after the start."""
    with DispatcherGateway(session.access, **done_by(deadline, timeout_s)) as gateway:
        if archives:
            job_id = job_id or new_job_id()
            graph = with_code(gateway, graph, archives, job_id, tls_files(session.configuration), deadline)
        return gateway.submit_job(graph, job_id, actor=actor_name())

"""`eventflink submit`: a JobGraph document, and the code that it needs, to the cluster.

What only waiting for the end needs is imported when that begins: `--detach` waits for none of it.
"""
# ruff: noqa: PLC0415

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from eventflink.blob.client import put_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.parameter_options import param_option
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.blocking import done_by
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway, new_job_id
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.request_channel import Accepted
from eventflink.jobs.archive import build_archive
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import bind_parameters, parse_job_graph
from eventflink.session.cluster_session import actor_name

if TYPE_CHECKING:
    from eventflink.cli.job_progress import JobProgress

_MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--code", type=click.Path(path_type=Path), multiple=True, help="A file or directory with the job's Python code; repeatable.")
@param_option
@click.option("-s", "--from-savepoint", "savepoint_path", metavar="PATH", help="Let the streams begin in this savepoint.")
@click.option("-n", "--allow-non-restored-state", is_flag=True, help="Leave behind what the savepoint has and the job does not.")
@click.option("--job-id", help="The job's id. Default: a new one.")
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
    """Submit the job that FILE (JSON or YAML; - for standard input) describes, and wait for its end."""
    graph = parse_job_graph(read_document(file), "standard input" if str(file) == "-" else str(file), file.parent)
    graph = bind_parameters(graph, parameters)
    if savepoint_path is not None or graph.restore is not None:
        from eventflink.streams.savepoint_restore import begin_in_savepoint

        graph = begin_in_savepoint(graph, savepoint_path, allow_non_restored_state=allow_non_restored_state)
    archive = build_archive(code) if code else None
    began_s = time.monotonic()
    with session.working("submitting"):
        accepted = _submit(session, graph, archive, job_id, timeout_s, Deadline.after(timeout_s, began_s))
    report = {"job_id": accepted.job_id, "name": graph.name, "request_id": accepted.request_id, "log_offset": accepted.log_offset}
    return follow(session, accepted, report, timeout_s, began_s, detach=detach, as_json=as_json)


def follow(
    session: Session, accepted: Accepted, report: dict[str, Any], timeout_s: float | None, began_s: float, *, detach: bool, as_json: bool
) -> int:
    """Say that a job was accepted and, unless `detach`, wait for its end and say how it ended; return the exit code.

    Args:
        session: the command's.
        accepted: the answer to the request that the job be run.
        report: what `--json` prints of the request; how the job ended is added to it.
        timeout_s: for how long the command may take in all.
        began_s: when it began, by the monotonic clock.
        detach: do not wait.
        as_json: print the report in place of lines for people.

    Raises:
        CommandFailed: it was interrupted, or the time is over; the job still runs.

    """
    if detach:
        session.print_json(report) if as_json else echo(accepted.job_id)
        return ExitCode.OK
    if not as_json:
        session.err.print(f"{accepted.job_id} is accepted (log offset {accepted.log_offset})", markup=False)
    from eventflink.cli.job_waiting import exit_code_of, wait_for_end_after

    try:
        progress = wait_for_end_after(session, accepted, timeout_s=timeout_s, began_s=began_s, quiet=as_json)
    except KeyboardInterrupt:
        raise CommandFailed(
            ExitCode.INTERRUPTED, f"job {accepted.job_id} is still running; 'eventflink cancel {accepted.job_id}' cancels it"
        ) from None
    _report_end(session, progress, report, as_json=as_json)
    return exit_code_of(progress.status)


def read_document(file: Path) -> str:
    """Return the text, bounded.

    Raises:
        CommandFailed: it cannot be read, is too long or is not text.

    """
    try:
        with click.open_file(str(file), "rb") as stream:
            data: bytes = stream.read(_MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise CommandFailed(ExitCode.USAGE, f"{file}: {error.strerror or error}") from error
    if len(data) > _MAX_DOCUMENT_BYTES:
        raise CommandFailed(ExitCode.USAGE, f"{file}: longer than {_MAX_DOCUMENT_BYTES} bytes; a job graph is not")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def _submit(
    session: Session, graph: JobGraph, archive: bytes | None, job_id: str | None, timeout_s: float | None, deadline: Deadline
) -> Accepted:
    """Submit the job; neither Kafka, nor the leader, nor its blob server is waited for beyond the deadline, `timeout_s` after the start."""
    with DispatcherGateway(session.bootstrap, session.cluster_id, **done_by(deadline, timeout_s)) as gateway:
        if archive is not None:
            leader = gateway.find_leader(deadline.left_s(DEFAULT_CONNECT_TIMEOUT_S))
            job_id = job_id or new_job_id()
            tls = tls_files(session.configuration)
            key = put_blob(leader.blob_address, archive, job_id=job_id, tls=tls, within_s=deadline.left_s())
            graph = dataclasses.replace(graph, code_archives=(*graph.code_archives, key))
        return gateway.submit_job(graph, job_id, actor=actor_name())


def _report_end(session: Session, progress: "JobProgress", report: dict[str, Any], *, as_json: bool) -> None:
    if not as_json:
        echo(progress.describe_result())
        if more := progress.describe_next():
            session.err.print(more, markup=False)
        return
    result = progress.result
    report["status"] = progress.status
    report["net_run_time_ms"] = result.net_run_time_ms if result else None
    report["cause"] = dataclasses.asdict(result.cause) if result and result.cause else None
    session.print_json(report)

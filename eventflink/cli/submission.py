"""What the commands that run a job have in common: its document, the values of its parameters, and following it to its end.

What only waiting for the end needs is imported when that begins: `--detach` waits for none of it.
"""
# ruff: noqa: PLC0415

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from eventflink.blob.client import put_blob
from eventflink.blob.tls import TlsFiles
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.request_channel import Accepted
from eventflink.jobs.job_files import (
    MAX_DOCUMENT_BYTES,
    DescribedJob,
    describe_document,
    is_python,
    is_specification,
    read_job,
    with_archives,
)
from eventflink.jobs.modules_beside import modules_left_out
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import TaskType

if TYPE_CHECKING:
    from eventflink.cli.job_progress import JobProgress

param_option: Final = click.option(
    "--param",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda _context, _option, words: _values_of(words),
    help="The value of a parameter that the job declares; repeatable.",
)


def _values_of(words: tuple[str, ...]) -> dict[str, str]:
    """Return the values by name, as texts.

    Raises:
        CommandFailed: a word names no parameter, or a parameter has two values.

    """
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise CommandFailed(ExitCode.USAGE, f"invalid --param '{word[:128]}': NAME=VALUE is expected, such as day=2026-11-25")
        if name in values:
            raise CommandFailed(ExitCode.USAGE, f"invalid --param '{word[:128]}': '{name}' has a value already")
        values[name] = value
    return values


def read_document(file: Path) -> str:
    """Return the text, bounded.

    Raises:
        CommandFailed: it cannot be read, is too long or is not text.

    """
    try:
        with click.open_file(str(file), "rb") as stream:
            data: bytes = stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise CommandFailed(ExitCode.USAGE, f"{file}: {error.strerror or error}") from error
    except ValueError as error:  # The path has a NUL.
        raise CommandFailed(ExitCode.USAGE, f"invalid path: {str(file)!r}: {error}") from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise CommandFailed(ExitCode.USAGE, f"{file}: longer than {MAX_DOCUMENT_BYTES} bytes; a job graph is not")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def read_job_of(file: Path, session: Session | None = None) -> DescribedJob:
    """Return the job that a file describes, or standard input (`-`); tell what looks wrong in its SQL, if there is a session to tell it.

    Raises:
        CommandFailed: it cannot be read.
        InvalidJobGraph: it describes no job; the message names the place.
        ArchiveError: a module that a job in Python imports cannot be read.

    """
    if is_python(file) or is_specification(file):
        with contextlib.redirect_stdout(sys.stderr):  # What it prints is nothing of what the command says.
            job = read_job(file)
    else:
        job = describe_document(read_document(file), name_of_source(file), file.parent)
    if session is not None and any(vertex.task_type is not TaskType.PYTHON for vertex in job.graph.vertices):
        from eventflink.jobs.sql_doubts import doubts_of

        _warn(session, doubts_of(job.graph, job.sql_files))
    return job


def _warn(session: Session, doubts: Sequence[str]) -> None:
    for doubt in doubts:
        session.err.print(Text(f"warning: {doubt}", style="yellow"))


def name_of_source(file: Path) -> str:
    """Return what messages call a file, or standard input."""
    return "standard input" if str(file) == "-" else str(file)


def packed(session: Session, job: DescribedJob, code: Sequence[Path], file: Path | None) -> list[bytes]:
    """Return the archives that travel with a job; to install packages may take a while, and is said, and so is which code is left out.

    Args:
        session: to whom it is said.
        job: the job.
        code: its code, in place of that which is known to belong to it.
        file: its document; None: it may have other code than this.

    Raises:
        ArchiveError: the code cannot be packed, or the packages cannot be installed.

    """
    with session.working("installing packages") if job.requirements is not None else contextlib.nullcontext():
        archives = job.archives(code)
    if file is not None:
        warn_of_code_left_out(session, job.graph, archives, file)
    return archives


def warn_of_code_left_out(session: Session, graph: JobGraph, archives: Sequence[bytes], file: Path) -> None:
    """Say which modules lie beside a document, or where this process was started, and are not sent with the job that names them."""
    _warn(session, modules_left_out(graph, archives, (file.parent, Path())))


def with_code(
    gateway: DispatcherGateway, graph: JobGraph, archives: Sequence[bytes], owner: str, tls: TlsFiles | None, deadline: Deadline
) -> JobGraph:
    """Return the graph with archives of code that were uploaded for a job, or a schedule, of this id."""
    address = gateway.find_leader(deadline.left_s(DEFAULT_CONNECT_TIMEOUT_S)).blob_address
    return with_archives(graph, archives, lambda each: put_blob(address, each, job_id=owner, tls=tls, within_s=deadline.left_s()))


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

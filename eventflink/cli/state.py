"""The state for a command that only asks, by the rule that all clients have (`gateways/state_reads.py`): a REST process, else the log.

Every question raises CommandFailed where what is asked for does not exist, ArchiveUnusable where a job has left the memory and its archive
is damaged or gone, LogUnfoldable and LogNotTrusted where the log cannot be folded, ClusterNotFound where Kafka holds no such cluster, and
ClusterUnreachable where it does not answer. Every answer has the `log_offset` that it reflects.
"""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.documents.checkpoints import CheckpointsAsOf
from eventflink.documents.cluster import ClusterStatus
from eventflink.documents.failures import JobExceptions
from eventflink.documents.jobs import JobList
from eventflink.documents.one_job import DocumentPage, ExecutionGraphInfo
from eventflink.documents.plain import parse
from eventflink.documents.runs import JobNamesPage, RunsPage
from eventflink.documents.schedules import ScheduleDetails, ScheduleList
from eventflink.gateways import rest_process
from eventflink.gateways.rest_process import NothingThere
from eventflink.gateways.state_reads import Sources, StateReads, perform_rest, sources_of
from eventflink.gateways.steps import AskRest, FoldLog, Parameters, Step, drive

_TIMEOUT_S: Final = 30.0
"""How long Kafka may take to give the log."""


def ask_jobs(session: Session, statuses: Sequence[str], limit: int, labels: Sequence[str] = (), queues: Sequence[str] = ()) -> JobList:
    """Return the newest `limit` jobs that have one of these statuses, all these labels and one of these queues (none given: any)."""
    asked: dict[str, str | int | list[str]] = {"status": list(statuses), "limit": limit, "label": list(labels), "queue": list(queues)}
    return parse(JobList, _ask(session, "/jobs", asked))


def ask_cluster(session: Session) -> ClusterStatus:
    """Return the cluster as `cluster_view` shows it."""
    return parse(ClusterStatus, _ask(session, "/cluster")["cluster"])


def ask_schedules(session: Session) -> tuple[ScheduleList, int]:
    """Return all schedules, and the `log_offset` that this reflects."""
    answer = _ask(session, "/schedules")
    return parse(ScheduleList, answer["schedules"]), answer["log_offset"]


def ask_schedule(session: Session, schedule_id: str) -> tuple[ScheduleDetails, int]:
    """Return a schedule, and the `log_offset` that this reflects."""
    answer = _ask(session, f"/schedules/{schedule_id}")
    return parse(ScheduleDetails, answer["schedule"]), answer["log_offset"]


def ask_names(session: Session, first: int, limit: int, part: str = "") -> tuple[JobNamesPage, int]:
    """Return names of jobs that have a part in them, those first that were submitted last, and the `log_offset` that this reflects."""
    answer = _ask(session, "/names", {"name": part, "first": first, "limit": limit})
    return parse(JobNamesPage, answer["names"]), answer["log_offset"]


def ask_runs(session: Session, name: str, first: int, limit: int) -> tuple[RunsPage, int]:
    """Return runs of a name, the newest first, and the `log_offset` that this reflects; of an unknown name there are none."""
    answer = _ask(session, "/runs", {"name": name, "first": first, "limit": limit})
    return parse(RunsPage, answer["runs"]), answer["log_offset"]


def ask_document(session: Session, job_id: str) -> DocumentPage:
    """Return what was submitted as a job, without secrets, also of one that has left the memory."""
    return parse(DocumentPage, _ask(session, f"/jobs/{job_id}/document"))


def ask_job(session: Session, job_id: str) -> ExecutionGraphInfo:
    """Return a job, also one that has left the memory."""
    answer = _ask(session, f"/jobs/{job_id}")
    return parse(ExecutionGraphInfo, {**answer["job"], "log_offset": answer["log_offset"]})


def ask_exceptions(session: Session, job_id: str, limit: int) -> tuple[JobExceptions, int]:
    """Return the newest `limit` failures of a job, also of one that has left the memory, and the `log_offset` that this reflects."""
    answer = _ask(session, f"/jobs/{job_id}/exceptions", {"limit": limit})
    return parse(JobExceptions, answer), answer["log_offset"]


def ask_checkpoints(session: Session, job_id: str) -> CheckpointsAsOf:
    """Return the checkpoints of a job, and where its streams stood, also of one that has left the memory."""
    return parse(CheckpointsAsOf, _ask(session, f"/jobs/{job_id}/checkpoints"))


def ask_past_cluster(session: Session, place: str) -> ClusterStatus:
    """Return the cluster as it was at a place in the log, an offset or a time; raises click.BadParameter where it is neither."""
    cluster: ClusterStatus = _past().cluster_at(session, place)
    return cluster


def ask_past_job(session: Session, job_id: str, place: str) -> ExecutionGraphInfo:
    """Return a job as it was at a place in the log; raises as `ask_past_cluster` does."""
    job: ExecutionGraphInfo = _past().job_at(session, job_id, place)
    return job


def read_page(session: Session, path: str, parameters: Parameters) -> dict[str, Any] | None:
    """Return a page of the REST process as it is now: its `body`, and the `offset` that it reflects; None: nobody gives it."""
    return rest_process.read_page(_sources(session).find_rest(), path, parameters)


def _ask(session: Session, path: str, parameters: Parameters | None = None) -> dict[str, Any]:
    sources = _sources(session)

    def perform(step: Step) -> Any:
        if isinstance(step, AskRest):
            return perform_rest(step)
        assert isinstance(step, FoldLog)  # noqa: S101 - a read has no other
        from eventflink.gateways.folding import Folding  # noqa: PLC0415 - half of the time of a start, and not needed where REST answers

        folding = Folding(session.access, sources)
        try:
            return folding.answer(step)
        finally:
            folding.close()

    try:
        with session.working("asking for the state"):
            access = session.configuration.access(session.find_bootstrap(), session.role)  # Where REST answers, Kafka need not be known.
            return drive(StateReads(access, _TIMEOUT_S, sources).read(path, parameters), perform)
    except NothingThere as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error


def _sources(session: Session) -> Sources:
    return sources_of(session.configuration, lambda: session.bootstrap, session.cluster_id)


def _past() -> ModuleType:
    return importlib.import_module("eventflink.cli.past")

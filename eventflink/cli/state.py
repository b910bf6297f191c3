"""The state for a command that only asks: from any master, and where none answers, from the log itself; a list of jobs from a REST process.

All give the same: a master first reads on to where the log ended when it was asked, and the log, folded here and now from the newest
snapshot on (`folding.py`), says what the state is, with or without a master that runs.

Every question raises CommandFailed where what is asked for does not exist or the log cannot be folded, ArchiveUnusable where a job has left
the memory and its archive is damaged or gone, ClusterNotFound where Kafka holds no such cluster, and ClusterUnreachable where it does not
answer.
"""

import importlib
import logging
import urllib.parse
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.rest_reads import read_page
from eventflink.cli.session import Session
from eventflink.documents.cluster import Cluster
from eventflink.documents.jobs import JobList
from eventflink.documents.plain import parse
from eventflink.views.plain import View

if TYPE_CHECKING:
    from eventflink.gateways.reads import Parameters

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_MAX_JOBS_ASKED = 1_000
"""More rows than a master gives at once are taken from the log."""


def ask_jobs(session: Session, statuses: Sequence[str], limit: int) -> JobList:
    """Return the newest `limit` jobs that have one of these statuses (none given: any)."""
    if limit > _MAX_JOBS_ASKED:
        folded: JobList = _folding().jobs(session, statuses, limit)
        return folded
    page = read_page(session, "/jobs", {"status": list(statuses), "limit": limit})
    if page is not None:
        return parse(JobList, {"jobs": page["body"]["jobs"][::-1], "total": page["body"]["matching"]})
    asked: Parameters = {"status": list(statuses), "limit": limit}
    listed: JobList = _ask(session, "/jobs", asked, partial(parse, JobList), lambda log: log.jobs(session, statuses, limit))
    return listed


def ask_cluster(session: Session) -> Cluster:
    """Return the cluster as `cluster_view` shows it."""
    cluster: Cluster = _ask(session, "/cluster", {}, lambda answer: parse(Cluster, answer["cluster"]), lambda log: log.cluster(session))
    return cluster


def ask_job(session: Session, job_id: str) -> View:
    """Return a job as `job_view` shows it, also one that has left the memory."""
    answer = _ask(session, _job_path(job_id), {}, dict, lambda log: log.job(session, job_id))
    return {**answer["job"], "log_offset": answer["log_offset"]}


def _job_path(job_id: str) -> str:
    return f"/jobs/{urllib.parse.quote(job_id, safe='')}"


def ask_exceptions(session: Session, job_id: str, limit: int) -> View:
    """Return the newest `limit` failures of a job, also of one that has left the memory."""
    return _ask(session, f"{_job_path(job_id)}/exceptions", {"limit": limit}, dict, lambda log: log.exceptions(session, job_id, limit))


def ask_checkpoints(session: Session, job_id: str) -> View:
    """Return the checkpoints of a job, and where its streams stood, also of one that has left the memory."""
    return _ask(session, f"{_job_path(job_id)}/checkpoints", {}, dict, lambda log: log.checkpoints(session, job_id))


def ask_past_cluster(session: Session, place: str) -> Cluster:
    """Return the cluster as it was at a place in the log, an offset or a time; raises click.BadParameter where it is neither."""
    cluster: Cluster = _past().cluster_at(session, place)
    return cluster


def ask_past_job(session: Session, job_id: str, place: str) -> View:
    """Return a job as it was at a place in the log; raises as `ask_past_cluster` does."""
    job: View = _past().job_at(session, job_id, place)
    return job


def _ask(
    session: Session, path: str, parameters: "Parameters", read: Callable[[dict[str, Any]], T], from_log: Callable[[ModuleType], T]
) -> T:
    """Return what `read` makes of a master's answer, or `from_log` of the log."""
    from eventflink.gateways.reads import NoMasterAnswered, NothingThere, ask_masters  # noqa: PLC0415 - half of the time of a start

    try:
        with session.working("asking the masters"):
            answer = ask_masters(session.bootstrap, session.cluster_id, path, {**parameters, "linearizable": "true"})
    except NothingThere as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    except NoMasterAnswered as error:
        _logger.info("LogFolded reason=%s", error)
        return from_log(_folding())
    _logger.info("MasterAnswered master=%s role=%s offset=%d", answer["master_id"], answer["role"], answer["log_offset"])
    return read(answer)


def _folding() -> ModuleType:
    """Import it only here: a command that a master answers needs none of what decides."""
    return importlib.import_module("eventflink.cli.folding")


def _past() -> ModuleType:
    return importlib.import_module("eventflink.cli.past")

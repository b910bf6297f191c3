"""The state for a command that only asks: from any master, and where none answers, from the log itself.

Both give the same: a master first reads on to where the log ended when it was asked, and the log says what the state is, with or
without a master that runs.
"""

import logging
import urllib.parse
from collections.abc import Callable
from typing import Any

from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.cli.session import Session
from eventflink.cli.state import read_fold
from eventflink.gateways.errors import ArchiveUnusable
from eventflink.gateways.reads import NoMasterAnswered, NothingThere, Parameters, ask_masters
from eventflink.leadership.fold import Fold
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.views.archive import archived_job
from eventflink.views.jobs_and_cluster import JobNotFound, job_view
from eventflink.views.plain import View

_logger = logging.getLogger(__name__)


def ask_state(
    session: Session,
    path: str,
    parameters: Parameters,
    compute: Callable[[Fold], View],
    from_archive: Callable[[View], View] | None = None,
) -> dict[str, Any]:
    """Return the answer of a master to `path`, or what `compute` makes of the folded log; with `log_offset` in either case.

    A job that the log's state no longer holds is read `from_archive`, as a master does.

    Raises:
        CommandFailed: what is asked for does not exist, or the log cannot be folded.
        ArchiveUnusable: a job has left the memory, and its archive is damaged or gone.
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer.

    """
    try:
        answer = ask_masters(session.bootstrap, session.cluster_id, path, {**parameters, "linearizable": "true"})
    except NothingThere as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    except NoMasterAnswered as error:
        _logger.info("LogFolded reason=%s", error)
        return fold_state(session, compute, from_archive)
    _logger.info("MasterAnswered master=%s role=%s offset=%d", answer["master_id"], answer["role"], answer["log_offset"])
    return answer


def fold_state(session: Session, compute: Callable[[Fold], View], from_archive: Callable[[View], View] | None = None) -> dict[str, Any]:
    """Return what `compute` makes of the folded log, with its `log_offset`; raises as `ask_state` does."""
    fold = read_fold(session.bootstrap, session.cluster_id)
    try:
        return {**compute(fold), "log_offset": fold.last_offset}
    except JobNotFound as error:
        archive = read_archive(session, error) if from_archive is not None else None
        if from_archive is None or archive is None:
            raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
        return {**from_archive(archive), "log_offset": fold.last_offset}


def read_archive(session: Session, missing: JobNotFound) -> View | None:
    """Return the archive of a job that the state does not hold, from where this configuration says; None: there is none.

    Raises:
        ArchiveUnusable: there should be one, and it is damaged or gone.
        BlobError, OSError: the storage does not answer as it should.

    """
    location = session.configuration.archive_location
    if not location or missing.archive_digest == "" or not is_valid_job_id(missing.job_id):
        return None
    archives = JobArchives(open_storage(location, "jobmanager.archive.fs.dir"), 0)
    try:
        return archives.read(missing.job_id, missing.archive_digest or "")
    except ArchiveMissing as error:
        if missing.archive_digest is None:
            return None
        raise ArchiveUnusable(f"{error}, though it was written") from error
    except ArchiveDamaged as error:
        raise ArchiveUnusable(str(error)) from error


def ask_job(session: Session, job_id: str) -> View:
    """Return a job as `job_view` shows it, also one that has left the memory, with `log_offset`; raises as `ask_state` does."""

    def compute(fold: Fold) -> View:
        return {"job": job_view(fold, job_id)}

    path = f"/jobs/{urllib.parse.quote(job_id, safe='')}"
    answer = ask_state(session, path, {}, compute, lambda archive: {"job": archived_job(archive)})
    return {**answer["job"], "log_offset": answer["log_offset"]}

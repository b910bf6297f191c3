"""What a command needs of the log itself: the state at its end, and the same answers from it that a master gives.

It imports all that decides, so commands that ask masters import it only when none answers (`state.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException

from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.documents.cluster import Cluster
from eventflink.documents.jobs import JobList
from eventflink.events.codec import UndecodableRecord
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.errors import AccessDenied, ArchiveUnusable, ClusterUnreachable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable, SecretUnfit
from eventflink.leadership.known_log import LogTruncated
from eventflink.log.administration import AdministrationError
from eventflink.log.refusals import explain, is_denied
from eventflink.log.replay import ReplayStalled
from eventflink.reader.archives.reading import read_archived
from eventflink.snapshots.loading import read_state
from eventflink.views import jobs_and_cluster
from eventflink.views.archive import archived_checkpoints, archived_exceptions, archived_job
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.jobs_and_cluster import JobNotFound, cluster_view, job_view, jobs_view
from eventflink.views.plain import View

T = TypeVar("T")


@contextmanager
def folding_log(bootstrap: str, cluster_id: str) -> Iterator[None]:
    """Turn the errors of who reads and folds the log into those of commands.

    Raises:
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer, or stopped answering.
        CommandFailed: the log cannot be folded.

    """
    # Opened only for its errors, which say whether Kafka or the cluster is missing.
    PartitionReader(bootstrap, cluster_id, Topic.LOG).close()
    try:
        yield
    except (KafkaException, ReplayStalled, AdministrationError) as error:
        if isinstance(error, KafkaException) and is_denied(error.args[0]):  # The log was let in to above: what else is read are snapshots.
            raise AccessDenied(explain(error.args[0], bootstrap, "Read", topic_name(cluster_id, Topic.SNAPSHOTS))) from error
        raise ClusterUnreachable(f"the log at {bootstrap} cannot be read: {error}") from error
    except (LogTruncated, SecretUnfit) as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
    except (LogUnusable, LogDiverged, LogNotDense, UndecodableRecord) as error:
        raise CommandFailed(ExitCode.INTERNAL, f"the log of '{cluster_id}' cannot be folded: {error}") from error


def read_fold(bootstrap: str, cluster_id: str) -> Fold:
    """Return the accepted state at the end that the log has now; raises as `folding_log` does."""
    with folding_log(bootstrap, cluster_id):
        return read_state(bootstrap, cluster_id)


def jobs(session: Session, statuses: Sequence[str], limit: int) -> JobList:
    """Return the newest `limit` jobs; these answers are those of `state.py`, and raise the same."""
    return _fold_state(session, lambda fold: jobs_view(fold, statuses, limit))[0]


def cluster(session: Session) -> Cluster:
    """Return the cluster."""
    return _fold_state(session, cluster_view)[0]


def job(session: Session, job_id: str) -> View:
    """Return a job."""
    view, log_offset = _fold_state(session, lambda fold: job_view(fold, job_id), archived_job)
    return {"job": view, "log_offset": log_offset}


def exceptions(session: Session, job_id: str, limit: int) -> View:
    """Return the failures of a job."""
    view, log_offset = _fold_state(
        session, lambda fold: exceptions_view(jobs_and_cluster.find_job(fold, job_id), limit), partial(archived_exceptions, limit=limit)
    )
    return {**view, "log_offset": log_offset}


def checkpoints(session: Session, job_id: str) -> View:
    """Return the checkpoints of a job."""
    view, log_offset = _fold_state(session, lambda fold: checkpoints_view(jobs_and_cluster.find_job(fold, job_id)), archived_checkpoints)
    return {**view, "log_offset": log_offset}


def _fold_state(session: Session, compute: Callable[[Fold], T], from_archive: Callable[[View], T] | None = None) -> tuple[T, int]:
    """Return what `compute` makes of the folded log, or of the archive of a job that it no longer holds, and the last offset."""
    with session.working("folding the log, as no master answers"):
        fold = read_fold(session.bootstrap, session.cluster_id)
    try:
        return compute(fold), fold.last_offset
    except JobNotFound as error:
        if from_archive is None:
            raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
        try:
            archive = read_archived(_archives(session), error)
        except JobNotFound:
            raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
        except (ArchiveMissing, ArchiveDamaged) as unusable:
            raise ArchiveUnusable(str(unusable)) from unusable
        return from_archive(archive), fold.last_offset


def _archives(session: Session) -> JobArchives | None:
    location = session.configuration.archive_location
    return JobArchives(open_storage(location, "jobmanager.archive.fs.dir"), 0) if location else None

"""Folding the log of a cluster in this process, with the errors of gateways: what `FoldLog` does, and what commands do that need the fold.

It imports all that decides, so it is imported only by who folds.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException

from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing
from eventflink.events.codec import UndecodableRecord
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.errors import AccessDenied, ArchiveUnusable, ClusterUnreachable, GatewayError, LogNotTrusted, LogUnfoldable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.rest_process import NothingThere, QuestionInvalid
from eventflink.gateways.state_reads import Sources
from eventflink.gateways.steps import FoldLog
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable, SecretUnfit
from eventflink.leadership.known_log import LogTruncated
from eventflink.log.administration import AdministrationError
from eventflink.log.refusals import explain, is_denied
from eventflink.log.replay import ReplayStalled
from eventflink.model.cluster_access import ClusterAccess
from eventflink.reader import questions
from eventflink.reader.local import LocalReader
from eventflink.snapshots.loading import read_state
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.queries import SubjectNotFound

_GRACE_S: Final = 5.0
"""What folding the log gets beyond the time that Kafka is waited for."""
_logger = logging.getLogger(__name__)


class Folding:
    """The fold of one connection. For any threads."""

    def __init__(self, access: ClusterAccess, sources: Sources) -> None:
        """Find the cluster; nothing is read before the first question.

        Raises:
            ClusterUnreachable, ClusterNotFound, AccessDenied: Kafka does not give its log.

        """
        check_log(access)
        self._access = access
        self._reader = LocalReader(access, sources.open_archives)

    def begin(self, step: FoldLog) -> Future[dict[str, Any]]:
        """Return the answer to come, whose errors `translated` tells; raises `QuestionInvalid`."""
        try:
            question = questions.question_of(step.path, step.parameters)
        except questions.QuestionRefused as error:
            raise QuestionInvalid(str(error)) from error
        return self._reader.ask(question, step.timeout_s)

    def answer(self, step: FoldLog) -> dict[str, Any]:
        """Return the answer; blocks, and raises as `StateReads.read` does."""
        coming = self.begin(step)
        try:
            return coming.result(timeout_of(step))
        except Exception as error:  # Any error of a fold: those that have no error of the gateways go on as they are.
            coming.cancel()
            if (found := self.translated(error)) is None:
                raise
            raise found from error

    def translated(self, error: Exception) -> GatewayError | None:
        """Return the gateways' error for one of a fold; None: it is something else."""
        if isinstance(error, TimeoutError):
            return ClusterUnreachable(f"the log of '{self._access.cluster_id}' at {self._access.bootstrap} was not read in time")
        if isinstance(error, JobNotFound | SubjectNotFound):
            return NothingThere(str(error))
        if isinstance(error, ArchiveMissing | ArchiveDamaged):
            return ArchiveUnusable(str(error))
        return _folding_error(error, self._access)

    def close(self) -> None:
        """Let the fold go."""
        self._reader.close()


def timeout_of(step: FoldLog) -> float:
    """Return for how long an answer is waited for."""
    return step.timeout_s + step.wait_s + _GRACE_S


def check_log(access: ClusterAccess) -> None:
    """Check that Kafka has a log of the cluster; raises ClusterUnreachable, ClusterNotFound and AccessDenied."""
    PartitionReader(access, Topic.LOG).close()  # Opened only for its errors.


@contextmanager
def folding_log(access: ClusterAccess) -> Iterator[None]:
    """Turn the errors of who reads and folds the log into those of gateways.

    Raises:
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer, or stopped answering.
        AccessDenied: Kafka does not let us read it.
        LogUnfoldable, LogNotTrusted: the log cannot be folded, or has less than was known to be in it.

    """
    check_log(access)
    try:
        yield
    except Exception as error:
        found = _folding_error(error, access)
        if found is None:
            raise
        raise found from error


def read_fold(access: ClusterAccess) -> Fold:
    """Return the accepted state at the end that the log has now; raises as `folding_log` does."""
    with folding_log(access):
        return read_state(access)


def _folding_error(error: Exception, access: ClusterAccess) -> GatewayError | None:
    """Return the gateways' error for what keeps a log from being read or folded; None: it is something else."""
    if isinstance(error, KafkaException) and is_denied(error.args[0]):  # The log was let in to before: what else is read are snapshots.
        return AccessDenied(explain(error.args[0], access.kafka, "Read", topic_name(access.cluster_id, Topic.SNAPSHOTS)))
    if isinstance(error, KafkaException | ReplayStalled | AdministrationError):
        return ClusterUnreachable(f"the log at {access.bootstrap} cannot be read: {error}")
    if isinstance(error, LogTruncated | SecretUnfit):
        return LogNotTrusted(str(error))
    if isinstance(error, LogUnusable | LogDiverged | LogNotDense | UndecodableRecord):
        return LogUnfoldable(f"the log of '{access.cluster_id}' cannot be folded: {error}")
    return None

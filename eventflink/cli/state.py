"""The cluster's state for a command that only asks: the log, folded here and now up to its end, from the newest snapshot on.

Nobody is asked for it: what the log says is the state, with or without a master that runs.
"""

from confluent_kafka import KafkaException

from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.events.topics import Topic
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.leadership.acceptance import LogDiverged, LogNotDense
from eventflink.leadership.fold import Fold, LogUnusable
from eventflink.log.administration import AdministrationError
from eventflink.log.replay import ReplayStalled
from eventflink.log.snapshots import read_state
from eventflink.master.job_master import JobMaster
from eventflink.views import jobs_and_cluster


def read_fold(bootstrap: str, cluster_id: str) -> Fold:
    """Return the accepted state at the end that the log has now.

    Raises:
        ClusterNotFound: Kafka holds no such cluster.
        ClusterUnreachable: Kafka does not answer, or stopped answering.
        CommandFailed: the log cannot be folded.

    """
    # Opened only for its errors, which say whether Kafka or the cluster is missing.
    PartitionReader(bootstrap, cluster_id, Topic.LOG).close()
    try:
        return read_state(bootstrap, cluster_id)
    except (KafkaException, ReplayStalled, AdministrationError) as error:
        raise ClusterUnreachable(f"the log at {bootstrap} cannot be read: {error}") from error
    except (LogUnusable, LogDiverged, LogNotDense) as error:
        raise CommandFailed(ExitCode.INTERNAL, f"the log of '{cluster_id}' cannot be folded: {error}") from error


def find_job(fold: Fold, job_id: str) -> JobMaster:
    """Return a job by its id, or by the beginning of it where that is clear.

    Raises:
        CommandFailed: there is none, or more than one.

    """
    try:
        return jobs_and_cluster.find_job(fold, job_id)
    except jobs_and_cluster.JobNotFound as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error

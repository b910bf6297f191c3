"""An operator's word that a truncated log counts as it is: what contradicts it is removed, so that no later start meets it again (P5a).

The rule: the word names where the log ends, and is for that end alone; on any other log it says nothing.
"""

import logging

from eventflink.events.topics import Topic
from eventflink.leadership.known_log import LogTruncated
from eventflink.log.administration import log_topic_id
from eventflink.log.replay import log_bounds
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.loading import is_log_of
from eventflink.snapshots.snapshot import LogRange
from eventflink.snapshots.topic import list_snapshots, remove_snapshots

_logger = logging.getLogger(__name__)


def accept_log_end(access: ClusterAccess, end_offset: int) -> bool:
    """Let the log count if it ends at this offset: remove the snapshots of records that it does not have. Tell whether it ends there.

    Raises:
        LogTruncated: it is empty, so that there is nothing to go on from.
        KafkaException, ReplayStalled, AdministrationError, NotDelivered: Kafka does not answer.

    """
    stored = list_snapshots(access)
    first_offset, found = log_bounds(access)
    if found != end_offset:
        _logger.warning(
            "LogEndNotAccepted cluster=%s accepted=%d found=%d: the word was for another end", access.cluster_id, end_offset, found
        )
        return False
    if first_offset == end_offset:
        raise LogTruncated(Topic.LOG, "it is empty, so nothing is left to start from")
    log = LogRange(log_topic_id(access), first_offset, end_offset)
    manifests = {snapshot.snapshot_id: snapshot.manifest for snapshot in stored if snapshot.manifest is not None}
    gone = {name for name, manifest in manifests.items() if not is_log_of(access, manifest, log)}
    beyond = [snapshot for snapshot in stored if snapshot.snapshot_id in gone]
    remove_snapshots(access, beyond)
    _logger.warning("LogEndAccepted cluster=%s end=%d snapshots_removed=%d", access.cluster_id, end_offset, len(beyond))
    return True

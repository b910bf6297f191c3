"""An operator's word that a truncated log counts as it is: what contradicts it is removed, so that no later start meets it again (P5a).

The rule: the word names where the log ends, and is for that end alone; on any other log it says nothing.
"""

import logging

from eventflink.events.topics import Topic
from eventflink.leadership.known_log import LogTruncated
from eventflink.log.administration import log_topic_id
from eventflink.log.replay import log_bounds
from eventflink.snapshots.loading import is_log_of
from eventflink.snapshots.snapshot import LogRange
from eventflink.snapshots.topic import list_snapshots, remove_snapshots

_logger = logging.getLogger(__name__)


def accept_log_end(bootstrap: str, cluster_id: str, end_offset: int) -> bool:
    """Let the log count if it ends at this offset: remove the snapshots of records that it does not have. Tell whether it ends there.

    Raises:
        LogTruncated: it is empty, so that there is nothing to go on from.
        KafkaException, ReplayStalled, AdministrationError, NotDelivered: Kafka does not answer.

    """
    stored = list_snapshots(bootstrap, cluster_id)
    first_offset, found = log_bounds(bootstrap, cluster_id)
    if found != end_offset:
        _logger.warning("LogEndNotAccepted cluster=%s accepted=%d found=%d: the word was for another end", cluster_id, end_offset, found)
        return False
    if first_offset == end_offset:
        raise LogTruncated(Topic.LOG, "it is empty, so nothing is left to start from")
    log = LogRange(log_topic_id(bootstrap, cluster_id), first_offset, end_offset)
    manifests = {snapshot.snapshot_id: snapshot.manifest for snapshot in stored if snapshot.manifest is not None}
    gone = {name for name, manifest in manifests.items() if not is_log_of(bootstrap, cluster_id, manifest, log)}
    beyond = [snapshot for snapshot in stored if snapshot.snapshot_id in gone]
    remove_snapshots(bootstrap, cluster_id, beyond)
    _logger.warning("LogEndAccepted cluster=%s end=%d snapshots_removed=%d", cluster_id, end_offset, len(beyond))
    return True

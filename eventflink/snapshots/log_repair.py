"""A cluster brought back under a new id, from the best that is left of it.

The old cluster is only read. The rule: the new one stands at an offset whose state is proven, by the whole fold of the log up to there or
by a whole snapshot with its digest, and what lies beyond is told as lost.
"""

from collections.abc import Callable
from dataclasses import dataclass

from eventflink.log.administration import describe_topics, ensure_topics
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.log_copy import CopyFailed, begin_with_snapshot, copy_log
from eventflink.snapshots.log_survey import survey_log


@dataclass(frozen=True, slots=True)
class Repair:
    """What the new cluster is."""

    end_offset: int
    """Where its log ends: behind the last record of the old one whose state it has."""
    epoch: int
    snapshot_id: str
    """The snapshot that it begins with; empty: the log was copied."""
    lost: tuple[str, ...]
    """What is known to have been there, and is not in it."""


def repair_log(source: ClusterAccess, target: ClusterAccess, replication_factor: int, say: Callable[[str], None]) -> Repair:
    """Make the topics of the cluster `target`, and bring the state of the cluster `source` there.

    Raises:
        CopyFailed: there is nothing to begin with, the new cluster has topics already, or the copy is not equal.
        KafkaException, NotDelivered, ReplayStalled, AdministrationError: Kafka does not answer.

    """
    survey = survey_log(source)
    snapshot = survey.snapshot
    begins_with = snapshot if snapshot is not None and snapshot.manifest.log_offset >= survey.provable_end else None
    if begins_with is None and not survey.provable_end:
        raise CopyFailed(f"nothing is left of '{source.cluster_id}': neither a log that can be folded nor a whole snapshot")
    if describe_topics(target):
        raise CopyFailed(f"'{target.cluster_id}' has topics already: choose another id")
    ensure_topics(target, replication_factor)
    if begins_with is not None:
        begin_with_snapshot(begins_with, target)
        manifest = begins_with.manifest
        end_offset, epoch, snapshot_id = manifest.log_offset + 1, manifest.epoch, manifest.snapshot_id
    else:
        copied = copy_log(source, target, say, survey.provable_end)
        end_offset, snapshot_id = copied.end_offset, ""
        epoch = survey.fold.acceptance.epoch if survey.fold is not None else 0
    lost = [f"the records {end_offset} to {survey.known_end - 1} of the log"] if survey.known_end > end_offset else []
    lost += [f"{count} of {topic} that nobody decided" for topic, count in survey.undecided().items() if count]
    return Repair(end_offset, epoch, snapshot_id, tuple(lost))

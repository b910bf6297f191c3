"""Notifications that are made of a scripted cluster's log."""

from collections.abc import Mapping
from typing import Any

from eventflink.leadership.fold import Fold
from eventflink.notify.document import HappeningType, NotificationDocument
from eventflink.notify.notification import Notification
from eventflink.notify.translation import Translation
from tests.support.cluster import ScriptedCluster, new_fold

CLUSTER = "cell"
BOOTSTRAP = "kafka-1:9092,kafka-2:9092"
FILE = {"type": "file", "path": "-"}


def notification_document(**more: Any) -> NotificationDocument:
    """Return a document with one receiver."""
    return NotificationDocument.model_validate({"receivers": {"all": FILE}, **more})


EVERYTHING = notification_document(
    lineage={"receivers": ["all"]},
    rules={"everything": {"events": [str(each) for each in HappeningType], "receivers": ["all"], "resolved": True}},
)


def translation_of(
    document: NotificationDocument, fold: Fold | None = None, first_offsets: Mapping[str, int] | None = None, **more: Any
) -> Translation:
    """Return a translation that stands where a fold does, or before the first record."""
    return Translation(document, fold or new_fold(), CLUSTER, BOOTSTRAP, first_offsets, **more)


def notifications_of(
    cluster: ScriptedCluster,
    document: NotificationDocument = EVERYTHING,
    fold: Fold | None = None,
    first_offsets: Mapping[str, int] | None = None,
    **more: Any,
) -> list[Notification]:
    """Return what the log of a cluster says, from where a fold stands."""
    translation = translation_of(document, fold, first_offsets, **more)
    first = translation.fold.last_offset + 1
    return [n for o in range(first, len(cluster.log)) for n in translation.take((o, cluster.timestamps[o], cluster.log[o]))[1]]


def run_events(cluster: ScriptedCluster, **settings: Any) -> list[dict[str, Any]]:
    """Return the events of OpenLineage that the log of a cluster says."""
    return [each.document for each in notifications_of(cluster, notification_document(lineage={"receivers": ["all"], **settings}))]


def alerts(cluster: ScriptedCluster, **rule: Any) -> list[Notification]:
    """Return what a rule says of the log of a cluster."""
    return notifications_of(cluster, notification_document(rules={"rule": {"receivers": ["all"], **rule}}))

"""From records of the log to notifications: the fold, the rules and the runs of jobs, side by side.

Nothing here sends anything. Every record has to come by, in order; of those before where somebody wants to begin, what is made is dropped,
but remembered (`alerts.py`).
"""

from eventflink.audit.entries import Record
from eventflink.leadership.fold import Fold
from eventflink.notify.alerts import Alerts
from eventflink.notify.document import NotificationDocument
from eventflink.notify.lineage import Lineage
from eventflink.notify.notification import Notification


class Translation:
    """What the records of a log say to the receivers of a document."""

    def __init__(self, document: NotificationDocument, fold: Fold, cluster_id: str, bootstrap: str) -> None:
        """Begin behind the record at which the fold stands."""
        self.fold = fold
        self._alerts = Alerts(document, cluster_id)
        self._lineage = Lineage(document.lineage, cluster_id, bootstrap) if document.lineage is not None else None

    def take(self, record: Record) -> list[Notification]:
        """Return what a record says; of one that is not accepted nothing.

        Raises:
            LogUnusable, LogDiverged, LogNotDense: it cannot be folded.

        """
        offset, timestamp_ms, value = record
        decision = self.fold.fold_record(offset, timestamp_ms, value)
        if decision is None:
            return []
        runs = self._lineage.follow(offset, decision, self.fold) if self._lineage is not None else []
        return [*runs, *self._alerts.follow(offset, decision, self.fold)]

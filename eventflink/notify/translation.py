"""From records of the log to notifications: the fold, the rules and the runs of jobs, side by side.

Nothing here sends anything. Every record has to come by, in order; of those before where somebody wants to begin, what is made is dropped,
but remembered (`alerts.py`).
"""

from collections.abc import Mapping

from eventflink.audit.entries import Entry, FoldJudge, Record
from eventflink.leadership.fold import Fold
from eventflink.notify.alerts import Alerts
from eventflink.notify.document import NotificationDocument
from eventflink.notify.lineage import Lineage
from eventflink.notify.notification import Notification


class Translation:
    """What the records of a log say to the receivers of a document."""

    def __init__(
        self,
        document: NotificationDocument,
        fold: Fold,
        cluster_id: str,
        bootstrap: str,
        first_offsets: Mapping[str, int] | None = None,
        known_from_ms: int = 0,
        sent_from: int | None = None,
    ) -> None:
        """Begin behind the record at which the fold stands; the others as `Alerts` has them."""
        self.fold = fold
        self._judge = FoldJudge(fold)
        self._alerts = Alerts(document, cluster_id, first_offsets or {}, known_from_ms, sent_from)
        self._lineage = Lineage(document.lineage, cluster_id, bootstrap) if document.lineage is not None else None

    def take(self, record: Record) -> tuple[Entry | None, list[Notification]]:
        """Return the entry that a record is (None: it was read before), and what it says; one that is not accepted says nothing.

        Raises:
            LogFaulty: it cannot be read, or does not fit those before it.

        """
        entry = self._judge.judge_record(record)
        if entry is None or not entry.accepted:
            return entry, []
        runs = self._lineage.follow(entry.offset, entry.decision, self.fold) if self._lineage is not None else []
        return entry, [*runs, *self._alerts.follow(entry.offset, entry.decision, self.fold)]

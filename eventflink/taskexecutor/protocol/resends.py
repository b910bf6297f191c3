"""What Kafka did not take and is to be resent: not the old reports, but the states at the time of the resend."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from eventflink.events.inputs import (
    FileUploadCompleted,
    SlotOffer,
    SlotOfferRefusal,
    SlotReport,
    StreamStartReport,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.model.attempts import AttemptId
from eventflink.taskexecutor.protocol.actions import Outbox
from eventflink.taskexecutor.protocol.attempts import AttemptTable, attempt_of


@dataclass(slots=True)
class Resends:
    """Collects the subjects of failed reports until they are reported again; bounded by what the instance knows."""

    attempts: dict[AttemptId, None] = field(default_factory=dict)
    uploads: dict[str, FileUploadCompleted] = field(default_factory=dict)
    slots: bool = False

    def __bool__(self) -> bool:
        """Tell whether something is to be resent."""
        return bool(self.attempts or self.uploads or self.slots)

    def add_reports(self, reports: Iterable[TaskManagerReport], table: AttemptTable) -> None:
        """Remember what these reports were about."""
        allocations: set[str] = set()
        for report in reports:
            match report:
                case TaskStateReport() | StreamStartReport():
                    self.attempts[attempt_of(report)] = None
                case SlotOffer(allocation_id=allocation_id) | SlotOfferRefusal(allocation_id=allocation_id):
                    allocations.add(allocation_id)
                case FileUploadCompleted():
                    self.uploads[report.request_id] = report
                case SlotReport():
                    self.slots = True
                case _:
                    pass  # A registration has its own retry; a failed disconnection leaves it to the missed heartbeats.
        if allocations:
            self.attempts.update(dict.fromkeys(table.find_allocations(allocations)))

    def resend(self, table: AttemptTable, outbox: Outbox, *, is_ready: bool) -> None:
        """Report how they stand now, and forget them."""
        table.resend_reports(self.attempts)
        if self.slots:
            table.report_slots(is_ready=is_ready)
        outbox.add_reports(self.uploads.values())
        self.clear()

    def clear(self) -> None:
        """Forget them."""
        self.attempts.clear()
        self.uploads.clear()
        self.slots = False

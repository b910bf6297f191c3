"""Which master leads, and where its blobs are (Flink's LeaderInformation); the fencing token of its leadership is in the log's acceptance.

Only the leader takes the steps of a drill: it is ordered here to do them.
"""

from dataclasses import dataclass

from eventflink.events.inputs import MAX_ID_LENGTH, DrillStep
from eventflink.events.log_events import DrillStepOrdered, LeadershipGranted, LogEvent
from eventflink.master.requests import accepted, rejected
from eventflink.master.settings import Context


@dataclass(slots=True)
class LeaderInformation:
    """The master that was granted the leadership last."""

    master_id: str = ""
    blob_address: str = ""

    def decide_drill_step(self, step: DrillStep, context: Context) -> list[LogEvent]:
        """Order the leader to crash, stop or freeze, where drills are allowed."""
        if not context.settings.drills_allowed:
            message = "drills that end a master are not allowed here; drills.allowed is false"
            return [rejected(step, "DrillsNotAllowed", message)]
        if step.master_id != self.master_id:
            message = f"'{step.master_id[:MAX_ID_LENGTH]}' does not lead; '{self.master_id}' does, and only the leader takes drill steps"
            return [rejected(step, "NotTheLeader", message)]
        return [accepted(step), DrillStepOrdered(step.drill_id[:MAX_ID_LENGTH], step.step, step.master_id, step.duration_ms)]

    def apply_leadership_granted(self, event: LeadershipGranted) -> None:
        """Take note of the new leader."""
        self.master_id = event.master_id
        self.blob_address = event.blob_address

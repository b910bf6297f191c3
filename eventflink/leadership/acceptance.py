"""Which records of the log count: the acceptance rule (P1) and the density of the log (P3), for every reader alike.

Nothing here knows what a decision means: who only follows the log needs no master.
"""

from dataclasses import dataclass

from eventflink.events.decision import Decision
from eventflink.events.log_events import LeadershipGranted


class LogNotDense(Exception):
    """A record is missing between two that were read: the reader must halt and reload (P3)."""


def is_grant(decision: Decision) -> bool:
    """Tell whether the decision is a candidate's bid for the next epoch."""
    return len(decision.events) == 1 and type(decision.events[0]) is LeadershipGranted


@dataclass(slots=True)
class Acceptance:
    """Which decision comes next: `epoch`, the `sequence` of the last accepted one, and the `leader_id` granted."""

    epoch: int = 0
    sequence: int = 0
    leader_id: str = ""

    def accepts(self, epoch: int, sequence: int, leader_id: str, *, grant: bool) -> bool:
        """Tell whether the fold accepts a decision (P1)."""
        if grant:
            return epoch == self.epoch + 1 and sequence == 0
        return epoch == self.epoch and sequence == self.sequence + 1 and leader_id == self.leader_id

    def advance(self, epoch: int, sequence: int, leader_id: str) -> None:
        """Take note of an accepted decision."""
        self.epoch, self.sequence, self.leader_id = epoch, sequence, leader_id


def check_density(last_offset: int, offset: int) -> bool:
    """Tell whether the record at `offset` is new; False: a redelivery, to be skipped.

    Raises:
        LogNotDense: a record between the two was not read.

    """
    if offset <= last_offset:
        return False
    if offset != last_offset + 1:
        raise LogNotDense(f"log offset {offset} came after {last_offset}: {offset - last_offset - 1} records are missing")
    return True

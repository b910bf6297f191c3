"""Wires of a participant that lead nowhere: a test keeps what it asks for, by overriding."""

from collections.abc import Iterable

from eventflink.events.effects import LeaderDeath
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.intake import InboundTopic, Intake
from eventflink.master.effects import ArchiveJob, CleanUp, CursorWatch, DrillOrder, FileWatch, TableWatch, WorkerOrder


class SilentWires:
    """Whatever a participant says, nobody hears."""

    def append_decision(self, value: bytes) -> None:
        """It is lost."""

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """It is lost."""

    def leave_will(self, will: LeaderDeath | None) -> None:
        """Nobody guards it."""

    def note_deciding(self, name: str) -> None:
        """As above."""

    def clean_up(self, order: CleanUp) -> None:
        """There is nothing to clean up."""

    def archive(self, order: ArchiveJob) -> None:
        """There is nothing to archive."""

    def watch_outside(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """There are no topics, tables and files."""

    def grow_deployments(self, partitions: int) -> None:
        """It has as many as it has."""

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:
        """No driver is there."""

    def drill(self, order: DrillOrder) -> None:
        """Nobody drills."""

    def poll(self) -> None:
        """Nothing fails."""


def new_intake(capacity: int = 1_000) -> Intake:
    """Return the intake of a tail that nobody pauses."""
    topics = {str(topic): InboundTopic(f"id-of-{topic}", 0) for topic in INBOUND}
    return Intake(topics, capacity, lambda _topic: None, lambda _topic: None)

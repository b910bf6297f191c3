"""What a master does to the world: the entrypoint does it with Kafka, the simulation with a seed."""

from typing import Protocol

from eventflink.events.topics import Topic
from eventflink.master.effects import ArchiveJob, CleanUp, DrillOrder, WorkerOrder


class AppendFailed(Exception):
    """A record of the log could not be delivered; what was queued behind it is gone."""


class Wires(Protocol):
    """The wires of one term; none of the calls waits."""

    def append(self, value: bytes) -> None:
        """Append a record to the log, behind those before it.

        Raises:
            AppendFailed: an earlier one was not delivered.

        """

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Produce a record of an outbound topic: at least once, in order."""

    def clean_up(self, order: CleanUp) -> None:
        """Remove the intermediate data of an ended job; the outcome comes back as an input."""

    def archive(self, order: ArchiveJob) -> None:
        """Write the archive of an ended job; the outcome comes back as an input."""

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:
        """Have the resource driver do what an accepted decision of this epoch wants; what becomes of it comes back as an input."""

    def drill(self, order: DrillOrder) -> None:
        """Stop, freeze or die, as a drill asked."""

    def poll(self) -> None:
        """Look at what became of earlier calls.

        Raises:
            AppendFailed: a record of the log was not delivered.
            TailFailed: nothing is read any more.

        """

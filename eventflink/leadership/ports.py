"""What a master is given by its driver: its settings, what it does to the world, and who measures it at work.

The entrypoint gives it Kafka, the simulation a seed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from eventflink.events.effects import INLINE_LOCATIONS, LeaderDeath
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.master.effects import (
    TASK_MANAGERS_PER_PARTITION,
    ArchiveJob,
    CleanUp,
    CursorWatch,
    DrillOrder,
    Effect,
    FileWatch,
    TableWatch,
    WorkerOrder,
)
from eventflink.model.statuses import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantSettings:
    """Who the master is, and its times and bounds; durations in milliseconds."""

    master_id: str
    incarnation: str
    blob_address: str
    query_address: str = ""
    lease_timeout_ms: int = 1000
    leader_heartbeat_interval_ms: int = 100
    window_size: int = 1024
    resend_interval_ms: int = 10_000
    heartbeat_interval_ms: int = 1000
    loss_timeout_ms: int = 5000
    feature_level_wait_ms: int = 0
    """For so long no master that reads less may have been heard of; -1: the level is never raised (P19)."""
    task_managers_per_partition: int = TASK_MANAGERS_PER_PARTITION
    """Where more TaskManagers share a partition of `deployments`, on average, it gets more of them."""
    inline_locations: int = INLINE_LOCATIONS
    """The longest list of locations that an order has; a longer one is sent before it."""
    seals: Seals = NO_SEALS
    """What this master's records are sealed with, and without which it believes nobody who speaks as a master or a TaskExecutor (P3a)."""


class AppendFailed(Exception):
    """A record of the log could not be delivered; what was queued behind it is gone."""


class Wires(Protocol):
    """The wires of one term; none of the calls waits."""

    def append_decision(self, value: bytes) -> None:
        """Append a record to the log, behind those before it.

        Raises:
            AppendFailed: an earlier one was not delivered.

        """

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """Produce a record of an outbound topic: at least once, in order."""

    def leave_will(self, will: LeaderDeath | None) -> None:
        """Have the guardian say this on `leadership` when the process ends, and nothing that was left before; None: nothing."""

    def note_deciding(self, name: str) -> None:
        """Leave word with the guardian of the input that is being decided, for it to add to the will; empty: none. Called at each."""

    def clean_up(self, order: CleanUp) -> None:
        """Remove the intermediate data of an ended job; the outcome comes back as an input."""

    def archive(self, order: ArchiveJob) -> None:
        """Write the archive of an ended job; the outcome comes back as an input."""

    def watch_outside(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """Look at what others write, if it is time for that.

        What topics and tables have that the cursors have not passed, and that a file is there, comes back as an input.
        """

    def grow_deployments(self, partitions: int) -> None:
        """See to it some time that `deployments` has at least so many partitions; called again and again while that is wanted."""

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


class Observer:
    """Is notified of what happens, and changes nothing. This class ignores it: it serves a master that is not measured.

    The calls come from the loop that decides, many thousand times a second: none may wait, or raise. Clocks are the observer's own.
    """

    def became(self, role: Role, epoch: int) -> None:
        """Take note of another role, at an accepted epoch; as LEADER a leadership begins."""

    def ended(self, reason: str) -> None:
        """Take note that the leadership is over, if there was one."""

    def deciding(self) -> None:
        """Take note that the leader looks for something to decide."""

    def decided(self) -> None:
        """Take note that it made a decision, which is appended now."""

    def accepted(self, event_names: Sequence[str], *, is_own: bool) -> None:
        """Take note of an accepted decision: an own one is the oldest of those that were decided and not accepted yet."""

    def released(self, effects: Sequence[Effect]) -> None:
        """Take note of effects that leave."""

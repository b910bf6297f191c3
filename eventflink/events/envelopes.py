"""The values of the topics: one envelope a topic, with the records that it may carry.

The schemas are made of these classes and of those that they name (`docs/generate/schemas.py`). The Decision stands in `decision.py`, and
what else has fields beside its payload in `effects.py`. A base class stands for all of its records, in the order of their module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eventflink.events.decision import Decision
from eventflink.events.effects import (
    DeadLetter,
    DeploymentEnvelope,
    LeaderDeath,
    LeaderHang,
    LeaderHeartbeat,
    MasterPresence,
    ReplyEnvelope,
    Resignation,
)
from eventflink.events.inputs import Canary, Command, Heartbeat, JobSubmission, TaskManagerReport
from eventflink.events.snapshot_records import SnapshotPayload
from eventflink.events.topics import Topic


@dataclass(slots=True, kw_only=True)
class SubmissionEnvelope:
    """A record of the topic `submissions`."""

    sent_at_ms: int = 0
    """When it was sent, by the sender's clock; for people."""
    payload: JobSubmission
    """What is said."""


@dataclass(slots=True, kw_only=True)
class CommandEnvelope:
    """A record of the topic `commands`."""

    sent_at_ms: int = 0
    """When it was sent, by the sender's clock; for people."""
    payload: Command
    """What is said."""


@dataclass(slots=True, kw_only=True)
class TaskManagerEnvelope:
    """A record of the topic `taskmanagers`: what one instance says at once, in order."""

    reports: tuple[TaskManagerReport, ...]
    """What is said."""


@dataclass(slots=True, kw_only=True)
class HeartbeatEnvelope:
    """A record of the topic `heartbeats`."""

    payload: Heartbeat | Canary
    """What is said."""


@dataclass(slots=True, kw_only=True)
class LeadershipEnvelope:
    """A record of the topic `leadership`."""

    payload: LeaderHeartbeat | Resignation | MasterPresence | LeaderDeath | LeaderHang
    """What is said."""


@dataclass(slots=True, kw_only=True)
class SnapshotEnvelope:
    """A record of the topic `snapshots`."""

    payload: SnapshotPayload
    """What is said."""


@dataclass(slots=True, kw_only=True)
class DeadLetterEnvelope:
    """A record of the topic `dead-letters`."""

    payload: DeadLetter
    """What was refused."""


ENVELOPES: Final[Mapping[Topic, type[Any]]] = {
    Topic.SUBMISSIONS: SubmissionEnvelope,
    Topic.COMMANDS: CommandEnvelope,
    Topic.TASKMANAGERS: TaskManagerEnvelope,
    Topic.HEARTBEATS: HeartbeatEnvelope,
    Topic.LOG: Decision,
    Topic.DEPLOYMENTS: DeploymentEnvelope,
    Topic.REPLIES: ReplyEnvelope,
    Topic.LEADERSHIP: LeadershipEnvelope,
    Topic.SNAPSHOTS: SnapshotEnvelope,
    Topic.DEAD_LETTERS: DeadLetterEnvelope,
}
"""The envelope of each topic."""

_OF_THE_CLUSTER: Final = "The seal of the cluster's own processes over all bytes before it (P3a); null where they have no cluster secret."
_OF_WHO_ASKS: Final = "of a REST process that knows who asks, over all bytes before it (P3a, L6); null from whoever only declares a name."

SEALS: Final[Mapping[Topic, str]] = {
    Topic.SUBMISSIONS: f"The seal {_OF_WHO_ASKS}",
    Topic.COMMANDS: f"The seal of a master, or {_OF_WHO_ASKS}",
    **dict.fromkeys(
        (Topic.TASKMANAGERS, Topic.HEARTBEATS, Topic.LOG, Topic.DEPLOYMENTS, Topic.REPLIES, Topic.LEADERSHIP, Topic.SNAPSHOTS),
        _OF_THE_CLUSTER,
    ),
}
"""What the last field of an envelope's schema, the seal, is for; a dead letter has none. The codec puts it behind the record."""

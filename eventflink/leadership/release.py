"""From accepted effects to records on the outbound topics, and what a leader resends because it may not have arrived.

Everything here may happen twice; receivers tell it apart. Effects carry the epoch of the leader that releases them (P4).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import INLINE_LOCATIONS, DeadLetter, DeploymentPayload, TaskDeployment
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import MAX_INBOUND_BYTES, SPECIFICATIONS, Topic
from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.fold import Fold
from eventflink.leadership.input_locations import ToldLocations
from eventflink.leadership.leader import Released
from eventflink.leadership.log_lines import one_line
from eventflink.leadership.ports import Wires
from eventflink.master.effects import (
    ArchiveJob,
    CleanUp,
    DeadLetterOrder,
    Deployment,
    DrillOrder,
    Reply,
    RequestWorker,
    StopWorker,
    WorkersWanted,
)
from eventflink.master.requests import ALL_REPLY_PARTITIONS

_logger = logging.getLogger(__name__)

REPLY_PARTITIONS = SPECIFICATIONS[Topic.REPLIES].partitions
EFFECTS_PER_TURN: Final = 128
EFFECTS_PER_BATCH: Final = 64


class Releaser:
    """Sends the effects of accepted decisions."""

    def __init__(self, wires: Wires, master_id: str, seals: Seals = NO_SEALS, inline_locations: int = INLINE_LOCATIONS) -> None:
        self._wires = wires
        self._master_id = master_id
        self._deployments = PayloadCodec("DeploymentEnvelope", seal=seals.of(Topic.DEPLOYMENTS))
        self._replies = PayloadCodec("ReplyEnvelope", seal=seals.of(Topic.REPLIES))
        self._dead_letters = PayloadCodec("DeadLetterEnvelope")
        self._locations = ToldLocations(inline_locations)

    def forget_what_was_told(self) -> None:
        """Release what follows as if nothing had arrived: it is released because it may not have."""
        self._locations.forget()

    def release(self, released: Released, epoch: int) -> None:
        """Send the effects of one decision under the epoch of the present leader."""
        for effect in released.effects:
            match effect:
                case Deployment():
                    self._deploy(effect, epoch)
                case Reply():
                    self._reply(effect, released)
                case DeadLetterOrder():
                    self._bury(effect)
                case CleanUp():
                    self._wires.clean_up(effect)
                case ArchiveJob():
                    self._wires.archive(effect)
                case DrillOrder():
                    self._wires.drill(effect)
                case RequestWorker() | StopWorker() | WorkersWanted():
                    self._wires.order_worker(effect, epoch)

    def _deploy(self, effect: Deployment, epoch: int) -> None:
        told: Iterable[DeploymentPayload] = (effect.payload,)
        if isinstance(effect.payload, TaskDeployment):
            told = self._locations.tell(effect.payload, effect.instance_id)
        for payload in told:
            value = self._deployments.encode(payload, epoch=epoch, task_manager_id=effect.task_manager_id, instance_id=effect.instance_id)
            self._wires.produce(Topic.DEPLOYMENTS, effect.task_manager_id, value, effect.partition)

    def _reply(self, effect: Reply, released: Released) -> None:
        value = self._replies.encode(
            effect.payload,
            epoch=released.epoch,
            sequence=released.sequence,
            leader_id=released.leader_id,
            log_offset=released.offset,
        )
        partitions: Iterable[int] = (effect.reply_partition,)
        if effect.reply_partition == ALL_REPLY_PARTITIONS:
            partitions = range(REPLY_PARTITIONS)
        for partition in partitions:
            self._wires.produce(Topic.REPLIES, effect.request_id, value, partition)

    def _bury(self, order: DeadLetterOrder) -> None:
        if not order.topic:
            return
        letter = DeadLetter(
            topic=order.topic,
            partition=0,
            offset=order.offset,
            reason=order.reason,
            key=None if order.key is None else order.key[:MAX_INBOUND_BYTES],
            value=None if order.value is None else order.value[:MAX_INBOUND_BYTES],
            value_length=len(order.value or b""),
            refused_by=self._master_id,
        )
        self._wires.produce(Topic.DEAD_LETTERS, order.topic, self._dead_letters.encode(letter))
        _logger.warning("DeadLetter topic=%s offset=%d reason=%s", order.topic, order.offset, one_line(order.reason))


@dataclass(slots=True)
class ResendQueue:
    """What a leader resends: first what is to be done, then the answers of the last decisions before it.

    It leaves in portions, so that the first decisions do not wait for all of it (L3), and nothing of it before the decisions that it
    follows from were accepted (P4).
    """

    _waiting: deque[Released] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Tell whether something waits."""
        return bool(self._waiting)

    def enqueue_effects(self, released: Released) -> None:
        """Queue effects, however many, in batches."""
        effects = released.effects
        for first in range(0, len(effects), EFFECTS_PER_BATCH):
            self._waiting.append(replace(released, effects=effects[first : first + EFFECTS_PER_BATCH]))

    def extend(self, replies: Iterable[Released]) -> None:
        """Queue answers behind everything else."""
        self._waiting.extend(replies)

    def release(self, release: Callable[[Released], None], acceptance: Acceptance) -> bool:
        """Have one turn's portion released; tell whether more may leave."""
        count = 0
        while self._may_leave(acceptance) and count < EFFECTS_PER_TURN:
            released = self._waiting.popleft()
            count += len(released.effects)
            release(released)
        return self._may_leave(acceptance)

    def _may_leave(self, acceptance: Acceptance) -> bool:
        """Tell whether what comes next follows from accepted decisions (P4)."""
        if not self._waiting:
            return False
        released = self._waiting[0]
        return released.epoch < acceptance.epoch or released.sequence <= acceptance.sequence


def recent_replies(fold: Fold) -> list[Released]:
    """Return the answers of the last decisions before this leadership: their leader may have crashed before it sent them."""
    return [Released(r.offset, r.epoch, r.sequence, r.leader_id, [r.reply]) for r in fold.recent_replies]

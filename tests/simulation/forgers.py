"""Somebody without the secret of a cluster writes what its masters and TaskExecutors write, and copies of what they wrote (P3a).

Drawn from random numbers of its own. In the runs that have a secret, nothing that is forged may have any effect: the judges of the run see
no difference. A copy has a seal that is valid: what was said once may be said again, and must change nothing either.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec
from eventflink.events.effects import InstanceForgotten, LeaderHeartbeat, Resignation, TaskDeployment
from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.log_events import RequestRejected
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.leadership.fold import Fold
from eventflink.testing.simulation.broker import Broker
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from eventflink.testing.simulation.transcript import Transcript

_SEALED_SHARE: Final = 0.5
_LONGEST_PAUSE_MS: Final = 3_000
_SECRET: Final = b"the secret of a simulated cluster"
_DECISIONS: Final = DecisionCodec()
_LEADERSHIP: Final = PayloadCodec("LeadershipEnvelope")
_DEPLOYMENTS: Final = PayloadCodec("DeploymentEnvelope")
_REPLIES: Final = PayloadCodec("ReplyEnvelope")
_REPORTS: Final = ReportsCodec("TaskManagerEnvelope")
_COPIED: Final = (Topic.LOG, Topic.LEADERSHIP, Topic.TASKMANAGERS)
_AHEAD: Final = 2**62


def seals_of_run(seed: int) -> Seals:
    """Draw whether the cluster of a run has a secret."""
    has_secret = Random(f"{seed} seals").random() < _SEALED_SHARE
    return Seals((_SECRET,)) if has_secret else NO_SEALS


class Forgers:
    """Whoever may write to the topics, and has no secret."""

    def __init__(self, seed: int, broker: Broker, hosts: Sequence[TaskExecutorHost], transcript: Transcript) -> None:
        """Take `hosts`, everybody's list of all TaskExecutors."""
        self._rng = Random(f"{seed} forgers")
        self._broker = broker
        self._hosts = hosts
        self._transcript = transcript
        self.are_there = bool(broker.seals.secrets)

    def next_in_ms(self) -> float:
        """Return how long the next one takes."""
        return _LONGEST_PAUSE_MS * self._rng.random()

    def forge(self, fold: Fold) -> None:
        """Write one record, which fits as well as anybody can know who reads everything."""
        kinds: tuple[Callable[[Fold], None], ...] = (
            self._grant,
            self._decision,
            self._heartbeat,
            self._resignation,
            self._death,
            self._order,
            self._deployment,
            self._reply,
            self._copy,
        )
        kind = self._rng.choice(kinds)
        self._transcript.note("somebody", f"forges: {kind.__name__.strip('_')}")
        kind(fold)

    def _append(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        self._broker.append(topic, partition, key.encode(), value)

    def _logged(self) -> list[bytes]:
        records = self._broker.partition(Topic.LOG).records
        return [value for record in records if not _DECISIONS.is_foreign(record.offset, value := record.value or b"")]

    def _grant(self, fold: Fold) -> None:
        grants = [decision for value in self._logged() if (decision := _DECISIONS.decode(value)).sequence == 0]
        if grants:
            forged = replace(self._rng.choice(grants), epoch=fold.acceptance.epoch + 1, leader_id="nobody")
            self._append(Topic.LOG, "", _DECISIONS.encode(forged))

    def _decision(self, fold: Fold) -> None:
        values = self._logged()
        if not values:
            return
        acceptance, example = fold.acceptance, _DECISIONS.decode(self._rng.choice(values))
        forged = replace(
            example,
            epoch=acceptance.epoch,
            sequence=acceptance.sequence + 1,
            leader_id=acceptance.leader_id,
            previous_hash=fold.running_hash,
        )
        self._append(Topic.LOG, "", _DECISIONS.encode(forged))

    def _heartbeat(self, fold: Fold) -> None:
        acceptance = fold.acceptance
        forged = LeaderHeartbeat(acceptance.epoch, acceptance.leader_id, "master-1", "nowhere:1", fold.last_offset, _AHEAD)
        self._append(Topic.LEADERSHIP, "leader", _LEADERSHIP.encode(forged))

    def _resignation(self, fold: Fold) -> None:
        acceptance = fold.acceptance
        self._append(Topic.LEADERSHIP, "leader", _LEADERSHIP.encode(Resignation(acceptance.epoch, acceptance.leader_id)))

    def _death(self, fold: Fold) -> None:
        known = list(fold.master.resource_manager.task_managers.items())
        if known:
            name, task_manager = self._rng.choice(known)
            self._append(Topic.TASKMANAGERS, name, _REPORTS.encode([TaskManagerDeath(name, task_manager.instance_id, "so it is said")]))

    def _order(self, fold: Fold) -> None:
        host = self._rng.choice(self._hosts)
        if host.is_up:
            self._order_to(host.partition, host.name, host.protocol.instance_id, InstanceForgotten("so it is said"), fold.acceptance.epoch)

    def _deployment(self, fold: Fold) -> None:
        partition = self._rng.randrange(self._broker.count_partitions(Topic.DEPLOYMENTS))
        said = [_DEPLOYMENTS.decode(r.value) for r in self._broker.partition(Topic.DEPLOYMENTS, partition).records[-20:] if r.value]
        orders = [(payload, fields) for payload, fields in said if isinstance(payload, TaskDeployment)]
        if orders:
            payload, fields = self._rng.choice(orders)
            forged = replace(payload, attempt=payload.attempt + 7)
            self._order_to(partition, fields["task_manager_id"], fields["instance_id"], forged, fold.acceptance.epoch)

    def _order_to(self, partition: int, name: str, instance_id: str, payload: InstanceForgotten | TaskDeployment, epoch: int) -> None:
        value = _DEPLOYMENTS.encode(payload, epoch=epoch, task_manager_id=name, instance_id=instance_id)
        self._append(Topic.DEPLOYMENTS, name, value, partition)

    def _reply(self, fold: Fold) -> None:
        answers = list(fold.master.requests.answers)
        if answers:
            request_id, acceptance = self._rng.choice(answers), fold.acceptance
            partition = self._rng.randrange(SPECIFICATIONS[Topic.REPLIES].partitions)
            forged = RequestRejected(
                request_id=request_id, reply_partition=partition, subject="so-it-is-said", code="Forged", message="", dead_letter=False
            )
            numbers = {"epoch": acceptance.epoch, "sequence": acceptance.sequence, "leader_id": acceptance.leader_id}
            self._append(Topic.REPLIES, request_id, _REPLIES.encode(forged, **numbers, log_offset=fold.last_offset), partition)

    def _copy(self, fold: Fold) -> None:
        topic = self._rng.choice(_COPIED)
        partition = self._broker.partition(topic)
        if partition.end_offset > partition.low_offset and fold.acceptance.epoch:
            record = partition.records[self._rng.randrange(partition.low_offset, partition.end_offset)]
            self._broker.append(topic, 0, record.key, record.value)

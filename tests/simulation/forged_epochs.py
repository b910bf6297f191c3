"""Somebody names epochs that nobody was granted, or a fault of memory changes one: to an instance that lives, and to the masters.

Drawn from random numbers of its own. What is forged asks for nothing but a report: only its epoch is to do harm.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderChanged, LeaderHeartbeat
from eventflink.events.topics import Topic
from eventflink.testing.simulation.broker import Broker
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from eventflink.testing.simulation.transcript import Transcript

_SHARE: Final = 0.4
_LONGEST_PAUSE_MS: Final = 8_000
_AHEAD: Final = (1, 2, 1_000, 2**62)
_DEPLOYMENTS: Final = PayloadCodec("DeploymentEnvelope")
_LEADERSHIP: Final = PayloadCodec("LeadershipEnvelope")


class ForgedEpochs:
    """Epochs ahead of the one that was granted last."""

    def __init__(self, seed: int, broker: Broker, hosts: Sequence[TaskExecutorHost], transcript: Transcript) -> None:
        """Draw whether the run has any; `hosts` is everybody's list of all TaskExecutors."""
        self._rng = Random(f"{seed} forged epochs")
        self._broker = broker
        self._hosts = hosts
        self._transcript = transcript
        self.are_there = self._rng.random() < _SHARE

    def next_in_ms(self) -> float:
        """Return how long the next one takes."""
        return _LONGEST_PAUSE_MS * self._rng.random()

    def forge(self, granted_epoch: int) -> None:
        """Name an epoch to all masters, as if its leader had read far more of the log, and to some TaskExecutor."""
        epoch, host = granted_epoch + self._rng.choice(_AHEAD), self._rng.choice(self._hosts)
        heartbeat = LeaderHeartbeat(epoch, "nobody", "master-0", "nowhere:1", 2**62)
        self._broker.append(Topic.LEADERSHIP, 0, b"leader", _LEADERSHIP.encode(heartbeat))
        if host.is_up:
            self._transcript.note("somebody", f"names the epoch {epoch} to {host.name}")
            fields = {"epoch": epoch, "task_manager_id": host.name, "instance_id": host.protocol.instance_id}
            value = _DEPLOYMENTS.encode(LeaderChanged("somebody", "nowhere:1"), **fields)
            self._broker.append(Topic.DEPLOYMENTS, host.partition, host.name.encode(), value)

"""Heartbeats of TaskExecutors and canaries of the leader: the soft state that decides who has been silent for too long.

It is rebuilt after a failover and enters no digest. Heartbeats are read from their end on, are never named by a decision and never decided
again (P7). Silence counts only once the leader has read its own later canary on the heartbeat partition, for only then could a heartbeat
have been read (P13); all deadlines start again at promotion. All times are the leader's monotonic milliseconds.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.inputs import Canary, Heartbeat
from eventflink.events.topics import Topic
from eventflink.leadership.log_lines import one_line
from eventflink.leadership.ports import ParticipantSettings, Wires
from eventflink.master.inputs import HeartbeatTimeout
from eventflink.master.master import Master

_logger = logging.getLogger(__name__)

MAX_OUTSTANDING_CANARIES = 1_000
WARNING_INTERVAL_MS = 10_000

SEARCHES_PER_INTERVAL = 10
"""How often those that were silent for too long are looked for: with 10,000 TaskManagers each search costs milliseconds."""


@dataclass(slots=True)
class HeartbeatMonitor:
    """When each instance was last heard of."""

    timeout_ms: int
    promoted_at_ms: int
    canary_sent_at_ms: int = -1
    """When the newest canary that was read back had been sent."""
    last_heard_ms: dict[str, int] = field(default_factory=dict)
    """By instance id."""
    last_sequence: dict[str, int] = field(default_factory=dict)
    """The number of the newest heartbeat of an instance, by its id."""

    def is_copy(self, instance_id: str, sequence: int) -> bool:
        """Tell whether a heartbeat is no newer than one before: a copy of it, which proves nothing."""
        if sequence <= self.last_sequence.get(instance_id, -1):
            return True
        self.last_sequence[instance_id] = sequence
        return False

    def heard(self, instance_id: str, now_ms: int) -> None:
        """Take note of a heartbeat, a registration or any other record of an instance."""
        self.last_heard_ms[instance_id] = now_ms

    def canary_read(self, sent_at_ms: int) -> None:
        """Take note that a canary came back."""
        self.canary_sent_at_ms = max(self.canary_sent_at_ms, sent_at_ms)

    def overdue(self, task_manager_id: str, instance_id: str, now_ms: int) -> HeartbeatTimeout | None:
        """Return the timeout of an instance that was silent for too long, proven by a canary; None otherwise."""
        heard = self.last_heard_ms.setdefault(instance_id, max(self.promoted_at_ms, now_ms))
        deadline = max(heard, self.promoted_at_ms) + self.timeout_ms
        if now_ms < deadline or self.canary_sent_at_ms < deadline:
            return None
        return HeartbeatTimeout(task_manager_id, instance_id, now_ms - heard)

    def forget_all_but(self, instance_ids: set[str]) -> None:
        """Drop what is remembered of instances that are gone."""
        for known in (self.last_heard_ms, self.last_sequence):
            for instance_id in [i for i in known if i not in instance_ids]:
                del known[instance_id]


class Liveness:
    """The heartbeat monitor of one term, fed from Kafka."""

    def __init__(self, settings: ParticipantSettings, wires: Wires) -> None:
        self._codec = PayloadCodec("HeartbeatEnvelope", seal=settings.seals.of(Topic.HEARTBEATS))
        self._interval_ms = settings.heartbeat_interval_ms
        self._wires = wires
        self._monitor = HeartbeatMonitor(settings.loss_timeout_ms, 0)
        self._canaries: dict[int, int] = {}
        self._sequence = 0
        self._next_canary_ms = 0
        self._next_search_ms = 0
        self._leader_id = ""
        self._unreadable = 0
        self._next_warning_ms = 0

    def promoted(self, now_ms: int) -> None:
        """Start all deadlines again."""
        self._monitor.promoted_at_ms = now_ms

    def on_heartbeat(self, value: bytes | None, master: Master, now_ms: int) -> None:
        """Take a record of `heartbeats`; one that cannot be read, or is of an instance that is not registered, is ignored.

        An instance sends heartbeats only when it was told that it is registered, and that follows from a decision that this state has.
        """
        try:
            payload, _ = self._codec.decode(value or b"")
        except UndecodableRecord as error:
            self._note_unreadable(str(error), now_ms)
            return
        if isinstance(payload, Heartbeat):
            is_current = master.resource_manager.is_current(payload.task_manager_id, payload.instance_id)
            # Where nothing is sealed, anybody could name a number so high that all that follow would seem to be copies.
            is_copy = is_current and self._codec.seal is not None and self._monitor.is_copy(payload.instance_id, payload.sequence)
            if is_current and not is_copy:
                self._monitor.heard(payload.instance_id, now_ms)
        elif isinstance(payload, Canary) and payload.leader_id == self._leader_id:
            sent_at_ms = self._canaries.pop(payload.sequence, None)
            if sent_at_ms is not None:
                self._monitor.canary_read(sent_at_ms)

    def _note_unreadable(self, error: str, now_ms: int) -> None:
        """Say it at most once an interval, with how many there were."""
        self._unreadable += 1
        if now_ms >= self._next_warning_ms:
            _logger.warning("HeartbeatsUnreadable count=%d error=%s", self._unreadable, one_line(error))
            self._unreadable, self._next_warning_ms = 0, now_ms + WARNING_INTERVAL_MS

    def on_registered(self, instances: list[str], now_ms: int) -> None:
        """Take note of decided registrations, and empty the list."""
        for instance_id in instances:
            self._monitor.heard(instance_id, now_ms)
        instances.clear()

    def oldest_word_ms(self) -> int | None:
        """Return when the instance was heard of that has been silent for longest; None: there is none, or none was waited for yet."""
        monitor = self._monitor
        heard_ms = min(monitor.last_heard_ms.values(), default=None)
        return None if heard_ms is None else max(heard_ms, monitor.promoted_at_ms)

    def overdue(self, master: Master, leader_id: str, now_ms: int) -> Iterator[HeartbeatTimeout]:
        """Yield the instances that were silent for too long, and send a canary when one is due."""
        self._leader_id = leader_id
        if now_ms >= self._next_canary_ms:
            self._next_canary_ms = now_ms + self._interval_ms // 2
            self._sequence += 1
            if len(self._canaries) >= MAX_OUTSTANDING_CANARIES:
                self._canaries.clear()
            self._canaries[self._sequence] = now_ms
            self._wires.produce(Topic.HEARTBEATS, leader_id, self._codec.encode(Canary(leader_id, self._sequence)))
        if now_ms < self._next_search_ms:
            return
        self._next_search_ms = now_ms + self._interval_ms // SEARCHES_PER_INTERVAL
        instances = set()
        for task_manager_id, task_manager in master.resource_manager.task_managers.items():
            instances.add(task_manager.instance_id)
            timeout = self._monitor.overdue(task_manager_id, task_manager.instance_id, now_ms)
            if timeout is not None:
                yield timeout
        self._monitor.forget_all_but(instances)

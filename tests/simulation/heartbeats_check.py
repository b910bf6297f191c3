"""Compares every loss by silence with the heartbeats that arrived (P13): one whose heartbeats the leader could read is not silent.

Where heartbeats are sealed, one that is no newer than another before it is a copy, or was overtaken: it proves nothing.
"""

from itertools import pairwise
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.inputs import Heartbeat
from eventflink.events.log_events import TaskManagerLost, TaskManagerRegistered
from eventflink.events.seal import Seals
from eventflink.events.topics import Topic
from eventflink.testing.simulation.broker import BrokerRecord
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SILENCE: Final = "no heartbeat for"
_DECIDED_WITHIN_MS: Final = 4_000
"""So late after the silence its decision may still arrive."""


class HeartbeatsCheck:
    """When each instance was registered, and when its heartbeats arrived."""

    def __init__(self, scheduler: Scheduler, loss_timeout_ms: int, lease_timeout_ms: int, drift_ppm: int, seals: Seals) -> None:
        self._scheduler = scheduler
        self._codec = PayloadCodec("HeartbeatEnvelope", seal=seals.of(Topic.HEARTBEATS))
        self._least_silence_us = loss_timeout_ms * MILLISECOND * (1_000_000 - 2 * drift_ppm) // 1_000_000
        self._lease_us = lease_timeout_ms * MILLISECOND
        self._arrivals_us: dict[str, list[int]] = {}
        self._newest: dict[str, int] = {}
        """The number of the newest heartbeat of an instance, by its id."""

    def on_heartbeat(self, record: BrokerRecord) -> None:
        """Take note of a heartbeat that arrived."""
        try:
            payload, _ = self._codec.decode(record.value or b"")
        except UndecodableRecord:
            return
        if isinstance(payload, Heartbeat):
            if self._codec.seal is not None and payload.sequence <= self._newest.get(payload.instance_id, -1):
                return
            self._newest[payload.instance_id] = payload.sequence
            self._arrivals_us.setdefault(payload.instance_id, []).append(self._scheduler.now_us)

    def on_registered(self, event: TaskManagerRegistered) -> None:
        """Take note of a registration, which counts as a heartbeat; one that is repeated does not.

        The leader counts from its decision, up to a lease before the log has it.
        """
        self._arrivals_us.setdefault(event.instance_id, [self._scheduler.now_us - self._lease_us])

    def on_lost(self, event: TaskManagerLost, offset: int) -> None:
        """Check a loss.

        Raises:
            ViolationFound: the instance was not silent.

        """
        if not event.reason.startswith(_SILENCE):
            return
        now_us = self._scheduler.now_us
        times_us = [*self._arrivals_us.get(event.instance_id, []), now_us]
        oldest_us = now_us - _DECIDED_WITHIN_MS * MILLISECOND
        silences_us = [later - earlier for earlier, later in pairwise(times_us) if later >= oldest_us]
        if max(silences_us, default=0) < self._least_silence_us:
            raise ViolationFound(
                Invariant.LOST_WAS_SILENT,
                f"log@{offset} declares {event.instance_id} lost: {event.reason}; its heartbeats arrived, at most "
                f"{max(silences_us, default=0) // MILLISECOND} ms apart",
            )

"""Who leads now, by the heartbeats on `leadership`.

A heartbeat that the topic keeps may be a dead leader's; so only one that comes after the call began counts. No clock is compared with
another machine's. A client does not read the log, and cannot tell whether an epoch was ever granted: one that is named counts until a
leader of an older epoch goes on alone. While there is no leader, looks alternate with growing pauses, so that many waiting clients do not
overload Kafka.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import LeaderHeartbeat, Resignation
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.errors import ClusterUnreachable, NoLeader
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.steps import FIRST_PAUSE_S, MAX_PAUSE_S, ListenForLeader, Pause, Step, Steps, drive, random_fraction
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess

DEFAULT_TIMEOUT_S: Final = 15.0

FIRST_LOOK_S: Final = 2.0
MAX_LOOK_S: Final = 8.0
"""How long one look takes at most. Looks grow as pauses do: a cluster's heartbeats may be configured to be rare."""

_POLL_S: Final = 0.2

ALONE_HEARTBEATS: Final = 10
"""So many heartbeats of one leader, and none of the newest epoch between them, show that the newest was forged, or is over; and so many of
one that is said to have resigned, that this was forged."""


def find_leader(access: ClusterAccess, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> LeaderHeartbeat:
    """Return the first heartbeat of a living leader, waiting up to `timeout_s`.

    Raises:
        NoLeader: no leader's heartbeat came in time; the message says what was seen instead.
        ClusterUnreachable: Kafka did not answer at the last look.
        ClusterNotFound: Kafka holds no such cluster.

    """

    def perform(step: Step) -> LeaderHeartbeat | None:
        if isinstance(step, ListenForLeader):
            return listen_for_leader(access, step)
        if isinstance(step, Pause):
            time.sleep(step.seconds)
        return None

    return drive(finding_leader(access, timeout_s), perform)


def finding_leader(
    access: ClusterAccess, timeout_s: float, *, clock: Callable[[], float] = time.monotonic, fraction: Callable[[], float] = random_fraction
) -> Steps[LeaderHeartbeat]:
    """Look for a leader until there is one; raises as `find_leader` does."""
    deadline = clock() + timeout_s
    looks, pauses = Backoff(FIRST_LOOK_S, MAX_LOOK_S), Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
    watch = LeaderWatch(PayloadCodec("LeadershipEnvelope", seal=seals_of(access).of(Topic.LEADERSHIP)))
    unreachable: ClusterUnreachable | None = None
    while (left_s := deadline - clock()) > 0:
        try:
            heartbeat: LeaderHeartbeat | None = yield ListenForLeader(min(left_s, looks.next()), watch)
        except ClusterUnreachable as error:
            unreachable = error
        else:
            unreachable = None
            if heartbeat is not None:
                return heartbeat
        if (left_s := deadline - clock()) > 0:
            yield Pause(min(left_s, pauses.next_jittered(fraction())))
    if unreachable is not None:
        raise unreachable
    raise NoLeader(f"no master leads the cluster '{access.cluster_id}': {watch.describe()} within {timeout_s:g} s")


def listen_for_leader(access: ClusterAccess, step: ListenForLeader, *, stop: Callable[[], bool] = lambda: False) -> LeaderHeartbeat | None:
    """Take one look: return the heartbeat of a living leader, or None; raises as `PartitionReader` does."""
    deadline = Deadline.after(step.timeout_s)
    watch: LeaderWatch = step.watch
    reader = PartitionReader(access, Topic.LEADERSHIP, connect_timeout_s=step.timeout_s)
    try:
        low, high = reader.offsets(0)
        reader.seek(0, watch.start(low, high))
        while not deadline.is_over() and not stop():
            for message in reader.read(deadline.left_s(_POLL_S)):
                if (heartbeat := watch.see(message.offset() or 0, message.value() or b"")) is not None:
                    return heartbeat
    finally:
        reader.close()
    return None


@dataclass(slots=True)
class LeaderWatch:
    """What the topic has said so far, over all looks."""

    _codec: PayloadCodec = field(default_factory=lambda: PayloadCodec("LeadershipEnvelope"), repr=False)
    _asked_at_offset: int = -1
    _next_offset: int = 0
    _newest_epoch: int = 0
    _alone: tuple[str, int] = ("", 0)
    """A leader of an older epoch, and how many heartbeats of it came since one of the newest."""
    _resigned: dict[str, int] = field(default_factory=dict)
    """Leaders of which that was said, and how many heartbeats of each came since."""
    _last_master_id: str = ""

    def start(self, low: int, high: int) -> int:
        """Return where to read on, given the bounds of the topic; the first look fixes from which offset on a heartbeat counts."""
        if self._asked_at_offset < 0:
            self._asked_at_offset, self._next_offset = high, high - 1
        return min(max(low, self._next_offset), high)

    def see(self, offset: int, value: bytes) -> LeaderHeartbeat | None:
        """Take one record in; return it if it is the heartbeat of a living leader that no newer one has replaced."""
        self._next_offset = offset + 1
        try:
            payload, _ = self._codec.decode(value)
        except UndecodableRecord:
            return None  # A record that cannot be read says nothing about the leader.
        if isinstance(payload, Resignation):
            self._resigned[payload.leader_id] = 0
            return None
        if not isinstance(payload, LeaderHeartbeat):
            return None
        if payload.epoch < self._newest_epoch:
            count = self._alone[1] + 1 if self._alone[0] == payload.leader_id else 1
            self._alone = (payload.leader_id, count)
            if count < ALONE_HEARTBEATS:
                return None
        self._newest_epoch, self._alone = payload.epoch, ("", 0)
        self._last_master_id = payload.master_id
        return payload if offset >= self._asked_at_offset and not self._has_resigned(payload.leader_id) else None

    def _has_resigned(self, leader_id: str) -> bool:
        """Tell whether a leader of which a heartbeat has come has resigned; one that goes on and on has not."""
        if leader_id not in self._resigned:
            return False
        self._resigned[leader_id] += 1
        if self._resigned[leader_id] < ALONE_HEARTBEATS:
            return True
        del self._resigned[leader_id]
        return False

    def describe(self) -> str:
        """Say what was seen instead of a leader."""
        if not self._last_master_id:
            return "nothing was said on its topic 'leadership'"
        how = "resigned" if self._resigned else "was heard of earlier, and nothing came from it"
        return f"the last leader, {self._last_master_id} (epoch {self._newest_epoch}), {how}"

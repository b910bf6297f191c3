"""Who leads now, as the beats on `leadership` say.

A beat that is kept in the topic may be a dead leader's; so only a beat that comes after the question counts. No clock is
compared with another machine's.
"""

import time
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import LeaderBeat, Resignation
from eventflink.events.topics import Topic
from eventflink.gateways.errors import NoLeader
from eventflink.gateways.kafka_clients import PartitionReader

DEFAULT_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.2


def find_leader(bootstrap: str, cluster_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> LeaderBeat:
    """Return the first beat of a living leader, waiting up to `timeout_s`.

    Raises:
        NoLeader: no leader beat in time; the message says what was seen instead.
        ClusterUnreachable: Kafka does not answer.
        ClusterNotFound: Kafka holds no such cluster.

    """
    deadline = time.monotonic() + timeout_s
    reader = PartitionReader(bootstrap, cluster_id, Topic.LEADERSHIP, connect_timeout_s=timeout_s)
    try:
        low, high = reader.offsets(0)
        reader.seek(0, max(low, high - 1))
        watch = _Watch(asked_at_offset=high)
        while (left_s := deadline - time.monotonic()) > 0:
            for message in reader.read(min(left_s, _POLL_S)):
                if (beat := watch.see(message.offset() or 0, message.value() or b"")) is not None:
                    return beat
    finally:
        reader.close()
    raise NoLeader(f"no master leads the cluster '{cluster_id}': {watch.describe()} within {timeout_s:g} s")


class _Watch:
    """What the topic has said so far."""

    def __init__(self, asked_at_offset: int) -> None:
        self._codec = PayloadCodec("LeadershipEnvelope")
        self._asked_at_offset = asked_at_offset
        self._newest_epoch = 0
        self._resigned: set[str] = set()
        self._last_master_id = ""

    def see(self, offset: int, value: bytes) -> LeaderBeat | None:
        """Take one record in; return it if it is the beat of a living leader that no newer one has replaced."""
        try:
            payload, _ = self._codec.decode(value)
        except UndecodableRecord:
            return None  # Bytes that are no beat cannot make or unmake a leader.
        if isinstance(payload, Resignation):
            self._resigned.add(payload.leader_id)
            return None
        if not isinstance(payload, LeaderBeat) or payload.epoch < self._newest_epoch:
            return None
        self._newest_epoch = payload.epoch
        self._last_master_id = payload.master_id
        return payload if offset >= self._asked_at_offset and payload.leader_id not in self._resigned else None

    def describe(self) -> str:
        if not self._last_master_id:
            return "nothing was said on its topic 'leadership'"
        how = "resigned" if self._resigned else "was heard of earlier, and nothing came from it"
        return f"the last leader, {self._last_master_id} (epoch {self._newest_epoch}), {how}"

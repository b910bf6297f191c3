"""Tells when a master that was started has read the whole log, by what it says of itself on `leadership`."""

import time
from collections.abc import Callable
from typing import Final

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import MasterPresence
from eventflink.events.topics import Topic
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.log.replay import log_bounds
from eventflink.model.cluster_access import ClusterAccess

TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1


class MasterNotFollowing(GatewayError):
    """A master that was started did not read the log to its end in time."""


class Following:
    """Notices that a master is there and has folded the log up to where it ends when this is made.

    Made before the master is started, it hears the first that it says; with a long lease the next comes minutes later.
    """

    def __init__(self, access: ClusterAccess) -> None:
        """Note where the log ends, and where what masters say of themselves does: one that was killed says nothing more."""
        _, self._end = log_bounds(access)
        self._codec = PayloadCodec("LeadershipEnvelope")
        self._reader = PartitionReader(access, Topic.LEADERSHIP)
        self._reader.seek(0, self._reader.offsets(0)[1])

    def wait(self, master_id: str, check: Callable[[], None]) -> None:
        """Wait until the master follows; `check` is called meanwhile, and may raise.

        Raises:
            MasterNotFollowing: it did not within two minutes.

        """
        deadline_s = time.monotonic() + TIMEOUT_S
        try:
            while time.monotonic() < deadline_s:
                check()
                for message in self._reader.read(_POLL_S):
                    payload, _ = self._codec.decode(message.value() or b"")
                    if isinstance(payload, MasterPresence) and payload.master_id == master_id and payload.log_offset >= self._end - 1:
                        return
        finally:
            self._reader.close()
        raise MasterNotFollowing(f"{master_id} did not follow the log within {TIMEOUT_S:.0f} s")


def wait_until_it_follows(access: ClusterAccess, master_id: str, check: Callable[[], None]) -> None:
    """Wait until a master that was started says that it has folded the log up to where it ends now; raises as `Following.wait` does."""
    Following(access).wait(master_id, check)

"""Operators who suspend jobs, resume them, and shut whole clusters down: what some of the runs have in addition.

Everything here is drawn from random numbers of its own, so that what else happens in a run is drawn as it would be without it.
"""

import json
from collections.abc import Sequence
from random import Random
from typing import Final

_SUSPENDING_SHARE: Final = 0.35
_ENDING_SHARE: Final = 0.15
_SHUTDOWNS_IN_ORDERS: Final = 0.15
_RESUMPTIONS_IN_ORDERS: Final = 0.4


class Lifecycles:
    """What a run has of all this."""

    def __init__(self, seed: int) -> None:
        """Draw whether the run has any of it."""
        self._rng = Random(f"{seed} lifecycles")  # noqa: S311 - a run has to be repeatable, not secret
        self.is_suspending = self._rng.random() < _SUSPENDING_SHARE
        self.is_ending = self._rng.random() < _ENDING_SHARE
        """The cluster is shut down now and then; its masters are started again."""

    @property
    def has_orders(self) -> bool:
        """Tell whether the run has operators who do any of this."""
        return self.is_suspending or self.is_ending

    def next_order(self, jobs: Sequence[str]) -> tuple[str, dict[str, object]]:
        """Return what an order is about, and what it says; a suspension or a resumption of some job, or the end of the cluster."""
        if self.is_ending and (not jobs or self._rng.random() < _SHUTDOWNS_IN_ORDERS):
            status = self._rng.choice(("SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"))
            return "cluster", {"type": "ShutDownCluster", "application_status": status, "cancel_jobs": self._rng.random() < 0.3}  # noqa: PLR2004 - a share
        job_id = self._rng.choice(jobs) if jobs else "nobody"
        resumes = self._rng.random() < _RESUMPTIONS_IN_ORDERS
        return job_id, {"type": "ResumeJob" if resumes else "SuspendJob", "job_id": job_id}

    def next_order_in_ms(self) -> float:
        """Return how long operators wait."""
        return 400 + self._rng.random() * 2_500

    def restart_in_ms(self) -> float:
        """Return how long it takes until a master of a cluster that has ended is started again."""
        return 500 + self._rng.random() * 2_000


def record_of(order: dict[str, object], request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands`."""
    return json.dumps({**order, "request_id": request_id, "reply_partition": reply_partition}).encode()

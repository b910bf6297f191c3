"""The clocks of the brokers: here they are right."""

from typing import Final

from eventflink.events.topics import Topic
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler

EPOCH_MS: Final = 1_800_000_000_000
"""The true time at the start of a run."""


class BrokerClocks:
    """The time by which each partition's records are stamped."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def stamp_ms(self, topic: Topic, number: int) -> int:  # noqa: ARG002 - clocks that are right are all the same
        """Return what the clock of the partition's leader shows."""
        return EPOCH_MS + self._scheduler.now_us // MILLISECOND

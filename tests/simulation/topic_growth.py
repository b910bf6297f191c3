"""The topic `deployments` gets more partitions while everything goes on, in some runs, by whomever.

The rule: it draws from random numbers of its own, so that no run without it changes.
"""

from random import Random
from typing import Final

from eventflink.events.topics import Topic
from eventflink.testing.simulation.broker import Broker
from eventflink.testing.simulation.transcript import Transcript

_SHARE: Final = 0.5
_LONGEST_PAUSE_MS: Final = 10_000
_MOST_MORE: Final = 3


class TopicGrowth:
    """Adds partitions."""

    def __init__(self, seed: int, broker: Broker, transcript: Transcript) -> None:
        """Draw whether the topic grows in the run of a seed."""
        self._rng = Random(f"growth of deployments {seed}")
        self._broker = broker
        self._transcript = transcript
        self.is_there = self._rng.random() < _SHARE

    def next_in_ms(self) -> float:
        """Return how long it takes until there are more."""
        return _LONGEST_PAUSE_MS * self._rng.random()

    def grow(self) -> None:
        """Add one to three partitions."""
        partitions = self._broker.count_partitions(Topic.DEPLOYMENTS) + self._rng.randint(1, _MOST_MORE)
        self._transcript.note("somebody", f"has deployments have {partitions} partitions")
        self._broker.grow(Topic.DEPLOYMENTS, partitions)

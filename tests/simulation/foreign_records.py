"""A stranger writes to the log what no master writes: garbage, and transactions, of which an offset stays that nobody is given.

Drawn from random numbers of its own.
"""

from random import Random
from typing import Final

from eventflink.events.schemas import MARKER
from eventflink.events.topics import Topic
from eventflink.testing.simulation.broker import Broker

_SHARE: Final = 0.4
_LONGEST_PAUSE_MS: Final = 4_000
_GARBAGE: Final = (b"", b"\0", MARKER[:1], b"a stray line", MARKER[::-1] + bytes(64))
_LONGEST_TRANSACTION: Final = 3


class ForeignRecords:
    """What a stranger leaves in the log."""

    def __init__(self, seed: int, broker: Broker) -> None:
        """Draw whether the run has any."""
        self._rng = Random(f"{seed} foreign records")
        self._broker = broker
        self.are_there = self._rng.random() < _SHARE

    def next_in_ms(self) -> float:
        """Return how long the next ones take."""
        return _LONGEST_PAUSE_MS * self._rng.random()

    def write(self) -> None:
        """Append some garbage, the end of a transaction, or both."""
        is_transaction = self._rng.random() < 0.5
        for _ in range(self._rng.randrange(0 if is_transaction else 1, _LONGEST_TRANSACTION + 1)):
            self._broker.append(Topic.LOG, 0, None, self._rng.choice(_GARBAGE))
        if is_transaction:
            self._broker.append(Topic.LOG, 0, None, None, is_marker=True)

"""The clocks of the brokers, one for each partition, for each may be led by another one: in most runs some of them are wrong.

Drawn from random numbers of their own: what decides must not go by them, so runs with wrong clocks are as they would be with right ones.
"""

from random import Random
from typing import Final

from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.testing.simulation.broker_clocks import BrokerClocks
from eventflink.testing.simulation.scheduler import Scheduler
from eventflink.testing.simulation.transcript import Transcript

_WRONG_SHARE: Final = 0.75
_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_YEAR_MS: Final = 365 * 86_400 * _SECOND_MS
_JUMPS_MS: Final = (-30 * _YEAR_MS, -_YEAR_MS, -10 * _MINUTE_MS, -2 * _SECOND_MS, 2 * _SECOND_MS, 10 * _MINUTE_MS, _YEAR_MS, 30 * _YEAR_MS)
_LONGEST_PAUSE_MS: Final = 3_000


class WrongClocks(BrokerClocks):
    """The time by which each partition's records are stamped."""

    def __init__(self, seed: int, scheduler: Scheduler, transcript: Transcript) -> None:
        super().__init__(scheduler)
        self._rng = Random(f"{seed} broker clocks")
        self._transcript = transcript
        self._partitions = [(topic, number) for topic, s in SPECIFICATIONS.items() for number in range(s.partitions)]
        self._offsets_ms = dict.fromkeys(self._partitions, 0)
        self._stopped_ms: dict[tuple[Topic, int], int] = {}
        """Partitions whose clocks stand still, with what they show."""
        self.are_wrong = self._rng.random() < _WRONG_SHARE
        if self.are_wrong:
            self._offsets_ms = {partition: self._rng.choice((0, *_JUMPS_MS)) for partition in self._partitions}

    def stamp_ms(self, topic: Topic, number: int) -> int:
        """Return what the clock of the partition's leader shows."""
        partition = (topic, number)
        if (stopped_ms := self._stopped_ms.get(partition)) is not None:
            return stopped_ms
        return super().stamp_ms(topic, number) + self._offsets_ms.get(partition, 0)  # One that was added later is right.

    def next_jump_in_ms(self) -> float:
        """Return how long it takes until the next clock is another one."""
        return self._rng.random() * _LONGEST_PAUSE_MS

    def jump(self) -> None:
        """Have a broker with another clock lead a partition, or let its clock stand still: of the log's in every second case."""
        partition = (Topic.LOG, 0) if self._rng.random() < 0.5 else self._rng.choice(self._partitions)
        self._stopped_ms.pop(partition, None)
        if self._rng.random() < 0.2:
            self._stopped_ms[partition] = self.stamp_ms(*partition)
            how = "stands still"
        else:
            self._offsets_ms[partition] = self._rng.choice(_JUMPS_MS)
            how = f"is wrong by {self._offsets_ms[partition]} ms"
        self._transcript.note("broker", f"the clock of {partition[0]}/{partition[1]} {how}")

"""What the benchmarks of streams make of their observations; arithmetic alone, without Kafka and without a clock.

Times are of `time.monotonic_ns`, which all processes of a host share. The rule it keeps: what was fed is counted by number, so that a
record that came twice cannot stand in for one that never came.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A committed record of the target topic."""

    number: int
    fed_ns: int
    """When it was handed to the producer of the source topic."""
    arrived_ns: int
    """When a reader of committed records had it."""

    @property
    def latency_ms(self) -> float:
        """From end to end."""
        return (self.arrived_ns - self.fed_ns) / _MS


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the records 0 to `fed` - 1."""

    fed: int
    committed: int
    """All records of the target, repeated ones included."""
    repeated: int
    missing: int

    @property
    def is_exact(self) -> bool:
        """Whether each record came exactly once."""
        return not self.repeated and not self.missing


def count_records(fed: int, numbers: Iterable[int]) -> Counts:
    """Count the numbers of committed records; one that was never fed counts as repeated."""
    times = Counter(numbers)
    committed = sum(times.values())
    found = sum(1 for number in times if 0 <= number < fed)
    return Counts(fed, committed, repeated=committed - found, missing=fed - found)


def longest_gap_ms(arrived_ns: Iterable[int], since_ns: int, until_ns: int) -> float:
    """Return the longest time without an arrival that ended in this span, or had not ended with it.

    A gap that began before the span counts from its beginning: what was not committed when a process was killed is part of it.
    """
    times = sorted(time for time in arrived_ns if time <= until_ns)
    ended = [later - earlier for earlier, later in itertools.pairwise(times) if later > since_ns]
    open_ns = until_ns - times[-1] if times else until_ns - since_ns
    return max([*ended, open_ns]) / _MS


@dataclass(frozen=True, slots=True)
class SteadyBatches:
    """The batches after the first of a query: whose workers run, and whose connections are open."""

    batches: int
    seconds: float
    """From the first batch's commit to the last one's."""


def steady_batches(committed_ns: Mapping[int, int]) -> SteadyBatches | None:
    """Return what lies between the first batch's commit and the last one's; None where there are not two, or one between is not known.

    Args:
        committed_ns: when each batch was noted as done, by its id.

    """
    first, last = min(committed_ns, default=0), max(committed_ns, default=0)
    if first == last or len(committed_ns) != last - first + 1:
        return None
    return SteadyBatches(last - first, (committed_ns[last] - committed_ns[first]) / 1e9)


def batches_repeated(starts: Sequence[tuple[int, int]]) -> int:
    """Return how many batches were repeated.

    Args:
        starts: of each attempt, the last batch that was committed when it started, and the last one that had been begun.

    """
    return sum(begun > committed for committed, begun in starts)

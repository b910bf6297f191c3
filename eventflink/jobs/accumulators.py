"""What the code of a task counts: sums under names, told with its end and added up over the subtasks of a job, as Flink's accumulators.

They belong to the attempt: one that fails has counted nothing, so no row is counted twice. They are of the task's own process; functions
that Spark runs elsewhere have no part in them.
"""

import math
import numbers
from typing import Final

from eventflink.model.attempts import (
    MAX_ACCUMULATOR_NAME_LENGTH,
    MAX_ACCUMULATORS,
    MAX_DOUBLE,
    MAX_LONG,
    MIN_LONG,
    Accumulators,
    DoubleCounter,
    LongCounter,
)

KINDS: Final[dict[type[int] | type[float], str]] = {int: "whole numbers", float: "numbers with fractions"}


class AccumulatorUnusable(Exception):
    """An accumulator cannot be had, or cannot take a number; the message says why."""


class Accumulator:
    """A sum under a name; what is added is of one kind. For one thread at a time, as the function of a task is."""

    def __init__(self, name: str, kind: type[int] | type[float]) -> None:
        """Begin at 0."""
        self.name = name
        self.kind = kind
        self.value: int | float = kind(0)

    def add(self, amount: float) -> None:
        """Add a number.

        Raises:
            AccumulatorUnusable: it is none of this kind, or the sum is beyond 64 bits, or 1e300 where it has fractions.

        """
        if not isinstance(amount, numbers.Integral if self.kind is int else numbers.Real):
            raise AccumulatorUnusable(f"accumulator '{self.name}' adds {KINDS[self.kind]}, and not {type(amount).__name__}")
        total = self.value + self.kind(amount)
        if self.kind is int and not MIN_LONG <= total <= MAX_LONG:
            raise AccumulatorUnusable(f"accumulator '{self.name}' would be {total}, which has more than 64 bits")
        if self.kind is float and not (math.isfinite(total) and abs(total) <= MAX_DOUBLE):
            raise AccumulatorUnusable(f"accumulator '{self.name}' would be {total}, which is beyond {MAX_DOUBLE:g}")
        self.value = total


class TaskAccumulators:
    """The accumulators of one attempt.

    Examples:
        >>> from eventflink.jobs.accumulators import TaskAccumulators
        >>> accumulators = TaskAccumulators()
        >>> accumulators.of("orders", int).add(2)
        >>> accumulators.of("orders", int).add(1)
        >>> accumulators.of("orders", int).value
        3

    """

    def __init__(self) -> None:
        """Have none."""
        self._known: dict[str, Accumulator] = {}

    def of(self, name: str, kind: type[int] | type[float]) -> Accumulator:
        """Return the accumulator of that name, which begins with the first call.

        Raises:
            AccumulatorUnusable: there are too many, or the name is none, or it is of another kind.

        """
        if kind not in KINDS:
            raise AccumulatorUnusable(f"accumulator '{name}' can be of the kind int or float")
        if (known := self._known.get(name)) is not None:
            if known.kind is not kind:
                raise AccumulatorUnusable(f"accumulator '{name}' adds {KINDS[known.kind]}")
            return known
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= MAX_ACCUMULATOR_NAME_LENGTH:
            raise AccumulatorUnusable(f"the name of an accumulator has 1 to {MAX_ACCUMULATOR_NAME_LENGTH} printable characters")
        if len(self._known) >= MAX_ACCUMULATORS:
            raise AccumulatorUnusable(f"a task has at most {MAX_ACCUMULATORS} accumulators: '{name}' would be one more")
        self._known[name] = made = Accumulator(name, kind)
        return made

    def report(self) -> Accumulators | None:
        """Return what was counted; None: nothing."""
        if not self._known:
            return None
        longs = tuple([LongCounter(each.name, int(each.value)) for each in self._known.values() if each.kind is int])
        return Accumulators(longs, tuple([DoubleCounter(each.name, each.value) for each in self._known.values() if each.kind is float]))

"""Offsets of the log that no reader is given: for each that has no record the reader hands on an empty one (P3b).

Whoever writes in a transaction leaves such an offset, where Kafka notes its end. A gap may as well be a record that the reader has missed.
So Kafka is asked, and the rule is that nothing stands for an offset unless Kafka, asked for just that one, gives what comes later. Who asks
it, and how, is the business of `log/dense_reader.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_NOTHING: Final = range(0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a partition: which offsets, from `first_offset` up to, without, `end_offset`, have a record."""

    first_offset: int
    end_offset: int
    present: frozenset[int]


Ask = Callable[[int], Stretch]
"""Returns what there is from an offset on; what is behind the end of its answer is not known."""


class OffsetGaps:
    """The gaps that one reader meets, from `next_offset` on."""

    def __init__(self, next_offset: int, ask: Ask) -> None:
        self.next_offset = next_offset
        """The first offset for which nothing was handed on yet."""
        self._ask = ask
        self._known = Stretch(0, 0, frozenset())

    def before(self, offset: int) -> range:
        """Return the offsets from `next_offset` up to, without, `offset`, if none of them has a record; else none: some were missed.

        Raises:
            Exception: what asking raises where Kafka does not say.

        """
        if offset <= self.next_offset:
            return _NOTHING
        gap = range(self.next_offset, offset)
        if not self._known.first_offset <= gap.start <= offset <= self._known.end_offset:
            self._known = self._ask(gap.start)
        if offset > self._known.end_offset or not self._known.present.isdisjoint(gap):
            return _NOTHING
        self.next_offset = offset
        return gap

    def give(self, offset: int) -> None:
        """Take note that the record at an offset is handed on."""
        self.next_offset = max(self.next_offset, offset + 1)

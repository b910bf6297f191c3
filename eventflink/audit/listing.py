"""Events out of the records of a log, in their order: those that a filter chooses, of a part of it, and no more than a number of them."""

from collections.abc import Iterable, Iterator

from eventflink.audit.entries import Entry, Judge, Record
from eventflink.audit.filters import EventFilter, Range, Wanted


class Listing:
    """Chooses events out of records, which may come in several parts, until there can be no more of them."""

    def __init__(self, wanted: Wanted, part: Range, limit: int | None = None) -> None:
        self.range = part
        self.is_over = False
        self._filter = EventFilter(wanted)
        self._left = limit

    def choose(self, records: Iterable[Record | None], judge: Judge) -> Iterator[tuple[Entry, int] | None]:
        """Yield each event that is wanted as its entry and its index there, and None wherever the records pause.

        Raises:
            LogFaulty: a record cannot be read, or does not fit the ones before it.

        """
        for record in records:
            if record is None:
                yield None
                continue
            entry = judge.judge_record(record)
            if entry is None:
                continue
            if self.range.is_over(entry):
                self.is_over = True
                return
            chosen = self._filter.choose(entry)
            if self.range.holds(entry):
                for index in chosen:
                    yield entry, index
                    if self._is_enough():
                        return
            if self.range.last.offset is not None and entry.offset >= self.range.last.offset:
                self.is_over = True
                return

    def _is_enough(self) -> bool:
        if self._left is not None:
            self._left -= 1
            self.is_over = self._left == 0
        return self.is_over

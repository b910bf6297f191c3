"""States of the past, from which any other is a few records away: encoded ones, thinned with age, and a few that are live.

An encoded state costs little memory and some time to load; a live one may be moved on, and then stands there no more. How far two states
are apart is counted in events, which is what folding them costs.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from eventflink.audit.entries import Record
from eventflink.events.codec import DecisionCodec
from eventflink.leadership.fold import Fold
from eventflink.reader.past.fold_pickle import dump_fold, load_fold, release_fold

MAX_STATES: Final = 64
MAX_BYTES: Final = 256 * 1024 * 1024
MAX_LIVE: Final = 3
LEAST_EVENTS: Final = 2_000
"""Between two states: folding so many takes some 25 ms."""

EVEN_EVENTS: Final = 1_000_000
"""Of a log so long the states are about as far from each other everywhere; of a longer one the old ones are further."""

LOAD_BYTES: Final = 60
"""Loading so much of an encoded state takes about as long as folding one event."""


@dataclass(frozen=True, slots=True)
class EncodedState:
    """The state after the record at `offset`."""

    offset: int
    event_count: int
    """Of the accepted records up to there."""
    data: bytes

    @property
    def load_events(self) -> int:
        """How many events are folded in the time that loading it takes."""
        return len(self.data) // LOAD_BYTES


class StateRing:
    """The encoded states of one log, in its order."""

    def __init__(self) -> None:
        self.states: list[EncodedState] = []
        self.byte_count = 0

    def offer(self, fold: Fold) -> None:
        """Take the state of a fold, if it is far enough from the last one."""
        if self.states:
            first, last = self.states[0], self.states[-1]
            # Nearer to each other than it takes to load one they would save little, and take longer to make than the log to fold.
            apart = max(LEAST_EVENTS, last.load_events, (fold.event_count - first.event_count) // (MAX_STATES * 3 // 4))
            if fold.event_count - last.event_count < apart:
                return
        self.take(fold)

    def take(self, fold: Fold) -> None:
        """Take the state of a fold, which stands behind all others."""
        state = EncodedState(fold.last_offset, fold.event_count, dump_fold(fold))
        self.states.append(state)
        self.byte_count += len(state.data)
        while len(self.states) > MAX_STATES or (self.byte_count > MAX_BYTES and len(self.states) > 2):  # noqa: PLR2004 - both ends stay
            self._drop(self._least_needed())

    def _least_needed(self) -> int:
        """Return the number of the state without which the longest way to a moment grows least, by the age of that moment."""
        newest = self.states[-1].event_count

        def loss(number: int) -> float:
            before, after = self.states[number - 1].event_count, self.states[number + 1].event_count
            return (after - before) / (newest - before + EVEN_EVENTS)

        return min(range(1, len(self.states) - 1), key=loss)

    def _drop(self, number: int) -> None:
        self.byte_count -= len(self.states[number].data)
        del self.states[number]

    def before(self, offset: int) -> EncodedState | None:
        """Return the last state that stands at an offset or before it."""
        number = bisect_right(self.states, offset, key=lambda state: state.offset) - 1
        return self.states[number] if number >= 0 else None

    def begin_with(self, fold: Fold) -> None:
        """Forget the states up to that of a fold, which is now the first."""
        while self.states and self.states[0].offset <= fold.last_offset:
            self._drop(0)
        state = EncodedState(fold.last_offset, fold.event_count, dump_fold(fold))
        self.states.insert(0, state)
        self.byte_count += len(state.data)


class StatesOfThePast:
    """The state after any record, by the shortest way there."""

    def __init__(self, ring: StateRing, read: Callable[[int, int], Iterable[Record]], codec: DecisionCodec) -> None:
        """Take the encoded states, and what yields the records from an offset up to, without, another."""
        self._codec = codec
        self._ring = ring
        self._read = read
        self._live: list[Fold] = []
        """The last to be asked for is last."""

    def at(self, offset: int) -> Fold:
        """Return the state after a record; it is the reader's until the next question, and nobody changes it.

        Raises:
            LookupError: no state stands there or before.

        """
        encoded = self._ring.before(offset)
        live = max((fold for fold in self._live if fold.last_offset <= offset), key=lambda fold: fold.last_offset, default=None)
        if live is not None and (encoded is None or live.event_count >= encoded.event_count - encoded.load_events):
            self._live.remove(live)
        elif encoded is not None:
            live = load_fold(encoded.data, self._codec)
        else:
            raise LookupError(f"no state stands at {offset} or before")
        for record in self._read(live.last_offset + 1, offset + 1):
            live.fold_record(*record)
        self._live.append(live)
        if len(self._live) > MAX_LIVE:
            release_fold(self._live.pop(0))
        return live

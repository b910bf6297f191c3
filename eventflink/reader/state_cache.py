"""The answers about the newest state that were asked for last: what several clients ask at one offset is computed once.

Everything in it is of one state; what is known of another is dropped as soon as something of a newer one is kept. Who gets a value reads
it, and changes nothing of it. What is kept, and by which key, is the business of who asks: pages here, whole answers in `rest`.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from eventflink.leadership.fold import Fold
from eventflink.reader.observed_state import Position
from eventflink.views.moment import moment_view

MAX_ENTRIES: Final = 256
MAX_BYTES: Final = 32 * 1024 * 1024
"""The bound of all entries together."""
PAGE_BYTES: Final = 2 * 1024 * 1024
"""How much a page counts for, as nobody measures it: 16 of them fill the cache."""


class StateCache:
    """Values of one state, by key. For one event loop."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._position: Position | None = None
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        """Value and bytes by key; the one that was asked for last is the last."""
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, position: Position | None, key: Hashable) -> Any | None:
        """Return what is known of a state; None: nothing."""
        if position is None or position != self._position or key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def keep(self, position: Position, key: Hashable, value: Any, byte_count: int) -> None:
        """Keep what is known of a state, unless something of a newer one is; what nobody has asked for the longest makes room."""
        if position != self._position:
            if self._position is not None and position[0] < self._position[0]:
                return
            self._position, self._bytes = position, 0
            self._entries.clear()
        _, before = self._entries.pop(key, (None, 0))
        self._entries[key] = value, byte_count
        self._bytes += byte_count - before
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            self._bytes -= self._entries.popitem(last=False)[1][1]

    def page(self, fold: Fold, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return what `moment_view` makes of the state, computed or remembered; raises what `compute` raises. Arguments are hashable."""
        position, key = (fold.last_offset, fold.running_hash), (compute, arguments)
        known = self.get(position, key)
        if known is None:
            known = moment_view(fold, compute, arguments)
            self.keep(position, key, known, PAGE_BYTES)
        return dict(known)

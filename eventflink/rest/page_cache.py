"""The pages of the present that were computed last: what several browsers ask at one offset is computed once.

A page is what a function makes of the state and of its arguments; pages of another state are dropped as soon as one of a newer is asked
for. Who gets a page reads it, and changes nothing of it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from eventflink.leadership.fold import Fold
from eventflink.views.moment import moment_view
from eventflink.views.plain import View

MAX_PAGES: Final = 16


class PageCache:
    """A few pages of one state. For one event loop."""

    def __init__(self) -> None:
        """Hold no page."""
        self._state: tuple[int, bytes] | None = None
        """Offset and running hash: no other log, or other past of it, has both."""
        self._pages: OrderedDict[Hashable, View] = OrderedDict()

    def page(self, fold: Fold, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> View:
        """Return what `moment_view` makes of the state, computed or remembered; raises what `compute` raises. Arguments are hashable."""
        state, wanted = (fold.last_offset, fold.running_hash), (compute, arguments)
        if state != self._state:
            self._state = state
            self._pages.clear()
        known = self._pages.get(wanted)
        if known is None:
            known = self._pages[wanted] = moment_view(fold, compute, arguments)
            if len(self._pages) > MAX_PAGES:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(wanted)
        return dict(known)

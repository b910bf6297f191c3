"""Showing a thing again while a cell or a program waits: in place in a notebook, else a line for each change on standard error."""

import sys
from collections.abc import Callable
from typing import Any


class Live:
    """One place where something is shown. For one thread, or one task of an event loop."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._said = ""

    def show(self, view: object) -> None:
        """Show it in place of what was shown before."""
        display = _notebook_display()
        if display is None:
            if (line := repr(view)) != self._said:
                sys.stderr.write(f"{line}\n")
                self._said = line
        elif self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)


def _notebook_display() -> Callable[..., Any] | None:
    """Return how a notebook displays, or None where this is none: IPython is never loaded for that."""
    shell = sys.modules.get("IPython")
    if shell is None or getattr(shell.get_ipython(), "kernel", None) is None:
        return None
    display: Callable[..., Any] = sys.modules["IPython.display"].display
    return display

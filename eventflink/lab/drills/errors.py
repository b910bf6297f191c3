"""Errors that keep a drill from being done; what a drill finds out is in its report."""


class DrillRefused(Exception):
    """The drill was not begun, or its order was refused: no leader crashed. The message says why."""


class DrillFailed(Exception):
    """The drill was begun and could not be carried through; the message says how far it came and what to look at."""

"""Losing the leader on purpose: on a running cluster or on a copy of its log. What a drill finds is in its report.

Here are the errors that keep a drill from being done.
"""


class DrillRefused(Exception):
    """The drill was not begun, or its order was refused: no leader crashed. The message says why."""


class DrillFailed(Exception):
    """The drill was begun and could not be carried through; the message says how far it came and what to look at."""

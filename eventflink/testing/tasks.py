"""Tasks that do nothing, for trying a cluster out and for measuring it: importable wherever eventflink is installed, so no code is carried.

The rule: each task's process imports this module, so it imports nothing that such a process does not have.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from eventflink.jobs.context import TaskContext

RUN_TIME_PARAMETER: Final = "run_time_ms"
"""How long a task runs; without it, it runs until it is cancelled."""

_FOREVER_S: Final = 86_400.0


def noop(_context: TaskContext) -> None:
    """End at once: what is left is the cost of the cluster."""


class InvalidRunTime(Exception):
    """The parameter of a task is not a length of time."""


def read_run_time_ms(parameters: Mapping[str, Any]) -> int | None:
    """Return how long a task with these parameters runs; None: until it is cancelled.

    Raises:
        InvalidRunTime: the parameter is not a whole number of milliseconds.

    """
    value = parameters.get(RUN_TIME_PARAMETER)
    if value is not None and (not isinstance(value, int) or value < 0):
        raise InvalidRunTime(f"the parameter {RUN_TIME_PARAMETER} is {value!r}, not a whole number of milliseconds")
    return value


def idle(context: TaskContext) -> None:
    """Run for as long as the parameter says, and do nothing."""
    run_time_ms = read_run_time_ms(context.parameters)
    time.sleep(_FOREVER_S if run_time_ms is None else run_time_ms / 1000)

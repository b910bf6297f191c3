"""The jobs of the failover benchmarks and tests: one task that does nothing, for as long as its parameter says.

The same graph runs on real TaskExecutors, in a process of its own, and on simulated ones (`simulated_tasks.py`).
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from eventflink.jobs.context import TaskContext
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph

RUN_TIME_PARAMETER: Final = "run_time_ms"
"""How long a task runs; without it, it runs until it is cancelled."""

_FOREVER_S: Final = 86_400.0


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


def idle_graph(run_time_ms: int | None = None, *, restarts: int = 0, parallelism: int = 1) -> JobGraph:
    """Return a job of one vertex whose tasks run for this long; None: until they are cancelled."""
    parameters = {} if run_time_ms is None else {RUN_TIME_PARAMETER: run_time_ms}
    vertex = {"id": "idle", "python": f"{__name__}:idle", "parallelism": parallelism, "parameters": parameters}
    strategy = {"type": "fixed-delay", "attempts": restarts, "delay_ms": 0} if restarts else {"type": "none"}
    return parse_job_graph({"name": "idle", "vertices": [vertex], "restart_strategy": strategy}, "idle")

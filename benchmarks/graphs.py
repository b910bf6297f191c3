"""The jobs of the benchmarks; what their tasks do is in `eventflink/testing/tasks.py`."""

from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.testing.tasks import RUN_TIME_PARAMETER, idle, noop


def noop_graph(parallelism: int = 1) -> JobGraph:
    """Return a job of one vertex that does nothing."""
    groups = max(parallelism, 128)
    vertex = {"id": "noop", "python": f"{noop.__module__}:{noop.__name__}", "parallelism": parallelism, "max_parallelism": groups}
    return parse_job_graph({"name": "benchmark", "vertices": [vertex]}, "benchmark")


def idle_graph(run_time_ms: int | None = None, *, restarts: int = 0, parallelism: int = 1) -> JobGraph:
    """Return a job of one vertex whose tasks run for this long; None: until they are cancelled."""
    parameters = {} if run_time_ms is None else {RUN_TIME_PARAMETER: run_time_ms}
    vertex = {"id": "idle", "python": f"{idle.__module__}:{idle.__name__}", "parallelism": parallelism, "parameters": parameters}
    strategy = {"type": "fixed-delay", "attempts": restarts, "delay_ms": 0} if restarts else {"type": "none"}
    return parse_job_graph({"name": "idle", "vertices": [vertex], "restart_strategy": strategy}, "idle")

"""The task of the benchmarks' jobs: importable wherever eventflink is installed, so that no code has to be carried."""

from eventflink.jobs.context import TaskContext


def noop(_context: TaskContext) -> None:
    """Do nothing: what is left is the cost of the cluster."""

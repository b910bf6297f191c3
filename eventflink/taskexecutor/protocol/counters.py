"""What a TaskExecutor has counted since its process began, over all its instances: for its metrics, and for nothing else."""

from collections import Counter
from dataclasses import dataclass, field

from eventflink.model.statuses import ExecutionState


@dataclass(slots=True)
class Counters:
    """Counts that only grow."""

    instances: int = 0
    fences: int = 0
    heartbeats_sent: int = 0
    heartbeats_acknowledged: int = 0
    fork_server_starts: int = 0
    spark_ends: int = 0
    """How often the host's Spark ended, and nobody had told it to."""
    tasks_started: int = 0
    """Attempts that got a process."""
    tasks_refused: int = 0
    deployments_incomplete: int = 0
    """Those left alone because a list of locations that they name is not here whole."""
    tasks_ended: Counter[ExecutionState] = field(default_factory=Counter)
    """Attempts that ended, by their last state."""

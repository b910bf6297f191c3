"""Which Spark of a host runs the tasks of a job: the one that all share, one of the job's own, or that of a pool that several jobs name."""

from dataclasses import dataclass
from typing import Final

SHARED: Final = "shared"
OF_JOB: Final = "job"
POOL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MEMORY_PATTERN: Final = r"^[1-9][0-9]{0,5}[mg]$"
MAX_CORES: Final = 4_096


@dataclass(slots=True)
class SparkPool:
    """Which Spark of a host runs the tasks of a job."""

    name: str
    """shared: the one that all jobs share; job: one of the job's own; or the name of a pool, which all jobs share that name it."""
    memory: str = ""
    """Its heap, such as 2g, where the job is the first that needs it; empty: as the TaskExecutor's configuration says."""
    cores: int = 0
    """How many tasks of Spark it runs at once, likewise; 0: as the TaskExecutor's configuration says."""

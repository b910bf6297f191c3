"""Which Spark of a host runs the tasks of a job: the one that all share, one of the job's own, or that of a pool that several jobs name."""

from dataclasses import dataclass
from typing import Final

SHARED: Final = "shared"
OF_JOB: Final = "job"
POOL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MEMORY_PATTERN: Final = r"^[1-9]\d{0,5}[mg]$"
MAX_CORES: Final = 4_096


@dataclass(slots=True)
class SparkPool:
    """A Spark that is asked for; who needs it first starts it, with what that one asks for."""

    name: str
    """`shared`, `job`, or a name of one's own."""
    memory: str = ""
    """Its heap, such as `2g`; empty: as the TaskExecutor's configuration says."""
    cores: int = 0
    """How many tasks of Spark it runs at once; 0: as the TaskExecutor's configuration says."""

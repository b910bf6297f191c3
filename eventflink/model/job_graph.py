"""The JobGraph as the core and the log know it: plain records that have already been validated.

The document that people write, and every check of it, is in `job_graph_document.py`; nothing here checks anything.
These classes mirror the schemas of the same names; a test holds the two together.
"""

from dataclasses import dataclass

from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import RestartStrategyType, ShipStrategy, TaskType


@dataclass(slots=True)
class RestartStrategy:
    """How often, and how long after, a failed region is started again."""

    strategy_type: RestartStrategyType
    attempts: int = 0
    delay_ms: int = 0


@dataclass(slots=True)
class JobVertex:
    """One vertex of a JobGraph: a PySpark task and how many subtasks share it out."""

    vertex_id: str
    task_type: TaskType
    task: str
    parallelism: int = 1
    max_parallelism: int = 128
    parameters_json: str = "{}"
    resources: ResourceProfile | None = None
    """What each subtask asks of its slot; None: any slot will do."""


@dataclass(slots=True, kw_only=True)
class JobEdge:
    """A blocking edge: its reader starts when its writer has finished."""

    source: str
    target: str
    output: str = "default"
    input_name: str
    ship: ShipStrategy
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class JobGraph:
    """A directed acyclic graph of vertices, validated before it enters the log."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    restart_strategy: RestartStrategy
    code_archives: tuple[str, ...] = ()

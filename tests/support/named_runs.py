"""Jobs that are runs of one name, in a scripted cluster."""

from typing import Any, Final

from eventflink.events.effects import TaskDeployment
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import ExecutionState
from tests.support.cluster import ScriptedCluster, graph, vertex

DAY: Final = {"day": {"type": "date", "default": "2026-11-01"}}


def orders(day: str = "2026-11-25", name: str = "orders", **more: Any) -> dict[str, Any]:
    """Return a job of two vertices with a parameter."""
    parameters = {"day": DAY["day"] | {"value": day}}
    return graph(vertex("read"), vertex("count", 2), edges=[("read", "count", "hash")], parameters=parameters, **more) | {"name": name}


def run(cluster: ScriptedCluster, job_id: str, document: dict[str, Any], *, fails: str = "") -> None:
    """Run a job to its end, each task for 100 ms; those of one vertex fail."""

    def end(task: TaskDeployment) -> ExecutionState:
        cluster.monotonic_ms += 100
        cluster.wall_ms += 100
        return ExecutionState.FAILED if task.vertex_id == fails else ExecutionState.FINISHED

    cluster.run(cluster.submit(document, job_id=job_id), end)
    cluster.pass_time(50)


def new_cluster(settings: MasterSettings | None = None) -> ScriptedCluster:
    """Return a cluster with four slots."""
    cluster = ScriptedCluster(settings or MasterSettings())
    cluster.register(slots=4)
    return cluster

"""Jobs that have ended, with something to tell: failures, attempts, checkpoints."""

from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState
from tests.support.cluster import (
    START_MS,
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    orders,
    state_report,
    stream,
    vertex,
)

STREAMS = "00112233445566778899aabbccddeeff"
FAILED = "ffeeddccbbaa99887766554433221100"
"""Ids as Flink has them."""


def cancel_streams(cluster: ScriptedCluster, job_id: str = "job") -> None:
    """Run a job of streams that takes a checkpoint and is cancelled."""
    document = graph(stream("s", 2), checkpointing={"interval_ms": 100})
    for task in deployments(cluster.submit(document, job_id=job_id)):
        cluster.start_stream(task)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3, state_rows=5, state_bytes=70, watermark_ms=START_MS)
    cluster.say(*[state_report(order, ExecutionState.CANCELED) for order in cancellations(cluster.cancel(job_id))])


def fail_twice(cluster: ScriptedCluster, job_id: str) -> None:
    """Run a job whose task fails, is started again, and fails for good."""
    document = graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")], restart_strategy=fixed_delay(1))
    [first] = deployments(cluster.submit(document, job_id=job_id))
    cluster.pass_time(7)
    cluster.report(first, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    [second] = deployments(cluster.pass_time(1_000))
    cluster.report(second, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'y' on Straßenbahn \U0001f68b", None))


def ended_cluster() -> ScriptedCluster:
    """Return a cluster with a job of either kind, which have ended."""
    cluster = ScriptedCluster()
    cluster.register(slots=8)
    cancel_streams(cluster, STREAMS)
    fail_twice(cluster, FAILED)
    return cluster

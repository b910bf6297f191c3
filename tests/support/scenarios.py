"""Rich states and logs: everything that a cluster can be in the middle of, made by the real leader."""

from eventflink.events.inputs import SlotReport, TaskManagerDeath
from eventflink.events.topics import Topic
from eventflink.master.inputs import CleanupFailed, CleanupsCompleted
from eventflink.master.master import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, vertex


def busy_cluster() -> ScriptedCluster:
    """Return a cluster with something in every store: jobs of every status, slots of every state, requests, uploads."""
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=2))
    cluster.register("tm1", slots=6)
    cluster.register("tm2", slots=2)
    for number in range(4):
        cluster.run(cluster.submit(graph(vertex("a")), job_id=f"done{number}"))
    cluster.pass_time(1)  # done0 and done1 are evicted.
    cluster.leader.timers.clear()
    [dirty] = deployments(cluster.submit(graph(vertex("a")), job_id="dirty"))
    cluster.report(dirty, ExecutionState.FINISHED)
    running = deployments(cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")]), job_id="running"))
    cluster.report(running[0], ExecutionState.RUNNING)
    [failed] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3)), job_id="restarting"))
    cluster.report(failed, ExecutionState.FAILED)
    cancelled = deployments(cluster.submit(graph(vertex("a")), job_id="cancelling"))
    cluster.report(cancelled[0], ExecutionState.RUNNING)
    cluster.cancel("cancelling")
    failing = deployments(cluster.submit(graph(vertex("a", 2)), job_id="failing"))
    cluster.report(failing[0], ExecutionState.FAILED)
    cluster.submit(graph(vertex("a", 9)), job_id="waiting")
    cluster.command(type="RequestFileUpload", request_id="upload", job_id="running", vertex_id="a")
    return cluster


def eventful_cluster() -> ScriptedCluster:
    """Return a cluster whose log holds nearly every event: what busy_cluster does, then losses, refusals, failovers, ends."""
    cluster = busy_cluster()
    cluster.put(Topic.SUBMISSIONS, b"garbage", key=b"some-job")
    cluster.put(Topic.COMMANDS, b'{"type": "Nonsense"}')
    cluster.settle()
    cluster.submit(graph(vertex("a")), job_id="running", request_id="duplicate")
    cluster.submit(graph(vertex("a")), job_id="running", request_id="duplicate")
    cluster.say(SlotReport("tm1", "tm1-1", (), ()))
    cluster.timer(CleanupFailed("dirty", "permission denied"))
    cluster.fail_over()
    cluster.settle()
    cluster.say(TaskManagerDeath("tm2", "tm2-1", "exit code 137"))
    cluster.register("tm2", slots=3, instance="2")
    cluster.pass_time(600)
    effects = cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(2, 0)), job_id="refused")
    for deployment in deployments(effects)[:1]:
        effects += cluster.refuse(deployment)
    cluster.cancel("waiting")
    cluster.pass_time(400_000)
    cluster.timer(CleanupsCompleted(("dirty",)))
    cluster.register("tm3", slots=4)
    cluster.fail_over()
    cluster.run(cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[("a", "b", "forward")]), job_id="last"))
    cluster.run(cluster.submit(graph(vertex("a")), job_id="bad"), lambda _: ExecutionState.FAILED)
    [one] = deployments(cluster.submit(graph(vertex("a")), job_id="caused"))
    cluster.report(one, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    cluster.pass_time(1)
    return cluster

"""What no registered slot can ever satisfy fails, with the reason, when the time in which others could have come is over."""

from collections.abc import Iterator

import pytest

from eventflink.events.log_events import SlotRequestDeferred, SlotRequestTimedOut, SlotRequestUnfulfillable, TaskFailed
from eventflink.master.settings import MasterSettings
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, vertex

SMALL = ResourceProfile(500, 512 << 20)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with small slots and ten seconds of start-up; its log is replayed at the end."""
    scripted = ScriptedCluster(MasterSettings(start_up_time_ms=10_000, slot_request_timeout_ms=60_000))
    scripted.register("small", 2, profile=SMALL)
    yield scripted
    scripted.check()


def test_a_job_that_asks_for_more_than_there_is_fails_after_the_start_up_time(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a", 3, task_heap_memory="1g"), vertex("b")))
    cluster.pass_time(9_999)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1)
    [event] = cluster.events(SlotRequestUnfulfillable)
    none_has = "none of the 2 registered slots has room for task heap 1g (2 with cpu 0.5, task heap 512m)"
    assert event.reason == f"no slot can satisfy the request: {none_has}"
    [failed] = cluster.events(TaskFailed)
    assert (failed.cause.failure_type, failed.cause.message) == ("UnfulfillableSlotRequest", event.reason)
    assert cluster.job("job").cause == failed.cause
    assert cluster.job("job").status is JobStatus.FAILING, "its other task still runs"
    assert not cluster.master.slot_manager.pending


def test_from_then_on_it_fails_at_once(cluster: ScriptedCluster) -> None:
    cluster.pass_time(10_000)
    for job_id in ("one", "two"):
        cluster.submit(graph(vertex("a", 2, managed_memory="1g")), job_id=job_id)
    cluster.pass_time(1)
    assert [cluster.job(j).status for j in ("one", "two")] == [JobStatus.FAILED, JobStatus.FAILED]
    assert len(cluster.events(SlotRequestUnfulfillable)) == 2, "one of each job: the rest is the job's to end"


def test_a_restart_strategy_has_its_say(cluster: ScriptedCluster) -> None:
    cluster.pass_time(10_000)
    cluster.submit(graph(vertex("a", managed_memory="1g"), restart_strategy=fixed_delay(2, 5_000)))
    cluster.pass_time(1)
    assert cluster.job("job").status is JobStatus.RESTARTING
    cluster.register("large", 1, profile=ResourceProfile(managed_bytes=1 << 30))
    [one] = deployments(cluster.pass_time(5_000))
    cluster.report(one, ExecutionState.FINISHED)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_what_fits_but_is_taken_or_blocked_is_not_unfulfillable(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a", 3, cpu_cores=0.5)))
    cluster.block("small")
    cluster.pass_time(20_000)
    assert not cluster.events(SlotRequestUnfulfillable)
    cluster.pass_time(40_000)
    [_] = cluster.events(SlotRequestTimedOut)
    assert cluster.events(TaskFailed)[0].cause.message == (
        "no slot was given to it within 60000 ms: no slot is free on a TaskManager that is not blocked"
    )


def test_without_any_task_manager_nothing_is_unfulfillable(cluster: ScriptedCluster) -> None:
    """What the cluster has is not known then."""
    cluster.register("small", 2, instance="2", profile=SMALL)
    cluster.pass_time(10_000)
    cluster.submit(graph(vertex("a", managed_memory="1g")))
    assert len(cluster.events(SlotRequestDeferred)) == 1
    bare = ScriptedCluster(MasterSettings(start_up_time_ms=0, slot_request_timeout_ms=60_000))
    bare.submit(graph(vertex("a", managed_memory="1g")))
    bare.pass_time(59_999)
    assert bare.job("job").status is JobStatus.RUNNING
    bare.check()


def test_the_start_up_time_starts_empty_with_each_leader(cluster: ScriptedCluster) -> None:
    cluster.pass_time(9_000)
    cluster.fail_over()
    cluster.submit(graph(vertex("a", managed_memory="1g")))
    cluster.pass_time(9_000)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1_000)
    assert cluster.job("job").status is JobStatus.FAILED


def test_where_the_configuration_has_it_so_they_wait_for_the_timeout() -> None:
    cluster = ScriptedCluster(MasterSettings(start_up_time_ms=0, fail_unfulfillable_requests=False, slot_request_timeout_ms=60_000))
    cluster.register("small", 2, profile=SMALL)
    cluster.submit(graph(vertex("a", managed_memory="1g")))
    cluster.pass_time(59_999)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.pass_time(1)
    assert not cluster.events(SlotRequestUnfulfillable)
    [failed] = cluster.events(TaskFailed)
    assert failed.cause.failure_type == "NoResourceAvailable"
    assert failed.cause.message.endswith("none of the 2 registered slots has room for managed 1g (2 with cpu 0.5, task heap 512m)")
    cluster.check()

"""Slots of two sizes: one real master and two real TaskExecutors. What asks for more runs where there is more, or fails with the reason."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from eventflink.cli.main import cli
from eventflink.events.log_events import SlotRequestDeferred, SlotRequestUnfulfillable, TaskManagerBlocked, TaskManagerUnblocked
from eventflink.gateways.errors import RequestRefused
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import JobStatus, SlotRequestDeferralReason
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow
SLOTS = 2


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    overrides = {"resourcemanager.standalone.start-up-time": 8_000, "taskmanager.numberOfTaskSlots": SLOTS}
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **overrides) as running:
        running.start_master()
        for task_manager_id, size in (("small", "256m"), ("large", "4g")):
            resources = {"taskmanager.memory.task.heap.size": size, "taskmanager.cpu.cores": 2}
            running.start(task_manager_id, "taskexecutor", **{"taskmanager.id": task_manager_id, **resources})
        wanted = {"small", "large"}
        running.wait_for(lambda fold: wanted <= fold.master.resource_manager.task_managers.keys(), "both registered")
        yield running


def _graph(parallelism: int = 1, **resources: Any) -> JobGraph:
    vertex = {"id": "only", "python": "eventflink.testing.tasks:noop", "parallelism": parallelism, "resources": resources}
    return parse_job_graph({"name": "noop", "vertices": [vertex]}, "test")


def _places(cluster: RunningCluster, job_id: str) -> set[str]:
    return {execution.task_manager_id for subtask in cluster.job(job_id).execution_graph.subtasks() for execution in subtask.executions}


def _run(cluster: RunningCluster, *arguments: str) -> Any:
    """Run a command as a person does, and return what it prints as JSON."""
    done = CliRunner().invoke(
        cli, ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, *arguments, "--json"], standalone_mode=False
    )
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def test_a_task_executor_registers_what_its_configuration_says(cluster: RunningCluster) -> None:
    profiles = {name: held.profile for name, held in cluster.state().master.slot_manager.task_managers.items()}
    assert profiles == {"small": ResourceProfile(1_000, 128 << 20), "large": ResourceProfile(1_000, 2 << 30)}


def test_a_job_that_asks_for_more_memory_runs_where_there_is_more(cluster: RunningCluster) -> None:
    job_id = cluster.submit(_graph(6, task_heap_memory="1g"))
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert _places(cluster, job_id) == {"large"}
    anywhere = cluster.submit(_graph(6))
    cluster.wait_for_status(anywhere, JobStatus.FINISHED)
    assert _places(cluster, anywhere) == {"small", "large"}


def test_a_job_that_no_slot_can_ever_satisfy_fails_with_the_reason(cluster: RunningCluster) -> None:
    job_id = cluster.submit(_graph(2, task_heap_memory="64g"))
    job = cluster.wait_for_status(job_id, JobStatus.FAILED)
    slots = "2 with cpu 1, task heap 2g; 2 with cpu 1, task heap 128m"
    reason = f"no slot can satisfy the request: none of the 4 registered slots has room for task heap 64g ({slots})"
    assert job.cause is not None
    assert (job.cause.failure_type, job.cause.message) == ("UnfulfillableSlotRequest", reason)
    events = [e for _, d in cluster.decisions() for e in d.events]
    assert [e.reason for e in events if isinstance(e, SlotRequestUnfulfillable)] == [reason]
    [deferred] = [e for e in events if isinstance(e, SlotRequestDeferred) and e.job_id == job_id]
    assert (deferred.reason, deferred.requests) == (SlotRequestDeferralReason.NO_FITTING_SLOT, 2)
    assert reason in _run(cluster, "status", job_id)["cause"]["message"]


def test_a_blocked_task_manager_gets_no_new_tasks_until_it_is_unblocked(cluster: RunningCluster) -> None:
    accepted = _run(cluster, "taskmanager", "block", "large", "--reason", "its disk is full")
    assert accepted["task_manager_id"] == "large"
    [blocked] = _run(cluster, "taskmanager", "list")["blocked"]
    assert (blocked["task_manager_id"], blocked["reason"], blocked["until"]) == ("large", "its disk is full", None)
    elsewhere = cluster.submit(_graph(4))
    cluster.wait_for_status(elsewhere, JobStatus.FINISHED)
    assert _places(cluster, elsewhere) == {"small"}
    waiting = cluster.submit(_graph(task_heap_memory="1g"))
    cluster.wait_for(lambda fold: waiting in fold.master.dispatcher.jobs, "submitted")
    [requests] = _run(cluster, "status", waiting)["slot_requests"]
    assert (requests["reason"], requests["requests"]) == ("TASK_MANAGERS_BLOCKED", 1)
    explained = _run(cluster, "why", waiting)
    assert "no slot is free on a TaskManager that is not blocked" in explained["waits"][0]["why"]
    assert any("SlotRequestDeferred" in event for step in explained["chain"] for event in step["events"])
    _run(cluster, "taskmanager", "unblock", "large")
    cluster.wait_for_status(waiting, JobStatus.FINISHED)
    assert _places(cluster, waiting) == {"large"}


def test_a_block_ends_by_itself_and_what_nobody_knows_is_refused(cluster: RunningCluster) -> None:
    with ResourceManagerGateway(cluster.access) as gateway:
        gateway.block_task_manager("small", duration_ms=300, actor="test")
        with pytest.raises(RequestRefused, match="TaskManager not found: 'none' is not registered"):
            gateway.block_task_manager("none")
    cluster.wait_for(lambda fold: not fold.master.blocklist.task_managers, "unblocked")
    events = [e for _, d in cluster.decisions() for e in d.events if isinstance(e, TaskManagerBlocked | TaskManagerUnblocked)]
    assert isinstance(events[-2], TaskManagerBlocked)
    assert (events[-2].task_manager_id, events[-2].actor) == ("small", "test (declared)")
    assert events[-1] == TaskManagerUnblocked("small", "its time was over", "")

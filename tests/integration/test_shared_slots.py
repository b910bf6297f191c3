"""Slot sharing on a running cluster with one slot: two vertices run in it at the same time, as processes that see each other."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eventflink.cli.main import cli
from eventflink.documents.one_job import SlotRequirement
from eventflink.events.log_events import SlotFreed, SlotShared, SlotShareReturned, TaskFailed, TaskManagerReportReconciled
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.log.administration import delete_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import ExecutionState, JobStatus, SlotState
from tests.support.running_cluster import RunningCluster, is_alive, kill_9, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    running = RunningCluster(bootstrap, f"test-{uuid.uuid4().hex[:12]}", tmp_path)
    running.start_master()
    running.start_task_executor(slots=1)
    yield running
    running.close()
    delete_topics(access_to(bootstrap, running.cluster_id))


def _submit(cluster: RunningCluster, path: Path) -> str:
    vertices = [
        {"id": name, "python": "user_tasks:meet", "parameters": {"path": str(path), "other": other}, "slot_sharing_group": "pair"}
        for name, other in (("left", "right"), ("right", "left"))
    ]
    return cluster.submit(cluster.graph(*vertices, restart_strategy={"type": "fixed-delay", "attempts": 5, "delay_ms": 100}))


def _wait_until_they_met(path: Path, attempt: int) -> tuple[int, int]:
    """Return the processes of both."""
    both = [Path(f"{path}.{name}.{attempt}") for name in ("left", "right")]
    wait_until(lambda: all(Path(f"{each}.met").exists() for each in both), "each has seen the other one alive")
    left, right = (int(each.read_text()) for each in both)
    return left, right


def test_two_vertices_of_a_group_run_in_the_only_slot_at_the_same_time(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = _submit(cluster, tmp_path / "pair")
    left, right = _wait_until_they_met(tmp_path / "pair", 1)
    assert left != right
    assert is_alive(left)
    assert is_alive(right)
    cluster.wait_for_running(job_id)
    with ResourceManagerGateway(cluster.access) as gateway:
        [slot] = gateway.request_task_manager_details_info("tm").slot_states
    assert slot.state is SlotState.ALLOCATED
    assert {attempt.vertex_id for attempt in slot.attempts} == {"left", "right"}
    with DispatcherGateway(cluster.access) as dispatcher:
        info = dispatcher.request_job(job_id)
    assert info.slot_requirements == [SlotRequirement(slot_sharing_group="pair", resources=None, required=1, held=1, requested=0)]
    assert [vertex.slot_sharing_group for vertex in info.vertices] == ["pair", "pair"]
    shown = _run(cluster, "status", job_id)
    assert "slots of the slot sharing group 'pair': 1 required, 1 held" in shown
    assert json.loads(_run(cluster, "why", f"{job_id}/right[0]", "--json"))["facts"]["shares_its_slot_with"] == f"{job_id}/left[0]#1"
    (tmp_path / "pair.go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    events = [e for _, d in cluster.decisions() for e in d.events]
    assert [sum(isinstance(e, kind) for e in events) for kind in (SlotShared, SlotShareReturned, SlotFreed)] == [1, 1, 1]
    assert cluster.state().master.slot_manager.get_number_free_slots() == 1


def test_kill_9_of_the_task_executor_starts_all_that_shared_its_slot_again(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = _submit(cluster, tmp_path / "pair")
    processes = _wait_until_they_met(tmp_path / "pair", 1)
    cluster.wait_for_running(job_id)
    task_executor = cluster.processes.pop("tm")
    kill_9(task_executor.pid)
    task_executor.wait()
    cluster.start_task_executor("another", slots=1)
    _wait_until_they_met(tmp_path / "pair", 2)
    assert not any(map(is_alive, processes))
    failed = [e for e in cluster.events_of(job_id) if isinstance(e, TaskFailed)]
    assert {(e.vertex_id, e.cause.failure_type) for e in failed} == {("left", "TaskManagerLost"), ("right", "TaskManagerLost")}
    (tmp_path / "pair.go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)


def test_who_shares_a_slot_goes_on_when_the_leader_is_killed(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = _submit(cluster, tmp_path / "pair")
    processes = _wait_until_they_met(tmp_path / "pair", 1)
    cluster.wait_for_running(job_id)
    master = cluster.processes.pop("master")
    kill_9(master.pid)
    master.wait()
    cluster.start_master("successor")
    wait_until(lambda: _reconciled(cluster), "the successor has heard what the TaskExecutor runs")
    assert not _reconciled(cluster)[-1].missing
    assert not _reconciled(cluster)[-1].unknown
    assert all(map(is_alive, processes))
    (tmp_path / "pair.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert [(s.state, s.attempt) for s in job.execution_graph.subtasks()] == [(ExecutionState.FINISHED, 1)] * 2


def _reconciled(cluster: RunningCluster) -> list[TaskManagerReportReconciled]:
    return [e for _, d in cluster.decisions() for e in d.events if isinstance(e, TaskManagerReportReconciled)]


def _run(cluster: RunningCluster, *arguments: str) -> Any:
    """Run a command as a person does, and return what it prints."""
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    done = CliRunner().invoke(cli, [*options, *arguments], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.stdout

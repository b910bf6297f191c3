"""A running cluster whose master starts TaskExecutors when slots are missing, adopts those of its predecessor, and stops idle ones."""

import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.events.log_events import TaskManagerReleased, WorkerRequested, WorkerRequestFailed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.log.administration import delete_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import load_configuration
from eventflink.model.statuses import ApplicationStatus, JobStatus
from eventflink.processes.identity import is_running
from eventflink.processes.worker_processes import WorkerProcesses
from tests.support.running_cluster import RunningCluster, kill_9, wait_until

pytestmark = pytest.mark.slow
DRIVER = {
    "resourcemanager.driver": "process",
    "resourcemanager.taskmanager-timeout": 1_000,
    "taskmanager.numberOfTaskSlots": 1,
    "slotmanager.number-of-slots.max": 2,
}


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """A cluster without processes, whose masters have the driver `process`; no worker is left of it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    running = RunningCluster(bootstrap, name, tmp_path, **DRIVER)
    yield running
    running.close()
    processes_of(running).stop_all(30)
    delete_topics(access_to(bootstrap, name))


def processes_of(cluster: RunningCluster) -> WorkerProcesses:
    configuration = load_configuration(None, {key: str(value) for key, value in cluster.overrides.items()})
    return WorkerProcesses(configuration.pid_path, configuration.log_path)


def workers(cluster: RunningCluster) -> dict[str, int]:
    """Return the processes of the workers that run."""
    return {file.daemon_id: file.process_id for file in processes_of(cluster).files.all() if is_running(file.identity)}


def events(cluster: RunningCluster, *kinds: type) -> list[object]:
    return [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, kinds)]


def test_a_job_gets_a_worker_where_there_is_no_task_manager_and_the_idle_worker_goes(cluster: RunningCluster) -> None:
    cluster.start_master()
    job_id = cluster.run_task("noop")
    with ResourceManagerGateway(cluster.access) as gateway:
        wait_until(lambda: events(cluster, WorkerRequested), "a worker is asked for", 120)
        cluster.wait_for_status(job_id, JobStatus.FINISHED)
        assert gateway.get_number_pending_task_manager_slots() == 0
        wait_until(lambda: not workers(cluster), "the worker has ended")
        assert gateway.get_number_registered_slots() == 0
    [asked] = events(cluster, WorkerRequested)
    [released] = events(cluster, TaskManagerReleased)
    assert isinstance(asked, WorkerRequested)
    assert isinstance(released, TaskManagerReleased)
    assert asked.worker_id == released.task_manager_id == "worker-1"
    wait_until(lambda: not processes_of(cluster).files.all(), "nothing is left of it")


def test_a_task_goes_on_when_the_master_that_had_its_worker_started_is_killed(cluster: RunningCluster) -> None:
    cluster.start_master("first")
    gate = cluster.directory / "task"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    before = workers(cluster)
    cluster.kill("first")
    cluster.start_master("second")
    assert workers(cluster) == before, "the process that was there continues"
    gate.with_suffix(".go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert cluster.job(job_id).restarts.count == 0
    assert [s.attempt for s in cluster.job(job_id).execution_graph.subtasks()] == [1]
    assert len(events(cluster, WorkerRequested)) == 1
    wait_until(lambda: not workers(cluster), "the next leader stops the worker of its predecessor")
    assert not events(cluster, WorkerRequestFailed)


@pytest.mark.rule("L5")
def test_an_orphan_is_stopped_and_a_worker_that_died_without_a_leader_is_replaced(cluster: RunningCluster) -> None:
    cluster.start_master("first")
    gate = cluster.directory / "task"
    job_id = cluster.run_task("wait_for_file", path=str(gate), restarts=3)
    cluster.wait_for_running(job_id)
    processes = processes_of(cluster)
    cluster.kill("first")
    orphan = processes.start(
        "worker-77", [sys.executable, "-c", "import time; time.sleep(600)"], epoch=99, host="here", bootstrap=cluster.bootstrap
    )
    wait_until(lambda: "worker-77" in workers(cluster), "the orphan runs")
    kill_9(workers(cluster)["worker-1"])
    cluster.start_master("second")
    assert wait_until(orphan.poll, "the orphan is stopped") == -signal.SIGTERM
    wait_until(lambda: "worker-2" in workers(cluster), "another worker is started")
    gate.with_suffix(".go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    wait_until(lambda: not processes.files.all(), "nothing is left of all three")


def test_a_program_that_cannot_run_is_told_with_the_end_of_its_log(cluster: RunningCluster) -> None:
    """The slots of its TaskExecutors say nothing that a TaskExecutor could not be started with, but its log directory is a file."""
    (cluster.directory / "logs").write_text("no directory")
    cluster.overrides["env.log.dir"] = cluster.directory / "logs"
    cluster.start_master()
    job_id = cluster.run_task("noop")
    cluster.wait_for(lambda fold: len(fold.master.workers.given_up) >= 2, "two requests have failed")
    failed = events(cluster, WorkerRequestFailed)[0]
    assert isinstance(failed, WorkerRequestFailed)
    assert failed.reason.startswith("the resource driver cannot start it: env.log.dir: ")
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)


def test_the_driver_is_told_how_the_cluster_ended_and_starts_workers_again_when_it_starts_again(cluster: RunningCluster) -> None:
    cluster.start_master("first")
    gate = cluster.directory / "task"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    with DispatcherGateway(cluster.access) as gateway:
        gateway.shut_down_cluster(ApplicationStatus.SUCCEEDED, "the day is over")
    assert cluster.processes["first"].wait(120) == 0, cluster.output("first")
    assert "ApplicationDeregistered status=SUCCEEDED" in cluster.output("first")
    assert "diagnostics=the day is over" in cluster.output("first")
    assert not processes_of(cluster).files.all(), "no worker is left"
    cluster.start_master("second")
    gate.with_suffix(".go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert [event.worker_id for event in events(cluster, WorkerRequested) if isinstance(event, WorkerRequested)] == ["worker-1", "worker-2"]

"""A master runs an author's entry point or one graph, and ends the cluster as its jobs ended; the leader runs it, and no job runs twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.log_events import ApplicationStatusRecorded, JobResultStored, JobSubmitted, RequestRepeated
from eventflink.gateways.application import application_job_id
from eventflink.model.statuses import ApplicationStatus, JobStatus
from tests.support.running_cluster import TIMEOUT_S, RunningCluster, is_alive, wait_until

pytestmark = pytest.mark.slow
MAINS = "tests.support.application_mains"


@pytest.fixture
def cluster(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[RunningCluster]:
    running = RunningCluster(bootstrap, cluster_id, tmp_path)
    yield running
    running.close()


def _start(cluster: RunningCluster, name: str, *command: str) -> None:
    cluster.masters.add(name)
    cluster.start(name, *command, **{"jobmanager.id": name})


def _exit_code(cluster: RunningCluster, name: str) -> int:
    return cluster.processes.pop(name).wait(TIMEOUT_S)


def _events(cluster: RunningCluster, *kinds: type[Any]) -> list[Any]:
    return [e for _, d in cluster.decisions() for e in d.events if isinstance(e, kinds)]


def test_a_main_is_run_again_by_the_next_leader_and_finds_its_jobs(cluster: RunningCluster, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = ("application", f"{MAINS}:two_jobs", str(journal))
    _start(cluster, "first", *command)
    cluster.wait_for(lambda fold: fold.acceptance.epoch == 1, "a leader")
    cluster.start_host("host")
    _start(cluster, "second", *command)
    cluster.wait_for(lambda fold: len(fold.master.dispatcher.ended) == 1, "the first job has ended")
    [first_run] = journal.read_text().split()
    cluster.kill("first")
    wait_until(lambda: not is_alive(int(first_run)), "the main goes with its master", 120)
    wait_until(lambda: len(journal.read_text().split()) == 2, "the next leader runs it")
    Path(f"{journal}.go").touch()
    assert _exit_code(cluster, "second") == 0, cluster.output("second")
    assert _exit_code(cluster, "host") == 0, cluster.output("host")
    expected = [application_job_id(cluster.cluster_id, "application", number) for number in (1, 2)]
    assert [e.job_id for e in _events(cluster, JobSubmitted)] == expected, "each job once"
    assert [(e.job_id, e.status) for e in _events(cluster, JobResultStored)] == [(job, JobStatus.FINISHED) for job in expected]
    assert [e.request_id for e in _events(cluster, RequestRepeated)].count(f"{expected[0]}-submission") == 1
    assert _events(cluster, ApplicationStatusRecorded) == [ApplicationStatusRecorded(ApplicationStatus.SUCCEEDED, "")]


def test_a_main_that_raises_ends_the_cluster_as_failed_with_its_traceback(cluster: RunningCluster) -> None:
    _start(cluster, "master", "application", f"{MAINS}:raise_an_error", "as the test wanted")
    assert _exit_code(cluster, "master") == 163, cluster.output("master")
    [recorded] = _events(cluster, ApplicationStatusRecorded)
    assert recorded.application_status is ApplicationStatus.FAILED
    assert "LookupError: as the test wanted" in recorded.diagnostics
    assert [e.status for e in _events(cluster, JobResultStored)] == [JobStatus.CANCELED], "nobody would ever resume it"


def test_a_main_whose_process_is_killed_ends_the_cluster_as_failed(cluster: RunningCluster) -> None:
    _start(cluster, "master", "application", f"{MAINS}:die")
    assert _exit_code(cluster, "master") == 163, cluster.output("master")
    [recorded] = _events(cluster, ApplicationStatusRecorded)
    assert "was killed by signal 9" in recorded.diagnostics


def test_a_job_cluster_runs_one_graph_with_its_code_and_ends_as_its_job(cluster: RunningCluster, tmp_path: Path) -> None:
    document = tmp_path / "graph.json"
    vertex = {"id": "task", "python": "user_tasks:fail", "parameters": {"message": "as the test wanted"}}
    document.write_text(json.dumps({"name": "one job", "vertices": [vertex]}))
    code = Path(__file__).parents[1] / "support" / "user_tasks.py"
    _start(cluster, "master", "standalone-job", str(document), "--code", str(code), "--job-id", "only")
    cluster.wait_for(lambda fold: "only" in fold.master.dispatcher.jobs, "the job is there")
    cluster.start("tm", "taskexecutor", **{"taskmanager.id": "tm"})
    assert _exit_code(cluster, "master") == 163, cluster.output("master")
    assert _exit_code(cluster, "tm") == 0, cluster.output("tm")
    [recorded] = _events(cluster, ApplicationStatusRecorded)
    assert recorded.diagnostics == "job only is FAILED: LookupError: as the test wanted"

"""kill -9, for real, of every kind of process: what was accepted stays, what ran continues or runs again, and nothing is left behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.events.log_events import TaskManagerLost
from eventflink.log.replay import new_fold, replay
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import EAGER, RunningCluster, descendants, is_alive, kill_9, running_cluster, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path, **EAGER) as running:
        running.start_master()
        yield running


def process_of(gate: Path, subtask: int = 0, attempt: int = 1) -> int:
    """Return the id of the process that `wait_for_file` runs in."""
    path = gate.with_name(f"{gate.name}.{subtask}.{attempt}")
    return int(wait_until(lambda: path.exists() and path.read_text(), f"{path} written"))


def test_kill_9_of_a_task_process_fails_the_attempt_and_the_restart_strategy_applies(cluster: RunningCluster, tmp_path: Path) -> None:
    cluster.start_task_executor()
    gate = tmp_path / "gate"
    once = cluster.run_task("wait_for_file", path=str(gate))
    kill_9(process_of(gate))
    job = cluster.wait_for_status(once, JobStatus.FAILED)
    assert job.cause is not None
    assert job.cause.failure_type == "TaskProcessDied"
    assert "SIGKILL" in job.cause.message

    gate = tmp_path / "other"
    restarted = cluster.run_task("wait_in_first_attempt", restarts=1, path=str(gate))
    kill_9(process_of(gate))
    job = cluster.wait_for_status(restarted, JobStatus.FINISHED)
    assert [s.attempt for s in job.execution_graph.subtasks()] == [2]
    assert job.restarts.count == 1


def test_kill_9_of_a_task_executor_is_reported_by_its_guardian_and_its_tasks_run_elsewhere(cluster: RunningCluster, tmp_path: Path) -> None:
    first = cluster.start_task_executor("tm-a")
    gate = tmp_path / "gate"
    job_id = cluster.run_task("wait_for_file", parallelism=2, restarts=4, path=str(gate))
    cluster.wait_for_running(job_id)
    tasks = [process_of(gate, subtask) for subtask in (0, 1)]
    below = descendants(first)
    spark = [p for p in below if "spark" in " ".join(p.cmdline()).lower()]
    cluster.start_task_executor("tm-b")
    cluster.kill("tm-a")
    wait_until(lambda: not any(map(is_alive, tasks)), "task processes gone", 120)
    wait_until(lambda: not any(is_alive(p.pid) for p in below if p not in spark), "nothing is left of it", 120)
    cluster.wait_for(lambda fold: "tm-a" not in fold.master.resource_manager.task_managers, "tm-a lost")
    [lost] = [e for _, d in cluster.decisions() for e in d.events if isinstance(e, TaskManagerLost)]
    assert lost.reason.endswith("ended without deregistering"), "its guardian said so, before its heartbeats were missed"
    cluster.wait_for_running(job_id, attempt=2)
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert [s.attempt for s in job.execution_graph.subtasks()] == [2, 2]


def test_a_task_executor_killed_with_its_guardian_is_lost_after_the_missed_beats(cluster: RunningCluster, tmp_path: Path) -> None:
    process = cluster.start_task_executor("tm-a")
    cluster.start_task_executor("tm-b", slots=1)
    gate = tmp_path / "gate"
    job_id = cluster.run_task("wait_for_file", parallelism=3, restarts=4, path=str(gate))
    cluster.wait_for_running(job_id)
    guardians = [p for p in descendants(process) if "guardian" in " ".join(p.cmdline())]
    assert guardians
    for guardian in guardians:
        kill_9(guardian.pid)
    cluster.kill("tm-a")
    cluster.wait_for(lambda fold: "tm-a" not in fold.master.resource_manager.task_managers, "tm-a lost", 120)
    lost = [e for _, d in cluster.decisions() for e in d.events if type(e).__name__ == "TaskManagerLost"]
    assert "no heartbeat for" in lost[0].reason  # type: ignore[attr-defined]
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert sorted(s.attempt for s in job.execution_graph.subtasks()) == [1, 2, 2]


def test_kill_9_of_the_master_disturbs_no_running_task_and_loses_no_job(cluster: RunningCluster, tmp_path: Path) -> None:
    """Replay: running tasks were not restarted, accepted jobs are there, what came meanwhile is decided."""
    cluster.start_task_executor(slots=3)
    gate = tmp_path / "gate"
    running = cluster.run_task("wait_for_file", parallelism=2, path=str(gate))
    cluster.wait_for_running(running)
    tasks = [process_of(gate, subtask) for subtask in (0, 1)]
    graph = cluster.graph({"id": "task", "python": "user_tasks:noop"})
    accepted = [cluster.submit(graph) for _ in range(20)]
    cluster.kill("master")
    before = cluster.state()
    digest_before, offset_before = before.master.digest(), before.last_offset
    gate.with_name("gate.go").touch()
    wait_until(lambda: not any(map(is_alive, tasks)), "the tasks ended while nobody led")
    cluster.start_master()
    for job_id in (*accepted, running):
        job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
        assert {s.attempt for s in job.execution_graph.subtasks()} == {1}
    assert cluster.state().last_offset > offset_before
    again = replay(cluster.access, new_fold(cluster.access), end_offset=offset_before + 1)
    assert again.master.digest() == digest_before


def test_stopping_and_starting_the_master_again_and_again_changes_nothing_for_a_running_task(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    cluster.start_task_executor()
    gate = tmp_path / "gate"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    task = process_of(gate)
    for way in ("stop", "kill"):
        getattr(cluster, way)("master")
        cluster.start_master()
        cluster.wait_for(lambda fold: any(True for _ in fold.master.resource_manager.task_managers), "still registered")
        assert is_alive(task)
    assert cluster.state().acceptance.epoch >= 3
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert [s.attempt for s in job.execution_graph.subtasks()] == [1]


def test_a_second_master_waits_and_leads_when_the_first_is_killed(cluster: RunningCluster, tmp_path: Path) -> None:
    """No fight for the leadership, no lost job, no restarted task."""
    cluster.start_task_executor()
    gate = tmp_path / "gate"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    # It takes no silence for an end: a busy host may silence any process. The guardian tells of the kill.
    cluster.start_standby("second", **{"high-availability.lease-timeout": 600_000})
    assert cluster.state().acceptance.leader_id.startswith("master-")
    cluster.kill("master")
    cluster.wait_for(lambda fold: fold.acceptance.leader_id.startswith("second-"), "the second leads")
    cluster.wait_for_status(cluster.run_task("noop"), JobStatus.FINISHED)
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert [s.attempt for s in job.execution_graph.subtasks()] == [1]


def test_two_jobs_with_the_same_module_name_do_not_see_each_other_s_code(cluster: RunningCluster, tmp_path: Path) -> None:
    cluster.start_task_executor(slots=2)
    jobs = {}
    for word in ("one", "two"):
        folder = tmp_path / word
        folder.mkdir()
        (folder / "helper.py").write_text(f"WORD = {word!r}\n")
        (folder / "same_name.py").write_text(
            "import pathlib, helper\ndef run(context):\n    pathlib.Path(context.parameters['path']).write_text(helper.WORD)\n"
        )
        key = cluster.user_code(folder / "helper.py", folder / "same_name.py")
        target = tmp_path / f"{word}.txt"
        vertex = {"id": "task", "python": "same_name:run", "parameters": {"path": str(target)}}
        graph = cluster.graph(vertex)
        graph.code_archives = (key,)
        jobs[word] = (cluster.submit(graph), target)
    for word, (job_id, target) in jobs.items():
        cluster.wait_for_status(job_id, JobStatus.FINISHED)
        assert target.read_text() == word

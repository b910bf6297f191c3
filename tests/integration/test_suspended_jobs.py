"""A job is suspended and resumed, on a running cluster: its task processes end, and what has finished does not run again."""

from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import JobMasterStarted, JobMasterStopped, RegionRestarted, TaskFinished
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import FencingTokenMismatch, JobTerminated, UnknownJob
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.running_cluster import RunningCluster, is_alive, wait_until

pytestmark = pytest.mark.slow


def test_a_suspended_job_goes_on_with_what_had_not_finished_also_after_the_leader_was_killed(
    bootstrap: str, cluster_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path)
    options = ["--bootstrap", bootstrap, "--cluster-id", cluster_id]
    gate = tmp_path / "gate"
    try:
        cluster.start_master("first")
        cluster.start_task_executor("tm", slots=3)
        cluster.start_standby("second")
        quick = {"id": "quick", "python": "user_tasks:noop", "parallelism": 2}
        waits = {"id": "waits", "python": "user_tasks:wait_for_file", "parameters": {"path": str(gate)}}
        job_id = cluster.submit(cluster.graph(quick, waits))
        noted = gate.with_name("gate.0.1")
        wait_until(lambda: noted.exists() and noted.read_text(), "the task waits")
        cluster.wait_for(
            lambda fold: not fold.master.dispatcher.jobs[job_id].execution_graph.vertices["quick"].unfinished_subtasks, "quick has finished"
        )
        with DispatcherGateway(bootstrap, cluster_id) as dispatcher:
            job_master = dispatcher.job_master(job_id)
            assert job_master.connect() == f"{job_id}-1"
            assert run([*options, "suspend", job_id, "--reason", "maintenance"]) == ExitCode.OK
            assert f"{job_id} is suspended" in capsys.readouterr().out
            cluster.wait_for(lambda fold: not fold.master.dispatcher.jobs[job_id].job_master_id, "the JobMaster has stopped")
            job = cluster.job(job_id)
            assert job.status is JobStatus.SUSPENDED
            assert job.execution_graph.vertices["waits"].subtasks[0].state is ExecutionState.CANCELED
            assert not is_alive(int(noted.read_text()))
            assert cluster.state().master.slot_manager.get_number_free_slots() == 3
            with pytest.raises(FencingTokenMismatch, match="has none now"):
                job_master.cancel()
            cluster.kill("first")
            assert run([*options, "resume", job_id]) == ExitCode.OK
            wait_until(gate.with_name("gate.0.2").exists, "the task runs again")
            assert dispatcher.job_master(job_id).connect() == f"{job_id}-2"
            gate.with_name("gate.go").touch()
            assert dispatcher.request_job_result(job_id, timeout_s=120).status is JobStatus.FINISHED
            with pytest.raises(JobTerminated):
                dispatcher.resume_job(job_id)
            with pytest.raises(UnknownJob):
                dispatcher.suspend_job("nobody")
        events = cluster.events_of(job_id)
        assert sorted((e.vertex_id, e.attempt) for e in events if isinstance(e, TaskFinished)) == [("quick", 1), ("quick", 1), ("waits", 2)]
        assert [(e.vertex_id, e.attempt) for e in events if isinstance(e, RegionRestarted)] == [("waits", 2)]
        assert [e.job_master_id for e in events if isinstance(e, JobMasterStarted)] == [f"{job_id}-1", f"{job_id}-2"]
        assert [e for e in events if isinstance(e, JobMasterStopped)] == [JobMasterStopped(job_id, f"{job_id}-1", "maintenance")]
        tail = run([*options, "cancel", job_id])
        assert tail == ExitCode.NEGATIVE, "it has finished"
    finally:
        cluster.close()

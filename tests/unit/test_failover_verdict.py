"""The failover benchmark's verdict: it tells a lost job, an unfinished one, a second attempt and a second launch from a clean run."""

import json
from pathlib import Path

import pytest

from benchmarks.failover_load import judge
from benchmarks.graphs import idle_graph
from benchmarks.simulated_tasks import Journal, SimulatedTasks, read_journal
from eventflink.events.effects import TaskDeployment
from eventflink.master.dispatcher import ForgottenJob
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.statuses import JobStatus, TaskType
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    Finished,
    Killed,
    LaunchTask,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.testing.tasks import InvalidRunTime, read_run_time_ms
from tests.support.cluster import new_fold


def order(job_id: str = "job", **parameters: object) -> LaunchTask:
    deployment = TaskDeployment(
        job_id=job_id,
        vertex_id="idle",
        subtask_index=0,
        attempt=1,
        allocation_id="a",
        slot_index=0,
        job_name="idle",
        task_type=TaskType.PYTHON,
        task=idle_graph().vertices[0].task,
        parallelism=1,
        max_parallelism=128,
        parameters_json=json.dumps(parameters),
        inputs=(),
        outputs=(),
        code_archives=(),
    )
    return LaunchTask(deployment, "session", "localhost:1")


ATTEMPT = AttemptId("job", "idle", 0, 1)


def test_a_clean_run_is_told_from_every_kind_of_loss(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    tasks = Journal(journal)
    for job_id in ("known", "twice", "twice", "running"):
        tasks.note("launched", "instance", AttemptId(job_id, "idle", 0, 1))
    fold = new_fold()
    fold.master.dispatcher.forgotten |= {
        name: ForgottenJob("digest", 0, JobStatus.FINISHED, 0, 0) for name in ("known", "twice", "running", "restarted")
    }
    ended = dict.fromkeys(("known", "twice", "restarted", "lost"), JobStatus.FINISHED)
    clean = judge({"known"}, ended, [], fold, [journal])
    assert (clean.found, clean.finished, clean.restarted, clean.launched_twice, clean.lost) == (1, 1, 0, 0, ())
    # It has ended in the watch, but the replay does not know it: that is lost.
    assert judge({"lost"}, ended, [], fold, [journal]).lost == ("lost",)
    assert judge({"running"}, ended, [], fold, [journal]).lost == ("running",)
    assert judge({"known"}, {"known": JobStatus.FAILED}, [], fold, [journal]).lost == ("known",)
    assert judge({"twice"}, ended, [], fold, [journal]).launched_twice == 1
    assert judge({"restarted"}, ended, [SubtaskId("restarted", "idle", 0)], fold, [journal]).restarted == 1


def test_a_simulated_task_runs_for_as_long_as_it_is_told_and_is_launched_once(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    tasks = SimulatedTasks(Journal(journal))
    assert [type(e) for e in tasks.take_order(order(run_time_ms=50), "instance", 1000)] == [TaskLaunched, TaskInitialized]
    assert tasks.take_order(order(run_time_ms=50), "instance", 1001) == []
    assert tasks.finished(1049) == []
    assert tasks.finished(1050) == [TaskProcessEnded(ATTEMPT, Finished(()))]
    assert tasks.finished(2000) == []
    assert [(e.what, e.instance_id, e.attempt) for e in read_journal(journal)] == [
        ("launched", "instance", ATTEMPT),
        ("ended", "instance", ATTEMPT),
    ]


def test_a_simulated_task_without_a_run_time_runs_until_it_is_ended(tmp_path: Path) -> None:
    tasks = SimulatedTasks(Journal(tmp_path / "journal"))
    tasks.take_order(order(), "instance", 0)
    assert tasks.finished(10**9) == []
    (ended,) = tasks.take_order(EndTask(ATTEMPT, 1000), "instance", 10**9)
    assert isinstance(ended, TaskProcessEnded)
    assert isinstance(ended.outcome, Killed)
    assert tasks.take_order(EndTask(ATTEMPT, 1000), "instance", 10**9) == []


def test_a_simulated_task_with_an_impossible_run_time_fails(tmp_path: Path) -> None:
    tasks = SimulatedTasks(Journal(tmp_path / "journal"))
    _, ended = tasks.take_order(order(run_time_ms="long"), "instance", 0)
    assert isinstance(ended, TaskProcessEnded)
    assert isinstance(ended.outcome, Failed)
    assert "run_time_ms" in ended.outcome.cause.message
    with pytest.raises(InvalidRunTime):
        read_run_time_ms({"run_time_ms": -1})

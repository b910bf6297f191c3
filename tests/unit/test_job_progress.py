"""The view of a waiting caller follows the events of its job and of no other."""

from rich.console import Console

from eventflink.cli.job_progress import JobProgress
from eventflink.events.log_events import (
    JobResultStored,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RegionRestarted,
    RestartScheduled,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
)
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import ExecutionState, JobStatus

GRAPH = parse_job_graph({"name": "[bold]delays", "vertices": [{"id": "a", "sql": "s", "parallelism": 2}, {"id": "b", "sql": "s"}]}, "test")
CAUSE = FailureCause("ValueError", "not a [number]\nsecond line")


def drawn(progress: JobProgress) -> str:
    console = Console(width=120, record=True)
    with console.capture() as capture:
        console.print(progress.draw())
    return capture.get()


def test_a_job_from_submission_to_result() -> None:
    progress = JobProgress("job")
    assert not progress.is_known
    events: list[LogEvent] = [
        JobSubmitted("job", "digest", "ann", GRAPH),
        JobSubmitted("other", "digest", "ann", GRAPH),
        JobStatusChanged("job", JobStatus.CREATED, JobStatus.RUNNING),
        TaskScheduled("job", "a", 0, 1),
        TaskScheduled("other", "a", 1, 1),
        TaskDeployed("job", "a", 0, 1, "allocation"),
        TaskStateChanged("job", "a", 0, 1, ExecutionState.DEPLOYING, ExecutionState.RUNNING),
        TaskFailed("job", "a", 0, 1, CAUSE),
        RestartScheduled("job", "a", 0, 0, 1),
        RegionRestarted("job", "a", 0, 2),
        TaskFinished("job", "a", 1, 1),
        TaskScheduled("job", "no such vertex", 0, 1),
    ]
    assert [progress.apply(event) for event in events].count(False) == 2
    assert progress.is_known
    assert progress.vertices["a"].count() == {ExecutionState.CREATED: 1, ExecutionState.FINISHED: 1}
    assert progress.vertices["b"].count() == {ExecutionState.CREATED: 1}
    assert progress.vertices["a"].restarts == 1
    assert progress.describe_tasks() == "1 of 3 tasks finished"
    progress.apply(TaskStateChanged("job", "b", 0, 1, ExecutionState.DEPLOYING, ExecutionState.RUNNING))
    assert progress.describe_tasks() == "1 of 3 tasks finished; running: b"
    text = drawn(progress)
    assert "[bold]delays (job) RUNNING" in text
    assert "1/2" in text
    assert "a[0]#1: ValueError: not a [number]" in text
    assert progress.result is None
    progress.apply(JobResultStored(job_id="job", status=JobStatus.FAILED, cause=CAUSE, net_run_time_ms=1234))
    assert progress.result is not None
    assert progress.describe_result().startswith("job FAILED after 1.234 s: vertex 'a': ValueError: not a [number]")
    assert progress.describe_next().endswith(
        "'eventflink exceptions job --trace'; the log of its task: 'eventflink logs job a'; to run it again: 'eventflink rerun job'"
    )


def test_a_job_that_restarts_says_why() -> None:
    progress = JobProgress("job")
    progress.apply(JobSubmitted("job", "digest", "ann", GRAPH))
    assert progress.describe_status() == "job INITIALIZING"
    progress.apply(TaskFailed("job", "a", 0, 1, CAUSE))
    progress.apply(JobStatusChanged("job", JobStatus.RUNNING, JobStatus.RESTARTING))
    assert progress.describe_status().startswith("job RESTARTING: ")
    assert "ValueError: not a [number]" in progress.describe_status()
    progress.apply(JobStatusChanged("job", JobStatus.RESTARTING, JobStatus.RUNNING))
    assert progress.describe_status() == "job RUNNING"

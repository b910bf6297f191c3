"""The view of a waiting caller follows the events of its job and of no other."""

import pytest
from rich.console import Console

from eventflink.cli.job_progress import JobProgress
from eventflink.events.log_events import (
    GlobalFailureOccurred,
    JobRescaled,
    JobResultStored,
    JobReuseDecided,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RegionRestarted,
    RestartScheduled,
    SlotRequestDeferred,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
)
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.resources import ResourceProfile
from eventflink.model.reuse import VertexReuse
from eventflink.model.statuses import ExecutionState, JobStatus, RescaleReason, ReuseReason, SlotRequestDeferralReason

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
    assert progress.describe_result().startswith("job FAILED after 1.234 s: vertex 'a', subtask 0: ValueError: not a [number]")
    assert progress.describe_next() == (
        "what failed, with its stack trace: 'eventflink exceptions job --trace'; the log of its task: 'eventflink logs job a --subtask 0'; "
        "to run what had not finished: 'eventflink rerun job --failed'"
    )


def failed(*events: LogEvent, graph: JobGraph = GRAPH, cause: FailureCause = CAUSE) -> JobProgress:
    """Return what is shown of a job that has failed, after what happened in it."""
    progress = JobProgress("job")
    result = JobResultStored(job_id="job", status=JobStatus.FAILED, cause=cause, net_run_time_ms=1_000)
    for event in (
        JobSubmitted("job", "digest", "ann", graph),
        JobStatusChanged("job", JobStatus.CREATED, JobStatus.RUNNING),
        *events,
        result,
    ):
        assert progress.apply(event)
    return progress


FAILING = JobStatusChanged("job", JobStatus.RUNNING, JobStatus.FAILING)


@pytest.mark.parametrize(
    ("events", "named", "log"),
    [
        ([TaskFailed("job", "a", 1, 1, CAUSE), FAILING], "vertex 'a', subtask 1: ", "logs job a --subtask 1'"),
        ([TaskFailed("job", "b", 0, 1, CAUSE), FAILING], "vertex 'b': ", "logs job b'"),
        (
            [TaskFailed("job", "a", 1, 1, CAUSE), FAILING, TaskFailed("job", "b", 0, 1, CAUSE)],
            "vertex 'a', subtask 1: ",
            "job a --subtask 1'",
        ),
        ([TaskFailed("job", "a", 0, 1, CAUSE), GlobalFailureOccurred("job", CAUSE), FAILING], "", None),
        (
            [JobRescaled("job", "b", 1, 3, RescaleReason.INPUT_ROWS, 1), TaskFailed("job", "b", 2, 1, CAUSE), FAILING],
            "vertex 'b', subtask 2: ",
            "logs job b --subtask 2'",
        ),
    ],
    ids=["one of several", "the only one", "what came with it", "the whole job", "of a row"],
)
def test_the_subtask_is_named_of_which_the_job_failed(events: list[LogEvent], named: str, log: str | None) -> None:
    progress = failed(*events)
    assert progress.describe_result().startswith(f"job FAILED after 1.000 s: {named}ValueError: not a [number]")
    assert log in progress.describe_next() if log is not None else "eventflink logs" not in progress.describe_next()


def test_a_vertex_that_the_cause_names_is_not_named_twice() -> None:
    cause = FailureCause("TimeLimitExceeded", "vertex 'a' has run too long")
    told = failed(TaskFailed("job", "a", 1, 1, cause), FAILING, cause=cause).describe_result()
    assert told == "job FAILED after 1.000 s: subtask 1: TimeLimitExceeded: vertex 'a' has run too long"


def test_what_had_finished_is_offered_to_be_taken() -> None:
    end: list[LogEvent] = [TaskFailed("job", "b", 0, 1, CAUSE), FAILING]
    whole, rest = "to run it again: 'eventflink rerun job'", "to run what had not finished: 'eventflink rerun job --failed'"
    assert failed(*end).describe_next().endswith(whole)
    assert failed(TaskFinished("job", "a", 1, 1), *end).describe_next().endswith(rest)
    assert failed(TaskFinished("job", "a", 1, 1), RegionRestarted("job", "a", 1, 2), *end).describe_next().endswith(whole)
    closing = parse_job_graph({"name": "n", "vertices": [{"id": "b", "sql": "s"}, {"id": "a", "sql": "s", "runs": "always"}]}, "test")
    assert failed(*end, TaskFinished("job", "a", 0, 1), graph=closing).describe_next().endswith(whole), "it runs at the end of each job"


def test_what_is_reused_begins_finished() -> None:
    reuse = JobReuseDecided("job", (VertexReuse("a", ReuseReason.UNCHANGED), VertexReuse("b", ReuseReason.NOT_FINISHED, "failed")))
    progress = failed(reuse, TaskFailed("job", "b", 0, 1, CAUSE), FAILING)
    assert progress.describe_tasks() == "2 of 3 tasks finished"
    assert progress.describe_next().endswith("'eventflink rerun job --failed'")
    reuse = JobReuseDecided("job", (VertexReuse("a", ReuseReason.NOT_FINISHED, "failed", (1,)),))
    assert failed(reuse).describe_tasks() == "1 of 3 tasks finished"


def test_a_job_of_which_no_task_has_a_slot_says_why_and_where_to_ask() -> None:
    progress = JobProgress("job")
    told = "job RUNNING: no task has a slot (2 requests for cpu 4: no fitting slot); 'eventflink why job' says more"
    profile, reason = ResourceProfile(4_000), SlotRequestDeferralReason.NO_FITTING_SLOT
    deferred = SlotRequestDeferred(job_id="job", resource_profile=profile, reason=reason, requests=2)
    for event in (
        JobSubmitted("job", "digest", "ann", GRAPH),
        JobStatusChanged("job", JobStatus.CREATED, JobStatus.RUNNING),
        *(TaskScheduled("job", "a", index, 1) for index in range(2)),
        deferred,
    ):
        assert progress.describe_status() in ("job INITIALIZING", "job RUNNING")
        progress.apply(event)
    assert progress.describe_status() == told
    assert "no task has a slot" in drawn(progress)
    progress.apply(TaskDeployed("job", "a", 0, 1, "allocation"))
    assert progress.describe_status() == "job RUNNING"
    progress.apply(deferred)
    assert progress.describe_status() == "job RUNNING", "one of its tasks has a slot, so it goes on"
    progress.apply(TaskFinished("job", "a", 0, 1))
    assert progress.describe_status() == "job RUNNING", "whether the slot that is free now is given to the other one is not said yet"
    progress.apply(deferred)
    assert progress.describe_status() == told
    progress.apply(JobStatusChanged("job", JobStatus.RUNNING, JobStatus.CANCELLING))
    assert progress.describe_status() == "job CANCELLING"


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

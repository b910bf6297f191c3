"""Every event has words of its own: one line, fit for a terminal, that tells whatever the event says."""

import dataclasses
import typing
from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.decision import Decision, FollowUpCause, InputCause, TimerCause
from eventflink.events.wording import describe, describe_cause, describe_causes, details_of, subject_of
from eventflink.model.attempts import FailureCause
from eventflink.model.closing import GraphOutcome
from eventflink.model.conditions import VertexSkip
from eventflink.model.statuses import ExecutionState, FollowUpType, JobStatus, VertexSkipReason
from tests.support.values import ValueMaker

EVENTS: tuple[type[Any], ...] = tuple(e.EVENTS.values())
UNTOLD = {
    "reply_partition",
    "dead_letter",
    "deployment_partition",
    "FileUploaded.error",  # It is told where there is no key.
    "JobMasterStarted.checkpoint_history_size",
    "JobMasterStarted.exception_history_size",
    "JobRestartScheduled.backoff_ms",
    "JobRestartScheduled.restart_at_ms",
    "JobSubmitted.graph_digest",
    "RestartScheduled.backoff_ms",
    "RestartScheduled.failed_attempt",
    "RestartScheduled.restart_at_ms",
    "TaskFinished.accumulators",
    "TaskFinished.io",
    "TaskManagerRegistered.begun_at_ms",
    "TaskManagerRegistered.hardware",
    "TaskManagerRegistered.metrics_address",
    "TaskManagerRegistered.registration_number",
}
"""Fields that `--json` shows and a line does not."""


class _DistinctValues(ValueMaker):
    """Makes values that are all there; two makers make none alike."""

    def __init__(self, maker: int) -> None:
        super().__init__(maker)
        self._maker = maker
        self._made = 1_000 * maker

    def value(self, annotation: Any, name: str) -> Any:
        self._made += 1
        if typing.get_origin(annotation) is tuple:
            return tuple([self.value(typing.get_args(annotation)[0], name) for _ in range(1 + self._maker)])
        arguments = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return super().value(arguments[0] if arguments else annotation, name)

    def _scalar(self, annotation: Any, name: str) -> Any:
        if annotation is str:
            return f"{name}-{self._made}"
        if annotation is bool:
            return self._maker == 1
        return annotation(self._made) if annotation in (int, float) else list(annotation)[self._maker]


def _untold(cls: type[Any]) -> set[str]:
    """Return the fields of an event that its words do not depend on."""
    event, other = _DistinctValues(0).record(cls), _DistinctValues(1).record(cls)
    names = [field.name for field in dataclasses.fields(cls) if getattr(event, field.name) != getattr(other, field.name)]
    assert names == [field.name for field in dataclasses.fields(cls)], "the values differ in every field"
    return {name for name in names if describe(dataclasses.replace(event, **{name: getattr(other, name)})) == describe(event)}


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)
def test_the_words_of_an_event_tell_each_of_its_fields_but_those_left_out_on_purpose(cls: type[Any]) -> None:
    names = {field.name for field in dataclasses.fields(cls)}
    left_out = {name for name in names if name in UNTOLD or f"{cls.__name__}.{name}" in UNTOLD}
    assert _untold(cls) == left_out


def test_every_field_that_is_left_out_is_one() -> None:
    fields = {(cls.__name__, field.name) for cls in EVENTS for field in dataclasses.fields(cls)}
    assert {name for name in UNTOLD if name not in {f for _, f in fields} | {f"{cls}.{f}" for cls, f in fields}} == set()


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)
def test_an_event_is_one_line_that_begins_with_its_name_whatever_its_fields_hold(cls: type[Any]) -> None:
    for seed in range(30):
        line = describe(ValueMaker(seed).record(cls))
        assert line.split(" ")[0] == cls.__name__
        assert line.isprintable()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (e.InputsSkipped(1, "late"), "InputsSkipped 1 input: late"),
        (e.RequestAccepted(request_id="r", subject="job"), "RequestAccepted job (request r)"),
        (e.RequestRejected(request_id="r", subject="", code="Bad", message="no", dead_letter=False), "RequestRejected r Bad: no"),
        (e.JobStatusChanged("job", JobStatus.RUNNING, JobStatus.FAILING, "too often"), "JobStatusChanged job RUNNING → FAILING: too often"),
        (e.SlotAllocated("allocation-1", "tm", "tm-1", 0), "SlotAllocated allocation-1 → tm[0], instance tm-1"),
        (e.SlotFreed("allocation-1"), "SlotFreed allocation-1"),
        (e.TaskFailed("job", "a", 0, 1, FailureCause("KeyError", "no 'x'\nmore")), "TaskFailed job/a[0]#1 KeyError: no 'x'"),
        (
            e.TaskStateChanged("job", "a", 2, 1, ExecutionState.DEPLOYING, ExecutionState.RUNNING),
            "TaskStateChanged job/a[2]#1 DEPLOYING → RUNNING",
        ),
        (e.ResourcesAwaited("job", "a", 3, 1), "ResourcesAwaited job/a 3 slots wanted, 1 available"),
        (
            e.JobClosingStarted("job", GraphOutcome(JobStatus.FAILED, "read", 0, 1, "ValueError", "no such column")),
            "JobClosingStarted job it ends as FAILED: read[0]#1 ValueError: no such column",
        ),
        (e.JobClosingStarted("job", GraphOutcome(JobStatus.CANCELED)), "JobClosingStarted job it ends as CANCELED"),
        (
            e.VertexSkipped("job", "load", VertexSkip(VertexSkipReason.ROWS, "list", "large", 3)),
            "VertexSkipped job/load 'list.large' has left rows (3), and it runs when there are none",
        ),
        (e.JobClosingAborted("job", "cancelled by ann"), "JobClosingAborted job cancelled by ann"),
        (
            e.JobTimeLimitNear("job", 1_800_000_000_000),
            "JobTimeLimitNear job it fails at 2027-01-15T08:00:00.000+00:00 if it has not ended",
        ),
        (
            e.TaskCancellationRequested("job", "a", 0, 1, "it has run for 1m", exceeds_time_limit=True),
            "TaskCancellationRequested job/a[0]#1 it has run for 1m: it fails",
        ),
        (e.JobCleanupFailed("job", 8, 0, "read-only"), "JobCleanupFailed job attempt 8, given up: read-only"),
        (e.JobArchiveFailed("job", 12, 0, "disk full"), "JobArchiveFailed job attempt 12, given up: disk full"),
        (
            e.JobCleanupFailed("job", 1, 1_800_000_000_000, "read-only"),
            "JobCleanupFailed job attempt 1, retry at 2027-01-15T08:00:00.000+00:00: read-only",
        ),
        (e.TaskManagerBlocked("tm", "its disk is full", 0, "ann"), "TaskManagerBlocked tm its disk is full, by ann"),
        (
            e.TaskManagerBlocked("tm", "\x1b[31mred", 1_800_000_000_000, ""),
            "TaskManagerBlocked tm \ufffd[31mred, until 2027-01-15T08:00:00.000+00:00",
        ),
    ],
)
def test_an_event_in_words(event: e.LogEvent, line: str) -> None:
    assert describe(event) == line


def test_of_a_jobs_own_events_the_job_is_not_told() -> None:
    scheduled = e.TaskScheduled("job", "a", 0, 1)
    assert (subject_of(scheduled, of_job="job"), subject_of(scheduled, of_job="other")) == ("a[0]#1", "job/a[0]#1")
    assert describe(e.JobEvicted("job"), of_job="job") == "JobEvicted"
    assert details_of(e.JobEvicted("job")) == ""


def test_a_decision_says_what_it_answers_each_once_and_who_asked() -> None:
    causes = (
        InputCause("submissions", 0, 5, 5),
        InputCause("taskmanagers", 0, 5, 7),
        TimerCause("EvictJobs"),
        FollowUpCause(FollowUpType.MATCH_SLOTS),
        FollowUpCause(FollowUpType.MATCH_SLOTS),
    )
    assert [describe_cause(cause) for cause in causes[:2]] == ["submissions@5", "taskmanagers@5..7"]
    decision = Decision(epoch=1, sequence=1, leader_id="l", decided_at_ms=0, previous_hash=b"", causes=causes, actor="ann", events=())
    assert describe_causes(decision) == "submissions@5, taskmanagers@5..7, timer EvictJobs, follow-up match slots by ann"

"""The timeline tells what concerns one job, why it happened and when, from accepted decisions only."""

from rich.console import Console

from eventflink.cli.timeline import Timeline
from eventflink.events.decision import Cause, Decision, FollowUpCause, InputCause, TimerCause
from eventflink.events.log_events import (
    FollowUpDecided,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RequestAccepted,
    SlotAllocated,
    SlotRequested,
    TaskFailed,
    TaskScheduled,
)
from eventflink.gateways.follow import LoggedDecision
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import FollowUpType, JobStatus

GRAPH = parse_job_graph({"name": "[red]delays", "vertices": [{"id": "a", "sql": "s"}]}, "test")


def logged(offset: int, causes: tuple[Cause, ...], *events: LogEvent, accepted: bool = True) -> LoggedDecision:
    decision = Decision(
        epoch=1, sequence=offset, leader_id="l", decided_at_ms=1000 + 10 * offset, previous_hash=b"", causes=causes, actor="", events=events
    )
    return LoggedDecision(offset, 0, decision, accepted)


def drawn(*decisions: LoggedDecision) -> str:
    timeline = Timeline("job")
    for decision in decisions:
        timeline.add_decision(decision)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(timeline.draw())
    return capture.get()


def test_only_the_jobs_own_events_are_told_with_their_slots() -> None:
    text = drawn(
        logged(3, (InputCause("submissions", 0, 5, 5),), RequestAccepted(subject="job"), JobSubmitted("job", "d", "ann", GRAPH)),
        logged(4, (InputCause("submissions", 0, 6, 6),), RequestAccepted(subject="other"), JobSubmitted("other", "d", "ann", GRAPH)),
        logged(5, (TimerCause("t"),), JobStatusChanged("job", JobStatus.CREATED, JobStatus.RUNNING), accepted=False),
        logged(
            6,
            (FollowUpCause(FollowUpType.SCHEDULE_TASKS),),
            FollowUpDecided(FollowUpType.SCHEDULE_TASKS, "job"),
            TaskScheduled("job", "a", 0, 1),
            SlotRequested("allocation-1", "job", "a", 0, 1),
        ),
        logged(
            7, (FollowUpCause(FollowUpType.MATCH_SLOTS),), SlotAllocated("allocation-1", "tm", "i", 0), SlotAllocated("x", "tm", "i", 1)
        ),
        logged(8, (InputCause("taskmanagers", 0, 1, 4),), TaskFailed("job", "a", 0, 1, FailureCause("KeyError", "no 'x'\nmore"))),
    )
    for told in (
        "submissions@5",
        "JobSubmitted '[red]delays' by ann, 1 vertex",
        "follow-up schedule tasks",
        "TaskScheduled a[0]#1",
        "SlotAllocated allocation-1 → tm[0]",
        "taskmanagers@1..4",
        "TaskFailed a[0]#1 KeyError: no 'x'",
        "│ 50 ",
    ):
        assert told in text
    for untold in ("submissions@6", "x → tm", "FollowUpDecided", "timer t", "more"):
        assert untold not in text


def test_a_large_decision_is_cut() -> None:
    events = [TaskScheduled("job", "a", n, 1) for n in range(9)]
    assert "TaskScheduled a[0]#1, a[1]#1, a[2]#1, a[3]#1, … and 5 more" in drawn(logged(0, (), *events))

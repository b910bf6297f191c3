"""An internal input that cannot be decided is parked, its job fails, and everything else goes on; an operator tries it again (P10)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eventflink.documents.plain import plain
from eventflink.events import log_events as e
from eventflink.leadership.leader import ApplyFailed
from eventflink.master import inputs as i
from eventflink.master.follow_ups import MAX_PARKED, FollowUps
from eventflink.master.free_slots import SlotPicker
from eventflink.master.inputs import FollowUp
from eventflink.master.master import Master
from eventflink.master.settings import Context
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState, FollowUpType, JobStatus
from eventflink.model.texts import cut_bytes
from eventflink.views.jobs_and_cluster import cluster_view
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.parked import parked_page
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, replies, stream, vertex

Broken = Callable[[Any], bool]


@contextmanager
def _undecidable(monkeypatch: pytest.MonkeyPatch, input_class: type, is_broken: Broken) -> Iterator[None]:
    """Have every master fail to decide these inputs."""
    decide = Master.decide

    def failing(self: Master, value: Any, now_ms: int, leader_id: str = "") -> list[e.LogEvent]:
        if isinstance(value, input_class) and is_broken(value):
            raise ZeroDivisionError("a defect")
        return decide(self, value, now_ms, leader_id)

    with monkeypatch.context() as patch:
        patch.setattr(Master, "decide", failing)
        yield


def _of(follow_up_type: FollowUpType, subject: str) -> Broken:
    return lambda value: (value.follow_up_type, value.subject) == (follow_up_type, subject)


def _parked(cluster: ScriptedCluster) -> list[tuple[str, str]]:
    return list(cluster.master.follow_ups.parked)


@pytest.mark.rule("P10")
def test_a_follow_up_that_cannot_be_decided_is_parked_its_job_fails_and_the_rest_goes_on(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the loss of a leadership: deciding is pure."""
    cluster.register()
    with _undecidable(monkeypatch, FollowUp, _of(FollowUpType.SCHEDULE_TASKS, "bad")):
        cluster.submit(graph(vertex("a")), job_id="bad")
        assert cluster.terms == 1
        assert _parked(cluster) == [("SCHEDULE_TASKS", "bad")]
        bad = cluster.job("bad")
        assert bad.status is JobStatus.FAILED
        assert bad.cause is not None
        assert bad.cause.failure_type == "InputParked"
        assert "SCHEDULE_TASKS could not be decided: ZeroDivisionError('a defect')" in bad.cause.message
        cluster.run(cluster.submit(graph(vertex("a")), job_id="good"))
        assert cluster.job("good").status is JobStatus.FINISHED


def test_a_follow_up_whose_events_cannot_be_written_is_parked(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = cluster.master._deciders[FollowUp]

    def failing(value: FollowUp, context: Context) -> list[e.LogEvent]:
        events = decide(value, context)
        if value.follow_up_type is FollowUpType.SCHEDULE_TASKS:
            events[0].subject = 5  # type: ignore[attr-defined] # the test breaks it
        return events

    monkeypatch.setitem(cluster.master._deciders, FollowUp, failing)
    cluster.submit(graph(vertex("a")))
    assert _parked(cluster) == [("SCHEDULE_TASKS", "job")]
    assert cluster.job("job").status is JobStatus.FAILED


@pytest.mark.rule("P10")
def test_a_follow_up_that_cannot_be_applied_costs_one_leadership_whoever_leads_next(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is half changed then; the last decision of the leadership parks it, and nothing is read of that state any more."""
    apply = Master.apply

    def failing(self: Master, event: e.LogEvent, at_ms: int) -> None:
        apply(self, event, at_ms)
        if isinstance(event, e.TaskScheduled) and event.job_id == "bad":
            raise ValueError("a defect")

    cluster.register()
    cluster.submit(graph(vertex("a")), job_id="before")
    monkeypatch.setattr(Master, "apply", failing)
    with pytest.raises(ApplyFailed, match="TaskScheduled decided for FollowUp cannot be applied"):
        cluster.submit(graph(vertex("a")), job_id="bad")
    assert [type(event) for event in cluster.last_events()] == [e.InputParked]
    cluster.fail_over()
    cluster.settle()
    assert cluster.terms == 2
    assert _parked(cluster) == [("SCHEDULE_TASKS", "bad")]
    assert cluster.job("bad").status is JobStatus.FAILED, "the submission was decided again, and its job fails at once"
    deployed = deployments(cluster.submit(graph(vertex("a")), job_id="after"))
    assert len(deployed) == 1


@pytest.mark.rule("P10")
@pytest.mark.parametrize("kind", [FollowUpType.CANCEL_TASKS, FollowUpType.COMPLETE_JOB])
def test_what_ends_a_job_is_done_when_an_operator_tries_it_again(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, kind: FollowUpType
) -> None:
    cluster.register()
    with _undecidable(monkeypatch, FollowUp, _of(kind, "job")):
        [deployed] = deployments(cluster.submit(graph(vertex("a"))))
        cluster.report(deployed, ExecutionState.RUNNING)
        cluster.run(cluster.cancel())
        assert _parked(cluster) == [(kind, "job")]
        assert cluster.job("job").status is JobStatus.CANCELLING
        cluster.run(cluster.submit(graph(vertex("a")), job_id="other"))
        assert cluster.job("other").status is JobStatus.FINISHED
        cluster.fail_over()
        [refused] = replies(cluster.command(type="ReleaseParkedInput", parked_id="parked-1", retry=False))
        assert isinstance(refused.payload, e.RequestRejected)
        assert refused.payload.code == "StillWanted"
        cluster.command(type="ReleaseParkedInput", parked_id="parked-1")
        [(_, parked)] = cluster.master.follow_ups.parked.items()
        assert parked.parked_id == "parked-2", "it failed again"
    cluster.run(cluster.command(type="ReleaseParkedInput", parked_id="parked-2"))
    assert cluster.job("job").status is JobStatus.CANCELED
    assert not _parked(cluster)


def test_a_checkpoint_that_cannot_be_aborted_keeps_its_job_from_ending_until_it_is(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: no job ends with a checkpoint pending, whatever is parked."""
    cluster.register()
    [deployed] = deployments(cluster.submit(graph(stream("a"))))
    cluster.start_stream(deployed)
    assert orders(cluster.pass_time(10_000))
    with _undecidable(monkeypatch, FollowUp, _of(FollowUpType.ABORT_CHECKPOINT, "job")):
        cluster.run(cluster.cancel())
        assert _parked(cluster) == [("ABORT_CHECKPOINT", "job")]
        assert cluster.job("job").status is JobStatus.CANCELLING
    cluster.run(cluster.command(type="ReleaseParkedInput", parked_id="parked-1"))
    assert cluster.job("job").status is JobStatus.CANCELED


@pytest.mark.rule("P10")
def test_where_requests_of_all_jobs_are_matched_the_job_at_which_it_fails_fails_alone(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = SlotPicker.pick

    def failing(self: SlotPicker, profile: Any) -> Any:
        if profile is not None:
            raise ZeroDivisionError("a defect for one profile")
        return pick(self, profile)

    monkeypatch.setattr(SlotPicker, "pick", failing)
    cluster.register(slots=2)
    [first] = deployments(cluster.submit(graph(vertex("a")), job_id="first"))
    cluster.submit(graph(vertex("a", cpu_cores=0.5)), job_id="bad")
    cluster.register("other", slots=2, profile=ResourceProfile(1_000, 1 << 30))
    cluster.report(first, ExecutionState.FINISHED)
    assert cluster.terms == 1
    assert cluster.job("bad").status is JobStatus.FAILED
    assert _parked(cluster) == [("MATCH_SLOTS", "bad")]
    assert len(deployments(cluster.submit(graph(vertex("a", 2)), job_id="good"))) == 2


TIMERS = (
    i.ContinueShutdown,
    i.EvictJobs,
    i.ExpireAnswers,
    i.FailUnfulfillableRequests,
    i.FailWorkerRequests,
    i.HeartbeatTimeout,
    i.ReleaseTaskManagers,
    i.RequestWorkers,
    i.RestartsDue,
    i.SlotRequestTimeout,
    i.UnblockTaskManagers,
    i.UploadsOverdue,
)


@pytest.mark.rule("P10")
@pytest.mark.parametrize("timer", TIMERS, ids=lambda c: c.__name__)
def test_a_timer_that_cannot_be_decided_is_parked_and_the_others_go_on(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, timer: type
) -> None:
    """Whether it is due cannot be told either, so it is."""
    cluster.register()
    cluster.submit(graph(vertex("a", 8)))
    cluster.block("tm", duration_ms=1_000)
    with _undecidable(monkeypatch, timer, lambda _: True):
        if timer is i.HeartbeatTimeout:
            cluster.timer(i.HeartbeatTimeout("tm", "tm-1", 10_000))
        elif timer is i.RestartsDue:
            cluster.timer(i.RestartsDue("job"))
        cluster.pass_time(400_000)
        assert [kind for kind, _ in _parked(cluster)] == [timer.__name__]
        count = len(cluster.log)
        cluster.pass_time(400_000)
        assert len(cluster.log) <= count + 2, "it is parked once"
    assert cluster.terms == 1
    assert bool(cluster.master.blocklist.task_managers) == (timer is i.UnblockTaskManagers), "another timer went on"
    if timer is i.SlotRequestTimeout:
        cluster.block("tm", duration_ms=1_000)  # While the job holds a slot that will be free for its other tasks, these wait on.
    cluster.command(type="ReleaseParkedInput", parked_id="parked-1")
    cluster.pass_time(400_000)
    assert not _parked(cluster)
    assert not cluster.master.slot_manager.pending


def test_what_is_parked_of_a_suspended_job_fails_it_when_it_is_resumed(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.register()
    with _undecidable(monkeypatch, FollowUp, _of(FollowUpType.RESTART_TASKS, "job")):
        cluster.submit(graph(vertex("a")))
        cluster.run(cluster.suspend())
        assert cluster.job("job").status is JobStatus.SUSPENDED
        cluster.run(cluster.resume())
        assert _parked(cluster) == [("RESTART_TASKS", "job")]
        assert cluster.job("job").status is JobStatus.FAILED


def test_what_is_parked_for_a_job_that_is_not_there_yet_fails_it_when_it_comes() -> None:
    follow_ups = FollowUps()
    follow_ups.apply_input_parked(e.InputParked("SCHEDULE_TASKS", "j", "j", "why"), 1)
    follow_ups.apply_follow_up_decided(e.FollowUpDecided(FollowUpType.FAIL_JOB, "j"))
    follow_ups.want(FollowUpType.SCHEDULE_TASKS, "j", wanted=True)
    assert list(follow_ups.entries) == [(FollowUpType.FAIL_JOB, "j")]
    assert follow_ups.stands(FollowUpType.SCHEDULE_TASKS, "j")


def test_even_the_failure_of_a_job_can_be_parked_and_ends_there() -> None:
    follow_ups = FollowUps()
    for kind in ("SCHEDULE_TASKS", "FAIL_JOB", "FAIL_JOB", "CANCEL_TASKS"):
        follow_ups.apply_input_parked(e.InputParked(kind, "j", "j", "why"), 1)
        follow_ups.validate()
    assert not follow_ups.entries
    assert list(follow_ups.parked) == [("SCHEDULE_TASKS", "j"), ("FAIL_JOB", "j"), ("CANCEL_TASKS", "j")]


def test_the_oldest_beyond_the_bound_is_tried_again() -> None:
    follow_ups = FollowUps()
    follow_ups.want(FollowUpType.COMPLETE_JOB, "j0", wanted=True)
    for number in range(MAX_PARKED + 1):
        follow_ups.apply_input_parked(e.InputParked("COMPLETE_JOB", f"j{number}", None, "why"), 1)
    assert len(follow_ups.parked) == MAX_PARKED
    assert list(follow_ups.entries) == [(FollowUpType.COMPLETE_JOB, "j0")]


def test_what_nobody_knows_cannot_be_released(cluster: ScriptedCluster) -> None:
    [refused] = replies(cluster.command(type="ReleaseParkedInput", parked_id="parked-1"))
    assert isinstance(refused.payload, e.RequestRejected)
    assert refused.payload.code == "UnknownParkedInput"


@pytest.mark.rule("P10a")
@pytest.mark.parametrize(
    ("text", "most", "cut"), [("abc", 2, "ab"), ("äbc", 2, "ä"), ("äbc", 1, ""), ("中文", 5, "中"), ("\ud800a", 9, "?a")]
)
def test_texts_are_cut_by_bytes_in_whole_characters(text: str, most: int, cut: str) -> None:
    assert cut_bytes(text, most) == cut


def test_what_is_parked_is_listed_with_its_reason_and_is_a_problem_of_the_cluster(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _undecidable(monkeypatch, FollowUp, _of(FollowUpType.COMPLETE_JOB, "job")):
        cluster.submit(graph(vertex("a")))
        cluster.cancel()
    page = parked_page(cluster.fold, 0, 10)
    [row] = page.parked
    said = {name: getattr(row, name) for name in ("parked_id", "input_type", "subject", "job_id", "reason", "wanted")}
    reason = "ZeroDivisionError('a defect')"
    assert said == {
        "parked_id": "parked-1",
        "input_type": "COMPLETE_JOB",
        "subject": "job",
        "job_id": "job",
        "reason": reason,
        "wanted": True,
    }
    assert cluster_view(cluster.fold).parked == page.parked
    overview = cluster_page(cluster.fold)
    assert "1 input is parked" in overview.sentence
    assert f"COMPLETE_JOB of job could not be decided, as parked-1: {reason}." in [problem.sentence for problem in overview.problems]
    assert plain(parked_page(cluster.fold, 1, 10)) == {"total": 1, "parked": []}

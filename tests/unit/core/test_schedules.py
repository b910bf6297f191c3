"""Schedules: each instant leads to one job, or to the reason for none, whoever leads and whatever the clocks do."""

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventflink.events.inputs import PutSchedule, StartBackfill
from eventflink.events.log_events import (
    BackfillStarted,
    InstantQueued,
    InstantsSkipped,
    JobSubmitted,
    RequestRejected,
    RunFollowed,
    ScheduleFired,
    SchedulePaused,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.leadership.leader import INLINE_BYTES
from eventflink.master.effects import Effect
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, parse_schedule, schedule_document, time_in, timing_of
from eventflink.model.schedules import (
    InstantUnknown,
    ScheduleDefinition,
    ScheduleTiming,
    _zone,
    due_at,
    graph_for,
    instant_after,
    instant_before,
    instants,
    job_id_of,
    local_time,
)
from eventflink.model.statuses import ExecutionState, InstantOrigin, JobStatus, SkipReason
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.schedules import backfill_view, schedule_view
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, replies, vertex

MINUTE_MS = 60_000
DAY_MS = 86_400_000
FIRST_MS = START_MS + MINUTE_MS - START_MS % MINUTE_MS
"""The first full minute of a cluster's life."""


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with slots for anything; its log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    scripted.pass_time(1)
    yield scripted
    scripted.check()


def job(**more: Any) -> dict[str, Any]:
    return graph(vertex("a"), **more)


def put(cluster: ScriptedCluster, schedule_id: str = "s", **more: Any) -> list[Effect]:
    return cluster.command(type="PutSchedule", schedule_id=schedule_id, definition={"interval": "60s", "job": job(), **more})


def say(cluster: ScriptedCluster, command: str, schedule_id: str = "s", **more: Any) -> list[Effect]:
    return cluster.command(type=command, schedule_id=schedule_id, **more)


def refusal(effects: list[Effect]) -> str:
    [reply] = replies(effects)
    assert isinstance(reply.payload, RequestRejected)
    return f"{reply.payload.code}: {reply.payload.message}"


def to_first(cluster: ScriptedCluster) -> list[Effect]:
    """Let time pass until the first full minute."""
    return cluster.pass_time(FIRST_MS - cluster.wall_ms)


def told(cluster: ScriptedCluster) -> list[str]:
    """Return what became of each instant, in minutes from the first one, in the order of the log."""
    found = []
    for event in cluster.events(ScheduleFired, InstantQueued, InstantsSkipped):
        minute = str((event.instant_ms - FIRST_MS) // MINUTE_MS)
        if not isinstance(event, InstantsSkipped):
            found.append(f"{minute} {'fired' if isinstance(event, ScheduleFired) else 'queued'}")
            continue
        last = (event.last_ms - FIRST_MS) // MINUTE_MS
        found.append(f"{minute} {event.reason}" if event.last_ms == event.instant_ms else f"{minute}-{last} {event.reason}")
    return found


def problems(cluster: ScriptedCluster) -> list[str]:
    """Return what the page of the cluster says of schedules."""
    return [each.sentence for each in cluster_page(cluster.fold).problems if each.link.startswith("/schedules/")]


@pytest.mark.rule("P21")
def test_each_instant_starts_one_job_with_an_id_of_its_own_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.run(to_first(cluster))
    cluster.fail_over()
    cluster.run(cluster.pass_time(0))
    for _ in range(3):
        cluster.run(cluster.pass_time(MINUTE_MS))
        cluster.fail_over()
    fired = cluster.events(ScheduleFired)
    assert [event.instant_ms for event in fired] == [FIRST_MS + number * MINUTE_MS for number in range(4)]
    assert [event.job_id for event in fired] == [job_id_of("s", event.instant_ms) for event in fired]
    assert fired[0].job_id == f"s-{dt.datetime.fromtimestamp(FIRST_MS / 1000, dt.UTC):%Y%m%dT%H%M%S}Z"
    started = [event for event in cluster.events(JobSubmitted) if event.scheduled is not None]
    assert [(event.job_id, event.scheduled.instant_ms) for event in started if event.scheduled] == [(e.job_id, e.instant_ms) for e in fired]
    assert {cluster.job(event.job_id).status for event in fired} == {JobStatus.FINISHED}


@pytest.mark.rule("P21")
def test_a_clock_that_is_set_back_fires_nothing_twice(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="allow")
    to_first(cluster)
    cluster.wall_ms -= 10 * MINUTE_MS
    cluster.pass_time(0)
    cluster.fail_over()
    cluster.pass_time(MINUTE_MS)
    fired = [event.instant_ms for event in cluster.events(ScheduleFired)]
    assert fired == sorted(set(fired))


@pytest.mark.rule("P21")
@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("last", ["0-4 LATE", "5 fired"]),
        ("none", ["0-3 LATE", "4 fired", "5 fired"]),
        ("all", ["0 fired", "1 fired", "2 fired", "3 fired", "4 fired", "5 fired"]),
    ],
)
def test_what_was_late_since_nobody_led_is_caught_up_with_as_the_schedule_says(
    cluster: ScriptedCluster, catch_up: str, expected: list[str]
) -> None:
    put(cluster, catch_up=catch_up, overlap="allow")
    cluster.wall_ms, cluster.monotonic_ms = FIRST_MS + 5 * MINUTE_MS, cluster.monotonic_ms + 6 * MINUTE_MS
    cluster.fail_over()
    cluster.pass_time(0)
    assert told(cluster) == expected


@pytest.mark.rule("P21")
def test_while_a_job_runs_no_other_one_is_started_unless_the_schedule_says_so(cluster: ScriptedCluster) -> None:
    put(cluster)
    running = to_first(cluster)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 OVERLAP"]
    [skipped] = cluster.events(InstantsSkipped)
    assert skipped.message == f"job '{job_id_of('s', FIRST_MS)}' still ran"
    cluster.run(running)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster)[2:] == ["2 fired"]


def test_queued_instants_start_one_after_the_other(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="queue", catch_up="all")
    effects = to_first(cluster)
    cluster.pass_time(3 * MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 queued", "2 queued", "3 queued"]
    for number in range(1, 4):
        cluster.run(effects)
        effects = cluster.pass_time(0)
        assert told(cluster)[-1] == f"{number} fired"
        assert cluster.events(ScheduleFired)[-1].origin is InstantOrigin.QUEUED
    assert len(told(cluster)) == 7


def test_a_queue_has_an_end(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.master.schedule_firing.MAX_QUEUE", 2)
    put(cluster, overlap="queue", catch_up="all")
    to_first(cluster)
    cluster.pass_time(3 * MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 queued", "2 queued", "3 QUEUE_FULL"]


def test_the_new_job_waits_until_the_old_one_is_cancelled(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="cancel")
    to_first(cluster)
    first = job_id_of("s", FIRST_MS)
    cancelled = cluster.pass_time(MINUTE_MS)
    assert cluster.job(first).status is JobStatus.CANCELLING
    cancelled += cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 queued", "1 REPLACED", "2 queued"]
    cluster.run(cancelled)
    cluster.pass_time(0)
    assert cluster.job(first).status is JobStatus.CANCELED
    assert told(cluster)[-1] == "2 fired"


def test_an_instant_that_cannot_start_its_job_stops_no_other(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cluster, "s", description="broken")
    put(cluster, "t")

    def refusing(definition: ScheduleDefinition, *more: Any) -> JobGraph:
        if definition.description == "broken":
            raise InvalidJobGraph("parameter 'day': no")
        return graph_for(definition, *more)

    monkeypatch.setattr("eventflink.master.schedule_firing.graph_for", refusing)
    to_first(cluster)
    [skipped] = cluster.events(InstantsSkipped)
    assert (skipped.schedule_id, skipped.reason, skipped.message) == ("s", SkipReason.REFUSED, "parameter 'day': no")
    assert problems(cluster) == ["Schedule 's' could not start its job: parameter 'day': no."]
    assert [event.schedule_id for event in cluster.events(ScheduleFired)] == ["t"]


def test_a_host_that_does_not_know_the_time_zone_pauses_the_schedule_and_no_other(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoned = {"cron": "* * * * *", "time_zone": "Europe/Berlin", "job": job()}
    say(cluster, "PutSchedule", definition=zoned)
    say(cluster, "StartBackfill", first_ms=0, end_ms=DAY_MS)
    put(cluster, "t")
    monkeypatch.setattr("eventflink.model.schedules.ZoneInfo", lambda name: {}[name])
    _zone.cache_clear()
    to_first(cluster)
    [paused] = cluster.events(SchedulePaused)
    assert paused.reason == "its instants cannot be computed: this host does not know the time zone 'Europe/Berlin'"
    assert [event.schedule_id for event in cluster.events(ScheduleFired)][-1] == "t"
    assert problems(cluster) == [f"Schedule 's' is paused: {paused.reason}."]
    assert refusal(say(cluster, "ResumeSchedule")).startswith("InvalidSchedule: schedule 's': this host does not know")


def test_a_paused_schedule_fires_nothing_and_goes_on_from_its_resumption(cluster: ScriptedCluster) -> None:
    put(cluster, catch_up="all")
    say(cluster, "PauseSchedule", reason="its source moves")
    say(cluster, "PauseSchedule", reason="again")
    to_first(cluster)
    cluster.pass_time(2 * MINUTE_MS)
    assert told(cluster) == []
    say(cluster, "ResumeSchedule")
    say(cluster, "ResumeSchedule")
    cluster.pass_time(0)
    assert told(cluster) == ["0-1 PAUSED", "2 fired"]


@pytest.mark.rule("P21")
@pytest.mark.parametrize(("changed", "became"), [({"description": "d"}, "0-2 PAUSED"), ({"interval": "120s"}, "1 PAUSED")])
def test_instants_of_a_pause_in_which_the_schedule_is_changed_have_a_reason_for_no_job(
    cluster: ScriptedCluster, changed: dict[str, str], became: str
) -> None:
    put(cluster, catch_up="all")
    say(cluster, "PauseSchedule")
    to_first(cluster)
    cluster.pass_time(MINUTE_MS)
    put(cluster, catch_up="all", **changed)
    cluster.pass_time(2 * MINUTE_MS)
    assert told(cluster) == []
    say(cluster, "ResumeSchedule")
    assert told(cluster) == [became]
    cluster.pass_time(0)
    assert told(cluster) == [became, "3 fired"]


def test_a_schedule_that_goes_on_in_the_moment_of_an_instant_has_its_job(cluster: ScriptedCluster) -> None:
    put(cluster)
    say(cluster, "PauseSchedule")
    to_first(cluster)
    say(cluster, "ResumeSchedule")
    cluster.pass_time(0)
    assert told(cluster) == ["0 fired"]


def test_a_version_that_ends_in_a_pause_is_refused_as_one_that_has_ended(cluster: ScriptedCluster) -> None:
    put(cluster)
    say(cluster, "PauseSchedule")
    to_first(cluster)
    cluster.pass_time(10 * MINUTE_MS)
    ends = dt.datetime.fromtimestamp((FIRST_MS + 5 * MINUTE_MS) / 1000, dt.UTC).isoformat()
    assert refusal(put(cluster, ends=ends)).startswith("ScheduleEnded")


def test_a_change_of_a_schedule_loses_no_instant_that_had_come(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.wall_ms, cluster.monotonic_ms = FIRST_MS + 1, cluster.monotonic_ms + MINUTE_MS
    put(cluster, description="changed")
    put(cluster, description="changed")
    cluster.pass_time(0)
    assert told(cluster) == ["0 fired"]
    assert cluster.master.schedules.schedules["s"].version == 2


def let_instants_come(cluster: ScriptedCluster) -> None:
    """Let three instants come while no leader decides."""
    cluster.wall_ms, cluster.monotonic_ms = FIRST_MS + 2 * MINUTE_MS + 1, cluster.monotonic_ms + 3 * MINUTE_MS


@pytest.mark.rule("P21")
@pytest.mark.parametrize("between", [{}, {"description": "changed"}])
def test_instants_that_had_come_before_a_pause_have_a_reason_for_no_job(cluster: ScriptedCluster, between: dict[str, str]) -> None:
    put(cluster, catch_up="all")
    let_instants_come(cluster)
    say(cluster, "PauseSchedule")
    put(cluster, catch_up="all", **between)
    cluster.pass_time(2 * MINUTE_MS)
    assert told(cluster) == []
    say(cluster, "ResumeSchedule")
    cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0-2 LATE", "3-4 PAUSED", "5 fired"]


@pytest.mark.rule("P21")
def test_instants_that_had_come_and_that_a_change_leaves_out_have_a_reason_for_no_job(cluster: ScriptedCluster) -> None:
    put(cluster, catch_up="all")
    let_instants_come(cluster)
    put(cluster, interval="120s", catch_up="all")
    assert told(cluster) == ["0 CHANGED"]
    cluster.pass_time(0)
    assert told(cluster) == ["0 CHANGED", "1 fired"]


@pytest.mark.parametrize(
    ("overlap", "became"),
    [("allow", ["1 fired", "2 fired", "3 fired"]), ("cancel", ["1-2 REPLACED", "3 queued"]), ("skip", ["3 OVERLAP"])],
)
def test_instants_that_wait_when_the_policy_changes_become_what_the_new_one_says(
    cluster: ScriptedCluster, overlap: str, became: list[str]
) -> None:
    put(cluster, overlap="queue")
    to_first(cluster)
    cluster.pass_time(MINUTE_MS)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 queued", "2 queued"]
    put(cluster, overlap=overlap)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster)[3:] == became


def test_a_new_instant_replaces_a_job_that_somebody_has_started_for_a_later_time(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="cancel")
    say(cluster, "FireSchedule", job_id="by-hand", instant_ms=FIRST_MS + 9 * DAY_MS)
    cluster.run(to_first(cluster))
    assert cluster.job("by-hand").status is JobStatus.CANCELED
    assert told(cluster)[1:] == ["0 queued"]


def test_a_deleted_schedule_leaves_its_jobs_alone(cluster: ScriptedCluster) -> None:
    put(cluster)
    effects = to_first(cluster)
    say(cluster, "DeleteSchedule")
    cluster.run(effects)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0 fired"]
    assert cluster.job(job_id_of("s", FIRST_MS)).status is JobStatus.FINISHED
    assert refusal(say(cluster, "DeleteSchedule")).startswith("UnknownSchedule: schedule not found: 's'")


def test_a_cluster_that_is_shut_down_fires_nothing(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.shut_down()
    to_first(cluster)
    assert told(cluster) == []
    assert refusal(say(cluster, "FireSchedule", job_id="x")).startswith("ClusterShuttingDown")


def test_somebody_fires_a_schedule_for_any_time_with_other_values(cluster: ScriptedCluster) -> None:
    document = job(parameters={"day": {"type": "date"}, "region": {"type": "string"}})
    put(cluster, job=document, parameters={"region": "eu"}, instant_parameters={"day": "previous-date"})
    running = to_first(cluster)
    say(cluster, "FireSchedule", job_id="by-hand", instant_ms=5 * DAY_MS, parameters={"region": "us"})
    assert told(cluster)[-1].endswith("fired")
    values = {each.name: each.value for each in cluster.job("by-hand").execution_graph.graph.parameters}
    assert values == {"day": "1970-01-05", "region": "us"}
    assert refusal(say(cluster, "FireSchedule", job_id="other", parameters={"hour": "3"})).startswith(
        "InvalidParameters: schedule 's' cannot"
    )
    assert refusal(say(cluster, "FireSchedule", "none", job_id="other")).startswith("UnknownSchedule")
    cluster.run(running)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster)[-1] == "1 OVERLAP"  # A job that somebody asked for counts as one of the schedule.


def test_a_job_id_that_is_taken_is_refused_and_an_instant_with_too_many_jobs_stops_no_other(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cluster, interval="1d")
    say(cluster, "FireSchedule", job_id="taken")
    assert refusal(say(cluster, "FireSchedule", job_id="taken")).startswith("DuplicateJobSubmission")
    monkeypatch.setattr("eventflink.master.schedule_firing.MAX_JOBS_OF_AN_INSTANT", 2)
    for _ in range(2):
        say(cluster, "StartBackfill", first_ms=0, end_ms=1, repeats_finished=True)
        cluster.run(cluster.take_effects() + cluster.pass_time(0))
        cluster.pass_time(0)
    say(cluster, "StartBackfill", first_ms=0, end_ms=2 * DAY_MS, concurrency=2, repeats_finished=True)
    cluster.pass_time(0)
    [skipped] = cluster.events(InstantsSkipped)
    assert (skipped.instant_ms, skipped.reason) == (0, SkipReason.REFUSED)
    assert skipped.message.startswith("there were 2 jobs for this instant")
    assert [event.instant_ms for event in cluster.events(ScheduleFired)][-1] == DAY_MS


def test_the_page_of_a_schedule_shows_no_secret(cluster: ScriptedCluster) -> None:
    secret = "hunter2"
    document = graph({**vertex("a"), "parameters": {"url": f"jdbc:x://u:{secret}@host/db"}})
    put(cluster, job=document)
    shown = schedule_view(cluster.fold, "s").definition
    assert secret not in str(shown)
    assert timing_of(shown) == cluster.master.schedules.schedules["s"].definition.timing


def test_a_rerun_of_a_scheduled_job_runs_for_the_same_instant(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.run(to_first(cluster), lambda _: ExecutionState.FAILED)
    job_id = job_id_of("s", FIRST_MS)
    cluster.command(type="RerunJob", rerun_of=job_id, job_id="again")
    assert cluster.job("again").scheduled == cluster.job(job_id).scheduled
    assert cluster.job("again").scheduled is not None


def begin_rerun(cluster: ScriptedCluster, **more: Any) -> list[Effect]:
    """Have a schedule whose first job has failed, and whose rerun runs; return what that one is deployed by."""
    put(cluster, **more)
    cluster.run(to_first(cluster), lambda _: ExecutionState.FAILED)
    return cluster.command(type="RerunJob", rerun_of=job_id_of("s", FIRST_MS), job_id="again")


@pytest.mark.rule("P21")
@pytest.mark.parametrize(
    ("overlap", "became"),
    [
        ("skip", ["1 OVERLAP", "2 fired"]),
        ("queue", ["1 queued", "1 fired", "2 fired"]),
        ("cancel", ["1 queued", "1 fired", "2 fired"]),
        ("allow", ["1 fired", "2 fired"]),
    ],
)
def test_a_rerun_counts_as_a_job_of_its_schedule_until_it_ends(cluster: ScriptedCluster, overlap: str, became: list[str]) -> None:
    running = begin_rerun(cluster, overlap=overlap)
    cluster.fail_over()
    running += cluster.pass_time(MINUTE_MS)
    assert schedule_view(cluster.fold, "s").running == ["again", *([job_id_of("s", FIRST_MS + MINUTE_MS)] if overlap == "allow" else [])]
    assert cluster.job("again").status is (JobStatus.CANCELLING if overlap == "cancel" else JobStatus.RUNNING)
    cluster.run(running)
    assert cluster.job("again").status is (JobStatus.CANCELED if overlap == "cancel" else JobStatus.FINISHED)
    cluster.run(cluster.pass_time(0))
    cluster.pass_time(MINUTE_MS)
    assert told(cluster)[1:] == became


def test_a_rerun_starts_at_once_whatever_else_of_the_schedule_runs(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="queue")
    cluster.run(to_first(cluster), lambda _: ExecutionState.FAILED)
    cluster.pass_time(MINUTE_MS)
    cluster.command(type="RerunJob", rerun_of=job_id_of("s", FIRST_MS), job_id="again")
    assert schedule_view(cluster.fold, "s").running == [job_id_of("s", FIRST_MS + MINUTE_MS), "again"]
    assert cluster.job("again").status is JobStatus.RUNNING


def test_a_rerun_of_a_job_whose_schedule_is_gone_counts_for_nothing(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.run(to_first(cluster), lambda _: ExecutionState.FAILED)
    say(cluster, "DeleteSchedule")
    cluster.command(type="RerunJob", rerun_of=job_id_of("s", FIRST_MS), job_id="again")
    cluster.pass_time(1)
    put(cluster)
    cluster.pass_time(MINUTE_MS)
    assert told(cluster) == ["0 fired", "1 fired"]


@pytest.mark.rule("P21")
def test_a_rerun_of_a_rerun_counts_and_one_of_a_job_of_a_back_fill_does_not(cluster: ScriptedCluster) -> None:
    running = begin_rerun(cluster)
    cluster.run(running, lambda _: ExecutionState.FAILED)
    cluster.run(say(cluster, "StartBackfill", first_ms=0, end_ms=1) + cluster.pass_time(0), lambda _: ExecutionState.FAILED)
    cluster.command(type="RerunJob", rerun_of=job_id_of("s", 0), job_id="of-back-fill")
    assert schedule_view(cluster.fold, "s").running == []
    cluster.command(type="RerunJob", rerun_of="again", job_id="thrice")
    assert schedule_view(cluster.fold, "s").running == ["thrice"]
    cluster.pass_time(MINUTE_MS)
    assert told(cluster)[-1] == "1 OVERLAP"


# -- what has come since the instants before -------------------------------------------------------------------------


SINCE: dict[str, Any] = {
    "overlap": "queue",
    "catch_up": "all",
    "job": job(parameters={"since": {"type": "timestamp"}, "until": {"type": "timestamp"}, "day": {"type": "date"}}),
    "instant_parameters": {"since": "previous-timestamp", "until": "timestamp", "day": "previous-date"},
}
"""An incremental load, as its page advises it."""


def values_of(cluster: ScriptedCluster, job_id: str) -> dict[str, str]:
    return {each.name: each.value or "" for each in cluster.job(job_id).execution_graph.graph.parameters}


def spans(cluster: ScriptedCluster) -> list[tuple[float, float]]:
    """Return from when to when each job reads, in minutes from the first one, in the order of the log."""
    found = []
    for fired in cluster.events(ScheduleFired):
        values = values_of(cluster, fired.job_id)
        since_ms, until_ms = (ms(values[name]) for name in ("since", "until"))
        found.append(((since_ms - FIRST_MS) / MINUTE_MS, (until_ms - FIRST_MS) / MINUTE_MS))
    return found


def pass_minutes(cluster: ScriptedCluster, minutes: float) -> None:
    """Let time pass, in which each job finishes at once."""
    for _ in range(int(2 * minutes)):
        cluster.run(cluster.pass_time(MINUTE_MS // 2))


def begin_hourly(cluster: ScriptedCluster, **more: Any) -> None:
    """Have a schedule that fires each hour from the first full minute on, and fires then."""
    put(cluster, **SINCE | {"interval": "1h", "starts": iso(FIRST_MS)} | more)
    cluster.run(to_first(cluster))
    assert spans(cluster) == [(-60, 0)]


def iso(time_ms: int) -> str:
    return dt.datetime.fromtimestamp(time_ms / 1_000, dt.UTC).isoformat()


@pytest.mark.rule("P21")
@pytest.mark.parametrize(
    ("first", "second", "changed_at", "expected"),
    [
        ("1h", "10m", 30.5, [(0, 40), (40, 50), (50, 60)]),
        ("10m", "1h", 35, [(0, 10), (10, 20), (20, 30), (30, 60)]),
        ("10m", "7m", 30, [(0, 10), (10, 20), (20, 30), (30, 35), (35, 42), (42, 49), (49, 56)]),
        ("1h", "1h", 30, [(0, 60)]),
    ],
)
def test_no_time_is_in_no_run_or_in_two_when_the_timing_changes(
    cluster: ScriptedCluster, first: str, second: str, changed_at: float, expected: list[tuple[float, float]]
) -> None:
    starts = {"starts": iso(FIRST_MS)}
    put(cluster, **SINCE, interval=first, **starts)
    cluster.run(to_first(cluster))
    pass_minutes(cluster, changed_at)
    cluster.fail_over()
    put(cluster, **SINCE, interval=second, description="changed", **starts)
    pass_minutes(cluster, 60 - changed_at)
    assert spans(cluster)[1:] == expected


@pytest.mark.rule("P21")
def test_what_came_before_an_instant_that_a_change_leaves_out_is_of_the_next_one(cluster: ScriptedCluster) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 59)
    cluster.wall_ms, cluster.monotonic_ms = cluster.wall_ms + 2 * MINUTE_MS, cluster.monotonic_ms + 2 * MINUTE_MS
    put(cluster, **SINCE, interval="7m", starts=iso(FIRST_MS))
    assert told(cluster)[1:] == ["60 CHANGED"]
    pass_minutes(cluster, 10)
    assert spans(cluster)[1:] == [(0, 63), (63, 70)]


@pytest.mark.rule("P21")
def test_what_waits_when_the_timing_changes_has_what_it_had_before(cluster: ScriptedCluster) -> None:
    put(cluster, **SINCE, interval="1d")
    running = cluster.pass_time(DAY_MS - cluster.wall_ms % DAY_MS)
    midnight_ms = cluster.events(ScheduleFired)[0].instant_ms
    assert midnight_ms % DAY_MS == 0
    cluster.pass_time(DAY_MS)
    put(cluster, **SINCE, interval="1h")
    cluster.fail_over()
    cluster.run(running)
    cluster.pass_time(0)
    fired = cluster.events(ScheduleFired)[-1]
    assert (fired.origin, fired.instant_ms, fired.previous_ms) == (InstantOrigin.QUEUED, midnight_ms + DAY_MS, midnight_ms)
    values = values_of(cluster, fired.job_id)
    assert values == {"since": iso(midnight_ms), "until": iso(midnight_ms + DAY_MS), "day": iso(midnight_ms)[:10]}


def test_a_pause_in_which_the_timing_changes_is_in_no_run_and_what_came_before_and_after_it_in_one(cluster: ScriptedCluster) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 90)
    say(cluster, "PauseSchedule")
    pass_minutes(cluster, 60)
    put(cluster, **SINCE, interval="10m", starts=iso(FIRST_MS))
    pass_minutes(cluster, 15)
    say(cluster, "ResumeSchedule")
    pass_minutes(cluster, 15)
    assert told(cluster)[2:] == ["100-160 PAUSED", "170 fired", "180 fired"]
    assert spans(cluster)[1:] == [(0, 60), (160, 170), (170, 180)]


def test_a_schedule_that_followed_a_job_goes_on_behind_its_last_instant(cluster: ScriptedCluster) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 10)
    follow(cluster, job=SINCE["job"], instant_parameters={"since": "timestamp", "until": "timestamp", "day": "date"})
    cluster.run(run_upstream(cluster, "up"))
    [*_, followed] = cluster.events(ScheduleFired)
    put(cluster, **SINCE, interval="1h", starts=iso(FIRST_MS))
    pass_minutes(cluster, 51)
    assert spans(cluster)[-1] == ((followed.instant_ms - FIRST_MS) / MINUTE_MS, 60)


def test_a_run_by_hand_for_now_takes_what_has_come_and_leaves_the_rest_to_the_next_one(cluster: ScriptedCluster) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 30)
    cluster.run(say(cluster, "FireSchedule", job_id="by-hand"))
    cluster.fail_over()
    pass_minutes(cluster, 90)
    assert spans(cluster)[1:] == [(0, 30), (30, 60), (60, 120)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"instant_ms": FIRST_MS + 20 * MINUTE_MS}, (0, 20)),
        ({"instant_ms": FIRST_MS}, (-60, 0)),
        ({"instant_ms": FIRST_MS + 300 * MINUTE_MS}, (240, 300)),
        ({"parameters": {"day": "2026-01-01"}}, (0, 30)),
    ],
)
def test_a_run_by_hand_for_a_time_or_with_other_values_takes_nothing_from_others(
    cluster: ScriptedCluster, more: dict[str, Any], expected: tuple[float, float]
) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 30)
    cluster.run(say(cluster, "FireSchedule", job_id="by-hand", **more))
    pass_minutes(cluster, 30)
    assert spans(cluster)[1:] == [expected, (0, 60)]


def test_an_instant_that_is_late_behind_a_run_by_hand_finds_nothing_and_none_is_read_twice(cluster: ScriptedCluster) -> None:
    put(cluster, **SINCE, interval="1h", starts=iso(FIRST_MS), jitter="30m")
    pass_minutes(cluster, 32)
    due_ms = due_at("s", ScheduleTiming(jitter_ms=30 * MINUTE_MS), FIRST_MS + 60 * MINUTE_MS)
    cluster.pass_time(due_ms - MINUTE_MS - cluster.wall_ms)
    by_hand = (cluster.wall_ms - FIRST_MS) / MINUTE_MS
    cluster.run(say(cluster, "FireSchedule", job_id="by-hand"))
    pass_minutes(cluster, 92)
    assert by_hand > 60
    assert spans(cluster)[1:] == [(0, by_hand), (60, 60), (by_hand, 120)]


def test_a_back_fill_goes_by_the_timing_and_moves_nothing(cluster: ScriptedCluster) -> None:
    begin_hourly(cluster)
    pass_minutes(cluster, 30.5)
    put(cluster, **SINCE, interval="10m", starts=iso(FIRST_MS))
    say(cluster, "StartBackfill", first_ms=FIRST_MS + MINUTE_MS, end_ms=FIRST_MS + 30 * MINUTE_MS)
    pass_minutes(cluster, 20)
    assert sorted(spans(cluster)[1:]) == [(0, 10), (0, 40), (10, 20), (40, 50)]
    assert [event.previous_ms is None for event in cluster.events(ScheduleFired)] == [
        event.origin is InstantOrigin.BACKFILL for event in cluster.events(ScheduleFired)
    ]


# -- back-fills -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("P10a")
def test_a_hundred_late_instants_fire_in_bounded_decisions(cluster: ScriptedCluster) -> None:
    put(cluster, catch_up="all", overlap="allow", interval="1s")
    cluster.wall_ms, cluster.monotonic_ms = cluster.wall_ms + 95_000, cluster.monotonic_ms + 95_000
    cluster.pass_time(0)
    assert len(cluster.events(ScheduleFired)) >= 90
    assert max(map(len, cluster.log)) < 2 * INLINE_BYTES


def test_a_backfill_starts_the_job_of_each_instant_once_and_no_more_at_once_than_it_may(cluster: ScriptedCluster) -> None:
    put(cluster, job=job(parameters={"day": {"type": "date"}}), instant_parameters={"day": "date"}, interval="1d")
    effects = say(cluster, "StartBackfill", first_ms=0, end_ms=5 * DAY_MS, concurrency=2)
    effects += cluster.pass_time(0)
    for started in (2, 4, 5):
        assert len(cluster.events(ScheduleFired)) == started
        cluster.fail_over()
        cluster.run(effects)
        effects = cluster.pass_time(0)
    fired = cluster.events(ScheduleFired)
    assert [event.instant_ms for event in fired] == [number * DAY_MS for number in range(5)]
    assert {event.origin for event in fired} == {InstantOrigin.BACKFILL}
    days = [parameter.value for e in fired for parameter in cluster.job(e.job_id).execution_graph.graph.parameters]
    assert days == [f"1970-01-0{number}" for number in range(1, 6)]
    assert cluster.master.schedules.schedules["s"].backfill is None


def test_what_had_finished_is_not_run_again_by_a_backfill_unless_it_is_asked_for(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    for repeats, expected in ((False, ["fired"] * 3), (False, ["FINISHED_BEFORE"] * 3), (True, ["fired"] * 3)):
        before = len(told(cluster))
        say(cluster, "StartBackfill", first_ms=0, end_ms=3 * DAY_MS, concurrency=3, newest_first=True, repeats_finished=repeats)
        cluster.run(cluster.take_effects() + cluster.pass_time(0))
        cluster.run(cluster.pass_time(0))
        assert [line.split(" ")[1] for line in told(cluster)[before:]] == expected
    fired = [event.job_id for event in cluster.events(ScheduleFired)]
    assert fired[:3] == [job_id_of("s", number * DAY_MS) for number in (2, 1, 0)]
    assert fired[3:] == [f"{job_id}-2" for job_id in fired[:3]]


def test_an_instant_whose_failed_job_was_run_again_and_finished_is_left_out_of_a_backfill(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    say(cluster, "StartBackfill", first_ms=0, end_ms=1)
    cluster.run(cluster.take_effects() + cluster.pass_time(0), lambda _: ExecutionState.FAILED)
    cluster.run(cluster.command(type="RerunJob", rerun_of=job_id_of("s", 0), job_id="again"))
    say(cluster, "StartBackfill", first_ms=0, end_ms=1)
    cluster.pass_time(0)
    [skipped] = cluster.events(InstantsSkipped)
    assert (skipped.reason, skipped.message) == (SkipReason.FINISHED_BEFORE, "job 'again' had finished")


def foreseen(cluster: ScriptedCluster, limit: int = 1_000, **more: Any) -> list[str]:
    """Return what a back-fill would do, or why it would be refused."""
    found = backfill_view(cluster.fold, StartBackfill(schedule_id="s", **more), cluster.wall_ms, limit)
    if isinstance(found, RequestRejected):
        return [f"{found.code}: {found.message}"]
    return [*(each.job_id or each.sentence for each in found.instants), *([] if found.is_whole else ["more"])]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_what_is_foreseen_of_a_backfill_is_what_it_does(cluster: ScriptedCluster, *, newest_first: bool, repeats: bool) -> None:
    put(cluster, interval="1d")
    say(cluster, "StartBackfill", first_ms=DAY_MS, end_ms=3 * DAY_MS, concurrency=2)
    first, second = deployments(cluster.take_effects() + cluster.pass_time(0))
    cluster.run(cluster.report(first, ExecutionState.FINISHED) + cluster.report(second, ExecutionState.FAILED))
    bounds: dict[str, Any] = {"first_ms": 0, "end_ms": 4 * DAY_MS, "newest_first": newest_first, "repeats_finished": repeats}
    told_before = foreseen(cluster, **bounds)
    before = len(cluster.events(ScheduleFired, InstantsSkipped))
    assert before == 2, "to foresee it starts nothing"
    say(cluster, "StartBackfill", concurrency=4, **bounds)
    cluster.run(cluster.take_effects() + cluster.pass_time(0))
    done = cluster.events(ScheduleFired, InstantsSkipped)[before:]
    assert told_before == [e.job_id if isinstance(e, ScheduleFired) else f"skipped: {getattr(e, 'message', '')}." for e in done]
    names = [job_id_of("s", each * DAY_MS) for each in range(4)]
    expected = [names[0], f"{names[1]}-2" if repeats else f"skipped: job '{names[1]}' had finished.", f"{names[2]}-2", names[3]]
    assert told_before == (expected[::-1] if newest_first else expected)


def test_of_a_long_backfill_the_first_instants_in_its_order_are_foreseen(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    names = [job_id_of("s", each * DAY_MS) for each in range(9)]
    assert foreseen(cluster, 2, first_ms=0, end_ms=9 * DAY_MS) == [*names[:2], "more"]
    assert foreseen(cluster, 2, first_ms=0, end_ms=9 * DAY_MS, newest_first=True) == [names[8], names[7], "more"]
    assert foreseen(cluster, 9, first_ms=0, end_ms=9 * DAY_MS) == names


def test_it_is_foreseen_that_an_instant_waits_or_is_refused(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cluster, interval="10s", overlap="queue")
    cluster.pass_time(10_000)
    cluster.pass_time(10_000)
    [fired], [queued] = cluster.events(ScheduleFired), cluster.events(InstantQueued)
    bounds = {"first_ms": fired.instant_ms, "end_ms": queued.instant_ms + 1}
    assert foreseen(cluster, **bounds) == [f"waits: job '{fired.job_id}' runs.", "waits: it is in the queue of the schedule."]
    waiting = {"file": "s3a://raw/{day}", "within": "60s"}
    day = job(parameters={"day": {"type": "date"}})
    put(cluster, interval="1d", wait_for=waiting, job=day, instant_parameters={"day": "date"})
    assert foreseen(cluster, first_ms=0, end_ms=1) == ["waits for s3a://raw/1970-01-01."]

    def refuse(*_: object, **__: object) -> JobGraph:
        raise InvalidJobGraph("parameter 'day': no")

    monkeypatch.setattr("eventflink.master.schedule_firing.graph_for", refuse)
    assert foreseen(cluster, first_ms=0, end_ms=1) == ["refused: parameter 'day': no."]


def test_what_refuses_a_backfill_refuses_to_foresee_it(cluster: ScriptedCluster) -> None:
    assert foreseen(cluster, first_ms=0, end_ms=DAY_MS)[0].startswith("UnknownSchedule: ")
    put(cluster, interval="1d")
    for first_ms, end_ms in ((cluster.wall_ms + 1, cluster.wall_ms + 9 * DAY_MS), (2 * DAY_MS, DAY_MS)):
        refused = foreseen(cluster, first_ms=first_ms, end_ms=end_ms)
        assert refused == [refusal(say(cluster, "StartBackfill", first_ms=first_ms, end_ms=end_ms))]
        assert refused[0].startswith("NothingToBackfill: ")
    say(cluster, "StartBackfill", first_ms=0, end_ms=DAY_MS)
    assert foreseen(cluster, first_ms=0, end_ms=DAY_MS)[0].startswith("BackfillInProgress: ")


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(("state", "starts_another"), [(ExecutionState.FINISHED, False), (ExecutionState.FAILED, True)])
def test_a_backfill_waits_for_the_job_of_an_instant_that_runs(
    cluster: ScriptedCluster, state: ExecutionState, *, starts_another: bool, repeats: bool
) -> None:
    put(cluster, interval="10s", overlap="skip")
    [running] = deployments(cluster.pass_time(10_000))
    [fired] = cluster.events(ScheduleFired)
    say(cluster, "StartBackfill", first_ms=fired.instant_ms, end_ms=fired.instant_ms + 1, repeats_finished=repeats)
    cluster.pass_time(0)
    cluster.fail_over()
    cluster.pass_time(0)
    assert len(cluster.events(ScheduleFired)) == 1
    cluster.report(running, state)
    cluster.pass_time(0)
    assert len(cluster.events(ScheduleFired)) == 1 + (starts_another or repeats)


@pytest.mark.rule("P21")
def test_a_backfill_waits_for_an_instant_that_has_come_and_whose_job_starts_later(cluster: ScriptedCluster) -> None:
    put(cluster, jitter="50s")
    timing = cluster.master.schedules.schedules["s"].definition.timing
    assert due_at("s", timing, FIRST_MS) > FIRST_MS + 1
    to_first(cluster)
    cluster.pass_time(1)
    say(cluster, "StartBackfill", first_ms=FIRST_MS, end_ms=FIRST_MS + 1, newest_first=True)
    cluster.pass_time(0)
    assert told(cluster) == []
    cluster.pass_time(50_000)
    assert [(event.instant_ms, event.origin) for event in cluster.events(ScheduleFired)] == [(FIRST_MS, InstantOrigin.DUE)]


def nightly(cluster: ScriptedCluster, hour: int) -> None:
    cluster.command(type="PutSchedule", schedule_id="s", definition={"cron": f"0 {hour} * * *", "job": job()})


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_backfill_leaves_out_what_a_change_of_the_schedule_has_made_no_instant(cluster: ScriptedCluster, *, newest_first: bool) -> None:
    nightly(cluster, 2)
    say(cluster, "StartBackfill", first_ms=START_MS - 4 * DAY_MS, end_ms=START_MS, newest_first=newest_first)
    [first] = deployments(cluster.pass_time(0))
    nightly(cluster, 3)
    cluster.run(cluster.report(first, ExecutionState.FINISHED))
    cluster.run(cluster.pass_time(0))
    fired = [event.instant_ms // 3_600_000 % 24 for event in cluster.events(ScheduleFired)]
    assert fired[0] == 2
    assert set(fired[1:]) == {3}
    [left_out] = cluster.events(InstantsSkipped)
    assert (left_out.origin, left_out.reason, left_out.instant_ms // 3_600_000 % 24) == (InstantOrigin.BACKFILL, SkipReason.CHANGED, 2)


def test_a_backfill_has_no_instants_that_have_not_come(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    cluster.pass_time(2 * DAY_MS)
    tomorrow_ms = cluster.wall_ms // DAY_MS * DAY_MS + DAY_MS
    effects = say(cluster, "StartBackfill", first_ms=tomorrow_ms, end_ms=tomorrow_ms + DAY_MS)
    assert "has no instant in that time that has passed" in str(effects)
    say(cluster, "StartBackfill", first_ms=tomorrow_ms - 4 * DAY_MS, end_ms=tomorrow_ms + 9 * DAY_MS, concurrency=100)
    [started] = cluster.events(BackfillStarted)
    assert started.end_ms < tomorrow_ms
    cluster.run(cluster.pass_time(0))
    assert max(event.instant_ms for event in cluster.events(ScheduleFired)) < tomorrow_ms


def test_a_backfill_is_cancelled_with_its_jobs_and_there_is_one_at_a_time(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    effects = say(cluster, "StartBackfill", first_ms=0, end_ms=9 * DAY_MS, concurrency=2) + cluster.pass_time(0)
    assert refusal(say(cluster, "StartBackfill", first_ms=0, end_ms=DAY_MS)).startswith("BackfillInProgress")
    effects += say(cluster, "CancelBackfill")
    cluster.run(effects)
    cluster.pass_time(0)
    assert [cluster.job(event.job_id).status for event in cluster.events(ScheduleFired)] == [JobStatus.CANCELED] * 2
    assert cluster.master.schedules.schedules["s"].backfill is None
    say(cluster, "CancelBackfill")
    assert refusal(say(cluster, "StartBackfill", first_ms=5, end_ms=6)).startswith("NothingToBackfill")


def test_instants_that_come_are_decided_before_those_of_a_backfill(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="allow")
    say(cluster, "StartBackfill", first_ms=0, end_ms=1_000 * MINUTE_MS, concurrency=3)
    to_first(cluster)
    assert [event.origin for event in cluster.events(ScheduleFired)].count(InstantOrigin.DUE) == 1
    assert len(cluster.events(ScheduleFired)) == 4


# -- instants -------------------------------------------------------------------------------------------------------


def ms(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.rule("P21")
@pytest.mark.parametrize(
    ("cron", "day", "expected"),
    [
        ("30 2 * * *", "2026-03-29", ["03:00:00+02:00"]),  # The time that is left out: an hour later.
        ("30 2 * * *", "2026-10-25", ["02:30:00+02:00"]),  # The time that comes twice: once.
        ("0 1-3 * * *", "2026-10-25", ["01:00:00+02:00", "02:00:00+02:00", "03:00:00+01:00"]),
        ("0 * * * *", "2026-10-25", None),  # Each hour that passes: 25.
        ("0 * * * *", "2026-03-29", None),
    ],
)
def test_instants_over_changes_of_the_clock(cron: str, day: str, expected: list[str] | None) -> None:
    timing = ScheduleTiming(cron=cron, time_zone="Europe/Berlin")
    begin = dt.datetime.fromisoformat(day).replace(tzinfo=dt.timezone(dt.timedelta(hours=2 if day > "2026-06" else 1)))
    hours = {"2026-10-25": 25, "2026-03-29": 23}[day]
    found = list(instants(timing, int(begin.timestamp() * 1000), int(begin.timestamp() * 1000) + hours * 3_600_000))
    if expected is None:
        assert [b - a for a, b in pairwise(found)] == [3_600_000] * (hours - 1)
    else:
        assert [local_time(timing, each)[11:] for each in found] == expected


TIMINGS = st.one_of(
    st.builds(
        ScheduleTiming,
        cron=st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "0 * * * *", "15,45 2 * * 0", "0 0 1 * *", "59 23 L * *", "0 12 29 2 *"]),
        time_zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        starts_at_ms=st.sampled_from([0, ms("2026-03-28T23:30:00+00:00")]),
        ends_at_ms=st.sampled_from([None, ms("2028-03-01T00:00:00+00:00")]),
        excluded_days=st.sampled_from([(), ("2026-03-29",), ("2026-10-25", "2026-10-26")]),
    ),
    st.builds(ScheduleTiming, interval_ms=st.integers(1_000, 10**9), starts_at_ms=st.integers(0, 10**12)),
)
PLACES = st.one_of(
    st.integers(ms("2026-03-28T00:00:00+00:00"), ms("2026-03-30T00:00:00+00:00")),
    st.integers(ms("2026-10-24T00:00:00+00:00"), ms("2026-10-26T00:00:00+00:00")),
    st.integers(0, ms("2030-01-01T00:00:00+00:00")),
)


@settings(max_examples=300)
@given(TIMINGS, PLACES)
def test_instants_are_the_same_whichever_way_one_goes(timing: ScheduleTiming, place: int) -> None:
    after = instant_after(timing, place)
    if after is not None:
        assert after > place
        assert instant_after(timing, after - 1) == after
        assert instant_before(timing, after + 1) == after
        before = instant_before(timing, after)
        assert before is None or (before <= place and instant_after(timing, before) == after)


def test_a_jitter_is_the_same_for_each_leader_and_within_its_bounds() -> None:
    timing = ScheduleTiming(interval_ms=MINUTE_MS, jitter_ms=30_000)
    delays = [due_at("s", timing, number * MINUTE_MS) - number * MINUTE_MS for number in range(200)]
    assert min(delays) >= 0
    assert max(delays) <= 30_000
    assert len(set(delays)) > 150
    assert delays == [due_at("s", timing, number * MINUTE_MS) - number * MINUTE_MS for number in range(200)]


# -- documents ------------------------------------------------------------------------------------------------------


def definition(**more: Any) -> ScheduleDefinition:
    return check_schedule({"cron": "0 2 * * *", "job": job(), **more})


def test_a_schedule_is_the_same_in_its_document_and_in_the_log(cluster: ScriptedCluster) -> None:
    whole = definition(
        time_zone="Europe/Berlin",
        starts="2026-12-01",
        ends="2027-12-01T06:00",
        jitter="90s",
        catch_up="all",
        overlap="queue",
        parameters={"region": "eu", "limit": 5},
        instant_parameters={"day": "previous-date"},
        job=job(parameters={"day": {"type": "date"}, "region": {"type": "string"}, "limit": {"type": "integer"}}),
        description="whose orders",
        **{"except": ["2026-12-25", "2026-12-24"]},
    )
    assert whole.timing.excluded_days == ("2026-12-24", "2026-12-25")
    assert local_time(whole.timing, whole.timing.starts_at_ms) == "2026-12-01T00:00:00+01:00"
    assert check_schedule(schedule_document(whole)) == whole
    cluster.send(PutSchedule(schedule_id="s", definition=whole))
    assert cluster.master.schedules.schedules["s"].definition == whole


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "job: it is missing"),
        ({"job": job()}, "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'"),
        (
            {"job": job(), "cron": "* * * * *", "interval": "1h"},
            "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'",
        ),
        ({"job": job(), "cron": "61 * * * *"}, "cron: invalid minute in '61 * * * *'"),
        (
            {"job": job(), "cron": "*/90 * * * *"},
            "cron: invalid minute in '*/90 * * * *': a step is at most 59; 'interval' has longer ones",
        ),
        ({"job": job(), "cron": "0 1,0/36 * * *"}, "cron: invalid hour in '0 1,0/36 * * *': a step is at most 23"),
        ({"job": job(), "cron": "* * *"}, "cron: must have five fields"),
        ({"job": job(), "cron": "0 0 30 2 *"}, "cron: invalid day-of-month"),
        ({"job": job(), "cron": "@dayly"}, "cron: unknown name: '@dayly' (did you mean '@daily'?)"),
        ({"job": job(), "cron": 5}, "cron: must be a text such as '0 2 * * *', not 5"),
        (
            {"job": job(), "interval": "10ms"},
            "interval: must be a whole number with ms, s, m, h or d behind it, such as 15m; from 1s to",
        ),
        (
            {"job": job(), "cron": "@daily", "time_zone": "Europe/Berlim"},
            "not found: 'Europe/Berlim' (did you mean 'Europe/Berlin'?)",
        ),
        ({"job": job(), "cron": "@daily", "starts": "soon"}, "starts: must be a day or a time"),
        ({"job": job(), "cron": "@daily", "except": ["Christmas"]}, "except[0]: must be a day such as 2026-12-25, not 'Christmas'"),
        ({"job": job(), "cron": "@daily", "overlap": "sometimes"}, "overlap: must be 'skip', 'queue', 'cancel' or 'allow'"),
        ({"job": job(), "cron": "@daily", "starts": "2026-01-02", "ends": "2026-01-01"}, "it never fires"),
        ({"job": job(), "cron": "@daily", "owner": "me"}, "owner: unknown key"),
        ({"job": {"name": "x"}, "cron": "@daily"}, "job: vertices: it is missing"),
        ({"job": job(parameters={"day": {"type": "date"}}), "cron": "@daily"}, "parameter 'day': it has neither a default nor a value"),
        (
            {"job": job(parameters={"day": {"type": "date"}}), "cron": "@daily", "instant_parameters": {"day": "timestamp"}},
            "instant_parameters.day: 'timestamp' gives a value such as '1970-01-02T00:00:00+00:00', and parameter 'day' has the type date",
        ),
        (
            {"job": job(parameters={"n": {"type": "integer"}}), "cron": "@daily", "instant_parameters": {"n": "previous-date"}},
            "instant_parameters.n: 'previous-date' gives a value such as '1970-01-01', and parameter 'n' has the type integer",
        ),
        ({"job": job(), "cron": "@daily", "parameters": {"x": 1}}, "unknown parameter: 'x'"),
        ({"job": job(), "cron": "@daily", "parameters": {"x": []}}, "parameters: x: a parameter is a text"),
        (
            {"job": job(), "cron": "@daily", "parameters": {"x": 1}, "instant_parameters": {"x": "date"}},
            "'parameters' says what it is",
        ),
    ],
)
def test_what_cannot_fire_is_refused_with_its_place(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule(document)
    assert says in str(caught.value)


def test_a_wrong_document_says_its_line() -> None:
    with pytest.raises(InvalidSchedule, match=r"nightly.yaml: .*cron: invalid minute"):
        parse_schedule("time_zone: UTC\ncron: '61 * * * *'\njob: {}\n", "nightly.yaml", lambda _: pytest.fail("it names no file"))


def test_what_came_on_days_without_an_instant_is_of_the_next_one() -> None:
    """One that reads from `previous-timestamp` to `timestamp` would leave it out; the day that has just passed is another thing."""
    told_of_instants = {"since": "previous-timestamp", "until": "timestamp", "day": "previous-date"}
    kinds = {name: {"type": "date" if name == "day" else "timestamp"} for name in told_of_instants}
    nightly = check_schedule(
        {"cron": "0 2 * * *", "except": ["2026-12-25", "2026-12-26"], "instant_parameters": told_of_instants, "job": job(parameters=kinds)}
    )
    values = [
        {each.name: (each.value or "")[:10] for each in graph_for(nightly, instant_ms, {}).parameters}
        for instant_ms in instants(nightly.timing, ms("2026-12-24T00:00"), ms("2026-12-28T00:00"))
    ]
    assert values == [
        {"since": "2026-12-23", "until": "2026-12-24", "day": "2026-12-23"},
        {"since": "2026-12-24", "until": "2026-12-27", "day": "2026-12-26"},
    ]


def test_a_time_is_read_in_its_zone_or_refused() -> None:
    assert time_in("Europe/Berlin", "2026-11-28") == 1_795_820_400_000
    for zone, text, says in (("Mars/Base", "2026-11-28", "time zone not found"), ("UTC", "soon", "must be a day or a time")):
        with pytest.raises(InvalidSchedule, match=says):
            time_in(zone, text)


def test_a_schedule_without_a_future_is_refused(cluster: ScriptedCluster) -> None:
    assert refusal(put(cluster, ends="2026-01-01")).startswith("ScheduleEnded: schedule 's' has no instant any more")
    assert refusal(put(cluster, "s" * 97)).startswith("InvalidRequest")


# -- after the runs of another job ----------------------------------------------------------------------------------


def follow(cluster: ScriptedCluster, schedule_id: str = "s", after: Any = "upstream", **more: Any) -> list[Effect]:
    definition = {"after": after, "job": job(name=schedule_id), **more}
    return cluster.command(type="PutSchedule", schedule_id=schedule_id, definition=definition)


def run_upstream(cluster: ScriptedCluster, job_id: str, ends: ExecutionState = ExecutionState.FINISHED, **more: Any) -> list[Effect]:
    """Run a job of the name that is followed to its end; return the effects of that, and of what follows it."""
    done = cluster.run(cluster.submit(job(name="upstream", **more), job_id), lambda _: ends)
    assert cluster.job(job_id).status is JobStatus(ends)
    return [*done, *cluster.pass_time(10)]


def fate(cluster: ScriptedCluster, schedule_id: str = "s") -> list[tuple[str, str]]:
    """Return after which run what became of an instant, the oldest first."""
    history = schedule_view(cluster.fold, schedule_id).history
    return [(past.after_job_id or "", past.skipped or (past.job_id and "fired") or "") for past in reversed(history)]


@pytest.mark.rule("P21")
def test_each_run_that_finishes_starts_one_job_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    follow(cluster)
    for number in range(4):
        done = run_upstream(cluster, f"up-{number}")
        if number % 2:
            done = [*cluster.fail_over().effects, *cluster.pass_time(10)]
        cluster.run(done)
    assert fate(cluster) == [(f"up-{number}", "fired") for number in range(4)]
    followed = cluster.events(RunFollowed)
    started = [event for event in cluster.events(JobSubmitted) if event.scheduled is not None]
    assert [event.scheduled.after_job_id for event in started if event.scheduled] == [event.job_id for event in followed]
    assert [event.scheduled.instant_ms for event in started if event.scheduled] == [event.instant_ms for event in followed]
    assert len({event.job_id for event in started}) == 4


@pytest.mark.parametrize(
    ("ended", "expected"),
    [("finished", ["up-0"]), ("failed", ["up-1"]), ("canceled", ["up-2"]), ("any", ["up-0", "up-1", "up-2"])],
)
def test_only_the_ends_that_are_asked_for_start_a_job(cluster: ScriptedCluster, ended: str, expected: list[str]) -> None:
    follow(cluster, after={"job": "upstream", "ended": ended}, overlap="allow")
    run_upstream(cluster, "up-0")
    run_upstream(cluster, "up-1", ExecutionState.FAILED)
    cluster.submit(job(name="upstream"), "up-2")
    cluster.run(cluster.cancel("up-2"))
    cluster.submit(job(name="another"), "other")
    cluster.run(cluster.cancel("other"))
    cluster.pass_time(10)
    assert [run for run, _ in fate(cluster)] == expected


def test_the_job_is_given_the_id_and_the_parameters_of_the_run(cluster: ScriptedCluster) -> None:
    follow(
        cluster,
        job=job(
            name="s", parameters={"day": {"type": "date"}, "source": {"type": "string"}, "region": {"type": "string", "default": "eu"}}
        ),
        instant_parameters={"day": "parameter", "source": "run", "region": "parameter"},
    )
    run_upstream(cluster, "up", parameters={"day": {"type": "date", "default": "2026-11-25"}, "rows": {"type": "integer", "default": 5}})
    [fired] = cluster.events(ScheduleFired)
    values = {each.name: each.value for each in cluster.job(fired.job_id).execution_graph.graph.parameters}
    assert values == {"day": "2026-11-25", "source": "up", "region": "eu"}


def test_a_run_that_lacks_a_parameter_gets_no_job_and_says_why(cluster: ScriptedCluster) -> None:
    follow(cluster, job=job(name="s", parameters={"day": {"type": "date"}}), instant_parameters={"day": "parameter"})
    run_upstream(cluster, "up")
    run_upstream(cluster, "up-2", parameters={"day": {"type": "string", "default": "yesterday"}})
    assert fate(cluster) == [("up", "REFUSED"), ("up-2", "REFUSED")]
    first, second = cluster.events(InstantsSkipped)
    assert first.message.startswith("parameter 'day': it has neither a default nor a value")
    assert second.message.startswith("instant_parameters.day: 'parameter' gives a value such as 'yesterday'")


def test_a_run_that_has_left_the_memory_gives_no_parameters_but_its_id() -> None:
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register(slots=50)
    follow(cluster, "s", job=job(name="s", parameters={"day": {"type": "date"}}), instant_parameters={"day": "parameter"})
    follow(cluster, "t", job=job(name="t", parameters={"source": {"type": "string"}}), instant_parameters={"source": "run"})
    for schedule_id in ("s", "t"):
        say(cluster, "PauseSchedule", schedule_id)
    run_upstream(cluster, "up", parameters={"day": {"type": "date", "default": "2026-11-25"}})
    cluster.run(cluster.submit(job(name="another"), "other"))
    cluster.pass_time(60_000)
    assert "up" not in cluster.master.dispatcher.jobs
    for schedule_id in ("s", "t"):
        say(cluster, "ResumeSchedule", schedule_id)
    cluster.pass_time(10)
    assert (fate(cluster), fate(cluster, "t")) == ([("up", "REFUSED")], [("up", "fired")])
    [skipped] = cluster.events(InstantsSkipped)
    assert skipped.message == "run 'up', whose parameters the job takes, has left the memory of the masters (jobstore.*)"
    cluster.check()


@pytest.mark.rule("P21")
def test_no_end_is_lost_while_the_schedule_is_paused_or_waits(cluster: ScriptedCluster) -> None:
    follow(cluster, overlap="queue")
    say(cluster, "PauseSchedule")
    for number in range(3):
        run_upstream(cluster, f"up-{number}")
    assert not fate(cluster)
    cluster.fail_over()
    say(cluster, "ResumeSchedule")
    effects = cluster.pass_time(10)
    assert schedule_view(cluster.fold, "s").queued == 2
    for _ in range(3):
        cluster.run(effects)
        effects = cluster.pass_time(10)
    assert fate(cluster) == [("up-0", "fired"), ("up-1", "fired"), ("up-2", "fired")]


def test_of_several_ends_the_last_one_counts_where_the_schedule_says_so(cluster: ScriptedCluster) -> None:
    follow(cluster, catch_up="last")
    say(cluster, "PauseSchedule")
    for number in range(3):
        run_upstream(cluster, f"up-{number}")
    say(cluster, "ResumeSchedule")
    cluster.pass_time(10)
    assert fate(cluster) == [("up-0", "LATE"), ("up-2", "fired")]


def test_where_too_many_ends_wait_the_first_gets_no_job(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.master.schedules.MAX_FOLLOWED", 2)
    follow(cluster, overlap="allow")
    say(cluster, "PauseSchedule")
    for number in range(3):
        run_upstream(cluster, f"up-{number}")
    assert fate(cluster) == [("up-0", "QUEUE_FULL")]
    say(cluster, "ResumeSchedule")
    cluster.pass_time(10)
    assert fate(cluster)[1:] == [("up-1", "fired"), ("up-2", "fired")]


def test_ends_of_one_moment_are_instants_of_their_own(cluster: ScriptedCluster) -> None:
    follow(cluster, overlap="allow")
    done = [effect for number in range(3) for effect in cluster.submit(job(name="upstream"), f"up-{number}")]
    cluster.run(done)
    cluster.pass_time(0)
    instants_ms = [event.instant_ms for event in cluster.events(RunFollowed)]
    assert len(set(instants_ms)) == 3
    assert instants_ms == sorted(instants_ms)
    assert {state for _, state in fate(cluster)} == {"fired"}


def test_a_schedule_that_would_start_itself_is_refused(cluster: ScriptedCluster) -> None:
    assert refusal(follow(cluster, "a", "a")).startswith("InvalidSchedule: schedule 'a' would start itself: it follows job 'a'")
    assert not cluster.events(ScheduleFired)
    follow(cluster, "b", "a")
    follow(cluster, "c", "b")
    message = "schedule 'a' would start itself: it follows job 'c', which 'c' starts"
    assert refusal(follow(cluster, "a", {"job": "c", "ended": "any"})) == f"InvalidSchedule: {message}"
    assert not refusals_of(follow(cluster, "d", "c"))
    say(cluster, "DeleteSchedule", "c")
    assert not refusals_of(follow(cluster, "a", "c"))


def test_one_job_has_so_many_followers_and_no_more(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.master.schedules.MAX_FOLLOWERS", 2)
    follow(cluster, "a")
    follow(cluster, "b")
    assert refusal(follow(cluster, "c")) == "TooManySchedules: 2 schedules follow job 'upstream' already: delete one"
    assert not refusals_of(follow(cluster, "b", description="another version"))


def test_a_schedule_may_begin_and_cease_to_follow(cluster: ScriptedCluster) -> None:
    """What waits for a job that runs stays; what was not decided is skipped by the version that follows no more, with the reason."""
    put(cluster)
    follow(cluster)
    run_upstream(cluster, "up-0")
    run_upstream(cluster, "up-1")
    assert schedule_view(cluster.fold, "s").queued == 1
    say(cluster, "PauseSchedule")
    run_upstream(cluster, "up-2")
    run_upstream(cluster, "up-3")
    put(cluster, overlap="queue")
    effects = say(cluster, "ResumeSchedule")
    run_upstream(cluster, "up-4")
    for job_id in [event.job_id for event in cluster.events(ScheduleFired)]:
        cluster.run(cluster.cancel(job_id))
    cluster.run([*effects, *cluster.pass_time(10)])
    assert fate(cluster) == [("up-0", "fired"), ("up-2", "CHANGED"), ("up-1", "fired")]
    cluster.run(to_first(cluster))
    assert told(cluster)[-1] == "0 fired"


def test_no_moment_is_an_instant_twice_though_the_schedule_changes_in_it(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="queue")
    to_first(cluster)
    put(cluster, overlap="queue", description="another version")
    say(cluster, "PauseSchedule")
    say(cluster, "ResumeSchedule")
    cluster.pass_time(0)
    cluster.pass_time(MINUTE_MS)
    follow(cluster)
    cluster.run(cluster.submit(job(name="upstream"), "up"))
    cluster.pass_time(1)
    put(cluster, overlap="queue", interval="1s")
    cluster.pass_time(0)
    cluster.master.validate()
    decided = [event.instant_ms for event in cluster.events(ScheduleFired, InstantQueued)]
    assert decided == [FIRST_MS, FIRST_MS + MINUTE_MS, FIRST_MS + MINUTE_MS + 1]


def test_the_end_of_a_run_on_a_day_that_was_excluded_since_is_skipped(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(cluster)
    say(cluster, "PauseSchedule")
    run_upstream(cluster, "up")
    today = dt.datetime.fromtimestamp(cluster.wall_ms / 1_000, dt.UTC).date().isoformat()
    excluded: dict[str, Any] = {"except": [today]}
    follow(cluster, **excluded)
    run_upstream(cluster, "up-2")
    say(cluster, "ResumeSchedule")
    cluster.pass_time(10)
    assert fate(cluster) == [("up", "CHANGED")]

    def unknown(name: str) -> None:
        raise InstantUnknown(f"this host does not know the time zone '{name}'")

    monkeypatch.setattr("eventflink.model.schedules._zone", unknown)
    run_upstream(cluster, "up-3")
    assert [event.reason for event in cluster.events(SchedulePaused)][-1].startswith("its instants cannot be computed")
    monkeypatch.undo()


def test_what_waits_for_the_jitter_of_the_one_before_it_is_not_late(cluster: ScriptedCluster) -> None:
    follow(cluster, catch_up="none", overlap="allow", jitter="1h")
    for number in range(6):
        run_upstream(cluster, f"up-{number}")
        cluster.pass_time(100_000)
    for _ in range(80):
        cluster.pass_time(MINUTE_MS)
    assert fate(cluster) == [(f"up-{number}", "fired") for number in range(6)]


def test_a_back_fill_ends_before_its_schedule_follows(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1d")
    say(cluster, "StartBackfill", first_ms=0, end_ms=5 * DAY_MS, concurrency=1)
    assert refusal(follow(cluster)).startswith("BackfillInProgress: schedule 's' has a back-fill of instants that it would not have")


def test_a_hundred_schedules_that_follow_a_job_leave_its_end_a_bounded_decision(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventflink.master.schedules.MAX_FOLLOWED", 2)
    long = "x" * 90
    for number in range(100):
        assert not refusals_of(follow(cluster, f"{long}{number}", job=job(name="s")))
        say(cluster, "PauseSchedule", f"{long}{number}")
    for number in range(3):
        run_upstream(cluster, f"{long}{number}")
    assert len(cluster.events(RunFollowed)) == 300
    assert {event.reason for event in cluster.events(InstantsSkipped)} == {SkipReason.QUEUE_FULL}
    sizes = zip(cluster.decisions(), map(len, cluster.log), strict=True)
    assert max(size for decision, size in sizes if any(type(e) is RunFollowed for e in decision.events)) < MAX_DECISION_BYTES // 8


def test_what_follows_a_job_has_no_instants_of_its_own(cluster: ScriptedCluster) -> None:
    assert refusal(follow(cluster, ends="2020-01-01")).startswith("ScheduleEnded")
    follow(cluster, jitter="1m")
    message = "schedule 's' has no instants but the ends of runs of 'upstream': run that again"
    assert refusal(say(cluster, "StartBackfill", first_ms=0, end_ms=FIRST_MS)) == f"NothingToBackfill: {message}"
    say(cluster, "FireSchedule", job_id="by-hand")
    assert fate(cluster) == [("", "fired")]
    view = schedule_view(cluster.fold, "s")
    assert (view.when, view.follows, view.next, view.upcoming) == ("after 'upstream' has finished", "upstream", None, [])
    assert check_schedule(view.definition) == cluster.fold.master.schedules.schedules["s"].definition


def test_a_name_that_no_job_has_is_told(cluster: ScriptedCluster) -> None:
    follow(cluster, "s")
    assert not schedule_view(cluster.fold, "s").is_followed_known
    put(cluster, "t", job=job(name="upstream"))
    assert schedule_view(cluster.fold, "s").is_followed_known
    say(cluster, "DeleteSchedule", "t")
    cluster.submit(job(name="upstream"), "up")
    assert schedule_view(cluster.fold, "s").is_followed_known


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cron": "0 2 * * *"}, "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'"),
        ({"after": None}, "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'"),
        ({"after": {"job": "x", "ended": "late"}}, "after.ended: "),
        ({"after": {"jobs": "x"}}, "after.jobs: "),
        ({"after": ""}, "after.job: "),
        (
            {"instant_parameters": {"day": "previous-date"}},
            "day: 'previous-date' is not known of a schedule with 'after'",
        ),
        ({"instant_parameters": {"dya": "parameter"}}, "instant_parameters.dya: unknown parameter (did you mean 'day'?)"),
        ({"instant_parameters": {"dya": "run"}}, "unknown parameter: 'dya'"),
        (
            {"job": job(parameters={"n": {"type": "integer"}}), "instant_parameters": {"n": "run"}},
            "instant_parameters.n: 'run' gives a value such as 'run', and parameter 'n' has the type integer",
        ),
        ({"starts": "2026-01-02", "ends": "2026-01-01"}, "it never fires: its 'ends' is not after its 'starts'"),
        ({}, "parameter 'day': it has neither a default nor a value"),
        (
            {"after": None, "interval": "1m", "instant_parameters": {"day": "run"}},
            "'run' is not known of a schedule with 'interval'",
        ),
    ],
)
def test_what_cannot_follow_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule) as raised:
        check_schedule({"after": "upstream", "job": job(parameters={"day": {"type": "string"}}), **more})
    assert message in str(raised.value)


def refusals_of(effects: list[Effect]) -> list[str]:
    return [reply.payload.message for reply in replies(effects) if isinstance(reply.payload, RequestRejected)]

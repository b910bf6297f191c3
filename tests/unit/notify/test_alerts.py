"""Alerts: what a rule is about is said once, what is counted is said when it is too much, and what is over is said if that is wanted."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import pytest

from eventflink.events.inputs import Disconnection, TaskManagerDeath
from eventflink.events.log_events import InstantsSkipped
from eventflink.master.effects import Effect
from eventflink.model.attempts import FailureCause
from eventflink.model.schedules import InstantUnknown
from eventflink.model.statuses import ExecutionState, SkipReason
from eventflink.notify import alerts as alerts_module
from eventflink.notify import happenings
from eventflink.notify.document import HappeningType
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, replay, stream, vertex
from tests.support.notifying import EVERYTHING, FILE, alerts, notification_document, notifications_of
from tests.support.scenarios import eventful_cluster, put_schedule

DAY_MS = 86_400_000


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with slots for anything."""
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    yield scripted
    scripted.check()


def fail(cluster: ScriptedCluster, job_id: str, name: str = "nightly", **more: Any) -> None:
    """Have a job fail."""
    [deployment] = deployments(cluster.submit(graph(vertex("a"), restart_strategy={"type": "none"}, **more) | {"name": name}, job_id))
    cluster.run(cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause("ValueError", "no rows")))


def test_everything_that_can_be_told_is_told_of_an_eventful_log_each_with_a_key_of_its_own() -> None:
    told = notifications_of(eventful_cluster(), EVERYTHING)
    events = {each.document["event"] for each in told if "event" in each.document}
    assert events == {str(each) for each in HappeningType if each is not HappeningType.STREAM_STALLED}
    assert len({each.key for each in told}) == len(told)


def test_a_failure_is_said_with_the_job_whose_it_is_and_why(cluster: ScriptedCluster) -> None:
    fail(cluster, "run-1", owner="finance", labels={"tier": "1"})
    [told] = alerts(cluster, events=["job-failed"])
    assert told.text == "cell: job-failed: 'nightly' (run-1): FAILED after 0 ms: ValueError: no rows"
    assert told.document["job"] == {"job_id": "run-1", "name": "nightly", "owner": "finance", "labels": {"tier": "1"}}
    assert told.document["log_event"]["type"] == "JobResultStored"
    assert (told.document["key"], told.job_id) == (told.key, "run-1")


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({}, ["run-1", "run-2"]),
        ({"names": ["night*"]}, ["run-1"]),
        ({"owners": ["finance"]}, ["run-2"]),
        ({"labels": {"tier": "1"}}, ["run-1"]),
        ({"labels": {"tier": "1"}, "owners": ["finance"]}, []),
    ],
)
def test_a_rule_is_about_the_jobs_that_fit_all_that_it_says(cluster: ScriptedCluster, jobs: dict[str, Any], expected: list[str]) -> None:
    fail(cluster, "run-1", labels={"tier": "1"})
    fail(cluster, "run-2", name="hourly", owner="finance")
    assert [each.job_id for each in alerts(cluster, events=["job-failed"], jobs=jobs)] == expected


def test_a_template_has_the_fields_of_the_event(cluster: ScriptedCluster) -> None:
    fail(cluster, "run-1", owner="finance")
    [told] = alerts(
        cluster, events=["job-failed"], text="{{{owner}}} see to {job_name}: {job_id} {event} at {at}, {cluster}@{offset} {count}"
    )
    assert told.text == f"{{finance}} see to nightly: run-1 job-failed at 2027-01-15T08:00:00.000+00:00, cell@{told.log_offset} 1"


def test_failures_are_counted_over_the_runs_of_a_job_and_leaders_over_the_cluster(cluster: ScriptedCluster) -> None:
    for number in range(5):
        fail(cluster, f"run-{number}")
        fail(cluster, f"other-{number}", name=f"other {number}")
        cluster.pass_time(1_000)
    [told] = alerts(cluster, events=["job-failed"], more_than=2, within="10s")
    assert (told.job_id, told.document["job"]["name"]) == ("run-2", "nightly")
    for _ in range(3):
        cluster.fail_over()
    assert len(alerts(cluster, events=["leader-changed"], more_than=2, within="1m")) == 1


def test_of_what_is_open_the_newest_is_remembered(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts_module, "_MOST_REMEMBERED", 3)
    for number in range(3):
        fail(cluster, f"run-{number}")
        fail(cluster, f"other-{number}", name="other")
    for name in ("nightly", "other"):
        cluster.run(cluster.submit(graph(vertex("a"), name=name), job_id=f"last of {name}".replace(" ", "-")))
    told = alerts(cluster, events=["job-failed"], resolved=True)
    assert [each.document["log_event"]["job_id"] for each in told if each.document["status"] == "resolved"] == [
        "run-2",
        "other-1",
        "other-2",
    ]


def test_a_failure_is_over_when_a_run_finishes_that_began_behind_it_and_not_one_beside_it(cluster: ScriptedCluster) -> None:
    beside = cluster.submit(graph(vertex("a")) | {"name": "nightly"}, "run-1")
    cluster.pass_time(1_000)
    fail(cluster, "run-2")
    cluster.pass_time(1_000)
    cluster.run(beside)
    assert [each.document["status"] for each in alerts(cluster, events=["job-failed"], resolved=True)] == ["firing"]
    cluster.run(cluster.submit(graph(vertex("a")) | {"name": "nightly"}, "run-3"))
    assert [each.document["status"] for each in alerts(cluster, events=["job-failed"], resolved=True)] == ["firing", "resolved"]


def test_restarts_are_said_when_there_are_more_than_so_many_in_a_time(cluster: ScriptedCluster) -> None:
    strategy = {"type": "fixed-delay", "attempts": 99, "delay_ms": 1}
    effects = cluster.submit(graph(vertex("a"), restart_strategy=strategy))
    for pause_ms in (60_000, 60_000, 1_000, 1_000, 1_000):
        [deployment] = deployments(effects)
        cluster.report(deployment, ExecutionState.FAILED)
        effects = cluster.pass_time(pause_ms)
    rule = {"events": ["job-restarting"], "within": "10s"}
    assert [each.text for each in alerts(cluster, **rule, more_than=2, text="{details} {count}")] == [
        "a[0]#5 failed: ValueError: no such column; restart 5 after 1 ms 3"
    ]
    assert len(alerts(cluster, **rule, more_than=3)) == 0
    assert len(alerts(cluster, **rule)) == 1  # Once of one run.
    assert len(alerts(cluster, **rule, repeat_after="30s")) == 3


def test_a_job_that_fails_is_over_when_a_later_run_of_it_finishes(cluster: ScriptedCluster) -> None:
    fail(cluster, "run-1")
    cluster.run(cluster.submit(graph(vertex("a"), name="another"), job_id="run-2"))
    cluster.run(cluster.submit(graph(vertex("a"), name="nightly"), job_id="run-3"))
    cluster.run(cluster.submit(graph(vertex("a"), name="nightly"), job_id="run-4"))
    failed, resolved = alerts(cluster, events=["job-failed"], resolved=True)
    assert (resolved.document["status"], resolved.document["resolves"]) == ("resolved", failed.key)
    assert resolved.text == f"resolved: {failed.text}"
    assert resolved.log_offset > failed.log_offset
    assert len(alerts(cluster, events=["job-failed"])) == 1


def test_each_run_that_failed_is_over_when_a_later_run_finishes(cluster: ScriptedCluster) -> None:
    for job_id in ("run-1", "run-2", "run-3"):
        fail(cluster, job_id)
    cluster.run(cluster.submit(graph(vertex("a"), name="nightly"), job_id="run-4"))
    told = alerts(cluster, events=["job-failed"], resolved=True)
    assert [each.document.get("resolves") for each in told] == [None] * 3 + [each.key for each in told[:3]]
    assert len({each.key for each in told}) == 6


def test_a_lost_task_manager_is_over_when_it_registers_again_and_one_that_left_in_order_is_not_lost(cluster: ScriptedCluster) -> None:
    cluster.register("tm2")
    cluster.say(Disconnection("tm2", "tm2-1", "stopped"))
    cluster.register("tm3")
    cluster.say(TaskManagerDeath("tm3", "tm3-1", "exit code 137"))
    cluster.register("tm3", instance="2")
    told = alerts(cluster, events=["task-manager-lost"], resolved=True, text="{task_manager_id}: {details}")
    assert [each.text for each in told] == ["tm3: instance tm3-1: exit code 137", "resolved: tm3: instance tm3-1: exit code 137"]


def test_a_run_that_a_schedule_skips_is_said_for_each_instant_with_the_job_that_it_would_have_been(cluster: ScriptedCluster) -> None:
    put_schedule(cluster, "nightly", interval="60s")
    for _ in range(3):
        cluster.pass_time(60_000)
    skipped = cluster.events(InstantsSkipped)
    told = alerts(cluster, events=["run-skipped"], jobs={"names": ["test job"]}, text="{schedule_id}")
    assert [each.text for each in told] == ["nightly"] * len(skipped)
    assert {each.reason for each in skipped} == {SkipReason.LATE, SkipReason.OVERLAP}
    assert told[0].document["job"] == {"job_id": None, "name": "test job", "owner": "", "labels": {}}


def test_a_job_that_is_near_its_time_limit_is_late_and_overdue_when_it_has_used_it_up(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a"), time_limit="10s", time_limit_warning="2s"))
    for _ in range(3):
        cluster.pass_time(4_000)
    told = alerts(cluster, events=["job-late", "job-overdue"])
    assert [each.document["event"] for each in told] == ["job-late", "job-overdue"]


def test_a_stream_that_stands_is_said_for_each_subtask_and_is_over_at_a_checkpoint_where_none_stands(
    cluster: ScriptedCluster,
) -> None:
    for deployment in deployments(cluster.submit(graph(stream("s", 2), checkpointing={"interval_ms": 100}))):
        cluster.start_stream(deployment)
    standing = {"state_rows": 5, "watermark_stands_ms": 70_000, "rows_since_watermark": 9}
    for progress in ({}, standing, standing, {}):
        cluster.acknowledge(*orders(cluster.pass_time(100)), **progress)
    told = alerts(cluster, events=["stream-stalled"], resolved=True, text="{details}")
    assert told[0].text.startswith("s[0]: its watermark has not begun for 70 s, in which 9 rows came")
    assert [each.text for each in told[2:]] == [f"resolved: {each.text}" for each in told[:2]]
    assert len({each.key for each in told}) == 4


def test_what_was_said_is_known_to_who_begins_so_much_earlier_as_rules_look_back(cluster: ScriptedCluster) -> None:
    document = notification_document(
        rules={"r": {"events": ["job-failed", "job-restarting"], "receivers": ["all"], "resolved": True, "repeat_after": "2h"}}
    )
    strategy = {"type": "fixed-delay", "attempts": 99, "delay_ms": 1}
    effects = cluster.submit(graph(vertex("a"), restart_strategy=strategy))
    for _ in range(12):
        cluster.report(deployments(effects)[0], ExecutionState.FAILED)
        effects = cluster.pass_time(DAY_MS // 4)
    whole = notifications_of(cluster, document)
    assert len(whole) == 12
    for offset in range(len(cluster.log)):
        begun = next((o for o, at_ms in enumerate(cluster.timestamps) if at_ms >= cluster.timestamps[offset] - document.memory_ms), 0)
        told = notifications_of(cluster, document, replay(cluster.log[:begun], timestamps=cluster.timestamps))
        assert [each for each in told if each.log_offset >= offset] == [each for each in whole if each.log_offset >= offset]


@cache
def cluster_with(kind: HappeningType) -> ScriptedCluster:
    """Return a cluster where something of a kind has happened."""
    if kind is not HappeningType.STREAM_STALLED:
        return cluster_with_events()
    scripted = ScriptedCluster()
    scripted.register()
    for deployment in deployments(scripted.submit(graph(stream("s", 2), checkpointing={"interval_ms": 100}))):
        scripted.start_stream(deployment)
    standing = {"state_rows": 5, "watermark_stands_ms": 70_000, "rows_since_watermark": 9}
    for progress in ({}, standing, standing, {}, standing):
        scripted.acknowledge(*orders(scripted.pass_time(100)), **progress)
    return scripted


@cache
def cluster_with_events() -> ScriptedCluster:
    """Return a cluster where everything has happened but that a stream stands."""
    return eventful_cluster()


@pytest.mark.parametrize("resolves", ["resolved", "firing alone"])
@pytest.mark.parametrize("kind", HappeningType)
def test_nothing_was_said_to_a_receiver_before_its_first_record(kind: HappeningType, resolves: str) -> None:
    """It is told what it would be told if the log was read from there on, though what happened before is read."""
    cluster = cluster_with(kind)
    rule = {"events": [kind], "receivers": ["all"], "repeat_after": "31d", "resolved": resolves == "resolved"}
    document = notification_document(rules={"rule": rule})
    happened = alerts(cluster, events=[kind], repeat_after="0s")
    assert happened
    for first in {each.log_offset + 1 for each in happened}:
        begun = replay(cluster.log[:first], timestamps=cluster.timestamps)
        assert notifications_of(cluster, document, first_offsets={"all": first}) == notifications_of(cluster, document, begun)


OF_THEIR_OWN = [
    HappeningType.JOB_FAILED,
    HappeningType.JOB_FINISHED,
    HappeningType.JOB_CANCELED,
    HappeningType.RUN_SKIPPED,
    HappeningType.LEADER_CHANGED,
]


@pytest.mark.parametrize("kind", OF_THEIR_OWN)
def test_each_end_of_a_run_each_instant_and_each_change_of_leaders_is_said(kind: HappeningType) -> None:
    cluster = cluster_with(kind)
    happened = alerts(cluster, events=[kind], repeat_after="0s")
    assert len(happened) > 1
    assert alerts(cluster, events=[kind], repeat_after="31d") == happened


def lose(cluster: ScriptedCluster, instance: str) -> None:
    """Have the TaskManager tm2 come and die."""
    cluster.register("tm2", instance=instance)
    cluster.say(TaskManagerDeath("tm2", f"tm2-{instance}", "exit code 137"))


def restart(cluster: ScriptedCluster, pauses_ms: Iterable[int]) -> list[Effect]:
    """Have the only task of a job fail again and again, so much later each time; return what deploys its last attempt."""
    effects = cluster.submit(graph(vertex("a"), restart_strategy={"type": "fixed-delay", "attempts": 999, "delay_ms": 1}))
    for pause_ms in pauses_ms:
        cluster.report(deployments(effects)[0], ExecutionState.FAILED)
        effects = cluster.pass_time(pause_ms)
    return effects


def test_a_new_receiver_is_told_what_others_of_its_rule_were_told_before(cluster: ScriptedCluster) -> None:
    restart(cluster, [1_000, 1_000, 1_000])
    times = [each.log_offset for each in alerts(cluster, events=["job-restarting"], repeat_after="0s")]
    names = ["old", "new", "set-by-hand"]
    document = notification_document(
        receivers=dict.fromkeys(names, FILE), rules={"rule": {"events": ["job-restarting"], "receivers": names, "resolved": True}}
    )
    told = notifications_of(cluster, document, first_offsets={"old": 0, "new": times[1]})
    assert [(each.log_offset, each.receivers) for each in told] == [(times[0], ("old", "set-by-hand")), (times[1], ("new",))]


@pytest.mark.parametrize("resolved", [True, False])
def test_what_was_over_and_begins_again_is_said_again_however_soon(cluster: ScriptedCluster, *, resolved: bool) -> None:
    for instance in ("1", "2", "3"):
        lose(cluster, instance)
    put_schedule(cluster, "nightly", interval="60s")
    for _ in range(2):
        cluster.command(type="PauseSchedule", schedule_id="nightly", reason="maintenance")
        cluster.command(type="PauseSchedule", schedule_id="nightly")
        cluster.command(type="ResumeSchedule", schedule_id="nightly")
    rule = {"events": ["task-manager-lost", "schedule-paused"], "repeat_after": "31d", "resolved": resolved}
    told = [each.document["status"] for each in alerts(cluster, **rule)]
    assert told.count("firing") == 5
    assert told.count("resolved") == (4 if resolved else 0)  # The third instance does not come back.


@pytest.mark.parametrize(("resolved", "statuses"), [(False, ["firing"]), (True, ["firing", "resolved"] * 16 + ["firing"])])
def test_what_comes_and_goes_is_counted_unless_its_ends_are_said(cluster: ScriptedCluster, statuses: list[str], *, resolved: bool) -> None:
    for number in range(20):
        lose(cluster, str(number))
        cluster.pass_time(30_000)
    rule = {"events": ["task-manager-lost"], "more_than": 3, "within": "10m", "resolved": resolved}
    assert [each.document["status"] for each in alerts(cluster, **rule)] == statuses
    cluster.pass_time(3_600_000)
    for number in range(20, 24):
        lose(cluster, str(number))
    assert len(alerts(cluster, **rule)) == len(statuses) + 1 + resolved


def test_what_is_sent_behind_a_trimmed_log_is_said_to_be_over(cluster: ScriptedCluster) -> None:
    lose(cluster, "1")
    begun = len(cluster.log)
    for instance in ("2", "3"):
        lose(cluster, instance)
    rule = {"events": ["task-manager-lost"], "receivers": ["all"], "resolved": True}
    fold = replay(cluster.log[:begun], timestamps=cluster.timestamps)
    told = notifications_of(cluster, notification_document(rules={"r": rule}), fold, known_from_ms=fold.last_decided_at_ms, sent_from=begun)
    assert [each.document["status"] for each in told] == ["firing", "resolved", "firing"]


@pytest.mark.parametrize("cut", ["at a snapshot", "at its first record that is there"])
@pytest.mark.parametrize(("every_h", "repeat_after"), [(7, "1d"), (1, "5h"), (25, "1d"), (24, "1d"), (11, "90m")])
def test_where_somebody_begins_to_read_changes_nothing_that_is_said(
    cluster: ScriptedCluster, every_h: int, repeat_after: str, cut: str
) -> None:
    cluster.run(restart(cluster, [every_h * 3_600_000] * 24))
    rule = {"events": ["job-restarting"], "receivers": ["all"], "repeat_after": repeat_after, "resolved": True}
    document = notification_document(rules={"r": rule})
    whole = notifications_of(cluster, document)
    assert {each.document["status"] for each in whole} == {"firing", "resolved"}
    for at_ms in range(cluster.timestamps[0], cluster.timestamps[-1], 17 * 3_600_000):
        begun = next((o for o, time_ms in enumerate(cluster.timestamps) if time_ms >= at_ms), 0)
        if not begun:
            continue
        fold = replay(cluster.log[:begun], timestamps=cluster.timestamps)
        told = notifications_of(cluster, document, fold, known_from_ms=fold.last_decided_at_ms)
        # A snapshot is taken that is early enough; of a log that was trimmed later nothing is ended that was not said.
        first_ms = fold.last_decided_at_ms + (document.memory_ms if cut == "at a snapshot" else document.rules["r"].looks_back_ms)
        first = next((o for o, time_ms in enumerate(cluster.timestamps) if time_ms >= first_ms), len(cluster.log))
        expected = [each.key for each in whole if each.log_offset >= first]
        said = [each.key for each in told if each.log_offset >= first]
        if cut == "at a snapshot":
            assert said == expected
        else:
            assert set(said) <= set(expected)


def test_instants_that_are_skipped_at_once_are_counted_each(cluster: ScriptedCluster) -> None:
    put_schedule(cluster, "nightly", interval="60s")
    cluster.pass_time(60_000 * 30)
    [skipped] = cluster.events(InstantsSkipped)
    count = (skipped.last_ms - skipped.instant_ms) // 60_000 + 1
    assert count > 5
    rule = {"events": ["run-skipped"], "within": "1h", "text": "{count}"}
    assert [each.text for each in alerts(cluster, **rule, more_than=5)] == [str(count)]
    assert alerts(cluster, **rule, more_than=count) == []


def test_a_host_that_does_not_know_the_time_zone_counts_a_skip_once(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    put_schedule(cluster, "nightly", interval="60s")
    cluster.pass_time(60_000 * 30)

    def unknown(*_: object) -> Iterator[int]:
        raise InstantUnknown("this host does not know the time zone 'Mars/Olympus'")
        yield 0

    monkeypatch.setattr(happenings, "instants", unknown)
    assert [each.text for each in alerts(cluster, events=["run-skipped"], text="{count}")] == ["1"]


def test_a_text_has_how_often_it_happened_within_the_time(cluster: ScriptedCluster) -> None:
    restart(cluster, [1_000] * 9)
    rule = {"events": ["job-restarting"], "within": "3s", "repeat_after": "0s", "text": "{count}"}
    assert [each.text for each in alerts(cluster, **rule, more_than=1)] == ["2", "3", *["4"] * 6]


def test_what_happened_before_a_receiver_was_there_is_counted(cluster: ScriptedCluster) -> None:
    for instance in ("1", "2", "3"):
        lose(cluster, instance)
    first = len(cluster.log)
    lose(cluster, "4")
    rule = {"events": ["task-manager-lost"], "receivers": ["all"], "more_than": 1}
    told = notifications_of(cluster, notification_document(rules={"rule": rule}), first_offsets={"all": first})
    assert [each.log_offset >= first for each in told] == [True]


def test_addresses_are_said_without_credentials(cluster: ScriptedCluster) -> None:
    [deployment] = deployments(cluster.submit(graph(vertex("a"), restart_strategy={"type": "none"})))
    cluster.run(cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause("IOError", "https://me:hunter2@host/ is away")))
    [told] = alerts(cluster, events=["job-failed"])
    assert "hunter2" not in repr(told)

"""Instants that wait for a file: each gets its job when the file is there, once, or is missed, whoever leads."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.log_events import FileAwaited, InstantQueued, InstantsSkipped, JobSubmitted, RequestRejected, ScheduleFired
from eventflink.master.effects import due_file_watches
from eventflink.master.inputs import FileMissed, FileSeen
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, schedule_document
from eventflink.model.statuses import InstantOrigin, SkipReason
from eventflink.views.schedules import schedule_view
from tests.support.cluster import ScriptedCluster, graph, vertex

JOB = graph(vertex("a"), name="of files", parameters={"at": {"type": "timestamp"}, "region": {"type": "string", "default": "eu"}})
WAIT = {"file": "s3a://raw/{region}/{at}/_SUCCESS", "within": "90s"}


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with slots for anything; its log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    scripted.pass_time(1)
    yield scripted
    scripted.check()


def put(cluster: ScriptedCluster, **more: Any) -> None:
    definition = {"interval": "60s", "instant_parameters": {"at": "timestamp"}, "wait_for": WAIT, "job": JOB, **more}
    cluster.command(type="PutSchedule", schedule_id="s", definition=definition)


def awaited(cluster: ScriptedCluster) -> list[str]:
    return [watch.file for watch in due_file_watches(cluster.master, cluster.wall_ms)]


def see(cluster: ScriptedCluster, number: int = 0) -> list[Any]:
    """Have the leader see one of the files for which instants wait."""
    watch = [*due_file_watches(cluster.master, cluster.wall_ms)][number]
    return cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file))


def miss(cluster: ScriptedCluster, fault: str = "") -> list[Any]:
    """Have the leader look for all files whose time is over, and find none."""
    over = [watch for watch in due_file_watches(cluster.master, cluster.wall_ms) if watch.is_over]
    return [done for each in over for done in cluster.timer(FileMissed(each.schedule_id, each.instant_ms, each.file, fault))]


def outcomes(cluster: ScriptedCluster) -> list[tuple[InstantOrigin, SkipReason | None]]:
    return [(past.origin, past.skipped) for past in reversed(schedule_view(cluster.fold, "s").history)]


@pytest.mark.rule("P21")
def test_an_instant_has_its_job_when_its_file_is_there_once_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    [waiting] = cluster.events(FileAwaited)
    [file] = awaited(cluster)
    assert (waiting.file, waiting.until_ms) == (file, cluster.wall_ms + 90_000)
    assert file == "s3a://raw/eu/2027-01-15T08:01:00+00:00/_SUCCESS"
    assert cluster.events(JobSubmitted) == []
    cluster.fail_over()
    assert awaited(cluster) == [file]
    [shown] = schedule_view(cluster.fold, "s").awaiting
    assert (shown.file, shown.origin) == (file, InstantOrigin.DUE)
    [watch] = due_file_watches(cluster.master, cluster.wall_ms)
    cluster.run(see(cluster))
    cluster.fail_over()
    cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file))
    [job] = cluster.events(JobSubmitted)
    assert job.scheduled is not None
    assert job.scheduled.instant_ms == waiting.instant_ms
    assert schedule_view(cluster.fold, "s").history[0].sentence == "started when its file was there."
    assert (awaited(cluster), cluster.master.schedules.waiters) == ([], [])


def test_an_instant_whose_file_does_not_come_in_time_is_missed_with_that_reason(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    [watch] = due_file_watches(cluster.master, cluster.wall_ms)
    cluster.fail_over()
    early = FileMissed(watch.schedule_id, watch.instant_ms, watch.file)
    for _ in range(9):
        cluster.timer(early)
        miss(cluster)
        assert cluster.events(InstantsSkipped) == [], "its time is not over"
        cluster.pass_time(10_000)
    cluster.fail_over()
    miss(cluster)
    cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file))
    [missed] = cluster.events(InstantsSkipped)
    assert (missed.instant_ms, missed.origin, missed.reason) == (watch.instant_ms, InstantOrigin.FILE, SkipReason.FILE_MISSING)
    assert missed.message == f"{watch.file} was not seen within 90s"
    assert schedule_view(cluster.fold, "s").history[0].sentence == f"missed: {watch.file} was not seen within 90s."
    assert cluster.events(JobSubmitted) == []


def test_a_file_that_came_while_nobody_led_is_found_by_the_last_look(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1h")
    cluster.pass_time(3_600_000)
    cluster.wall_ms += 21_600_000
    cluster.fail_over()
    cluster.pass_time(1)
    first, *_ = due_file_watches(cluster.master, cluster.wall_ms)
    assert first.is_over
    cluster.run(see(cluster))
    assert outcomes(cluster)[-1] == (InstantOrigin.FILE, None)
    assert [event.instant_ms for event in cluster.events(ScheduleFired)] == [first.instant_ms]


def test_where_a_look_failed_the_instant_says_why(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1h")
    cluster.pass_time(3_600_000)
    cluster.pass_time(100_000)
    miss(cluster, "its store refuses")
    [missed] = cluster.events(InstantsSkipped)
    assert missed.message.endswith("/_SUCCESS was not seen within 90s: its store refuses")


def test_instants_wait_beside_each_other_and_each_for_its_own_file(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="allow")
    cluster.pass_time(60_000)
    cluster.pass_time(60_000)
    first, second = awaited(cluster)
    cluster.run(see(cluster, 1))
    assert awaited(cluster) == [first]
    cluster.run(see(cluster))
    assert [event.job_graph.parameters[0].value for event in cluster.events(JobSubmitted)] == [
        "2027-01-15T08:02:00+00:00",
        "2027-01-15T08:01:00+00:00",
    ]
    assert first < second


@pytest.mark.parametrize(
    ("overlap", "became"),
    [
        ("skip", [(InstantOrigin.FILE, None), (InstantOrigin.FILE, SkipReason.OVERLAP)]),
        ("queue", [(InstantOrigin.FILE, None), (InstantOrigin.QUEUED, None)]),
        ("cancel", [(InstantOrigin.FILE, None), (InstantOrigin.QUEUED, None)]),
        ("allow", [(InstantOrigin.FILE, None), (InstantOrigin.FILE, None)]),
    ],
)
def test_overlaps_are_judged_when_the_file_is_there(
    cluster: ScriptedCluster, overlap: str, became: list[tuple[InstantOrigin, SkipReason | None]]
) -> None:
    put(cluster, overlap=overlap)
    cluster.pass_time(60_000)
    running = see(cluster)
    cluster.pass_time(60_000)
    assert len(awaited(cluster)) == 1, "an instant that waits for its file is in nobody's way"
    cluster.run([*running, *see(cluster)])
    cluster.pass_time(1)
    assert outcomes(cluster) == became


def test_those_in_the_queue_run_in_the_order_of_their_instants_whenever_their_files_came(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="queue", wait_for={**WAIT, "within": "1h"})
    for _ in range(3):
        cluster.pass_time(60_000)
    running = see(cluster, 0)
    see(cluster, 1)
    see(cluster, 0)
    assert [event.origin for event in cluster.events(InstantQueued)] == [InstantOrigin.FILE] * 2
    cluster.run(running)
    for _ in range(2):
        cluster.run(cluster.pass_time(1))
    fired = [event.instant_ms for event in cluster.events(ScheduleFired)]
    assert fired == sorted(fired)
    assert len(fired) == 3


def test_while_a_schedule_is_paused_nobody_looks_and_what_is_over_then_is_looked_for_once_more(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    [watch] = due_file_watches(cluster.master, cluster.wall_ms)
    cluster.command(type="PauseSchedule", schedule_id="s", reason="later")
    assert awaited(cluster) == []
    cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file))
    cluster.pass_time(21_600_000)
    miss(cluster)
    cluster.timer(FileMissed(watch.schedule_id, watch.instant_ms, watch.file))
    assert (cluster.events(JobSubmitted), cluster.events(InstantsSkipped)) == ([], [])
    cluster.command(type="ResumeSchedule", schedule_id="s")
    cluster.pass_time(1)
    miss(cluster)
    assert outcomes(cluster) == [(InstantOrigin.DUE, SkipReason.PAUSED), (InstantOrigin.FILE, SkipReason.FILE_MISSING)]


def test_a_schedule_that_goes_on_in_time_waits_on(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    cluster.command(type="PauseSchedule", schedule_id="s", reason="for a moment")
    cluster.pass_time(10_000)
    cluster.command(type="ResumeSchedule", schedule_id="s")
    cluster.run(see(cluster))
    assert outcomes(cluster) == [(InstantOrigin.FILE, None)]


def test_the_last_of_late_instants_waits_and_those_before_it_are_late(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(600_000)
    [file] = awaited(cluster)
    assert "08:10:00" in file
    assert outcomes(cluster) == [(InstantOrigin.DUE, SkipReason.LATE)]


def test_what_is_fired_by_hand_waits_for_no_file(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    cluster.run(cluster.command(type="FireSchedule", schedule_id="s", job_id="by-hand"))
    assert outcomes(cluster) == [(InstantOrigin.MANUAL, None)]
    assert len(awaited(cluster)) == 1, "the instant waits on"


def test_the_instants_of_a_backfill_wait_too_and_count_as_its_jobs(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1h")
    cluster.command(type="PauseSchedule", schedule_id="s", reason="a back-fill runs all the same")
    cluster.command(type="StartBackfill", schedule_id="s", first_ms=0, end_ms=4 * 3_600_000, concurrency=2)
    cluster.pass_time(1)
    assert [file[13:26] for file in awaited(cluster)] == ["1970-01-01T00", "1970-01-01T01"]
    cluster.run(see(cluster))
    cluster.pass_time(1)
    assert [file[13:26] for file in awaited(cluster)] == ["1970-01-01T01", "1970-01-01T02"]
    cluster.fail_over()
    cluster.pass_time(90_000)
    miss(cluster)
    cluster.pass_time(1)
    cluster.run(see(cluster))
    view = schedule_view(cluster.fold, "s")
    assert view.backfill is None, "two of four were missed, and all are decided"
    assert [(past.origin, past.skipped) for past in view.history] == [
        (InstantOrigin.FILE, None),
        (InstantOrigin.FILE, SkipReason.FILE_MISSING),
        (InstantOrigin.FILE, SkipReason.FILE_MISSING),
        (InstantOrigin.FILE, None),
    ]


def test_a_backfill_that_is_cancelled_waits_for_no_file_any_more(cluster: ScriptedCluster) -> None:
    put(cluster, interval="1h")
    cluster.command(type="StartBackfill", schedule_id="s", first_ms=0, end_ms=4 * 3_600_000, concurrency=2)
    cluster.pass_time(1)
    [watch, _] = due_file_watches(cluster.master, cluster.wall_ms)
    cluster.command(type="CancelBackfill", schedule_id="s")
    assert awaited(cluster) == []
    cluster.timer(FileSeen(watch.schedule_id, watch.instant_ms, watch.file))
    assert (cluster.events(JobSubmitted), schedule_view(cluster.fold, "s").backfill) == ([], None)


def test_what_waits_stays_as_it_is_when_the_schedule_changes_and_goes_with_it(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.pass_time(60_000)
    [file] = awaited(cluster)
    put(cluster, wait_for={"file": "/elsewhere/{at}", "within": "1h"})
    assert awaited(cluster) == [file]
    cluster.command(type="DeleteSchedule", schedule_id="s")
    assert (awaited(cluster), cluster.master.schedules.waiters) == ([], [])


def test_so_many_instants_wait_and_no_more(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.master.schedule_firing.MAX_AWAITING", 1)
    put(cluster)
    cluster.pass_time(60_000)
    cluster.pass_time(60_000)
    [skipped] = cluster.events(InstantsSkipped)
    assert (skipped.reason, skipped.message) == (SkipReason.QUEUE_FULL, "1 instants wait for files already")


def test_a_value_that_makes_no_place_refuses_the_instant(cluster: ScriptedCluster) -> None:
    day = {"at": "timestamp"}
    put(cluster, wait_for={"file": "s3a://raw/{region}/x", "within": "60s"}, parameters={"region": "eu"}, instant_parameters=day)
    cluster.command(
        type="PutSchedule",
        schedule_id="t",
        definition={"interval": "60s", "instant_parameters": day, "wait_for": {"file": "s3a://raw/{region}/x", "within": "60s"}, "job": JOB}
        | {"parameters": {"region": ".."}},
    )
    [refused] = cluster.events(RequestRejected)
    assert "wait_for.file: invalid place" in refused.message


@pytest.mark.parametrize("directory", ["raw", "~nobody-is-called-so/raw", "~", "./raw"])
def test_a_value_that_makes_no_absolute_path_refuses_the_instant(cluster: ScriptedCluster, directory: str) -> None:
    """What it is would hang on the working directory and the users of the host whose master decides."""
    put(cluster, wait_for={"file": "{region}/{at}", "within": "60s"}, parameters={"region": directory})
    [refused] = cluster.events(RequestRejected)
    assert f"wait_for.file: invalid file: '{directory}/" in refused.message


@pytest.mark.rule("P21")
def test_an_instant_whose_file_is_late_cancels_no_later_one(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="cancel", wait_for={**WAIT, "within": "1h"})
    for _ in range(3):
        cluster.pass_time(60_000)
    see(cluster, 1)
    see(cluster, 1)
    see(cluster, 0)
    assert [event.reason for event in cluster.events(InstantsSkipped)] == [SkipReason.REPLACED]
    first, second, third = (event.instant_ms for event in cluster.events(FileAwaited))
    assert [event.instant_ms for event in cluster.events(ScheduleFired)] == [second]
    schedule = cluster.master.schedules.schedules["s"]
    assert ([*schedule.queue], [event.instant_ms for event in cluster.events(InstantsSkipped)]) == ([third], [first])


INVALID = [
    ({"wait_for": "/raw"}, "wait_for: "),
    ({"wait_for": {"file": "/raw/{at}"}}, "wait_for.within: it is missing"),
    ({"wait_for": {"file": "raw/{at}", "within": "1h"}}, "wait_for: invalid file: 'raw/{at}'; give an absolute path, or a URL such as"),
    ({"wait_for": {"file": "/raw/{at", "within": "1h"}}, "wait_for: invalid file: '/raw/{at': a brace has no other one"),
    ({"wait_for": {"file": "/raw/{at}\0", "within": "1h"}}, "wait_for.file: invalid place: "),
    ({"wait_for": {"file": "ftp://raw/{at}", "within": "1h"}}, "wait_for.file: invalid place: 'ftp://raw/"),
    ({"wait_for": {"file": "/raw/{att}", "within": "1h"}}, "wait_for.file: unknown parameter 'att' (did you mean 'at'?)"),
    ({"wait_for": {"file": "/raw/{at}", "within": "40d"}}, "wait_for.within: "),
    ({"wait_for": {"file": "/raw/{at}", "within": "1h", "every": "5s"}}, "wait_for.every: unknown key"),
    ({"after": "p", "wait_for": {"file": "/raw", "within": "1h"}}, "wait_for: instants of 'cron' and 'interval' wait"),
]


@pytest.mark.parametrize(("document", "message"), INVALID, ids=[message[:50] for _, message in INVALID])
def test_a_file_that_could_not_be_looked_for_is_refused(document: dict[str, Any], message: str) -> None:
    times = {} if "after" in document else {"interval": "1h"}
    with pytest.raises(InvalidSchedule) as raised:
        check_schedule({**times, "instant_parameters": {"at": "timestamp"}, "job": JOB, **document})
    assert message in str(raised.value)


def test_a_schedule_that_waits_is_the_document_that_it_was_made_of() -> None:
    definition = check_schedule({"interval": "1h", "instant_parameters": {"at": "timestamp"}, "wait_for": WAIT, "job": JOB})
    assert check_schedule(schedule_document(definition)) == definition
    assert schedule_document(definition)["wait_for"] == WAIT | {"within": "90s"}

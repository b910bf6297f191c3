"""Schedules that take the records of topics: each record belongs to one job, whoever leads, and none is passed over in silence."""

import json
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventflink.events.log_events import JobSubmitted, RecordsClaimed, RecordsLost, RequestRejected, SchedulePaused, TopicCursorSet
from eventflink.leadership.leader import INLINE_BYTES
from eventflink.leadership.topic_sightings import SeenTopic, news_of
from eventflink.master.effects import due_watches
from eventflink.master.inputs import RecordsSeen
from eventflink.master.schedules import MAX_RUNNING, MAX_WATCHERS
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, schedule_document
from eventflink.model.schedules import InstantUnknown, OffsetRange, PartitionOffset, count_records, records_behind, take_records
from eventflink.model.statuses import ExecutionState
from eventflink.views.schedules import schedule_view
from tests.support.cluster import START_MS, ScriptedCluster, graph, vertex

OF_RECORDS = {"partitions": "partitions", "first": "starting-offsets", "end": "ending-offsets"}
JOB = graph(vertex("a"), name="of records", parameters={name: {"type": "string"} for name in OF_RECORDS})


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with slots for anything; its log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    scripted.pass_time(1)
    yield scripted
    scripted.check()


def put(cluster: ScriptedCluster, *, schedule_id: str = "s", records: object = "orders", **more: Any) -> list[Any]:
    definition = {"records": records, "instant_parameters": OF_RECORDS, "job": JOB, **more}
    return cluster.command(type="PutSchedule", schedule_id=schedule_id, definition=definition)


def see(cluster: ScriptedCluster, *bounds: tuple[int, int], topic_id: str = "id-1", since: Sequence[int] | None = None) -> list[Any]:
    """Have the leader see a topic, which has these offsets from its first partition on; `since` are old enough, else none is."""
    ranges = tuple(OffsetRange(partition, first, end) for partition, (first, end) in enumerate(bounds))
    offsets = [end for _, end in bounds] if since is None else since
    return cluster.timer(RecordsSeen("s", "orders", topic_id, ranges, tuple(starmap(PartitionOffset, enumerate(offsets)))))


def told(cluster: ScriptedCluster) -> list[dict[str, Any]]:
    """Return what the jobs of records were told, the first first: by parameter, of the topic."""
    jobs = [event.job_graph.parameters for event in cluster.events(JobSubmitted) if event.scheduled is not None]
    return [{each.name: json.loads(each.value or "")["orders"] for each in parameters} for parameters in jobs]


@pytest.mark.rule("P21")
def test_each_record_belongs_to_one_job_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "begin": "earliest"})
    cluster.run(see(cluster, (3, 5), (0, 0)))
    for number, end in enumerate((5, 9, 9, 12)):
        done = see(cluster, (3, end), (0, number))
        if number % 2:
            done = [*done, *cluster.fail_over().effects]
        cluster.run([*done, *see(cluster, (3, end), (0, number))])
    assert told(cluster) == [
        {"partitions": [0], "first": {"0": 3}, "end": {"0": 5}},
        {"partitions": [1, 0], "first": {"0": 5, "1": 0}, "end": {"0": 9, "1": 1}},
        {"partitions": [1], "first": {"1": 1}, "end": {"1": 2}},
        {"partitions": [0, 1], "first": {"0": 9, "1": 2}, "end": {"0": 12, "1": 3}},
    ]
    [*_, first] = schedule_view(cluster.fold, "s").history
    assert (first.records, first.sentence) == (2, "started, for 2 records.")


def test_a_cursor_begins_at_the_end_unless_the_schedule_says_otherwise(cluster: ScriptedCluster) -> None:
    put(cluster)
    view = schedule_view(cluster.fold, "s")
    assert view.cursor is not None
    assert (view.when, view.next) == ("1 record of orders or more", None)
    assert (view.cursor.topic, view.cursor.topic_id) == ("orders", None)
    see(cluster, (0, 7))
    see(cluster, (0, 7))
    assert told(cluster) == []
    see(cluster, (0, 8), (0, 1))
    assert told(cluster) == [{"partitions": [0, 1], "first": {"0": 7, "1": 0}, "end": {"0": 8, "1": 1}}], (
        "a later partition, from its begin"
    )


def test_records_wait_while_a_job_runs_or_the_schedule_is_paused(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 0))
    running = see(cluster, (0, 1))
    see(cluster, (0, 5))
    assert len(told(cluster)) == 1
    assert [*due_watches(cluster.master, START_MS)] == [], "nobody looks meanwhile"
    cluster.run(running)
    cluster.command(type="PauseSchedule", schedule_id="s", reason="later")
    see(cluster, (0, 5))
    assert len(told(cluster)) == 1
    cluster.command(type="ResumeSchedule", schedule_id="s")
    see(cluster, (0, 6))
    assert told(cluster)[1:] == [{"partitions": [0], "first": {"0": 1}, "end": {"0": 6}}]


def test_jobs_run_side_by_side_where_they_may(cluster: ScriptedCluster) -> None:
    put(cluster, overlap="allow")
    for end in range(4):
        see(cluster, (0, end))
    assert [each["end"] for each in told(cluster)] == [{"0": 1}, {"0": 2}, {"0": 3}]


def test_a_look_starts_as_many_jobs_as_there_are_batches_in_decisions_that_stay_small(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "begin": "earliest", "at_most": 1}, overlap="allow")
    before = len(cluster.log)
    see(cluster, (0, 60), (0, 60))
    assert 1 < len(told(cluster)) < MAX_RUNNING
    assert INLINE_BYTES <= max(map(len, cluster.log[before:])) < 2 * INLINE_BYTES
    while len(told(cluster)) < MAX_RUNNING:
        see(cluster, (0, 60), (0, 60))
    see(cluster, (0, 60), (0, 60))
    assert len(told(cluster)) == MAX_RUNNING
    taken = {(partition, offset) for each in told(cluster) for partition, offset in each["first"].items()}
    assert len(taken) == MAX_RUNNING


def test_a_batch_has_as_many_records_as_are_asked_for_or_those_that_have_waited(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "at_least": 10, "wait": "5s", "at_most": 20}, overlap="allow")
    see(cluster, (0, 0), (0, 0))
    see(cluster, (0, 4), (0, 5), since=(0, 0))
    assert told(cluster) == []
    see(cluster, (0, 4), (0, 5), since=(0, 1))
    see(cluster, (0, 4), (0, 5), since=(4, 5))
    assert [each["end"] for each in told(cluster)] == [{"0": 4, "1": 5}]
    see(cluster, (0, 34), (0, 15), since=(4, 5))
    assert told(cluster)[1] == {"partitions": [0, 1], "first": {"0": 4, "1": 5}, "end": {"0": 14, "1": 15}}
    see(cluster, (0, 34), (0, 15), since=(4, 5))
    assert told(cluster)[2:] == [{"partitions": [0], "first": {"0": 14}, "end": {"0": 34}}]


def test_no_partition_waits_for_ever_while_others_have_more_than_enough(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "begin": "earliest", "at_most": 2}, overlap="allow")
    see(cluster, (0, 600), (0, 600), (0, 2))
    jobs = told(cluster)
    assert [each["partitions"] for each in jobs[:4]] == [[0, 1], [2, 0], [1, 2], [0, 1]]
    cluster.fail_over()
    see(cluster, (0, 600), (0, 600), (0, 2))
    [_, last] = jobs[-1]["partitions"]
    assert told(cluster)[len(jobs)]["partitions"] == [1 - last, last]


def test_what_a_job_is_told_of_many_partitions_fits(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "begin": "earliest"}, overlap="allow")
    first = 10**15
    for _ in range(4):
        see(cluster, *[(first, first + 1)] * 300)
    assert cluster.events(SchedulePaused) == []
    assert [len(each["partitions"]) for each in told(cluster)] == [128, 128, 44]


def test_records_that_kafka_has_deleted_are_counted(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 5))
    see(cluster, (8, 9))
    assert [event.ranges for event in cluster.events(RecordsLost)] == [(OffsetRange(0, 5, 8),)]
    assert [event.ranges for event in cluster.events(RecordsClaimed)] == [(OffsetRange(0, 8, 9),)]
    cluster.run(cluster.fail_over().effects)
    see(cluster, (9, 9), (4, 4))
    assert [event.ranges for event in cluster.events(RecordsLost)][1:] == [(OffsetRange(1, 0, 4),)], "also where nothing else comes"
    see(cluster, (9, 9), (0, 2), topic_id="id-2")
    cursor = schedule_view(cluster.fold, "s").cursor
    assert cursor is not None
    assert (cursor.lost, cursor.offsets) == (7, {0: 9, 1: 0})


def test_a_topic_that_takes_the_place_of_another_begins_with_its_first_record(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 50))
    see(cluster, (0, 2), topic_id="id-2")
    see(cluster, (0, 2), topic_id="id-2")
    assert told(cluster) == [{"partitions": [0], "first": {"0": 0}, "end": {"0": 2}}]
    see(cluster, (0, 60))
    assert [event.topic_id for event in cluster.events(TopicCursorSet)] == ["id-1", "id-2"], "a broker told late of the old one"


def test_another_version_keeps_the_cursor_unless_it_names_another_topic(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 5))
    put(cluster, records={"topic": "orders", "at_least": 2})
    see(cluster, (0, 7))
    assert told(cluster) == [{"partitions": [0], "first": {"0": 5}, "end": {"0": 7}}]
    put(cluster, records="payments")
    see(cluster, (0, 9))
    assert len(cluster.events(TopicCursorSet)) == 1, "what was seen of the old topic says nothing of the new one"
    put(cluster, records=None, interval="60s", instant_parameters=dict.fromkeys(OF_RECORDS, "timestamp"))
    assert (cluster.master.schedules.watchers, cluster.master.schedules.schedules["s"].cursor) == ([], None)


def test_what_cannot_be_decided_pauses_the_schedule_and_the_records_stay(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    days: Any = {"except": ["2026-01-01"]}
    put(cluster, time_zone="Europe/Berlin", **days)
    see(cluster, (0, 0))

    def unknown(name: str) -> None:
        raise InstantUnknown(f"this host does not know the time zone '{name}'")

    with monkeypatch.context() as patch:
        patch.setattr("eventflink.model.schedules._zone", unknown)
        see(cluster, (0, 1))
    [paused] = cluster.events(SchedulePaused)
    assert paused.reason.startswith("its job cannot be started for the records that are there: this host does not know the time zone")
    cluster.command(type="ResumeSchedule", schedule_id="s")
    see(cluster, (0, 1))
    assert told(cluster) == [{"partitions": [0], "first": {"0": 0}, "end": {"0": 1}}]


def test_a_job_that_fails_keeps_its_records_for_a_rerun(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 0))
    cluster.run(see(cluster, (0, 3)), lambda _: ExecutionState.FAILED)
    [failed] = [event.job_id for event in cluster.events(JobSubmitted)]
    cluster.command(type="RerunJob", job_id="again", rerun_of=failed)
    assert [*cluster.job("again").execution_graph.graph.parameters] == [*cluster.job(failed).execution_graph.graph.parameters]
    see(cluster, (0, 3))
    assert len(told(cluster)) == 2, "the job and its rerun"


def test_there_is_no_backfill_of_records(cluster: ScriptedCluster) -> None:
    put(cluster)
    cluster.command(type="StartBackfill", schedule_id="s", first_ms=0, end_ms=10**9)
    [refused] = cluster.events(RequestRejected)
    assert refused.message == "schedule 's' has no instants but its batches of records: run one again"


def test_so_many_schedules_take_records_and_no_more(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.master.schedules.MAX_WATCHERS", 2)
    for number in range(3):
        put(cluster, schedule_id=f"s{number}")
    put(cluster, schedule_id="s1", records="others")
    [refused] = cluster.events(RequestRejected)
    assert refused.message == "2 schedules take records of topics, or versions of tables, already: delete one"
    assert MAX_WATCHERS == 1_000


def test_the_cursor_begins_with_what_came_since_the_schedule_was_stored_also_where_nobody_looked(cluster: ScriptedCluster) -> None:
    put(cluster)
    stored_ms = cluster.wall_ms
    cluster.command(type="PauseSchedule", schedule_id="s", reason="not yet")
    cluster.pass_time(5_000)
    put(cluster, description="another version")
    [watch] = due_watches(cluster.master, cluster.wall_ms)
    assert (watch.topic, watch.since_ms) == ("orders", stored_ms)
    see(cluster, (0, 9), since=(4,))
    cluster.command(type="ResumeSchedule", schedule_id="s")
    running = see(cluster, (0, 9))
    assert told(cluster) == [{"partitions": [0], "first": {"0": 4}, "end": {"0": 9}}]
    put(cluster, records={"topic": "payments", "wait": "5s", "at_least": 2})
    [watch] = due_watches(cluster.master, cluster.wall_ms)
    assert (watch.topic, watch.since_ms) == ("payments", cluster.wall_ms), "also while a job runs"
    cluster.timer(RecordsSeen("s", "payments", "id-3", (OffsetRange(0, 0, 7),), (PartitionOffset(0, 6),)))
    cluster.run(running)
    [watch] = due_watches(cluster.master, cluster.wall_ms)
    assert (watch.offsets, watch.since_ms) == ({0: 6}, cluster.wall_ms - 5_000)


_BOUNDS = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted))


@given(offsets=st.dictionaries(st.integers(0, 5), st.integers(0, 100)), bounds=_BOUNDS, most=st.integers(0, 60), after=st.integers(-1, 6))
def test_what_is_taken_follows_the_cursor_and_is_as_much_as_may_be(
    offsets: dict[int, int], bounds: dict[int, list[int]], most: int, after: int
) -> None:
    there = records_behind(offsets, [OffsetRange(partition, *ends) for partition, ends in bounds.items()])
    for partition, each in there.items():
        begin, end = bounds[partition]
        assert each.first_offset == max(begin, offsets.get(partition, 0)) < each.end_offset == end
    taken, total = take_records(there, most, after), count_records(there.values())
    assert count_records(taken) == (min(total, most) if most else total)
    for each in taken:
        assert each.first_offset == there[each.partition].first_offset < each.end_offset <= there[each.partition].end_offset
    counts = {each.partition: count_records([each]) for each in taken}
    for partition, each in there.items():
        is_emptied = counts.get(partition, 0) == count_records([each])
        assert is_emptied or counts.get(partition, 0) >= max(counts.values()) - 1 or max(counts.values()) - counts.get(partition, 0) <= most


def test_a_leader_learns_only_what_a_cursor_has_not_passed(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "wait": "20ms", "at_least": 10})
    asked: list[tuple[str, int]] = []

    def offsets_at(topic: str, time_ms: int) -> tuple[PartitionOffset, ...]:
        asked.append((topic, time_ms))
        return (PartitionOffset(0, 5),)

    def news(*bounds: OffsetRange, topic_id: str = "id-1") -> list[RecordsSeen]:
        watches = due_watches(cluster.master, START_MS + 1_000)
        return [*news_of(watches, {"orders": SeenTopic(topic_id, bounds)} if bounds else {}, offsets_at)]

    assert news() == [], "it was not seen"
    for outcome in news(OffsetRange(0, 0, 5)):
        cluster.timer(outcome)
    assert news(OffsetRange(0, 0, 5)) == []
    assert [each.since for each in news(OffsetRange(0, 0, 6))] == [(PartitionOffset(0, 5),)]
    assert asked[1:] == [("orders", START_MS + 980)]
    assert len(news(OffsetRange(0, 6, 6))) == 1, "something is lost"
    assert len(news(OffsetRange(0, 0, 1), topic_id="id-2")) == 1


INVALID = [
    ({"records": "or ders"}, "records.topic: invalid topic: 'or ders'; a topic has at most 249 letters"),
    ({"records": ".."}, "records.topic: invalid topic: '..'"),
    ({"records": {"topic": "o", "begin": "middle"}}, "records.begin: must be 'earliest' or 'latest', not 'middle'"),
    ({"records": "__consumer_offsets"}, "records.topic: invalid topic: '__consumer_offsets'; that is Kafka's own"),
    ({"records": {"topic": "o", "at_least": True}}, "records.at_least: must be a whole number, not true"),
    ({"records": {"topic": "o", "at_least": "10"}}, "records.at_least: must be a whole number, not '10'"),
    ({"records": {"topic": "o", "at_least": 0}}, "records.at_least: "),
    ({"records": {"topic": "o", "at_least": 5, "at_most": 4}}, "records: 'at_most' is 4, and fewer than 'at_least', 5"),
    ({"records": {"topic": "o", "from": "x"}}, "records.from: unknown key"),
    ({"records": {"begin": "latest"}}, "records.topic: it is missing"),
    ({"records": "o", "overlap": "skip"}, "overlap: with 'records' it is 'queue', so that records wait while a job runs, or 'allow'"),
    ({"records": "o", "catch_up": "last"}, "catch_up: with 'records' it is 'all'"),
    ({"records": "o", "jitter": "1s"}, "invalid jitter: a schedule with 'records' has no jitter"),
    ({"records": "o", "after": "p"}, "a schedule has one of 'cron', 'interval', 'after', 'records' and 'versions'"),
    (
        {"records": "o", "instant_parameters": {"first": "run"}},
        "instant_parameters.first: 'run' is not known of a schedule with 'records'; known: date, timestamp, partitions, starting-offsets",
    ),
    ({"interval": "1h", "instant_parameters": {"first": "ending-offsets"}}, "'ending-offsets' is not known of a schedule with 'interval'"),
    ({"records": "o", "instant_parameters": {"none": "date"}}, "none"),
    ({"records": "o"}, "parameter 'end': it has neither a default nor a value"),
]


@pytest.mark.parametrize(("document", "message"), INVALID, ids=[message[:50] for _, message in INVALID])
def test_what_would_pass_over_records_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule) as raised:
        check_schedule({"job": JOB, **document})
    assert message in str(raised.value)


@pytest.mark.parametrize("more", [{}, {"begin": "earliest", "at_least": 7, "wait": "90s", "at_most": 70}])
def test_a_document_says_what_it_was_made_of(more: dict[str, Any]) -> None:
    definition = check_schedule({"records": {"topic": "orders", **more}, "instant_parameters": OF_RECORDS, "job": JOB})
    document = schedule_document(definition)
    assert check_schedule(document) == definition
    assert (document["overlap"], document["catch_up"], document["records"]["topic"]) == ("queue", "all", "orders")

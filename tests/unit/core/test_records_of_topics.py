"""Schedules that take the records of topics: each record belongs to one job, whoever leads, and none is passed over in silence."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventflink.events.log_events import JobSubmitted, RecordsClaimed, RequestRejected, SchedulePaused, TopicCursorSet
from eventflink.leadership.topic_sightings import SeenTopic, TopicSightings
from eventflink.master.effects import due_watches
from eventflink.master.inputs import RecordsSeen
from eventflink.master.schedules import MAX_WATCHERS
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, schedule_document
from eventflink.model.schedules import OffsetRange, take_records
from eventflink.model.statuses import ExecutionState
from eventflink.views.schedules import schedule_view
from tests.support.cluster import ScriptedCluster, graph, vertex

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


def see(cluster: ScriptedCluster, *bounds: tuple[int, int], topic_id: str = "id-1", waited_ms: int = 0) -> list[Any]:
    """Have the leader see a topic, which has these offsets from its first partition on."""
    ranges = tuple(OffsetRange(partition, first, end) for partition, (first, end) in enumerate(bounds))
    return cluster.timer(RecordsSeen("s", "orders", topic_id, ranges, waited_ms))


def told(cluster: ScriptedCluster) -> list[dict[str, Any]]:
    """Return what the jobs of records were told, the first first: by parameter, of the topic."""
    jobs = [event.job_graph.parameters for event in cluster.events(JobSubmitted) if event.scheduled is not None]
    return [{each.name: json.loads(each.value or "")["orders"] for each in parameters} for parameters in jobs]


@pytest.mark.rule("P21")
def test_each_record_belongs_to_one_job_over_changes_of_leaders(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "begin": "earliest"})
    see(cluster, (3, 5), (0, 0))
    for number, end in enumerate((5, 9, 9, 12)):
        done = see(cluster, (3, end), (0, number))
        if number % 2:
            done = [*done, *cluster.fail_over().effects]
        cluster.run([*done, *see(cluster, (3, end), (0, number))])
    assert told(cluster) == [
        {"partitions": [0], "first": {"0": 3}, "end": {"0": 5}},
        {"partitions": [0, 1], "first": {"0": 5, "1": 0}, "end": {"0": 9, "1": 1}},
        {"partitions": [1], "first": {"1": 1}, "end": {"1": 2}},
        {"partitions": [0, 1], "first": {"0": 9, "1": 2}, "end": {"0": 12, "1": 3}},
    ]
    [*_, first] = schedule_view(cluster.fold, "s").history
    assert (first.records, first.sentence) == (2, "started, for 2 records.")


def test_a_cursor_begins_at_the_end_unless_the_schedule_says_otherwise(cluster: ScriptedCluster) -> None:
    put(cluster)
    view = schedule_view(cluster.fold, "s")
    assert view.cursor is not None
    assert (view.when, view.next, view.cursor.topic, view.cursor.topic_id) == ("records of orders", None, "orders", None)
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
    assert [*due_watches(cluster.master)] == [], "nobody looks meanwhile"
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


def test_a_batch_has_as_many_records_as_are_asked_for_or_those_that_have_waited(cluster: ScriptedCluster) -> None:
    put(cluster, records={"topic": "orders", "at_least": 10, "wait": "5s", "at_most": 20}, overlap="allow")
    see(cluster, (0, 0), (0, 0))
    see(cluster, (0, 4), (0, 5), waited_ms=4_999)
    assert told(cluster) == []
    see(cluster, (0, 4), (0, 5), waited_ms=5_000)
    see(cluster, (0, 4), (0, 5), waited_ms=50_000)
    see(cluster, (0, 34), (0, 15))
    sizes = [sum(each["end"][p] - each["first"][p] for p in each["first"]) for each in told(cluster)]
    assert sizes == [9, 20]
    see(cluster, (0, 34), (0, 15))
    assert told(cluster)[2]["end"] == {"0": 34, "1": 15}


def test_records_that_kafka_has_deleted_are_counted(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 5))
    see(cluster, (8, 9))
    [claimed] = cluster.events(RecordsClaimed)
    assert (claimed.ranges, claimed.lost) == ((OffsetRange(0, 8, 9),), 3)
    cursor = schedule_view(cluster.fold, "s").cursor
    assert cursor is not None
    assert (cursor.lost, cursor.offsets) == (3, {0: 9})


def test_a_topic_that_takes_the_place_of_another_begins_with_its_first_record(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, (0, 50))
    see(cluster, (0, 2), topic_id="id-2")
    see(cluster, (0, 2), topic_id="id-2")
    assert told(cluster) == [{"partitions": [0], "first": {"0": 0}, "end": {"0": 2}}]
    assert [event.topic_id for event in cluster.events(TopicCursorSet)] == ["id-1", "id-2"]


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


def test_a_job_that_cannot_be_started_pauses_its_schedule_and_the_records_stay(cluster: ScriptedCluster) -> None:
    put(cluster)
    see(cluster, *[(0, 0)] * 300)
    see(cluster, *[(10**9, 10**9 + 1)] * 300)
    [paused] = cluster.events(SchedulePaused)
    assert paused.reason.startswith("its job cannot be started for the records that are there: parameter 'end': a value has at most 4096")
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
    assert refused.message == "2 schedules take records of topics already: delete one"
    assert MAX_WATCHERS == 1_000


@given(
    offsets=st.dictionaries(st.integers(0, 5), st.integers(0, 100)),
    bounds=st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted).map(tuple)),
    most=st.integers(0, 60),
)
def test_what_is_taken_follows_the_cursor_and_is_as_much_as_may_be(
    offsets: dict[int, int], bounds: dict[int, tuple[int, int]], most: int
) -> None:
    taken, everything = take_records(offsets, bounds, most), take_records(offsets, bounds, 0)
    total = sum(each.end_offset - each.first_offset for each in everything)
    assert [each.partition for each in taken] == sorted({each.partition for each in taken})
    for each in taken:
        begin, end = bounds[each.partition]
        assert each.first_offset == max(begin, offsets.get(each.partition, 0)) < each.end_offset <= end
    assert sum(each.end_offset - each.first_offset for each in taken) == (min(total, most) if most else total)


def test_a_leader_learns_only_what_a_cursor_has_not_passed_and_for_how_long_that_waits(cluster: ScriptedCluster) -> None:
    put(cluster)
    sightings, topic = TopicSightings(), SeenTopic("id-1", (OffsetRange(0, 0, 5),))

    def saw(end: int, now_ms: int, topic_id: str = "id-1") -> list[int]:
        seen = {"orders": SeenTopic(topic_id, (OffsetRange(0, 0, end),))}
        return [each.waited_ms for each in sightings.saw(due_watches(cluster.master), seen, now_ms)]

    assert [*sightings.saw(due_watches(cluster.master), {}, 0)] == [], "it was not seen"
    for outcome in sightings.saw(due_watches(cluster.master), {"orders": topic}, 0):
        cluster.timer(outcome)
    assert [saw(5, 1), saw(6, 10), saw(7, 30), saw(7, 70)] == [[], [0], [20], [60]]
    assert saw(5, 80) == []
    assert saw(6, 90) == [0]
    assert saw(1, 95, "id-2") == [0]


INVALID = [
    ({"records": "or ders"}, "records.topic: invalid topic: 'or ders'; a topic has at most 249 letters"),
    ({"records": ".."}, "records.topic: invalid topic: '..'"),
    ({"records": {"topic": "o", "begin": "middle"}}, "records.begin: must be 'earliest' or 'latest', not 'middle'"),
    ({"records": {"topic": "o", "at_least": 0}}, "records.at_least: "),
    ({"records": {"topic": "o", "at_least": 5, "at_most": 4}}, "records: 'at_most' is 4, and fewer than 'at_least', 5"),
    ({"records": {"topic": "o", "from": "x"}}, "records.from: unknown key"),
    ({"records": {"begin": "latest"}}, "records.topic: it is missing"),
    ({"records": "o", "overlap": "skip"}, "overlap: with 'records' it is 'queue', so that records wait while a job runs, or 'allow'"),
    ({"records": "o", "catch_up": "last"}, "catch_up: with 'records' it is 'all'"),
    ({"records": "o", "jitter": "1s"}, "jitter: there is none with 'records'"),
    ({"records": "o", "after": "p"}, "a schedule has one of 'cron', 'interval', 'after' and 'records'"),
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

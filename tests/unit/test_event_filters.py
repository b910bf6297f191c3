"""Filters of events: by type, job, TaskManager, acceptance and place; what belongs to a job is found also through its slots."""

import pytest

from eventflink.audit import FilterInvalid
from eventflink.audit.filters import EVENT_TYPES, EventFilter, LogPlace, Range, Wanted, entries_within, event_type
from eventflink.events.log_events import JobStatusChanged, LogEvent, SlotAllocated, SlotFreed, SlotOffered
from eventflink.model.statuses import JobStatus
from tests.support.asked_log import append_foreign, entries_of, storied_cluster
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, tasks, vertex
from tests.support.scenarios import eventful_cluster

LATE = JobStatusChanged("job", JobStatus.RUNNING, JobStatus.FAILING)


@pytest.fixture(scope="module")
def eventful() -> ScriptedCluster:
    return eventful_cluster()


@pytest.fixture(scope="module")
def storied() -> ScriptedCluster:
    return storied_cluster()


def chosen(cluster: ScriptedCluster, wanted: Wanted) -> list[LogEvent]:
    event_filter = EventFilter(wanted)
    return [entry.decision.events[index] for entry in entries_of(cluster) for index in event_filter.choose(entry)]


def test_nothing_wanted_is_everything(eventful: ScriptedCluster) -> None:
    assert chosen(eventful, Wanted()) == [e for d in eventful.decisions() for e in d.events]


def test_types_are_found_however_they_are_capitalised(eventful: ScriptedCluster) -> None:
    wanted = Wanted(types=frozenset({event_type("slotfreed"), event_type("SLOTOFFERED")}))
    assert chosen(eventful, wanted) == eventful.events(SlotFreed, SlotOffered)


@pytest.mark.parametrize(
    ("name", "near"), [("JobSubmited", "JobSubmitted"), ("TaskFail", "TaskFailed"), ("qqqqqqqq", "docs/generated/events.md")]
)
def test_an_unknown_type_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(FilterInvalid, match=near):
        event_type(name)
    assert name not in EVENT_TYPES


def test_what_belongs_to_a_job_is_found_through_its_slots(storied: ScriptedCluster) -> None:
    events = chosen(storied, Wanted(job_id="restarting"))
    names = [type(event).__name__ for event in events]
    assert names[:3] == ["RequestAccepted", "JobSubmitted", "JobMasterStarted"]
    assert names[-1] == "JobEvicted"
    assert [e.allocation_id for e in events if isinstance(e, SlotFreed)] == ["allocation-1", "allocation-2"]
    others = {getattr(e, "job_id", "restarting") for e in events} | {getattr(e, "subject", "restarting") for e in events}
    assert others == {"restarting"}


def test_the_beginning_of_a_job_id_is_enough(storied: ScriptedCluster) -> None:
    assert chosen(storied, Wanted(job_id="restar")) == chosen(storied, Wanted(job_id="restarting"))
    assert chosen(storied, Wanted(job_id="nobody")) == []


def test_what_belongs_to_a_task_manager_is_found_through_its_slots_and_tasks() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=1)
    cluster.register("tm2", slots=1)
    effects = cluster.submit(graph(vertex("a", 2)))
    on_tm2 = tasks([d for d in deployments(effects) if d.task_manager_id == "tm2"])[0]
    cluster.run(effects)
    events = chosen(cluster, Wanted(task_manager_id="tm2"))
    assert [type(e).__name__ for e in events] == [
        "TaskManagerRegistered",
        "SlotAllocated",
        "TaskDeployed",
        "SlotOffered",
        "TaskStateChanged",
        "TaskStateChanged",
        "TaskFinished",
        "SlotFreed",
    ]
    assert {e.subtask_index for e in events if hasattr(e, "subtask_index")} == {on_tm2.subtask_index}
    assert chosen(cluster, Wanted(task_manager_id="tm2-1")) == events


def test_a_job_and_a_task_manager_together_are_both(storied: ScriptedCluster) -> None:
    both = chosen(storied, Wanted(job_id="late", task_manager_id="tm1"))
    assert [e.allocation_id for e in both if isinstance(e, SlotAllocated)] == [f"allocation-{n}" for n in range(3, 9)]
    assert all(event in chosen(storied, Wanted(job_id="late")) for event in both)


def test_rejected_decisions_are_shown_alone_or_left_out_and_change_nothing_for_the_others() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    cluster.submit(graph(vertex("a")))
    cluster.fail_over()
    append_foreign(cluster, LATE, SlotFreed("allocation-1"), epoch=1, sequence=99, leader_id="leader-1")
    cluster.run(cluster.settle())
    assert chosen(cluster, Wanted(accepted=False)) == [LATE, SlotFreed("allocation-1")]
    assert LATE not in chosen(cluster, Wanted(accepted=True))
    assert len(chosen(cluster, Wanted())) == len(chosen(cluster, Wanted(accepted=True))) + 2


def offsets(cluster: ScriptedCluster, first: str | None, last: str | None) -> list[int]:
    wanted = Range(LogPlace.parse(first) if first else LogPlace(), LogPlace.parse(last) if last else LogPlace())
    return [entry.offset for entry in entries_within(entries_of(cluster), wanted)]


def test_offsets_bound_a_range_on_both_sides(eventful: ScriptedCluster) -> None:
    assert offsets(eventful, "3", "5") == [3, 4, 5]
    assert offsets(eventful, None, "1") == [0, 1]
    assert offsets(eventful, "999", None) == []
    assert Range(last=LogPlace.parse("5")).end_offset(100) == 6
    assert Range(last=LogPlace.parse("500")).end_offset(100) == 100


def test_times_bound_a_range_on_both_sides_and_are_utc_unless_they_say_otherwise(eventful: ScriptedCluster) -> None:
    times = {e.offset: e.decision.decided_at_ms for e in entries_of(eventful)}
    late = [offset for offset, at_ms in times.items() if at_ms >= START_MS + 400_000]
    assert late
    assert offsets(eventful, "2027-01-15T08:06:40", None) == late
    assert offsets(eventful, "2027-01-15T09:06:40+01:00", None) == late
    assert offsets(eventful, None, "2027-01-15T08:06:39.999Z") == [offset for offset in times if offset not in late]


def test_a_time_between_two_milliseconds_lets_in_neither_what_is_before_a_part_nor_what_is_behind_it() -> None:
    text, whole = "2027-01-15T08:06:40.0006", "2027-01-15T08:06:40.001"
    assert LogPlace.parse(text, is_first=True) == LogPlace.parse(whole) == LogPlace.parse(whole, is_first=True)
    assert LogPlace.parse(text) == LogPlace.parse("2027-01-15T08:06:40")
    assert LogPlace.parse("1969-12-31T23:59:59.9994") == LogPlace(at_ms=-1), "also before 1970"


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "", "12:00", "٣", "9" * 19])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(FilterInvalid, match="neither an offset nor a time"):
        LogPlace.parse(text)

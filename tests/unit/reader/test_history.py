"""The past is what a replay from the first record would make of it, whichever way a historian takes to get there."""

import gc
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from eventflink.audit import NothingKnown
from eventflink.audit.entries import Entry, FoldJudge, Record, read_entries
from eventflink.audit.filters import EventFilter, LogPlace, Range, Wanted, entries_within
from eventflink.audit.subjects import SubjectType
from eventflink.documents.plain import plain
from eventflink.events.log_events import (
    JobSubmitted,
    RequestAccepted,
    RequestRejected,
    SlotRequested,
    TaskManagerRegistered,
    TaskScheduled,
)
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.master.settings import MasterSettings
from eventflink.reader.past import decisions, log_index, state_ring, time_line, why
from eventflink.reader.past.decisions import EventsWanted
from eventflink.reader.past.fold_pickle import dump_fold, load_fold, release_fold
from eventflink.reader.past.historian import Historian
from eventflink.reader.past.links import MAX_LINKS
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.log_index import INDEX_BITS
from eventflink.reader.past.port import HistoryRefused, Refusal
from eventflink.reader.past.record_store import BLOCK_RECORDS, RecordStore
from eventflink.snapshots.snapshot import encode_fold
from tests.support.asked_log import append_foreign, records_of, storied_cluster
from tests.support.cluster import CODEC, ScriptedCluster, graph, new_fold, vertex
from tests.support.scenarios import busy_cluster, eventful_cluster
from tests.support.simulated_log import simulated_log

SEEDS = (2, 5)
SHORT = 6
"""A seed whose log is short, and has four leaderships and rejected decisions."""


def book_of(log: Sequence[Record]) -> LogBook:
    book = LogBook(log[0][0], new_fold())
    book.follow(log)
    return book


def replayed(log: Sequence[Record], fold: Fold | None = None) -> Fold:
    fold = fold or new_fold()
    for record in log:
        fold.fold_record(*record)
    return fold


@pytest.fixture
def small_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states be so near and so few that a short log has all that a long one has."""
    monkeypatch.setattr(state_ring, "LEAST_EVENTS", 20)
    monkeypatch.setattr(state_ring, "LOAD_BYTES", 1_000)
    monkeypatch.setattr(state_ring, "MAX_STATES", 6)
    monkeypatch.setattr(state_ring, "EVEN_EVENTS", 100)


@pytest.mark.usefixtures("small_ring")
def test_the_state_at_every_offset_is_that_of_a_fold_of_the_records_up_to_it() -> None:
    log = simulated_log(SHORT)
    book = book_of(log)
    expected, fold = [], new_fold()
    for record in log:
        fold.fold_record(*record)
        expected.append(encode_fold(fold))
    forth = range(len(log))
    for offset in (*Random(1).sample(forth, len(forth)), *forth, *reversed(forth)):
        assert encode_fold(book.state_at(offset)) == expected[offset], offset


@pytest.mark.parametrize("cluster", [busy_cluster, eventful_cluster])
def test_a_fold_is_loaded_as_it_was_dumped_and_goes_on_alone(cluster: type[ScriptedCluster]) -> None:
    log = records_of(cluster())
    fold = replayed(log[: len(log) // 2])
    before = encode_fold(fold)
    loaded = load_fold(dump_fold(fold), fold.codec)
    assert encode_fold(loaded) == before
    loaded.master.validate()
    assert loaded.master.digest() == fold.master.digest()
    assert encode_fold(replayed(log[len(log) // 2 :], loaded)) == encode_fold(replayed(log))
    assert encode_fold(fold) == before


def test_a_fold_that_is_released_leaves_nothing_for_the_collector_of_garbage() -> None:
    data = dump_fold(replayed(records_of(busy_cluster())))

    def jobs_in_memory() -> int:
        return sum(type(each) is JobMaster for each in gc.get_objects())

    gc.disable()
    try:
        before = jobs_in_memory()
        loaded = load_fold(data, CODEC)
        assert jobs_in_memory() > before
        release_fold(loaded)
        assert jobs_in_memory() == before
    finally:
        gc.enable()


def test_a_state_that_is_asked_for_to_be_changed_is_nobody_elses() -> None:
    log = simulated_log(SEEDS[0])
    historian = Historian(book_of(log), "", MasterSettings(job_store_capacity=7))
    for offset in (len(log) // 2, len(log) - 1):
        place = historian.book.index.first_offset + offset
        spent = historian.book.copy_of_state_at(place, MasterSettings(job_store_capacity=7))
        assert spent.master.settings.job_store_capacity == 7
        spent.master.dispatcher.jobs.clear()
        assert encode_fold(historian.book.state_at(place)) == encode_fold(replayed(log[: place + 1]))


@pytest.mark.usefixtures("small_ring")
def test_a_ring_has_a_bounded_number_of_states_and_its_oldest_ones_are_furthest_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_ring, "MAX_STATES", 12)
    monkeypatch.setattr(state_ring, "EVEN_EVENTS", 1)
    ring, fold = state_ring.StateRing(), new_fold()
    for record in simulated_log(7):
        fold.fold_record(*record)
        ring.offer(fold)
        assert len(ring.states) <= 12
        assert ring.byte_count == sum(len(state.data) for state in ring.states)
    counts = [state.event_count for state in ring.states]
    assert counts[0] <= 20
    assert fold.event_count - counts[-1] <= max(later - earlier for earlier, later in pairwise(counts))
    middle = len(counts) // 2
    assert counts[middle] - counts[0] > counts[-1] - counts[middle]


def entries_in(log: Sequence[Record]) -> list[Entry]:
    return list(read_entries(log, FoldJudge(new_fold())))


@pytest.mark.parametrize("seed", SEEDS)
def test_whose_an_event_is_the_index_says_as_a_filter_of_events_does(seed: int) -> None:
    log = simulated_log(seed)
    index, entries = book_of(log).index, entries_in(log)
    submitted = {event.job_id for entry in entries for event in entry.decision.events if isinstance(event, JobSubmitted)}
    registered = {e.task_manager_id for entry in entries for e in entry.decision.events if isinstance(e, TaskManagerRegistered)}
    assert len(submitted) > 5
    assert registered <= set(index.by_task_manager)
    for job_id in submitted:
        if sum(other.startswith(job_id) for other in submitted) > 1:
            continue  # A filter takes the beginning of an id.
        event_filter = EventFilter(Wanted(job_id=job_id))
        chosen = [
            (entry.offset << INDEX_BITS) + number
            for entry in entries
            for number in event_filter.choose(entry)
            if getattr(entry.decision.events[number], "subject", job_id) == job_id
        ]
        first = index.by_job[job_id][0]
        assert list(index.by_job[job_id]) == [place for place in chosen if place >= first]
    for task_manager_id in registered:
        event_filter = EventFilter(Wanted(task_manager_id=task_manager_id))
        chosen = [(entry.offset << INDEX_BITS) + number for entry in entries for number in event_filter.choose(entry)]
        assert list(index.by_task_manager[task_manager_id]) == chosen


def as_a_filter_says(entries: Sequence[Entry], wanted: Wanted) -> list[tuple[int, int]]:
    event_filter = EventFilter(wanted)
    return [(entry.offset, number) for entry in entries for number in event_filter.choose(entry)]


def as_the_index_says(book: LogBook, **wanted: Any) -> list[tuple[int, int]]:
    page = decisions.events(book, EventsWanted(newest_first=False, limit=100_000, **wanted))
    return [(row.offset, row.index) for row in page.events]


@pytest.mark.parametrize("seed", SEEDS)
def test_beginnings_of_ids_and_instances_and_what_was_refused_are_found_as_by_a_filter(seed: int) -> None:
    log = simulated_log(seed)
    book, entries = book_of(log), entries_in(log)
    told = [event for entry in entries for event in entry.decision.events]
    ids = {text for event in told for text in (getattr(event, "job_id", ""), getattr(event, "subject", "")) if text}
    refused = {event.subject for event in told if isinstance(event, RequestRejected)}
    assert refused - set(book.index.by_job), "no job has this id"
    jobs = [text for text in {part for each in ids for part in (each, each[:3], each[:5])} if text not in book.index.by_job]
    alone = [each for each in book.index.by_job if sum(other.startswith(each) for other in ids) == 1]
    for text in jobs + alone:
        assert as_the_index_says(book, job_id=text) == as_a_filter_says(entries, Wanted(job_id=text)), text
    holders = {text for event in told for text in (getattr(event, "task_manager_id", ""), getattr(event, "instance_id", "")) if text}
    for text in holders:
        both = Wanted(frozenset({"SlotAllocated", "SlotFreed"}), jobs[0], text)
        assert as_the_index_says(book, task_manager_id=text) == as_a_filter_says(entries, Wanted(task_manager_id=text)), text
        assert as_the_index_says(book, task_manager_id=text, job_id=jobs[0], types=tuple(both.types)) == as_a_filter_says(entries, both)


def test_a_whole_id_of_a_job_is_this_job_alone() -> None:
    cluster = ScriptedCluster()
    for job_id in ("nap-1", "nap-10"):
        cluster.submit(graph(vertex("a")), job_id=job_id)
    rows = decisions.events(book_of(records_of(cluster)), EventsWanted(job_id="nap-1", types=("JobSubmitted",))).events
    assert [row.job_id for row in rows] == ["nap-1"]


def test_of_what_is_no_job_only_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "MAX_SUBJECTS", 2)
    cluster = ScriptedCluster()
    for job_id in ("a", "b", "a", "c"):
        cluster.cancel(job_id)
    assert list(book_of(records_of(cluster)).index.by_subject) == ["a", "c"]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lies_before_and_behind_a_time_the_index_says_as_a_range_does(seed: int) -> None:
    log = simulated_log(seed)
    book, entries = book_of(log), entries_in(log)
    for place in [LogPlace(at_ms=at_ms + more) for at_ms in {entry.decision.decided_at_ms for entry in entries} for more in (0, 1)]:
        begins, ends = Range(first=place), Range(last=place)
        assert [entry.offset for entry in entries_within(entries, begins)] == list(range(*book.range_of(place, None))), place
        assert [entry.offset for entry in entries_within(entries, ends)] == list(range(*book.range_of(None, place))), place


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_is_read_again_as_it_was_judged_in_its_turn(seed: int) -> None:
    log = simulated_log(seed)
    book = book_of(log)
    assert [book.entry(offset) for offset, _, _ in log] == entries_in(log)


def test_a_rejected_decision_is_told_with_the_reason() -> None:
    cluster = storied_cluster()
    late = append_foreign(cluster, *cluster.last_events(), epoch=1, sequence=3, leader_id="master-9")
    cluster.pass_time(1)
    book = book_of(records_of(cluster))
    assert book.entry(late) == entries_in(records_of(cluster))[late]
    assert "leader-1" in (book.entry(late).rejection or "")


def things_of(book: LogBook) -> list[str]:
    """Return an id of every kind that can be asked for, of everything that a log names."""
    found: list[str] = []
    for offset in range(book.first_offset, book.last_offset + 1):
        for event in book.entry(offset).decision.events:
            match event:
                case JobSubmitted():
                    found.append(event.job_id)
                case SlotRequested():
                    found.append(event.allocation_id)
                case TaskScheduled():
                    task = f"{event.job_id}/{event.vertex_id}[{event.subtask_index}]"
                    found += [task, f"{task}#{event.attempt}"]
                case TaskManagerRegistered():
                    found += [event.task_manager_id, event.instance_id]
                case RequestAccepted() | RequestRejected() if event.request_id:
                    found.append(event.request_id)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    "log", [records_of(storied_cluster()), records_of(busy_cluster()), simulated_log(SHORT)], ids=("storied", "busy", "simulated")
)
def test_why_and_stories_leave_out_no_record_of_the_log_that_matters(monkeypatch: pytest.MonkeyPatch, log: Sequence[Record]) -> None:
    book = book_of(log)
    things, last = things_of(book), book.last_offset
    explained = {thing: why.explain(book, thing, last) for thing in things}
    assert {each.type for each in explained.values()} == set(SubjectType)
    stories = {job_id: why.tell_story(book, job_id, last) for job_id in book.index.by_job}

    def everything(_: object, start: object, end: int) -> Iterable[int]:
        return range(start if isinstance(start, int) else 0, end)

    monkeypatch.setattr(why, "_naming", everything)
    monkeypatch.setattr(why, "_concerning", everything)
    for thing, explanation in explained.items():
        assert why.explain(book, thing, last) == explanation, thing
    beginnings = {job_id: why._beginnings(book, [job_id], last + 1) for job_id in stories}
    monkeypatch.setattr(why, "_beginnings", lambda _book, job_ids, _end: sorted(at for job_id in job_ids for at in beginnings[job_id]))
    monkeypatch.setattr(why, "offsets_between", everything)
    for job_id, story in stories.items():
        assert why.tell_story(book, job_id, last) == story, job_id


def test_why_at_a_moment_knows_nothing_of_what_came_later() -> None:
    log = records_of(storied_cluster())
    book = book_of(log)
    for offset in range(6, len(log)):
        then = book_of(log[: offset + 1])
        assert why.explain(book, "restarting", offset) == why.explain(then, "restarting", offset), offset
        assert why.tell_story(book, "restarting", offset) == why.tell_story(then, "restarting", offset), offset


def test_what_the_beginning_of_an_id_names_at_a_moment_does_not_depend_on_later_jobs() -> None:
    cluster = ScriptedCluster()
    for number in (10, 1, 2):
        cluster.submit(graph(vertex("a")), job_id=f"nap-{number}")
    log = records_of(cluster)
    whole, known = book_of(log), LogBook(log[0][0], new_fold())

    def said(book: LogBook, text: str, offset: int) -> list[Any]:
        answers: list[Any] = []
        for answer in (why.explain, why.tell_story):
            try:
                answers.append(answer(book, text, offset))
            except NothingKnown as error:
                answers.append(str(error))
        return answers

    for record in log:
        known.follow([record])
        for text in ("nap", "nap-1", "nap-2", "nap-3"):
            assert said(whole, text, record[0]) == said(known, text, record[0]), (text, record[0])


@pytest.mark.parametrize("seed", [*SEEDS, SHORT])
def test_masters_at_a_moment_are_what_whoever_knew_no_later_record_would_say(seed: int) -> None:
    log = simulated_log(seed)
    whole, known = book_of(log), LogBook(log[0][0], new_fold())
    for record in log:
        known.follow([record])
        assert time_line.masters(whole, record[0]) == time_line.masters(known, record[0])


@pytest.mark.parametrize("log", [records_of(storied_cluster()), records_of(busy_cluster()), records_of(eventful_cluster())])
def test_of_a_log_whose_beginning_is_gone_why_is_answered_by_the_state_and_what_is_left(log: Sequence[Record]) -> None:
    whole, first = book_of(log), len(log) // 2
    snapshot, last = first + 2, whole.last_offset
    book = LogBook(first, replayed(log[: snapshot + 1]))
    book.follow(log[first:])
    master = whole.fold.master
    tasks = [
        f"{job.job_id}/{task.vertex_id}[{task.subtask_index}]"
        for job in master.dispatcher.jobs.values()
        for task in job.execution_graph.subtasks()
    ]
    slots = [*master.slot_manager.allocations, *master.slot_manager.pending]
    for thing in (*master.dispatcher.jobs, *tasks, *slots, *master.resource_manager.task_managers):
        told, expected = why.explain(book, thing, last), why.explain(whole, thing, last)
        assert (told.type, told.id, told.state, told.waits, told.cause) == (
            expected.type,
            expected.id,
            expected.state,
            expected.waits,
            expected.cause,
        )
        # What was decided before, and is continued later, is not known to be a cause any more.
        kept = {step.offset for step in expected.chain if step.offset >= first}
        assert {step.offset for step in told.chain} <= kept or not kept, "of what had ended before is told what became of its job"
    with pytest.raises(NothingKnown, match=f"the log begins at offset {first}"):
        why.explain(book, "nobody", last)
    for job_id, places in whole.index.by_job.items():
        if places[0] >> INDEX_BITS < first:
            with pytest.raises(NothingKnown, match=f"the log begins at offset {first}"):
                why.tell_story(book, job_id, last)
        else:
            assert why.tell_story(book, job_id, last) == why.tell_story(whole, job_id, last)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_decision_continues_is_earlier_and_tells_of_it_in_turn(seed: int) -> None:
    book = book_of(simulated_log(seed))
    links, end = book.index.links, book.last_offset + 1
    linked = 0
    for offset in range(end):
        before = links.before(offset)
        linked += len(before)
        assert all(each < offset for each in before)
        for each in before:
            after = links.after(each, end)
            assert offset in after or len(after) == MAX_LINKS
    assert linked > end / 4


def test_a_failure_is_linked_to_the_start_of_its_attempt_and_to_what_came_of_it() -> None:
    historian = Historian(book_of(records_of(storied_cluster())), "", MasterSettings())
    failed = plain(historian.decision(6)["body"])
    assert "TaskFailed" in [event["type"] for event in failed["events"]]
    assert [link["offset"] for link in failed["because_of"]] == [5]
    assert "JobSubmitted" in failed["because_of"][0]["sentence"]
    assert failed["led_to"][0]["offset"] == 7
    assert "RegionRestarted restarting/a[0]#2" in failed["led_to"][0]["sentence"]


@pytest.mark.usefixtures("small_ring")
def test_the_beginning_of_a_long_log_is_forgotten_and_the_rest_is_as_before() -> None:
    log = simulated_log(SEEDS[0])
    whole, book = book_of(log), LogBook(0, new_fold(), max_records=100)
    for record in log:
        book.follow([record])
        assert book.last_offset + 1 - book.first_offset <= 101
    first = book.first_offset
    assert first > 0
    with pytest.raises(HistoryRefused, match=f"history begins at offset {first}") as refused:
        book.state_at(first - 1)
    assert refused.value.refusal is Refusal.GONE
    for offset in range(first, len(log)):
        if offset % 7 == 0 or offset == first:
            assert encode_fold(book.state_at(offset)) == encode_fold(whole.state_at(offset))
        assert book.entry(offset) == whole.entry(offset)
        assert book.time(offset) == whole.time(offset)
        assert book.index.links.before(offset) == [each for each in whole.index.links.before(offset) if each >= first]
        assert book.index.links.after(offset, len(log)) == whole.index.links.after(offset, len(log))
    for job_id, places in whole.index.by_job.items():
        known = book.index.by_job.get(job_id) or book.index.by_subject.get(job_id)  # The latter: named after the job was forgotten.
        assert list(known or ()) == [place for place in places if place >= first << INDEX_BITS]


def test_a_log_that_was_trimmed_is_indexed_from_its_beginning_and_has_states_from_its_oldest_snapshot() -> None:
    log = simulated_log(SEEDS[1])
    first, snapshot = 60, 120
    book = LogBook(first, replayed(log[: snapshot + 1]))
    book.follow(log[first:])
    whole = book_of(log)
    for offset in (first, snapshot - 1):
        assert book.entry(offset).decision == whole.entry(offset).decision
        with pytest.raises(HistoryRefused, match=f"history begins at offset {snapshot}"):
            book.state_at(offset)
    for offset in (snapshot, snapshot + 1, len(log) - 2, len(log) - 1):
        assert encode_fold(book.state_at(offset)) == encode_fold(whole.state_at(offset))
    assert [one.epoch for one in book.index.leaderships] == [
        one.epoch for one in whole.index.leaderships if one.epoch >= book.index.leaderships[0].epoch
    ]


def test_a_moment_that_is_not_indexed_yet_is_refused_for_now() -> None:
    log = simulated_log(SEEDS[0])
    book = book_of(log[:50])
    with pytest.raises(HistoryRefused, match="the log is indexed up to offset 49, not yet up to 50") as refused:
        book.state_at(50)
    assert refused.value.refusal is Refusal.NOT_YET
    with pytest.raises(HistoryRefused, match="nothing of the log is indexed yet"):
        LogBook(0, new_fold()).offset_of(None)


def test_records_are_kept_packed_and_read_as_they_came() -> None:
    log = simulated_log(SEEDS[1])
    store = RecordStore(0)
    for record in log:
        store.append(record)
    assert store.byte_count < sum(len(value) for _, _, value in log)
    for first, end in [(0, len(log)), (BLOCK_RECORDS - 1, BLOCK_RECORDS + 1), (5, 5), (len(log) - 1, len(log) + 9)]:
        assert list(store.read(first, end)) == list(log[first:end])
    for text in ("job-1", "tm-1", "nobody"):
        expected = [offset for offset, _, value in log[:90] if text.encode() in value]
        assert store.mentioning(text, 90) == expected

"""Logs to be asked: those of scripted clusters, without Kafka, and records that no master accepts."""

from collections.abc import Iterable

from eventflink.audit.entries import Entry, Record, judge_for, read_entries
from eventflink.documents.explanation import Explanation, StoryOfJob
from eventflink.events.decision import Cause, Decision
from eventflink.events.inputs import SlotReport, TaskManagerDeath
from eventflink.events.log_events import LogEvent
from eventflink.master.inputs import CleanupsCompleted
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.why import explain, tell_story
from tests.support.cluster import CODEC, ScriptedCluster, deployments, fixed_delay, graph, new_fold, vertex


def records_of(cluster: ScriptedCluster, first_offset: int = 0) -> list[Record]:
    """Return the log of a scripted cluster, from an offset on."""
    return [(offset, cluster.timestamps[offset], cluster.log[offset]) for offset in range(first_offset, len(cluster.log))]


def book_of(records: Iterable[Record]) -> LogBook:
    """Return a book of a whole log."""
    book = LogBook(0, new_fold())
    book.follow(records)
    return book


def entries_of(cluster: ScriptedCluster, first_offset: int = 0) -> list[Entry]:
    """Return what an auditor reads, of a whole log or of one whose beginning was trimmed away."""
    return list(read_entries(records_of(cluster, first_offset), judge_for(first_offset, new_fold())))


def storied_cluster() -> ScriptedCluster:
    """Return a cluster with stories to tell: a restart, a loss, a late input, a refusal, failures; most jobs are evicted at the end."""
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register("tm1", slots=3)
    [failing] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3)), job_id="restarting"))
    cluster.report(failing, ExecutionState.FAILED)
    cluster.run(cluster.pass_time(600))
    cluster.run(cluster.submit(graph(vertex("a", 3), vertex("b", 3), edges=[("a", "b", "forward")]), job_id="late"))
    cluster.register("tm2", slots=2)
    cluster.say(TaskManagerDeath("tm2", "tm2-1", "exit code 137"))
    cluster.register("tm2", slots=1, instance="2")
    [missing] = deployments(cluster.submit(graph(vertex("a")), job_id="missing"))
    cluster.report(missing, ExecutionState.RUNNING)
    cluster.submit(graph(vertex("b")), job_id="missing", request_id="duplicate")
    cluster.submit(graph(vertex("b")), job_id="missing", request_id="duplicate")
    cluster.say(SlotReport("tm1", "tm1-1", (), ()))
    [caused] = deployments(cluster.submit(graph(vertex("a")), job_id="caused"))
    cluster.report(caused, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", "Traceback"))
    cluster.timer(CleanupsCompleted(("missing",)))
    cluster.pass_time(1)
    return cluster


def why(cluster: ScriptedCluster, text: str) -> Explanation:
    book = book_of(records_of(cluster))
    return explain(book, text, book.last_offset)


def story_of(cluster: ScriptedCluster, text: str) -> StoryOfJob:
    book = book_of(records_of(cluster))
    return tell_story(book, text, book.last_offset)


def append_foreign(
    cluster: ScriptedCluster, *events: LogEvent, epoch: int, sequence: int, leader_id: str, causes: tuple[Cause, ...] = ()
) -> int:
    """Append a decision of another master, which the leader passes over; return its offset."""
    decision = Decision(
        epoch=epoch,
        sequence=sequence,
        leader_id=leader_id,
        decided_at_ms=cluster.wall_ms,
        previous_hash=b"",
        causes=causes,
        actor="",
        events=events,
    )
    offset = cluster.append(CODEC.encode(decision))
    cluster.read_back(offset)
    return offset

"""Curves of a stream are sums over whole checkpoints, as the log has them, however many are left out between."""

import unittest.mock
from typing import Any

import pytest

from eventflink.documents.log import FlowOfJob
from eventflink.events.effects import CheckpointOrder
from eventflink.model.stream_progress import StreamOutputProgress, StreamSourceProgress
from eventflink.reader.past import flow_curves as curves
from eventflink.reader.past.flow_curves import flow_curves
from eventflink.reader.past.log_book import LogBook
from tests.support.cluster import ScriptedCluster, deployments, graph, new_fold, orders, stream

CHECKPOINTS = 40


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    """Two jobs, the first with two streams, of three subtasks and of one, and forty checkpoints."""
    cluster = ScriptedCluster()
    cluster.register("tm", slots=16)
    tasks = deployments(cluster.submit(graph(stream("a", 3), stream("b"), checkpointing={"interval_ms": 1_000}), job_id="first"))
    tasks += deployments(cluster.submit(graph(stream("c"), checkpointing={"interval_ms": 1_000}), job_id="other"))
    for task in tasks:
        cluster.start_stream(task)
    for number in range(CHECKPOINTS):
        for order in orders(cluster.pass_time(1_000)):
            behind = StreamSourceProgress(name="s", end_offset="", records_behind=number)
            written = StreamOutputProgress(name="o", location="t", rows_written=10 * number)
            more: dict[str, Any] = {"sources": (behind,), "outputs": (written,)} if number else {}
            assert isinstance(order.payload, CheckpointOrder)
            took_ms = 100 + order.payload.subtask_index
            cluster.acknowledge(order, batch_id=number, input_rows_per_second=2.0, batch_duration_ms=took_ms, **more)
    return cluster


def book_of(cluster: ScriptedCluster) -> LogBook:
    book = LogBook(0, new_fold())
    book.follow((offset, cluster.timestamps[offset], value) for offset, value in enumerate(cluster.log))
    return book


@pytest.mark.parametrize("points", [1, 2, 7, CHECKPOINTS, 500])
def test_each_point_is_the_sum_of_all_subtasks_at_one_checkpoint_and_the_newest_is_there(cluster: ScriptedCluster, points: int) -> None:
    book = book_of(cluster)
    told = flow_curves(book, book.last_offset, "first", points)
    assert told.answers == 4 * CHECKPOINTS
    found = {each.vertex_id: each.points for each in told.vertices}
    assert list(found) == ["a", "b"]
    for vertex_id, subtasks in (("a", 3), ("b", 1)):
        of_vertex = found[vertex_id]
        assert min(points, CHECKPOINTS - 1) - 1 <= len(of_vertex) <= points, "the first checkpoint came before any batch"
        assert {point.subtasks for point in of_vertex} == {subtasks}
        assert {point.input_rows_per_second for point in of_vertex} == {2.0 * subtasks}
        assert {point.batch_duration_ms for point in of_vertex} == {99 + subtasks}
        numbers = [(point.records_behind or 0) // subtasks for point in of_vertex]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == CHECKPOINTS - 1
        assert [point.rows_written for point in of_vertex] == [10 * number * subtasks for number in numbers]
        assert [point.offset for point in of_vertex] == sorted(point.offset for point in of_vertex)


def test_of_a_moment_of_the_past_there_is_nothing_newer(cluster: ScriptedCluster) -> None:
    book = book_of(cluster)
    newest = flow_curves(book, book.last_offset, "first", 500).vertices[0].points
    middle = newest[len(newest) // 2].offset
    assert flow_curves(book, middle, "first", 500).vertices[0].points == newest[: len(newest) // 2 + 1]


def test_so_many_answers_are_read_at_most(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_READ", 30)
    book = book_of(cluster)
    with unittest.mock.patch.object(book, "entry", wraps=book.entry) as read:
        told = flow_curves(book, book.last_offset, "first", 500)
    assert read.call_count <= 60, "each of 30 answers, once to find where its checkpoint ends and once to read it"
    assert [len(each.points) for each in told.vertices] == [5, 5]
    monkeypatch.setattr(curves, "MAX_READ", 3)
    assert flow_curves(book, book.last_offset, "first", 500).vertices == [], "a checkpoint has four answers"


def test_a_job_without_streams_or_that_is_not_known_has_no_curves(cluster: ScriptedCluster) -> None:
    book = book_of(cluster)
    assert flow_curves(book, book.last_offset, "nobody", 10) == FlowOfJob(job_id="nobody", answers=0, vertices=[])

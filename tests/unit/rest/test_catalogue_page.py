"""The page of what jobs read and write: by place, as of the newest run of each job, and nothing that is not known."""

from dataclasses import replace
from typing import Any

import pytest

from eventflink.documents.catalogue import CataloguePlace
from eventflink.events.inputs import TaskStateReport
from eventflink.leadership.fold import Fold
from eventflink.model.attempts import IOMetrics, OutputLocation
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import StreamOutputProgress
from eventflink.views.pages.catalogue import MAX_USES, catalogue_page
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, reports_of, stream, vertex

WRITTEN_AT_MS = 1_800_000_000_000


def pages(fold: Fold) -> dict[tuple[str, str, str | None], CataloguePlace]:
    page = catalogue_page(fold, "", 0, 100)
    assert page.total == len(page.places)
    return {(place.connector, place.location, place.bootstrap_servers): place for place in page.places}


def stream_of(name: str, source: str, sink: dict[str, Any], **kafka: Any) -> dict[str, Any]:
    """Return a job that reads a topic with two subtasks."""
    read = {"kafka": {"topic": source, **kafka}, "format": "json", "schema": "number BIGINT"}
    return graph(vertex("v", 2) | {"stream": {"sources": {"in": read}, "sink": sink}}, checkpointing={"interval_ms": 100}) | {"name": name}


def to_topic(topic: str) -> dict[str, Any]:
    return {"kafka": {"topic": topic}, "format": "json"}


def acknowledge(cluster: ScriptedCluster, location: str, *rows: int) -> None:
    """Have the subtasks say what they have written, in their order."""
    for order, count in zip(orders(cluster.pass_time(100)), rows, strict=True):
        output = StreamOutputProgress(name="", location=location, rows_written=count, written_at_ms=WRITTEN_AT_MS)
        cluster.acknowledge(order, batch_id=3, outputs=(output,))


def test_a_place_has_who_writes_and_who_reads_it_as_of_the_newest_run() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=20)
    cluster.submit(stream_of("clean", "raw", to_topic("clean")), job_id="clean-1")
    cluster.cancel("clean-1")
    for task in deployments(cluster.submit(stream_of("clean", "raw", to_topic("clean")), job_id="clean-2")):
        cluster.start_stream(task)
    acknowledge(cluster, "clean", 3, 4)
    cluster.submit(stream_of("count", "clean", {"python": "jobs:write"}), job_id="count-1")
    found = pages(cluster.fold)
    assert list(found) == [("KAFKA", "clean", None), ("KAFKA", "raw", None), ("PYTHON", "count/jobs:write", None)]
    [writer], [reader] = found["KAFKA", "clean", None].written_by, found["KAFKA", "clean", None].read_by
    assert (writer.name, writer.job_id, writer.vertex_id, writer.status, writer.runs) == ("clean", "clean-2", "v", "RUNNING", 2)
    assert (writer.rows_written, writer.at is not None) == (7, True)
    assert (reader.name, reader.job_id, reader.runs, reader.rows_written, reader.at) == ("count", "count-1", 1, None, None)
    [of_function] = found["PYTHON", "count/jobs:write", None].written_by
    assert of_function.rows_written is None, "its subtasks were not asked yet"
    assert found["KAFKA", "raw", None].written_by == []


def test_what_one_subtask_has_written_is_no_sum() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=20)
    for task in deployments(cluster.submit(stream_of("clean", "raw", to_topic("clean")))):
        cluster.start_stream(task)
    acknowledge(cluster, "clean", 3, -1)
    assert pages(cluster.fold)["KAFKA", "clean", None].written_by[0].rows_written is None


def test_topics_of_two_kafkas_are_two_places_and_made_up_rows_are_none() -> None:
    cluster = ScriptedCluster()
    cluster.submit(stream_of("one", "raw", to_topic("clean")), job_id="one")
    cluster.submit(stream_of("two", "raw", to_topic("clean"), bootstrap_servers="far:9092"), job_id="two")
    cluster.submit(graph(stream("s")), job_id="made up")
    found = pages(cluster.fold)
    assert [place for place in found if place[1] == "raw"] == [("KAFKA", "raw", None), ("KAFKA", "raw", "far:9092")]
    assert not [place for place in found if place[0] == "RATE"]


def test_a_batch_job_has_its_results_and_nothing_between_its_vertices() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [first] = deployments(cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")])))
    [second] = deployments(cluster.report(first, ExecutionState.FINISHED))
    assert pages(cluster.fold) == {}, "nothing is there yet"
    cluster.report(second, ExecutionState.FINISHED)
    [(place, result)] = pages(cluster.fold).items()
    assert place == ("RESULT", "test job/b", None)
    [writer] = result.written_by
    [output] = cluster.job("job").execution_graph.vertices["b"].subtasks[0].outputs
    assert writer.rows_written == (output.rows if output.rows >= 0 else None)
    assert writer.at is not None


def test_a_table_that_a_batch_job_writes_has_its_rows_and_when_the_last_subtask_had_written() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    sink = {"table": {"path": "/data/sales"}, "format": "delta"}
    [order] = deployments(cluster.submit(graph(vertex("a") | {"sink": sink})))
    [(_, table)] = pages(cluster.fold).items()
    assert [(use.rows_written, use.at) for use in table.written_by] == [(None, None)], "nothing is there yet"
    finished = reports_of(order, ExecutionState.FINISHED)[-1]
    assert isinstance(finished, TaskStateReport)
    cluster.say(replace(finished, outputs=(), io=IOMetrics(write_records=7)))
    [(place, table)] = pages(cluster.fold).items()
    assert place == ("TABLE", "/data/sales", None)
    [writer] = table.written_by
    assert writer.rows_written == 7
    assert writer.at is not None


def test_a_window_of_the_places_is_shown() -> None:
    cluster = ScriptedCluster()
    for number in range(5):
        cluster.submit(stream_of(f"job {number}", f"raw-{number}", to_topic("all")), job_id=f"job-{number}")
    page = catalogue_page(cluster.fold, "", 1, 2)
    assert (page.total, [place.location for place in page.places]) == (6, ["raw-0", "raw-1"])
    assert len(catalogue_page(cluster.fold, "", 0, 1).places[0].written_by) == 5


def test_of_many_that_use_a_place_the_newest_are_shown_and_all_are_counted() -> None:
    cluster = ScriptedCluster()
    for number in range(MAX_USES + 3):
        cluster.submit(stream_of(f"job {number}", "raw", to_topic("all")), job_id=f"job-{number}")
    written, read = pages(cluster.fold).values()
    assert [use.name for use in written.written_by[:2]] == [f"job {MAX_USES + 2}", f"job {MAX_USES + 1}"]
    assert (len(written.written_by), written.written_by_total) == (MAX_USES, MAX_USES + 3)
    assert (len(read.read_by), read.read_by_total) == (MAX_USES, MAX_USES + 3)


@pytest.mark.parametrize(
    ("name", "found"), [("RAW", ["raw"]), ("clean-7", ["clean", "raw"]), ("count", ["clean", "count/jobs:write"]), ("x", [])]
)
def test_places_are_found_by_their_names_and_by_those_of_who_uses_them(name: str, found: list[str]) -> None:
    cluster = ScriptedCluster()
    cluster.submit(stream_of("cleans", "raw", to_topic("clean")), job_id="clean-7")
    cluster.submit(stream_of("count", "clean", {"python": "jobs:write"}), job_id="c")
    assert [place.location for place in catalogue_page(cluster.fold, name, 0, 10).places] == found


def test_an_output_that_no_edge_reads_is_a_result_also_beside_one_that_is_read() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    edges = [{"from": "a", "to": "b", "output": "good", "ship": "forward"}]
    [task] = deployments(cluster.submit(graph(vertex("a"), vertex("b")) | {"edges": edges}))
    outputs = tuple(OutputLocation(name, f"/{name}", rows, 1, 10, "digest") for name, rows in (("good", 7), ("bad", 2)))
    finished = reports_of(task, ExecutionState.FINISHED)[-1]
    assert isinstance(finished, TaskStateReport)
    cluster.say(replace(finished, outputs=outputs))
    [(place, result)] = pages(cluster.fold).items()
    assert place == ("RESULT", "test job/a.bad", None)
    assert result.written_by[0].rows_written == 2

"""What a job left: which output is meant, which files are of it, and that nothing else is read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventflink.documents.one_job import JobInfo
from eventflink.gateways.errors import ResultNotNamed, ResultNotThere
from eventflink.gateways.outputs import find_output
from eventflink.jobs.plain_rows import SPARK_SCHEMA, python_rows
from eventflink.jobs.published import ResultUnreadable, write_file_list
from eventflink.jobs.result import JobOutput, read_result
from eventflink.model.attempts import AttemptId, FailureCause, OutputLocation
from eventflink.model.places import Place
from eventflink.model.statuses import ExecutionState
from eventflink.taskexecutor.task_files import output_place
from eventflink.views.jobs_and_cluster import job_view
from eventflink.workbench.graph_run import GraphRun, VertexRun
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, reports_of, state_report, vertex


def publish(place: Path, **columns: list[int]) -> OutputLocation:
    place.mkdir(parents=True)
    pq.write_table(pa.table(columns), place / "part-0.parquet")
    (place / "_SUCCESS").touch()
    return write_file_list("default", Place(str(place)), len(columns["n"]))


def job_of(cluster: ScriptedCluster) -> JobInfo:
    return job_view(cluster.fold, "job")


def test_a_result_is_read_in_order_and_only_as_far_as_asked(tmp_path: Path) -> None:
    locations = [publish(tmp_path / str(index), n=list(range(index * 10, index * 10 + 10))) for index in range(3)]
    assert read_result(locations, None).column("n").to_pylist() == list(range(30))
    assert read_result(locations, 30).num_rows == 30
    assert read_result(locations, 12).column("n").to_pylist() == list(range(12))
    assert read_result(locations, 0).schema.names == ["n"]
    assert read_result([], 5).num_rows == 0


def test_files_that_were_not_published_are_not_read(tmp_path: Path) -> None:
    place = tmp_path / "attempt-2"
    published = publish(place, n=[1, 2])
    pq.write_table(pa.table({"n": [8]}), place / "part-1.parquet")
    publish(place / "attempt-1", n=[9])
    assert read_result([published], None).to_pydict() == {"n": [1, 2]}


def _publish_again(path: Path) -> None:
    shutil.rmtree(path.parent)
    publish(path.parent, n=[1, 2])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (lambda p: shutil.rmtree(p.parent), "is not there: it was removed or changed, or is on another host"),
    "a file": (Path.unlink, r"part-0\.parquet is gone"),
    "the end of a file": (lambda p: p.write_bytes(p.read_bytes()[:-1]), "bytes, and had"),
    "nonsense of the same size": (lambda p: p.write_bytes(b"x" * p.stat().st_size), r"part-0\.parquet cannot be read"),
    "what somebody else has published": (_publish_again, "is not the list of files that was written"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=list(DAMAGES))
def test_a_result_that_is_not_what_was_written_is_no_result(tmp_path: Path, damage: Callable[[Path], object], said: str) -> None:
    whole = publish(tmp_path / "0", n=[1])
    damage(tmp_path / "0" / "part-0.parquet")
    for limit in (None, 5):
        with pytest.raises(ResultUnreadable, match=said):
            read_result([whole], limit)


def test_a_result_of_other_rows_than_the_log_says_is_no_result(tmp_path: Path) -> None:
    whole = publish(tmp_path / "0", n=[1])
    with pytest.raises(ResultUnreadable, match="has 1 rows, and 2 were written"):
        read_result([replace(whole, rows=2)], None)


def test_subtasks_with_other_columns_leave_one_table(tmp_path: Path) -> None:
    locations = (publish(tmp_path / "0", n=[1]), publish(tmp_path / "1", n=[2], m=[3]))
    found = JobOutput("job", "a", "default", locations)
    assert found.to_arrow().to_pydict() == {"n": [1, 2], "m": [None, 3]}
    frame = found.to_pandas()
    assert (list(frame.columns), frame["n"].tolist()) == (["n", "m"], [1, 2])
    assert found.to_pandas(limit=1)["n"].tolist() == [1]


def test_columns_of_subtasks_that_differ_in_case_alone_are_one_as_they_are_to_readers(tmp_path: Path) -> None:
    locations = []
    for number, (name, value) in enumerate((("v", 1_500_000), ("V", 2_500_000))):
        place = tmp_path / str(number)
        place.mkdir()
        said = json.dumps({"type": "struct", "fields": [{"name": name, "type": "interval day to second"}]})
        pq.write_table(pa.table({name: [value]}).replace_schema_metadata({SPARK_SCHEMA: said}), place / "part-0.parquet")
        locations.append(write_file_list("default", Place(str(place)), 1))
    assert python_rows(read_result(locations, None)) == [{"v": timedelta(seconds=1.5)}, {"v": timedelta(seconds=2.5)}]
    assert python_rows(read_result(locations[::-1], None)) == [{"V": timedelta(seconds=2.5)}, {"V": timedelta(seconds=1.5)}]
    both = publish(tmp_path / "both", n=[1], N=[2])
    assert read_result([both, publish(tmp_path / "one", n=[3])], None).to_pydict() == {"n": [1, 3], "N": [2, None]}


def test_what_spark_says_of_columns_that_later_subtasks_have_alone_counts_too(tmp_path: Path) -> None:
    locations = []
    for number, (kinds, columns) in enumerate(
        (
            ({"n": "long", "v": "void"}, {"n": [1], "v": pa.nulls(1)}),
            ({"n": "long", "v": "interval day to second", "m": "interval year to month"}, {"n": [2], "v": [1_500_000], "m": [14]}),
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        said = json.dumps({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]})
        pq.write_table(pa.table(columns).replace_schema_metadata({SPARK_SCHEMA: said}), place / "part-0.parquet")
        locations.append(write_file_list("default", Place(str(place)), 1))
    rows = [{"n": 1, "v": None, "m": None}, {"n": 2, "v": timedelta(seconds=1.5), "m": "14 months"}]
    assert python_rows(read_result(locations, None)) == rows
    assert python_rows(read_result(locations[::-1], None)) == rows[::-1]


def test_structs_of_which_a_later_subtask_has_more_fields_are_read(tmp_path: Path) -> None:
    locations = []
    of_both = {"a": "interval day to second", "b": {"type": "array", "elementType": "interval year to month", "containsNull": True}}
    for number, (names, struct) in enumerate(((["a"], {"a": 1_500_000}), (["a", "b"], {"a": 2_000_000, "b": [14]}))):
        place = tmp_path / str(number)
        place.mkdir()
        kind = {"type": "struct", "fields": [{"name": name, "type": of_both[name]} for name in names]}
        said = json.dumps({"type": "struct", "fields": [{"name": "s", "type": kind}]})
        pq.write_table(pa.table({"s": [struct]}).replace_schema_metadata({SPARK_SCHEMA: said}), place / "part-0.parquet")
        locations.append(write_file_list("default", Place(str(place)), 1))
    rows = [{"s": {"a": timedelta(seconds=1.5), "b": None}}, {"s": {"a": timedelta(seconds=2), "b": ["14 months"]}}]
    assert python_rows(read_result(locations, None)) == rows
    assert python_rows(read_result(locations[::-1], None)) == rows[::-1]


def test_only_what_the_attempt_left_that_finished_is_the_result(tmp_path: Path) -> None:
    """Both attempts wrote their files whole; the first failed after that."""
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    [first] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, 0))))
    places = [publish(output_place(Place(str(tmp_path)), AttemptId("job", "a", 0, n), "default").path, n=[n]) for n in (1, 2)]
    with pytest.raises(ResultNotThere, match="is RUNNING; only a finished job has a result"):
        find_output(job_of(cluster))
    cluster.report(first, ExecutionState.FAILED, cause=FailureCause("TaskManagerLost", "it is gone", ""))
    [second] = deployments(cluster.pass_time(1))
    finished = state_report(second, ExecutionState.FINISHED)
    finished.outputs = (replace(places[1], location=f"file://{places[1].location}"),)
    cluster.say(*reports_of(second, ExecutionState.RUNNING), finished)
    found = find_output(job_of(cluster))
    assert (found.vertex_id, found.locations) == ("a", finished.outputs)
    assert found.to_arrow().to_pydict() == {"n": [2]}


def test_of_rows_that_went_to_a_table_it_is_said_which() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    delta = {"table": {"path": "/data/sales"}, "format": "delta"}
    iceberg = {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}
    vertices = [vertex(name) | {"sink": sink} for name, sink in (("path", delta), ("name", iceberg))]
    for task in deployments(cluster.submit(graph(*vertices))):
        finished = state_report(task, ExecutionState.FINISHED)
        finished.outputs = ()
        cluster.say(*reports_of(task, ExecutionState.RUNNING), finished)
    job = job_of(cluster)
    with pytest.raises(ResultNotThere, match=r"vertex 'path' of job .* has no outputs: its rows went to table '/data/sales'$"):
        find_output(job, "path")
    with pytest.raises(ResultNotThere, match=r"its rows went to table 'lake.shop.sales'$"):
        find_output(job, "name")


def test_of_a_run_here_it_is_said_as_well_where_rows_went(tmp_path: Path) -> None:
    gone = VertexRun("out", 1, 5, (), (), sink="table '/data/sales'")
    with pytest.raises(ResultNotThere, match=r"vertex 'out' has no outputs: its rows went to table '/data/sales'$"):
        GraphRun("run", tmp_path, (gone,), ("out",)).result()


def test_which_result_is_meant_has_to_be_clear() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    cluster.run(cluster.submit(graph(vertex("a"), vertex("b"), vertex("c"), edges=[("a", "b", "hash")])))
    job = job_of(cluster)
    with pytest.raises(ResultNotNamed, match="several results; choose the vertex: b, c"):
        find_output(job)
    with pytest.raises(ResultNotNamed, match=r"vertex not found: 'd' in job '.*'; it has a, b, c"):
        find_output(job, "d")
    with pytest.raises(ResultNotThere, match=r"output not found: 'more' of vertex 'c'; it has default"):
        find_output(job, "c", "more")
    assert [each.location for each in find_output(job, "c").locations] == ["/outputs/job/c/0/1/default"]

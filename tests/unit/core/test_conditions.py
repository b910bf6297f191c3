"""A vertex with a condition runs, or is skipped, by the rows of an output alone; what is skipped fails nothing, and may yet run."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eventflink.events.log_events import JobRescaled, RequestRejected, SlotRequested, TaskScheduled, VertexSkipped
from eventflink.gateways.errors import ResultNotThere
from eventflink.gateways.outputs import find_output
from eventflink.master.effects import Deployment, Effect
from eventflink.master.settings import AdaptiveSettings, MasterSettings
from eventflink.model.attempts import LostInput
from eventflink.model.conditions import VertexSkip
from eventflink.model.job_graph import RowCondition
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, ReuseReason, SchedulerType, VertexSkipReason
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.runs import known_runs, runs_page
from eventflink.views.waits import Waits
from tests.support.asked_log import why
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    replies,
    state_report,
    tasks,
    vertex,
)
from tests.support.rest_client import rest_client

NO_ROWS, ROWS = VertexSkip(VertexSkipReason.NO_ROWS, "a"), VertexSkip(VertexSkipReason.ROWS, "a", rows=3)
CONDITION, INPUT = VertexSkipReason.CONDITION_SKIPPED, VertexSkipReason.INPUT_SKIPPED


@pytest.fixture(params=[SchedulerType.DEFAULT, SchedulerType.ADAPTIVE])
def cluster(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    """One TaskManager of 4 slots, under each scheduler; the log is replayed at the end."""
    scripted = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(request.param)))
    scripted.register("one", 4)
    yield scripted
    scripted.check()


def on_rows(name: str, of: str = "a", parallelism: int = 1, **more: Any) -> dict[str, Any]:
    """Return a vertex that runs when an output has rows."""
    return vertex(name, parallelism) | {"when": {"rows_of": of}} | more


def on_no_rows(name: str, of: str = "a") -> dict[str, Any]:
    """Return a vertex that runs when an output has none."""
    return vertex(name) | {"when": {"no_rows_of": of}}


def finish(cluster: ScriptedCluster, deployment: Deployment, rows: int) -> list[Effect]:
    """Let a task finish that has written so many rows to each of its outputs."""
    report = state_report(deployment, ExecutionState.FINISHED)
    return cluster.say(replace(report, outputs=tuple([replace(output, rows=rows) for output in report.outputs])))


def begun(effects: list[Effect]) -> list[str]:
    """Return the tasks that are deployed, as vertex#attempt."""
    return sorted(f"{task.vertex_id}#{task.attempt}" for task in tasks(effects))


def skips(cluster: ScriptedCluster, job_id: str = "job") -> dict[str, VertexSkip]:
    """Return what is skipped now, by vertex."""
    vertices = cluster.job(job_id).execution_graph.vertices
    return {vertex_id: each.skip for vertex_id, each in vertices.items() if each.skip is not None}


def of(effects: list[Effect], vertex_id: str) -> Deployment:
    """Return the only deployment of a vertex."""
    [found] = [each for each in deployments(effects) if each.payload.vertex_id == vertex_id]  # type: ignore[union-attr]
    return found


@pytest.mark.rule("P26")
@pytest.mark.parametrize(("rows", "runs", "skipped"), [(0, "no#1", {"yes": NO_ROWS}), (3, "yes#1", {"no": ROWS})])
def test_the_rows_decide_which_branch_runs(cluster: ScriptedCluster, rows: int, runs: str, skipped: dict[str, VertexSkip]) -> None:
    effects = cluster.submit(graph(vertex("a"), on_rows("yes"), on_no_rows("no")))
    assert begun(effects) == ["a#1"]
    effects = finish(cluster, of(effects, "a"), rows)
    assert begun(effects) == [runs]
    cluster.run(effects)
    job = cluster.job("job")
    assert (job.status, job.restarts.count, skips(cluster)) == (JobStatus.FINISHED, 0, skipped)
    [vertex_id] = skipped
    assert cluster.events(VertexSkipped) == [VertexSkipped("job", vertex_id, skipped[vertex_id])]
    assert vertex_id not in {each.vertex_id for each in cluster.events(TaskScheduled)} | {
        each.vertex_id for each in cluster.events(SlotRequested)
    }


def test_the_rows_of_all_subtasks_count(cluster: ScriptedCluster) -> None:
    one, other = deployments(cluster.submit(graph(vertex("a", 2), on_rows("yes"))))
    assert not begun(finish(cluster, one, 3))
    assert begun(finish(cluster, other, 0)) == ["yes#1"]


def test_the_output_that_is_named_is_published_and_decides(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a"), on_rows("yes", "a.large"), on_no_rows("no", "a.small")))
    [writer] = deployments(effects)
    assert tasks(effects)[0].outputs == ("large", "small")
    report = state_report(writer, ExecutionState.FINISHED)
    rows = {"large": 0, "small": 2}
    outputs = tuple([replace(report.outputs[0], output=name, location=f"/{name}", rows=count) for name, count in rows.items()])
    assert not begun(cluster.say(replace(report, outputs=outputs)))
    assert {name: (skip.output, skip.rows) for name, skip in skips(cluster).items()} == {"yes": ("large", 0), "no": ("small", 2)}
    assert cluster.job("job").status is JobStatus.FINISHED


def test_what_waits_for_a_skipped_vertex_is_skipped_as_well(cluster: ScriptedCluster) -> None:
    """By an edge and by a condition, whether that wants rows or none; what does not wait for it runs."""
    vertices = on_rows("b", parallelism=2), vertex("c", 2), on_no_rows("d", "b"), on_rows("e", "c"), vertex("x")
    document = graph(vertex("a"), *vertices, edges=[("a", "b", "hash"), ("b", "c", "forward"), ("a", "x", "hash")])
    effects = finish(cluster, of(cluster.submit(document), "a"), 0)
    assert begun(effects) == ["x#1"]
    assert skips(cluster) == {
        "b": NO_ROWS,
        "c": VertexSkip(INPUT, "b"),
        "d": VertexSkip(CONDITION, "b"),
        "e": VertexSkip(CONDITION, "c"),
    }
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_vertex_waits_for_its_other_inputs_before_it_is_decided(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a"), vertex("x"), on_rows("b"), edges=[("x", "b", "hash")]))
    assert not begun(finish(cluster, of(effects, "a"), 0))
    assert not skips(cluster)
    finish(cluster, of(effects, "x"), 1)
    assert (skips(cluster), cluster.job("job").status) == ({"b": NO_ROWS}, JobStatus.FINISHED)


def test_a_mapped_vertex_and_one_with_a_sink_may_be_skipped() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    sink = {"sink": {"table": {"path": "/t"}, "format": "delta"}}
    document = graph(vertex("a"), on_rows("b") | sink, on_rows("m"), edges=[("a", "b", "hash"), ("a", "m", "each")])
    assert begun(finish(cluster, of(cluster.submit(document), "a"), 2)) == ["b#1", "m#1", "m#1"]
    assert not begun(finish(cluster, of(cluster.submit(document, job_id="none"), "a"), 0))
    assert skips(cluster, "none") == {"b": NO_ROWS, "m": NO_ROWS}
    assert [event.job_id for event in cluster.events(JobRescaled)] == ["job"]
    cluster.check()


def _with_reader(cluster: ScriptedCluster, rows: int, **more: Any) -> list[Effect]:
    """Begin a job of whose first vertex, which has left so many rows, the vertex x says later that they are lost."""
    vertices = vertex("a"), vertex("x"), on_rows("b", parallelism=2), vertex("c"), on_no_rows("d")
    document = graph(*vertices, edges=[("a", "x", "hash"), ("b", "c", "hash")], restart_strategy=fixed_delay(1), **more)
    return finish(cluster, of(cluster.submit(document), "a"), rows)


def _lose(cluster: ScriptedCluster, reader: Deployment) -> list[Effect]:
    return cluster.say(replace(state_report(reader, ExecutionState.FAILED), lost_inputs=(LostInput("a", 0),)))


@pytest.mark.rule("P26")
@pytest.mark.parametrize("again", [0, 2])
def test_where_what_decided_is_made_again_what_was_skipped_is_decided_again(cluster: ScriptedCluster, again: int) -> None:
    effects = _with_reader(cluster, 0)
    assert begun(effects) == ["d#1", "x#1"]
    assert skips(cluster) == {"b": NO_ROWS, "c": VertexSkip(INPUT, "b")}
    finish(cluster, of(effects, "d"), 1)
    _lose(cluster, of(effects, "x"))
    assert not skips(cluster)
    effects = finish(cluster, of(cluster.pass_time(500), "a"), again)
    assert begun(effects) == (["b#1", "b#1", "x#2"] if again else ["d#2", "x#2"])
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED
    assert set(skips(cluster)) == ({"d"} if again else {"b", "c"})


@pytest.mark.rule("P26")
def test_what_has_run_is_skipped_where_the_rows_are_gone_but_not_before_it_has_ended(cluster: ScriptedCluster) -> None:
    """One subtask has finished, one still runs when a finds no rows any more; its reader has not begun."""
    effects = _with_reader(cluster, 3)
    assert begun(effects) == ["b#1", "b#1", "x#1"]
    one, other = [each for each in deployments(effects) if each.payload.vertex_id == "b"]  # type: ignore[union-attr]
    cluster.report(one, ExecutionState.FINISHED)
    cluster.report(other, ExecutionState.RUNNING)
    [cancelled] = cancellations(_lose(cluster, of(effects, "x")))
    effects = finish(cluster, of(cluster.pass_time(500), "a"), 0)
    assert begun(effects) == ["d#1", "x#2"]
    assert not skips(cluster)
    effects += cluster.say(state_report(cancelled, ExecutionState.CANCELED)) + cluster.pass_time(0)
    assert begun(effects) == ["d#1", "x#2"]
    assert skips(cluster) == {"b": NO_ROWS, "c": VertexSkip(INPUT, "b")}
    cluster.run(effects)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_a_job_that_starts_again_as_a_whole_decides_by_its_second_run() -> None:
    cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL))
    cluster.register("one", 4)
    effects = _with_reader(cluster, 0)
    for cancelled in cancellations(cluster.report(of(effects, "x"), ExecutionState.FAILED)):
        cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    assert not skips(cluster)
    assert begun(finish(cluster, of(cluster.pass_time(500), "a"), 1)) == ["b#1", "b#1", "x#2"]
    cluster.check()


def test_a_failure_that_loses_nothing_leaves_it_skipped(cluster: ScriptedCluster) -> None:
    effects = _with_reader(cluster, 0)
    cluster.report(of(effects, "x"), ExecutionState.FAILED)
    assert set(skips(cluster)) == {"b", "c"}
    cluster.run(effects[:0] + cluster.pass_time(500) + [of(effects, "d")])
    assert (cluster.job("job").status, len(cluster.events(VertexSkipped))) == (JobStatus.FINISHED, 2)


def test_what_was_skipped_stays_so_in_a_job_that_is_suspended_and_resumed(cluster: ScriptedCluster) -> None:
    effects = _with_reader(cluster, 0)
    for cancelled in cancellations(cluster.suspend()):
        cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    for each in deployments(effects):
        cluster.report(each, ExecutionState.CANCELED)
    assert cluster.job("job").status is JobStatus.SUSPENDED
    effects = cluster.resume()
    assert begun(effects) == ["d#2", "x#2"]
    cluster.run(effects)
    assert (cluster.job("job").status, set(skips(cluster))) == (JobStatus.FINISHED, {"b", "c"})


@pytest.mark.parametrize("end", [ExecutionState.FAILED, ExecutionState.CANCELED])
def test_a_job_that_fails_or_is_cancelled_ends_with_what_was_skipped(cluster: ScriptedCluster, end: ExecutionState) -> None:
    effects = (
        _with_reader(cluster, 0)
        if end is ExecutionState.CANCELED
        else finish(cluster, of(cluster.submit(graph(vertex("a"), vertex("x"), on_rows("b"), edges=[("a", "x", "hash")])), "a"), 0)
    )
    if end is ExecutionState.CANCELED:
        cluster.cancel()
    for each in deployments(effects):
        cluster.report(each, end)
    assert cluster.job("job").status is (JobStatus.FAILED if end is ExecutionState.FAILED else JobStatus.CANCELED)
    assert "b" in skips(cluster)


@pytest.mark.rule("P26")
def test_a_leader_that_comes_between_the_rows_and_the_decision_decides_the_same(cluster: ScriptedCluster) -> None:
    [first] = deployments(cluster.submit(graph(vertex("a"), on_rows("yes"), on_no_rows("no"))))
    report = state_report(first, ExecutionState.FINISHED)
    cluster.say(replace(report, outputs=tuple([replace(output, rows=0) for output in report.outputs])))
    assert begun(list(cluster.fail_over().effects)) == ["no#1"]
    assert skips(cluster) == {"yes": NO_ROWS}


def test_a_skipped_vertex_keeps_its_parallelism(cluster: ScriptedCluster) -> None:
    _with_reader(cluster, 0)
    [reply] = replies(cluster.rescale("b", 3))
    assert isinstance(reply.payload, RequestRejected)
    why = "vertex 'b' of job 'job' was skipped, for 'a' has left no rows, and it runs when there are some"
    assert (reply.payload.code, reply.payload.message) == ("VertexSkipped", why)


def test_a_rerun_reuses_what_decided_and_decides_again(cluster: ScriptedCluster) -> None:
    effects = _with_reader(cluster, 0, keep="1d")
    finish(cluster, of(effects, "d"), 1)
    cluster.report(of(effects, "x"), ExecutionState.FAILED)
    cluster.report(of(cluster.pass_time(500), "x"), ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.FAILED
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True)
    assert begun(effects) == ["x#1"]
    assert set(skips(cluster, "again")) == {"b", "c"}
    reuse = {vertex_id: each.in_words("job") for vertex_id, each in cluster.job("again").reuse.items()}
    assert reuse["a"] == reuse["d"] == "it finished in 'job', and nothing that it depends on has changed"
    assert reuse["b"] == reuse["c"] == "it was skipped in 'job', and whether it runs is decided again"


def test_a_rerun_from_what_decided_decides_by_what_that_leaves_then(cluster: ScriptedCluster) -> None:
    cluster.run(_with_reader(cluster, 0))
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", from_vertices=["a"])
    assert begun(effects) == ["a#1"]
    assert begun(finish(cluster, of(effects, "a"), 1)) == ["b#1", "b#1", "x#1"]
    assert set(skips(cluster, "again")) == {"d"}


def test_everybody_is_told_what_was_skipped_and_why(cluster: ScriptedCluster) -> None:
    effects = cluster.submit(graph(vertex("a"), on_rows("b", parallelism=2), on_no_rows("c"), vertex("d"), edges=[("b", "d", "hash")]))
    job = cluster.job("job")
    wait = Waits(cluster.master).of_subtask(job, job.execution_graph.vertices["b"].subtasks[0])
    assert wait is not None
    assert wait.why == "its inputs are not complete: a (1 of 1 subtasks)"
    effects = finish(cluster, of(effects, "a"), 0)
    view = job_view(cluster.fold, "job")
    assert Waits(cluster.master).of_subtask(job, job.execution_graph.vertices["b"].subtasks[0]) is None
    skipped = {"a": None, "b": NO_ROWS.in_words(), "c": None, "d": "'b', which it reads, was skipped"}
    assert {each.vertex_id: each.skipped for each in view.vertices} == skipped
    assert view.vertices[1].condition == RowCondition(source="a", has_rows=True)
    canceled = ExecutionState.CANCELED
    assert (view.vertices[1].states, [each.state for each in view.vertices[1].subtasks]) == ({canceled: 2}, [canceled] * 2)
    assert (view.tasks, view.tasks_finished, view.tasks_by_state[canceled]) == (5, 1, 3)
    cluster.run(effects)
    name = job.execution_graph.graph.name
    [run] = runs_page(known_runs(cluster.fold, name, 0, 1), [], name, 0, 1).runs
    assert {each.vertex_id: each.skipped for each in run.vertices} == skipped


def test_why_a_vertex_was_skipped_is_led_back_to_the_rows() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    effects = cluster.submit(graph(vertex("a"), on_rows("b"), vertex("c"), edges=[("b", "c", "hash")]))
    finish(cluster, of(effects, "a"), 0)
    for name, reason in (("b", NO_ROWS.in_words()), ("c", "'b', which it reads, was skipped")):
        explanation = why(cluster, f"job/{name}[0]")
        assert (explanation.state, explanation.facts["skipped"], explanation.waits) == ("SKIPPED", reason, [])
        last = explanation.chain[-1].events
        assert [said.split()[0] for said in last] == ["TaskFinished", "VertexSkipped"]
        assert last[-1] == f"VertexSkipped job/{name} {reason}"
    assert why(cluster, "job/b[0]").facts["runs"] == "when 'a' has rows"
    assert why(cluster, "job").facts["skipped_vertices"] == {"b": NO_ROWS.in_words(), "c": "'b', which it reads, was skipped"}


def test_flink_is_told_that_a_skipped_vertex_was_cancelled() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    finish(cluster, of(cluster.submit(graph(vertex("a"), on_rows("b"))), "a"), 0)
    with rest_client(cluster.fold) as client:
        told = client.get("/jobs/job").json()
        assert (told["state"], {each["id"]: each["status"] for each in told["vertices"]}) == (
            "FINISHED",
            {"a": "FINISHED", "b": "CANCELED"},
        )
        assert client.get("/jobs/job/vertices/b").json()["subtasks"][0]["status"] == "CANCELED"


def test_the_result_of_a_job_is_that_of_the_branch_that_ran() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    effects = cluster.submit(graph(vertex("a"), on_rows("b"), on_no_rows("c")))
    cluster.run(finish(cluster, of(effects, "a"), 0))
    job = job_view(cluster.fold, "job")
    assert find_output(job).vertex_id == "c"
    with pytest.raises(ResultNotThere, match="vertex 'b' of job job has no result, for it was skipped: 'a' has left no rows"):
        find_output(job, "b")
    finish(cluster, of(cluster.submit(graph(vertex("a"), on_rows("b")), job_id="none"), "a"), 0)
    with pytest.raises(ResultNotThere, match="job none has no result that is not read"):
        find_output(job_view(cluster.fold, "none"))
    assert find_output(job_view(cluster.fold, "none"), "a").vertex_id == "a"


def _with_columns(ship: str, **more: Any) -> dict[str, Any]:
    """Return a job whose second vertex is skipped without rows, and is read by the third, which runs all the same."""
    document = graph(vertex("a"), on_rows("b"), vertex("c"), vertex("x"), edges=[("b", "c", ship), ("a", "x", "hash")], **more)
    document["edges"][0]["if_skipped"] = "n BIGINT"
    return document


@pytest.mark.rule("P26")
@pytest.mark.parametrize("ship", ["rebalance", "each", "forward"])
def test_a_reader_whose_edge_says_the_columns_runs_without_what_was_skipped(cluster: ScriptedCluster, ship: str) -> None:
    effects = finish(cluster, of(cluster.submit(_with_columns(ship)), "a"), 0)
    assert begun(effects) == ["c#1", "x#1"]
    [read] = [task.inputs for task in tasks(effects) if task.vertex_id == "c"]
    assert [(each.locations, each.row_schema) for each in read] == [((), "n BIGINT")]
    cluster.run(effects)
    assert (cluster.job("job").status, set(skips(cluster))) == (JobStatus.FINISHED, {"b"})


def test_a_rerun_reuses_what_has_run_without_what_is_skipped_again(cluster: ScriptedCluster) -> None:
    """What it has written into a table is not written twice; where the rows are made again, it runs again."""
    edges = [("b", "c", "hash"), ("c", "d", "hash")]
    document = graph(vertex("a"), on_rows("b"), vertex("c"), vertex("d"), edges=edges, keep="1d", restart_strategy={"type": "none"})
    document["edges"][0]["if_skipped"] = "n BIGINT"
    effects = finish(cluster, of(cluster.submit(document), "a"), 0)
    effects = finish(cluster, of(effects, "c"), 1)
    cluster.report(of(effects, "d"), ExecutionState.FAILED)
    assert cluster.job("job").status is JobStatus.FAILED
    effects = cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True)
    assert (begun(effects), set(skips(cluster, "again"))) == (["d#1"], {"b"})
    assert {name for name, each in cluster.job("again").reuse.items() if each.is_reused} == {"a", "c"}
    cluster.run(effects)
    assert cluster.job("again").status is JobStatus.FINISHED
    for name, begins in (("a", ["a#1"]), ("b", ["c#1"])):
        assert begun(cluster.command(type="RerunJob", rerun_of="again", job_id=f"from-{name}", from_vertices=[name])) == begins


def test_a_value_that_only_a_skipped_vertex_could_use_has_nothing_run_again(cluster: ScriptedCluster) -> None:
    source, reader = ({"id": name, "sql": text} for name, text in (("a", "SELECT 1"), ("c", "SELECT * FROM b")))
    parameters = {"least": {"type": "integer", "value": 1}}
    document = graph(source, on_rows("b"), reader, vertex("d"), edges=[("b", "c", "hash"), ("c", "d", "hash")], parameters=parameters)
    document["edges"][0]["if_skipped"] = "n BIGINT"
    effects = finish(cluster, of(cluster.submit(document), "a"), 0)
    effects = finish(cluster, of(effects, "c"), 1)
    cluster.report(of(effects, "d"), ExecutionState.FAILED)
    cluster.command(type="RerunJob", rerun_of="job", job_id="again", failed=True, parameters={"least": 2})
    reasons = {name: each.reason for name, each in cluster.job("again").reuse.items()}
    assert (reasons["b"], reasons["c"]) == (ReuseReason.SKIPPED, ReuseReason.UNCHANGED)


@pytest.mark.rule("P26")
def test_what_has_read_nothing_in_place_of_rows_reads_them_when_there_are_some(cluster: ScriptedCluster) -> None:
    """And has a subtask for each row then: 3, and one when they are gone again."""
    document = _with_columns("each", restart_strategy=fixed_delay(2))
    effects = finish(cluster, of(cluster.submit(document), "a"), 0)
    finish(cluster, of(effects, "c"), 1)
    _lose(cluster, of(effects, "x"))
    effects = finish(cluster, of(cluster.pass_time(500), "a"), 3)
    assert begun(effects) == ["b#1", "x#2"]
    reader = of(effects, "x")
    effects = finish(cluster, of(effects, "b"), 3)
    assert begun(effects) == ["c#2"] * 3
    for each in deployments(effects):
        finish(cluster, each, 1)
    _lose(cluster, reader)
    effects = finish(cluster, of(cluster.pass_time(500), "a"), 0)
    assert begun(effects) == ["c#3", "x#3"]
    cluster.run(effects)
    assert (cluster.job("job").status, set(skips(cluster))) == (JobStatus.FINISHED, {"b"})


def test_the_page_of_a_job_says_what_was_skipped_and_which_reader_runs_without_it() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 4)
    cluster.run(finish(cluster, of(cluster.submit(_with_columns("hash") | {"restart_strategy": fixed_delay(1)}), "a"), 0))
    with rest_client(cluster.fold) as client:
        page = client.get("/eventflink/v1/jobs/job").json()["body"]
        [subtask] = client.get("/eventflink/v1/jobs/job/vertices/b/subtasks?state=CANCELED").json()["body"]["subtasks"]
    told = {each["vertex_id"]: (each["skipped"], each["states"]) for each in page["vertices"]}
    assert told["b"] == (NO_ROWS.in_words(), {"CANCELED": 1})
    assert told["c"] == (None, {"FINISHED": 1})
    assert [(each["source"], each["reads_skipped"]) for each in page["edges"]] == [("b", True), ("a", False)]
    assert (subtask["state"], subtask.get("wait")) == ("CANCELED", None)

"""An ended job runs again from where it failed: the new job takes the outputs of what had finished, and these stay as long."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.audit.dry_runs import dry_run_view
from eventflink.audit.standing import standing_of
from eventflink.audit.subjects import Subject, SubjectType
from eventflink.documents.plain import plain
from eventflink.events.effects import TaskDeployment
from eventflink.events.inputs import RerunJob, TaskStateReport
from eventflink.events.log_events import (
    JobEvicted,
    JobOutputsReleased,
    JobReuseDecided,
    RequestRejected,
    RestartScheduled,
    TaskDeployed,
    TaskFinished,
)
from eventflink.master.effects import CleanUp, Deployment, Effect
from eventflink.master.inputs import CleanupsCompleted
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import Accumulators, FailureCause, LongCounter, LostInput
from eventflink.model.job_graph_document import InvalidJobGraph, parse_job_graph, to_document
from eventflink.model.reuse import bind_digest
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus
from eventflink.views.archive import archive_view
from eventflink.views.archive_moments import archive_at
from eventflink.views.jobs_and_cluster import job_view
from eventflink.views.plain import iso_time
from eventflink.views.runs import archived_run, known_runs
from tests.support.cluster import ScriptedCluster, deployments, graph, replay, replies, reports_of, stream, vertex

DAY_MS = 86_400_000
CHAIN: list[tuple[str, str, str]] = [("a", "b", "hash"), ("b", "c", "hash"), ("x", "c", "broadcast")]


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with the job 'job', of which 'a', 'b' and 'x' finished, and 'c' failed; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=9)
    run(scripted, scripted.submit(chain()), failing={"c"})
    yield scripted
    scripted.check()


def chain(**more: Any) -> dict[str, Any]:
    return graph(vertex("a", 2), vertex("b"), vertex("x"), vertex("c"), vertex("d"), edges=[*CHAIN, ("c", "d", "hash")], **more)


def run(cluster: ScriptedCluster, effects: list[Effect], failing: set[str] | None = None) -> list[str]:
    """Run what is deployed, the tasks of some vertices without success; return which subtasks ran, in their order."""
    done = cluster.run(effects, lambda task: ExecutionState.FAILED if task.vertex_id in (failing or set()) else ExecutionState.FINISHED)
    return [f"{task.vertex_id}[{task.subtask_index}]" for task in map(task_of, deployments(done))]


def task_of(deployment: Deployment) -> TaskDeployment:
    assert isinstance(deployment.payload, TaskDeployment)
    return deployment.payload


def rerun(cluster: ScriptedCluster, rerun_of: str = "job", job_id: str = "again", **more: Any) -> list[Effect]:
    return cluster.command(type="RerunJob", rerun_of=rerun_of, job_id=job_id, **more)


def why(cluster: ScriptedCluster, job_id: str = "again") -> dict[str, str]:
    """Return by vertex whether it is reused, and why."""
    rows = plain(job_view(cluster.fold, job_id))["vertices"]
    return {row["vertex_id"]: f"{'reused' if row['reuse']['is_reused'] else 'runs'}: {row['reuse']['why']}" for row in rows}


def refusal(effects: list[Effect]) -> str:
    [reply] = replies(effects)
    assert isinstance(reply.payload, RequestRejected)
    return f"{reply.payload.code}: {reply.payload.message}"


def locations(cluster: ScriptedCluster, job_id: str, vertex_id: str) -> list[str]:
    return [o.location for s in cluster.job(job_id).execution_graph.vertices[vertex_id].subtasks for o in s.outputs]


def clean_ups(effects: list[Effect]) -> list[str]:
    return [effect.job_id for effect in effects if isinstance(effect, CleanUp)]


@pytest.mark.rule("P27")
def test_from_the_failure_on_only_what_had_not_finished_runs(cluster: ScriptedCluster) -> None:
    effects = rerun(cluster, failed=True)
    [task] = deployments(effects)
    told = {each.input_name: [o.location for o in each.locations] for each in task_of(task).inputs}
    assert told == {"b": locations(cluster, "job", "b"), "x": locations(cluster, "job", "x")}
    assert run(cluster, effects) == ["c[0]", "d[0]"]
    assert cluster.job("again").status is JobStatus.FINISHED
    assert cluster.job("job").status is JobStatus.FAILED
    assert locations(cluster, "again", "a") == locations(cluster, "job", "a")
    reused = "reused: it finished in 'job', and nothing that it depends on has changed"
    failed = "runs: it was FAILED when 'job' ended"
    assert why(cluster) == {"a": reused, "b": reused, "x": reused, "c": failed, "d": "runs: its input 'c' runs"}


def test_without_a_word_about_it_everything_runs(cluster: ScriptedCluster) -> None:
    assert run(cluster, rerun(cluster)) == ["a[0]", "a[1]", "x[0]", "b[0]", "c[0]", "d[0]"]
    assert not cluster.events(JobReuseDecided)
    assert job_view(cluster.fold, "again").vertices[0].reuse is None


def test_from_a_vertex_on_it_and_all_that_reads_it_runs(cluster: ScriptedCluster) -> None:
    assert run(cluster, rerun(cluster, from_vertices=["b"])) == ["b[0]", "c[0]", "d[0]"]
    assert why(cluster)["b"] == "runs: the request names it"
    assert why(cluster)["c"] == "runs: its input 'b' runs"
    assert why(cluster)["x"].startswith("reused")


def test_what_cannot_begin_there_is_refused(cluster: ScriptedCluster) -> None:
    told = refusal(rerun(cluster, from_vertices=["b", "z"]))
    assert told == "UnknownVertex: vertex not found: 'z' in job 'job'; it has a, b, x, c, d"
    run(cluster, cluster.submit(chain(), job_id="good"))
    told = refusal(rerun(cluster, "good", failed=True))
    assert told == "NothingFailed: job 'good' is FINISHED; name the vertices from which it is to run again"
    assert refusal(rerun(cluster, from_vertices="b")).startswith("InvalidRequest: commands@")


def test_a_value_that_changed_has_run_again_what_may_depend_on_it() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    day = {"day": {"type": "date", "value": "2026-11-25"}, "least": {"type": "integer", "value": 1}}
    statement = {"id": "s", "sql": "SELECT * FROM t WHERE day = :day"}
    other = {"id": "o", "sql": "SELECT 1 AS days"}
    document = graph(statement, other, vertex("p"), vertex("z"), edges=[("s", "z", "hash"), ("o", "z", "hash")], parameters=day)
    run(cluster, cluster.submit(document), failing={"z"})
    run(cluster, rerun(cluster, failed=True, parameters={"day": "2026-11-24"}))
    told = why(cluster)
    assert (told["s"], told["p"]) == ("runs: the parameter 'day' has another value",) * 2
    assert told["o"].startswith("reused")
    run(cluster, rerun(cluster, job_id="third", failed=True, parameters={"least": 7, "day": "2026-11-25"}))
    assert why(cluster, "third")["s"].startswith("reused"), "the value that did not change is no reason"
    cluster.check()


def test_a_value_that_chooses_the_rows_of_a_source_has_its_reader_run_again() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    day = {"day": {"type": "date", "value": "2026-11-25"}}
    table = {"catalog": "lake", "name": "shop.sales", "where": "day = :day"}
    source = {"id": "s", "sql": "SELECT * FROM t", "sources": {"t": {"table": table, "format": "iceberg"}}}
    run(cluster, cluster.submit(graph(source, vertex("z"), edges=[("s", "z", "hash")], parameters=day)), failing={"z"})
    run(cluster, rerun(cluster, failed=True, parameters={"day": "2026-11-24"}))
    assert why(cluster)["s"] == "runs: the parameter 'day' has another value"
    cluster.check()


def test_why_a_vertex_runs_again_is_told_of_the_subtask_that_failed() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    effects = cluster.submit(graph(vertex("a", parallelism=3), restart_strategy={"type": "none"}))
    report = [each for each in effects if isinstance(each, Deployment)]
    cluster.run(cluster.report(report[1], ExecutionState.FAILED))
    rerun(cluster, failed=True)
    assert why(cluster)["a"] == "runs: it was FAILED when 'job' ended"
    cluster.check()


def test_a_value_that_no_task_computes_with_is_no_reason_to_run_again() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    page = {"page": {"type": "string", "value": "first", "affects_results": False}}
    statement = {"id": "s", "sql": "SELECT :page"}
    document = graph(statement, vertex("p"), vertex("z"), edges=[("s", "z", "hash"), ("p", "z", "hash")], parameters=page)
    run(cluster, cluster.submit(document), failing={"z"})
    run(cluster, rerun(cluster, failed=True, parameters={"page": "second"}))
    told = why(cluster)
    assert told["s"].startswith("reused")
    assert told["p"].startswith("reused")
    assert [each.value for each in cluster.job("again").execution_graph.graph.parameters] == ["second"]
    cluster.check()


def test_a_stream_runs_and_what_it_reads_is_reused() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    document = graph(vertex("a"), stream("s"), vertex("e"))
    run(cluster, cluster.submit(document), failing={"s"})
    rerun(cluster, failed=True)
    told = why(cluster)
    assert (told["s"], told["a"][:6]) == ("runs: it is a stream", "reused")
    cluster.check()


def test_what_was_counted_and_read_counts_as_in_a_full_run() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    [a] = deployments(cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")])))
    offer, finished = reports_of(a, ExecutionState.FINISHED)
    assert isinstance(finished, TaskStateReport)
    finished.accumulators = Accumulators((LongCounter("rows", 3),))
    run(cluster, cluster.say(offer, finished), failing={"b"})
    rerun(cluster, failed=True)
    [execution] = cluster.job("again").execution_graph.vertices["a"].subtasks[0].executions
    assert execution.accumulators == Accumulators((LongCounter("rows", 3),))
    assert (execution.reused_from, execution.scheduled_at_ms, execution.task_manager_id) == ("job", 0, "")
    cluster.check()


def test_of_a_file_of_what_is_reused_it_is_said_which_job_wrote_it(cluster: ScriptedCluster) -> None:
    run(cluster, rerun(cluster, failed=True))
    wanted: dict[str, Any] = {"type": "RequestFileUpload", "job_id": "again", "vertex_id": "a", "attempt": 1, "file": "LOG"}
    for index, option in ((0, ""), (1, " --subtask 1")):
        said = refusal(cluster.command(**wanted, subtask_index=index))
        shows = f"'eventflink logs job a{option}' shows what it wrote there"
        assert said == f"FileNotAvailable: attempt again/a[{index}]#1 is reused from 'job': {shows}"


def test_a_vertex_that_was_rescaled_is_reused_with_the_subtasks_that_it_had() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    document = graph(vertex("a", 2), vertex("b", 2), vertex("c", 2), edges=[("a", "b", "forward"), ("b", "c", "forward")])
    cluster.report(deployments(cluster.submit(document))[0], ExecutionState.RUNNING)
    run(cluster, cluster.rescale("a", 3))
    run(cluster, cluster.pass_time(1), failing={"c"})
    assert run(cluster, rerun(cluster, failed=True)) == ["c[0]", "c[1]", "c[2]"]
    assert len(locations(cluster, "again", "b")) == 3
    cluster.check()


# -- for how long outputs are there ---------------------------------------------------------------------------------------


def test_outputs_of_a_failed_job_are_kept_for_a_day(cluster: ScriptedCluster) -> None:
    view = job_view(cluster.fold, "job")
    assert (view.outputs_kept_until or "").startswith("2027-01-16T08:00:00")
    assert clean_ups(cluster.pass_time(DAY_MS - 1_000)) == []
    waits = standing_of(Subject(SubjectType.JOB, "job", "job"), cluster.master).waits
    assert "its outputs are kept to be reused until 2027" in waits[-1].why
    assert clean_ups(cluster.pass_time(1_000)) == ["job"]
    cluster.timer(CleanupsCompleted(("job",)))
    assert run(cluster, rerun(cluster, failed=True)) == ["a[0]", "a[1]", "x[0]", "b[0]", "c[0]", "d[0]"]
    assert why(cluster)["a"] == "runs: its outputs in 'job' are not kept"
    assert why(cluster)["b"] == "runs: its input 'a' runs"


def test_what_no_edge_reads_is_a_result_and_reused_at_any_time() -> None:
    cluster = ScriptedCluster(MasterSettings(keep_outputs_ms=0))
    cluster.register()
    effects = cluster.submit(graph(vertex("a"), vertex("b")))
    assert clean_ups(cluster.run(effects, lambda t: ExecutionState.FAILED if t.vertex_id == "b" else ExecutionState.FINISHED)) == ["job"]
    rerun(cluster, failed=True)
    assert run(cluster, rerun(cluster, job_id="third", failed=True)) == ["b[0]"]
    assert locations(cluster, "third", "a") == locations(cluster, "job", "a")
    cluster.check()


@pytest.mark.parametrize(("keep", "kept_ms"), [("never", 0), ("90s", 90_000), ("7d", 7 * DAY_MS), (None, 0)])
def test_a_job_says_how_long_its_own_are_kept_however_it_ends(keep: str | None, kept_ms: int) -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    more = {"keep": keep} if keep is not None else {}
    done = cluster.run(cluster.submit(chain(**more)))
    assert clean_ups(done) == ([] if kept_ms else ["job"])
    if kept_ms:
        assert run(cluster, rerun(cluster, from_vertices=["d"])) == ["d[0]"]
        assert clean_ups(cluster.pass_time(kept_ms - 1)) == []
        # The job that takes them keeps its own as long, and those with them.
        assert sorted(clean_ups(cluster.run(cluster.pass_time(1)))) == ["again"]
        assert clean_ups(cluster.pass_time(1)) == ["job"]
    cluster.check()


def test_keep_is_written_and_refused_as_durations_are() -> None:
    parsed = parse_job_graph(chain(keep="36h"), "test")
    assert (parsed.keep_outputs_ms, to_document(parsed)["keep"]) == (36 * 3_600_000, "36h")
    assert to_document(parse_job_graph(chain(keep="1500ms"), "test"))["keep"] == "1500ms"
    assert to_document(parse_job_graph(chain(keep="0d"), "test"))["keep"] == "never"
    for wrong in ("for ever", "7", 7, "367d", "-1d", None, "9" * 400 + "d"):
        if wrong is not None:
            with pytest.raises(InvalidJobGraph, match="keep: must be never, or a whole number"):
                parse_job_graph(chain(keep=wrong), "test")
    with pytest.raises(InvalidJobGraph, match="'keep' is for batch jobs, and 's' is a stream"):
        parse_job_graph(graph(stream("s"), keep="1d"), "test")


@pytest.mark.rule("P27")
def test_outputs_stay_as_long_as_a_job_takes_them_over_a_failover(cluster: ScriptedCluster) -> None:
    effects = rerun(cluster, failed=True)
    assert clean_ups(cluster.pass_time(2 * DAY_MS)) == []
    cluster.fail_over()
    assert clean_ups(cluster.pass_time(DAY_MS)) == []
    waits = standing_of(Subject(SubjectType.JOB, "job", "job"), cluster.master).waits
    assert "and while a job takes them that runs it again" in waits[-1].why
    run(cluster, effects)
    assert cluster.job("again").status is JobStatus.FINISHED
    assert clean_ups(cluster.pass_time(1)) == ["job"]
    assert [event.job_id for event in cluster.events(JobOutputsReleased)] == ["job"]


def test_a_rerun_of_a_rerun_takes_what_the_first_job_left(cluster: ScriptedCluster) -> None:
    run(cluster, rerun(cluster, failed=True), failing={"d"})
    cluster.pass_time(DAY_MS - 1_000)
    assert run(cluster, rerun(cluster, "again", "third", failed=True)) == ["d[0]"]
    graph_of = cluster.job("third").execution_graph
    assert [graph_of.vertices[v].subtasks[0].executions[-1].reused_from for v in ("a", "b", "c")] == ["job", "job", "again"]
    assert cluster.master.dispatcher.holds == {"again": ("job",)}, "the third has finished, and is clean"
    assert clean_ups(cluster.run(cluster.pass_time(1_000))) == ["again"]
    assert clean_ups(cluster.pass_time(1)) == ["job"]


def test_beyond_the_capacity_of_the_memory_nothing_is_kept() -> None:
    cluster = ScriptedCluster(MasterSettings(job_store_capacity=1))
    cluster.register(slots=9)
    for job_id in ("one", "two"):
        run(cluster, cluster.submit(chain(), job_id=job_id), failing={"c"})
    assert run(cluster, rerun(cluster, "one", failed=True), failing={"d"}) == ["c[0]", "d[0]"]
    effects = cluster.pass_time(1)
    assert clean_ups(effects) == ["two"], "'one' is held"
    cluster.run(effects)
    cluster.pass_time(1)
    assert [event.job_id for event in cluster.events(JobEvicted)] == ["two"]
    cluster.check()


# -- outputs that are gone -------------------------------------------------------------------------------------------------


def lose(cluster: ScriptedCluster, task: Deployment, *lost: LostInput) -> list[Effect]:
    offer, failed = reports_of(task, ExecutionState.FAILED, FailureCause("InputLost", "input 'b' cannot be read"))
    assert isinstance(failed, TaskStateReport)
    failed.lost_inputs = lost
    return cluster.say(offer, failed)


def test_an_output_that_is_gone_after_all_is_made_again_without_any_restart_strategy(cluster: ScriptedCluster) -> None:
    [task] = deployments(rerun(cluster, failed=True))
    lose(cluster, task, LostInput("b", 0))
    [scheduled] = cluster.events(RestartScheduled)
    assert (scheduled.is_counted, scheduled.delay_ms) == (False, 0)
    [again] = deployments(cluster.pass_time(1))
    assert (task_of(again).vertex_id, task_of(again).attempt) == ("b", 2)
    assert run(cluster, [again]) == ["b[0]", "c[0]", "d[0]"]
    assert cluster.job("again").status is JobStatus.FINISHED
    assert locations(cluster, "again", "b") != locations(cluster, "job", "b")


def test_what_was_reused_and_ran_again_is_told_as_what_runs_and_before_that_as_reused(cluster: ScriptedCluster) -> None:
    [task] = deployments(rerun(cluster, failed=True))
    cluster.pass_time(1_000)
    lose(cluster, task, LostInput("b", 0))
    assert why(cluster)["b"] == "runs: it was reused until an output of it was lost, or all of its job restarted"
    run(cluster, cluster.pass_time(1_000))
    archive = archive_view(cluster.fold, "again")
    then = archive_at(archive, iso_time(cluster.wall_ms - 1_500) or "")
    for view, expected in ((job_view(cluster.fold, "again"), {"a", "x"}), (archive.job, {"a", "x"}), (then.job, {"a", "b", "x"})):
        assert {each.vertex_id for each in view.vertices if each.reuse is not None and each.reuse.is_reused} == expected
        assert {each.vertex_id for each in archived_run(view).vertices if each.is_reused} == expected
    [row] = [each for each in known_runs(cluster.fold, None, 0, 9).rows.values() if each.job_id == "again"]
    assert {each.vertex_id for each in row.vertices if each.duration_ms is None} == {"a", "x"}


def test_what_is_lost_twice_is_the_loss_of_the_job_itself(cluster: ScriptedCluster) -> None:
    [task] = deployments(rerun(cluster, failed=True))
    lose(cluster, task, LostInput("b", 0))
    [writer] = deployments(cluster.pass_time(1))
    [reader] = deployments(cluster.report(writer, ExecutionState.FINISHED))
    lose(cluster, reader, LostInput("b", 0))
    assert cluster.job("again").status is JobStatus.FAILED


def test_under_a_full_restart_what_was_reused_runs_as_well() -> None:
    cluster = ScriptedCluster(MasterSettings(failover_strategy=FailoverStrategy.FULL))
    cluster.register(slots=9)
    strategy = {"type": "fixed-delay", "attempts": 1, "delay_ms": 0}
    run(cluster, cluster.submit(chain(restart_strategy=strategy)), failing={"c"})
    cluster.run(cluster.pass_time(1), lambda t: ExecutionState.FAILED if t.vertex_id == "c" else ExecutionState.FINISHED)
    [task] = deployments(rerun(cluster, failed=True))
    run(cluster, cluster.report(task, ExecutionState.FAILED))
    assert run(cluster, cluster.pass_time(1)) == ["a[0]", "a[1]", "x[0]", "b[0]", "c[0]", "d[0]"]
    cluster.check()


# -- requests --------------------------------------------------------------------------------------------------------------


def test_who_repeats_the_request_gets_the_same_job_and_one_who_asks_for_more_none(cluster: ScriptedCluster) -> None:
    rerun(cluster, failed=True, request_id="one")
    for request_id in ("", "one"):
        [reply] = replies(rerun(cluster, failed=True, request_id=request_id))
        assert not isinstance(reply.payload, RequestRejected)
    others: list[dict[str, Any]] = [{}, {"from_vertices": ["b"]}]
    for other in others:
        assert refusal(rerun(cluster, **other)).startswith("DuplicateJobSubmission: job 'again' was submitted before: it is RUNNING")
    assert len(cluster.events(JobReuseDecided)) == 1


def test_a_dry_run_tells_of_each_vertex_and_changes_nothing(cluster: ScriptedCluster) -> None:
    command = RerunJob(request_id="dry", job_id="again", rerun_of="job", failed=True)
    view = dry_run_view(replay(cluster.log, cluster.settings), command)
    assert view.sentence.startswith("RerunJob again would be accepted: 3 of 5 vertices are reused, 1 task is scheduled")
    assert [(row.vertex_id, row.is_reused) for row in view.reuse] == [
        ("a", True),
        ("b", True),
        ("x", True),
        ("c", False),
        ("d", False),
    ]
    assert "again" not in cluster.master.dispatcher.jobs


def test_the_log_tells_it_and_a_leader_that_comes_then_goes_on(cluster: ScriptedCluster) -> None:
    rerun(cluster, failed=True)
    cluster.fail_over()
    assert run(cluster, cluster.take_effects()) == ["c[0]", "d[0]"]
    finished = [event.vertex_id for event in cluster.events(TaskFinished) if event.job_id == "again"]
    deployed = [event.vertex_id for event in cluster.events(TaskDeployed) if event.job_id == "again"]
    assert finished == deployed == ["c", "d"]
    facts = standing_of(Subject(SubjectType.JOB, "again", "again"), cluster.master).facts
    assert facts["vertices"]["d"] == "runs: its input 'c' runs"


def sql(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "sql": text, **more}


def digest(letter: str) -> str:
    return letter * 64


def bound(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with its digests as a client gives them to it: they count beside its archives alone."""
    vertices = [
        each | ({"code_digest": bind_digest(each["code_digest"], document["code_archives"])} if each.get("code_digest") else {})
        for each in document["vertices"]
    ]
    return document | {"vertices": vertices}


_NIGHTLY: dict[str, Any] = graph(
    vertex("a", 2) | {"code_digest": digest("a")},
    sql("b", "SELECT 1 AS one FROM a", code_digest=digest("0")),
    vertex("c") | {"code_digest": digest("c")},
    vertex("d"),
    edges=[("a", "b", "hash"), ("b", "c", "hash"), ("c", "d", "hash")],
    code_archives=[digest("1")],
    name="nightly",
)
NIGHTLY = bound(_NIGHTLY)


def changed(**vertices: dict[str, Any] | None) -> dict[str, Any]:
    """Return the nightly graph with newer code, and with other keys of some vertices, or without these."""
    known = {each["id"]: each for each in _NIGHTLY["vertices"]}
    now = [each | (vertices.get(name) or {}) for name, each in known.items() if vertices.get(name, {}) is not None]
    names = {each["id"] for each in now}
    edges = [edge for edge in NIGHTLY["edges"] if {edge["from"], edge["to"]} <= names]
    return bound(NIGHTLY | {"vertices": now, "edges": edges, "code_archives": [digest("2")]})


def reasons(cluster: ScriptedCluster, job_id: str = "again") -> dict[str, str]:
    return {name: f"{each.reason} {each.detail}".strip() for name, each in cluster.job(job_id).reuse.items()}


@pytest.fixture
def nightly() -> Iterator[ScriptedCluster]:
    """A cluster with the job 'job', of which the last vertex failed; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register(slots=9)
    run(scripted, scripted.submit(NIGHTLY), failing={"d"})
    yield scripted
    scripted.check()


@pytest.mark.rule("P27")
def test_a_function_that_was_mended_runs_with_all_that_reads_it(nightly: ScriptedCluster) -> None:
    effects = rerun(nightly, failed=True, job_graph=changed(c={"code_digest": digest("d")}))
    assert run(nightly, effects) == ["c[0]", "d[0]"]
    assert reasons(nightly) == {"a": "UNCHANGED", "b": "UNCHANGED", "c": "CODE_CHANGED", "d": "CODE_CHANGED"}
    assert why(nightly)["c"] == "runs: its code changed since 'job'"
    assert nightly.job("again").execution_graph.graph.code_archives == (digest("2"),)
    assert nightly.job("again").status is JobStatus.FINISHED


def test_where_nobody_knows_what_a_function_is_made_of_all_code_counts(nightly: ScriptedCluster) -> None:
    rerun(nightly, failed=True, job_graph=changed(a={"code_digest": None}))
    assert reasons(nightly) == {"a": "CODE_CHANGED", "b": "INPUT_RUNS a", "c": "INPUT_RUNS b", "d": "CODE_CHANGED"}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ({"parameters": {"least": 3}}, "CHANGED parameters"),
        ({"sql": "SELECT 2 AS one FROM a"}, "CHANGED statement"),
        ({"engine": "lake"}, "CHANGED engine"),
        ({"when": {"rows_of": "a"}}, "CHANGED condition ('when')"),
        ({"max_parallelism": 64}, "CHANGED max_parallelism"),
        ({"parallelism": 3, "time_limit": "1h", "retries": [{"attempts": 2}], "slot_sharing_group": "g"}, "UNCHANGED"),
    ],
)
def test_what_a_document_says_otherwise_of_a_statement_has_it_run_unless_its_result_is_the_same(
    nightly: ScriptedCluster, key: dict[str, Any], reason: str
) -> None:
    rerun(nightly, failed=True, job_graph=changed(b=key))
    assert reasons(nightly)["b"] == reason
    assert reasons(nightly)["c"] == ("UNCHANGED" if reason == "UNCHANGED" else "INPUT_RUNS b")


def test_the_engine_of_the_job_counts_for_vertices_that_name_none(nightly: ScriptedCluster) -> None:
    rerun(nightly, failed=True, job_graph=changed(b={"engine": "lake"}) | {"engine": "lake"})
    assert reasons(nightly)["a"] == reasons(nightly)["b"] == "CHANGED engine"


def test_a_vertex_that_is_added_reads_what_is_reused(nightly: ScriptedCluster) -> None:
    document = changed()
    document["vertices"] = [sql("new", "SELECT * FROM b"), *document["vertices"]]
    document["edges"] = [*document["edges"], {"from": "b", "to": "new", "ship": "broadcast"}]
    effects = rerun(nightly, failed=True, job_graph=document)
    assert run(nightly, effects) == ["new[0]", "d[0]"]
    assert reasons(nightly) == {"new": "ADDED", "a": "UNCHANGED", "b": "UNCHANGED", "c": "UNCHANGED", "d": "CODE_CHANGED"}


def test_an_output_that_edges_read_now_and_did_not_is_made_again(nightly: ScriptedCluster) -> None:
    """What no edge reads is a result and stays; what edges read is removed some time: neither can take the place of the other."""
    document = changed(d=None)
    rerun(nightly, failed=True, job_graph=document)
    assert reasons(nightly) == {"a": "UNCHANGED", "b": "UNCHANGED", "c": "READERS_CHANGED"}
    assert why(nightly)["c"] == "runs: its outputs are read otherwise than in 'job'"


def test_other_keys_of_an_edge_are_other_inputs(nightly: ScriptedCluster) -> None:
    document = changed()
    document["edges"] = [edge | ({"ship": "broadcast", "keys": []} if edge["to"] == "b" else {}) for edge in document["edges"]]
    rerun(nightly, failed=True, job_graph=document)
    assert reasons(nightly)["b"] == "CHANGED inputs"


def test_a_finished_job_runs_again_with_another_graph_where_that_differs() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    run(cluster, cluster.submit(NIGHTLY | {"keep": "7d"}))
    known = {"d": {"code_digest": digest("d")}}
    assert run(cluster, rerun(cluster, failed=True, job_graph=changed(**known) | {"keep": "7d"})) == ["d[0]"]
    told = refusal(rerun(cluster, "again", "third", failed=True, job_graph=changed(**known)))
    assert told.startswith("NothingFailed: job 'again' is FINISHED, and its new graph changes nothing of it; name the vertices")
    cluster.check()


def test_a_graph_of_another_name_or_with_an_unknown_queue_is_refused(nightly: ScriptedCluster) -> None:
    told = refusal(rerun(nightly, job_graph=NIGHTLY | {"name": "other"}))
    assert told == (
        "InvalidJobGraph: job 'job' is a run of 'nightly', and the graph is called 'other': submit a job of another name instead of a rerun"
    )
    told = refusal(rerun(nightly, from_vertices=["z"], job_graph=NIGHTLY))
    assert told == "UnknownVertex: vertex not found: 'z' in the job's new graph; it has a, b, c, d"
    assert "job_graph: vertices: it is missing" in refusal(rerun(nightly, job_graph={"name": "nightly"}))


def test_the_values_that_the_run_was_given_hold_in_another_graph() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    declared: dict[str, dict[str, Any]] = {
        "day": {"type": "date"},
        "least": {"type": "integer", "default": 1},
        "most": {"type": "integer", "default": 9},
        "kind": {"type": "string", "default": "x"},
        "said": {"type": "string", "default": "x"},
    }
    given = {"day": "2026-11-25", "least": 7, "kind": "5", "said": "old"}
    first = {key: said | ({"value": given[key]} if key in given else {}) for key, said in declared.items()}
    run(cluster, cluster.submit(graph(vertex("a"), parameters=first)), failing={"a"})
    now = declared | {
        "least": {"type": "integer", "default": 2},
        "most": {"type": "integer", "default": 99},
        "kind": {"type": "integer", "default": 3},
        "new": {"type": "boolean", "default": True},
        "said": {"type": "string", "default": "x", "value": "new"},
    }
    rerun(cluster, job_graph=graph(vertex("a"), parameters=now))
    values = {each.name: each.value for each in cluster.job("again").execution_graph.graph.parameters}
    assert values == {"day": "2026-11-25", "least": "7", "most": "99", "kind": "3", "new": "true", "said": "new"}
    told = refusal(rerun(cluster, job_id="third", job_graph=graph(vertex("a"), parameters={"other": {"type": "date"}})))
    assert told.startswith("InvalidParameters: job 'job' cannot be run again with these values: parameter 'other': it has neither")
    cluster.check()


def test_a_vertex_that_forward_edges_bind_is_reused_with_the_parallelism_of_the_document_alone() -> None:
    """Otherwise those that it is bound to would run with its parallelism, whatever their document says: a count twice, in two parts."""
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    before = [vertex("a", 2), vertex("x", 3), vertex("z")]
    run(cluster, cluster.submit(graph(*before, edges=[("a", "z", "hash"), ("x", "z", "hash")])), failing={"z"})
    after = graph(vertex("a", 2), vertex("x", 2), vertex("z", 2), edges=[("a", "z", "forward"), ("x", "z", "forward")])
    effects = rerun(cluster, failed=True, job_graph=after)
    assert reasons(cluster)["a"] == "UNCHANGED"
    assert why(cluster)["x"] == "runs: its parallelism, which a forward edge hands on, changed since 'job'"
    assert run(cluster, effects) == ["x[0]", "x[1]", "z[0]", "z[1]"]
    cluster.check()


def test_an_output_that_a_condition_names_in_place_of_an_edge_is_made_again() -> None:
    """What an edge read is removed with the ended job, and what none reads is a result of the new one."""
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    run(cluster, cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")])), failing={"b"})
    rerun(cluster, failed=True, job_graph=graph(vertex("a"), vertex("b") | {"when": {"rows_of": "a"}}))
    assert reasons(cluster)["a"] == "READERS_CHANGED"
    cluster.check()


def test_a_parameter_of_another_type_has_changed_though_its_text_has_not() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    statement = sql("s", "SELECT * FROM t WHERE least = :least")
    declared = [{"least": {"type": kind, "default": default}} for kind, default in (("string", "5"), ("integer", 5))]
    first, second = (graph(statement, vertex("z"), edges=[("s", "z", "hash")], parameters=each) for each in declared)
    run(cluster, cluster.submit(first), failing={"z"})
    rerun(cluster, failed=True, job_graph=second)
    assert reasons(cluster)["s"] == "PARAMETER_CHANGED least"
    cluster.check()


def test_a_document_without_code_has_that_of_the_ended_job(nightly: ScriptedCluster) -> None:
    document = {key: value for key, value in changed(b={"sql": "SELECT 2 AS one FROM a"}).items() if key != "code_archives"}
    document["vertices"] = [{key: value for key, value in each.items() if key != "code_digest"} for each in document["vertices"]]
    rerun(nightly, failed=True, job_graph=document)
    assert reasons(nightly)["a"] == "UNCHANGED"
    assert nightly.job("again").execution_graph.graph.code_archives == (digest("1"),)
    assert nightly.job("again").execution_graph.graph.vertices[0].code_digest == NIGHTLY["vertices"][0]["code_digest"]


def test_a_digest_counts_beside_the_archives_alone_of_which_it_was_made(nightly: ScriptedCluster) -> None:
    """A document is copied, and other code named in it: nobody has looked what its functions are made of."""
    rerun(nightly, failed=True, job_graph=NIGHTLY | {"code_archives": [digest("2")]})
    assert reasons(nightly)["a"] == reasons(nightly)["b"] == "CODE_CHANGED"


def test_a_stream_begins_in_the_savepoint_of_the_ended_job_unless_its_document_names_another() -> None:
    cluster = ScriptedCluster()
    document = graph(stream("s"))
    cluster.submit(document | {"restore": {"savepoint": "/savepoints/1"}})
    cluster.cancel()
    for number, (more, begins) in enumerate((({}, "/savepoints/1"), ({"restore": {"savepoint": "/savepoints/2"}}, "/savepoints/2"))):
        rerun(cluster, job_id=f"again-{number}", job_graph=document | more)
        restore = cluster.job(f"again-{number}").execution_graph.graph.restore
        assert restore is not None
        assert restore.path == begins
    cluster.check()


def test_a_repeated_rerun_with_another_graph_is_the_same_job(nightly: ScriptedCluster) -> None:
    document = changed(c={"code_digest": digest("d")})
    first = rerun(nightly, failed=True, job_graph=document)
    assert deployments(first)
    assert not deployments(rerun(nightly, failed=True, job_graph=document))
    assert refusal(rerun(nightly, failed=True, job_graph=changed())).startswith("DuplicateJobSubmission")


def partly(cluster: ScriptedCluster, *vertices: dict[str, Any], **more: Any) -> None:
    """Run a job of which 'b' has four subtasks: two finish, then the others fail, without another attempt."""
    document = graph(*vertices, edges=[("a", "b", "rebalance"), ("b", "c", "hash")], restart_strategy={"type": "none"}, **more)
    document = bound(document) if more else document
    ends = {2: ExecutionState.FAILED, 3: ExecutionState.FAILED}
    cluster.run(cluster.submit(document), lambda task: ends.get(task.subtask_index, ExecutionState.FINISHED))
    assert cluster.job("job").status is JobStatus.FAILED


@pytest.mark.rule("P27")
def test_of_a_vertex_that_had_not_finished_the_subtasks_are_reused_that_had() -> None:
    """Of a thousand rows that were each a subtask's, the three run again that failed."""
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    partly(cluster, vertex("a"), vertex("b", 4), vertex("c"))
    effects = rerun(cluster, failed=True)
    assert why(cluster)["b"] == "runs: it was FAILED when 'job' ended; 2 of its subtasks had finished, and are reused"
    assert run(cluster, effects) == ["b[2]", "b[3]", "c[0]"]
    places = locations(cluster, "again", "b")
    assert places[:2] == locations(cluster, "job", "b")
    assert all(place.startswith("/outputs/again/b/") for place in places[2:])
    assert cluster.job("again").status is JobStatus.FINISHED
    cluster.pass_time(2 * DAY_MS)
    cluster.check()


@pytest.mark.parametrize("changed", [{"parallelism": 8}, {"parameters": {"x": 1}}, {"code_digest": digest("b")}])
def test_none_of_its_subtasks_is_reused_where_the_vertex_is_another_one(changed: dict[str, Any]) -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=20)
    known = {"code_digest": digest("a")}
    partly(cluster, vertex("a") | known, vertex("b", 4) | known, vertex("c"), code_archives=[digest("1")])
    vertices = [vertex("a") | known, vertex("b", 4) | known | changed, vertex("c")]
    document = graph(*vertices, edges=[("a", "b", "rebalance"), ("b", "c", "hash")], code_archives=[digest("2")])
    rerun(cluster, failed=True, job_graph=bound(document))
    assert cluster.job("again").reuse["a"].is_reused
    assert cluster.job("again").reuse["b"].subtasks == ()
    cluster.check()


def test_a_vertex_with_a_sink_runs_whole_again() -> None:
    """What its subtasks have written is one commit of the job."""
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    sink = {"sink": {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}}
    document = graph(vertex("a"), vertex("b", 4) | sink, edges=[("a", "b", "rebalance")], restart_strategy={"type": "none"})
    ends = {2: ExecutionState.FAILED, 3: ExecutionState.FAILED}
    cluster.run(cluster.submit(document), lambda task: ends.get(task.subtask_index, ExecutionState.FINISHED))
    rerun(cluster, failed=True)
    assert cluster.job("again").reuse["b"].subtasks == ()
    cluster.check()


def test_what_a_rerun_had_reused_in_part_is_reused_by_the_next_one() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=9)
    partly(cluster, vertex("a"), vertex("b", 4), vertex("c"))
    ends = {3: ExecutionState.FAILED}
    cluster.run(rerun(cluster, failed=True), lambda task: ends.get(task.subtask_index, ExecutionState.FINISHED))
    assert cluster.job("again").status is JobStatus.FAILED
    assert run(cluster, rerun(cluster, "again", "third", failed=True)) == ["b[3]", "c[0]"]
    assert locations(cluster, "third", "b")[:2] == locations(cluster, "job", "b")
    cluster.pass_time(3 * DAY_MS)
    cluster.check()

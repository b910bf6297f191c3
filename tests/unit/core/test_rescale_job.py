"""A user gives a vertex another parallelism, under both schedulers; what cannot be is refused with a code, and changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.inputs import RequestFileUpload, RescaleJob
from eventflink.events.log_events import (
    FileUploadRequested,
    JobRescaled,
    JobRescaleRequested,
    RequestRejected,
    RescaleScheduled,
    TaskFinished,
)
from eventflink.master import rescales
from eventflink.master.effects import Deployment, Effect
from eventflink.master.settings import AdaptiveSettings, MasterSettings
from eventflink.model.statuses import ExecutionState, JobStatus, RescaleReason, SchedulerType, TaskFile
from tests.support.cluster import (
    ScriptedCluster,
    cancellations,
    deployments,
    fixed_delay,
    graph,
    output_at,
    replies,
    state_report,
    tasks,
    vertex,
)

REQUESTED = RescaleReason.REQUESTED


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager of 4 slots; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register("one", 4)
    yield scripted
    scripted.check()


def _answer(effects: list[Effect]) -> tuple[str, str]:
    """Return code and message of the only refusal; both empty for what was accepted."""
    [reply] = replies(effects)
    return (reply.payload.code, reply.payload.message) if isinstance(reply.payload, RequestRejected) else ("", "")


def _begin(cluster: ScriptedCluster, document: dict[str, Any], job_id: str = "job") -> list[Deployment]:
    begun = deployments(cluster.submit(document, job_id=job_id))
    for deployment in begun:
        cluster.report(deployment, ExecutionState.RUNNING)
    return begun


def _end(cluster: ScriptedCluster, effects: list[Effect]) -> list[Effect]:
    for cancelled in cancellations(effects):
        cluster.say(state_report(cancelled, ExecutionState.CANCELED))
    return cluster.pass_time(0)


@pytest.mark.parametrize("scheduler", ["default", "adaptive"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_vertex_that_runs_ends_and_starts_empty_with_what_was_asked_for(
    cluster: ScriptedCluster, scheduler: str, parallelism: int
) -> None:
    _begin(cluster, graph(vertex("a", 2), scheduler=scheduler))
    effects = cluster.rescale("a", parallelism)
    assert _answer(effects) == ("", "")
    assert [c.payload.reason for c in cancellations(effects)] == [f"its vertex is rescaled to {parallelism} subtasks"] * 2  # type: ignore[union-attr]
    assert cluster.job("job").status is JobStatus.RESTARTING
    again = _end(cluster, effects)
    assert [(t.subtask_index, t.attempt, t.parallelism) for t in tasks(again)] == [(n, 2, parallelism) for n in range(parallelism)]
    cluster.run(again)
    job = cluster.job("job")
    assert (job.status, job.restarts.count) == (JobStatus.FINISHED, 0)
    assert cluster.events(JobRescaleRequested) == [JobRescaleRequested("job", "a", parallelism, "test (declared)")]
    assert cluster.events(JobRescaled) == [JobRescaled("job", "a", 2, parallelism, REQUESTED, 2)]


def test_a_vertex_that_has_not_begun_is_resized_at_once(cluster: ScriptedCluster) -> None:
    begun = _begin(cluster, graph(vertex("a", 2), vertex("b", 2), edges=[("a", "b", "hash")]))
    assert _answer(cluster.rescale("b", 4)) == ("", "")
    assert not cluster.events(RescaleScheduled)
    assert cluster.job("job").status is JobStatus.RUNNING
    cluster.report(begun[0], ExecutionState.FINISHED)
    readers = tasks(cluster.report(begun[1], ExecutionState.FINISHED))
    assert [(t.vertex_id, t.attempt, t.parallelism) for t in readers] == [("b", 1, 4)] * 4


def test_more_than_there_are_slots_for_waits_in_line_under_the_default_scheduler(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    again = _end(cluster, cluster.rescale("a", 9))
    assert len(tasks(again)) == 4
    assert len(tasks(cluster.run(again))) == 9
    assert cluster.job("job").status is JobStatus.FINISHED


def test_more_than_there_are_slots_for_is_kept_in_mind_under_the_adaptive_scheduler(cluster: ScriptedCluster) -> None:
    """It continues with what it has, and is rescaled as far as slots come."""
    _begin(cluster, graph(vertex("a", 4), scheduler="adaptive"))
    assert not cancellations(cluster.rescale("a", 8))
    cluster.register("two", 2)
    effects = cluster.pass_time(10_000)
    assert cluster.events(RescaleScheduled) == [RescaleScheduled("job", "a", 4, 6, RescaleReason.MORE_SLOTS)]
    assert [t.parallelism for t in tasks(_end(cluster, effects))] == [6] * 6


def test_the_other_vertices_of_forward_edges_follow(cluster: ScriptedCluster) -> None:
    document = graph(vertex("a", 2), vertex("b", 2), vertex("c", 2), edges=[("a", "b", "forward"), ("b", "c", "forward")])
    _begin(cluster, document)
    effects = cluster.run(_end(cluster, cluster.rescale("a", 3)))
    assert [(t.vertex_id, t.parallelism) for t in tasks(effects)] == [(v, 3) for v in "abc" for _ in range(3)]
    for index, task in enumerate(tasks(effects)[3:6]):
        assert task.inputs[0].locations == (output_at(f"/outputs/job/a/{index}/2/default"),)
    assert cluster.job("job").status is JobStatus.FINISHED


def test_what_forward_edges_bind_together_is_known_and_not_searched_for(cluster: ScriptedCluster) -> None:
    """An adaptive job asks for it of each vertex that waits, and there may be a thousand, with ten thousand edges."""
    forward = [("a", "c"), ("b", "c"), ("d", "f"), ("e", "f"), ("h", "f")]
    edges = [*((*ends, "forward") for ends in forward), ("c", "g", "rebalance"), ("f", "g", "rebalance")]
    cluster.submit(graph(*map(vertex, "abcdefgh"), edges=edges), job_id="job")
    of = cluster.job("job").execution_graph
    assert [sorted(of.forward_group(name)) for name in "adg"] == [list("abc"), list("defh"), ["g"]]
    assert all(of.forward_group(name) is of.forward_group("a") for name in "bc")
    assert all(of.forward_group(name) is of.forward_group("d") for name in "efh")


def test_a_vertex_does_not_leave_others_of_its_forward_edges_behind_that_have_begun(cluster: ScriptedCluster) -> None:
    begun = _begin(cluster, graph(vertex("a", 2), vertex("b", 2), edges=[("a", "b", "forward")]))
    before = len(cluster.events(JobRescaled, RescaleScheduled, JobRescaleRequested))
    code, message = _answer(cluster.rescale("b", 3))
    assert (code, before) == ("BoundByForwardEdges", 0)
    assert message == "vertex 'b' is bound by forward edges to others that have begun: all of them keep their parallelism"
    for deployment in begun:
        cluster.report(deployment, ExecutionState.FINISHED)
    assert _answer(cluster.rescale("b", 3))[0] == "BoundByForwardEdges"
    assert _answer(cluster.rescale("a", 3))[0] == "VertexFinished"
    assert not cluster.events(JobRescaled, RescaleScheduled, JobRescaleRequested)


@pytest.mark.parametrize("scheduler", ["default", "adaptive"])
def test_what_forward_edges_bind_does_not_begin_while_one_of_them_ends_to_be_rescaled(cluster: ScriptedCluster, scheduler: str) -> None:
    """It becomes ready meanwhile, waits, and begins with the new parallelism as well."""
    edges = [("first", "b", "rebalance"), ("a", "c", "forward"), ("b", "c", "forward")]
    document = graph(vertex("first"), vertex("a", 2), vertex("b", 2), vertex("c", 2), edges=edges, scheduler=scheduler)
    begun = _begin(cluster, document)
    effects = cluster.rescale("a", 3)
    assert not tasks(cluster.report(begun[0], ExecutionState.FINISHED))
    assert not tasks(cluster.pass_time(60_000))
    again = _end(cluster, effects)
    assert sorted((t.vertex_id, t.parallelism) for t in tasks(again))[:3] == [("a", 3)] * 3
    done = cluster.run(again) + cluster.run(cluster.pass_time(60_000))
    assert {(t.vertex_id, t.parallelism) for t in tasks(again) + tasks(done)} == {("a", 3), ("b", 3), ("c", 3)}
    assert cluster.job("job").status is JobStatus.FINISHED


def test_finished_subtasks_of_a_vertex_that_is_rescaled_run_again(cluster: ScriptedCluster) -> None:
    """The user's word: the scheduler itself would not throw away what is done."""
    begun = _begin(cluster, graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "rebalance")]))
    cluster.report(begun[0], ExecutionState.FINISHED)
    effects = cluster.rescale("a", 4)
    assert len(cancellations(effects)) == 1
    done = cluster.run(_end(cluster, effects))
    assert [t.parallelism for t in tasks(done)] == [4, 4, 4, 4, 1]
    assert tasks(done)[-1].inputs[0].locations == tuple(output_at(f"/outputs/job/a/{index}/2/default") for index in range(4))


def test_attempts_go_on_counting_when_a_subtask_comes_back(cluster: ScriptedCluster) -> None:
    """Of 4 subtasks 1 and of 1 again 4: no attempt number is given twice, and files of former attempts are still found."""
    given = {(d.payload.subtask_index, d.payload.attempt) for d in _begin(cluster, graph(vertex("a", 4)))}  # type: ignore[union-attr]
    for parallelism in (1, 4):
        again = _end(cluster, cluster.rescale("a", parallelism))
        for deployment in deployments(again):
            cluster.report(deployment, ExecutionState.RUNNING)
        fresh = {(t.subtask_index, t.attempt) for t in tasks(again)}
        assert not fresh & given
        assert len(fresh) == parallelism
        given |= fresh
        wanted = RequestFileUpload(
            request_id=f"file-{parallelism}", job_id="job", vertex_id="a", subtask_index=3, attempt=1, file=TaskFile.LOG
        )
        cluster.send(wanted)
    assert [u.request_id for u in cluster.events(FileUploadRequested)] == ["file-1", "file-4"]


def test_what_is_so_already_is_accepted_and_leads_to_nothing(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    assert _answer(cluster.rescale("a", 2)) == ("", "")
    assert not cluster.events(JobRescaled, RescaleScheduled, JobRescaleRequested)


def test_a_request_that_comes_again_is_answered_and_not_done_again(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    for _ in range(2):
        assert _answer(cluster.rescale("a", 3, request_id="once")) == ("", "")
    assert len(cluster.events(RescaleScheduled)) == 1


@pytest.mark.parametrize(
    ("job_id", "vertex_id", "parallelism", "code", "message"),
    [
        ("none", "a", 2, "UnknownJob", "job not found: 'none'"),
        ("done", "a", 2, "JobTerminated", "job 'done' is FINISHED already"),
        ("ending", "a", 2, "JobNotRunning", "job 'ending' is CANCELLING"),
        ("job", "z", 2, "UnknownVertex", "vertex not found: 'z' in job 'job'"),
        ("job", "a", 0, "ParallelismOutOfRange", "parallelism 0 of vertex 'a' is not between 1 and 4096"),
        ("job", "a", -1, "ParallelismOutOfRange", "parallelism -1 of vertex 'a' is not between 1 and 4096"),
        ("job", "a", 4_097, "ParallelismOutOfRange", "parallelism 4097 of vertex 'a' is not between 1 and 4096"),
        ("job", "b", 4, "ParallelismOutOfRange", "parallelism 4 of vertex 'b' is not between 1 and 3"),
        ("job", "moving", 3, "RescaleInProgress", "vertex 'moving' is being rescaled to 2: its attempts have not ended yet"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    cluster: ScriptedCluster, job_id: str, vertex_id: str, parallelism: int, code: str, message: str
) -> None:
    cluster.run(cluster.submit(graph(vertex("a")), job_id="done"))
    _begin(cluster, graph(vertex("a")), job_id="ending")
    cluster.cancel("ending")
    _begin(cluster, graph(vertex("a", 1), vertex("b", 1) | {"max_parallelism": 3}, vertex("moving", 1)))
    cluster.rescale("moving", 2)
    before = len(cluster.events(JobRescaled, RescaleScheduled, JobRescaleRequested))
    assert _answer(cluster.rescale(vertex_id, parallelism, job_id=job_id)) == (code, message)
    assert len(cluster.events(JobRescaled, RescaleScheduled, JobRescaleRequested)) == before


def test_one_job_never_has_more_subtasks_than_a_graph_may_have(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescales, "MAX_SUBTASKS", 10_000)
    cluster.check_digests = False
    vertices = [vertex(f"v{n}", 4_000) for n in range(2)] + [vertex("a", 1)]
    cluster.submit(graph(*vertices, edges=[("v0", "v1", "hash"), ("v1", "a", "hash")]))
    assert _answer(cluster.rescale("a", 2_001))[1] == "parallelism 2001 of vertex 'a' is not between 1 and 2000"
    assert _answer(cluster.rescale("a", 2_000)) == ("", "")


def test_rescales_under_way_are_counted_in_what_one_job_may_have(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescales, "MAX_SUBTASKS", 10_000)
    cluster.check_digests = cluster.check_states = False
    _begin(cluster, graph(vertex("z", 2), vertex("a", 3_000), vertex("b", 2_900), edges=[("z", "a", "hash"), ("a", "b", "hash")]))
    effects = cluster.rescale("z", 4_000)
    assert len(cancellations(effects)) == 2, "it is not rescaled before these have ended"
    assert _answer(cluster.rescale("a", 3_101))[1] == "parallelism 3101 of vertex 'a' is not between 1 and 3100"
    assert _answer(cluster.rescale("a", 3_100)) == ("", "")
    assert _answer(cluster.rescale("b", 2_901))[0] == "ParallelismOutOfRange"
    _end(cluster, effects)
    assert [v.parallelism for v in cluster.job("job").execution_graph.vertices.values()] == [4_000, 3_100, 2_900]
    cluster.master.validate()


def test_a_reactive_job_is_not_told_its_parallelism() -> None:
    cluster = ScriptedCluster(MasterSettings(adaptive=AdaptiveSettings(SchedulerType.ADAPTIVE, reactive=True)))
    cluster.submit(graph(vertex("a")))
    assert _answer(cluster.rescale("a", 2))[0] == "ReactiveMode"
    cluster.check()


def test_a_command_for_another_job_master_or_leader_is_refused(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    for token in ({"job_master_id": "job-7"}, {"leader_id": "somebody"}):
        assert _answer(cluster.send(RescaleJob(reply_partition=0, job_id="job", vertex_id="a", parallelism=3, **token)))[0] == (
            "FencingTokenMismatch"
        )
    rightly = RescaleJob(reply_partition=0, job_id="job", vertex_id="a", parallelism=3, job_master_id="job-1")
    assert _answer(cluster.send(rightly)) == ("", "")


def test_a_failure_in_the_middle_of_a_rescale_joins_it(cluster: ScriptedCluster) -> None:
    """It is in the history, is no restart of its own, and does not fail a job that has no restart strategy."""
    [first, second] = _begin(cluster, graph(vertex("a", 2)))
    cluster.rescale("a", 3)
    cluster.report(first, ExecutionState.FAILED)
    cluster.report(second, ExecutionState.CANCELED)
    cluster.run(cluster.pass_time(0))
    job = cluster.job("job")
    assert (job.status, job.restarts.count, job.cause) == (JobStatus.FINISHED, 0, None)


def test_a_rescale_in_the_middle_of_a_restart_waits_for_its_delay(cluster: ScriptedCluster) -> None:
    [first, _] = _begin(cluster, graph(vertex("a", 2), restart_strategy=fixed_delay(3, 500)))
    cluster.report(first, ExecutionState.FAILED)
    effects = cluster.rescale("a", 3)
    assert len(cancellations(effects)) == 1
    assert not tasks(_end(cluster, effects))
    again = cluster.pass_time(500)
    assert [t.parallelism for t in tasks(again)] == [3, 3, 3]
    cluster.run(again)
    assert cluster.job("job").restarts.count == 1


def test_a_job_is_cancelled_in_the_middle_of_a_rescale(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    effects = cluster.rescale("a", 3)
    cluster.run([*cluster.cancel(), *effects])
    assert cluster.job("job").status is JobStatus.CANCELED
    assert not cluster.events(JobRescaled, TaskFinished)


def test_a_change_of_leader_forgets_nothing_of_it(cluster: ScriptedCluster) -> None:
    _begin(cluster, graph(vertex("a", 2)))
    cluster.rescale("a", 3)
    again = cluster.fail_over().effects
    assert len(cancellations(again)) == 2
    assert [t.parallelism for t in tasks(_end(cluster, list(again)))] == [3, 3, 3]

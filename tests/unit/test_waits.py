"""What waits is said of each subtask and of each vertex in the same words, and nothing that waits is left out."""

from collections.abc import Callable

import pytest

from eventflink.documents.plain import plain
from eventflink.documents.waits import WaitReason
from eventflink.leadership.fold import Fold
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState
from eventflink.views.vertex_waits import VertexWaits
from eventflink.views.waits import Waits
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, new_fold, vertex
from tests.support.scenarios import busy_cluster, eventful_cluster


def check(fold: Fold) -> set[WaitReason]:
    """Compare the waits of vertices with those of their subtasks; return the reasons that there are."""
    together, each = VertexWaits(fold.master), Waits(fold.master)
    waits = together.of_jobs(fold.master.dispatcher.jobs.values())
    counted = {(wait.job.job_id, wait.vertex_id, wait.reason): wait.tasks for wait in waits}
    single: dict[tuple[str, str, WaitReason], int] = {}
    for job in fold.master.dispatcher.jobs.values():
        for subtask in job.execution_graph.subtasks() if job.status not in TERMINAL_JOB_STATUSES else ():
            reason = each.reason_of(job, subtask)
            said = each.of_subtask(job, subtask)
            assert (reason is None) == (said is None)
            if reason is not None and said is not None:
                assert said.why.isprintable()
                key = (job.job_id, subtask.vertex_id, reason)
                single[key] = single.get(key, 0) + 1
    assert counted == single
    assert len(waits) == len(counted)
    for wait in waits:
        sentence = together.sentence(wait)
        assert sentence.startswith(f"{wait.vertex_id} waits: "), sentence
        assert sentence.endswith("."), sentence
        assert sentence.isprintable()
    troubles = [wait.is_trouble for wait in waits]
    assert troubles == sorted(troubles, reverse=True)
    return {wait.reason for wait in waits}


@pytest.mark.parametrize("make", [busy_cluster, eventful_cluster])
def test_waits_of_vertices_are_the_waits_of_their_subtasks_at_every_offset(make: Callable[[], ScriptedCluster]) -> None:
    cluster, fold = make(), new_fold()
    reasons: set[WaitReason] = set()
    for offset, value in enumerate(cluster.log):
        fold.fold_record(offset, cluster.timestamps[offset], value)
        reasons |= check(fold)
    assert {WaitReason.INPUTS, WaitReason.NO_FREE_SLOT, WaitReason.RESTART_DELAY, WaitReason.CONFIRMATION} <= reasons


def sentences(cluster: ScriptedCluster, job_id: str) -> list[str]:
    waits = VertexWaits(cluster.master)
    return [waits.sentence(wait) for wait in waits.of_jobs([cluster.job(job_id)])]


def test_a_vertex_without_slots_says_how_many_of_it_wait_who_has_the_slots_and_when_its_turn_is() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    cluster.submit(graph(vertex("scan", 3)), job_id="backfill-7")
    cluster.submit(graph(vertex("join", 3)), job_id="orders")
    taken = "all 4 registered slots are taken, 3 of them by job 'backfill-7'"
    assert [s for s in sentences(cluster, "orders") if "no slot" in s] == [f"join waits: 2 of 3 subtasks have no slot: {taken}."]
    cluster.submit(graph(vertex("late")), job_id="late")
    assert sentences(cluster, "late") == [f"late waits: its subtask has no slot: {taken}; the first is number 2 in turn."]


def test_only_slots_that_have_room_are_counted_for_who_has_them() -> None:
    cluster = ScriptedCluster()
    cluster.register("small", slots=3)
    cluster.register("large", slots=1, profile=ResourceProfile(task_heap_bytes=1 << 30))
    cluster.register("larger", slots=1, profile=ResourceProfile(task_heap_bytes=1 << 31))
    cluster.submit(graph(vertex("a", 5)), job_id="greedy")
    cluster.submit(graph(vertex("b", task_heap_memory="1g")), job_id="picky")
    taken = "all 2 slots that have room for task heap 1g are taken, all of them by job 'greedy'"
    assert sentences(cluster, "picky") == [f"b waits: its subtask has no slot: {taken}."]


def test_a_vertex_that_reads_what_is_not_complete_says_what_is_missing() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    cluster.submit(graph(vertex("a", 2), vertex("b", 3), edges=[("a", "b", "hash")]))
    waits = VertexWaits(cluster.master)
    [wait] = [wait for wait in waits.of_jobs([cluster.job("job")]) if wait.vertex_id == "b"]
    assert plain(waits.view(wait)) == {
        "job_id": "job",
        "name": "test job",
        "vertex_id": "b",
        "tasks": 3,
        "parallelism": 3,
        "reason": "INPUTS",
        "trouble": False,
        "sentence": "b waits: its inputs are not complete: a (2 of 2 subtasks).",
        "since": None,
        "subtasks": [0, 1, 2],
    }


def test_a_subtask_waits_for_its_restart_from_its_failure_on() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    [failed] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 1_000))))
    cluster.pass_time(50)
    cluster.report(failed, ExecutionState.FAILED)
    waits = VertexWaits(cluster.master)
    [wait] = waits.of_jobs([cluster.job("job")])
    assert wait.is_trouble
    assert wait.since_ms >= START_MS + 50
    assert waits.sentence(wait).startswith("a waits: its subtask will start again at 20")


def test_nothing_of_a_job_that_has_ended_waits() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=1)
    effects = cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")]))
    cluster.run(effects, lambda _: ExecutionState.FAILED)
    assert cluster.job("job").status in TERMINAL_JOB_STATUSES
    assert VertexWaits(cluster.master).of_jobs([cluster.job("job")]) == []

"""What callers are shown of slots, of requests that wait, and of blocked TaskManagers; and that it is plain JSON."""

import json

from eventflink.documents.cluster import ClusterStatus
from eventflink.documents.plain import parse, plain
from eventflink.events.inputs import SlotReport
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState
from eventflink.views.jobs_and_cluster import cluster_view, job_view
from eventflink.views.queries import task_manager
from tests.support.cluster import START_MS, ScriptedCluster, deployments, graph, sharing, vertex


def test_a_job_shows_for_what_it_waits_and_why() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", 1, profile=ResourceProfile(500))
    cluster.submit(graph(vertex("a", 3), vertex("b", 2, cpu_cores=1)))
    view = plain(job_view(cluster.fold, "job"))
    assert view["slot_requests"] == [
        {"resources": None, "requests": 2, "reason": "NO_FREE_SLOT", "why": "the only registered slot is taken, by this job"},
        {
            "resources": "cpu 1",
            "requests": 2,
            "reason": "NO_FITTING_SLOT",
            "why": "the only registered slot has no room for cpu 1 (1 with cpu 0.5)",
        },
    ]
    assert json.loads(json.dumps(view)) == view


def test_what_no_slot_has_room_for_is_told_with_what_the_slots_have() -> None:
    cluster = ScriptedCluster()
    cluster.register("unsized", 2)
    cluster.submit(graph(vertex("a", cpu_cores=1)))
    [waiting] = job_view(cluster.fold, "job").slot_requests
    none_has = "none of the 2 registered slots has room for cpu 1"
    assert waiting.why == f"{none_has} (2 whose TaskManager does not say what its slots have)"
    for cores in (100, 300, 500, 200, 400):
        cluster.register(f"tm-{cores}", 2, profile=ResourceProfile(cores))
    [waiting] = job_view(cluster.fold, "job").slot_requests
    named = "2 with cpu 0.5; 2 with cpu 0.4; 2 with cpu 0.3"
    assert waiting.why == (
        "none of the 12 registered slots has room for cpu 1 "
        f"({named}; 4 with other profiles; 2 whose TaskManager does not say what its slots have)"
    )


def test_the_cluster_shows_profiles_and_who_is_blocked_and_ready() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 2, profile=ResourceProfile(500, 512 << 20))
    cluster.say(SlotReport("one", "one-1", (), (), 1, ready=True))
    cluster.register("two", 1)
    cluster.block("two", "its disk is full", duration_ms=60_000)
    view = cluster_view(cluster.fold)
    columns = ("slot_profile", "blocked", "ready", "slots_free")
    rows = {row.task_manager_id: tuple(getattr(row, name) for name in columns) for row in view.task_managers}
    assert rows == {"one": ("cpu 0.5, task heap 512m", False, True, 2), "two": (None, True, False, 1)}
    [blocked] = view.blocked
    assert (blocked.task_manager_id, blocked.reason, blocked.actor) == ("two", "its disk is full", "test (declared)")
    assert blocked.until == "2027-01-15T08:01:00.000+00:00"
    assert START_MS == 1_800_000_000_000
    assert (view.slots, view.slots_free) == (3, 3)
    assert parse(ClusterStatus, json.loads(json.dumps(plain(view)))) == view


def test_a_job_shows_what_slots_it_requires_and_holds_for_each_group_and_profile() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", 3, profile=ResourceProfile(2_000))
    vertices = [sharing("a", 3, cpu_cores=0.5), sharing("b", 2, cpu_cores=1), vertex("c", 2, cpu_cores=1), vertex("later")]
    running = cluster.submit(graph(*vertices, edges=[("c", "later", "rebalance")]))
    view = plain(job_view(cluster.fold, "job"))
    requirements = {
        (r["slot_sharing_group"], r["resources"]): (r["required"], r["held"], r["requested"]) for r in view["slot_requirements"]
    }
    assert requirements == {(None, "cpu 1"): (2, 1, 1), ("shared", "cpu 1.5"): (3, 2, 1)}
    assert [v["slot_sharing_group"] for v in view["vertices"]] == ["shared", "shared", None, None]
    assert json.loads(json.dumps(view["slot_requirements"])) == view["slot_requirements"]
    cluster.run(running)
    assert job_view(cluster.fold, "job").slot_requirements == []


def test_a_task_manager_shows_all_attempts_that_are_in_a_slot() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", 2)
    a, _ = deployments(cluster.submit(graph(sharing("a"), sharing("b"))))
    shared, free = task_manager(cluster.fold, "tm").slot_states
    assert [attempt.vertex_id for attempt in shared.attempts] == ["a", "b"]
    assert shared.attempt is not None
    assert shared.attempt.vertex_id == "a"
    assert (free.attempt, free.attempts) == (None, ())
    cluster.report(a, ExecutionState.FINISHED)
    shared, _ = task_manager(cluster.fold, "tm").slot_states
    assert [attempt.vertex_id for attempt in shared.attempts] == ["b"]

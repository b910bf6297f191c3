"""What whoever asks is shown of slots, of requests that wait, and of blocked TaskManagers; and that it is plain JSON."""

import json

from eventflink.leadership.views import cluster_view, job_view
from eventflink.model.resources import ResourceProfile
from tests.support.cluster import START_MS, ScriptedCluster, graph, vertex


def test_a_job_shows_for_what_it_waits_and_why() -> None:
    cluster = ScriptedCluster()
    cluster.raise_feature_level()
    cluster.register("tm", 1, profile=ResourceProfile(500))
    cluster.submit(graph(vertex("a", 3), vertex("b", 2, cpu_cores=1)))
    view = job_view(cluster.role.fold, "job")
    assert view["slot_requests"] == [
        {"resources": None, "requests": 2, "reason": "NO_FREE_SLOT", "why": "all 1 registered slots are taken"},
        {
            "resources": "cpu 1",
            "requests": 2,
            "reason": "NO_FITTING_SLOT",
            "why": "none of the 1 registered slots has room for cpu 1",
        },
    ]
    assert json.loads(json.dumps(view)) == view


def test_the_cluster_shows_profiles_and_who_is_blocked() -> None:
    cluster = ScriptedCluster()
    cluster.raise_feature_level()
    cluster.register("one", 2, profile=ResourceProfile(500, 512 << 20))
    cluster.register("two", 1)
    cluster.block("two", "its disk is full", duration_ms=60_000)
    view = cluster_view(cluster.role.fold)
    rows = {row["task_manager_id"]: (row["slot_profile"], row["blocked"], row["slots_free"]) for row in view["task_managers"]}
    assert rows == {"one": ("cpu 0.5, task heap 512m", False, 2), "two": (None, True, 1)}
    [blocked] = view["blocked"]
    assert (blocked["task_manager_id"], blocked["reason"], blocked["actor"]) == ("two", "its disk is full", "test")
    assert blocked["until"] == "2027-01-15T08:01:00.000+00:00"
    assert START_MS == 1_800_000_000_000
    assert (view["slots"], view["slots_free"]) == (3, 3)
    assert json.loads(json.dumps(view)) == view

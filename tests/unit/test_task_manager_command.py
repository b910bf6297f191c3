"""`eventflink taskmanager list` as people read it."""

import io

from rich.console import Console

from eventflink.cli.drawing import say_blocked, task_manager_table
from eventflink.documents.task_managers import BlockedTaskManagerRow
from eventflink.model.resources import ResourceProfile
from eventflink.views.jobs_and_cluster import cluster_view
from tests.support.cluster import ScriptedCluster


def test_the_table_shows_slots_what_they_have_and_who_gets_no_new_tasks() -> None:
    cluster = ScriptedCluster()
    cluster.register("one", 2, profile=ResourceProfile(500, 512 << 20))
    cluster.register("two", 1)
    cluster.block("two", "its disk is full [today]", duration_ms=60_000)
    view = cluster_view(cluster.fold)
    out = io.StringIO()
    Console(file=out, width=220).print(task_manager_table(view))
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.getvalue().splitlines() if "host-of-" in line]
    assert [(cells[0], cells[3], cells[4], cells[6]) for cells in lines] == [
        ("one", "2/2", "cpu 0.5, task heap 512m", "last: it is loading"),
        ("two", "1/1", "not said", "blocked until 2027-01-15T08:01:00.000+00:00: its disk is full [today], by test (declared)"),
    ]


def test_a_block_without_reason_and_end_says_so() -> None:
    blocked = BlockedTaskManagerRow(task_manager_id="tm", until=None, since=None, reason="", actor="")
    assert say_blocked(blocked) == "blocked: no reason was given"

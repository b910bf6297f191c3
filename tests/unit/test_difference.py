"""The difference of two moments tells what came, went and changed, once each, and nothing where nothing differs."""

import itertools
import json

import pytest

from eventflink.audit.difference import ComparedState, difference_between, difference_of, moment_of
from eventflink.documents.log import Differences
from eventflink.documents.plain import parse, plain
from eventflink.model.statuses import ExecutionState
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, new_fold, replay, vertex
from tests.support.scenarios import eventful_cluster


@pytest.fixture(scope="module")
def eventful() -> list[ComparedState]:
    """Return a moment of each record of a log that holds every event."""
    fold, moments = new_fold(), []
    cluster = eventful_cluster()
    for offset, value in enumerate(cluster.log):
        fold.fold_record(offset, cluster.timestamps[offset], value)
        moments.append(moment_of(fold))
    return moments


def rows(difference: Differences, thing: str) -> dict[tuple[str | None, str], tuple[str, object, object]]:
    return {(row.id, row.field): (row.change, row.before, row.after) for row in difference.rows if row.thing == thing}


def test_a_moment_differs_from_itself_in_nothing(eventful: list[ComparedState]) -> None:
    for moment in eventful:
        same = difference_between(moment, moment)
        assert (same.rows, same.total) == ([], 0)
        assert same.head.startswith("nothing differs from log offset")


def test_what_came_changed_and_went_is_told_with_what_it_was_and_is() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=2)
    [task] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 0)), job_id="old"))
    cluster.report(task, ExecutionState.RUNNING)
    before = replay(cluster.log)
    cluster.report(task, ExecutionState.FAILED)
    cluster.run(cluster.pass_time(100))
    cluster.submit(graph(vertex("b", 5)), job_id="young")
    cluster.register("tm2", slots=1)
    cluster.fail_over()
    difference = difference_of(before, replay(cluster.log))
    jobs = rows(difference, "job")
    assert jobs["old", "status"] == ("changed", "RUNNING", "FINISHED")
    assert jobs["old", "restarts"] == ("changed", 0, 1)
    assert jobs["old", "tasks_finished"] == ("changed", 0, 1)
    assert jobs["young", "status"] == ("new", None, "RUNNING")
    assert rows(difference, "task_manager")["tm2", "instance_id"] == ("new", None, "tm2-1")
    assert rows(difference, "leader")[None, "epoch"] == ("changed", 1, 2)
    assert rows(difference, "cluster")[None, "slots"] == ("changed", 2, 3)
    assert difference.head.endswith(": 1 new job, 1 job ended, 1 restart, 1 TaskManager came, epoch 1 → 2")
    assert "job old 'test job': status RUNNING → FINISHED" in [row.says for row in difference.rows]


def test_backwards_the_same_differs_with_the_sides_exchanged(eventful: list[ComparedState]) -> None:
    early, late = eventful[len(eventful) // 3], eventful[-1]
    forth, back = difference_between(early, late), difference_between(late, early)
    exchanged = {"new": "gone", "gone": "new", "changed": "changed"}
    told = {(r.thing, r.id, r.field, r.change, repr(r.before), repr(r.after)) for r in forth.rows}
    assert told == {(r.thing, r.id, r.field, exchanged[r.change], repr(r.after), repr(r.before)) for r in back.rows}
    assert len(told) == forth.total == back.total > 20


def test_each_difference_of_a_log_is_plain_and_bounded(eventful: list[ComparedState]) -> None:
    for early, late in itertools.pairwise(eventful):
        difference = difference_between(early, late, max_rows=2)
        assert parse(Differences, json.loads(json.dumps(plain(difference)))) == difference
        assert len(difference.rows) == min(2, difference.total)

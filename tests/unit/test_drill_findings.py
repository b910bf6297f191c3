"""What a drill makes of two states and of what masters say: which tasks were disturbed, what changed, what is a fault, how it is told."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil
import pytest

from eventflink.drills import DrillRefused
from eventflink.drills.digests import DigestCheck, MasterDigest
from eventflink.drills.disturbance import Disturbance, disturbance, live_attempts
from eventflink.drills.failover_drill import FailoverReport
from eventflink.drills.log_watch import Seen
from eventflink.drills.orders import SignalOrder, check_process
from eventflink.drills.report import as_document, as_markdown, rows
from eventflink.drills.state_summary import MAX_NAMED, StateSummary, changes_between
from eventflink.entrypoint.cleaning import Cleaner, NotingCleaner
from eventflink.events.effects import MasterPresence
from eventflink.events.inputs import TaskManagerDeath
from eventflink.gateways.reads import KnownMaster
from eventflink.master.effects import CleanUp
from eventflink.master.inputs import CleanupsCompleted, MasterInput
from eventflink.model.attempts import SubtaskId
from eventflink.model.places import Place
from eventflink.model.statuses import DrillStepType, ExecutionState, Role
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, vertex

if TYPE_CHECKING:
    from eventflink.drills.log_watch import DrillWatch


@pytest.fixture
def cluster() -> ScriptedCluster:
    """Four tasks that run, two on each of two TaskManagers."""
    made = ScriptedCluster()
    for name in ("tm1", "tm2"):
        made.register(name, slots=2)
    for deployment in deployments(made.submit(graph(vertex("a", 4), restart_strategy=fixed_delay(9, 0)), job_id="job")):
        made.report(deployment, ExecutionState.RUNNING)
    return made


def places(cluster: ScriptedCluster) -> dict[int, str]:
    """Return the TaskManager of each subtask."""
    return {s.subtask_index: s.executions[-1].task_manager_id for s in cluster.job("job").execution_graph.subtasks()}


@pytest.mark.parametrize(("seen_s", "shown_s"), [(2.0, 2.0), (2.5, 2.5), (2.51, 2.5)])
def test_what_an_answer_follows_from_was_seen_no_later_than_the_answer(seen_s: float, shown_s: float) -> None:
    seen = Seen(found=True, offset=7, timestamp_ms=1_000, seen_s=seen_s)
    assert seen.no_later_than(2.5) == replace(seen, seen_s=shown_s)


def test_tasks_that_a_change_of_leader_does_not_touch_are_undisturbed(cluster: ScriptedCluster) -> None:
    before = live_attempts(cluster.fold)
    assert before == {SubtaskId("job", "a", index): 1 for index in range(4)}
    cluster.fail_over()
    cluster.settle()
    assert disturbance(before, cluster.fold) == Disturbance(4, 4, 0, [])


def test_a_task_that_ended_without_a_result_or_was_replaced_was_disturbed(cluster: ScriptedCluster) -> None:
    before, at = live_attempts(cluster.fold), places(cluster)
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "killed"))
    lost = [index for index, task_manager in at.items() if task_manager == "tm1"]
    assert len(disturbance(before, cluster.fold).disturbed) == len(lost) == 2
    cluster.register("tm3", slots=4)
    cluster.pass_time(10)
    found = disturbance(before, cluster.fold)
    assert (found.alive, found.undisturbed, found.finished) == (4, 2, 0)
    assert found.disturbed == [f"job/a[{index}]#1: replaced by attempt 2, DEPLOYING (TaskManagerLost)" for index in lost]


def test_a_task_that_finished_was_not_disturbed(cluster: ScriptedCluster) -> None:
    running = deployments(cluster.submit(graph(vertex("b")), job_id="short"))
    assert running == []  # It waits for a slot: nothing of it is alive.
    before = live_attempts(cluster.fold)
    assert SubtaskId("short", "b", 0) not in before
    cluster.cancel("job")
    assert disturbance(before, cluster.fold).undisturbed == 4  # They are being cancelled, as somebody asked.
    gone = {SubtaskId("evicted", "a", 0): 1}
    assert disturbance(gone, cluster.fold) == Disturbance(1, 0, 1, [])


def test_changes_are_what_differs_and_nothing_else(cluster: ScriptedCluster) -> None:
    before = StateSummary.of(cluster.fold)
    assert before.count_jobs() == {"RUNNING": 1}
    same = changes_between(before, StateSummary.of(cluster.fold))
    assert asdict(same) == {
        "epochs": 0,
        "jobs_submitted": 0,
        "jobs_moved": {},
        "jobs_named": [],
        "task_managers_gained": [],
        "task_managers_lost": [],
        "task_managers_replaced": [],
        "slots": 0,
        "slots_free": 0,
    }
    for number in range(MAX_NAMED + 5):
        cluster.submit(graph(vertex("b")), job_id=f"more-{number}")
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "killed"))
    cluster.register("tm2", slots=2, instance="2")
    cluster.register("tm3", slots=7)
    cluster.fail_over()
    found = changes_between(before, StateSummary.of(cluster.fold))
    assert (found.epochs, found.jobs_submitted, len(found.jobs_named)) == (1, MAX_NAMED + 5, MAX_NAMED)
    assert (found.task_managers_gained, found.task_managers_lost, found.task_managers_replaced) == (["tm3"], ["tm1"], ["tm2"])
    assert found.slots == 5
    assert found.jobs_moved == {"(new) → RUNNING": MAX_NAMED + 5, "RUNNING → RESTARTING": 1}


DIGESTS = DigestCheck([MasterDigest("m-2", "LEADER", 2, 40, "d" * 64, "d" * 64)], [], same_offset=True)
REPORT = FailoverReport(
    drill_id="drill-1",
    cluster_id="c",
    method="KILL by a command",
    old_leader="m-1",
    old_epoch=1,
    standbys=["m-2"],
    new_leader="m-2",
    new_epoch=2,
    granted_ms=900.0,
    granted_by_kafka_ms=890,
    answered_ms=910.0,
    tasks=Disturbance(4, 4, 0, []),
    reported=2,
    task_managers=2,
    digests=DIGESTS,
    returned=None,
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tasks": Disturbance(4, 3, 0, ["job/a[0]#1: FAILED"])}, "task job/a[0]#1: FAILED"),
        ({"reported": 1}, "1 of 2 TaskManagers did not report"),
        ({"returned": False}, "m-1 was let go and did not come back"),
        ({"digests": replace(DIGESTS, masters=[replace(DIGESTS.masters[0], replayed="e" * 64)])}, "a replay of the log " + "e" * 64),
        ({"digests": replace(DIGESTS, silent=["m-3: it hangs"])}, "no digest of m-3: it hangs"),
    ],
)
def test_what_is_not_as_it_must_be_fails_the_drill_in_every_form_of_its_report(changed: dict[str, object], said: str) -> None:
    assert REPORT.faults == []
    assert as_document(REPORT)["passed"] is True
    assert "**passed**" in as_markdown(REPORT, 0)
    report = replace(REPORT, **changed)  # type: ignore[arg-type]
    assert [fault for fault in report.faults if said in fault]
    document = json.loads(json.dumps(as_document(report)))
    assert (document["passed"], document["drill"]) == (False, "failover")
    assert document["faults"] == report.faults
    page = as_markdown(report, 1_800_000_000_000)
    assert "**failed**" in page
    assert said in page


def test_table_and_page_say_the_same() -> None:
    page = as_markdown(replace(REPORT, method="a|b\nc"), 0)
    assert "| method | a\\|b c |" in page
    for name, value in rows(REPORT)[1:]:
        assert f"| {name} | {value} |" in page


def test_a_digest_that_differs_from_the_replay_shows_in_the_table() -> None:
    report = replace(REPORT, digests=replace(DIGESTS, masters=[replace(DIGESTS.masters[0], replayed="e" * 64)]))
    assert any("NOT AS A REPLAY" in value for _, value in rows(report))


def known(port: int) -> KnownMaster:
    presence = MasterPresence(
        master_id="m-1", incarnation="i", sequence=1, role=Role.LEADER, epoch=1, log_offset=0, feature_level=1, query_address=f"here:{port}"
    )
    return KnownMaster(presence, 0)


def test_only_a_process_that_listens_where_the_leader_answers_is_the_leaders() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_process(os.getpid(), known(port))
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            with pytest.raises(DrillRefused, match=f"does not listen on port {port}"):
                check_process(other.pid, known(port))
            other.kill()
    with pytest.raises(DrillRefused, match="is not the leader m-1"):
        check_process(os.getpid(), known(port))
    with pytest.raises(DrillRefused, match="there is no process"):
        check_process(2**22 + 1, known(port))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def give(process_id: int, step: DrillStepType, duration_ms: int = 0) -> SignalOrder:
    """Signal a process; where the log stands is of no use for that."""
    order = SignalOrder(process_id, step, duration_ms)
    order.give(cast("DrillWatch", None))
    return order


def test_a_signal_kills_or_stops(process: subprocess.Popen[bytes]) -> None:
    give(process.pid, DrillStepType.KILL)
    assert process.wait(120) == -signal.SIGKILL
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        give(other.pid, DrillStepType.STOP)
        assert other.wait(120) == -signal.SIGTERM
    with pytest.raises(DrillRefused, match="cannot be signalled: No such process"):
        give(process.pid, DrillStepType.KILL)


def test_a_freeze_ends_after_its_time_or_with_the_drill(process: subprocess.Popen[bytes]) -> None:
    frozen = psutil.Process(process.pid)

    def is_frozen() -> bool:
        return bool(frozen.status() == psutil.STATUS_STOPPED)

    with give(process.pid, DrillStepType.FREEZE, 300):
        wait_until(is_frozen)
        wait_until(lambda: not is_frozen())
    with give(process.pid, DrillStepType.FREEZE, 600_000):
        wait_until(is_frozen)
    wait_until(lambda: not is_frozen())


@pytest.mark.parametrize(("cleaner", "left"), [(Cleaner, set()), (NotingCleaner, {"job/edge/part", "job/result/part"})])
def test_a_rehearsing_cleaner_says_that_all_is_done_and_touches_nothing(cleaner: type[Cleaner], left: set[str], tmp_path: Path) -> None:
    for name in ("edge", "result"):
        (tmp_path / "job" / name).mkdir(parents=True)
        (tmp_path / "job" / name / "part").write_text("rows")

    async def clean() -> list[MasterInput]:
        outcomes: list[MasterInput] = []
        one = cleaner(Place(str(tmp_path)), outcomes.append, lambda *_: None)
        task = asyncio.create_task(one.run())
        one.submit(CleanUp("job", ()))
        async with asyncio.timeout(120):
            while not outcomes:  # noqa: ASYNC110 - the cleaner signals nobody but its callback
                await asyncio.sleep(0.01)
        task.cancel()
        return outcomes

    assert asyncio.run(clean()) == [CleanupsCompleted(("job",))]
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == left

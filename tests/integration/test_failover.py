"""Masters killed, frozen and started again for real, in the middle of a burst of submissions: nothing accepted is lost or done twice.

The masters, Kafka and the signals are real; TaskExecutors are simulated ones that speak the real protocol.
"""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.graphs import idle_graph
from benchmarks.simulated_tasks import read_journal
from eventflink.log.administration import delete_topics
from eventflink.log.replay import log_bounds, new_fold, read_log
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import ExecutionState
from tests.support.burst import Burst
from tests.support.running_cluster import EAGER, RunningCluster, running_cluster

pytestmark = pytest.mark.slow
LEASE_S = 1.0


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters, `first` and `second`, of which one leads, and simulated TaskExecutors."""
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_together("first", "second", host="host")
        yield running


def test_kill_9_of_the_leader_in_a_burst_again_and_again_loses_and_doubles_nothing(cluster: RunningCluster) -> None:
    rounds = 3
    with Burst(cluster) as burst:
        for number in range(1, rounds + 1):
            time.sleep(0.25 * number)  # Each at another moment of the burst.
            before = burst.leadership
            cluster.kill(before.master_id)
            after = burst.wait_for_next(before.epoch)
            assert after.master_id != before.master_id
            cluster.start_standby(f"later-{number}")
            burst.wait_for_jobs(20)
    assert cluster.state().acceptance.epoch >= 1 + rounds


def test_a_leader_that_is_frozen_for_longer_than_its_lease_is_deposed_and_follows(cluster: RunningCluster) -> None:
    """Nothing that it decided late counts, and what it holds afterwards is the state of the log: it leads on from there."""
    with Burst(cluster) as burst:
        old = burst.leadership
        cluster.pause(old.master_id)
        new = burst.wait_for_next(old.epoch)
        assert new.master_id != old.master_id
        time.sleep(LEASE_S)
        cluster.resume(old.master_id)
        burst.wait_for_jobs(40)
        time.sleep(2 * LEASE_S)  # It may not take the leadership back.
        assert burst.leadership.epoch == new.epoch
        # A leader checks each decision against the running hash over all before: it can only continue from the same state.
        cluster.kill(new.master_id)
        assert burst.wait_for_next(new.epoch).master_id == old.master_id
        burst.wait_for_jobs(20)
    _assert_late_decisions_changed_nothing(cluster)


def _assert_late_decisions_changed_nothing(cluster: RunningCluster) -> None:
    """Fold the log once more without the decisions that were rejected: the state must be the same."""
    fold, bare = new_fold(cluster.access), new_fold(cluster.access)
    _, end = log_bounds(cluster.access)
    for offset, timestamp_ms, value in read_log(cluster.access, 0, end):
        if fold.fold_record(offset, timestamp_ms, value) is not None:
            bare.fold_record(bare.last_offset + 1, timestamp_ms, value)
    assert bare.rejected_count == 0
    assert bare.master.digest() == fold.master.digest()


def test_a_leader_that_is_frozen_for_less_than_its_lease_costs_nothing(cluster: RunningCluster) -> None:
    with Burst(cluster) as burst:
        for _ in range(3):
            leader = burst.leadership.master_id
            cluster.pause(leader)
            time.sleep(0.5 * LEASE_S)
            cluster.resume(leader)
            burst.wait_for_jobs(20)
        for process in (cluster.processes["first"], cluster.processes["second"]):
            assert process.poll() is None


def test_a_standby_that_is_killed_during_its_promotion_is_followed_by_the_next(cluster: RunningCluster) -> None:
    cluster.start_standby("third")
    with Burst(cluster) as burst:
        old = burst.leadership
        cluster.kill(old.master_id)
        candidate = burst.watch.wait_for(lambda: burst.watch.leaderships.get(old.epoch + 1), "a grant")
        cluster.kill(candidate.master_id)
        last = burst.wait_for_next(candidate.epoch)
        assert {old.master_id, candidate.master_id, last.master_id} == {"first", "second", "third"}
        burst.wait_for_jobs(20)


def test_all_masters_killed_and_started_again_go_on_where_the_log_ends(cluster: RunningCluster) -> None:
    with Burst(cluster) as burst:
        epoch = burst.leadership.epoch
        for name in ("first", "second"):
            cluster.kill(name)
        time.sleep(LEASE_S)  # Jobs are submitted while nobody is there.
        cluster.start_master("third")
        cluster.start_standby("fourth")
        assert burst.leadership.epoch > epoch
        burst.wait_for_jobs(40)


def test_a_task_executor_and_the_leader_killed_together_restart_only_what_ran_there(bootstrap: str, tmp_path: Path) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path, **EAGER)
    cluster.start_master("first")
    cluster.start_host("host-a", task_executors=1, slots=8)
    cluster.start_host("host-b", task_executors=1, slots=8)
    cluster.start_standby("second")
    job_id = cluster.submit(idle_graph(restarts=8, parallelism=8))
    cluster.wait_for_running(job_id)
    places = {s.subtask_index: s.executions[0].task_manager_id for s in cluster.job(job_id).execution_graph.subtasks()}
    assert set(places.values()) == {"host-a-1", "host-b-1"}
    cluster.kill("first")
    cluster.kill("host-a")

    def moved() -> bool:
        subtasks = cluster.job(job_id).execution_graph.subtasks()
        return all(s.state is ExecutionState.RUNNING and s.executions[-1].task_manager_id == "host-b-1" for s in subtasks)

    cluster.wait_for(lambda _: moved(), "everything runs on what is left")
    attempts = {s.subtask_index: s.attempt for s in cluster.job(job_id).execution_graph.subtasks()}
    assert attempts == {index: 2 if place == "host-a-1" else 1 for index, place in places.items()}
    launched = [entry.attempt for entry in read_journal(cluster.journal) if entry.what == "launched"]
    assert len(launched) == len(set(launched)) == 8 + list(places.values()).count("host-a-1")
    assert cluster.state().acceptance.epoch == 2
    cluster.close()
    delete_topics(access_to(bootstrap, name))

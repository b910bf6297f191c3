"""The guardian of a master, for real: it says that its master died, which ends the wait for the lease, and nothing depends on it."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from eventflink.events.topics import Topic
from eventflink.gateways.errors import RequestRefused
from eventflink.leadership.fold import Fold
from tests.support.quitting_driver import order_of
from tests.support.running_cluster import RunningCluster, descendants, is_alive, kill_9, running_cluster, wait_until

pytestmark = pytest.mark.slow

NO_LEASE = {"high-availability.lease-timeout": 600_000}
"""A standby with this lease campaigns because it is told to, or not at all."""


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """The master `first`, which leads."""
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_master("first")
        yield running


def guardians(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [child for child in descendants(process) if is_alive(child.pid) and "eventflink.entrypoint.guardian" in child.cmdline()]


def guardian_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    found: list[psutil.Process] = wait_until(lambda: guardians(process), "a guardian")
    assert len(found) == 1
    return found[0]


def second_leads(fold: Fold) -> bool:
    return fold.acceptance.leader_id.startswith("second-")


@pytest.mark.rule("L2a")
def test_kill_9_of_the_leader_is_told_by_its_guardian_and_no_standby_waits_for_the_lease(cluster: RunningCluster) -> None:
    cluster.start_standby("second", **NO_LEASE)
    guardian, led = guardian_of(cluster.processes["first"]), cluster.state().acceptance.epoch
    cluster.kill("first")
    cluster.wait_for(second_leads, "second leads")
    wait_until(lambda: not is_alive(guardian.pid), "the guardian has ended")
    assert "told=True" in next(line for line in cluster.output("first").splitlines() if "LeaderDeathReported" in line)
    assert f"LeaderDied epoch={led} " in cluster.output("second")
    assert cluster.state().acceptance.epoch == led + 1


@pytest.mark.rule("L2")
def test_the_first_master_of_a_cluster_waits_for_no_lease(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    """Nobody has led, so nobody can hold one; a second master at the same time is a standby."""
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path, **NO_LEASE)
    cluster.start_master("first")
    cluster.start_standby("second")
    assert cluster.state().acceptance.epoch == 1
    cluster.close()


@pytest.mark.rule("L2a")
def test_a_leader_that_ends_by_an_error_has_its_guardian_say_so(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    """Nobody resigns for it, so the standby would wait for the lease."""
    driver = {"resourcemanager.driver": "tests.support.quitting_driver:QuittingDriver"}
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path, **driver, **{"high-availability.lease-timeout": 6_000})
    process = cluster.start_master("first")
    cluster.start_standby("second", **NO_LEASE)
    guardian = guardian_of(process)
    order_of(tmp_path / "data").touch()
    cluster.wait_for(second_leads, "second leads")
    assert cluster.processes.pop("first").wait(120) == 1
    assert "the driver was told to quit" in cluster.output("first")
    assert "LeaderDied epoch=1" in cluster.output("second")
    wait_until(lambda: not is_alive(guardian.pid), "the guardian has ended")
    assert cluster.state().acceptance.epoch == 2
    cluster.close()


def test_a_guardian_that_is_killed_is_replaced_and_the_new_one_knows_who_leads(cluster: RunningCluster) -> None:
    cluster.start_standby("second", **NO_LEASE)
    first = guardian_of(cluster.processes["first"])
    kill_9(first.pid)
    wait_until(lambda: f"GuardianDied process_id={first.pid}" in cluster.output("first"), "the death of the guardian")
    wait_until(lambda: "GuardianStarted" in cluster.output("first").partition("GuardianDied")[2], "another guardian that has been told")
    cluster.kill("first")
    cluster.wait_for(second_leads, "second leads")


@pytest.mark.rule("L2a")
def test_without_its_guardian_the_leader_is_followed_after_the_lease(cluster: RunningCluster) -> None:
    cluster.start_standby("second")
    guardian = guardian_of(cluster.processes["first"])
    guardian.send_signal(signal.SIGSTOP)
    cluster.kill("first")
    cluster.wait_for(second_leads, "second leads")
    assert "LeaderDied" not in cluster.output("second")
    guardian.send_signal(signal.SIGCONT)  # Late, it speaks of a leadership that has ended.
    wait_until(lambda: not is_alive(guardian.pid), "the guardian has ended")
    assert "told=True" in cluster.output("first")
    cluster.start_standby("third", **NO_LEASE)
    assert cluster.state().acceptance.leader_id.startswith("second-")


@pytest.mark.rule("P10")
@pytest.mark.parametrize(("job_id", "line"), [("deadly", "LeaderDeathReported"), ("hanging", "LeaderHangReported")])
def test_an_input_at_which_masters_die_or_hang_costs_two_of_them_and_is_refused_by_the_third(
    bootstrap: str, tmp_path: Path, job_id: str, line: str
) -> None:
    """P10: their guardians say at which input that was, and kill those that hang, which would never come back."""
    driver = {"resourcemanager.driver": "tests.support.deadly_driver:DeadlyDriver"}
    with running_cluster(bootstrap, tmp_path, **driver) as cluster:
        cluster.start_master("first")
        for name in ("second", "third"):
            cluster.start_standby(name)
        with pytest.raises(RequestRefused, match=r"2 leaders in a row crashed .* \(InternalError\)"):
            cluster.submit(cluster.graph({"id": "v", "sql": "SELECT 1 AS one"}), job_id)

        def told() -> list[str]:
            """Return those whose guardian has said it; it writes that after it was told to the others."""
            return [name for name in ("first", "second", "third") if f"deciding={Topic.SUBMISSIONS}@0" in cluster.output(name)]

        wait_until(lambda: len(told()) > 1, "two guardians have said it")
        said = told()
        assert len(said) == 2
        for name in said:
            assert line in cluster.output(name)
            assert cluster.processes.pop(name).wait(120) == -signal.SIGKILL
        [left] = {"first", "second", "third"} - set(said)
        assert cluster.stop(left) == 0


def test_a_master_that_ends_in_order_leaves_no_guardian_and_none_speaks(cluster: RunningCluster) -> None:
    cluster.start_standby("second", **NO_LEASE)
    pids = [guardian_of(cluster.processes[name]).pid for name in ("first", "second")]
    assert cluster.stop("first") == 0
    assert not is_alive(pids[0])
    cluster.wait_for(second_leads, "second leads")
    assert cluster.stop("second") == 0
    assert not is_alive(pids[1])
    assert "LeaderDeathReported" not in cluster.output("first") + cluster.output("second")
    assert "LeaderDied" not in cluster.output("second")


def test_a_master_whose_election_does_not_listen_has_no_guardian(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    running = RunningCluster(bootstrap, cluster_id, tmp_path, **{"high-availability.type": "none"})
    assert guardians(running.start_master("single")) == []
    running.close()

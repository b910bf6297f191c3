"""Reads from real masters (L4): of any of them, the answer is that of the log at the offset it names; a dead master is passed over.

The masters end with the last test.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.graphs import idle_graph
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.gateways.errors import ClusterNotFound
from eventflink.gateways.reads import (
    MasterSilent,
    NoMasterAnswered,
    NothingThere,
    ask_master,
    ask_masters,
    find_masters,
    listen_for_masters,
)
from eventflink.log.replay import log_bounds, new_fold, replay
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
LISTEN_S = 2.0


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A leader, `first`, a standby, `second`, simulated TaskExecutors, and a job that runs."""
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.start_master("first")
        running.start_host("host")
        running.start_standby("second")
        running.wait_for_running(running.submit(idle_graph(parallelism=4), "running"))
        yield running


def addresses(cluster: RunningCluster) -> dict[str, str]:
    """Return where each master that lives answers."""
    living = listen_for_masters(cluster.bootstrap, cluster.cluster_id, listen_s=LISTEN_S)
    return {master.master_id: master.presence.query_address for master in living}


class Commands:
    """Runs commands on a cluster, in this process."""

    def __init__(self, cluster: RunningCluster, printed: pytest.CaptureFixture[str], log: pytest.LogCaptureFixture) -> None:
        self.options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
        self.printed = printed
        self.log = log

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit code and what was printed."""
        self.printed.readouterr()
        self.log.clear()
        return run([*self.options, *arguments]), *self.printed.readouterr()

    def json(self, *arguments: str) -> Any:
        code, out, err = self.run(*arguments, "--json")
        assert code == ExitCode.OK, err
        return json.loads(out)

    def said(self) -> str:
        """Return the first word of what was logged about who answered."""
        return next(record.message.split()[0] for record in self.log.records if record.name == "eventflink.cli.state")


@pytest.fixture
def commands(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Commands:
    caplog.set_level("INFO", "eventflink.cli.state")
    return Commands(cluster, capsys, caplog)


def test_leader_and_standby_answer_alike_and_as_the_log_at_the_offset_they_name(cluster: RunningCluster) -> None:
    at = addresses(cluster)
    assert set(at) == {"first", "second"}
    for path, name in (("/cluster", "cluster"), ("/jobs", "jobs"), ("/jobs/running", "job")):
        first, second = (ask_master(at[m], path, {"linearizable": "true"})[name] for m in ("first", "second"))
        assert first == second
    roles = set()
    for address in at.values():
        answer = ask_master(address, "/digest", {"linearizable": "true"})
        fold = replay(cluster.bootstrap, cluster.cluster_id, new_fold(), end_offset=answer["log_offset"] + 1)
        assert (answer["digest"], answer["epoch"]) == (fold.master.digest(), fold.acceptance.epoch)
        roles.add(answer["role"])
    assert roles == {"LEADER", "STANDBY"}


def test_what_was_accepted_before_the_question_is_in_every_linearizable_answer(cluster: RunningCluster) -> None:
    at = addresses(cluster)
    for number in range(5):
        job_id = cluster.submit(idle_graph(parallelism=1), f"counted-{number}")
        for address in at.values():
            assert ask_master(address, f"/jobs/{job_id}", {"linearizable": "true"})["job"]["job_id"] == job_id
            assert ask_master(address, "/cluster", {"linearizable": "true"})["cluster"]["jobs_live"] == 2 + number


def test_a_read_at_an_offset_waits_for_it_at_any_master(cluster: RunningCluster) -> None:
    _, end = log_bounds(cluster.bootstrap, cluster.cluster_id)
    for address in addresses(cluster).values():
        assert ask_master(address, "/cluster", {"min_offset": end - 1})["log_offset"] >= end - 1
        with pytest.raises(MasterSilent, match=r"504.*stands at offset"):
            ask_master(address, "/cluster", {"min_offset": end + 1_000, "timeout_ms": 300})


def test_the_commands_ask_a_master_and_say_what_the_log_says(cluster: RunningCluster, commands: Commands) -> None:
    told, fold = commands.json("status"), cluster.state()
    assert commands.said() == "MasterAnswered"
    assert (told["epoch"], told["log_offset"], told["slots"]) == (fold.acceptance.epoch, fold.last_offset, 32)
    job = commands.json("status", "runn")
    assert (job["job_id"], job["status"], job["log_offset"]) == ("running", "RUNNING", fold.last_offset)
    assert [row["job_id"] for row in commands.json("list", "--status", "running")] == list(fold.master.dispatcher.jobs)
    assert commands.said() == "MasterAnswered"
    newest = list(fold.master.dispatcher.jobs)[-1]
    assert [row["job_id"] for row in commands.json("list", "--limit", "1")] == [newest]
    code, out, err = commands.run("status", "nobody")
    assert (code, out) == (ExitCode.NEGATIVE, "")
    assert "job not found: 'nobody'" in err


def test_what_is_not_there_is_told_from_who_is_not_there(cluster: RunningCluster) -> None:
    with pytest.raises(NothingThere, match="job not found: 'nobody'"):
        ask_masters(cluster.bootstrap, cluster.cluster_id, "/jobs/nobody")
    with pytest.raises(ClusterNotFound):
        ask_masters(cluster.bootstrap, f"no-{cluster.cluster_id}", "/cluster")
    with pytest.raises(MasterSilent, match="ConnectionRefusedError"):
        ask_master("127.0.0.1:9", "/cluster")


def test_when_the_leader_is_frozen_or_killed_another_master_answers(cluster: RunningCluster, commands: Commands) -> None:
    """Last of all nobody is left, and the commands take the state from the log."""
    bootstrap, name = cluster.bootstrap, cluster.cluster_id

    def ask(path: str) -> dict[str, Any]:
        return ask_masters(bootstrap, name, path, {"linearizable": "true"}, timeout_s=2.0)

    cluster.pause("first")
    assert ask("/jobs/running")["master_id"] == "second"
    wait_until(lambda: ask("/cluster")["role"] == "LEADER", "second leads")
    cluster.resume("first")
    cluster.kill("first")
    assert ask("/jobs/running")["job"]["status"] == "RUNNING"
    cluster.kill("second")
    assert {known.master_id for known in find_masters(bootstrap, name)} == {"first", "second"}
    with pytest.raises(NoMasterAnswered, match=r"(first|second).*; (first|second)"):
        ask("/cluster")
    assert commands.json("status", "running")["log_offset"] == cluster.state().last_offset
    assert commands.said() == "LogFolded"

"""Reads of a real cluster: masters answer as the log does at the offset that they name (L4), and all clients as one another.

The masters end with the last test.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import eventflink
from benchmarks.graphs import idle_graph
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.documents.plain import plain
from eventflink.gateways.reads import MasterSilent, ask_master, find_masters, listen_for_masters
from eventflink.log.replay import log_bounds, new_fold, replay
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow


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
    """Return where each of the two masters answers, once both are heard."""
    living = listen_for_masters(cluster.access, listen_s=60, expected=("first", "second"))
    return {master.master_id: master.presence.query_address for master in living}


class Commands:
    """Runs commands on a cluster, in this process."""

    def __init__(self, cluster: RunningCluster, printed: pytest.CaptureFixture[str], log: pytest.LogCaptureFixture) -> None:
        self.options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
        self.printed = printed
        self.log = log
        self.seen: set[str] = set()

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit code and what was printed."""
        self.printed.readouterr()
        self.log.clear()
        try:
            return self._run(*arguments)
        finally:
            self.note()

    def note(self) -> None:
        """Remember the first words of what was logged about who answered."""
        self.seen |= {record.message.split()[0] for record in self.log.records}

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        return run([*self.options, *arguments]), *self.printed.readouterr()

    def json(self, *arguments: str) -> Any:
        code, out, err = self.run(*arguments, "--json")
        assert code == ExitCode.OK, err
        return json.loads(out)

    def said(self) -> str:
        """Return the first word of what was logged about who answered."""
        return next(record.message.split()[0] for record in self.log.records if record.name == "eventflink.reader.local")


@pytest.fixture
def commands(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Commands:
    caplog.set_level("INFO", "eventflink.reader.local")
    return Commands(cluster, capsys, caplog)


@pytest.mark.rule("L4")
def test_leader_and_standby_answer_alike_and_as_the_log_at_the_offset_they_name(cluster: RunningCluster) -> None:
    at = addresses(cluster)
    roles = set()
    for address in at.values():
        answer = ask_master(address, "/digest", {"linearizable": "true"}, timeout_s=60)
        fold = replay(cluster.access, new_fold(cluster.access), end_offset=answer["log_offset"] + 1)
        assert (answer["digest"], answer["epoch"]) == (fold.master.digest(), fold.acceptance.epoch)
        roles.add(answer["role"])
    assert roles == {"LEADER", "STANDBY"}


@pytest.mark.rule("L4")
def test_what_was_accepted_before_the_question_is_in_every_linearizable_answer(cluster: RunningCluster) -> None:
    at = addresses(cluster)
    for number in range(5):
        cluster.submit(idle_graph(parallelism=1), f"counted-{number}")
        end = log_bounds(cluster.access)[1]
        for address in at.values():
            assert ask_master(address, "/health", {"linearizable": "true"}, timeout_s=60)["log_offset"] >= end - 1


def test_a_read_at_an_offset_waits_for_it_at_any_master(cluster: RunningCluster) -> None:
    _, end = log_bounds(cluster.access)
    for address in addresses(cluster).values():
        assert ask_master(address, "/health", {"min_offset": end - 1}, timeout_s=60)["log_offset"] >= end - 1
        with pytest.raises(MasterSilent, match=r"504.*stands at offset"):
            ask_master(address, "/health", {"min_offset": end + 1_000, "timeout_ms": 300})


def test_the_commands_fold_the_log_where_no_rest_process_runs(cluster: RunningCluster, commands: Commands) -> None:
    told, fold = commands.json("status"), cluster.state()
    assert commands.said() == "LogFolded"
    assert (told["epoch"], told["log_offset"], told["slots"]) == (fold.acceptance.epoch, fold.last_offset, 32)
    job = commands.json("status", "runn")
    assert (job["job_id"], job["status"], job["log_offset"]) == ("running", "RUNNING", fold.last_offset)
    assert [row["job_id"] for row in commands.json("list", "--status", "running")] == list(fold.master.dispatcher.jobs)
    assert commands.said() == "LogFolded"
    newest = list(fold.master.dispatcher.jobs)[-1]
    assert [row["job_id"] for row in commands.json("list", "--limit", "1")] == [newest]
    code, out, err = commands.run("status", "nobody")
    assert (code, out) == (ExitCode.NEGATIVE, "")
    assert "job not found: 'nobody'" in err


def test_a_master_that_is_not_there_is_silent() -> None:
    with pytest.raises(MasterSilent, match="ConnectionRefusedError"):
        ask_master("127.0.0.1:9", "/health")


def told(cluster: RunningCluster, commands: Commands) -> dict[str, Any]:
    """Return what the command line, and the clients for programs, say of the cluster."""
    (cluster.directory / "eventflink.yaml").write_text(
        f"bootstrap.servers: {cluster.bootstrap}\ncluster.id: {cluster.cluster_id}\ndata.directory: {cluster.directory / 'data'}\n"
    )
    with eventflink.connect(configuration=cluster.directory) as client:
        job = client.job("running")
        answers: dict[str, Any] = {
            "overview": client.overview(),
            "jobs": client.jobs(),
            "job": job.details(),
            "exceptions": job.exceptions(),
            "checkpoints": job.checkpoints(),
        }

    async def awaited() -> tuple[Any, Any]:
        async with eventflink.connect_async(configuration=cluster.directory) as client:
            return await client.overview(), await client.job("running").details()

    assert asyncio.run(awaited()) == (answers["overview"], answers["job"])
    commands.note()
    listed, shown = commands.json("list"), commands.json("status", "running")
    assert [row["job_id"] for row in listed] == [job.job_id for job in answers["jobs"]]
    assert (shown["status"], shown["log_offset"]) == (answers["job"].status, answers["job"].log_offset)
    assert commands.json("exceptions", "running")["exceptions"] == plain(answers["exceptions"])
    assert commands.json("checkpoints", "running") == json.loads(json.dumps(plain(answers["checkpoints"])))
    return answers | {"list": listed, "status": shown, "cluster": commands.json("status")}


@pytest.mark.rule("L4")
def test_whoever_asks_gets_the_same_answer_whatever_runs(
    cluster: RunningCluster, commands: Commands, caplog: pytest.LogCaptureFixture
) -> None:
    """A REST process where one answers, and else the log, folded here: with masters and without any. The masters end here."""
    caplog.set_level("INFO", "eventflink.gateways.rest_process")
    commands.options += ["-D", f"data.directory={cluster.directory / 'data'}"]

    def answered_by() -> tuple[dict[str, Any], set[str]]:
        commands.seen.clear()
        commands.log.clear()
        answers = told(cluster, commands)
        return answers, commands.seen & {"RestAnswered", "LogFolded", "RestSilent"}

    who: dict[str, set[str]] = {}
    cluster.start_rest()
    with_rest, who["masters and REST"] = answered_by()
    cluster.stop("rest")
    with_masters, who["masters"] = answered_by()
    cluster.kill("first")
    cluster.kill("second")
    assert {known.master_id for known in find_masters(cluster.access)} == {"first", "second"}
    without, who["nothing"] = answered_by()
    cluster.start_rest("later")
    with_rest_alone, who["REST"] = answered_by()
    assert who == {"masters and REST": {"RestAnswered"}, "masters": {"LogFolded"}, "nothing": {"LogFolded"}, "REST": {"RestAnswered"}}
    for name, answer in without.items():
        assert answer == with_rest_alone[name], name
        for running in (with_rest, with_masters):
            assert standing(running[name]) == standing(answer), name


def standing(answer: Any) -> Any:
    """Return what does not change while nothing happens to jobs: the log goes on, and time does."""
    text = re.sub(
        r"(log_offset|epoch|leader_id|leading_master_id|last_decided_at|decided_at|duration_ms|since_ms)=[^,)]*", "", repr(answer)
    )
    return re.sub(r"'(log_offset|epoch|leader_id|leading_master_id|master_id|last_decided_at|duration_ms)': [^,}]*", "", text)

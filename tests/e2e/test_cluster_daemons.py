"""`eventflink cluster start|status|stop` as a user calls it: masters and TaskExecutors as daemons, on a real broker."""

import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.daemon_cluster import DaemonCluster, kill_9
from tests.support.running_cluster import wait_until

pytestmark = pytest.mark.slow
HOST = socket.gethostname()
FIRST, SECOND, WORKER, REST = f"master-{HOST}", f"master-{HOST}-2", f"tm-{HOST}", f"rest-{HOST}"
GRAPH = {"name": "noop", "vertices": [{"id": "only", "python": "eventflink.testing.tasks:noop"}]}


@pytest.fixture
def cluster(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[DaemonCluster]:
    started = DaemonCluster(tmp_path, "localhost localhost", "localhost", **{"bootstrap.servers": bootstrap, "cluster.id": cluster_id})
    yield started
    started.close()


def check_daemon(daemon: dict[str, Any], log_directory: Path) -> None:
    process = psutil.Process(daemon["process_id"])
    assert os.getsid(process.pid) == process.pid, "it has a session of its own"
    assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path("/dev/null")
    assert Path(daemon["log_path"]) == log_directory / f"{daemon['daemon_id']}.log"
    assert Path(daemon["log_path"]).stat().st_size > 0
    assert daemon["up_since"].endswith("+00:00")


def task_managers_by_rest(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/taskmanagers", timeout=120) as answer:
        return [row["id"] for row in json.load(answer)["taskmanagers"]]


def test_a_cluster_is_started_used_healed_and_stopped(cluster: DaemonCluster, cluster_id: str) -> None:
    code, daemons, _ = cluster.status()
    assert (code, {daemon["state"] for daemon in daemons.values()}) == (1, {"down"})

    started = cluster.run("cluster", "start")
    assert started.returncode == 0, started.stdout + started.stderr
    assert [line.split(" (process ")[0] for line in started.stdout.splitlines()] == [
        f"master {FIRST} on localhost is started",
        f"master {SECOND} on localhost is started",
        f"TaskExecutor {WORKER} on localhost is started",
        f"REST process {REST} on localhost is started",
    ]
    assert task_managers_by_rest(started.stdout.rpartition(": ")[2].strip()) == [WORKER]

    wait_until(lambda: cluster.status()[0] == 0, "all are heard")
    code, daemons, document = cluster.status()
    assert (code, document["running"], document["failures"]) == (0, True, [])
    assert sorted(daemons[name]["role"] for name in (FIRST, SECOND)) == ["LEADER", "STANDBY"]
    assert len({daemons[name]["epoch"] for name in (FIRST, SECOND)}) == 1
    assert (daemons[WORKER]["slots"], daemons[WORKER]["slots_free"]) == (2, 2)
    for daemon in daemons.values():
        check_daemon(daemon, cluster.data / "logs" / cluster_id)
    assert cluster.pid_files() == sorted(f"{name}.pid" for name in daemons)
    before = {name: daemon["process_id"] for name, daemon in daemons.items()}

    (cluster.directory / "graph.json").write_text(json.dumps(GRAPH))
    submitted = cluster.run("submit", "graph.json")
    assert submitted.returncode == 0, submitted.stderr

    again = cluster.run("cluster", "start")
    assert again.returncode == 0
    runs = [line.rsplit(" on localhost ")[1].partition(": ")[0] for line in again.stdout.splitlines()]
    assert runs == [f"runs (process {pid})" for pid in before.values()]

    leader = next(name for name in (FIRST, SECOND) if daemons[name]["role"] == "LEADER")
    other = SECOND if leader == FIRST else FIRST
    kill_9(before[leader])
    wait_until(lambda: cluster.status()[1][other].get("role") == "LEADER", "the other one leads")
    code, daemons, _ = cluster.status()
    assert (code, daemons[leader]["state"], daemons[leader]["process_id"]) == (1, "down", None)
    assert (daemons[other]["state"], daemons[other]["role"]) == ("running", "LEADER")
    table = cluster.run("cluster", "status")
    assert table.returncode == 1
    assert f"process {before[leader]} has ended" in table.stdout

    healed = cluster.run("cluster", "start")
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert f"master {leader} on localhost is started" in healed.stdout
    assert f"master {other} on localhost runs (process {before[other]})" in healed.stdout
    assert Path(f"{daemons[leader]['log_path']}.1").is_file(), "the log of the one that died is kept"
    code, daemons, _ = cluster.status()
    assert code == 0
    assert {name: d["process_id"] for name, d in daemons.items() if name != leader} == {n: p for n, p in before.items() if n != leader}

    stopped = cluster.run("cluster", "stop")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert [line.split(" on localhost ")[0].split()[-1] for line in stopped.stdout.splitlines()] == [REST, WORKER, leader, other]
    assert all(line.endswith("is stopped") for line in stopped.stdout.splitlines())
    assert cluster.pid_files() == []
    cluster.wait_until_nothing_runs()
    nothing = cluster.run("cluster", "stop")
    assert (nothing.returncode, nothing.stdout) == (0, "nothing runs\n")


def test_what_cannot_start_is_told_and_the_rest_runs(cluster: DaemonCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster.name(f"localhost localhost:{port}", "")
        started = cluster.run("cluster", "start")
    assert started.returncode == 1
    assert f"master {FIRST} on localhost is started" in started.stdout
    assert f"master {SECOND} on localhost died: it ended by itself (exit code 4); its log ends:" in started.stdout
    assert "address already in use" in started.stdout.lower()
    assert "Traceback" not in started.stdout
    assert cluster.pid_files() == [f"{FIRST}.pid", f"{REST}.pid"]
    # A daemon that is not named any more is shown, and stopped, none the less.
    cluster.name("localhost", "")
    again = cluster.run("cluster", "start", "--json")
    report = json.loads(again.stdout)
    assert (again.returncode, report["running"], report["failures"]) == (0, True, [])
    assert {daemon["daemon_id"]: daemon["state"] for daemon in report["daemons"]} == {FIRST: "running", REST: "running"}
    cluster.name("127.0.0.1", "")
    (cluster.conf / "eventflink.yaml").open("a").write("jobmanager.id: renamed\n")
    code, daemons, _ = cluster.status()
    assert (code, daemons["renamed"]["state"], daemons[FIRST]["is_named"]) == (1, "down", False)
    stopped = cluster.run("cluster", "stop", "--json")
    report = json.loads(stopped.stdout)
    assert (stopped.returncode, report["stopped"]) == (0, True)
    assert {daemon["daemon_id"]: daemon["state"] for daemon in report["daemons"]} == {FIRST: "stopped", REST: "stopped"}
    cluster.wait_until_nothing_runs()


def test_a_frozen_daemon_has_not_joined_and_is_killed_in_the_end(cluster: DaemonCluster) -> None:
    cluster.name("localhost", "")
    assert cluster.run("cluster", "start").returncode == 0
    _, daemons, _ = cluster.status()
    psutil.Process(daemons[FIRST]["process_id"]).suspend()
    code, daemons, _ = cluster.status()
    assert (code, daemons[FIRST]["state"]) == (1, "not joined")
    assert daemons[FIRST]["detail"]
    stopped = cluster.run("-D", "cluster.stop-timeout=1000", "cluster", "stop")
    assert stopped.returncode == 1
    assert f"master {FIRST} on localhost is killed: it did not end within 1 s and was killed" in stopped.stdout
    assert cluster.pid_files() == []
    cluster.wait_until_nothing_runs()


def test_without_a_kafka_the_embedded_broker_is_one_of_the_daemons(tmp_path: Path) -> None:
    cluster = DaemonCluster(tmp_path, "localhost", "", **{"broker.port": 0})
    try:
        started = cluster.run("cluster", "start")
        assert started.returncode == 0, started.stdout + started.stderr
        assert [line.split(" on ")[0] for line in started.stdout.splitlines()] == [
            "Kafka broker",
            f"master {FIRST}",
            f"REST process {REST}",
        ]
        code, daemons, _ = cluster.status()
        assert code == 0
        bootstrap = json.loads((cluster.data / "run" / "broker.json").read_text())["bootstrap"]
        kill_9(daemons["broker"]["process_id"])
        assert cluster.status()[0] == 1
        # It comes back where those that outlived it look for it.
        healed = cluster.run("cluster", "start")
        assert healed.returncode == 0, healed.stdout + healed.stderr
        assert f"master {FIRST} on localhost runs (process {daemons[FIRST]['process_id']})" in healed.stdout
        assert json.loads((cluster.data / "run" / "broker.json").read_text())["bootstrap"] == bootstrap
        stopped = cluster.run("cluster", "stop")
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        assert [line.split(" on ")[0] for line in stopped.stdout.splitlines()] == [
            f"REST process {REST}",
            f"master {FIRST}",
            "Kafka broker",
        ]
        cluster.wait_until_nothing_runs()
        assert cluster.pid_files() == []
    finally:
        cluster.close()

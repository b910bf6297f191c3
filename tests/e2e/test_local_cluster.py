"""`eventflink up` and the commands around it, as a user types them: one cluster without TaskExecutors, real in every part."""

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from eventflink.processes.announced_address import Announced, read
from tests.support import zygote
from tests.support.running_cluster import PATIENT, is_alive

pytestmark = pytest.mark.slow
GRAPH = {"name": "waits for a slot", "vertices": [{"id": "only", "sql": "SELECT 1"}]}
PROGRAM = [sys.executable, "-m", "eventflink.cli"]


class LocalCluster:
    """A running `eventflink up`, and a way to call other commands on it; with a broker of its own unless one is named."""

    def __init__(self, directory: Path, *options: str, task_executors: int = 0) -> None:
        self.directory = directory
        keys: dict[str, object] = {"data.directory": directory / "data", "broker.port": 0, "spark.start-early": "false"} | PATIENT
        self.options = [*(word for key, value in keys.items() for word in ("-D", f"{key}={value}")), *options]  # No task here uses Spark.
        self.output = directory / "up.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*PROGRAM, *self.options, "up", "--taskexecutors", str(task_executors)], stdout=output, stderr=output
            )
        wait_until(lambda: "is up" in self.output.read_text() or self.process.poll() is not None, 90)
        assert self.process.poll() is None, self.output.read_text()

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return zygote.run([*PROGRAM, *self.options, *arguments], input=stdin, capture_output=True, text=True, timeout=120)

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        finished = self.run(*arguments, "--json", stdin=stdin)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout.splitlines()[-1])

    def kill(self, role: str) -> None:
        """Kill the process of a role, which may just be starting."""

        def found() -> list[psutil.Process]:
            with contextlib.suppress(psutil.Error):  # One has just ended.
                return [child for child in psutil.Process(self.process.pid).children() if child.cmdline()[-1:] == [role]]
            return []

        wait_until(lambda: found() != [], 120)
        [process] = found()
        process.kill()
        wait_until(lambda: not is_alive(process.pid), 120)

    def children(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))


@pytest.fixture
def on_the_shared_broker(bootstrap: str, cluster_id: str) -> tuple[str, ...]:
    """Options of a cluster that has the broker of this run, for who asks what `up` makes of its other processes."""
    return "-D", f"bootstrap.servers={bootstrap}", "-D", f"cluster.id={cluster_id}"


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    running = LocalCluster(tmp_path_factory.mktemp("up"))
    yield running
    running.process.terminate()
    running.process.wait(120)


def test_a_job_from_standard_input_is_accepted_listed_shown_and_cancelled(cluster: LocalCluster) -> None:
    submitted = cluster.json("submit", "-", "--detach", stdin=json.dumps(GRAPH))
    job_id = submitted["job_id"]
    assert submitted["name"] == GRAPH["name"]
    assert job_id in [job["job_id"] for job in cluster.json("list")]
    wait_until(lambda: "RestAnswered" in cluster.run("-v", "list").stderr, 120)
    assert job_id in cluster.run("list").stdout
    shown = cluster.json("status", job_id[:12])
    assert (shown["status"], shown["tasks"], shown["vertices"][0]["vertex_id"]) == ("RUNNING", 1, "only")
    assert "@" in shown["actor"]
    cancelled = cluster.json("cancel", job_id, "--wait")
    assert cancelled["status"] == "CANCELED"
    assert cluster.json("list", "--status", "canceled")[-1]["job_id"] == job_id


def test_the_rest_process_lists_the_jobs_and_is_replaced_when_it_is_killed(cluster: LocalCluster) -> None:
    job_id = cluster.json("submit", "-", "--detach", stdin=json.dumps(GRAPH))["job_id"]

    def rest() -> psutil.Process | None:
        with contextlib.suppress(psutil.Error):  # One has just ended.
            return next((child for child in cluster.children() if child.cmdline()[-1:] == ["rest"]), None)
        return None

    def lists(process: psutil.Process) -> bool:
        url = read(cluster.directory / "data", Announced.REST, process.pid)
        if url is None:
            return False
        with urllib.request.urlopen(f"{url}/jobs", timeout=120) as answer:
            return job_id in [job["id"] for job in json.load(answer)["jobs"]]

    first = rest()
    assert first is not None
    assert "the dashboard and Flink's REST API are at http://127.0.0.1:" in cluster.output.read_text()
    wait_until(lambda: lists(first), 120)
    first.kill()
    wait_until(lambda: (second := rest()) is not None and second.pid != first.pid and lists(second), 90)
    assert cluster.process.poll() is None
    cluster.json("cancel", job_id)


def test_code_is_uploaded_with_the_job(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def run(context): ...")
    submitted = cluster.json("submit", "-", "--detach", "--code", str(tmp_path / "code.py"), stdin=json.dumps(GRAPH))
    assert len(list((cluster.directory / "data" / "blobs").glob("*/??/*"))) == 1
    cluster.json("cancel", submitted["job_id"])


def test_waiting_has_an_end_and_says_that_the_job_goes_on(cluster: LocalCluster) -> None:
    finished = cluster.run("submit", "-", "--job-id", "slow", "--timeout", "15", stdin=json.dumps(GRAPH))
    assert finished.returncode == 3
    assert "has not ended within 15 s (RUNNING); it is still running" in finished.stderr
    cluster.json("cancel", "slow", "--wait")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cancel", "nothing"], "job not found: 'nothing'"),
        (["status", "nothing"], "job not found: 'nothing'"),
        (["result", "nothing"], "job not found: 'nothing'"),
        (["logs", "nothing", "only"], "job not found: 'nothing'"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_1(cluster: LocalCluster, arguments: list[str], said: str) -> None:
    finished = cluster.run(*arguments)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert said in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_the_cluster_is_described(cluster: LocalCluster) -> None:
    status = cluster.json("status")
    assert status["epoch"] >= 1  # On loaded cores a lease may end.
    assert status["slots"] == 0
    assert re.search(r"\bepoch \d", cluster.run("status").stdout)
    assert {row["topic"] for row in cluster.json("topics")} >= {"log", "submissions"}
    findings = {f["name"]: f for f in cluster.json("doctor")}
    assert findings["leader"]["verdict"] == "ok"
    [secret] = (cluster.directory / "data" / "secrets").iterdir()  # Nobody was asked for one.
    assert findings["cluster secret"] == {"name": "cluster secret", "verdict": "ok", "detail": f"${{file:{secret}}}"}
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    without = {f["name"]: f for f in json.loads(cluster.run("-D", "security.cluster-secret=off", "doctor", "--json").stdout)}
    assert without["cluster secret"]["verdict"] == "warning"


def test_the_doctor_tells_the_problems_of_the_cluster(cluster: LocalCluster) -> None:
    problem = {"name": "cluster", "verdict": "warning", "detail": "No TaskManager is registered."}
    wait_until(lambda: problem in cluster.json("doctor"), 120)


def test_what_is_parked_is_listed_and_what_is_not_can_neither_be_tried_again_nor_dropped(cluster: LocalCluster) -> None:
    assert cluster.json("parked", "list")["parked"] == []
    assert cluster.run("parked", "list").stdout.strip() == "nothing is parked"
    for command in ("retry", "drop"):
        refused = cluster.run("parked", command, "no-such-input")
        assert refused.returncode == 1
        assert "no-such-input" in refused.stderr


def test_a_second_cluster_on_the_same_directory_is_refused(cluster: LocalCluster) -> None:
    finished = cluster.run("up")
    assert finished.returncode == 4
    assert "already runs" in finished.stderr


def test_an_orderly_stop_leaves_nothing_running_and_the_next_start_goes_on(tmp_path: Path) -> None:
    first = LocalCluster(tmp_path)
    first.json("submit", "-", "--detach", "--job-id", "kept", stdin=json.dumps(GRAPH))
    # The broker, the master and its guardian, and the REST process, which nobody has asked about the past.
    wait_until(lambda: len(first.children()) == 4, 120)
    processes = first.children()
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(120) == 0
    assert not any(is_alive(process.pid) for process in processes)
    assert first.run("list").returncode == 3
    second = LocalCluster(tmp_path)
    assert [(job["job_id"], job["status"]) for job in second.json("list")] == [("kept", "RUNNING")]
    assert second.json("status")["epoch"] > 1  # On loaded cores a lease may end as well.
    processes = second.children()
    os.kill(second.process.pid, signal.SIGKILL)
    second.process.wait(120)
    wait_until(lambda: not any(is_alive(process.pid) for process in processes), 120)


WAITS = """
import pathlib, time

def run(context):
    while not pathlib.Path(context.parameters["file"]).exists():
        time.sleep(0.1)
"""


def test_a_master_and_a_task_executor_that_are_killed_are_started_again_and_the_job_goes_on(
    on_the_shared_broker: tuple[str, ...], tmp_path: Path
) -> None:
    running = LocalCluster(tmp_path, *on_the_shared_broker, task_executors=1)
    (tmp_path / "code.py").write_text(WAITS)
    vertex = {"id": "only", "python": "code:run", "parameters": {"file": str(tmp_path / "go")}}
    graph = {"name": "waits", "vertices": [vertex], "restart_strategy": {"type": "fixed-delay", "attempts": 1, "delay_ms": 100}}
    running.json("submit", "-", "--detach", "--job-id", "job", "--code", str(tmp_path / "code.py"), stdin=json.dumps(graph))

    def task_executors() -> list[int]:
        return [row["process_id"] for row in running.json("taskmanager", "list")["task_managers"]]

    before = task_executors()
    running.kill("master")
    wait_until(lambda: running.json("status")["epoch"] > 1, 120)
    running.kill("taskexecutor")
    wait_until(lambda: task_executors() not in ([], before), 120)
    (tmp_path / "go").touch()
    wait_until(lambda: running.json("status", "job")["status"] == "FINISHED", 120)
    assert running.process.poll() is None
    running.process.terminate()
    assert running.process.wait(120) == 0


def test_a_master_that_ends_again_and_again_ends_up_with_an_error_that_shows_its_log(
    on_the_shared_broker: tuple[str, ...], tmp_path: Path
) -> None:
    running = LocalCluster(tmp_path, *on_the_shared_broker)
    for _ in range(6):
        running.kill("master")
    assert running.process.wait(120) == 4
    assert running.output.read_text().count("master ended by itself (signal 9); starting it again") == 5
    assert "master ended by itself (signal 9); its log" in running.output.read_text()


def test_the_workers_that_the_master_started_end_with_the_cluster(on_the_shared_broker: tuple[str, ...], tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, *on_the_shared_broker, "-D", "resourcemanager.driver=process", "-D", "taskmanager.numberOfTaskSlots=1")
    (tmp_path / "code.py").write_text("import time\n\n\ndef run(context):\n    time.sleep(600)\n")
    graph = {"name": "sleeps", "vertices": [{"id": "only", "python": "code:run"}]}
    cluster.json("submit", "-", "--detach", "--code", str(tmp_path / "code.py"), stdin=json.dumps(graph))
    wait_until(lambda: any(row["slots_free"] == 0 for row in cluster.json("taskmanager", "list")["task_managers"]), 120)
    [row] = cluster.json("taskmanager", "list")["task_managers"]
    assert row["task_manager_id"] == "worker-1"
    worker = psutil.Process(row["process_id"])
    assert worker.ppid() in {child.pid for child in cluster.children()}
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(120) == 0
    assert "worker worker-1 is stopped" in cluster.output.read_text()
    assert not is_alive(worker.pid)

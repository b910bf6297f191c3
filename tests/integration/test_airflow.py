"""Tasks of a real Airflow that run jobs of a cluster: a try finds the job that was submitted, whichever process has died meanwhile."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from eventflink.events.log_events import JobSubmitted
from eventflink.model.statuses import JobStatus
from eventflink.processes import die_with_parent
from tests.support.ports import find_free_ports
from tests.support.running_cluster import RunningCluster, has_open, running_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.soak("eventflink.client"), pytest.mark.timeout(1_800)]

WAIT_S = 300
CODE = """
import pathlib
import time


def waits(context):
    here = pathlib.Path(context.parameters["here"])
    with (here / f"{context.parameters['name']}-began").open("a") as began:
        began.write("x")
    while not (here / "gate").exists():
        time.sleep(0.05)


def lists(context):
    with (pathlib.Path(context.parameters["here"]) / "listed").open("a") as listed:
        listed.write("x")
    return context.spark.range(3)


def mended(context):
    assert (pathlib.Path(context.parameters["here"]) / "mended").exists(), "not mended yet"
    assert context.inputs["lists"].count() == 3
"""
DAG = """
from datetime import timedelta

from airflow.sdk import DAG
from eventflink.client.airflow import EventflinkOperator

WHERE = {where}
WAITS = {{
    "name": "waits",
    "parameters": {{"here": {{"type": "string"}}, "name": {{"type": "string"}}}},
    "vertices": [{{"id": "waits", "python": "work:waits"}}],
}}
IN_STEPS = {{
    "name": "in steps",
    "parameters": {{"here": {{"type": "string"}}}},
    "restart_strategy": {{"type": "none"}},
    "vertices": [{{"id": "lists", "python": "work:lists"}}, {{"id": "mended", "python": "work:mended"}}],
    "edges": [{{"from": "lists", "to": "mended"}}],
}}

with DAG("nightly", schedule=None, default_args={{"retries": 2, "retry_delay": timedelta(seconds=1)}}):
    for name, deferrable in (("in_a_worker", False), ("deferred", True)):
        EventflinkOperator(
            task_id=name,
            document=WAITS,
            parameters={{"here": {here!r}, "name": name}},
            code=["{here}/work.py"],
            deferrable=deferrable,
            **WHERE,
        )
    EventflinkOperator(
        task_id="in_steps",
        document=IN_STEPS,
        parameters={{"here": {here!r}}},
        code=["{here}/work.py"],
        deferrable=True,
        retries=50,
        **WHERE,
    )
"""


class Airflow:
    """An Airflow of its own, in an environment that has this package as users install it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._python = directory / "venv" / "bin" / "python"
        [port] = find_free_ports(1)
        address = f"http://127.0.0.1:{port}"
        told = {
            "CORE__DAGS_FOLDER": directory / "dags",
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
            "CORE__PARALLELISM": 4,
            "API__PORT": port,
            "API__BASE_URL": address,
            "API__WORKERS": 1,
            "API_AUTH__JWT_SECRET": "a secret of these tests that is long enough for the algorithm, which asks for 64 bytes",
            "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 20,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 5,
            "TRIGGERER__JOB_HEARTBEAT_SEC": 2,
        }
        self._surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "EVENTFLINK", "PYTHON"))}
        self._surroundings |= {"AIRFLOW_HOME": str(directory), "PATH": f"{self._python.parent}:{os.environ['PATH']}"}
        self._surroundings |= {f"AIRFLOW__{name}": str(value) for name, value in told.items()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def install(self) -> None:
        """Install Airflow, with this package, as users do."""
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, self._python.parents[1]], check=True, timeout=WAIT_S)
        command = [uv, "pip", "install", "--quiet", "--python", str(self._python), f"{Path(__file__).parents[2]}[airflow]"]
        subprocess.run(command, check=True, timeout=3 * WAIT_S)
        self.run("db", "migrate")

    def run(self, *arguments: str) -> str:
        """Run a command of Airflow, and return what it prints."""
        command = [str(self._python), "-m", "airflow", *arguments]
        done = subprocess.run(command, env=self._surroundings, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        return done.stdout

    def start(self, *names: str) -> None:
        """Start components."""
        for name in names:
            with (self.directory / f"{name}.txt").open("ab") as output:
                self.processes[name] = subprocess.Popen(
                    [str(self._python), "-m", "airflow", name],
                    env=self._surroundings,
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
                )

    def kill(self, name: str) -> None:
        """Kill a component and all that it has started."""
        started = self.started_by(name)
        process = self.processes.pop(name)
        for each in (process, *started):
            each.kill()
        process.wait(WAIT_S)

    def started_by(self, name: str) -> list[psutil.Process]:
        """Return what a component has started, and what that has."""
        found: list[psutil.Process] = psutil.Process(self.processes[name].pid).children(recursive=True)
        return found

    def logs(self, task: str) -> str:
        """Return the names of the logs of a task, of which each try has one."""
        return " ".join(sorted(path.name for path in (self.directory / "logs").rglob(f"task_id={task}/*")))

    def states(self, run_id: str) -> dict[str, str]:
        """Return where each task of a run stands."""
        told = json.loads(self.run("tasks", "states-for-dag-run", "nightly", run_id, "--output", "json"))
        return {each["task_id"]: each["state"] for each in told}


@pytest.fixture
def cluster(bootstrap: str, spark: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path / "cluster", **{"spark.remote": spark}) as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=3)
        yield running


@pytest.fixture
def airflow(tmp_path: Path, cluster: RunningCluster) -> Iterator[Airflow]:
    directory = tmp_path / "airflow"
    (directory / "dags").mkdir(parents=True)
    (tmp_path / "work.py").write_text(CODE)
    where = {"bootstrap": cluster.bootstrap, "cluster_id": cluster.cluster_id}
    (directory / "dags" / "nightly.py").write_text(DAG.format(where=where, here=str(tmp_path)))
    started = Airflow(directory)
    started.install()
    started.start("api-server", "scheduler", "dag-processor", "triggerer")
    yield started
    for name in list(started.processes):
        started.kill(name)
    shutil.rmtree(directory / "venv")


def test_a_try_finds_the_job_that_was_submitted_whoever_has_died(airflow: Airflow, cluster: RunningCluster, tmp_path: Path) -> None:
    wait_until(lambda: "nightly" in airflow.run("dags", "list", "--output", "plain"), "the graph is known", WAIT_S)
    airflow.run("dags", "unpause", "nightly")
    airflow.run("dags", "trigger", "nightly", "--run-id", "first")

    def jobs(of: str) -> dict[str, str]:
        """Return the jobs of a task, each with that of which it is a rerun."""
        submitted = [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, JobSubmitted)]
        return {event.job_id: event.rerun_of for event in submitted if event.job_id.startswith(f"airflow-nightly-{of}-")}

    def has_begun(name: str) -> bool:
        return (tmp_path / f"{name}-began").exists()

    wait_until(lambda: has_begun("in_a_worker") and has_begun("deferred"), "both jobs run", WAIT_S)
    wait_until(lambda: airflow.states("first")["deferred"] == "deferred", "a triggerer waits", WAIT_S)
    wait_until(lambda: airflow.states("first")["in_steps"] in ("up_for_retry", "deferred", "queued") and jobs("in_steps"), "a try", WAIT_S)
    airflow.kill("triggerer")
    for process in airflow.started_by("scheduler"):
        if has_open(process, "task_id=in_a_worker"):
            for child in process.children():
                child.kill()
    cluster.kill("first")
    airflow.start("triggerer")
    (tmp_path / "mended").touch()
    wait_until(lambda: "attempt=2" in airflow.logs("in_a_worker"), "a second try", WAIT_S)
    (tmp_path / "gate").touch()
    wait_until(lambda: set(airflow.states("first").values()) == {"success"}, "the run succeeds", WAIT_S)
    for name in ("in_a_worker", "deferred"):
        [job_id] = jobs(name)
        assert cluster.job(job_id).status is JobStatus.FINISHED
        assert (tmp_path / f"{name}-began").read_text() == "x"
    steps = list(jobs("in_steps"))
    assert [jobs("in_steps")[each] for each in steps] == ["", *steps[:-1]]
    assert (tmp_path / "listed").read_text() == "x", "what had finished is reused"
    airflow.run("tasks", "clear", "nightly", "--task-regex", "deferred", "--yes")
    wait_until(lambda: len(jobs("deferred")) == 2, "a task that is cleared runs a new job", WAIT_S)
    wait_until(lambda: airflow.states("first")["deferred"] == "success", "which succeeds", WAIT_S)
    assert len(jobs("deferred")) == 2
    assert (tmp_path / "deferred-began").read_text() == "xx"

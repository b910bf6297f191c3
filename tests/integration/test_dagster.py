"""Steps of a real Dagster that run jobs of a cluster: a step finds the job that was submitted, whichever process has died meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.log_events import JobSubmitted
from eventflink.model.statuses import JobStatus
from eventflink.processes import die_with_parent
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.soak("eventflink.client"), pytest.mark.timeout(1_800)]

WAIT_S = 300
CODE = """
import pathlib
import time

from dagster_pipes import PipesMappingParamsLoader, open_dagster_pipes


def waits(context):
    here = pathlib.Path(context.parameters["here"])
    with (here / "began").open("a") as began:
        began.write("x")
    while not (here / "gate").exists():
        time.sleep(0.05)


def lists(context):
    with (pathlib.Path(context.parameters["here"]) / "listed").open("a") as listed:
        listed.write("x")
    return context.spark.range(3)


def mended(context):
    assert (pathlib.Path(context.parameters["here"]) / "mended").exists(), "not mended yet"
    with open_dagster_pipes(params_loader=PipesMappingParamsLoader(context.parameters)) as pipes:
        rows = context.inputs["lists"].count() * pipes.get_extra("factor")
        pipes.report_asset_materialization(metadata={"rows": rows})
"""
DEFINITIONS = """
import dagster as dg

from eventflink.client.dagster import PipesEventflinkClient

HERE = {here!r}
WAITS = {{"name": "waits", "parameters": {{"here": {{"type": "string"}}}}, "vertices": [{{"id": "waits", "python": "work:waits"}}]}}
IN_STEPS = {{
    "name": "in steps",
    "parameters": {{
        "here": {{"type": "string"}},
        "DAGSTER_PIPES_CONTEXT": {{"type": "string", "affects_results": False}},
        "DAGSTER_PIPES_MESSAGES": {{"type": "string", "affects_results": False}},
    }},
    "restart_strategy": {{"type": "none"}},
    "vertices": [{{"id": "lists", "python": "work:lists"}}, {{"id": "mended", "python": "work:mended"}}],
    "edges": [{{"from": "lists", "to": "mended"}}],
}}


@dg.asset
def waits(context: dg.AssetExecutionContext, eventflink: PipesEventflinkClient):
    return eventflink.run(
        context=context, document=WAITS, parameters={{"here": HERE}}, code=["{here}/work.py", {pipes!r}]
    ).get_materialize_result()


@dg.asset(deps=[waits], retry_policy=dg.RetryPolicy(max_retries=1))
def in_steps(context: dg.AssetExecutionContext, eventflink: PipesEventflinkClient):
    return eventflink.run(
        context=context,
        document=IN_STEPS,
        parameters={{"here": HERE}},
        code=["{here}/work.py", {pipes!r}],
        extras={{"factor": 2}},
        message_reader=dg.PipesTempFileMessageReader(),
    ).get_materialize_result()


defs = dg.Definitions(
    [waits, in_steps], jobs=[dg.define_asset_job("nightly")], resources={{"eventflink": PipesEventflinkClient(**{where})}}
)


def nightly():
    return defs.resolve_job_def("nightly")
"""
PROGRAM = """
import json
import sys

import dagster as dg

from definitions import nightly

parent = sys.argv[1]
with dg.DagsterInstance.get() as instance:
    with dg.execute_job(
        dg.reconstructable(nightly),
        instance=instance,
        tags={} if parent else {"began": "here"},
        reexecution_options=dg.ReexecutionOptions(parent, step_selection=sys.argv[2:]) if parent else None,
    ) as result:
        found = [each for each in result.all_events if each.is_step_materialization]
        materializations = [each.step_materialization_data.materialization for each in found]
        materialized = {
            each.asset_key.to_user_string(): {name: value.value for name, value in each.metadata.items()} for each in materializations
        }
        print(json.dumps({"succeeded": result.success, "run_id": result.run_id, "materialized": materialized}))
"""


class Dagster:
    """A Dagster of its own, in an environment that has this package as users install it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._python = directory / "venv" / "bin" / "python"
        self._surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "EVENTFLINK", "PYTHON"))}
        self._surroundings |= {"DAGSTER_HOME": str(directory / "home"), "DAGSTER_DISABLE_TELEMETRY": "yes"}

    def install(self) -> None:
        """Install Dagster, with this package, as users do."""
        (self.directory / "home").mkdir(parents=True)
        (self.directory / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, self._python.parents[1]], check=True, timeout=WAIT_S)
        command = [uv, "pip", "install", "--quiet", "--python", str(self._python), f"{Path(__file__).parents[2]}[dagster]"]
        subprocess.run(command, check=True, timeout=3 * WAIT_S)

    def pipes(self) -> Path:
        """Return the module with which tasks report; it needs nothing else."""
        [found] = (self.directory / "venv").rglob("dagster_pipes/__init__.py")
        return found.parent

    def start(self, parent: str = "", *steps: str) -> subprocess.Popen[str]:
        """Start a run, or one that executes these steps of another one again."""
        return subprocess.Popen(
            [str(self._python), "program.py", parent, *steps],
            cwd=self.directory,
            env=self._surroundings,
            stdout=subprocess.PIPE,
            stderr=(self.directory / "log.txt").open("ab"),
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
        )

    def result(self, run: subprocess.Popen[str]) -> dict[str, Any]:
        """Return what a run says at its end."""
        told, _ = run.communicate(timeout=WAIT_S)
        assert run.returncode == 0, (self.directory / "log.txt").read_text()[-3_000:]
        result: dict[str, Any] = json.loads(told.splitlines()[-1])
        return result


@pytest.fixture
def cluster(bootstrap: str, spark: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path / "cluster", **{"spark.remote": spark}) as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=3)
        yield running


@pytest.fixture
def dagster(tmp_path: Path, cluster: RunningCluster) -> Iterator[Dagster]:
    started = Dagster(tmp_path / "dagster")
    started.install()
    (tmp_path / "work.py").write_text(CODE)
    where = {"bootstrap": cluster.bootstrap, "cluster_id": cluster.cluster_id}
    (started.directory / "definitions.py").write_text(DEFINITIONS.format(where=where, here=str(tmp_path), pipes=str(started.pipes())))
    (started.directory / "program.py").write_text(PROGRAM)
    yield started
    shutil.rmtree(started.directory / "venv")


def test_a_step_finds_the_job_that_was_submitted_whoever_has_died(dagster: Dagster, cluster: RunningCluster, tmp_path: Path) -> None:
    def jobs(of: str) -> dict[str, str]:
        """Return the jobs of a step, each with that of which it is a rerun."""
        submitted = [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, JobSubmitted)]
        return {event.job_id: event.rerun_of for event in submitted if event.job_id.startswith(f"dagster-nightly-{of}-")}

    run = dagster.start()
    wait_until((tmp_path / "began").exists, "the job runs", WAIT_S)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    cluster.kill("first")
    [parent] = [path.name for path in (dagster.directory / "home" / "storage").iterdir() if len(path.name) == 36]
    again = dagster.start(parent, "waits", "in_steps")
    (tmp_path / "gate").touch()
    result = dagster.result(again)
    assert not result["succeeded"], "the second asset is not mended yet"
    [job_id] = jobs("waits")
    assert result["materialized"]["waits"]["eventflink/job_id"] == job_id
    assert cluster.job(job_id).status is JobStatus.FINISHED
    assert (tmp_path / "began").read_text() == "x"
    assert len(jobs("in_steps")) == 2, "by its policy the step is tried again"

    (tmp_path / "mended").touch()
    result = dagster.result(dagster.start(result["run_id"], "in_steps"))
    assert result["succeeded"]
    steps = list(jobs("in_steps"))
    assert [jobs("in_steps")[each] for each in steps] == ["", *steps[:-1]]
    assert len(steps) == 3
    assert (tmp_path / "listed").read_text() == "x", "what had finished is reused"
    reported = result["materialized"]["in_steps"]
    assert reported["rows"] == 6, "what the task has reported"
    assert reported["eventflink/job_id"] == steps[-1]

    result = dagster.result(dagster.start(parent, "waits"))
    assert result["succeeded"]
    assert len(jobs("waits")) == 2, "a step that had succeeded runs a new job"
    assert (tmp_path / "began").read_text() == "xx"


def test_who_terminates_a_step_cancels_its_job(dagster: Dagster, cluster: RunningCluster, tmp_path: Path) -> None:
    run = dagster.start()
    wait_until((tmp_path / "began").exists, "the job runs", WAIT_S)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=WAIT_S)
    [job_id] = cluster.state().master.dispatcher.jobs
    wait_until(lambda: cluster.job(job_id).status is JobStatus.CANCELED, "the job is cancelled", WAIT_S)

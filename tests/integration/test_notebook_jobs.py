"""Jobs whose tasks stand in a notebook: they run on a cluster and here as jobs of a module do, and fail with the lines of their cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow

TASKS = """
import functools
import json
import eventflink
from pathlib import Path

import prices  # beside the notebook

LEAST = 2
class Rate:
    factor = 10

@functools.lru_cache(maxsize=8)
def scaled(number):
    return number * Rate.factor + prices.VAT

@eventflink.task
def numbers(context, rows):
    return context.spark.range(rows)

@eventflink.task
def large(numbers):
    from pyspark.sql.functions import udf

    @udf("long", useArrow=False)
    def in_spark(number):
        return scaled(number)

    return numbers.where(f"id >= {LEAST}").select(in_spark("id").alias("scaled"))

@eventflink.job
def scaling(rows: int = 4):
    large(numbers(rows))

@eventflink.task
def divides(context, path):
    Path(path).write_text("ran")
    return 1 / (LEAST - 2)

@eventflink.job(restart_strategy={"type": "none"})
def failing(path: str):
    divides(path)
"""


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **{"spark.remote": spark}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


def run_cells(directory: Path, *cells: str) -> list[Any]:
    """Run the cells in a kernel of their own, and return what the last one printed."""
    (directory / "prices.py").write_text("VAT = 1\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in (TASKS, *cells)])
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(directory)}}).execute()
    return ["".join(output["text"]) for output in notebook.cells[-1].outputs if output["output_type"] == "stream"]


def test_tasks_of_a_notebook_run_on_a_cluster_with_what_they_use_of_it(cluster: RunningCluster, tmp_path: Path) -> None:
    connect = f"cluster = eventflink.connect({cluster.bootstrap!r}, {cluster.cluster_id!r})"
    submit = "job = cluster.submit(scaling, parameters={'rows': 5}); job.wait(); print(job.result().to_arrow().to_pylist())"
    [told] = run_cells(tmp_path, connect, submit)
    assert told.strip() == str([{"scaled": number * 10 + 1} for number in (2, 3, 4)])


def test_what_fails_in_a_cell_is_shown_with_its_line(cluster: RunningCluster, tmp_path: Path) -> None:
    connect = f"cluster = eventflink.connect({cluster.bootstrap!r}, {cluster.cluster_id!r})"
    submit = f"print(cluster.submit(failing, parameters={{'path': {str(tmp_path / 'ran')!r}}}).job_id)"
    told = run_cells(tmp_path, connect, submit)
    job = cluster.wait_for_status(told[-1].strip(), JobStatus.FAILED)
    assert job.cause is not None
    assert job.cause.failure_type == "ZeroDivisionError"
    assert "return 1 / (LEAST - 2)" in str(job.cause.stack_trace)


def test_after_a_cell_was_mended_a_rerun_runs_its_task_and_reuses_what_the_others_have_left(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """Also by way of what the mended one uses of the notebook; the other one uses something else of it."""
    tasks = f"""
RAN = {str(tmp_path / "ran")!r}

@eventflink.task
def counted(context):
    with open(RAN, "a") as ran:
        ran.write("counted ")
    return context.spark.range(3)

def checked(rows):
    raise ValueError("no")

@eventflink.task
def passed(counted):
    return checked(counted)

@eventflink.job(restart_strategy={{"type": "none"}})
def nightly():
    passed(counted())
"""
    connect = f"cluster = eventflink.connect({cluster.bootstrap!r}, {cluster.cluster_id!r})"
    submit = "job = cluster.submit(nightly); print(job.wait().status)"
    mended = "def checked(rows):\n    return rows.where('id > 0')"
    rerun = "again = job.rerun(failed=True, document=nightly); print(again.wait().status, again.result().to_arrow().to_pylist())"
    told = run_cells(tmp_path, tasks, connect, submit, mended, rerun)
    assert told[-1].strip() == "FINISHED [{'id': 1}, {'id': 2}]"
    assert (tmp_path / "ran").read_text() == "counted "


def test_they_run_in_the_kernel_as_well(tmp_path: Path) -> None:
    run = f"""
@eventflink.task
def writes(context, path):
    Path(path).write_text(json.dumps([scaled(LEAST), __name__]))

@eventflink.job
def writing(path: str):
    writes(path)

eventflink.dev(writing, parameters={{"path": {str(tmp_path / "written")!r}}})
"""
    run_cells(tmp_path, run)
    assert (tmp_path / "written").read_text().startswith("[21, ")

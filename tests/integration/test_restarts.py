"""Restarts of real tasks on a real Spark: growing waits, whole jobs, and outputs that are lost between writer and reader."""

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import RegionRestarted, RestartScheduled, TaskFinished
from eventflink.gateways.errors import InvalidParameters
from eventflink.gateways.rest_process import NothingThere
from eventflink.jobs.result import read_result
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.attempts import AttemptId, SubtaskReference
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.statuses import FailoverStrategy, JobStatus
from eventflink.taskexecutor.process_events import spark_session_of
from eventflink.taskexecutor.task_spark import session_address
from tests.support.running_cluster import EAGER, RunningCluster, running_cluster, wait_until
from tests.support.spark_sessions import is_closed

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 360


def _cluster(bootstrap: str, directory: Path, **overrides: Any) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, directory, **EAGER, **overrides) as running:
        running.start_master()
        running.start_task_executor(slots=3)
        yield running


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose default is exponential-delay, as Flink's keys say it."""
    keys = {
        "spark.remote": spark,
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": 150,
        "restart-strategy.exponential-delay.backoff-multiplier": 2.5,
        "restart-strategy.exponential-delay.jitter-factor": 0,
    }
    yield from _cluster(bootstrap, tmp_path_factory.mktemp("region"), **keys)


@pytest.fixture(scope="module")
def full(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose jobs restart as a whole."""
    keys = {"jobmanager.execution.failover-strategy": "full", "spark.remote": spark}
    yield from _cluster(bootstrap, tmp_path_factory.mktemp("full"), **keys)


def _two_vertices(cluster: RunningCluster, gate: Path, **parameters: Any) -> JobGraph:
    return cluster.graph(
        {"id": "numbers", "python": "user_tasks:numbers", "parallelism": 2, "parameters": {"count": 1000}},
        {"id": "total", "python": "user_tasks:total_once_let", "parameters": {"path": str(gate), **parameters}},
        edges=[{"from": "numbers", "to": "total", "ship": "rebalance"}],
        restart_strategy={"type": "fixed-delay", "attempts": 1, "delay_ms": 100},
    )


def _result(job: JobMaster, vertex_id: str) -> list[dict[str, Any]]:
    locations = [o for s in job.execution_graph.vertices[vertex_id].subtasks for o in s.outputs]
    rows: list[dict[str, Any]] = read_result(locations, 10_000).to_pylist()
    return rows


def _attempts(job: JobMaster) -> dict[str, list[int]]:
    return {v: [s.attempt for s in x.subtasks] for v, x in job.execution_graph.vertices.items()}


def test_a_vertex_is_tried_again_by_the_rule_that_names_what_its_code_raised_and_says_when_it_is_used_up(cluster: RunningCluster) -> None:
    vertex = {"id": "numbers", "python": "user_tasks:numbers_in_third_attempt", "parameters": {"count": 10}}
    for attempts, status in ((2, JobStatus.FINISHED), (1, JobStatus.FAILED)):
        retries = [{"errors": ["OSError"], "attempts": 9}, {"errors": ["RuntimeError"], "attempts": attempts, "delay": "50ms"}]
        job_id = cluster.submit(cluster.graph(vertex | {"retries": retries}))
        cluster.wait_for_status(job_id, status, JOB_TIMEOUT_S)
        restarts = [(e.delay_ms, e.retry_rule) for e in cluster.events_of(job_id) if isinstance(e, RestartScheduled)]
        assert restarts == [(50, 2), (100, 2)][:attempts]
    told = cluster.exceptions_of(job_id[:12])["exceptions"][0]
    assert "retries: after RuntimeError rule 2 of 'numbers' allows each subtask 1 retry, and it was made" in str(told)


def test_a_task_that_fails_twice_works_under_exponential_delay(cluster: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    vertex = {"id": "numbers", "python": "user_tasks:numbers_in_third_attempt", "parameters": {"count": 10}}
    job_id = cluster.submit(cluster.graph(vertex))
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert sorted(row["id"] for row in _result(job, "numbers")) == list(range(10))
    assert [e.delay_ms for e in cluster.events_of(job_id) if isinstance(e, RestartScheduled)] == [150, 375]
    answer = cluster.exceptions_of(job_id[:12])
    assert [(e["task"], e["restart"]["restarts"], e["cause"]["message"]) for e in answer["exceptions"]] == [
        ("numbers[0]#2", 2, "attempt 2 fails"),
        ("numbers[0]#1", 1, "attempt 1 fails"),
    ]
    cause = answer["exceptions"][0]["cause"]
    assert (cause["failure_type"], cause["root_type"], cause["root_message"]) == ("RuntimeError", "KeyError", "'nothing'")
    assert "KeyError: 'nothing'" in cause["stack_trace"]
    assert answer["exceptions"][0]["task_manager_id"] == "tm"
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    assert run([*options, "exceptions", job_id, "--json", "--limit", "1"]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert (shown["exceptions"], shown["truncated"]) == (answer["exceptions"][:1], True)
    assert run([*options, "exceptions", job_id]) == ExitCode.OK
    assert "restart 2 of numbers[0] after 375 ms" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert run([*options, "status", job_id]) == ExitCode.OK
    assert "RuntimeError: attempt 2 fails" in capsys.readouterr().out
    with pytest.raises(NothingThere):
        cluster.exceptions_of("nobody")


@pytest.mark.parametrize(("function", "said"), [("total", "job.py:5 in div"), ("of_spark", "job.py:5 in div")])
def test_who_submits_is_told_the_vertex_and_the_line_of_the_code_and_what_shows_more(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path, function: str, said: str
) -> None:
    """Wherever the code failed: where the task called it, or where Spark did."""
    (tmp_path / "job.py").write_text(
        "from pyspark.sql import functions, types\n\n\ndef div(a):\n    return a // 0\n\n\ndef total(context):\n    return div(1)\n\n\n"
        "def of_spark(context):\n    return context.spark.range(1).select(functions.udf(div, types.LongType())('id').alias('d'))\n"
    )
    graph = {"name": "f", "vertices": [{"id": "b", "python": f"job:{function}"}], "restart_strategy": {"type": "none"}}
    (tmp_path / "job.json").write_text(json.dumps(graph))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    job_id = f"fails-{function}"
    submit = ["submit", str(tmp_path / "job.json"), "--code", str(tmp_path / "job.py"), "--job-id", job_id]
    assert run([*options, *submit]) == ExitCode.NEGATIVE
    shown = capsys.readouterr()
    assert "vertex 'b': " in shown.out
    assert shown.out.rstrip().endswith(f"({said})")
    assert shown.err.splitlines()[-1].startswith(f"what failed, with its stack trace: 'eventflink exceptions {job_id} --trace'")
    assert run([*options, "exceptions", job_id, "--trace"]) == ExitCode.OK
    assert '  File "job.py", line 5, in div\n    return a // 0\n' in capsys.readouterr().out
    assert run([*options, "status", job_id]) == ExitCode.OK
    assert said in capsys.readouterr().out


def test_a_job_that_failed_is_run_again_with_its_code(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    (tmp_path / "job.py").write_text(f"def read(context):\n    return context.spark.sql(open('{missing}').read())\n")
    graph = {"name": "reads", "vertices": [{"id": "read", "python": "job:read"}], "restart_strategy": {"type": "none"}}
    (tmp_path / "job.json").write_text(json.dumps(graph))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    for words, job_id in ((["submit"], "without"), (["rerun", "without"], "without-2")):
        assert run([*options, *words, str(tmp_path / "job.json"), "--job-id", job_id]) == ExitCode.NEGATIVE
        shown = capsys.readouterr()
        assert f"give it by --code {tmp_path / 'job.py'}" in shown.err, "the warning before it runs"
        assert "neither in the job's code archives nor installed here: give it by --code" in shown.out
    submit = ["submit", str(tmp_path / "job.json"), "--code", str(tmp_path / "job.py"), "--job-id", "reads-1"]
    assert run([*options, *submit]) == ExitCode.NEGATIVE
    said = capsys.readouterr().err
    assert said.rstrip().endswith("to run it again: 'eventflink rerun reads-1'")
    assert "warning" not in said
    missing.write_text("SELECT 42 AS answer")
    assert run([*options, "rerun", "reads-1", "--job-id", "reads-2", "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["job_id"], told["rerun_of"], told["status"]) == ("reads-2", "reads-1", "FINISHED")
    assert _result(cluster.job("reads-2"), "read") == [{"answer": 42}]
    assert run([*options, "status", "reads-2"]) == ExitCode.OK
    assert ", runs reads-1 again" in capsys.readouterr().out
    assert run([*options, "dismiss", "reads-1", "--reason", "its file was missing"]) == ExitCode.OK
    assert "the failure of reads-1 is dismissed" in capsys.readouterr().out
    assert run([*options, "dismiss", "reads-2"]) == ExitCode.NEGATIVE
    assert "reads-2' is FINISHED: only a job that has FAILED has a failure to dismiss" in capsys.readouterr().err
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        again = client.job("reads-2").rerun()
        assert again.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
    assert run([*options, "rerun", "reads-9"]) == ExitCode.NEGATIVE
    assert "job not found: 'reads-9'" in capsys.readouterr().err


def test_a_job_runs_for_a_day_and_again_for_another(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One file and one upload of code, two nights: what differs is the value of a parameter, in SQL and in Python."""
    (tmp_path / "daily.py").write_text(
        "import datetime\n\n\ndef days(context):\n    day = context.parameters['day']\n"
        "    rows = [(day, 1), (day, 2), (day - datetime.timedelta(1), 3)]\n"
        "    return context.spark.createDataFrame(rows, 'day DATE, amount INT')\n"
    )
    (tmp_path / "daily.yaml").write_text(
        "name: daily\nrestart_strategy: {type: none}\n"
        "parameters:\n  day: {type: date}\n  least: {type: integer, default: 2}\n"
        'vertices:\n  - {id: days, python: "daily:days"}\n'
        '  - {id: total, sql: "SELECT :day AS day, sum(amount) AS total FROM days WHERE day = :day AND amount >= :least"}\n'
        "edges: [{from: days, to: total}]\n"
    )
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    submit = ["submit", str(tmp_path / "daily.yaml"), "--code", str(tmp_path / "daily.py"), "--job-id", "daily-25"]
    assert run([*options, *submit]) == ExitCode.USAGE
    assert "parameter 'day': it has neither a default nor a value: give it one" in capsys.readouterr().err
    assert run([*options, *submit, "--param", "day=2026-11-25"]) == ExitCode.OK
    assert run([*options, "rerun", "daily-25", "--job-id", "daily-24", "--param", "day=2026-11-24", "--param", "least=0"]) == ExitCode.OK
    for job_id, day, total in (("daily-25", 25, 2), ("daily-24", 24, 3)):
        assert _result(cluster.job(job_id), "total") == [{"day": dt.date(2026, 11, day), "total": total}]
    capsys.readouterr()
    assert run([*options, "status", "daily-24"]) == ExitCode.OK
    assert "parameters: day=2026-11-24, least=0\n" in capsys.readouterr().out
    assert run([*options, "rerun", "daily-25", "--param", "day=24.11."]) == ExitCode.NEGATIVE
    assert "parameter 'day': must be a date, not '24.11.'" in capsys.readouterr().err
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        assert client.job("daily-24").details().parameters == {"day": "2026-11-24", "least": 0}
        with pytest.raises(InvalidParameters, match="unknown parameter: 'dya'"):
            client.job("daily-25").rerun(parameters={"dya": dt.date(2026, 11, 23)})
        with pytest.raises(InvalidParameters, match="day: a parameter is a text, a number"):
            client.job("daily-25").rerun(parameters={"day": None})
        again = client.job("daily-25").rerun("daily-23", parameters={"day": dt.date(2026, 11, 23)})
        assert again.result("total", timeout_s=JOB_TIMEOUT_S).to_arrow().to_pylist() == [{"day": dt.date(2026, 11, 23), "total": 2}]
        with pytest.raises(InvalidJobGraph, match="parameter 'day': must be a date, not 20261122"):
            client.submit(tmp_path / "daily.yaml", parameters={"day": 20261122})


def test_a_job_restarts_as_a_whole_under_full(full: RunningCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = full.submit(_two_vertices(full, gate, fails=True))
    wait_until(gate.with_name("gate.1").exists, "the reader runs", JOB_TIMEOUT_S)
    gate.with_name("gate.go").touch()
    job = full.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _attempts(job) == {"numbers": [2, 2], "total": [2]}
    assert _result(job, "total") == [{"n": 1000, "total": sum(range(1000))}]
    events = full.events_of(job_id)
    [scheduled] = [e for e in events if isinstance(e, RestartScheduled)]
    assert (scheduled.failover_strategy, scheduled.task_count) == (FailoverStrategy.FULL, 3)
    assert [(e.vertex_id, e.attempt) for e in events if isinstance(e, TaskFinished)] == [
        ("numbers", 1),
        ("numbers", 1),
        ("numbers", 2),
        ("numbers", 2),
        ("total", 2),
    ]


@pytest.mark.parametrize("part", ["directory", "file"])
def test_an_output_that_is_deleted_before_it_is_read_is_written_again(cluster: RunningCluster, tmp_path: Path, part: str) -> None:
    """A file that is gone would otherwise be missing from the result without a word."""
    gate = tmp_path / "gate"
    job_id = cluster.submit(_two_vertices(cluster, gate))
    wait_until(gate.with_name("gate.1").exists, "the reader runs", JOB_TIMEOUT_S)
    [location] = [o.location for o in cluster.job(job_id).execution_graph.vertices["numbers"].subtasks[1].outputs]
    if part == "directory":
        shutil.rmtree(location)
    else:
        next(Path(location).glob("part-*.parquet")).unlink()
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _attempts(job) == {"numbers": [1, 2], "total": [2]}
    assert _result(job, "total") == [{"n": 1000, "total": sum(range(1000))}]
    events = cluster.events_of(job_id)
    [scheduled] = [e for e in events if isinstance(e, RestartScheduled)]
    assert (scheduled.lost_outputs, scheduled.restarts) == ((SubtaskReference("numbers", 1),), 1)
    assert len([e for e in events if isinstance(e, RegionRestarted)]) == 2
    [exception] = cluster.exceptions_of(job_id)["exceptions"]
    assert exception["cause"]["failure_type"] == "InputLost"
    assert f"input 'numbers' has lost what subtask 1 published: {location}" in exception["cause"]["message"]


@pytest.mark.rule("P15")
def test_the_next_attempt_ends_first_what_one_on_a_lost_host_computes_in_a_spark_that_both_use(
    cluster: RunningCluster, spark: str, tmp_path: Path
) -> None:
    """Its host is cut off, and neither it nor its Spark has ended; of its session nobody knows but who can derive its id (P15)."""
    cluster.start_task_executor("other")
    path = tmp_path / "begun"
    job_id = cluster.run_task("endless_query", path=str(path), restarts=1)
    wait_until(path.with_name("begun.0.1").exists, "the first attempt computes", JOB_TIMEOUT_S)
    [first] = cluster.job(job_id).execution_graph.vertices["task"].subtasks[0].executions
    cluster.pause(first.task_manager_id)
    wait_until(path.with_name("begun.0.2").exists, "the second attempt computes", JOB_TIMEOUT_S)
    abandoned = session_address(spark, spark_session_of(first.instance_id, AttemptId(job_id, "task", 0, 1)))
    wait_until(partial(is_closed, abandoned), "the session of the first attempt is closed", JOB_TIMEOUT_S)
    cluster.resume(first.task_manager_id)
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "cancel", job_id]) == ExitCode.OK
    cluster.wait_for_status(job_id, JobStatus.CANCELED, JOB_TIMEOUT_S)
    cluster.stop("other")


def test_the_history_is_there_after_the_leader_was_killed(cluster: RunningCluster) -> None:
    job_id = cluster.run_task("fail", message="of the test")
    cluster.wait_for_status(job_id, JobStatus.FAILED, JOB_TIMEOUT_S)
    before = cluster.exceptions_of(job_id)
    assert before["exceptions"][0]["reason"] == "the restart strategy is none"
    cluster.kill("master")
    cluster.start_master()

    def answered(_: Fold) -> dict[str, Any] | None:
        answer = cluster.exceptions_of(job_id)
        return answer if answer["epoch"] > before["epoch"] else None

    after = cluster.wait_for(answered, "the new leader answers")
    assert after["exceptions"] == before["exceptions"]

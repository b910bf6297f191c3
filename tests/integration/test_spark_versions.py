"""Jobs on engines whose Spark is older than pyspark here: what works there, and what is refused (docs/job-graph.md, Spark's versions).

Each version is a server of its own, whose pyspark pip installs into the user's cache where it is not yet (about 450 MB each).
"""

import json
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from eventflink.cli.main import run
from eventflink.events.log_events import StreamStarted, TaskFailed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.jobs.required_packages import Requirements, find_packages
from eventflink.jobs.result import read_result
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import JobStatus
from eventflink.taskexecutor.spark_jars import DELTA_SETTINGS
from eventflink.taskexecutor.spark_release import release_session
from eventflink.taskexecutor.task_spark import session_address
from tests.support import engine_tasks, user_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_of_version import delta_tables, iceberg_runtime, is_installed, spark_of_version
from tests.support.spark_sessions import is_closed
from tests.support.stream_work import KEYS, Work

pytestmark = [pytest.mark.slow, pytest.mark.soak("eventflink.taskexecutor", "eventflink.streams"), pytest.mark.timeout(1_800)]

VERSIONS = ("4.0.5", "4.1.4")
TIMEOUT_S = 240
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
OWN_STATE = {
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
"""A stateful processor needs RocksDB."""


class Engine:
    """A cluster whose tasks run on a Spark of a version."""

    def __init__(self, version: str, spark: str, cluster: RunningCluster) -> None:
        self.version = version
        self.spark = spark
        self.cluster = cluster

    @property
    def line(self) -> str:
        return self.version.rpartition(".")[0]

    def submit(self, *vertices: dict[str, Any], restarts: int = 0, **more: Any) -> str:
        strategy = {"type": "fixed-delay", "attempts": restarts, "delay_ms": 100} if restarts else {"type": "none"}
        archive = self.cluster.user_code(Path(engine_tasks.__file__), Path(user_tasks.__file__))
        archives = [*more.pop("code_archives", ()), archive]
        return self.cluster.submit(self.cluster.graph(*vertices, restart_strategy=strategy, code_archives=archives, **more))

    def rows(self, *vertices: dict[str, Any], limit: int = 10, **more: Any) -> list[dict[str, Any]]:
        """Run a batch job, and return the rows of its last vertex."""
        job = self.cluster.wait_for_status(self.submit(*vertices, **more), JobStatus.FINISHED, TIMEOUT_S)
        outputs = [each for subtask in job.execution_graph.vertices[vertices[-1]["id"]].subtasks for each in subtask.outputs]
        found: list[dict[str, Any]] = read_result(outputs, limit).to_pylist()
        return found

    def refusal_of(self, job_id: str) -> str:
        """Return what is said of a job that a Spark of this version cannot run, whose task is tried again and again."""

        def causes() -> list[FailureCause]:
            return [event.cause for event in self.cluster.events_of(job_id) if isinstance(event, TaskFailed)]

        cause: FailureCause = wait_until(causes, "it is refused", TIMEOUT_S)[0]
        with DispatcherGateway(self.cluster.access) as gateway:
            gateway.cancel_job(job_id)
        assert cause.failure_type == "SparkUnavailable", cause
        return cause.message


@pytest.fixture(scope="module", params=VERSIONS)
def engine(request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if request.config.getoption("--soak-sample") > 1 and not is_installed(request.param):
        pytest.skip(f"pyspark {request.param} (450 MB) is not in the cache: make soak SOAK_TESTS=tests/integration/test_spark_versions.py")
    directory = tmp_path_factory.mktemp(f"spark-{request.param}")
    settings = DELTA_SETTINGS | {
        "spark.sql.extensions": f"{DELTA_SETTINGS['spark.sql.extensions']},{ICEBERG_EXTENSIONS}",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(directory / "warehouse"),
    }
    jar_sets = [delta_tables(request.param), iceberg_runtime(request.param)]
    with (
        spark_of_version(request.param, directory, jar_sets, settings) as spark,
        running_cluster(bootstrap, directory / "cluster", **{"spark.remote": spark}) as cluster,
    ):
        cluster.start_master()
        cluster.start_task_executor(slots=4)
        yield Engine(request.param, spark, cluster)


def executing_threads() -> int:
    """Return how many operations and streams the server executes, which this process has started: Linux cuts the names of threads."""
    threads = [thread for each in psutil.Process().children(recursive=True) for thread in Path(f"/proc/{each.pid}/task").glob("*/comm")]
    return sum(name_of(thread).startswith(("SparkConnectExe", "stream execution")) for thread in threads)


def executes_one_for_long() -> bool:
    """Tell whether it executes one operation, for a second: the first statement of a task is over at once."""
    for _ in range(20):
        if executing_threads() != 1:
            return False
        time.sleep(0.05)
    return True


def name_of(thread: Path) -> str:
    """Return the name of a thread; none of one that has ended."""
    try:
        return thread.read_text(encoding="utf-8")
    except OSError:
        return ""


def test_doctor_finds_it_as_tasks_need_it(engine: Engine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    where = ["-D", f"spark.remote={engine.spark}", "-D", f"data.directory={tmp_path}"]
    run([*where, "doctor", "--json"])
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}["spark"]
    assert found["verdict"] == "ok", found
    assert f"Spark {engine.version} at " in found["detail"]


def test_rows_of_the_task_python_and_sql_make_a_batch_job(engine: Engine) -> None:
    rows = {"id": "rows", "python": "engine_tasks:rows_of_task"}
    total = {"id": "total", "sql": "SELECT count(*) AS n, sum(id) AS total, max(length(name)) AS longest FROM rows WHERE id > :least"}
    least = {"least": {"type": "integer", "value": 1}}
    found = engine.rows(rows, total, edges=[{"from": "rows", "to": "total"}], parameters=least)
    assert found == [{"n": 40_002, "total": 5 + sum(range(100, 40_100)), "longest": 5}]


def test_functions_of_python_run_in_its_workers(engine: Engine) -> None:
    numbers = {"id": "numbers", "python": "user_tasks:numbers", "parallelism": 2, "parameters": {"count": 4}}
    functions = {"id": "functions", "python": "engine_tasks:rows_of_functions"}
    found = engine.rows(numbers, functions, edges=[{"from": "numbers", "to": "functions"}])
    assert sorted(found, key=lambda row: int(row["id"])) == [
        {"id": number, "plain": number + 1, "arrow": number + 2, "pandas": number + 3, "groups": 1} for number in range(4)
    ]


def test_several_statements_and_a_mapped_vertex(engine: Engine) -> None:
    text = "DECLARE VARIABLE least INT DEFAULT 2; CREATE TEMPORARY VIEW v AS SELECT id FROM range(5); SELECT * FROM v WHERE id >= least"
    assert engine.rows({"id": "several", "sql": text}) == [{"id": 2}, {"id": 3}, {"id": 4}]
    regions = {"id": "regions", "sql": "SELECT concat('r', id) AS region FROM range(3)"}
    each = {"id": "each", "sql": "SELECT region FROM regions"}
    found = engine.rows(regions, each, edges=[{"from": "regions", "to": "each", "ship": "each"}])
    assert sorted(row["region"] for row in found) == ["r0", "r1", "r2"]


def test_the_packages_of_a_job_are_those_of_its_functions_there(engine: Engine) -> None:
    archive = engine.cluster.upload(find_packages(Requirements(("numpy==2.2.6",))).read_bytes())
    versions = {"id": "versions", "python": "user_tasks:versions_of_numpy"}
    assert engine.rows(versions, code_archives=[archive]) == [{"task": "2.2.6", "spark": "2.2.6"}]


@pytest.mark.rule("P15")
@pytest.mark.parametrize("function", ["planned_for_long", "computed_for_long"])
def test_what_a_killed_task_has_spark_plan_or_compute_has_ended_when_the_next_attempt_begins(
    engine: Engine, function: str, tmp_path: Path
) -> None:
    wait_until(lambda: executing_threads() == 0, "nothing runs")
    job_id = engine.submit(
        {"id": "stream", "python": f"engine_tasks:{function}", "parameters": {"path": str(tmp_path / "go")}}, restarts=30
    )
    wait_until((tmp_path / "begun.1").exists, "the first attempt", TIMEOUT_S)
    wait_until(executes_one_for_long, "Spark works for it", TIMEOUT_S)
    killed_s = time.monotonic()
    engine.cluster.wait_for_task_process(job_id).send_signal(signal.SIGKILL)
    wait_until(lambda: any(path.name != "begun.1" for path in tmp_path.glob("begun.*")), "the next attempt", TIMEOUT_S, 0.01)
    assert executing_threads() == 0
    print(f"{engine.version} {function}: the next attempt began {time.monotonic() - killed_s:.1f} s after the kill", file=sys.stderr)
    (tmp_path / "go").touch()
    engine.cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)


def stop(engine: Engine, job_id: str, directory: Path) -> str:
    """Stop a stream with a savepoint, and return where that is."""
    with DispatcherGateway(engine.cluster.access) as gateway:
        taken = gateway.stop_with_savepoint(job_id, str(directory))
    engine.cluster.wait_for_status(job_id, JobStatus.FINISHED)
    return str(taken.savepoint_path)


def started(engine: Engine, job_id: str) -> int:
    """Return how many attempts of a stream have had a query."""
    return len([event for event in engine.cluster.events_of(job_id) if isinstance(event, StreamStarted)])


def kill_task(engine: Engine, job_id: str) -> None:
    """Kill the task of a stream, and wait until the next attempt has its query."""
    before = started(engine, job_id)
    engine.cluster.wait_for_task_process(job_id).send_signal(signal.SIGKILL)
    wait_until(lambda: started(engine, job_id) > before, "the next attempt", TIMEOUT_S)


@pytest.mark.rule("S1")
def test_a_stream_from_topic_to_topic_has_each_record_once_though_its_task_is_killed_and_goes_on_after_a_savepoint(
    engine: Engine, tmp_path: Path
) -> None:
    work = Work(engine.cluster)
    work.feed()
    job_id = work.submit()
    work.check_copied_once()
    for _ in range(2):
        work.feed()
        time.sleep(0.3)
        kill_task(engine, job_id)
        work.feed()
    work.check_copied_once()
    savepoint = stop(engine, job_id, tmp_path)
    work.feed()
    again = work.submit(savepoint=savepoint)
    work.check_copied_once()
    work.cancel(again)


def test_a_state_of_spark_goes_on_after_a_kill_and_after_a_savepoint(engine: Engine, tmp_path: Path) -> None:
    work = Work(engine.cluster, "count_by_key", output_mode="update", settings={"spark.sql.shuffle.partitions": 2})
    work.feed()
    job_id = work.submit()
    work.check_counted_once()
    kill_task(engine, job_id)
    work.feed()
    work.check_counted_once()
    savepoint = stop(engine, job_id, tmp_path)
    work.feed()
    again = work.submit(savepoint=savepoint)
    work.check_counted_once()
    work.cancel(again)


@pytest.mark.parametrize("function", ["totals_by_key", "totals_by_processor"])
def test_a_state_of_pythons_own_goes_on_after_a_kill(engine: Engine, function: str) -> None:
    work = Work(engine.cluster, function, output_mode="update", settings=OWN_STATE)
    work.feed()
    job_id = work.submit()
    if function == "totals_by_processor" and engine.line == "4.0":
        assert "transformWithState needs Spark 4.1, and this one is 4.0.5" in engine.refusal_of(job_id)
        return

    def check_totals() -> None:
        totals = {f"k{key}": sum(range(key, work.fed, KEYS)) for key in range(KEYS)}
        work.reader.read_until(lambda rows: {row["key"]: row["total"] for row in rows} == totals, TIMEOUT_S)

    check_totals()
    kill_task(engine, job_id)
    work.feed()
    check_totals()
    work.cancel(job_id)


def test_a_stream_appends_to_a_table_of_delta_and_batch_jobs_write_and_read_it(engine: Engine, tmp_path: Path) -> None:
    table = {"table": {"path": str(tmp_path / "table")}, "format": "delta"}
    appending = Work(engine.cluster, sink=table, trigger={"available_now": True})
    appending.feed()
    engine.cluster.wait_for_status(appending.submit(), JobStatus.FINISHED, TIMEOUT_S)
    engine.rows({"id": "write", "sql": "SELECT 'x' AS key, id + 300 AS number FROM range(100)", "sink": table})
    total = {"id": "total", "sql": "SELECT count(*) AS n, sum(number) AS total FROM t", "sources": {"t": table}}
    assert engine.rows(total) == [{"n": 400, "total": sum(range(400))}]


def test_a_statement_writes_a_table_of_iceberg_and_a_stream_reads_it(engine: Engine) -> None:
    name = f"lake.shop.t{uuid.uuid4().hex[:8]}"
    merge = (
        f"CREATE TABLE {name} (key STRING, number BIGINT) USING iceberg; INSERT INTO {name} VALUES ('a', 1), ('b', 2); "
        f"MERGE INTO {name} t USING (SELECT 'b' AS key, 3L AS number UNION ALL SELECT 'c', 4L) s ON t.key = s.key "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *; "
        f"SELECT * FROM {name} ORDER BY key"
    )
    assert engine.rows({"id": "merge", "sql": merge}) == [
        {"key": "a", "number": 1},
        {"key": "b", "number": 3},
        {"key": "c", "number": 4},
    ]
    appended = f"{name}_appended"
    insert = f"CREATE TABLE {appended} (key STRING, number BIGINT) USING iceberg; INSERT INTO {appended} SELECT * FROM {name}"
    engine.rows({"id": "insert", "sql": f"{insert}; SELECT 1 AS done"})
    settings = {"spark.eventflink.test.table": appended}
    source = {"python": "stream_tasks:rows_of_iceberg"}
    reading = Work(engine.cluster, sources={"source": source}, trigger={"available_now": True}, settings=settings)
    engine.cluster.wait_for_status(reading.submit(), JobStatus.FINISHED, TIMEOUT_S)
    rows = reading.reader.read_until(lambda rows: len(rows) >= 3, TIMEOUT_S)
    assert sorted((row["key"], row["number"]) for row in rows) == [("a", 1), ("b", 3), ("c", 4)]


def test_what_it_would_pass_over_is_refused_with_the_version_that_is_needed(engine: Engine) -> None:
    in_real_time = Work(engine.cluster, trigger={"real_time_ms": 5_000}, output_mode="update")
    in_real_time.stream["sink"] = {"kafka": {"topic": in_real_time.target, "guarantee": "at_least_once"}, "format": "json"}
    in_real_time.feed()
    said = engine.refusal_of(in_real_time.submit())
    assert f"a trigger in real time (real_time_ms, realTime) needs Spark 4.2, and this one is {engine.version}" in said
    task = {"id": "task", "python": "engine_tasks:named_source"}
    assert "a name of a streaming source needs Spark 4.2" in engine.refusal_of(engine.submit(task, restarts=1))


@pytest.mark.rule("P15")
def test_a_session_that_it_has_never_heard_of_is_closed_all_the_same(engine: Engine) -> None:
    session_id = str(uuid.uuid4())
    release_session(engine.spark, session_id)
    assert is_closed(session_address(engine.spark, session_id))

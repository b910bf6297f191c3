"""Batch jobs whose data sets are in an object store: no process has a disk for them, and what is lost or refused there loses no row."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from eventflink import connect
from eventflink.cli.checks import check_store
from eventflink.cli.failures import ExitCode
from eventflink.cli.finding import Finding, Verdict
from eventflink.cli.main import run
from eventflink.entrypoint.outside_looks import LookFailed, OutsideLook
from eventflink.events.log_events import TaskDeployed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.jobs.published import find_damage, write_file_list
from eventflink.jobs.stored_files import remove_folder, write_whole
from eventflink.master.effects import TableWatch
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.places import Place
from eventflink.model.schedules import FollowedTable, TableVersion
from eventflink.model.statuses import JobStatus
from tests.support import table_tasks
from tests.support.iceberg_tables import configured, loaded, numbers_of, table_of
from tests.support.object_store import ACCESS_KEY, BUCKET, ObjectStore, object_store
from tests.support.running_cluster import USER_TASKS, RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
JOB_TIMEOUT_S = 360
AWAY_S = 10
PLACE = f"s3://{BUCKET}/of a/cluster"
WAITS = """
import time
from pathlib import Path


def numbers(context):
    return context.share(context.spark.range(0, 3000, 1, 3).selectExpr("id", "id % 7 AS k"))


def held(context):
    here, rows = Path(context.parameters["here"]), context.inputs["numbers"]
    (here / f"waits-{context.subtask_index}").touch()
    while not (here / "gate").exists():
        time.sleep(0.05)
    return rows.groupBy("k").count()


def nothing(context):
    assert context.inputs["numbers"].count() == 3000
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store") / "store") as started:
        yield started


@pytest.fixture(scope="module")
def catalog(store: ObjectStore) -> IcebergCatalog:
    return store.make_catalog()


@pytest.fixture(scope="module")
def cluster(
    bootstrap: str, store: ObjectStore, catalog: IcebergCatalog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Two masters, of which one leads, and two TaskExecutors, which have a Spark."""
    settings = {
        "execution.working-directory": PLACE,
        "taskmanager.task.environment": "AWS_*",
        "spark.tables": "delta",
        **configured(catalog),
    }
    directory = tmp_path_factory.mktemp("cluster")
    with running_cluster(bootstrap, directory, **settings) as running:
        running.surroundings["cwd"] = directory
        running.start_master("first")
        running.start_standby("second")
        for name in ("tm-1", "tm-2"):
            running.start_task_executor(name, slots=2)
        yield running
        assert not (directory / "data" / "jobs").exists()
        assert not list(directory.glob("s3*"))
        assert store.keys()


@pytest.fixture
def graph(tmp_path: Path) -> dict[str, Any]:
    return {
        "name": "three",
        "vertices": [
            {"id": "numbers", "python": "waits:numbers", "parallelism": 2},
            {"id": "held", "python": "waits:held", "parallelism": 2, "parameters": {"here": str(tmp_path)}},
            {"id": "total", "sql": "SELECT sum(count) AS n, count(*) AS keys FROM held"},
        ],
        "edges": [{"from": "numbers", "to": "held", "ship": "hash", "keys": ["k"]}, {"from": "held", "to": "total"}],
        "restart_strategy": {"type": "none"},
    }


def _submit(cluster: RunningCluster, graph: dict[str, Any], here: Path) -> str:
    (here / "waits.py").write_text(WAITS)
    code = cluster.user_code(here / "waits.py", USER_TASKS)
    return cluster.submit(parse_job_graph(graph | {"code_archives": [code]}, "test"))


def _wait_until_held(here: Path) -> None:
    """Wait until both tasks have opened their input, and not computed from it."""
    wait_until(lambda: len(list(here.glob("waits-*"))) == 2, "tasks that wait", JOB_TIMEOUT_S)


def _failure_of(cluster: RunningCluster, job_id: str) -> str:
    cause = cluster.wait_for_status(job_id, JobStatus.FAILED, JOB_TIMEOUT_S).cause
    assert cause is not None
    return f"{cause.failure_type}: {cause.message}"


def _objects_of(cluster: RunningCluster, store: ObjectStore, job_id: str, vertex_id: str = "") -> list[str]:
    return store.keys("/".join(filter(None, ["of a/cluster", cluster.cluster_id, job_id, vertex_id, ""])))


def _rows_of(cluster: RunningCluster, job_id: str) -> list[dict[str, Any]]:
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        rows: list[dict[str, Any]] = client.job(job_id).result().to_arrow().to_pylist()
    return rows


def test_a_job_outlives_a_task_executor_a_leader_and_ten_seconds_without_its_store(
    cluster: RunningCluster, store: ObjectStore, graph: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph["restart_strategy"] = {"type": "fixed-delay", "attempts": 5, "delay_ms": 100}
    job_id = _submit(cluster, graph, tmp_path)
    _wait_until_held(tmp_path)
    cluster.kill("tm-1")
    with DispatcherGateway(cluster.access) as gateway:
        cluster.kill(gateway.find_leader().master_id)
    cluster.start_standby("third")
    cluster.start_task_executor("tm-3", slots=2)
    store.leave()
    (tmp_path / "gate").touch()
    time.sleep(AWAY_S)
    store.answer()
    cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _rows_of(cluster, job_id) == [{"n": 3000, "keys": 7}]
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    assert run([*options, "result", job_id, "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["rows"] == [{"n": 3000, "keys": 7}]
    wait_until(
        lambda: _objects_of(cluster, store, job_id) == _objects_of(cluster, store, job_id, "total"),
        "intermediate data are gone",
        JOB_TIMEOUT_S,
    )


def test_what_the_store_refuses_is_named_and_what_had_finished_is_reused(
    cluster: RunningCluster, store: ObjectStore, graph: dict[str, Any], tmp_path: Path
) -> None:
    job_id = _submit(cluster, graph, tmp_path)
    _wait_until_held(tmp_path)
    store.answer("Read", "List")
    (tmp_path / "gate").touch()
    said = _failure_of(cluster, job_id)
    store.answer()
    assert said.startswith("StoreFailed: vertex 'held': s3a://jobs/of a/cluster/"), said
    assert f"access key {ACCESS_KEY} must be allowed to read, write, list and delete below execution.working-directory" in said
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        again = client.job(job_id).rerun(failed=True)
        assert again.wait(timeout_s=JOB_TIMEOUT_S).status is JobStatus.FINISHED
    assert {e.vertex_id for e in cluster.events_of(again.job_id) if isinstance(e, TaskDeployed)} == {"held", "total"}
    assert _rows_of(cluster, again.job_id) == [{"n": 3000, "keys": 7}]


@pytest.mark.parametrize(("damage", "says"), [("gone", "is gone"), ("shorter", "bytes, and had")])
def test_an_object_that_is_gone_or_changed_fails_the_job_by_its_name(
    cluster: RunningCluster, store: ObjectStore, graph: dict[str, Any], tmp_path: Path, damage: str, says: str
) -> None:
    job_id = _submit(cluster, graph, tmp_path)
    _wait_until_held(tmp_path)
    name = next(key for key in _objects_of(cluster, store, job_id, "numbers") if key.endswith(".parquet"))
    path, files = f"{BUCKET}/{name}", store.files()
    if damage == "gone":
        files.rm_file(path)
    else:
        files.pipe_file(path, files.cat_file(path)[:-9])
    (tmp_path / "gate").touch()
    said = _failure_of(cluster, job_id)
    assert said.startswith("InputLost: vertex 'held': input 'numbers' has lost what subtask "), said
    assert f"s3a://{path} " in said
    assert says in said


def test_another_object_of_the_same_length_is_damage(store: ObjectStore, tmp_path: Path) -> None:
    place, rows = Place(f"s3a://{BUCKET}/another"), tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3]}), rows)
    write_whole(place / "part-0.parquet", rows.read_bytes())
    output = write_file_list("default", place, 3)
    assert find_damage(output) is None
    write_whole(place / "part-0.parquet", rows.read_bytes().replace(b"PAR1", b"PAR2"))
    assert find_damage(output) == f"{place}/part-0.parquet is another object than was written"
    remove_folder(Place(f"s3a://{BUCKET}"), "another", [])
    assert not store.keys("another")


def test_doctor_says_what_this_process_may_do_in_the_store_and_leaves_nothing_there(store: ObjectStore) -> None:
    place = Place(f"s3a://{BUCKET}/of doctor")
    assert check_store(place) == Finding("store", Verdict.OK, f"{place} can be written, read, listed and cleaned by this process")
    assert not store.keys("of doctor")
    store.answer("Read", "List")
    found = check_store(place)
    store.answer()
    assert found.verdict is Verdict.FAILED
    assert f"access key {ACCESS_KEY} must be allowed to read, write, list and delete" in found.detail
    found = check_store(Place("s3a://no-such-bucket/at-all"))
    assert (found.verdict, "no-such-bucket" in found.detail) == (Verdict.FAILED, True)


def test_new_versions_of_a_table_and_a_file_in_the_store_are_seen(store: ObjectStore) -> None:
    path, file, look = f"s3a://{BUCKET}/looks/sales", f"s3a://{BUCKET}/looks/day=1/_SUCCESS", OutsideLook(())
    told, rows = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **store.environment}, pa.table({"n": [1]})

    def seen(table_id: str = "", cursor: int | None = None, since_ms: int | None = None) -> tuple[str, int, int] | None:
        place = TableVersion(cursor) if cursor is not None else None
        found = look.look([TableWatch("s", FollowedTable(path), table_id, place, since_ms)])
        return (found[0].table_id, found[0].base.number, found[0].last.number) if found else None

    with pytest.raises(LookFailed, match=f"table of Delta not found: {path} has no _delta_log with commits"):
        seen()
    for _ in range(3):
        write_deltalake(path, rows, mode="append", storage_options=told)
    first = str(DeltaTable(path, storage_options=told).metadata().id)
    assert seen() == (first, -1, 2)
    assert seen(since_ms=time.time_ns() // 1_000_000 + 3_600_000) == (first, 2, 2), "the store says when each commit was written"
    write_deltalake(path, rows, mode="append", storage_options=told)
    assert (seen(first, 2), seen(first, 3)) == ((first, 2, 3), None)
    remove_folder(Place(f"s3a://{BUCKET}/looks"), "sales", [])
    for _ in range(4):
        write_deltalake(path, rows, mode="append", storage_options=told)
    anew = seen(first, 3)
    assert anew == (str(DeltaTable(path, storage_options=told).metadata().id), -1, 3)
    assert anew[0] != first
    assert not look.is_there(file)
    write_whole(Place(file), b"")
    assert look.is_there(file)
    store.answer("Write")
    with pytest.raises(LookFailed, match=r"Forbidden|Access ?Denied"):
        look.is_there(file)
    store.answer()
    remove_folder(Place(f"s3a://{BUCKET}"), "looks", [])


def test_a_job_without_a_result_leaves_no_object(cluster: RunningCluster, store: ObjectStore, tmp_path: Path) -> None:
    vertices = [{"id": "numbers", "python": "waits:numbers"}, {"id": "nothing", "python": "waits:nothing"}]
    edges = [{"from": "numbers", "to": "nothing"}]
    job_id = _submit(cluster, {"name": "nothing", "vertices": vertices, "edges": edges}, tmp_path)
    cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    wait_until(lambda: not _objects_of(cluster, store, job_id), "all objects of the job are gone", JOB_TIMEOUT_S)


def test_a_table_in_the_store_has_the_rows_of_each_task_once_though_it_dies_when_they_are_there(
    cluster: RunningCluster, store: ObjectStore
) -> None:
    table = f"s3a://{BUCKET}/tables/numbers"
    vertex = {
        "id": "numbers",
        "python": "table_tasks:numbers_of_its_own",
        "parallelism": 2,
        "sink": {"table": {"path": table}, "format": "delta"},
    }
    strategy = {"type": "fixed-delay", "attempts": 5, "delay_ms": 100}
    code = cluster.user_code(Path(table_tasks.__file__))
    job_id = cluster.submit(
        parse_job_graph({"name": "table", "vertices": [vertex], "restart_strategy": strategy, "code_archives": [code]}, "test")
    )
    cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    told = {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **store.environment}
    rows = DeltaTable(table, storage_options=told).to_pyarrow_table(columns=["number"])["number"].to_pylist()
    assert sorted(rows) == list(range(200)), "each attempt has numbers of its own"


@pytest.mark.soak("eventflink.streams", "eventflink.taskexecutor")
@pytest.mark.rule("P17")
def test_a_table_of_a_catalogue_over_rest_has_the_rows_of_each_task_once_though_it_dies_when_they_are_there(
    cluster: RunningCluster, store: ObjectStore, catalog: IcebergCatalog
) -> None:
    lake, numbers, parted = loaded(catalog), "shop.numbers", "shop.parted"
    lake.create_namespace("shop")
    columns = Schema(NestedField(1, "number", LongType(), required=False), NestedField(2, "odd", StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1_000, IdentityTransform(), "odd"))
    for name, by in ((numbers, PartitionSpec()), (parted, spec)):
        lake.create_table(name, columns, partition_spec=by, properties={"write.data.path": f"s3://{BUCKET}/lake/{name}"})
    vertex = {
        "id": "numbers",
        "python": "table_tasks:numbers_in_iceberg",
        "parallelism": 2,
        "sink": {"table": {"catalog": catalog.name, "name": numbers}, "format": "iceberg"},
    }
    strategy = {"type": "fixed-delay", "attempts": 5, "delay_ms": 100}
    code = cluster.user_code(Path(table_tasks.__file__))
    job_id = cluster.submit(
        parse_job_graph({"name": "table", "vertices": [vertex], "restart_strategy": strategy, "code_archives": [code]}, "test")
    )
    cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert numbers_of(catalog, numbers) == list(range(200)), "each attempt has numbers of its own"
    assert store.keys(f"lake/{numbers}/")
    even = "SELECT id * 2 AS number, CAST(id % 2 AS STRING) AS odd FROM range(10)"
    table = {"catalog": catalog.name, "name": parted, "partition_by": ["odd"], "mode": "overwrite-partitions"}
    for _ in range(2):
        job_id = cluster.submit(cluster.graph({"id": "write", "sql": even, "sink": {"table": table, "format": "iceberg"}}))
        cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert numbers_of(catalog, parted) == list(range(0, 20, 2))
    assert len(table_of(catalog, parted).snapshots()) == 2
    source = {"table": {"catalog": catalog.name, "name": parted, "where": "odd = '1'"}, "format": "iceberg"}
    job_id = cluster.submit(cluster.graph({"id": "read", "sql": "SELECT sum(number) AS total FROM sales", "sources": {"sales": source}}))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, JOB_TIMEOUT_S)
    assert _rows_of(cluster, job_id) == [{"total": 50}]

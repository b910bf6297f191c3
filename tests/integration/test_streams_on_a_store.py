"""Streams whose checkpoints and savepoints are in an object store, on hosts that share no disk: nothing is lost and nothing comes twice."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from eventflink.events.log_events import StreamStarted, TaskFailed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import CheckpointFailed
from eventflink.jobs.stored_files import remove_folder
from eventflink.model.places import S3, Place
from eventflink.model.statuses import JobStatus
from eventflink.streams.delta_table import LOG_STORE_SETTING
from eventflink.streams.savepoint import dispose_savepoint, read_savepoint
from eventflink.taskexecutor.spark_file_system import CHECKPOINT_FILES_SETTING, FILE_MANAGER_SETTING, file_system_settings
from eventflink.taskexecutor.spark_jars import CLASS_PATH, DELTA, store_settings, table_settings
from tests.support.late_work import check_told_apart
from tests.support.object_store import ACCESS_KEY, BUCKET, ObjectStore, object_store
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.spark_work import count_committers, count_writers
from tests.support.stream_work import SPARK_TIMEOUT_S, Work

pytestmark = pytest.mark.slow

PLACE = f"s3://{BUCKET}/of a/cluster"
AWAY_S = 10
STATEFUL = {
    "output_mode": "update",
    "settings": {
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store") / "store") as started:
        yield started


class Hosts:
    """A cluster with a master, whose TaskExecutors run one after the other, each with a disk and a Spark of its own: no other sees them."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self._count = 0

    @property
    def disk(self) -> Path:
        """What the newest host has for a disk."""
        return self.cluster.directory / f"host-{self._count}"

    def add(self) -> None:
        """Let another host have a TaskExecutor."""
        secrets = self.cluster.directory / "data" / "secrets"
        self._count += 1
        name = f"tm-{self._count}"
        shutil.copytree(secrets, self.disk / "secrets")
        settings = {"taskmanager.id": name, "taskmanager.numberOfTaskSlots": 2, "data.directory": self.disk}
        self.cluster.start(name, "taskexecutor", **settings)
        self.cluster.wait_for(lambda fold: name in fold.master.resource_manager.task_managers, f"{name} registered")

    def lose(self) -> None:
        """Kill what runs on the newest host."""
        [spark] = self.cluster.spark_processes("SparkConnectServer", self.disk)
        spark.kill()
        self.cluster.kill(f"tm-{self._count}")


@pytest.fixture(scope="module")
def hosts(bootstrap: str, store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    settings = {"execution.working-directory": PLACE, "taskmanager.task.environment": "AWS_*"}
    directory = tmp_path_factory.mktemp("cluster")
    assert not store.keys("of a/cluster/")
    with running_cluster(bootstrap, directory, **settings) as running:
        running.surroundings["cwd"] = directory
        running.start_master()
        found = Hosts(running)
        found.add()
        yield found
        assert not list(directory.rglob("checkpoint.*"))
        assert not list(directory.glob("s3*"))


def starts_of(cluster: RunningCluster, job_id: str) -> list[StreamStarted]:
    return [event for event in cluster.events_of(job_id) if isinstance(event, StreamStarted)]


def failures_of(cluster: RunningCluster, job_id: str) -> list[str]:
    causes = [event.cause for event in cluster.events_of(job_id) if isinstance(event, TaskFailed)]
    return [f"{cause.failure_type}: {cause.message}" for cause in causes]


def wait_for_another_start(cluster: RunningCluster, job_id: str, before: int) -> StreamStarted:
    started: StreamStarted = wait_until(lambda: starts_of(cluster, job_id)[before:], "the next attempt", SPARK_TIMEOUT_S)[0]
    return started


def test_of_two_writers_of_a_batch_in_the_store_one_commits_it(store: ObjectStore) -> None:
    spark_jars = Path(str(pyspark.__file__)).parent / "jars"
    of_spark, of_store = file_system_settings(spark_jars), store_settings(S3, store.environment)
    class_path = ":".join([of_spark[CLASS_PATH], of_store.pop(CLASS_PATH), f"{spark_jars}/*"])
    told = {key.removeprefix("spark.hadoop."): value for key, value in of_store.items()}
    told[FILE_MANAGER_SETTING] = of_spark[CHECKPOINT_FILES_SETTING]
    assert count_writers(class_path, f"s3a://{BUCKET}/two writers", 50, told) == [1] * 50 + [0]
    assert len(store.keys("two writers/")) == 50
    remove_folder(Place(f"s3a://{BUCKET}"), "two writers", ())


def test_of_two_sparks_that_commit_a_version_of_a_table_in_the_store_one_has_committed_it(store: ObjectStore) -> None:
    spark_jars = Path(str(pyspark.__file__)).parent / "jars"
    of_tables, of_store = table_settings(DELTA, spark_jars), store_settings(S3, store.environment)
    class_path = ":".join([of_tables[CLASS_PATH], of_store.pop(CLASS_PATH), f"{spark_jars}/*"])
    told = {key.removeprefix("spark.hadoop."): value for key, value in of_store.items()}
    found = count_committers(class_path, f"s3a://{BUCKET}/two sparks", 50, of_tables[LOG_STORE_SETTING], told)
    assert found == ["1"] * 50 + ["2", "over it"], "a request that is repeated has succeeded, and one of somebody else has not"
    remove_folder(Place(f"s3a://{BUCKET}"), "two sparks", ())


@pytest.mark.rule("S1")
def test_streams_outlive_their_task_their_spark_with_its_host_and_their_store(hosts: Hosts, store: ObjectStore) -> None:
    cluster = hosts.cluster
    copied, counted = Work(cluster), Work(cluster, "count_by_key", **STATEFUL)
    works = {work.submit(): work for work in (copied, counted)}
    [copying, _] = works

    def check() -> None:
        for work in works.values():
            work.feed()
        copied.check_copied_once()
        counted.check_counted_once()

    check()
    copied.feed()
    cluster.wait_for_task_process(copying).kill()
    check()
    before = [len(starts_of(cluster, job_id)) for job_id in works]
    for work in works.values():
        work.feed()
    hosts.lose()
    hosts.add()
    check()
    for job_id, count in zip(works, before, strict=True):
        first, *_, last = starts_of(cluster, job_id)
        assert len(starts_of(cluster, job_id)) > count
        assert (first.query_id, first.location) == (last.query_id, last.location)
        assert last.location == f"s3a://{BUCKET}/of a/cluster/{cluster.cluster_id}/{job_id}/stream/checkpoint.0"
        assert last.restored_batch_id >= 0
    for work in works.values():
        work.feed()
    store.leave()
    time.sleep(AWAY_S)
    store.answer()
    check()
    before = [len(starts_of(cluster, job_id)) for job_id in works]
    store.answer("Read", "List")
    for work in works.values():
        work.feed()

    def refusals() -> list[str]:
        said = [each for job_id in works for each in failures_of(cluster, job_id)]
        return [each for each in said if each.startswith("StoreFailed") and "must be allowed" in each]

    [said, *_] = wait_until(refusals, "a refusal", SPARK_TIMEOUT_S)
    store.answer()
    check()
    assert f"s3a://{BUCKET}/of a/cluster/" in said
    assert f"access key {ACCESS_KEY} must be allowed to read, write, list and delete below execution.working-directory" in said
    for job_id, work in works.items():
        work.cancel(job_id)
    wait_until(lambda: not store.keys("of a/cluster/"), "what the jobs left is removed", SPARK_TIMEOUT_S)


@pytest.mark.rule("S3")
def test_a_job_begins_in_a_savepoint_of_the_store_once(hosts: Hosts, store: ObjectStore) -> None:
    cluster = hosts.cluster
    work = Work(cluster, "count_by_key", **STATEFUL)
    work.feed()
    job_id = work.submit()
    work.check_counted_once()
    with DispatcherGateway(cluster.access) as gateway:
        with pytest.raises(CheckpointFailed, match=rf"s3a://forbidden/.*{ACCESS_KEY} must .* below execution.checkpointing.savepoint-dir"):
            gateway.trigger_savepoint(job_id, "s3://forbidden")
        path = gateway.stop_with_savepoint(job_id, f"s3://{BUCKET}/savepoints").savepoint_path
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    [part] = read_savepoint(path).parts
    assert [(operator.name, operator.partitions) for operator in part.operators] == [("stateStoreSave", 2)]
    work.feed()
    job_id = work.submit(savepoint=path)
    assert work.wait_for_start(job_id).restored_batch_id == part.batch_id
    work.check_counted_once()
    dispose_savepoint(path)
    assert not store.keys("savepoints")
    before = len(starts_of(cluster, job_id))
    cluster.wait_for_task_process(job_id).kill()
    wait_for_another_start(cluster, job_id, before)
    work.feed()
    work.check_counted_once()
    work.cancel(job_id)


@pytest.mark.soak("eventflink.streams", "eventflink.jobs")
def test_late_rows_and_edges_read_their_notes_in_the_store(hosts: Hosts) -> None:
    check_told_apart(hosts.cluster, "edge")

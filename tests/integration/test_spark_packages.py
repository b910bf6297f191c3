"""Spark with packages from Maven, which `spark.jars.packages` names: fetched when Spark starts, and named when they cannot be."""

import socket
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from eventflink.jobs.result import read_result
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow

KAFKA_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
FETCH_TIMEOUT_S = 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_master()
        yield running


@pytest.fixture
def topics(bootstrap: str) -> Iterator[tuple[str, str]]:
    """Two topics of three partitions, the first of which holds 100 records."""
    admin, names = AdminClient({"bootstrap.servers": bootstrap}), (f"in-{uuid.uuid4().hex}", f"out-{uuid.uuid4().hex}")
    for made in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        made.result(120)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(100):
        producer.produce(names[0], key=str(number), value=f"v{number}")
    assert producer.flush(30) == 0
    yield names
    for deleted in admin.delete_topics(list(names)).values():
        deleted.result(120)


def test_a_task_reads_kafka_and_copies_a_topic_as_a_stream_with_the_connector_and_spark_shows_its_own_pages(
    cluster: RunningCluster, topics: tuple[str, str], tmp_path: Path
) -> None:
    ui_port = free_port()
    cluster.overrides |= {"spark.jars.packages": KAFKA_CONNECTOR, "spark.local.ui-port": ui_port}
    cluster.start_task_executor()
    source, target = topics
    job_id = cluster.run_task(
        "copy_topic", bootstrap=cluster.bootstrap, source=source, target=target, checkpoints=str(tmp_path / "checkpoints")
    )
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED, FETCH_TIMEOUT_S)
    (subtask,) = job.execution_graph.subtasks()
    rows = read_result(subtask.outputs, 1_000).to_pylist()
    expected = [{"topic": topic, "value": f"v{number}"} for topic in topics for number in range(100)]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    with urllib.request.urlopen(f"http://127.0.0.1:{ui_port}/jobs/", timeout=120) as page:
        assert "<title>eventflink - Spark Jobs</title>" in page.read().decode()


def test_a_package_that_is_nowhere_fails_the_job_by_its_name(cluster: RunningCluster) -> None:
    cluster.overrides["spark.jars.packages"] = "org.example:no-such-thing:1.0"
    cluster.start_task_executor()
    job_id = cluster.run_task("numbers", count=10)
    job = cluster.wait_for_status(job_id, JobStatus.FAILED, FETCH_TIMEOUT_S)
    assert "unresolved dependency: org.example#no-such-thing;1.0: not found" in str(job.cause)

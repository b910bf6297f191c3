"""Streams in real time on a real cluster: records arrive before their batch ends, and what is killed costs none of them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.log_events import StreamStarted
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus
from tests.integration.test_streams import SPARK_TIMEOUT_S
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow

BATCH_MS = 10_000
CORES = 3
"""Of Spark: a query in real time keeps one for each partition."""


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("real-time"), **{"spark.local.master": f"local[{CORES}]"}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


class Copy:
    """A stream that copies a topic of two partitions, fed and read by the test."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.source, self.target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
        self.reader = CommittedReader(cluster.bootstrap, self.target)
        self.fed = 0

    def feed(self, count: int = 100) -> None:
        numbers = range(self.fed, self.fed + count)
        feed(self.cluster.bootstrap, self.source, ({"key": f"k{number % 7}", "number": number} for number in numbers))
        self.fed += count

    def submit(self, trigger: dict[str, Any], savepoint: str | None = None, function: str = "copy") -> str:
        stream = {
            "sources": {"source": {"kafka": {"topic": self.source}, "format": "json", "schema": "key STRING, number BIGINT"}},
            "sink": {"kafka": {"topic": self.target, "key": ["key"], "guarantee": "at_least_once"}, "format": "json"},
            "trigger": trigger,
            "output_mode": "update",
        }
        vertex = {"id": "stream", "python": f"stream_tasks:{function}", "stream": stream}
        restore = {} if savepoint is None else {"restore": {"savepoint": savepoint}}
        strategy = {"type": "fixed-delay", "attempts": 20, "delay_ms": 100} if function == "copy" else {"type": "none"}
        archive = self.cluster.user_code(Path(stream_tasks.__file__))
        return self.cluster.submit(self.cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive], **restore))

    def wait_until_copied(self) -> None:
        self.reader.read_until(lambda rows: len({row["number"] for row in rows}) >= self.fed, SPARK_TIMEOUT_S)

    def check_that_none_is_missing(self) -> None:
        self.wait_until_copied()
        assert {row["number"] for row in self.reader.rows} == set(range(self.fed))

    def cancel(self, job_id: str) -> None:
        with DispatcherGateway(self.cluster.access) as gateway:
            gateway.cancel_job(job_id)
        self.cluster.wait_for_status(job_id, JobStatus.CANCELED)
        self.reader.close()


def test_records_arrive_before_their_batch_ends_and_a_killed_task_loses_none(cluster: RunningCluster) -> None:
    copy = Copy(cluster)
    copy.feed()
    job_id = copy.submit({"real_time_ms": BATCH_MS})
    copy.wait_until_copied()
    took_s = []
    for _ in range(10):
        began_s = time.monotonic()
        copy.feed(10)
        copy.wait_until_copied()
        took_s.append(time.monotonic() - began_s)
        time.sleep(0.3)
    assert sorted(took_s)[5] < 0.6 * BATCH_MS / 1000
    for attempt in (1, 2):
        copy.feed()
        cluster.wait_for_task_process(job_id).kill()
        copy.feed()
        wait_until(lambda: len(starts(cluster, job_id)) >= attempt + 1, "the next attempt", SPARK_TIMEOUT_S)  # noqa: B023 - called here
        copy.feed()
        copy.check_that_none_is_missing()
    [source] = wait_for_progress(cluster, job_id).sources
    assert source.records_behind == 0
    copy.cancel(job_id)


def starts(cluster: RunningCluster, job_id: str) -> list[StreamStarted]:
    return [event for event in cluster.events_of(job_id) if isinstance(event, StreamStarted)]


def wait_for_progress(cluster: RunningCluster, job_id: str) -> Any:
    """Return what a checkpoint says of the stream once a batch of its newest attempt has ended with nothing left to read."""
    with DispatcherGateway(cluster.access) as gateway:

        def progress() -> Any:
            gateway.trigger_checkpoint(job_id)
            said = [event.progress for event in cluster.events_of(job_id) if hasattr(event, "progress")][-1]
            return said if said.sources and not said.sources[0].records_behind else None

        return wait_until(progress, "a batch", SPARK_TIMEOUT_S)


def test_a_stream_in_real_time_stops_with_a_savepoint_and_goes_on_by_batches(cluster: RunningCluster, tmp_path: Path) -> None:
    copy = Copy(cluster)
    copy.feed()
    job_id = copy.submit({"real_time_ms": BATCH_MS})
    copy.wait_until_copied()
    wait_for_progress(cluster, job_id)
    copy.feed()
    with DispatcherGateway(cluster.access) as gateway:
        path = gateway.stop_with_savepoint(job_id, str(tmp_path)).savepoint_path
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    copy.feed()
    by_batches = copy.submit({"processing_time_ms": 100}, path)
    copy.check_that_none_is_missing()
    with DispatcherGateway(cluster.access) as gateway:
        path = gateway.stop_with_savepoint(by_batches, str(tmp_path)).savepoint_path
    cluster.wait_for_status(by_batches, JobStatus.FINISHED)
    copy.feed()
    again = copy.submit({"real_time_ms": BATCH_MS}, path)
    copy.check_that_none_is_missing()
    copy.reader.read(1.0)
    numbers = [row["number"] for row in copy.reader.rows]
    assert all(numbers.count(number) == 1 for number in range(300, 400)), "what was read after the last savepoint comes once"
    copy.cancel(again)


def test_what_spark_cannot_do_in_real_time_is_said(cluster: RunningCluster) -> None:
    copy = Copy(cluster)
    copy.feed()
    for source, reason in (
        (copy.source, "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
        (create_topic(cluster.bootstrap, CORES + 1), f"this subtask reads {CORES + 1}, and Spark has {CORES}"),
    ):
        copy.source = source
        job_id = copy.submit({"real_time_ms": BATCH_MS}, function="count_by_key")
        cause = cluster.wait_for_status(job_id, JobStatus.FAILED, SPARK_TIMEOUT_S).cause
        assert cause is not None
        assert reason in cause.message
    copy.reader.close()

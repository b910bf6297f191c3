"""What a stream of a test reads, what it makes of it, and whether each row of it counted once."""

from pathlib import Path
from typing import Any

from eventflink.events.log_events import StreamStarted
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import JobStatus
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, wait_until
from tests.support.topics import CommittedReader, create_topic, feed

CODE = Path(stream_tasks.__file__)
SPARK_TIMEOUT_S = 360
KEYS = 7


class Work:
    """A topic, what a stream makes of it in another, and who runs it: one job after the other."""

    def __init__(self, cluster: RunningCluster, function: str = "copy", **stream: Any) -> None:
        self.cluster, self.function, self.stream = cluster, function, stream
        self.source = create_topic(cluster.bootstrap)
        self.target = create_topic(cluster.bootstrap, 1)  # So what is read has the order in which it was written.
        self.reader = CommittedReader(cluster.bootstrap, self.target)
        self.fed = 0

    def feed(self, count: int = 300) -> None:
        numbers = range(self.fed, self.fed + count)
        feed(self.cluster.bootstrap, self.source, ({"key": f"k{number % KEYS}", "number": number} for number in numbers))
        self.fed += count

    def submit(self, *arguments: Any, **options: Any) -> str:
        """Submit the graph that `graph` returns for these arguments."""
        return self.cluster.submit(self.graph(*arguments, **options))

    def graph(self, vertex_id: str = "stream", savepoint: str | None = None, *, parallelism: int = 1, **more: Any) -> JobGraph:
        source = {"kafka": {"topic": self.source}, "format": "json", "schema": "key STRING, number BIGINT"}
        stream = {"sources": {"source": source}, "sink": {"kafka": {"topic": self.target}, "format": "json"}, **self.stream, **more}
        vertex = {"id": vertex_id, "python": f"stream_tasks:{self.function}", "stream": stream, "parallelism": parallelism}
        restore = {} if savepoint is None else {"restore": {"savepoint": savepoint}}
        strategy = {"type": "fixed-delay", "attempts": 20, "delay_ms": 100}
        archive = self.cluster.user_code(CODE)
        return self.cluster.graph(vertex, restart_strategy=strategy, code_archives=[archive], **restore)

    def wait_for_start(self, job_id: str) -> StreamStarted:
        def started() -> list[StreamStarted]:
            return [event for event in self.cluster.events_of(job_id) if isinstance(event, StreamStarted)]

        first: StreamStarted = wait_until(started, "its query runs", SPARK_TIMEOUT_S)[0]
        return first

    def wait_until_copied(self) -> None:
        self.reader.read_until(lambda rows: len({row["number"] for row in rows}) >= self.fed, SPARK_TIMEOUT_S)

    def check_copied_once(self) -> None:
        self.wait_until_copied()
        self.reader.read(1.0)
        assert sorted(row["number"] for row in self.reader.rows) == list(range(self.fed))

    def check_counted_once(self) -> None:
        """The last count of each key is right, and no count of any was told twice."""
        counts = {f"k{key}": len([n for n in range(self.fed) if n % KEYS == key]) for key in range(KEYS)}
        self.reader.read_until(lambda rows: {row["key"]: row["count"] for row in rows} == counts, SPARK_TIMEOUT_S)
        for key in counts:
            seen = [row["count"] for row in self.reader.rows if row["key"] == key]
            assert seen == sorted(set(seen))

    def cancel(self, job_id: str) -> None:
        with DispatcherGateway(self.cluster.access) as gateway:
            gateway.cancel_job(job_id)
        self.cluster.wait_for_status(job_id, JobStatus.CANCELED)
        self.reader.close()

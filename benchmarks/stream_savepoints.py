"""What a savepoint costs, by the number of keys that its stream has in state: to stop with one, and to begin in one.

The query counts by key, and each key is fed once, so the state has as many rows as records were fed. That the restored job has all of it is
seen at its result: a record of a known key makes that key's count two, for each key that is asked.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.stream_cluster import START_TIMEOUT_S, StreamCluster
from benchmarks.stream_traffic import SCHEMA, Arrivals, Feed, StreamTopics, stream_topics
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.job_graph import JobGraph, SavepointRestore
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.streams.savepoint import read_savepoint

PROBES: Final = 100
"""How many keys are asked of the restored job."""

_SQL: Final = "SELECT number, count(*) AS fed_ns FROM source GROUP BY number"
"""The count stands where the traffic has its time."""

_ALL_TIMEOUT_S: Final = 600.0
_SAVEPOINT_TIMEOUT_S: Final = 300.0
_PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class SavepointFigures:
    """One number of keys."""

    keys: int
    stop_ms: float
    """From the request until the savepoint is complete."""
    copy_ms: int
    """Of that, as the subtask measured it: the copy, and what its sink had begun."""
    files: int
    bytes: int
    first_start_ms: float
    """From the submission of the job without a savepoint until its first commit."""
    restored_start_ms: float
    """The same of the job that begins in the savepoint, with records that wait for it."""
    counted_right: int
    """How many of the keys that were asked had the count of both jobs together."""


def measure_savepoints(cluster: StreamCluster, numbers_of_keys: Sequence[int], say: Callable[[str], None]) -> list[SavepointFigures]:
    """Measure each number of keys, in a cluster of which nothing is started yet.

    Raises:
        NotSeen, ChildDied, GatewayError, TrafficFailed: the cluster did not do its work.

    """
    cluster.start(1)
    with tempfile.TemporaryDirectory(prefix="eventflink-savepoints-") as directory:
        return [_measure(cluster, keys, Path(directory), say) for keys in numbers_of_keys]


def _measure(cluster: StreamCluster, keys: int, directory: Path, say: Callable[[str], None]) -> SavepointFigures:
    say(f"a savepoint of {keys:,} keys")
    with stream_topics(cluster.bootstrap) as topics, Feed(cluster.bootstrap, topics.source) as feed:
        graph = _graph(topics)
        feed.fill(keys)
        with _started(cluster, topics, graph) as (arrivals, job_id, first_start_ms):
            arrivals.wait_for(lambda seen: len(seen) >= keys, "the counts of all keys", _ALL_TIMEOUT_S)
            began_s = time.monotonic()
            with DispatcherGateway(cluster.access) as gateway:
                taken = gateway.stop_with_savepoint(job_id, str(directory), _SAVEPOINT_TIMEOUT_S, actor="benchmark")
            stop_ms = (time.monotonic() - began_s) * 1000
        [part] = read_savepoint(taken.savepoint_path).parts
        feed.fed = 0
        feed.fill(PROBES)
        restored = replace(graph, restore=SavepointRestore(taken.savepoint_path))
        with _started(cluster, topics, restored, seen_before=keys) as (arrivals, _, restored_start_ms):
            seen = arrivals.wait_for(lambda seen: len(seen) >= keys + PROBES, "the counts of what was fed again", _ALL_TIMEOUT_S)
        right = sum(arrival.fed_ns == 2 for arrival in seen[keys:])  # noqa: PLR2004 - fed once for each job
    return SavepointFigures(keys, stop_ms, part.copy_ms, part.files, part.bytes, first_start_ms, restored_start_ms, right)


@contextmanager
def _started(cluster: StreamCluster, topics: StreamTopics, graph: JobGraph, seen_before: int = 0) -> Iterator[tuple[Arrivals, str, float]]:
    """Run a job; yield what comes out of its topic, its id, and how long it took until its first commit."""
    with Arrivals(cluster.bootstrap, topics.target) as arrivals:
        arrivals.wait_for(lambda seen: len(seen) >= seen_before, "what was committed before", _ALL_TIMEOUT_S)
        began_s = time.monotonic()
        with cluster.running(graph) as job:
            arrivals.wait_for(lambda seen: len(seen) > seen_before, "the first commit", START_TIMEOUT_S)
            yield arrivals, job.job_id, (time.monotonic() - began_s) * 1000


def _graph(topics: StreamTopics) -> JobGraph:
    stream: dict[str, Any] = {
        "sources": {"source": {"kafka": {"topic": topics.source}, "format": "json", "schema": SCHEMA}},
        "sink": {"kafka": {"topic": topics.target}, "format": "json"},
        "output_mode": "update",
        "settings": {"spark.sql.shuffle.partitions": _PARTITIONS},
    }
    return parse_job_graph({"name": "keys", "vertices": [{"id": "stream", "sql": _SQL, "stream": stream}]}, "keys")

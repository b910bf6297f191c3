"""How long a record takes through a stream: from the moment it is fed until a reader of committed records has it, by trigger."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.report import Distribution
from benchmarks.stream_cluster import START_TIMEOUT_S, StreamCluster, stream_graph
from benchmarks.stream_counts import Counts, count_records
from benchmarks.stream_traffic import PARTITIONS, Arrivals, Feed, stream_topics

TRIGGERS: Final = (("processing_time_ms", 0), ("processing_time_ms", 100), ("processing_time_ms", 500), ("real_time_ms", 5_000))
CORES: Final = PARTITIONS
"""A stream in real time keeps one for each partition."""
RECORDS_PER_S: Final = 100.0
WARM_UP_S: Final = 10.0
"""Or for as long as is measured, where that is shorter."""

_ALL_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """One trigger."""

    trigger: str
    """As the graph names it."""
    trigger_ms: int
    records_per_s: float
    latency_ms: Distribution
    counts: Counts


def measure_latency(cluster: StreamCluster, *, seconds: float, say: Callable[[str], None]) -> list[LatencyFigures]:
    """Measure each trigger for so long, in a cluster of which nothing is started yet.

    Raises:
        NotSeen, ChildDied, GatewayError, TrafficFailed: the cluster did not do its work, or lost records.

    """
    cluster.start(1)
    return [_measure(cluster, trigger, seconds, say) for trigger in TRIGGERS]


def _measure(cluster: StreamCluster, trigger: tuple[str, int], seconds: float, say: Callable[[str], None]) -> LatencyFigures:
    name, trigger_ms = trigger
    say(f"{name} {trigger_ms}, {RECORDS_PER_S:.0f} records/s for {seconds:.0f} s")
    with (
        stream_topics(cluster.bootstrap) as topics,
        Feed(cluster.bootstrap, topics.source) as feed,
        Arrivals(cluster.bootstrap, topics.target) as arrivals,
        cluster.running(stream_graph(topics, {name: trigger_ms})),
    ):
        feed.start(RECORDS_PER_S)
        arrivals.wait_for(bool, "the first records", START_TIMEOUT_S)
        time.sleep(min(WARM_UP_S, seconds))
        first = feed.fed
        time.sleep(seconds)
        last, fed = feed.fed, feed.stop()
        seen = arrivals.wait_for(lambda seen: len({arrival.number for arrival in seen}) >= fed, "all records", _ALL_TIMEOUT_S)
    measured = [arrival.latency_ms for arrival in seen if first <= arrival.number < last]
    return LatencyFigures(
        name, trigger_ms, RECORDS_PER_S, Distribution.of(measured), count_records(fed, [arrival.number for arrival in seen])
    )

"""How long a record takes through a stream: from the moment it is fed until a reader of committed records has it, by trigger."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eventflink.lab.benchmarks.report import Distribution
from eventflink.lab.benchmarks.stream_cluster import START_TIMEOUT_S, StreamCluster, stream_graph
from eventflink.lab.benchmarks.stream_counts import Counts, count_records
from eventflink.lab.benchmarks.stream_traffic import Arrivals, Feed, stream_topics

TRIGGERS_MS: Final = (0, 100, 500)
RECORDS_PER_S: Final = 100.0
WARM_UP_S: Final = 10.0

_ALL_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """One trigger."""

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
    return [_measure(cluster, trigger_ms, seconds, say) for trigger_ms in TRIGGERS_MS]


def _measure(cluster: StreamCluster, trigger_ms: int, seconds: float, say: Callable[[str], None]) -> LatencyFigures:
    say(f"a batch each {trigger_ms} ms, {RECORDS_PER_S:.0f} records/s for {seconds:.0f} s")
    with (
        stream_topics(cluster.bootstrap) as topics,
        Feed(cluster.bootstrap, topics.source) as feed,
        Arrivals(cluster.bootstrap, topics.target) as arrivals,
        cluster.running(stream_graph(topics, {"processing_time_ms": trigger_ms})),
    ):
        feed.start(RECORDS_PER_S)
        arrivals.wait_for(bool, "the first records", START_TIMEOUT_S)
        time.sleep(WARM_UP_S)
        first = feed.fed
        time.sleep(seconds)
        last, fed = feed.fed, feed.stop()
        seen = arrivals.wait_for(lambda seen: len({arrival.number for arrival in seen}) >= fed, "all records", _ALL_TIMEOUT_S)
    measured = [arrival.latency_ms for arrival in seen if first <= arrival.number < last]
    return LatencyFigures(trigger_ms, RECORDS_PER_S, Distribution.of(measured), count_records(fed, [arrival.number for arrival in seen]))

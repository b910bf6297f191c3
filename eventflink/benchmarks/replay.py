"""How fast a master is back: events a second from a cold start to a validated state, beside the bare rate in the same run.

The bare rate is the same log consumed by confluent-kafka and decoded by fastavro with its writer's schema, nothing applied:
what no replay in this language can beat.
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from eventflink.benchmarks.log_generator import LogGenerator
from eventflink.benchmarks.report import Distribution
from eventflink.events.codec import HEADER_LENGTH, DecisionCodec
from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import delete_topics, ensure_topics
from eventflink.log.producers import producer_settings
from eventflink.log.replay import BATCH, consumer_settings, log_bounds, new_fold, replay

FLUSH_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """What was measured."""

    events: int
    records: int
    bytes: int
    replay_events_per_s: Distribution
    bare_events_per_s: Distribution
    share_of_bare: Distribution
    digest: str


class DigestsDiffer(Exception):
    """Two replays of one log ended in different states."""


def _produce_log(bootstrap: str, cluster_id: str, events: int) -> tuple[str, int, int, int]:
    """Write the log; return its digest, and how many events, records and bytes it has."""
    fold = new_fold()
    producer = Producer(producer_settings(bootstrap, 60_000))
    topic = topic_name(cluster_id, Topic.LOG)
    size = records = 0
    for value in LogGenerator(fold).records(events):
        producer.produce(topic, value=value, partition=0)
        producer.poll(0)
        records += 1
        size += len(value)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise TimeoutError(f"Kafka did not take the log within {FLUSH_TIMEOUT_S:.0f} s")
    return fold.master.digest(), fold.event_count, records, size


def _time_bare(bootstrap: str, cluster_id: str) -> float:
    """Return the seconds of the least loop there is: no offsets, no timestamps, no classes."""
    schema = DecisionCodec().registry.current
    started = time.perf_counter()
    _, high = log_bounds(bootstrap, cluster_id)
    consumer = Consumer(consumer_settings(bootstrap))
    consumer.assign([TopicPartition(topic_name(cluster_id, Topic.LOG), 0, OFFSET_BEGINNING)])
    count = 0
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    while count < high:
        messages = consumer.consume(min(BATCH, high - count), timeout=0.2)
        for message in messages:
            stream = io.BytesIO(message.value() or b"")
            stream.seek(HEADER_LENGTH)
            fastavro.schemaless_reader(stream, schema, None, return_record_name=True)
        count += len(messages)
        if time.monotonic() > deadline:
            raise TimeoutError(f"Kafka gave {count} of {high} records within {FLUSH_TIMEOUT_S:.0f} s")
    consumer.close()
    return time.perf_counter() - started


def _time_replay(bootstrap: str, cluster_id: str) -> tuple[float, str]:
    started = time.perf_counter()
    fold = replay(bootstrap, cluster_id, new_fold())
    fold.master.validate()
    elapsed = time.perf_counter() - started
    return elapsed, fold.master.digest()


def measure_replay(bootstrap: str, cluster_id: str, *, events: int, rounds: int, say: Callable[[str], None]) -> ReplayFigures:
    """Write a log of `events` events into a scratch cluster and replay it, in turn with the bare reading of it.

    Raises:
        DigestsDiffer: a replay did not end in the state that wrote the log.

    """
    ensure_topics(bootstrap, cluster_id)
    try:
        say(f"writing a log of {events:,} events")
        digest, count, records, size = _produce_log(bootstrap, cluster_id, events)
        bare, replayed, share = [], [], []
        for number in range(rounds + 1):
            bare_s = _time_bare(bootstrap, cluster_id)
            replay_s, found = _time_replay(bootstrap, cluster_id)
            if found != digest:
                raise DigestsDiffer(f"replay {number} ended in {found}, not in {digest}")
            if number:  # The first pair warms caches.
                bare.append(count / bare_s)
                replayed.append(count / replay_s)
                share.append(bare_s / replay_s)
                say(f"round {number}: replay {count / replay_s:,.0f} events/s, bare {count / bare_s:,.0f} events/s")
        return ReplayFigures(count, records, size, Distribution.of(replayed), Distribution.of(bare), Distribution.of(share), digest)
    finally:
        delete_topics(bootstrap, cluster_id)

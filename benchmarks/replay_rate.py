"""How fast a master is back: events a second from a cold start to a validated state, beside the bare rate in the same run.

The bare rate is the same log consumed by confluent-kafka and decoded by fastavro with its writer's schema as the file has it, nothing
applied: what any other reader of the log does at least. Then the same from a snapshot near the end of the log: seconds until the state
is there. What the state weighs is measured in processes of their own (`state_memory`).
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benchmarks.log_generator import LogGenerator
from benchmarks.report import Distribution
from benchmarks.state_memory import MemoryFigures, measure_memory
from eventflink.events.codec import HEADER_LENGTH
from eventflink.events.schemas import MARKER, fingerprint_of, registry_of
from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import delete_topics, ensure_topics, log_topic_id
from eventflink.log.clients import consumer_settings, producer_settings
from eventflink.log.pulled_partition import BATCH
from eventflink.log.replay import log_bounds, new_fold, replay
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.snapshots.loading import find_snapshot
from eventflink.snapshots.snapshot import take_snapshot
from eventflink.snapshots.topic import write_snapshot

FLUSH_TIMEOUT_S = 120.0
TAIL_RECORDS = 1_000
"""Behind the snapshot: what a cluster that takes one every 50,000 records has there is replayed in addition, at the rate measured."""

RUNNING_JOBS = 1_000
RUNNING_SHARE = 200
"""A short log has fewer running jobs: one for so many events."""


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """What was measured."""

    events: int
    records: int
    bytes: int
    replay_events_per_s: Distribution
    bare_events_per_s: Distribution
    share_of_bare: Distribution
    replay_cpu_us_per_event: Distribution
    """Of this process, in all its threads."""
    snapshot_ready_ms: Distribution
    """From a cold start to a validated state, from a snapshot and the records behind it."""
    snapshot_bytes: int
    snapshot_taking_s: float
    """To turn the state into a snapshot and to write it."""
    tail_records: int
    retained_jobs: int
    running_jobs: int
    memory_replayed: MemoryFigures
    memory_from_snapshot: MemoryFigures
    digest: str


class DigestsDiffer(Exception):
    """Two replays of one log ended in different states."""


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """A log that was written, and what it leads to."""

    digest: str
    events: int
    records: int
    bytes: int
    retained_jobs: int
    running_jobs: int


def produce_log(bootstrap: str, cluster_id: str, events: int, running_jobs: int) -> WrittenLog:
    """Write a log of so many events, in which so many jobs do not end, into the topics of a cluster that nobody leads.

    Raises:
        TimeoutError: Kafka did not take it.

    """
    fold = new_fold(access_to(bootstrap, cluster_id))
    producer = Producer(producer_settings(KafkaAccess(bootstrap), 60_000))
    topic = topic_name(cluster_id, Topic.LOG)
    size = records = 0
    for value in LogGenerator(fold, running_jobs=running_jobs).records(events):
        producer.produce(topic, value=value, partition=0)
        producer.poll(0)
        records += 1
        size += len(value)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise TimeoutError(f"Kafka did not take the log within {FLUSH_TIMEOUT_S:.0f} s")
    dispatcher = fold.master.dispatcher
    return WrittenLog(
        fold.master.digest(), fold.event_count, records, size, len(dispatcher.ended), len(dispatcher.jobs) - len(dispatcher.ended)
    )


def snapshot_near_end(bootstrap: str, cluster_id: str) -> tuple[int, int, float]:
    """Take a snapshot near the end of the log; return its bytes, the records behind it, and the seconds that taking it took."""
    _, end = log_bounds(access_to(bootstrap, cluster_id))
    tail = min(TAIL_RECORDS, end // 2)
    access = access_to(bootstrap, cluster_id)
    fold = replay(access, new_fold(access), end_offset=end - tail)
    started = time.perf_counter()
    manifest, chunks = take_snapshot(fold, "benchmark", "benchmark", log_topic_id(access_to(bootstrap, cluster_id)))
    write_snapshot(access_to(bootstrap, cluster_id), manifest, chunks)
    return manifest.byte_count, tail, time.perf_counter() - started


def _time_bare(bootstrap: str, cluster_id: str) -> float:
    """Return the seconds of a plain reader's loop: no offsets, no timestamps, no classes."""
    registry = registry_of("Decision")
    schemas = {fingerprint_of(schema): schema for schema in (*registry.releases, registry.current)}
    started = time.perf_counter()
    _, high = log_bounds(access_to(bootstrap, cluster_id))
    consumer = Consumer(consumer_settings(KafkaAccess(bootstrap)))
    consumer.assign([TopicPartition(topic_name(cluster_id, Topic.LOG), 0, OFFSET_BEGINNING)])
    count = 0
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    while count < high:
        messages = consumer.consume(min(BATCH, high - count), timeout=0.2)
        for message in messages:
            value = message.value() or b""
            stream = io.BytesIO(value)
            stream.seek(HEADER_LENGTH)
            fastavro.schemaless_reader(stream, schemas[value[len(MARKER) : HEADER_LENGTH]], None, return_record_name=True)
        count += len(messages)
        if time.monotonic() > deadline:
            raise TimeoutError(f"Kafka gave {count} of {high} records within {FLUSH_TIMEOUT_S:.0f} s")
    consumer.close()
    return time.perf_counter() - started


def _time_replay(bootstrap: str, cluster_id: str) -> tuple[float, float, str]:
    """Return the seconds that passed, the seconds of the processor, and the digest of the state."""
    started, cpu_before_s = time.perf_counter(), time.process_time()
    access = access_to(bootstrap, cluster_id)
    fold = replay(access, new_fold(access))
    fold.master.validate()
    elapsed, cpu_s = time.perf_counter() - started, time.process_time() - cpu_before_s
    return elapsed, cpu_s, fold.master.digest()


def _time_from_snapshot(bootstrap: str, cluster_id: str) -> tuple[float, str]:
    started = time.perf_counter()
    loaded = find_snapshot(access_to(bootstrap, cluster_id))
    if loaded is None:
        raise DigestsDiffer("the snapshot that was written is not found")
    fold = replay(access_to(bootstrap, cluster_id), loaded.fold)
    fold.master.validate()
    elapsed = time.perf_counter() - started
    return elapsed, fold.master.digest()


def _time_snapshots(bootstrap: str, cluster_id: str, rounds: int, digest: str, say: Callable[[str], None]) -> Distribution:
    ready = []
    for number in range(rounds + 1):
        ready_s, found = _time_from_snapshot(bootstrap, cluster_id)
        if found != digest:
            raise DigestsDiffer(f"the snapshot and its tail ended in {found}, not in {digest}")
        if number:  # The first warms caches.
            ready.append(ready_s * 1000)
            say(f"round {number}: ready from the snapshot after {ready_s:.2f} s")
    return Distribution.of(ready)


def measure_replay(bootstrap: str, cluster_id: str, *, events: int, rounds: int, say: Callable[[str], None]) -> ReplayFigures:
    """Write a log of `events` events into a scratch cluster and replay it, in turn with the bare reading of it.

    Raises:
        DigestsDiffer: a replay did not end in the state that wrote the log.
        MemoryNotMeasured: the process whose memory was to be measured failed.

    """
    ensure_topics(access_to(bootstrap, cluster_id))
    try:
        say(f"writing a log of {events:,} events")
        written = produce_log(bootstrap, cluster_id, events, min(RUNNING_JOBS, events // RUNNING_SHARE))
        bare, replayed, share, cpu_us = [], [], [], []
        for number in range(rounds + 1):
            bare_s = _time_bare(bootstrap, cluster_id)
            replay_s, cpu_s, found = _time_replay(bootstrap, cluster_id)
            if found != written.digest:
                raise DigestsDiffer(f"replay {number} ended in {found}, not in {written.digest}")
            if number:  # The first pair warms caches.
                bare.append(written.events / bare_s)
                replayed.append(written.events / replay_s)
                share.append(bare_s / replay_s)
                cpu_us.append(cpu_s * 1e6 / written.events)
                say(f"round {number}: replay {written.events / replay_s:,.0f} events/s, bare {written.events / bare_s:,.0f} events/s")
        say("measuring the memory of the state")
        memory_replayed = measure_memory(bootstrap, cluster_id)
        size, tail, taking_s = snapshot_near_end(bootstrap, cluster_id)
        return ReplayFigures(
            events=written.events,
            records=written.records,
            bytes=written.bytes,
            replay_events_per_s=Distribution.of(replayed),
            bare_events_per_s=Distribution.of(bare),
            share_of_bare=Distribution.of(share),
            replay_cpu_us_per_event=Distribution.of(cpu_us),
            snapshot_ready_ms=_time_snapshots(bootstrap, cluster_id, rounds, written.digest, say),
            snapshot_bytes=size,
            snapshot_taking_s=round(taking_s, 3),
            tail_records=tail,
            retained_jobs=written.retained_jobs,
            running_jobs=written.running_jobs,
            memory_replayed=memory_replayed,
            memory_from_snapshot=measure_memory(bootstrap, cluster_id),
            digest=written.digest,
        )
    finally:
        delete_topics(access_to(bootstrap, cluster_id))

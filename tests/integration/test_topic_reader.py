"""The reader of one topic on a real broker: what it asks for, and what becomes of it when the topic or the broker goes."""

import contextlib
import itertools
import json
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from eventflink.audit.log_source import KafkaLog
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import delete_topics, ensure_topics, trim_log
from eventflink.log.replay import log_bounds, read_log
from eventflink.log.topic_reader import FETCH_WAIT_MS, GATHERING_MS, TopicReader
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess
from tests.support.running_cluster import wait_until

TIMEOUT_S = 120


class _Taken:
    """A reader whose batches are taken at once."""

    def __init__(self, bootstrap: str, topic: str, offset: int = 0, *, gathering_ms: int = 0, **more: bool) -> None:
        self.values: list[bytes] = []
        self.fetches = 0
        """Requests to fetch so far, by librdkafka's statistics."""
        told = {"statistics.interval.ms": 100, "stats_cb": self._on_statistics}
        self.reader = TopicReader(KafkaAccess(bootstrap), topic, offset, told, gathering_ms=gathering_ms, **more)
        self.reader.be_prompt(is_waited_for=not gathering_ms)

    def _on_statistics(self, statistics: str) -> None:
        self.fetches = sum(broker["req"].get("Fetch", 0) for broker in json.loads(statistics)["brokers"].values())

    def take(self, messages: list[Message]) -> None:
        self.values += [message.value() for message in messages]
        self.reader.give_back()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.values) >= count, f"{count} records", TIMEOUT_S)


@contextmanager
def _taking(taken: _Taken) -> Iterator[_Taken]:
    taken.reader.start(taken.take)
    try:
        yield taken
    finally:
        taken.reader.close()
        assert taken.reader.join(120)


@pytest.fixture
def log(bootstrap: str, cluster_id: str) -> str:
    """The name of a log that nobody else has."""
    ensure_topics(access_to(bootstrap, cluster_id))
    return topic_name(cluster_id, Topic.LOG)


@pytest.fixture
def produce(bootstrap: str) -> Callable[..., None]:
    return _producing(bootstrap)


def _producing(bootstrap: str) -> Callable[..., None]:
    def produce(topic: str, *values: bytes, **settings: Any) -> None:
        options = {key.replace("_", "."): value for key, value in settings.items()}
        producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2_000_000} | options)
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0

    return produce


def test_a_silent_topic_is_asked_for_seldom_and_what_comes_then_is_read_at_once(
    bootstrap: str, log: str, produce: Callable[..., None]
) -> None:
    produce(log, b"first")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    with _taking(_Taken(bootstrap, log)) as taken:
        taken.wait_for(1)
        time.sleep(0.5)
        before, silence_s = taken.fetches, 3
        time.sleep(silence_s)
        assert before > 0
        assert taken.fetches - before <= 2 * silence_s * 1000 / FETCH_WAIT_MS
        delays = []
        for number in range(2, 52):
            begun_s = time.monotonic()
            producer.produce(log, b"next", partition=0)
            producer.poll(0)
            while len(taken.values) < number:
                assert time.monotonic() - begun_s < TIMEOUT_S
                time.sleep(0.0005)
            delays.append(time.monotonic() - begun_s)
        assert sorted(delays)[25] * 1000 < FETCH_WAIT_MS / 10


def test_gathered_records_are_asked_for_many_at_a_time(bootstrap: str, log: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    count = 1_000
    with _taking(_Taken(bootstrap, log, gathering_ms=GATHERING_MS)) as taken:
        for _ in range(count):
            producer.produce(log, b"heartbeat", partition=0)
            producer.poll(0)
            time.sleep(0.001)
        taken.wait_for(count)
        time.sleep(0.3)  # Until statistics have told of it.
        assert 0 < taken.fetches <= count // 3  # One by one they are asked for about as often as they are produced.


def test_what_is_gathered_comes_when_somebody_waits_for_it(bootstrap: str, log: str, produce: Callable[..., None]) -> None:
    with _taking(_Taken(bootstrap, log, gathering_ms=600_000)) as taken:
        produce(log, b"0")
        taken.wait_for(1)  # What comes alone does not wait.
        for number in range(1, 20):
            produce(log, b"%d" % number)
        assert taken.values == [b"0"]
        taken.reader.be_prompt(is_waited_for=True)
        taken.wait_for(20)
    assert taken.values == [b"%d" % number for number in range(20)]


def test_large_records_among_small_ones_come_in_order_in_whatever_way_they_are_compressed(
    bootstrap: str, log: str, produce: Callable[..., None]
) -> None:
    values = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        batch = [b"%s-%d" % (codec.encode(), number) * (1 if number % 10 else 900_000 // len(f"{codec}-{number}")) for number in range(60)]
        produce(log, *batch, compression_type=codec)
        values += batch
    with _taking(_Taken(bootstrap, log)) as taken:
        taken.wait_for(len(values))
    assert taken.values == values


def test_an_offset_that_is_not_there_any_more_ends_the_reading(
    bootstrap: str, cluster_id: str, log: str, produce: Callable[..., None]
) -> None:
    """Nothing is skipped, and nothing read twice: a new tail begins where the state says."""
    produce(log, *(b"%d" % number for number in range(10)))
    trim_log(access_to(bootstrap, cluster_id), 5)
    for offset in (2, 11):
        with _taking(_Taken(bootstrap, log, offset)) as taken:
            wait_until(lambda: taken.reader.failure, "the reading ends", TIMEOUT_S)
            assert log in taken.reader.failure
        assert taken.values == []
    with _taking(_Taken(bootstrap, log, 5)) as taken:
        taken.wait_for(5)
    assert taken.values == [b"5", b"6", b"7", b"8", b"9"]


@pytest.mark.rule("P3b")
def test_transactions_of_strangers_in_the_log_hold_nobody_up_and_leave_offsets_that_are_empty(
    bootstrap: str, cluster_id: str, log: str, produce: Callable[..., None]
) -> None:
    """Each reader of the log hands on the same: a committed one, an aborted one, one that is open, and what comes between and behind."""
    stranger = Producer({"bootstrap.servers": bootstrap, "transactional.id": cluster_id})
    stranger.init_transactions(TIMEOUT_S)

    def begin(value: bytes) -> None:
        stranger.begin_transaction()
        stranger.produce(log, value, partition=0)
        assert stranger.flush(TIMEOUT_S) == 0

    expected = [b"0", b"committed", None, b"aborted", None, b"5", b"open", b"7"]
    with _taking(_Taken(bootstrap, log, is_dense=True)) as taken:
        produce(log, b"0")
        begin(b"committed")
        stranger.commit_transaction(TIMEOUT_S)
        taken.wait_for(3)
        assert taken.values == expected[:3], "also behind the last record"
        begin(b"aborted")
        stranger.abort_transaction(TIMEOUT_S)
        taken.wait_for(5)  # Kafka answers before it has written the marker.
        produce(log, b"5")
        begin(b"open")
        produce(log, b"7")
        taken.wait_for(8)
        assert taken.values == expected
        read = [value for _, _, value in read_log(access_to(bootstrap, cluster_id), 0, log_bounds(access_to(bootstrap, cluster_id))[1])]
        assert read == [value or b"" for value in expected]
        stranger.abort_transaction(TIMEOUT_S)
        taken.wait_for(9)
    with contextlib.closing(PartitionReader(access_to(bootstrap, cluster_id), Topic.LOG)) as reader:
        reader.seek(0, 2)
        given: list[Message] = []
        while len(given) < 7:
            given += wait_until(lambda: reader.read(1), "the rest of the log", TIMEOUT_S)
    follower = KafkaLog(access_to(bootstrap, cluster_id)).follow(2)
    followed = list(itertools.islice((each for each in follower if each is not None), 7))
    assert [(message.offset(), message.value() or b"") for message in given] == [(offset, value) for offset, _, value in followed]
    assert [value or None for _, _, value in followed] == taken.values[2:] == [*expected[2:], None]
    end = log_bounds(access_to(bootstrap, cluster_id))[1]
    assert [offset for offset, _, _ in read_log(access_to(bootstrap, cluster_id), 7, end)] == [7, 8], "up to an end that is no record"


def test_a_topic_that_is_deleted_and_created_again_is_not_read_on(
    bootstrap: str, cluster_id: str, log: str, produce: Callable[..., None]
) -> None:
    produce(log, b"0", b"1")
    with _taking(_Taken(bootstrap, log)) as taken:
        taken.wait_for(2)
        AdminConnection(KafkaAccess(bootstrap), 30).delete_topics([log])
        wait_until(lambda: ensure_topics(access_to(bootstrap, cluster_id)) == [Topic.LOG], "the topic is made again", TIMEOUT_S)
        wait_until(lambda: taken.reader.failure, "the reading ends", TIMEOUT_S)
    assert taken.values == [b"0", b"1"]


@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back_is_read_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    cluster_id = f"test-{uuid.uuid4().hex[:12]}"
    with EmbeddedBroker(tmp_path / "broker", port) as broker:
        ensure_topics(access_to(broker.bootstrap_servers, cluster_id))
        log, produce = topic_name(cluster_id, Topic.LOG), _producing(broker.bootstrap_servers)
        with _taking(_Taken(broker.bootstrap_servers, log)) as taken:
            for number in range(3):
                produce(log, b"%d" % number)
                taken.wait_for(number + 1)
                if number == 1:
                    process_id = broker.process_id
                    assert process_id is not None
                    os.kill(process_id, signal.SIGKILL)
                    broker.stop()
                    broker.start()
        assert taken.values == [b"0", b"1", b"2"]
        assert not taken.reader.failure
        delete_topics(access_to(broker.bootstrap_servers, cluster_id))

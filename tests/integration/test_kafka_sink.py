"""The exactly-once sink of streams before a real broker: whatever an attempt had begun, and however late it is, a batch counts once."""

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eventflink.log.transactions import find_open_transactions
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.streams import client_watch
from eventflink.streams.failures import CheckpointLost, ClientSilent, SinkFenced, SinkUnavailable
from eventflink.streams.kafka_sink import KafkaSink
from eventflink.streams.sink_protocol import KafkaSinkSettings
from eventflink.taskexecutor.task_spark import session_address
from tests.support.running_cluster import wait_until
from tests.support.spark_sessions import own_session
from tests.support.topics import CommittedReader, create_topic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(spark: str) -> Iterator[SparkSession]:
    with own_session(spark) as session:
        yield session


class Subtask:
    """The subtask of a stream: its batches, and the sinks of its attempts."""

    def __init__(self, bootstrap: str, session: SparkSession, location: Path) -> None:
        self._bootstrap = bootstrap
        self._offsets = location / "offsets"
        self._offsets.mkdir()
        self._session = session
        self._topic = create_topic(bootstrap)
        self._writer_id = uuid.uuid4().hex

    def sink(self, attempt: int, query: int = 1) -> KafkaSink:
        location = str(self._offsets.parent)
        return KafkaSink(
            KafkaSinkSettings(KafkaAccess(self._bootstrap), self._topic, self._writer_id, attempt, 60_000, location, query=query)
        )

    def begin(self, batch_id: int, end: int) -> None:
        """Note as Spark does what a batch reads, and when it begins."""
        (self._offsets / str(batch_id)).write_text(f'v1\n{{"batchTimestampMs":{time.time_ns()}}}\n{{"numbers":{{"0":{end}}}}}')

    def batch(self, batch_id: int) -> DataFrame:
        """Return ten records of their own."""
        return self._session.range(10 * batch_id, 10 * batch_id + 10).selectExpr("CAST(to_json(struct(id)) AS BINARY) AS value")

    def write(self, sink: KafkaSink, batch_id: int) -> None:
        sink(self.batch(batch_id), batch_id)

    def committed(self, batches: int) -> list[int]:
        reader = CommittedReader(self._bootstrap, self._topic)
        reader.read_until(lambda rows: len(rows) >= 10 * batches)
        reader.read(1.0)
        reader.close()
        return sorted(row["id"] for row in reader.rows)


@pytest.fixture
def subtask(bootstrap: str, session: SparkSession, tmp_path: Path) -> Subtask:
    return Subtask(bootstrap, session, tmp_path)


@pytest.mark.rule("S1")
def test_a_batch_that_is_repeated_by_the_next_attempt_is_not_written_again(subtask: Subtask) -> None:
    first = subtask.sink(1)
    subtask.write(first, 0)
    subtask.write(first, 1)
    second = subtask.sink(2)
    subtask.write(second, 1)
    subtask.write(second, 2)
    subtask.write(second, 2)
    assert subtask.committed(3) == list(range(30))


class Held(KafkaSink):
    """Stands still in the middle of a transaction, all records of which have been sent."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        super().__init__(settings)
        self.sent, self.go_on = threading.Event(), threading.Event()

    def _produce(self, producer: Any, batch: DataFrame) -> None:
        super()._produce(producer, batch)
        self.sent.set()
        assert self.go_on.wait(60)


@pytest.mark.rule("S2")
def test_what_an_older_attempt_had_begun_never_counts_once_a_newer_one_writes(subtask: Subtask) -> None:
    held = Held(subtask.sink(1)._settings)
    ended: list[BaseException] = []

    def write() -> None:
        try:
            subtask.write(held, 0)
        except SinkFenced as error:
            ended.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert held.sent.wait(60)
    subtask.write(subtask.sink(2), 0)
    held.go_on.set()
    thread.join(60)
    assert subtask.committed(1) == list(range(10))
    assert [str(error) for error in ended] == [
        f"a newer attempt of {subtask._writer_id} writes to '{subtask._topic}': batch 0 was not written"
    ]


DIES_WHEN_IT_COMMITS = """
import os, signal, sys
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.streams import kafka_sink

moment, remote, batch_id, *settings = sys.argv[1:]

class Dies(Producer):
    def commit_transaction(self, *arguments):
        if moment == "after":
            super().commit_transaction(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

kafka_sink.Producer = Dies
bootstrap, topic, writer_id, *columns = settings
sink = kafka_sink.KafkaSink(kafka_sink.KafkaSinkSettings(KafkaAccess(bootstrap), topic, writer_id, 1, 60_000, ""))
first = 10 * int(batch_id)
batch = SparkSession.builder.remote(remote).create().range(first, first + 10)
sink(batch.selectExpr("CAST(to_json(struct(id)) AS BINARY) AS value", *columns), int(batch_id))
"""


@pytest.mark.rule("S1", "S2")
@pytest.mark.parametrize("batch_id", [0, 1])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sink_that_is_killed_when_it_commits_is_followed_at_once_and_its_batch_counts_once(
    subtask: Subtask, bootstrap: str, spark: str, moment: str, batch_id: int
) -> None:
    for earlier in range(batch_id):
        subtask.write(subtask.sink(1), earlier)
    remote = session_address(spark, str(uuid.uuid4()))
    arguments = [moment, remote, str(batch_id), bootstrap, subtask._topic, subtask._writer_id]
    killed = subprocess.run([sys.executable, "-c", DIES_WHEN_IT_COMMITS, *arguments], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    second, began_s = subtask.sink(2), time.monotonic()
    subtask.write(second, batch_id)
    assert time.monotonic() - began_s < 20, "it waited for the transaction of the dead one to time out, which takes 60 s"
    subtask.write(second, batch_id + 1)
    assert subtask.committed(batch_id + 2) == list(range(10 * batch_id + 20))


@pytest.mark.parametrize(("moment", "counted"), [("before", 0), ("after", 5)])
def test_a_batch_for_several_topics_counts_in_all_of_them_or_in_none(
    subtask: Subtask, bootstrap: str, spark: str, session: SparkSession, moment: str, counted: int
) -> None:
    other = create_topic(bootstrap)
    columns = ["CAST(NULL AS BINARY) AS key", f"IF(id % 2 = 0, '{subtask._topic}', '{other}') AS topic"]
    readers = [CommittedReader(bootstrap, topic) for topic in (subtask._topic, other)]
    remote = session_address(spark, str(uuid.uuid4()))
    arguments = [moment, remote, "0", bootstrap, subtask._topic, subtask._writer_id, *columns]
    killed = subprocess.run([sys.executable, "-c", DIES_WHEN_IT_COMMITS, *arguments], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    second = subtask.sink(2)
    second(session.range(10, 20).selectExpr("CAST(to_json(struct(id)) AS BINARY) AS value", *columns), 1)
    expected = [[id_ for id_ in range(20) if id_ % 2 == odd and (counted or id_ >= 10)] for odd in (0, 1)]
    for reader, ids in zip(readers, expected, strict=True):
        reader.read_until(lambda rows: len(rows) >= 5 + counted)
        reader.read(1.0)
        reader.close()
        assert sorted(row["id"] for row in reader.rows) == ids


@pytest.mark.rule("S2")
def test_an_older_attempt_that_begins_late_ends_and_leaves_the_newer_one_alone(subtask: Subtask) -> None:
    second = subtask.sink(2)
    subtask.write(second, 0)
    with pytest.raises(SinkFenced, match=r"query 1 of attempt 2 of .* has written to '.*': this is query 1 of attempt 1"):
        subtask.write(subtask.sink(1), 1)
    subtask.write(second, 1)
    assert subtask.committed(2) == list(range(20))


class Late(KafkaSink):
    """Stands still when it has found no mark of a newer attempt, and has fenced nothing yet."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        super().__init__(settings)
        self.looked, self.go_on = threading.Event(), threading.Event()

    def _new_producer(self) -> Any:
        self.looked.set()
        assert self.go_on.wait(60)
        return super()._new_producer()


@pytest.mark.rule("S3")
@pytest.mark.parametrize("attempt", [1, 2])
def test_a_query_that_wakes_after_its_sink_was_settled_for_a_savepoint_writes_nothing(subtask: Subtask, attempt: int) -> None:
    """What it would write is written by the job that begins in the savepoint, under an id that fences nothing of this one."""
    subtask.write(subtask.sink(1), 0)
    late = Late(subtask.sink(attempt)._settings)
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(subtask.write, late, 1)
        assert late.looked.wait(60)
        assert subtask.sink(2, query=2).settle(1) == 1
        late.go_on.set()
        with pytest.raises(SinkFenced, match=rf"query 2 of attempt 2 of .* has written to '.*': this is query 1 of attempt {attempt}"):
            writing.result(60)
    with pytest.raises(SinkFenced):
        subtask.write(subtask.sink(attempt), 1)
    assert subtask.sink(2, query=3).settle(1) == 1
    subtask.write(subtask.sink(2, query=4), 1)
    assert subtask.committed(2) == list(range(20))


def test_records_without_a_value_and_with_keys_are_written_as_they_are(subtask: Subtask, bootstrap: str, session: SparkSession) -> None:
    rows = session.sql("SELECT CAST(NULL AS BINARY) AS value, CAST('gone' AS BINARY) AS key")
    subtask.sink(1)(rows, 0)
    reader = CommittedReader(bootstrap, subtask._topic)
    [record] = reader.read_records(1)
    assert (record.key(), record.value()) == (b"gone", None)
    reader.close()


def test_a_checkpoint_directory_that_was_lost_is_noticed_before_anything_is_left_out(subtask: Subtask) -> None:
    first = subtask.sink(1)
    for batch_id in range(3):
        subtask.write(first, batch_id)
    with pytest.raises(CheckpointLost, match=r"batch 0 is to be written to '.*', and batch 2 was written before"):
        subtask.write(subtask.sink(2), 0)


@pytest.mark.rule("S1")
def test_a_batch_that_begins_anew_with_other_records_under_a_number_that_was_written_is_noticed(subtask: Subtask) -> None:
    """So it is where a machine falls before its disk has the newest note: what lies between both would be left out."""
    subtask.begin(0, 10)
    subtask.write(subtask.sink(1), 0)
    subtask.begin(0, 10)
    subtask.write(subtask.sink(2), 0)
    subtask.begin(0, 15)
    with pytest.raises(CheckpointLost, match=r"batch 0 was written to '.*' before, and had read up to other offsets"):
        subtask.write(subtask.sink(3), 0)
    assert subtask.committed(1) == list(range(10))


def test_a_batch_that_took_longer_than_a_transaction_may_is_said_to_have(bootstrap: str, subtask: Subtask) -> None:
    held = Held(KafkaSinkSettings(KafkaAccess(bootstrap), subtask._topic, subtask._writer_id, 1, 5_000, ""))

    def go_on_when_ended() -> None:
        """Kafka looks for such transactions every ten seconds."""
        assert held.sent.wait(60)
        wait_until(lambda: not find_open_transactions(KafkaAccess(bootstrap), [subtask._topic], 30), "the transaction is ended", 60)
        held.go_on.set()

    subtask.write(subtask.sink(1), 0)
    thread = threading.Thread(target=go_on_when_ended)
    thread.start()
    with pytest.raises(SinkUnavailable, match=r"batch 1 took \d+ s, and Kafka ends a transaction after transaction_timeout_ms, 5000"):
        subtask.write(held, 1)
    thread.join()


@pytest.mark.rule("P15")
def test_a_sink_whose_task_is_not_heard_of_writes_no_more(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "spark.eventflink.test.clientHeartbeat"  # The setting itself changes: this session is kept alive.
    monkeypatch.setattr(client_watch, "HEARTBEAT_SETTING", said)
    watch = client_watch.ClientWatch(timeout_s=0.5)
    for beat in range(3):
        session.conf.set(said, str(beat))
        watch.check(session)
        time.sleep(0.6)
    with pytest.raises(ClientSilent, match=r"has not been heard of for 0.5 s"):
        watch.check(session)

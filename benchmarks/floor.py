"""The floor under a submission: what the same Kafka takes for request → log → read back → reply when nobody decides anything.

`python -m benchmarks.floor JSON` stands in the leader's place, a process with one consumer and one producer of
confluent-kafka, whose records are as long as the real ones. A `FloorClient` sends it requests, as any client sends submissions. Topics and
settings are the cluster's own, so what a master takes beyond the floor is a master's doing.
"""

import signal
import sys
import time
import types
import uuid
from typing import Final, NoReturn, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pydantic import BaseModel, ConfigDict

from benchmarks.submit import SubmittedJob
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.kafka_clients import PartitionReader, make_producer
from eventflink.log.clients import producer_settings
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess, client_settings
from eventflink.processes.trace import stamp

_DELIVERY_TIMEOUT_MS: Final = 30_000
_REPLY_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 1.0
_BATCH: Final = 1000


class FloorFailed(Exception):
    """The floor did not answer, so there is nothing to compare with."""


class FloorSettings(BaseModel):
    """What the process in the leader's place has to know."""

    model_config = ConfigDict(frozen=True)

    bootstrap: str
    cluster_id: str
    log_bytes: int
    """How long a record of the log is."""
    reply_bytes: int

    def command(self) -> list[str]:
        """Return the command line that serves it."""
        return [sys.executable, "-m", "benchmarks.floor", self.model_dump_json()]


def serve(settings: FloorSettings) -> NoReturn:
    """Answer requests until SIGTERM, from the first record of new topics on.

    Raises:
        KafkaException: Kafka does not answer.

    """
    signal.signal(signal.SIGTERM, _exit)
    names = {topic: topic_name(settings.cluster_id, topic) for topic in (Topic.SUBMISSIONS, Topic.LOG, Topic.REPLIES)}
    consumer = Consumer(
        client_settings(KafkaAccess(settings.bootstrap))
        | {
            "group.id": f"floor-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(names[topic], 0, 0) for topic in (Topic.SUBMISSIONS, Topic.LOG)])
    producer = Producer(producer_settings(KafkaAccess(settings.bootstrap), _DELIVERY_TIMEOUT_MS))
    decision, reply = bytes(settings.log_bytes), bytes(settings.reply_bytes)
    while True:
        first = consumer.poll(_POLL_S)
        for message in [first, *consumer.consume(_BATCH, 0)] if first is not None else ():
            if (error := message.error()) is not None:
                raise KafkaException(error)
            key, offset = message.key() or b"", message.offset() or 0
            if message.topic() == names[Topic.LOG]:
                stamp("received", Topic.LOG, offset=offset)
                stamp("produced", Topic.REPLIES, key.decode())
                producer.produce(names[Topic.REPLIES], reply, key, partition=0)
            else:
                stamp("received", Topic.SUBMISSIONS, offset=offset)
                stamp("produced", Topic.LOG)
                producer.produce(names[Topic.LOG], decision, key, partition=0)
        producer.poll(0)


def _exit(_number: int, _frame: types.FrameType | None) -> NoReturn:
    sys.exit(0)


class FloorClient:
    """Sends requests and takes their replies. For one thread; use it as a context manager."""

    def __init__(self, bootstrap: str, cluster_id: str, request: bytes) -> None:
        """Connect; every request has this value. Raises as `PartitionReader` does."""
        self._request = request
        self._topic = topic_name(cluster_id, Topic.SUBMISSIONS)
        self._reader = PartitionReader(access_to(bootstrap, cluster_id), Topic.REPLIES)
        self._reader.seek(0, self._reader.offsets(0)[1])
        self._producer = make_producer(KafkaAccess(bootstrap))

    def measure(self, requests: int, in_flight: int) -> list[SubmittedJob]:
        """Send so many, each as soon as one of the last `in_flight` is answered: "accepted".

        Raises:
            FloorFailed: one was not answered within half a minute.

        """
        sent_s: dict[str, float] = {}
        done: list[SubmittedJob] = []
        deadline_s = time.monotonic() + _REPLY_TIMEOUT_S
        while len(done) < requests:
            while len(sent_s) < min(in_flight, requests - len(done)):
                self._send(sent_s)
            if time.monotonic() > deadline_s:
                raise FloorFailed(f"{len(sent_s)} requests to the floor are not answered after {_REPLY_TIMEOUT_S:.0f} s")
            self._producer.poll(0)
            for message in self._reader.read(_POLL_S):
                deadline_s = time.monotonic() + _REPLY_TIMEOUT_S
                request_id = (message.key() or b"").decode()
                done.append(SubmittedJob(request_id, sent_s.pop(request_id), time.monotonic()))
        return done

    def _send(self, sent_s: dict[str, float]) -> None:
        request_id = uuid.uuid4().hex
        sent_s[request_id] = time.monotonic()
        self._producer.produce(self._topic, self._request, request_id.encode())

    def close(self) -> None:
        """Let the connections go."""
        self._reader.close()
        self._producer.purge()
        self._producer.flush(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


if __name__ == "__main__":
    serve(FloorSettings.model_validate_json(sys.argv[1]))

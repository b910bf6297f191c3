"""A process that reads `deployments` as many TaskExecutors do, each with a consumer of its own; started with `python -m`.

Each chooses its partition, stands at its end, registers, and answers every order at once: the task has run. What is not here is all that
TaskExecutors do without orders. The rule: what is delivered to them is what Kafka delivers to TaskExecutors, and it is counted.
"""

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from pydantic import TypeAdapter

from eventflink.events.effects import TaskDeployment
from eventflink.events.inputs import SlotOffer, TaskManagerRegistration, TaskManagerReport, TaskStateReport
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic, deployment_partition, topic_name
from eventflink.log.clients import new_consumer, new_producer
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import ExecutionState
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for

_POLL_S: Final = 1.0
_TIMEOUT_S: Final = 60.0
_COUNT_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Who reads."""

    access: ClusterAccess
    name: str
    count: int
    go: Path
    """They register when this file is there."""
    counted: Path
    """What they were sent: records, and their bytes."""

    @property
    def task_manager_ids(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(f"{self.name}-{number}" for number in range(1, self.count + 1))

    def command(self) -> list[str]:
        """Return the command line that starts them."""
        return [sys.executable, "-m", "benchmarks.fleet_readers", _SETTINGS.dump_json(self).decode()]


_SETTINGS: Final = TypeAdapter(ReaderSettings)


class _Readers:
    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings
        self._codecs = TaskExecutorCodecs(seals_of(settings.access))
        self._producer = new_producer(settings.access.kafka, int(_TIMEOUT_S * 1000))
        self._reports = topic_name(settings.access.cluster_id, Topic.TASKMANAGERS)
        self._deployments = topic_name(settings.access.cluster_id, Topic.DEPLOYMENTS)
        self._lock = threading.Lock()
        self._positioned = 0
        self._records = self._bytes = 0

    def run(self) -> None:
        for task_manager_id in sorted(self._settings.task_manager_ids):
            threading.Thread(target=self._read, args=(task_manager_id,), daemon=True).start()
        while True:
            with self._lock:
                counted = f"{self._positioned} {self._records} {self._bytes}"
            fresh = self._settings.counted.with_suffix(".new")
            fresh.write_text(counted)
            fresh.replace(self._settings.counted)
            self._producer.poll(_COUNT_S)

    def _read(self, task_manager_id: str) -> None:
        consumer = new_consumer(self._settings.access.kafka, {"client.id": task_manager_id, "fetch.wait.max.ms": 500})
        partition = self._position(consumer, task_manager_id)
        with self._lock:
            self._positioned += 1
        while not self._settings.go.exists():
            time.sleep(_COUNT_S)
        registration = TaskManagerRegistration(task_manager_id, f"{task_manager_id}.1", "h", 1, 1, deployment_partition=partition)
        self._say(task_manager_id, registration)
        while True:
            message = consumer.poll(_POLL_S)
            if message is None or message.error() is not None:
                continue
            key, value = message.key(), message.value() or b""
            with self._lock:
                self._records += 1
                self._bytes += len(key or b"") + len(value)
            if is_for(key, task_manager_id):
                self._obey(task_manager_id, value)

    def _position(self, consumer: Consumer, task_manager_id: str) -> int:
        count = len(consumer.list_topics(self._deployments, timeout=_TIMEOUT_S).topics[self._deployments].partitions)
        chosen = TopicPartition(self._deployments, deployment_partition(task_manager_id, count))
        _, chosen.offset = consumer.get_watermark_offsets(chosen, timeout=_TIMEOUT_S)
        consumer.assign([chosen])
        return int(chosen.partition)

    def _obey(self, task_manager_id: str, value: bytes) -> None:
        order = self._codecs.decode_deployment(value)
        task = order.payload
        if isinstance(task, TaskDeployment):
            said = (task_manager_id, order.instance_id, *task.attempt_id)
            ended = TaskStateReport(*said, execution_state=ExecutionState.FINISHED)
            self._say(task_manager_id, SlotOffer(task_manager_id, order.instance_id, task.allocation_id), ended)

    def _say(self, task_manager_id: str, *reports: TaskManagerReport) -> None:
        for _, value in self._codecs.encode_reports(reports):
            self._producer.produce(self._reports, value, task_manager_id, partition=0)


if __name__ == "__main__":
    _Readers(_SETTINGS.validate_json(sys.argv[1])).run()

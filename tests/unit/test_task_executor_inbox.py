"""The inbox before a TaskExecutor's main loop, bounded for the threads that fill it; and the one that fills it with effects."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from eventflink.events.inputs import TaskManagerRegistration
from eventflink.events.topics import deployment_partition
from eventflink.model.cluster_access import access_to
from eventflink.taskexecutor import kafka_links
from eventflink.taskexecutor.kafka_links import EffectsReader, Inbox
from eventflink.taskexecutor.protocol import Action, MainLoop, ProtocolSettings, SendReports


def _nothing(_now_ms: int) -> list[Action]:
    return []


def _other(_now_ms: int) -> list[Action]:
    return []


def test_who_is_faster_than_the_loop_waits_until_there_is_room_or_the_inbox_is_closed() -> None:
    inbox = Inbox(capacity=1)
    inbox.put_input(_nothing)
    waiting = threading.Thread(target=inbox.put_input, args=(_other,), daemon=True)
    waiting.start()
    assert inbox.take_inputs(10, 1) == [_nothing]
    assert inbox.take_inputs(10, 1) == [_other]
    waiting.join(120)
    inbox.put_input(_nothing)
    stuck = threading.Thread(target=inbox.put_input, args=(_nothing,), daemon=True)
    stuck.start()
    inbox.close()
    stuck.join(120)
    assert not stuck.is_alive()


SETTINGS = ProtocolSettings(
    task_manager_id="tm",
    host="host",
    process_id=77,
    slot_count=1,
    heartbeat_interval_ms=1_000,
    self_fence_timeout_ms=10_000,
    kill_timeout_ms=1_000,
)


class _Deployments:
    """A consumer of `deployments`, whose polls find what a test names; the topic has got another partition with each that it chooses."""

    def __init__(self, *found: KafkaError | None) -> None:
        self.loop = MainLoop(SETTINGS, iter(("first", "second")).__next__)
        self.inbox = Inbox()
        self.partitions = 8
        self.assigned: list[int] = []
        self.registered: list[tuple[str, int]] = []
        self._found = list(found)

    def read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have an `EffectsReader` read all of it."""
        monkeypatch.setattr(kafka_links, "new_consumer", lambda _bootstrap, _own: self)
        self.reader = EffectsReader(access_to("", "cluster"), "tm", self.inbox, self.loop.protocol)
        self.reader._run()
        self._take()

    def _take(self) -> None:
        for action in self.loop.turn(1, 1, self.inbox.take_inputs(0, 100)):
            for report in action.reports if isinstance(action, SendReports) else ():
                assert isinstance(report, TaskManagerRegistration)
                self.registered.append((report.instance_id, report.deployment_partition))

    def poll(self, _timeout_s: float) -> Any:
        self._take()
        if not self._found:
            self.reader.close(0)
        error = self._found.pop(0) if self._found else None
        return SimpleNamespace(error=lambda: error) if error is not None else None

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ARG002 - confluent's name
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))})

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002 - confluent's name
        return 0, 99

    def assign(self, partitions: list[TopicPartition]) -> None:
        [chosen] = partitions
        self.assigned.append(chosen.partition)
        self.partitions += 1

    def close(self) -> None:
        pass


@pytest.mark.rule("P12")
def test_who_is_registered_reads_on_in_its_partition_though_the_topic_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    deployments = _Deployments(None, KafkaError(KafkaError._ALL_BROKERS_DOWN), None)
    deployments.read(monkeypatch)
    assert deployments.assigned == [deployment_partition("tm", 8)]
    assert deployments.registered == [("first", deployment_partition("tm", 8))]


@pytest.mark.rule("P12")
def test_behind_a_hole_a_new_instance_registers_in_a_partition_of_those_that_there_are_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert deployment_partition("tm", 8) != deployment_partition("tm", 9)
    deployments = _Deployments(KafkaError(KafkaError._AUTO_OFFSET_RESET), None)
    deployments.read(monkeypatch)
    assert deployments.assigned == [deployment_partition("tm", 8), deployment_partition("tm", 9)]
    assert deployments.loop.protocol.instance_id == "second", "the first goes on, and may have missed what was written there"
    deployments.loop.protocol.on_tick(10_000)
    registrations = [a for a in deployments.loop.turn(20_000, 1, ()) if isinstance(a, SendReports)]
    [[registration]] = [a.reports for a in registrations]
    assert isinstance(registration, TaskManagerRegistration)
    assert (registration.instance_id, registration.deployment_partition) == ("second", deployments.assigned[-1])

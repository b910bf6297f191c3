"""The inbox before a TaskExecutor's main loop, bounded for the threads that fill it; and the one that fills it with effects."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderChanged, RegistrationAccepted
from eventflink.events.topics import deployment_partition
from eventflink.model.cluster_access import access_to
from eventflink.taskexecutor import kafka_links
from eventflink.taskexecutor.kafka_links import EffectsReader, Inbox
from eventflink.taskexecutor.protocol import Action, Phase, ProtocolSettings, TaskExecutorProtocol


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


PARTITIONS = 8
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
    """A consumer of `deployments` with the records that a test names; the main loop has always taken one before the next comes."""

    def __init__(self, epoch: int) -> None:
        self.protocol = TaskExecutorProtocol(SETTINGS)
        self.inbox = Inbox()
        self.assigned: list[int] = []
        self._codec = PayloadCodec("DeploymentEnvelope")
        self._values: list[bytes] = []
        self.protocol.start(0, "i1", 0)
        self.say(RegistrationAccepted("blob:1", 1), epoch)

    def say(self, payload: LeaderChanged | RegistrationAccepted, epoch: int) -> None:
        task_manager_id, instance_id = ("tm", "i1") if isinstance(payload, RegistrationAccepted) else ("", "")
        self._values.append(self._codec.encode(payload, epoch=epoch, task_manager_id=task_manager_id, instance_id=instance_id))

    def read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have an `EffectsReader` read all of it."""
        monkeypatch.setattr(kafka_links, "new_consumer", lambda _bootstrap, _own: self)
        self.reader = EffectsReader(access_to("", "cluster"), "tm", self.inbox, self.protocol)
        self.reader._run()
        self._take()

    def _take(self) -> None:
        for on_input in self.inbox.take_inputs(0, 100):
            on_input(1)

    def poll(self, _timeout_s: float) -> Any:
        if not self.inbox and not self._values:
            self.reader.close(0)
        if self.inbox or not self._values:
            self._take()
            return None
        value = self._values.pop(0)
        return SimpleNamespace(error=lambda: None, key=lambda: b"", value=lambda: value, offset=lambda: 0)

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ARG002 - confluent's name
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict.fromkeys(range(PARTITIONS)))})

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002 - confluent's name
        return 0, 99

    def assign(self, partitions: list[TopicPartition]) -> None:
        [chosen] = partitions
        self.assigned.append(chosen.partition)

    def close(self) -> None:
        pass


@pytest.mark.rule("P12")
def test_a_leader_whose_epoch_is_over_has_nobody_read_another_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said once, from when there were fewer of them, can be written again by anybody who may write there."""
    deployments = _Deployments(epoch=7)
    deployments.say(LeaderChanged("m3", "blob:3", PARTITIONS - 1), epoch=3)
    deployments.read(monkeypatch)
    assert deployments.assigned == [deployment_partition("tm", PARTITIONS)]
    assert (deployments.protocol.phase, deployments.protocol.newest_epoch) == (Phase.REGISTERED, 7)


@pytest.mark.rule("P12")
@pytest.mark.parametrize("epoch", [7, 8])
def test_a_leader_that_is_obeyed_and_names_other_partitions_has_a_new_instance_choose_among_them(
    epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployments = _Deployments(epoch=7)
    deployments.say(LeaderChanged("m", "blob:7", PARTITIONS), epoch=7)
    deployments.say(LeaderChanged("m", "blob:8", PARTITIONS - 1), epoch=epoch)
    deployments.read(monkeypatch)
    assert deployments.assigned == [deployment_partition("tm", PARTITIONS), deployment_partition("tm", PARTITIONS - 1)]
    assert deployments.protocol.phase is Phase.NEW, "its instance goes on, and may have missed what was written there"


def test_more_partitions_than_there_are_are_chosen_among_once(monkeypatch: pytest.MonkeyPatch) -> None:
    deployments = _Deployments(epoch=7)
    deployments.say(LeaderChanged("m", "blob:8", PARTITIONS + 1), epoch=8)
    for _ in range(10):
        deployments.say(RegistrationAccepted("blob:8", 1), epoch=8)
    deployments.read(monkeypatch)
    assert deployments.assigned == [deployment_partition("tm", PARTITIONS)] * 2

"""What the heartbeats of many TaskManagers cost the leader: its share of one core, measured from outside the process.

A real master leads on a real broker. One process here speaks for all TaskManagers: it registers each, then sends each one's heartbeat
once per interval, spread evenly, as TaskExecutors do. The share is first measured idle, without any TaskManager, then with all of them.
The figures count only if the leader declared none lost, which it does after `heartbeat.missed-beats` missed heartbeats of one.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil
from confluent_kafka import KafkaException, Producer

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.report import Distribution
from eventflink.events.codec import PayloadCodec, ReportsCodec
from eventflink.events.inputs import Heartbeat, TaskManagerRegistration
from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import ensure_topics
from eventflink.log.clients import producer_settings
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.model.kafka_settings import KafkaAccess

WINDOW_S: Final = 10.0
SETTLE_S: Final = 5.0
REGISTRATION_TIMEOUT_S: Final = 120.0

_DELIVERY_TIMEOUT_MS: Final = 30_000
_TICK_S: Final = 0.01
_FLUSH_TIMEOUT_S: Final = 30.0


class HeartbeatsDisturbed(Exception):
    """The figures would mean nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class HeartbeatFigures:
    """What was measured; shares are of one core, 1.0 being all of it."""

    task_managers: int
    slots: int
    interval_ms: int
    beats: int
    registered_s: float
    """From the first registration sent to the last one decided."""
    idle_share: Distribution
    share: Distribution
    lost: int


class _TaskManagers:
    """Sends what many TaskManagers send, each heartbeat when it is due; use it as a context manager."""

    def __init__(self, configuration: Configuration, bootstrap: str, count: int, slots: int) -> None:
        self._names = [f"tm-{number:05d}" for number in range(count)]
        self._slots = slots
        self._interval_s = configuration.heartbeat_interval_ms / 1000
        self._producer = Producer(producer_settings(KafkaAccess(bootstrap), _DELIVERY_TIMEOUT_MS))
        self._reports_topic = topic_name(configuration.cluster_id, Topic.TASKMANAGERS)
        self._heartbeats_topic = topic_name(configuration.cluster_id, Topic.HEARTBEATS)
        self._reports, self._heartbeats = ReportsCodec("TaskManagerEnvelope"), PayloadCodec("HeartbeatEnvelope")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
        self.failure: Exception | None = None
        self.sent = 0

    def register_all(self) -> frozenset[str]:
        """Register every TaskManager, one record each, as they would; return their ids."""
        begun_at_ms = int(time.time() * 1000)
        for number, name in enumerate(self._names):
            registration = TaskManagerRegistration(name, f"{name}-1", "localhost", number + 1, self._slots, begun_at_ms)
            self._producer.produce(self._reports_topic, self._reports.encode([registration]), name, partition=0)
            self._producer.poll(0)
        return frozenset(self._names)

    def start_heartbeats(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._send_until_stopped()
        except (KafkaException, BufferError) as error:
            self.failure = error

    def _send_until_stopped(self) -> None:
        """Send each heartbeat when it is due: the n-th of all is due after n / (TaskManagers per interval)."""
        began_s, count = time.monotonic(), len(self._names)
        while not self._stopping.wait(_TICK_S):
            due = int((time.monotonic() - began_s) / self._interval_s * count)
            while self.sent < due:
                sequence, index = divmod(self.sent, count)
                name = self._names[index]
                heartbeat = Heartbeat(name, f"{name}-1", sequence + 1, self._slots, 0)
                self._producer.produce(self._heartbeats_topic, self._heartbeats.encode(heartbeat), name, partition=0)
                self.sent += 1
            self._producer.poll(0)

    def close(self) -> None:
        self._stopping.set()
        with suppress(RuntimeError):  # It was never started.
            self._thread.join(_FLUSH_TIMEOUT_S)
        self._producer.flush(_FLUSH_TIMEOUT_S)


def _shares(process: psutil.Process, windows: int, check: Callable[[], None]) -> list[float]:
    """Return the CPU seconds per second of some windows."""
    shares: list[float] = []
    for _ in range(windows):
        check()
        before, began_s = process.cpu_times(), time.monotonic()
        time.sleep(WINDOW_S)
        after, passed_s = process.cpu_times(), time.monotonic() - began_s
        shares.append((after.user + after.system - before.user - before.system) / passed_s)
    return shares


def measure_heartbeats(
    configuration: Configuration,
    bootstrap: str,
    command: Command,
    *,
    task_managers: int,
    slots: int,
    rounds: int,
    say: Callable[[str], None],
) -> HeartbeatFigures:
    """Measure the leader's share of a core in windows of ten seconds, as many as `rounds`, but for two losses' time at least.

    Raises:
        HeartbeatsDisturbed: the leader lost TaskManagers, or heartbeats could not be sent.
        NotSeen, ChildDied: the cluster did not come up.

    """
    ensure_topics(access_to(bootstrap, configuration.cluster_id))
    with FailoverCluster(configuration, bootstrap, command) as cluster:
        master = cluster.masters[cluster.start_master()]
        process = psutil.Process(master.process.pid)
        time.sleep(SETTLE_S)
        say("the leader is measured idle")
        idle = _shares(process, 3, cluster.check)
        senders = _TaskManagers(configuration, bootstrap, task_managers, slots)
        try:
            say(f"{task_managers:,} TaskManagers register")
            began_s = time.monotonic()
            names = senders.register_all()
            registered = cluster.watch.fold.master.resource_manager.task_managers
            cluster.watch.wait_for(lambda: names <= registered.keys(), "all registrations", REGISTRATION_TIMEOUT_S)
            registered_s = time.monotonic() - began_s
            senders.start_heartbeats()
            time.sleep(SETTLE_S)
            windows = max(rounds, int(2 * configuration.loss_timeout_ms / 1000 / WINDOW_S) + 1)
            say(f"{task_managers * 1000 / configuration.heartbeat_interval_ms:,.0f} heartbeats a second, for {windows * WINDOW_S:.0f} s")
            shares = _shares(process, windows, cluster.check)
            lost = cluster.watch.ask(lambda: len(cluster.watch.lost_s))
        finally:
            senders.close()
        if senders.failure is not None:
            raise HeartbeatsDisturbed(f"heartbeats could not be sent: {senders.failure}")
        if lost:
            raise HeartbeatsDisturbed(
                f"the leader lost {lost:,} of {task_managers:,} TaskManagers: it did not hear their heartbeats in time"
            )
        return HeartbeatFigures(
            task_managers,
            slots,
            configuration.heartbeat_interval_ms,
            senders.sent,
            round(registered_s, 3),
            Distribution.of(idle),
            Distribution.of(shares),
            lost,
        )

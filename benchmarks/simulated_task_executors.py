"""A process that hosts many TaskExecutors whose task processes are only said to be there; started with `python -m`.

Each speaks the real protocol over the real links to Kafka: registration, heartbeats, fences, offers, states, slot reports. What is
simulated is the fork server alone: an ordered task is RUNNING at once, until its run time is over or it is cancelled. The rule
this module keeps: in Kafka these cannot be told from TaskExecutors that run processes.
"""

import logging
import os
import signal
import sys
import threading
import time
import types
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from benchmarks.simulated_tasks import Journal, SimulatedTasks
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.model.kafka_settings import KafkaRole
from eventflink.taskexecutor.kafka_links import EffectsReader, Inbox, ReportsWriter
from eventflink.taskexecutor.process_events import EndTask, LaunchTask, ReleaseSpark, TakeCheckpoint
from eventflink.taskexecutor.protocol import (
    Action,
    DriverAction,
    EndForkServer,
    Input,
    InstanceStarted,
    MainLoop,
    Phase,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    UploadFile,
)

MODULE: Final = "benchmarks.simulated_task_executors"

_LOGGER = logging.getLogger(__name__)

_TICK_S: Final = 0.02
_BATCH: Final = 256
_POSITION_TIMEOUT_MS: Final = 60_000
_FLUSH_TIMEOUT_S: Final = 5.0
_JOIN_TIMEOUT_S: Final = 20.0


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SimulatedTaskExecutor:
    """One TaskExecutor: the real main loop, driven with the real links to Kafka and with simulated tasks."""

    def __init__(self, settings: ProtocolSettings, access: ClusterAccess, journal: Journal, stopping: threading.Event) -> None:
        """Put the parts together; `stopping` asks for an orderly stop."""
        self._task_manager_id = settings.task_manager_id
        self._stopping = stopping
        self._main_loop = MainLoop(settings, lambda: uuid.uuid4().hex)
        self._protocol = self._main_loop.protocol
        self._inbox = Inbox()
        self._results: list[Input] = []
        """Of what the loop did itself: they come in its next turn."""
        self._tasks = SimulatedTasks(journal)
        ids = (access, settings.task_manager_id)
        self._reader = EffectsReader(*ids, self._inbox, self._protocol)
        self._writer = ReportsWriter(*ids, settings.self_fence_timeout_ms, self._inbox, self._protocol)

    @property
    def is_stopped(self) -> bool:
        """Whether it has ended in order."""
        return self._main_loop.stopped is not None

    def run(self) -> None:
        """Run until the end."""
        self._reader.start()
        try:
            deadline_ms = _now_ms() + _POSITION_TIMEOUT_MS
            while not self.is_stopped:
                self._turn()
                if self._protocol.phase is Phase.NEW and _now_ms() > deadline_ms:
                    return
        finally:
            self._inbox.close()
            self._writer.close(_FLUSH_TIMEOUT_S)
            self._reader.close(_FLUSH_TIMEOUT_S)

    def _turn(self) -> None:
        """Take what happened, at most for one tick, and do what follows."""
        inputs = self._inbox.take_inputs(0 if self._results else _TICK_S, _BATCH) + self._results
        self._results = []
        if self._stopping.is_set():
            inputs.insert(0, self._stop)
        now_ms = _now_ms()
        inputs += [partial(self._protocol.on_process_event, event) for event in self._tasks.finished(now_ms)]
        for action in self._main_loop.turn(now_ms, int(time.time() * 1000), inputs):
            self._perform(action, now_ms)

    def _stop(self, now_ms: int) -> list[Action]:
        return self._protocol.stop(now_ms, "the simulated TaskExecutor was stopped in order")

    def _perform(self, action: DriverAction, now_ms: int) -> None:
        match action:
            case LaunchTask() | EndTask() | ReleaseSpark() | TakeCheckpoint():
                for event in self._tasks.take_order(action, self._protocol.instance_id, now_ms):
                    self._results.append(partial(self._protocol.on_process_event, event))
            case SendReports(reports=reports, sent_at_ms=sent_at_ms):
                self._writer.send_reports(reports, sent_at_ms)
            case SendHeartbeat(heartbeat=heartbeat, sent_at_ms=sent_at_ms):
                self._writer.send_heartbeat(heartbeat, sent_at_ms)
            case UploadFile(instance_id=instance_id, order=order):
                error = "a simulated task writes no files"
                self._results.append(partial(self._protocol.on_upload_completed, instance_id, order.request_id, None, error))
            case InstanceStarted(instance_id=instance_id, replaced_id=replaced_id, reason=reason):
                if replaced_id:
                    _LOGGER.warning("InstanceEnded instance=%s reason=%s", replaced_id, reason)
                _LOGGER.info("InstanceStarted task_manager=%s instance=%s", self._task_manager_id, instance_id)
            case StartForkServer() | EndForkServer() | Stopped():
                pass  # There is no fork server to be started or ended, and the loop ends after this turn.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """The settings of a host process; durations in milliseconds."""

    access: ClusterAccess
    name: str
    task_executors: int
    slots: int
    heartbeat_interval_ms: int
    self_fence_timeout_ms: int
    kill_timeout_ms: int
    journal: Path | None = None

    @property
    def task_manager_ids(self) -> tuple[str, ...]:
        """The ids of its TaskExecutors."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.task_executors + 1))

    def command(self) -> list[str]:
        """Return the command line that starts such a host."""
        return [sys.executable, "-m", MODULE, _SETTINGS.dump_json(self).decode()]


_SETTINGS: Final = TypeAdapter(HostSettings)


def host_settings(
    configuration: Configuration, bootstrap: str, name: str, task_executors: int, slots: int, journal: Path | None = None
) -> HostSettings:
    """Return the settings of a host whose TaskExecutors have this cluster's times."""
    return HostSettings(
        access=configuration.access(bootstrap, KafkaRole.TASKMANAGER),
        name=name,
        task_executors=task_executors,
        slots=slots,
        heartbeat_interval_ms=configuration.heartbeat_interval_ms,
        self_fence_timeout_ms=configuration.self_fence_timeout_ms,
        kill_timeout_ms=configuration.kill_timeout_ms,
        journal=journal,
    )


def run_host(settings: HostSettings) -> int:
    """Run the TaskExecutors until SIGTERM or SIGINT; return the exit code. For the main thread."""
    stopping = threading.Event()

    def stop(_number: int, _frame: types.FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    journal = Journal(settings.journal)
    executors: list[tuple[SimulatedTaskExecutor, threading.Thread]] = []
    for task_manager_id in settings.task_manager_ids:
        protocol_settings = ProtocolSettings(
            task_manager_id=task_manager_id,
            host=settings.name,
            process_id=os.getpid(),
            slot_count=settings.slots,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            self_fence_timeout_ms=settings.self_fence_timeout_ms,
            kill_timeout_ms=settings.kill_timeout_ms,
        )
        executor = SimulatedTaskExecutor(protocol_settings, settings.access, journal, stopping)
        executors.append((executor, threading.Thread(target=executor.run, name=task_manager_id, daemon=True)))
    threads = [thread for _, thread in executors]
    for thread in threads:
        thread.start()
    while not stopping.wait(_TICK_S * 10):
        ended = [executor for executor, thread in executors if not thread.is_alive()]
        if not all(executor.is_stopped for executor in ended):
            _LOGGER.error("SimulatedTaskExecutorEnded host=%s", settings.name)
            return 1
        if ended:
            break  # The cluster is shut down: the others end as well.
    deadline_s = time.monotonic() + _JOIN_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    return 1 if any(thread.is_alive() for thread in threads) else 0


def main(settings: str) -> int:
    """Run a host as a JSON document of `HostSettings` says."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    return run_host(_SETTINGS.validate_json(settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""What a resource driver starts and stops, with its faults: starts that fail, take long or end before the worker has registered.

Masters call it as `entrypoint/worker_supervisor.py` calls a driver. It does not fence: the calls of a master that has crashed
arrive all the same, and the leader of that time finds an orphan (L5). A third of the runs have one, drawn from random numbers of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker
from eventflink.master.settings import WorkerSettings
from eventflink.model.resources import ExtendedResource, ResourceProfile
from eventflink.testing.simulation.scheduler import MILLISECOND, Scheduler
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from eventflink.testing.simulation.transcript import Transcript

DRIVER_SHARE: Final = 0.35
_MORE_MACHINES: Final = 3
_KILL_AFTER_MS: Final = 3_000
_SLOW_MS: Final = 6_000
_DIES_WITHIN_MS: Final = 400
_SMALL: Final = ResourceProfile(500, 512 << 20)
_LARGE: Final = ResourceProfile(2_000, 4 << 30, managed_bytes=1 << 30)
_PROFILES: Final = (None, _SMALL, _SMALL, _LARGE, ResourceProfile(500, 512 << 20, extended_resources=(ExtendedResource("gpu", 1),)))


def draw_profile(rng: Random) -> ResourceProfile | None:
    """Return what each slot of some machine has."""
    return rng.choice(_PROFILES)


@dataclass(slots=True)
class _Worker:
    """A worker that was asked for and not stopped."""

    host: TaskExecutorHost | None = None
    is_running: bool = True
    is_stopping: bool = False
    diagnostics: str = ""


class SimulatedDriver:
    """The provider of one run's workers."""

    def __init__(
        self,
        scheduler: Scheduler,
        settings: SimulationSettings,
        make: Callable[[str], TaskExecutorHost],
        hosts: list[TaskExecutorHost],
        transcript: Transcript,
    ) -> None:
        """Draw whether the run has a driver, and how often what goes wrong; `hosts` are all machines, to which workers are added."""
        self._scheduler = scheduler
        self._make = make
        self._hosts = hosts
        self._transcript = transcript
        self._rng = Random(f"{settings.seed} workers")  # noqa: S311 - a run has to be repeatable, not secret
        self._active_us = settings.active_ms * MILLISECOND
        self._fails, self._dies, self._is_slow = (self._rng.choice((0.0, 0.2, 0.5)) for _ in range(3))
        self._workers: dict[str, _Worker] = {}
        is_there = self._rng.random() < DRIVER_SHARE
        self.slot_profile = draw_profile(self._rng)
        self.settings = (
            WorkerSettings(
                slot_count=settings.slots,
                slot_profile=self.slot_profile,
                max_slots=(settings.task_executors + _MORE_MACHINES) * settings.slots,
                registration_timeout_ms=4_000,
                idle_timeout_ms=2_500,
                max_failure_rate=3,
                retry_interval_ms=300,
            )
            if is_there
            else None
        )

    def list_workers(self) -> list[ListedWorker]:
        """Return all workers that are there, or were and nobody has stopped."""
        return [ListedWorker(worker_id, worker.is_running, worker.diagnostics) for worker_id, worker in self._workers.items()]

    def request_worker(self, request: RequestWorker) -> None:
        """Begin to start a worker; some starts fail, and some take long."""
        worker_id = request.worker_id
        if worker_id in self._workers:
            return
        worker = self._workers[worker_id] = _Worker()
        if self._goes_wrong(self._fails):
            self._end(worker_id, worker, "it could not be started")
            return
        delay_ms = self._rng.random() * (_SLOW_MS if self._goes_wrong(self._is_slow) else 300)
        self._after(delay_ms, lambda: self._begin(worker_id, worker))

    def _begin(self, worker_id: str, worker: _Worker) -> None:
        if worker.is_stopping:
            self._workers.pop(worker_id, None)
            return
        host = worker.host = self._make(worker_id)
        host.on_end = lambda: self._ended(worker_id, worker)
        self._hosts.append(host)
        host.start()
        if self._goes_wrong(self._dies):
            self._after(self._rng.random() * _DIES_WITHIN_MS, lambda: host.crash(0))

    def stop_worker(self, worker_id: str) -> None:
        """Have a worker end in order, and after a while at once."""
        worker = self._workers.get(worker_id)
        if worker is None or worker.is_stopping:
            return
        worker.is_stopping = True
        host = worker.host
        if not worker.is_running:
            del self._workers[worker_id]
        elif host is not None and host.is_up:
            host.stop(0)
            self._after(_KILL_AFTER_MS, lambda: host.crash(0))

    def unrest(self, wanted: set[str]) -> list[str]:
        """Return which workers are there though nobody wants them."""
        return [f"the worker {worker_id} is there, and nobody wants it" for worker_id in self._workers if worker_id not in wanted]

    def _ended(self, worker_id: str, worker: _Worker) -> None:
        if worker.host is not None:
            self._hosts.remove(worker.host)
        if worker.is_stopping:
            self._workers.pop(worker_id, None)
            self._transcript.note(worker_id, "has ended, as it was to")
        else:
            self._end(worker_id, worker, "its process has ended")

    def _end(self, worker_id: str, worker: _Worker, how: str) -> None:
        worker.is_running, worker.diagnostics = False, how
        self._transcript.note(worker_id, f"ends: {how}")

    def _goes_wrong(self, share: float) -> bool:
        return self._rng.random() < share and self._scheduler.now_us < self._active_us

    def _after(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._scheduler.after(int(delay_ms * MILLISECOND), call)

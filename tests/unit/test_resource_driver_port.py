"""Which driver stands behind the port, and what a supervisor does with one: a driver of a user's own, with its workers in memory."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from eventflink.entrypoint import worker_supervisor
from eventflink.entrypoint.factories import DRIVER_MEMBERS, create_driver
from eventflink.entrypoint.process_driver import ProcessDriver
from eventflink.entrypoint.resource_driver import ResourceEventHandler
from eventflink.entrypoint.worker_supervisor import WorkerSupervisor
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker, StopWorker, WorkersWanted
from eventflink.master.inputs import MasterInput, WorkerTerminated
from eventflink.model.configuration import Configuration, ConfigurationError, load_configuration

ONE, TWO = RequestWorker("worker-1", 1, None), RequestWorker("worker-2", 1, None)
NOBODY = WorkersWanted((), ())


class MemoryDriver:
    """Workers that are names in a dictionary; what it is told to fail at fails."""

    def __init__(self, _configuration: Configuration | None = None, program: Sequence[str] = ()) -> None:
        self.program = tuple(program)
        self.workers: dict[str, bool] = {}
        self.epochs: list[int] = []
        self.handler: ResourceEventHandler | None = None
        self.refusals: list[Exception] = []
        self.list_failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        self.epochs.append(epoch)
        self.handler = handler

    def list_workers(self) -> list[ListedWorker]:
        assert self.gate.wait(120)
        if self.list_failures:
            raise self.list_failures.pop()
        return [ListedWorker(worker_id, runs, "" if runs else "out of memory") for worker_id, runs in self.workers.items()]

    def request_worker(self, worker: RequestWorker) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.workers[worker.worker_id] = True

    def stop_worker(self, worker_id: str) -> None:
        self.workers.pop(worker_id, None)

    def deregister_application(self, status: str, diagnostics: str) -> None:  # noqa: ARG002 - nobody is to be told
        self.workers.clear()

    def close(self) -> None:
        """Hold nothing."""


def no_driver(_configuration: Configuration, _program: Sequence[str]) -> object:
    return object()


def broken(_configuration: Configuration, _program: Sequence[str]) -> object:
    raise LookupError("no credentials")


def _configured(tmp_path: Path, driver: str, **more: str) -> Configuration:
    return load_configuration(None, {"data.directory": str(tmp_path), "resourcemanager.driver": driver, **more})


class TestConfiguration:
    def test_standalone_has_no_driver(self, tmp_path: Path) -> None:
        assert create_driver(load_configuration(None, {}), ()) is None
        assert create_driver(_configured(tmp_path, "standalone"), ()) is None

    def test_a_rehearsal_on_a_copy_of_the_log_starts_nothing(self, tmp_path: Path) -> None:
        assert create_driver(_configured(tmp_path, "process", **{"drills.rehearsal": "true"}), ()) is None

    def test_a_driver_of_one_s_own_gets_the_configuration_and_the_program(self, tmp_path: Path) -> None:
        driver = create_driver(_configured(tmp_path, f"{__name__}:MemoryDriver"), ("eventflink", "-v"))
        assert isinstance(driver, MemoryDriver)
        assert driver.program == ("eventflink", "-v")
        assert isinstance(create_driver(_configured(tmp_path, "process"), ()), ProcessDriver)

    def test_a_bound_that_lets_no_worker_come_is_refused(self, tmp_path: Path) -> None:
        bound = {"slotmanager.number-of-slots.max": "3", "taskmanager.numberOfTaskSlots": "4"}
        said = r"slotmanager\.number-of-slots\.max \(3\) is less than taskmanager\.numberOfTaskSlots \(4\)"
        with pytest.raises(ConfigurationError, match=said):
            _configured(tmp_path, "process", **bound)
        assert _configured(tmp_path, "standalone", **bound).max_slots == 3

    def test_what_is_no_driver_is_told_by_its_key(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigurationError, match=r"unknown resource driver: 'yarn'; known: standalone, process, kubernetes, or package\.module:Factory"
        ):
            _configured(tmp_path, "yarn")
        for kind, said in (
            ("no.such.module:Factory", "resourcemanager.driver: 'no.such.module:Factory' cannot be imported"),
            (f"{__name__}:NoSuchFactory", "cannot be imported"),
            (f"{__name__}:broken", r"made no driver: LookupError\('no credentials'\)"),
            (f"{__name__}:no_driver", f"returned has no {', '.join(DRIVER_MEMBERS)}"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                create_driver(_configured(tmp_path, kind), ())


def _supervise(course: Callable[[WorkerSupervisor, MemoryDriver, list[MasterInput]], Awaitable[None]]) -> None:
    """Run a supervisor with a driver while a test's course runs beside it."""

    async def run() -> None:
        driver, outcomes = MemoryDriver(), list[MasterInput]()
        supervisor = WorkerSupervisor(driver, outcomes.append)
        task = asyncio.create_task(supervisor.run())
        try:
            await course(supervisor, driver, outcomes)
        finally:
            supervisor.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 120))


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the time of the whole test is limited
        await asyncio.sleep(0.01)


class TestSupervisor:
    def test_orders_are_carried_out_under_the_epoch_of_the_leadership(self) -> None:
        async def course(supervisor: WorkerSupervisor, driver: MemoryDriver, outcomes: list[MasterInput]) -> None:
            driver.workers["worker-7"] = True  # Of a leader before this one; nobody wants it.
            for order in (ONE, TWO, WorkersWanted((ONE,), ())):
                supervisor.submit(order, 5)
            await _until(lambda: list(driver.workers) == ["worker-1", "worker-2"])
            supervisor.submit(StopWorker("worker-1"), 5)
            await _until(lambda: list(driver.workers) == ["worker-2"])
            assert (driver.epochs, outcomes) == ([5], [])

        _supervise(course)

    def test_without_an_order_the_driver_is_not_touched(self) -> None:
        async def course(_supervisor: WorkerSupervisor, driver: MemoryDriver, _outcomes: list[MasterInput]) -> None:
            driver.workers["worker-7"] = True
            await asyncio.sleep(0.2)
            assert (driver.epochs, driver.workers) == ([], {"worker-7": True})

        _supervise(course)

    def test_what_the_driver_refuses_is_reported_with_its_reason(self) -> None:
        async def course(supervisor: WorkerSupervisor, driver: MemoryDriver, outcomes: list[MasterInput]) -> None:
            driver.refusals.append(PermissionError("no quota"))
            supervisor.submit(ONE, 1)
            await _until(lambda: outcomes)
            assert outcomes == [WorkerTerminated("worker-1", "the resource driver cannot start it: no quota")]

        _supervise(course)

    def test_what_the_driver_says_from_its_own_thread_is_reported(self) -> None:
        async def course(supervisor: WorkerSupervisor, driver: MemoryDriver, outcomes: list[MasterInput]) -> None:
            supervisor.submit(ONE, 1)
            await _until(lambda: driver.workers)
            assert driver.handler is not None
            await asyncio.to_thread(driver.handler.on_worker_terminated, "worker-1", "evicted")
            await _until(lambda: outcomes)
            assert outcomes == [WorkerTerminated("worker-1", "evicted")]

        _supervise(course)

    def test_a_driver_that_fails_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worker_supervisor, "_FIRST_BACKOFF_S", 0.01)

        async def course(supervisor: WorkerSupervisor, driver: MemoryDriver, outcomes: list[MasterInput]) -> None:
            driver.list_failures += [ConnectionError("no route")] * 3
            supervisor.submit(ONE, 1)
            await _until(lambda: driver.workers)
            assert not driver.list_failures
            assert outcomes == []

        _supervise(course)

    def test_a_term_that_is_over_starts_and_stops_nothing(self) -> None:
        """Also what was just on its way: the driver hangs when the term ends, and answers afterwards."""

        async def course(supervisor: WorkerSupervisor, driver: MemoryDriver, outcomes: list[MasterInput]) -> None:
            driver.gate.clear()
            driver.workers["worker-7"] = True
            supervisor.submit(NOBODY, 1)
            supervisor.submit(ONE, 1)
            await _until(lambda: driver.epochs)
            supervisor.close()
            driver.gate.set()
            await asyncio.sleep(0.3)
            assert driver.workers == {"worker-7": True}
            supervisor.on_worker_terminated("worker-1", "evicted")
            await asyncio.sleep(0.05)
            assert outcomes == []

        _supervise(course)

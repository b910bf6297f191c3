"""Carries out for one term what the accepted decisions want of the resource driver, and tells the master what became of it.

What is to be done `leadership/worker_reconciliation.py` says; here the driver is called, in a thread, one call after the other. The rule:
a term that is over does nothing more. Whatever a driver raises is logged, and tried again with back-off.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from eventflink.entrypoint.resource_driver import CALL_TIMEOUT_S, ResourceDriver
from eventflink.leadership.worker_reconciliation import WorkerReconciler
from eventflink.master.effects import RequestWorker, WorkerOrder
from eventflink.master.inputs import MasterInput, WorkerTerminated
from eventflink.model.backoff import Backoff
from eventflink.model.statuses import ApplicationStatus

LOOK_INTERVAL_S: Final = 5.0
"""How often the driver is asked for its workers though nothing has happened."""

_FIRST_BACKOFF_S: Final = 0.5
_MAX_BACKOFF_S: Final = 30.0
_SHOWN: Final = 1_000

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class _TermIsOver(Exception):
    """The driver is not to be called any more."""


class WorkerSupervisor:
    """The driver's user, while one term lasts; it is the driver's handler as well."""

    def __init__(self, driver: ResourceDriver, on_outcome: Callable[[MasterInput], None]) -> None:
        """Hand outcomes to `on_outcome`, in the thread of the event loop, in which this is made."""
        self._driver = driver
        self._on_outcome = on_outcome
        self._reconciler = WorkerReconciler()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._epoch = 0
        self._is_leading = False
        self._is_closed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="resource-driver")

    def submit(self, order: WorkerOrder, epoch: int) -> None:
        """Take an order of a decision that was accepted in the epoch of this term's leadership."""
        self._epoch = epoch
        self._reconciler.accept_order(order)
        self._wake.set()

    def close(self) -> None:
        """Do nothing any more: the leadership is over."""
        self._is_closed = True

    async def deregister(self, status: ApplicationStatus, diagnostics: str) -> None:
        """Tell the driver how the cluster ended; what it raises is noted, and the cluster has ended all the same."""
        try:
            await self._call(partial(self._driver.deregister_application, status.value, diagnostics))
        except Exception as error:  # noqa: BLE001 - a driver may be anybody's, and raise anything
            _logger.warning("ApplicationNotDeregistered status=%s error=%r", status, error)

    def on_worker_terminated(self, worker_id: str, diagnostics: str) -> None:
        """Report what the driver says, from any thread."""
        self._loop.call_soon_threadsafe(self._report, WorkerTerminated(worker_id, diagnostics[:_SHOWN]))

    async def run(self) -> None:
        """Carry out orders until cancelled or closed."""
        try:
            await self._run()
        except _TermIsOver:
            pass
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_BACKOFF_S, _MAX_BACKOFF_S)
        while not self._is_closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_INTERVAL_S)
            self._wake.clear()
            if not self._epoch or self._is_closed:
                continue
            try:
                await self._reconcile()
                backoff.reset()
            except _TermIsOver:
                raise
            except Exception as error:  # noqa: BLE001 - a driver may be anybody's, and raise anything
                pause_s = backoff.next()
                _logger.warning("ResourceDriverFailed error=%r retry_s=%g", error, pause_s)
                await asyncio.sleep(pause_s)
                self._wake.set()

    async def _reconcile(self) -> None:
        if not self._is_leading:
            await self._call(partial(self._driver.lead, self._epoch, self))
            self._is_leading = True
        listed = await self._call(self._driver.list_workers)
        steps = self._reconciler.compare(listed)
        for terminated in steps.terminated:
            self._report(terminated)
        for worker_id in steps.stops:
            await self._call(partial(self._driver.stop_worker, worker_id))
        for request in steps.requests:
            await self._request(request)

    async def _request(self, request: RequestWorker) -> None:
        try:
            await self._call(partial(self._driver.request_worker, request))
        except _TermIsOver:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, this worker does not come
            _logger.warning("WorkerNotStarted worker=%s error=%r", request.worker_id, error)
            self._report(WorkerTerminated(request.worker_id, f"the resource driver cannot start it: {error or repr(error)}"[:_SHOWN]))

    async def _call(self, function: Callable[[], T]) -> T:
        """Call the driver in the thread.

        Raises:
            _TermIsOver: the term ended before the call began.
            TimeoutError: the driver does not come back.
            Exception: whatever the driver raises.

        """

        def guarded() -> T:
            if self._is_closed:
                raise _TermIsOver
            return function()

        return await asyncio.wait_for(self._loop.run_in_executor(self._thread, guarded), CALL_TIMEOUT_S)

    def _report(self, outcome: WorkerTerminated) -> None:
        if not self._is_closed:
            self._on_outcome(outcome)

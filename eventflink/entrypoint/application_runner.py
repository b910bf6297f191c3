"""The leader's part in application mode: it runs the application's process while it leads, and only then.

A process that ends without having ended the cluster has failed, whatever it died of, and the cluster ends as that. Nothing is decided here:
the end is asked for as any client asks for it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Final

from eventflink.entrypoint.application_main import Application
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterShuttingDown, GatewayError
from eventflink.leadership.participant import Participant
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import ApplicationStatus
from eventflink.processes import die_with_parent

_logger = logging.getLogger(__name__)

_CHECK_INTERVAL_S: Final = 0.1
_RETRY_S: Final = 5.0


class ApplicationRunner:
    """Starts and ends the process of one application; to be made and run in the main thread."""

    def __init__(self, application: Application, access: ClusterAccess, look: Callable[[], Participant | None]) -> None:
        self._application = application
        self._access = access
        self._look = look
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                await self._check()
                await asyncio.sleep(_CHECK_INTERVAL_S)
        finally:
            self._end_process()

    async def _check(self) -> None:
        participant = self._look()
        leads = participant is not None and participant.leader is not None
        if participant is None or not leads:
            self._end_process()
        elif participant.fold.master.shutdown.is_under_way:
            return  # It has done its part, or is needed no more.
        elif self._process is None:
            self._start_process()
        elif (code := self._process.poll()) is not None:
            await self._report_death(code)

    def _start_process(self) -> None:
        self._process = subprocess.Popen(
            self._application.command(self._access),
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - the function only calls prctl, which is safe after fork
        )
        _logger.info("ApplicationStarted application=%s process_id=%d", self._application.application_id, self._process.pid)

    def _end_process(self) -> None:
        """End it as the death of this master would: the next leader runs it again."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            _logger.info("ApplicationEnded application=%s process_id=%d", self._application.application_id, process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    async def _report_death(self, code: int) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        diagnostics = f"the process of the application {how} before it had ended the cluster"
        try:
            await asyncio.to_thread(self._ask_for_end, diagnostics)
        except ClusterShuttingDown:
            return
        except GatewayError as error:
            _logger.warning("ApplicationEndNotSaid application=%s error=%s", self._application.application_id, error)
            await asyncio.sleep(_RETRY_S)

    def _ask_for_end(self, diagnostics: str) -> None:
        with DispatcherGateway(self._access) as gateway:
            actor = f"application {self._application.application_id}"
            gateway.shut_down_cluster(ApplicationStatus.FAILED, diagnostics, cancel_jobs=True, actor=actor)

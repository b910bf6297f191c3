"""The TaskExecutor's side of its task processes: the current fork server, and what the guardian has to know of it.

A fork server that was replaced is not listened to any more. Used by the main loop only, except where events enter the inbox.
"""

import logging
from functools import partial
from pathlib import Path

from eventflink.blob.tls import tls_files
from eventflink.model.attempts import AttemptId
from eventflink.model.configuration import Configuration
from eventflink.processes.trace import stamp
from eventflink.taskexecutor.fork_server import ForkServer
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.guardian_link import GuardianLink
from eventflink.taskexecutor.guardian_messages import ProcessEnded, ProcessStarted, SessionOpened, SessionReleased
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.process_events import (
    Failed,
    Finished,
    ForkServerDied,
    Killed,
    LaunchTask,
    Outcome,
    ProcessEvent,
    ProcessOrder,
    SparkOpened,
    SparkReleased,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.protocol import Action, TaskExecutorProtocol

_LOGGER = logging.getLogger(__name__)


def _describe(outcome: Outcome) -> str:
    match outcome:
        case Finished():
            return "finished"
        case Killed(signal=number):
            return f"killed by signal {number}"
        case Failed(cause=cause):
            return f"failed: {cause.failure_type}: {cause.message[:200]}"


class ProcessLink:
    """Starts fork servers one after the other, passes orders on, and brings events to the protocol and to the guardian."""

    def __init__(
        self,
        configuration: Configuration,
        log_directory: Path,
        runtime_directory: Path,
        inbox: Inbox,
        protocol: TaskExecutorProtocol,
        guardian: GuardianLink,
    ) -> None:
        self._settings = ForkServerSettings(
            working_path=configuration.working_path,
            log_directory=log_directory,
            runtime_directory=runtime_directory,
            spark_remote=configuration.spark_remote,
            spark_master=configuration.spark_master,
            spark_memory=configuration.spark_memory,
            kill_timeout_ms=configuration.kill_timeout_ms,
            warm_processes=configuration.slots,
            tls=tls_files(configuration),
        )
        self._inbox = inbox
        self._protocol = protocol
        self._guardian = guardian
        self._server: ForkServer | None = None
        self._generation = 0
        self._process_ids: dict[AttemptId, int] = {}
        self._session_ids: dict[AttemptId, str] = {}

    def process_ids(self) -> list[int]:
        """Return the ids of the fork server and its children; empty while there is none. To be called from the main loop."""
        return self._server.process_ids() if self._server is not None else []

    def start(self) -> None:
        """Start a fork server; if it cannot start, that is reported like its death. The calling thread must live as long as the process."""
        self.close()
        self._generation += 1
        server = ForkServer(self._settings, partial(self._put_event, self._generation))
        try:
            server.start()
        except OSError as error:
            self._inbox.put_result(partial(self._on_event, self._generation, ForkServerDied(f"it could not be started: {error}")))
            return
        self._server = server
        for process_id in server.process_ids():
            self._guardian.send_message(ProcessStarted(process_id))
        _LOGGER.info("ForkServerStarted processes=%s", server.process_ids())

    def end(self, reason: str) -> None:
        """End the fork server with all its processes, and continue as if it had died."""
        _LOGGER.error("ForkServerEnded reason=%s", reason)
        self.close()
        self._inbox.put_result(partial(self._on_event, self._generation, ForkServerDied(reason)))

    def send_order(self, order: ProcessOrder) -> None:
        """Send the order to the fork server; without one it is void, as is whatever the order was about."""
        if self._server is None:
            _LOGGER.warning("OrderVoid order=%s", type(order).__name__)
            return
        if isinstance(order, LaunchTask):
            stamp("launching", subject=order.deployment.job_id)
        try:
            self._server.send(order)
        except OSError as error:  # It died; its reader tells so.
            _LOGGER.warning("OrderNotTaken order=%s error=%s", type(order).__name__, error)

    def close(self) -> None:
        """End the current fork server, if there is one, and wait until its processes are gone."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._guardian.forget_processes()
            self._process_ids.clear()

    def _put_event(self, generation: int, event: ProcessEvent) -> None:
        self._inbox.put_input(partial(self._on_event, generation, event))

    def _on_event(self, generation: int, event: ProcessEvent, now_ms: int) -> list[Action]:
        if generation != self._generation:
            return []
        self._tell_guardian(event)
        if isinstance(event, ForkServerDied):
            _LOGGER.error("ForkServerDied reason=%s", event.reason)
            self.close()
            self._generation += 1  # Nothing of this one counts any more.
        return self._protocol.on_process_event(event, now_ms)

    def _tell_guardian(self, event: ProcessEvent) -> None:
        match event:
            case TaskLaunched(attempt=attempt, process_id=process_id):
                stamp("launched", subject=attempt.job_id)
                _LOGGER.info("TaskLaunched attempt=%s process_id=%d", attempt, process_id)
                self._process_ids[attempt] = process_id
                self._guardian.send_message(ProcessStarted(process_id))
            case SparkOpened(attempt=attempt, spark_session_id=session_id, remote=remote):
                self._session_ids[attempt] = session_id
                self._guardian.send_message(SessionOpened(session_id, remote))
            case TaskProcessEnded(attempt=attempt, outcome=outcome):
                stamp("ended", subject=attempt.job_id)
                _LOGGER.info("TaskProcessEnded attempt=%s outcome=%s", attempt, _describe(outcome))
                if attempt in self._process_ids:
                    self._guardian.send_message(ProcessEnded(self._process_ids.pop(attempt)))
                if isinstance(outcome, Finished):
                    self._session_released(attempt)
            case SparkReleased(attempt=attempt):
                self._session_released(attempt)
            case _:
                pass

    def _session_released(self, attempt: AttemptId) -> None:
        if attempt in self._session_ids:
            self._guardian.send_message(SessionReleased(self._session_ids.pop(attempt)))

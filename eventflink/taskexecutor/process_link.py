"""The TaskExecutor's side of its task processes: the current fork servers, which of them a task is for, and what the guardian has to know.

There are two of them, one of which has loaded Spark's client; to the protocol they are one, and end together. That takes up to the kill
timeout, in a thread of its own: the main loop waits for it only at its own end. Those that were replaced are not listened to any more. Used
by the main loop only, except where events enter the inbox.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from eventflink.blob.tls import tls_files
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.processes.trace import stamp
from eventflink.taskexecutor.fork_server import ForkServer
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.guardian_link import GuardianLink
from eventflink.taskexecutor.guardian_messages import ProcessEnded, ProcessStarted, SessionOpened, SessionReleased
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.location_files import LocationFiles
from eventflink.taskexecutor.process_events import (
    Failed,
    Finished,
    ForkServerDied,
    ForkServerReady,
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
from eventflink.taskexecutor.spark_server import SparkServerSettings
from eventflink.taskexecutor.spark_use import Code, SparkUse, code_of
from eventflink.taskexecutor.task_secrets import SecretSettings

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
    """Starts pairs of fork servers one after the other, passes orders on, and brings events to the protocol and to the guardian.

    Of a pair, the fork server without Spark's client starts at once. The one with it starts when a task is first expected to use Spark, or
    has used it unexpectedly; or, by configuration, at once.
    """

    def __init__(
        self,
        configuration: Configuration,
        access: ClusterAccess,
        log_directory: Path,
        runtime_directory: Path,
        inbox: Inbox,
        protocol: TaskExecutorProtocol,
        guardian: GuardianLink,
    ) -> None:
        settings = ForkServerSettings(
            cluster_id=access.cluster_id,
            kafka=access.kafka,
            replication_factor=configuration.replication_factor,
            working_place=configuration.working_place,
            log_directory=log_directory,
            runtime_directory=runtime_directory,
            locations_directory=runtime_directory / "input-locations" / configuration.task_manager_id,
            spark_server=SparkServerSettings.of(configuration),
            engines=configuration.engines,
            spark_pool=configuration.spark_pool,
            counts_written_rows=configuration.counts_written_rows,
            kill_timeout_ms=configuration.kill_timeout_ms,
            with_spark=False,
            warm_processes=configuration.slots,
            tls=tls_files(configuration),
            environment=configuration.task_environment_names,
            secrets=SecretSettings.of(configuration),
            catalogs=configuration.catalogs,
        )
        # To open a session takes far longer than to fork a process: those that use Spark need not wait for tasks.
        self._settings = (settings, replace(settings, with_spark=True, warm_processes=0))
        self._starts_early = configuration.spark_starts_early
        self._inbox = inbox
        self._protocol = protocol
        self._guardian = guardian
        self._servers: tuple[ForkServer, ...] = ()
        """Without Spark's client and with it, or none."""
        self._ending: threading.Thread | None = None
        """Waits until the processes of fork servers that end are gone."""
        self._spark_use = SparkUse()
        self._locations = LocationFiles(settings.locations_directory)
        self._launched: dict[AttemptId, tuple[ForkServer, Code | None]] = {}
        """The attempts that have not ended, or left a session behind."""
        self._generation = 0
        self._process_ids: dict[AttemptId, int] = {}
        self._session_ids: dict[AttemptId, str] = {}

    def process_ids(self) -> list[int]:
        """Return the ids of the fork servers and their children; empty while there are none. To be called from the main loop."""
        return [process_id for server in self._servers for process_id in server.process_ids()]

    def start(self) -> None:
        """Make a pair of fork servers where there is none; if one that is needed now cannot start, that is reported like its death.

        The calling thread must live as long as the process.
        """
        self._generation += 1
        self._locations.clear()
        servers = tuple(ForkServer(settings, partial(self._put_event, self._generation)) for settings in self._settings)
        try:
            for server in servers if self._starts_early else servers[:1]:
                server.start()
        except OSError as error:
            _LOGGER.error("ForkServerDied reason=it could not be started: %s", error)  # noqa: TRY400 - it says all
            self._begin_end(servers, f"it could not be started: {error}", at_once=True)
            return
        self._servers = servers
        for process_id in self.process_ids():
            self._guardian.send_message(ProcessStarted(process_id))
        _LOGGER.info("ForkServersStarted processes=%s", self.process_ids())

    def end(self, reason: str) -> None:
        """End the fork servers with all their processes; when these are gone, the protocol is told as if they had died."""
        _LOGGER.error("ForkServerEnded reason=%s", reason)
        self._begin_end(self._servers, reason, at_once=False)

    def send_order(self, order: ProcessOrder) -> None:
        """Send the order to its fork server; without one it is void, as is whatever the order was about."""
        if not self._servers or self._ending is not None:
            _LOGGER.warning("OrderVoid order=%s", type(order).__name__)
            return
        if isinstance(order, LaunchTask):
            stamp("launching", subject=order.deployment.job_id)
            order = self._locations.put(order)
        try:
            self._choose_server(order).send(order)
        except OSError as error:  # It died; its reader tells so.
            _LOGGER.warning("OrderNotTaken order=%s error=%s", type(order).__name__, error)

    def close(self) -> None:
        """End the current fork servers, if there are any, and wait until their processes are gone: what it can tell comes too late."""
        self._begin_end(self._servers, "the TaskExecutor ends", at_once=False)
        if self._ending is not None:
            self._ending.join()  # As long as the kill timeout, at most, and some seconds.
        self._forget_servers()

    def _begin_end(self, servers: Sequence[ForkServer], reason: str, *, at_once: bool) -> None:
        """End fork servers, unless they end already; `at_once`: tasks have no time to end."""
        if self._ending is None:
            self._ending = threading.Thread(target=self._end_servers, args=(servers, reason, at_once), name="fork-servers-end", daemon=True)
            self._ending.start()

    def _end_servers(self, servers: Sequence[ForkServer], reason: str, at_once: bool) -> None:  # noqa: FBT001 - the target of a thread
        for server in servers:
            server.begin_stop(at_once=at_once)
        for server in servers:
            server.wait_until_gone()
        self._inbox.put_input(partial(self._on_ended, reason))

    def _on_ended(self, reason: str, now_ms: int) -> list[Action]:
        """All that ran is gone, and what it had told came before this."""
        self._forget_servers()
        return self._protocol.on_process_event(ForkServerDied(reason), now_ms)

    def _forget_servers(self) -> None:
        self._servers, self._ending = (), None
        self._generation += 1  # Nothing of these counts any more.
        self._guardian.forget_processes()
        self._process_ids.clear()
        self._launched.clear()
        self._locations.clear()

    def _start_spark_client(self) -> None:
        """Start the fork server with Spark's client where it was not needed so far; if it cannot start, tasks load it themselves."""
        if self._ending is not None or self._servers[1].is_started:
            return
        server = self._servers[1]
        try:
            server.start()
        except OSError as error:
            _LOGGER.warning("SparkForkServerNotStarted reason=%s", error)
            return
        for process_id in server.process_ids():
            self._guardian.send_message(ProcessStarted(process_id))
        _LOGGER.info("SparkForkServerStarted processes=%s", server.process_ids())

    def _choose_server(self, order: ProcessOrder) -> ForkServer:
        """Return the fork server that knows of the attempt, and for a new one that which it is expected to need.

        What dead fork servers left is released by the one that is ready at once: no release waits until Spark's client is loaded (P15).
        """
        plain, with_spark = self._servers
        if isinstance(order, LaunchTask) and order.attempt not in self._launched:
            # What is not known to need Spark's client does not wait until that is loaded.
            code = code_of(order.deployment)
            is_expected = self._spark_use.is_expected(code, by_default=with_spark.is_ready)
            if is_expected:
                self._start_spark_client()
            self._launched[order.attempt] = (with_spark if is_expected and with_spark.is_started else plain, code)
        return self._launched[order.attempt][0] if order.attempt in self._launched else plain

    def _put_event(self, generation: int, event: ProcessEvent) -> None:
        self._inbox.put_input(partial(self._on_event, generation, event))

    def _on_event(self, generation: int, event: ProcessEvent, now_ms: int) -> list[Action]:
        if generation != self._generation:
            return []
        if isinstance(event, ForkServerReady) and not all(server.is_ready for server in self._servers if server.is_started):
            return []  # The last one tells.
        self._tell_guardian(event)
        if isinstance(event, ForkServerDied):
            _LOGGER.error("ForkServerDied reason=%s", event.reason)
            self._begin_end(self._servers, event.reason, at_once=True)
            self._generation += 1  # The tasks of the other one fail for this reason, not because they are ended.
            return []
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
                self._locations.release(attempt)
                if attempt in self._process_ids:
                    self._guardian.send_message(ProcessEnded(self._process_ids.pop(attempt)))
                if isinstance(outcome, Finished):
                    if attempt in self._launched:
                        self._spark_use.note(self._launched[attempt][1], used=outcome.used_spark)
                    if outcome.used_spark:
                        self._start_spark_client()
                    self._session_released(attempt)
                elif attempt not in self._session_ids:
                    self._launched.pop(attempt, None)
            case SparkReleased(attempt=attempt):
                self._session_released(attempt)
            case _:
                pass

    def _session_released(self, attempt: AttemptId) -> None:
        self._launched.pop(attempt, None)
        if attempt in self._session_ids:
            self._guardian.send_message(SessionReleased(self._session_ids.pop(attempt)))

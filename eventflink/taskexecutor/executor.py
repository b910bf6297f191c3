"""A running TaskExecutor: `protocol.MainLoop` driven with Kafka, the fork server, the guardian and the clocks.

Everything that happens comes through one inbox into the main thread, which alone touches the protocol, the fork server and the guardian.
The fork server is started from it too, for children follow the thread that started them. No decision is made here.
"""

import logging
import os
import signal
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from eventflink.blob.tls import tls_files
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.spark_engines import addresses_of, shown
from eventflink.processes.file_lock import FileLock, LockBusy
from eventflink.taskexecutor import spark_pools
from eventflink.taskexecutor.archive_cache import DIRECTORY, keep_clean
from eventflink.taskexecutor.blob_access import note_blob_server
from eventflink.taskexecutor.disk_watch import DiskWatch
from eventflink.taskexecutor.file_uploader import FileUploader
from eventflink.taskexecutor.guardian_link import GuardianLink
from eventflink.taskexecutor.hardware import host_hardware
from eventflink.taskexecutor.kafka_links import EffectsReader, Inbox, ReportsWriter
from eventflink.taskexecutor.process_events import EndTask, FinishQuery, LaunchTask, ReleaseSpark, ResumeQuery, TakeCheckpoint
from eventflink.taskexecutor.process_link import ProcessLink
from eventflink.taskexecutor.protocol import (
    Action,
    DriverAction,
    EndForkServer,
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
from eventflink.taskexecutor.spark_server import SparkLease, SparkServerSettings, SparkUnavailable, ensure_server
from eventflink.taskexecutor.spark_watch import SparkWatch

_LOGGER = logging.getLogger(__name__)

_BATCH: Final = 256
_REASON_SHOWN: Final = 500
_GUARDIAN_CHECK_INTERVAL_MS: Final = 500
_FLUSH_TIMEOUT_S: Final = 5.0
_JOIN_TIMEOUT_S: Final = 2.0
_IDENTITY_TIMEOUT_S: Final = 15.0
"""How long another process may still be this TaskExecutor."""


def run_task_executor(configuration: Configuration, access: ClusterAccess) -> int:
    """Run a TaskExecutor until SIGTERM or SIGINT; return the exit code: 0 after an orderly stop, 1 when it could not continue.

    Call it from the main thread. As long as the Kafka of the cluster cannot be reached, it is tried again.
    """
    configuration = configuration.with_ids()
    stopping = threading.Event()
    with _stop_signals(stopping):
        return TaskExecutor(configuration, access, stopping).run()


@contextmanager
def _stop_signals(stopping: threading.Event) -> Iterator[None]:
    """Set the event on SIGTERM and SIGINT."""

    def handle(_number: int, _frame: types.FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class TaskExecutor:
    """The parts of one TaskExecutor process, driven by its main loop."""

    def __init__(self, configuration: Configuration, access: ClusterAccess, stopping: threading.Event) -> None:
        """Put the parts together; nothing runs yet. `stopping` asks for an orderly stop."""
        self._configuration = configuration
        self._stopping = stopping
        settings = _protocol_settings(configuration)
        log_directory = configuration.data_path / "logs" / configuration.task_manager_id
        self._log_directory = log_directory
        self._noted_blob_server = ""
        runtime_directory = configuration.data_path / "run"
        directories = [log_directory, runtime_directory]
        if (place := configuration.working_place).scheme:
            from eventflink.blob.fsspec_storage import check_url  # noqa: PLC0415 - fsspec only where it is needed

            check_url(str(place), "execution.working-directory")
        else:
            directories.insert(0, place.path)
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
        self._main_loop = MainLoop(settings, lambda: uuid.uuid4().hex)
        self._protocol = self._main_loop.protocol
        self._inbox = Inbox()
        # Shared with the guardian: a TaskExecutor that is started again after it was killed waits until the guardian has ended what the
        # dead one left (P15).
        self._identity_lock = FileLock(log_directory / "taskexecutor.lock", _IDENTITY_TIMEOUT_S)
        self._lease = SparkLease(runtime_directory)
        ids = (access, configuration.task_manager_id)
        self._guardian = GuardianLink(*ids, log_directory / "guardian.log", self._identity_lock)
        self._processes = ProcessLink(configuration, access, log_directory, runtime_directory, self._inbox, self._protocol, self._guardian)
        self._reader = EffectsReader(*ids, self._inbox, self._protocol)
        self._writer = ReportsWriter(*ids, configuration.self_fence_timeout_ms, self._inbox, self._protocol)
        self._disks = DiskWatch(directories, configuration.disk_min_free_bytes, self._tell_disk)
        self._spark = SparkWatch(runtime_directory, self._tell_spark_end)
        self._uploader = FileUploader(log_directory, settings.upload_limit, tls_files(configuration))
        self._stop_metrics: Callable[[], None] = lambda: None
        self._next_guardian_check_ms = 0
        self._starts_spark = configuration.spark_starts_early and not configuration.spark_remote

    def run(self) -> int:
        """Run until the end; return the exit code."""
        configuration = self._configuration
        _LOGGER.info(
            "TaskExecutorStarted task_manager=%s cluster=%s slots=%d",
            configuration.task_manager_id,
            configuration.cluster_id,
            configuration.slots,
        )
        try:
            self._identity_lock.acquire()
            self._lease.acquire()
        except LockBusy as error:
            _LOGGER.error("TaskExecutorNotStarted task_manager=%s reason=%s", configuration.task_manager_id, error)  # noqa: TRY400 - it says all
            return 1
        self._guardian.check()
        keep_clean(configuration.data_path / "run" / DIRECTORY, configuration.blob_cleanup_interval_ms / 1000)
        spark_pools.keep_clean(configuration.data_path / "run")
        self._disks.start()
        self._spark.start()
        try:
            self._turn()  # The fork servers start, and load what tasks need meanwhile.
            self._reader.start()
            self._serve_metrics(configuration.data_path / "run")
            while (end := self._main_loop.stopped) is None:
                self._turn()
        finally:
            self._close()
        _LOGGER.info("TaskExecutorEnded task_manager=%s reason=%s", configuration.task_manager_id, end.reason)
        return 1 if end.failed else 0

    def _turn(self) -> None:
        """Wait until something happens or is due, and do what follows."""
        inputs = self._inbox.take_inputs(self._main_loop.wait_ms(_now_ms()) / 1000, _BATCH)
        if self._stopping.is_set():
            inputs.insert(0, self._stop)
        now_ms = _now_ms()
        actions = self._main_loop.turn(now_ms, int(time.time() * 1000), inputs)
        self._note_blob_server()
        for action in actions:
            self._perform(action)
        if now_ms >= self._next_guardian_check_ms:
            self._next_guardian_check_ms = now_ms + _GUARDIAN_CHECK_INTERVAL_MS
            self._guardian.check()
        if self._starts_spark and self._protocol.phase is Phase.REGISTERED:  # Before that, it has enough to do.
            self._starts_spark = False
            threading.Thread(target=self._start_spark, name="spark-start", daemon=True).start()

    def _start_spark(self) -> None:
        """Start the local server before a task needs it; where that fails, the task that does says why."""
        try:
            remote = ensure_server(self._configuration.data_path / "run", SparkServerSettings.of(self._configuration))
        except (SparkUnavailable, OSError) as error:
            _LOGGER.warning("SparkNotStarted reason=%s", " ".join(str(error).split())[-_REASON_SHOWN:])
        else:
            _LOGGER.info("SparkStarted remote=%s", shown(remote))

    def _serve_metrics(self, runtime_directory: Path) -> None:
        configuration = self._configuration
        if not configuration.metrics_ports:
            return
        # Loading the web server takes a while, in which Kafka is connected to and the fork servers load.
        from eventflink.metrics.service import serve_metrics  # noqa: PLC0415 - see above
        from eventflink.taskexecutor.metrics import TaskExecutorView, task_executor_registry  # noqa: PLC0415 - see above

        def look(now_ms: int) -> TaskExecutorView:
            """Return what metrics are read from; called in the main loop only."""
            return TaskExecutorView(self._protocol, len(self._inbox), len(self._processes.process_ids()), now_ms)

        server = serve_metrics(task_executor_registry(configuration, runtime_directory, self._inbox, look), configuration)
        if server is not None:
            self._stop_metrics = server.stop
            self._protocol.metrics_address = server.address_by(configuration.host)

    def _note_blob_server(self) -> None:
        """Note it before a task can be told of it, so that no task finds an older one."""
        address = self._protocol.blob_address
        if address == self._noted_blob_server:
            return
        try:
            note_blob_server(self._log_directory, address)
        except OSError as error:
            _LOGGER.warning("BlobServerNotNoted address=%s error=%s", address, error)
        self._noted_blob_server = address

    def _tell_disk(self, fault: str) -> None:
        self._inbox.put_input(partial(self._protocol.on_disk, fault))

    def _tell_spark_end(self, end: SparkEnd) -> None:
        self._inbox.put_input(partial(self._protocol.on_spark_ended, end))

    def _stop(self, now_ms: int) -> list[Action]:
        return self._protocol.stop(now_ms, "the TaskExecutor was stopped in order")

    def _perform(self, action: DriverAction) -> None:
        match action:
            case LaunchTask() | EndTask() | ReleaseSpark() | TakeCheckpoint() | ResumeQuery() | FinishQuery():
                self._processes.send_order(action)
            case SendReports(reports=reports, sent_at_ms=sent_at_ms):
                self._writer.send_reports(reports, sent_at_ms)
            case InstanceStarted(instance_id=instance_id, replaced_id=replaced_id, reason=reason):
                if replaced_id:
                    _LOGGER.warning("InstanceEnded instance=%s reason=%s", replaced_id, reason)
                _LOGGER.info("InstanceStarted instance=%s", instance_id)
                self._guardian.begin_instance(instance_id)
            case SendHeartbeat(heartbeat=heartbeat, sent_at_ms=sent_at_ms):
                self._writer.send_heartbeat(heartbeat, sent_at_ms)
            case StartForkServer():
                self._processes.start()
            case EndForkServer(reason=reason):
                self._processes.end(reason)
            case UploadFile():
                self._upload(action)
            case Stopped():
                pass  # The loop ends after this turn.

    def _upload(self, upload: UploadFile) -> None:
        instance_id, request_id = upload.instance_id, upload.order.request_id

        def on_end(blob_key: str | None, error: str | None) -> None:
            self._inbox.put_input(partial(self._protocol.on_upload_completed, instance_id, request_id, blob_key, error))

        self._uploader.submit(upload.order, upload.blob_address, on_end)

    def _close(self) -> None:
        """End everything that was started, whatever ended the loop; the guardian last, for until then it may be needed."""
        self._inbox.close()
        orderly = self._main_loop.stopped is not None or self._stopping.is_set()
        undelivered = self._writer.close(_FLUSH_TIMEOUT_S)
        if undelivered:
            _LOGGER.warning("ReportsUndelivered records=%d", undelivered)
        self._processes.close()
        self._reader.close(_JOIN_TIMEOUT_S)
        self._stop_metrics()
        self._lease.release()
        if orderly:
            self._guardian.close()
        self._identity_lock.release()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _protocol_settings(configuration: Configuration) -> ProtocolSettings:
    return ProtocolSettings(
        task_manager_id=configuration.task_manager_id,
        host=configuration.host,
        process_id=os.getpid(),
        slot_count=configuration.slots,
        slot_profile=configuration.slot_profile,
        hardware=host_hardware(),
        spark_addresses=addresses_of(configuration.engines),
        heartbeat_interval_ms=configuration.heartbeat_interval_ms,
        self_fence_timeout_ms=configuration.self_fence_timeout_ms,
        kill_timeout_ms=configuration.kill_timeout_ms,
    )

"""The files that TaskExecutors are asked to upload: of an attempt, or of themselves (logs, the list of these, stacks of threads).

A request is ordered of one instance, and resent until that answers. What is asked of a TaskExecutor itself ends after a time in any case.
Names of logs are checked here and looked up there; none is ever a path.
"""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.events.inputs import FileUploadCompleted, RequestFileUpload, RequestTaskManagerFileUpload
from eventflink.events.log_events import (
    FileUploaded,
    FileUploadRequested,
    InputsSkipped,
    LogEvent,
    RequestRejected,
    TaskManagerDisconnected,
    TaskManagerFileUploadRequested,
    TaskManagerLost,
    TaskManagerReleased,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.inputs import UploadsOverdue
from eventflink.master.requests import MAX_MESSAGE_LENGTH, accepted, rejected
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.settings import Context
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import IllegalTransition, TaskFile, TaskManagerFile
from eventflink.model.texts import cut_bytes

MAX_PENDING_UPLOADS: Final = 1_000
UPLOAD_TIMEOUT_MS: Final = 120_000
EXPIRY_BATCH: Final = 256
FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")


@dataclass(slots=True)
class PendingUpload:
    """A file of an attempt that somebody waits for."""

    task_manager_id: str
    instance_id: str
    attempt: AttemptId
    file: TaskFile


@dataclass(slots=True)
class PendingTaskManagerUpload:
    """A file of a TaskExecutor itself that somebody waits for."""

    task_manager_id: str
    instance_id: str
    file: TaskManagerFile
    name: str
    requested_at_ms: int


@dataclass(slots=True)
class Uploads:
    """All uploads that are under way."""

    dispatcher: Dispatcher = field(metadata=DERIVED)
    resource_manager: ResourceManager = field(metadata=DERIVED)
    pending: dict[str, PendingUpload | PendingTaskManagerUpload] = field(default_factory=dict)
    """By request, the oldest first."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_request_file_upload(self, command: RequestFileUpload) -> list[LogEvent]:
        """Ask the TaskManager that runs an attempt, or ran it last, for one of its files."""
        job = self.dispatcher.jobs.get(command.job_id)
        if job is None:
            return [self.dispatcher.unknown_job(command)]
        attempt = command.attempt_id
        execution = job.execution_graph.execution_of(attempt)
        if execution is not None and execution.reused_from:
            subtask = f" --subtask {attempt.subtask_index}" if attempt.subtask_index else ""
            shows = f"'eventflink logs {execution.reused_from} {attempt.vertex_id}{subtask}' shows what it wrote there"
            return [rejected(command, "FileNotAvailable", f"attempt {attempt} is reused from '{execution.reused_from}': {shows}")]
        if execution is None or not self.resource_manager.is_current(execution.task_manager_id, execution.instance_id):
            message = f"attempt {attempt} was never deployed, or its TaskManager is gone"
            return [rejected(command, "FileNotAvailable", message)]
        if refusal := self._refuse_excess(command):
            return [refusal]
        task_manager_id, instance_id = execution.task_manager_id, execution.instance_id
        return [accepted(command), FileUploadRequested(command.request_id, task_manager_id, instance_id, *attempt, file=command.file)]

    def decide_request_task_manager_file_upload(self, command: RequestTaskManagerFileUpload) -> list[LogEvent]:
        """Ask the registered instance of a TaskManager for a file of its own."""
        if command.file is TaskManagerFile.NAMED and not FILE_NAME.fullmatch(command.name):
            rule = "it may hold only letters, digits, '.', '_' and '-', at most 255, beginning with a letter, a digit or '_'"
            return [rejected(command, "InvalidRequest", f"invalid name of a log: '{command.name[:200]}'; {rule}")]
        if command.file is not TaskManagerFile.NAMED and command.name:
            message = f"name '{command.name[:200]}': only NAMED has a name, and {command.file} is wanted"
            return [rejected(command, "InvalidRequest", message)]
        known = self.resource_manager.task_managers.get(command.task_manager_id)
        if known is None:
            return [rejected(command, "UnknownTaskManager", f"TaskManager not found: '{command.task_manager_id}' is not registered")]
        if refusal := self._refuse_excess(command):
            return [refusal]
        requested = TaskManagerFileUploadRequested(
            command.request_id, command.task_manager_id, known.instance_id, command.file, command.name
        )
        return [accepted(command), requested]

    def _refuse_excess(self, command: RequestFileUpload | RequestTaskManagerFileUpload) -> RequestRejected | None:
        if len(self.pending) < MAX_PENDING_UPLOADS:
            return None
        return rejected(command, "TooManyUploads", f"{MAX_PENDING_UPLOADS} uploads are pending already")

    def decide_file_upload_completed(self, completed: FileUploadCompleted) -> list[LogEvent]:
        """Answer the client that waits for an upload."""
        upload = self.pending.get(completed.request_id)
        if upload is None or upload.instance_id != completed.instance_id:
            message = f"upload {completed.request_id}: nobody waits for it from that instance"
            return [InputsSkipped(1, cut_bytes(message, MAX_MESSAGE_LENGTH))]
        return [FileUploaded(completed.request_id, completed.blob_key, completed.error)]

    def decide_uploads_overdue(self, _value: UploadsOverdue, context: Context) -> list[LogEvent]:
        """End uploads that were not answered in time, a batch at a time."""
        overdue = (
            FileUploaded(request_id, None, f"{upload.task_manager_id} did not answer within {UPLOAD_TIMEOUT_MS} ms")
            for request_id, upload in self.pending.items()
            if isinstance(upload, PendingTaskManagerUpload) and upload.requested_at_ms + UPLOAD_TIMEOUT_MS <= context.now_ms
        )
        return list(islice(overdue, EXPIRY_BATCH))

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_file_upload_requested(self, event: FileUploadRequested) -> None:
        """Remember who waits for which file of an attempt."""
        self.dispatcher.job(event.job_id)
        self._check_new(event.request_id)
        self.pending[event.request_id] = PendingUpload(event.task_manager_id, event.instance_id, event.attempt_id, event.file)

    def apply_task_manager_file_upload_requested(self, event: TaskManagerFileUploadRequested, at_ms: int) -> None:
        """Remember who waits for which file of a TaskExecutor."""
        if not self.resource_manager.is_current(event.task_manager_id, event.instance_id):
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is not registered")
        self._check_new(event.request_id)
        self.pending[event.request_id] = PendingTaskManagerUpload(event.task_manager_id, event.instance_id, event.file, event.name, at_ms)

    def _check_new(self, request_id: str) -> None:
        if request_id in self.pending:
            raise IllegalTransition(f"the upload {request_id} was requested already")

    def apply_file_uploaded(self, event: FileUploaded) -> None:
        """Forget the upload: it has ended."""
        if self.pending.pop(event.request_id, None) is None:
            raise IllegalTransition(f"nobody waits for the upload {event.request_id}")

    def apply_task_manager_lost(self, event: TaskManagerLost | TaskManagerDisconnected | TaskManagerReleased) -> None:
        """Forget the uploads that an instance, which is gone, can no longer do."""
        for request_id in [r for r, u in self.pending.items() if u.instance_id == event.instance_id]:
            del self.pending[request_id]

    apply_task_manager_disconnected = apply_task_manager_released = apply_task_manager_lost

    def validate(self) -> None:
        """Check that what TaskExecutors are asked of themselves is asked of registered instances."""
        for request_id, upload in self.pending.items():
            known = self.resource_manager.is_current(upload.task_manager_id, upload.instance_id)
            require(known or isinstance(upload, PendingUpload), f"the upload {request_id} is asked of nobody who is there")

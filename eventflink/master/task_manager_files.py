"""What TaskExecutors are asked to upload of themselves: their logs, the list of these, the stacks of their threads.

A request is ordered of the registered instance, sent again until that answers, and ends after a time in any case. Names of logs
are checked here and looked up there; none is ever a path. Files of tasks are the Dispatcher's.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.inputs import RequestTaskManagerFileUpload
from eventflink.events.log_events import FileUploaded, LogEvent, RequestRejected, TaskManagerFileUploadRequested
from eventflink.master.answers import accepted, rejected
from eventflink.master.canonical import require
from eventflink.master.dispatcher import MAX_PENDING_UPLOADS
from eventflink.model.statuses import IllegalTransition, TaskManagerFile

UPLOAD_TIMEOUT_MS: Final = 120_000
EXPIRY_BATCH: Final = 256
FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")


@dataclass(slots=True)
class PendingTaskManagerUpload:
    """Something that somebody waits for."""

    task_manager_id: str
    instance_id: str
    file: TaskManagerFile
    name: str
    requested_at_ms: int


@dataclass(slots=True)
class TaskManagerFiles:
    """All uploads of TaskExecutors' own files that are under way."""

    uploads: dict[str, PendingTaskManagerUpload] = field(default_factory=dict)
    """By request, the oldest first."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_upload(self, command: RequestTaskManagerFileUpload, instance_id: str | None, others: int) -> list[LogEvent]:
        """Ask the registered instance (None: there is none); `others` more uploads are under way."""
        refused = self._find_fault(command, instance_id, others)
        if refused is not None:
            return [refused]
        return [
            accepted(command),
            TaskManagerFileUploadRequested(command.request_id, command.task_manager_id, instance_id or "", command.file, command.name),
        ]

    def _find_fault(self, command: RequestTaskManagerFileUpload, instance_id: str | None, others: int) -> RequestRejected | None:
        if command.file is TaskManagerFile.NAMED and not FILE_NAME.fullmatch(command.name):
            rule = "it may hold only letters, digits, '.', '_' and '-', at most 255, beginning with a letter, a digit or '_'"
            return rejected(command, "InvalidRequest", f"name '{command.name[:200]}' is no name of a log: {rule}")
        if command.file is not TaskManagerFile.NAMED and command.name:
            return rejected(command, "InvalidRequest", f"name '{command.name[:200]}': only NAMED has a name, and {command.file} is wanted")
        if instance_id is None:
            return rejected(command, "UnknownTaskManager", f"no TaskManager '{command.task_manager_id}' is registered")
        if len(self.uploads) + others >= MAX_PENDING_UPLOADS:
            return rejected(command, "TooManyUploads", f"{MAX_PENDING_UPLOADS} uploads are pending already")
        return None

    def decide_overdue(self, now_ms: int) -> list[LogEvent]:
        """End what nobody has answered for too long, a batch at a time."""
        events: list[LogEvent] = []
        for request_id, upload in self.uploads.items():
            if upload.requested_at_ms + UPLOAD_TIMEOUT_MS > now_ms or len(events) >= EXPIRY_BATCH:
                break
            error = f"{upload.task_manager_id} did not answer within {UPLOAD_TIMEOUT_MS} ms"
            events.append(FileUploaded(request_id, None, error))
        return events

    def has_overdue(self, now_ms: int) -> bool:
        """Tell whether the oldest has waited for too long."""
        oldest = next(iter(self.uploads.values()), None)
        return oldest is not None and oldest.requested_at_ms + UPLOAD_TIMEOUT_MS <= now_ms

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_upload_requested(self, event: TaskManagerFileUploadRequested, at_ms: int, *, is_current: bool) -> None:
        """Remember who waits for what; `is_current` says whether that instance is registered."""
        if not is_current:
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is not registered")
        if event.request_id in self.uploads:
            raise IllegalTransition(f"the upload {event.request_id} was requested already")
        self.uploads[event.request_id] = PendingTaskManagerUpload(event.task_manager_id, event.instance_id, event.file, event.name, at_ms)

    def apply_file_uploaded(self, event: FileUploaded) -> None:
        """Nobody waits any more."""
        if self.uploads.pop(event.request_id, None) is None:
            raise IllegalTransition(f"nobody waits for the upload {event.request_id}")

    def drop_uploads_of(self, instance_id: str) -> None:
        """Forget the uploads that an instance, which is gone, can no longer do."""
        for request_id in [r for r, u in self.uploads.items() if u.instance_id == instance_id]:
            del self.uploads[request_id]

    def validate(self, instances: dict[str, str], others: dict[str, object]) -> None:
        """Check that registered instances are asked, by TaskManager, and that no request is asked for something else as well."""
        for request_id, upload in self.uploads.items():
            require(instances.get(upload.task_manager_id) == upload.instance_id, f"the upload {request_id} is asked of nobody who is there")
            require(request_id not in others, f"the upload {request_id} is asked for twice")

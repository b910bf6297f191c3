"""Uploads files of task attempts and of the TaskExecutor itself: the end of a log, within bounds, to the blob server, as a transient blob.

One worker thread, one file after the other; the protocol bounds how many wait. Where an attempt's files are is in
`task_files.py`, where the TaskExecutor's own are in `own_files.py`.
"""

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eventflink.blob import BlobError
from eventflink.blob.client import put_blob
from eventflink.blob.keys import BlobKind
from eventflink.blob.tls import TlsFiles
from eventflink.events.effects import FileUploadOrder, TaskManagerFileUploadOrder
from eventflink.model.attempts import AttemptId
from eventflink.processes.beneath import Parts, open_file
from eventflink.taskexecutor.own_files import FileUnavailable, OwnFiles
from eventflink.taskexecutor.task_files import UnusableName, task_file_path

_LOGGER = logging.getLogger(__name__)

TAIL_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""How much of a file's end is uploaded."""

_UPLOAD_TIMEOUT_S: Final = 10.0
_UPLOAD_ATTEMPTS: Final = 3

UploadOrder = FileUploadOrder | TaskManagerFileUploadOrder


def read_tail(root: Path, parts: Parts) -> bytes:
    """Return the end of a file below `root`; when something is left out, a first line says how much.

    Raises:
        OSError: there is none, or something else was put in its place: tasks write beside their logs.

    """
    with open_file(root, parts) as stream:
        size = stream.seek(0, 2)
        start = max(0, size - TAIL_LIMIT_BYTES)
        stream.seek(start)
        data = stream.read(TAIL_LIMIT_BYTES)
    return data if start == 0 else b"[%d bytes before this are left out]\n" % start + data


class FileUploader:
    """Uploads in a thread of its own and tells how each upload ended."""

    def __init__(self, log_directory: Path, capacity: int, tls: TlsFiles | None = None) -> None:
        """Start the thread; at most `capacity` uploads wait."""
        self._log_directory = log_directory
        self._tls = tls
        self._own_files = OwnFiles(log_directory)
        self._queue: queue.Queue[tuple[UploadOrder, str, Callable[[str | None, str | None], None]]] = queue.Queue(capacity)
        threading.Thread(target=self._run, name="file-uploader", daemon=True).start()

    def submit(self, order: UploadOrder, blob_address: str, on_end: Callable[[str | None, str | None], None]) -> None:
        """Upload the file; `on_end(blob_key, error)` is called in any case."""
        try:
            self._queue.put_nowait((order, blob_address, on_end))
        except queue.Full:
            on_end(None, "too many uploads are waiting: ask again later")

    def _run(self) -> None:
        while True:
            order, blob_address, on_end = self._queue.get()
            try:
                key = self._upload(order, blob_address)
            except (UnusableName, FileUnavailable, OSError, BlobError) as error:
                _LOGGER.warning("UploadFailed request=%s reason=%s", order.request_id, error)
                on_end(None, str(error))
            else:
                on_end(key, None)

    def _upload(self, order: UploadOrder, blob_address: str) -> str:
        data = self._read_of_task(order) if isinstance(order, FileUploadOrder) else self._read_own(order)
        return put_blob(
            blob_address,
            data,
            kind=BlobKind.TRANSIENT,
            job_id=order.job_id if isinstance(order, FileUploadOrder) else "",
            tls=self._tls,
            timeout_s=_UPLOAD_TIMEOUT_S,
            attempts=_UPLOAD_ATTEMPTS,
        )

    def _read_of_task(self, order: FileUploadOrder) -> bytes:
        attempt = AttemptId(order.job_id, order.vertex_id, order.subtask_index, order.attempt)
        try:
            path = task_file_path(self._log_directory, attempt, order.file)
            return read_tail(self._log_directory, path.relative_to(self._log_directory).parts)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{attempt} has no {order.file} on this host") from error

    def _read_own(self, order: TaskManagerFileUploadOrder) -> bytes:
        found = self._own_files.find(order)
        return found if isinstance(found, bytes) else read_tail(found.parent, (found.name,))

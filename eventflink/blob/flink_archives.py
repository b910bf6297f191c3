"""The archives of ended jobs in Flink's format, beside ours, where Flink's own history server looks for them.

    <archive directory>/<job id>      {"archive": [{"path": "/jobs/…", "json": "…"}, …]}

What stands in one is made by whoever calls; here it becomes visible whole or not at all. The rule: these are copies, for others. Nothing
here reads them, and nothing depends on whether they could be written.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from eventflink.blob.job_archives import MAX_ARCHIVE_BYTES
from eventflink.blob.storage import Storage

_FLINK_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
"""Flink's history server passes over a file with another name."""


class OfJob(Protocol):
    """The part of an archive that Flink's index needs: the id of its job."""

    @property
    def job_id(self) -> str:
        """The job."""


Render = Callable[[Any], Iterable[tuple[str, str]]]
"""Yields what Flink's REST API answers about a job, each path with its JSON, from our archive of the job."""


class FlinkArchives:
    """The archives of all clusters that share a directory. Methods block; several threads may call them."""

    def __init__(self, storage: Storage, render: Render) -> None:
        """Take the place, and what makes the answers. Nothing is opened yet."""
        self._storage = storage
        self._render = render

    def write(self, archive: OfJob) -> str | None:
        """Write the archive of a job, replacing one that is there; return where, or None if Flink has no such job ids.

        Raises:
            OSError, BlobStorageFailed: the storage did not take it.
            ValueError: it is longer than an archive may be.

        """
        job_id = archive.job_id
        if not _FLINK_JOB_ID.fullmatch(job_id):
            return None
        self._storage.prepare()
        with tempfile.NamedTemporaryFile(prefix="flink-archive-", dir=self._storage.spool, delete=False) as file:
            path = Path(file.name)
            try:
                file.write(b'{"archive":[')
                for number, (answered, text) in enumerate(self._render(archive)):
                    file.write((b"," if number else b"") + json.dumps({"path": answered, "json": text}, separators=(",", ":")).encode())
                    if file.tell() > MAX_ARCHIVE_BYTES:
                        raise ValueError(f"in Flink's format it is longer than {MAX_ARCHIVE_BYTES} bytes")
                file.write(b"]}")
                file.flush()
                self._storage.place(path, job_id)
            finally:
                path.unlink(missing_ok=True)
        return f"{self._storage.location}/{job_id}"

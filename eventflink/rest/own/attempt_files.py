"""The files of a task attempt: its log, and what it printed.

They are not in the log of decisions, so they are always of now. They travel as a TaskManager's own do: each request is an order that stands
in the log (`uploaded_files.py`).
"""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.uploaded_files import FilesOfRequest

router = APIRouter()

DEFAULT_LAST_BYTES: Final = 262_144
MAX_LAST_BYTES: Final = 4_194_304
_FILES: Final = "^(log|stdout|stderr)$"


class AttemptFile(OwnShape):
    """The end of a file, from the beginning of a line."""

    size_bytes: int
    """Of the whole file, as it was uploaded."""
    first_line: int
    """The number of the first line that is here, from 1."""
    text: str


@router.get("/jobs/{job_id}/vertices/{vertex_id}/subtasks/{subtask_index}/attempts/{attempt}/files/{file}")
async def attempt_file(
    job_id: str,
    vertex_id: str,
    subtask_index: Annotated[int, Path(ge=0, lt=2**31)],
    attempt: Annotated[int, Path(ge=1, lt=2**31)],
    file: Annotated[str, Path(pattern=_FILES)],
    files: FilesOfRequest,
    last_bytes: Annotated[int, Query(ge=1, le=MAX_LAST_BYTES)] = DEFAULT_LAST_BYTES,
) -> AttemptFile:
    """Return the end of a file that an attempt wrote, as its TaskManager has it now."""
    wanted = AttemptId(job_id, vertex_id, subtask_index, attempt)
    content = await files.fetch(files.gateway.request_task_manager_file_upload(wanted, TaskFile(file.upper()), actor=files.actor))
    return end_of(content, last_bytes)


def end_of(content: bytes, last_bytes: int) -> AttemptFile:
    """Return the last lines that fit into so many bytes; of a longer line, its end."""
    begin = max(0, len(content) - last_bytes)
    if begin > 0 and (line_break := content.find(b"\n", begin - 1, -1)) >= 0:
        begin = line_break + 1
    text = content[begin:].decode("utf-8", "replace")
    return AttemptFile(size_bytes=len(content), first_line=content.count(b"\n", 0, begin) + 1, text=text)

"""Files of tasks as they grow: what is new in each since somebody looked last, line by line, behind the name of its task.

A file travels as `commands/logs.py` says, each time as a whole or its end, and each look stands in the log of decisions: so who follows
looks less often while nothing comes. Of a file nothing is remembered but how much was seen, and the line that it has begun.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from eventflink.blob import BlobError
from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.session import Session
from eventflink.cli.state import ask_job
from eventflink.documents.one_job import JobInfo
from eventflink.gateways.async_gateways import AsyncResourceManagerGateway
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.leader import find_leader
from eventflink.model.attempts import AttemptId
from eventflink.model.backoff import Backoff
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, TaskFile
from eventflink.session.cluster_session import actor_name

MAX_FILES: Final = 64
"""How many tasks are followed at once."""

_AT_ONCE: Final = 8
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 10.0
_MOST_TOLD: Final = 1_000
_PATIENCE_S: Final = 60.0
_MAX_LINE_BYTES: Final = 64 * 1024
_LEFT_OUT: Final = re.compile(rb"\[(\d{1,18}) bytes before this are left out\]\n")
"""How a TaskExecutor begins a file of which it sends the end."""

Select = Callable[[JobInfo], Sequence[AttemptId]]
"""Returns, of a job's view, the attempts whose files are wanted; raises CommandFailed where there are none such, or too many."""


@dataclass(slots=True)
class GrowingFile:
    """What was seen of one file."""

    seen: int = 0
    _begun: bytes = b""

    def take(self, data: bytes) -> list[bytes]:
        """Return the whole lines that `data`, the file or its end as it was sent, has more than was seen; a line says what was missed."""
        left_out = _LEFT_OUT.match(data)
        start = int(left_out[1]) if left_out else 0
        body = data[left_out.end() :] if left_out else data
        if start + len(body) < self.seen:
            self.seen, self._begun = 0, b""  # It is another file by now.
        missed = [*self.end(), b"[%d bytes are left out here]" % (start - self.seen)] if start > self.seen else []
        *lines, self._begun = (self._begun + body[max(0, self.seen - start) :]).split(b"\n")
        self.seen = start + len(body)
        return [*missed, *lines, *(self.end() if len(self._begun) > _MAX_LINE_BYTES else [])]

    def end(self) -> list[bytes]:
        """Return the line that was begun, if nothing will end it."""
        begun, self._begun = self._begun, b""
        return [begun] if begun else []


@dataclass(slots=True)
class FollowedFiles:
    """The files of one job's tasks."""

    session: Session
    job_id: str
    file: TaskFile
    select: Select
    write: Callable[[AttemptId, list[bytes]], None]
    timeout_s: float
    """For one look at one file."""
    _files: dict[AttemptId, GrowingFile] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def follow(self) -> None:
        """Write what is new, for as long as the job runs; nobody who can be asked for a while, as in a failover, is waited for.

        Raises:
            CommandFailed: there is no such job or task, or there are too many.
            GatewayError: nobody could be asked for a minute.

        """
        pauses, answered_at = Backoff(2 * _FIRST_PAUSE_S, _LONGEST_PAUSE_S), time.monotonic()
        async with AsyncResourceManagerGateway(self.session.access) as gateway:
            while True:
                try:
                    job = await asyncio.to_thread(ask_job, self.session, self.job_id)
                    has_more = await self.look(gateway, self.select(job))
                except GatewayError as error:
                    if time.monotonic() - answered_at > _PATIENCE_S:
                        raise
                    self._tell(str(error))
                    has_more = False
                else:
                    answered_at = time.monotonic()
                    if job.status in TERMINAL_JOB_STATUSES:
                        break
                if has_more:
                    pauses.reset()
                await asyncio.sleep(_FIRST_PAUSE_S if has_more else pauses.next())
        for attempt, seen in self._files.items():
            self.write(attempt, seen.end())

    async def look(self, gateway: AsyncResourceManagerGateway, attempts: Sequence[AttemptId]) -> bool:
        """Look at the files of these attempts once; tell whether one had more. Raises `GatewayError` where nobody leads."""
        leader = await asyncio.to_thread(find_leader, self.session.access)
        turns, tls = asyncio.Semaphore(_AT_ONCE), tls_files(self.session.configuration)

        async def fetch(attempt: AttemptId) -> bytes | str:
            async with turns:
                try:
                    key = await gateway.request_task_manager_file_upload(attempt, self.file, timeout_s=self.timeout_s, actor=actor_name())
                    return await asyncio.to_thread(get_blob, leader.blob_address, key, tls=tls)
                except (GatewayError, BlobError) as error:
                    return str(error)

        has_more = False
        for attempt, found in zip(attempts, await asyncio.gather(*map(fetch, attempts)), strict=True):
            if isinstance(found, str):
                self._tell(f"{_name(attempt)}: {found}")
            elif lines := self._files.setdefault(attempt, GrowingFile()).take(found):
                has_more = True
                self.write(attempt, lines)
        return has_more

    def _tell(self, said: str) -> None:
        """Say once, on standard error, what cannot be read."""
        if said not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(said)
            self.session.err.print(said, style="yellow", markup=False)


def _name(attempt: AttemptId) -> str:
    return f"{attempt.vertex_id}[{attempt.subtask_index}]#{attempt.attempt}"


def prefixed(attempt: AttemptId, lines: Sequence[bytes]) -> bytes:
    """Return lines, each behind the name of the task that wrote it."""
    return b"".join(b"%s | %s\n" % (_name(attempt).encode(), line) for line in lines)

"""From a checked submission to a job in the log: where it begins, and its code, which is on the leader's blob server before.

What a client sends, and in which shape, is the business of the routes.
"""

import asyncio
import dataclasses
import mmap
import tempfile
from collections.abc import Callable
from http import HTTPStatus
from typing import IO, Annotated, Final

from fastapi import Depends

from eventflink.blob import BlobError
from eventflink.blob.client import put_blob
from eventflink.blob.tls import TlsFiles, tls_files
from eventflink.events.inputs import JobSubmission
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.steps import ask
from eventflink.model.job_graph import JobGraph
from eventflink.rest.commanding import Commands, CommandsOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.reading import READ_TIMEOUT_S, ServicesOfRequest
from eventflink.rest.services import Services
from eventflink.streams.failures import StreamUnusable

STEP_TIMEOUT_S: Final = 60.0
"""For an upload, and for looking at a savepoint."""

WriteCode = Callable[[IO[bytes]], None]
"""Writes a code archive to a file; may raise a RestError."""


class Submitting:
    """The submission of one request."""

    def __init__(self, commands: Commands, services: Services) -> None:
        """Take the way to the leader, and to its blobs."""
        self.actor = commands.actor
        self._commands = commands
        self._services = services

    async def submit(
        self,
        submission: JobSubmission,
        write_code: WriteCode | None,
        savepoint_path: str | None,
        *,
        allow_non_restored_state: bool,
    ) -> Accepted:
        """Have a job in the log when this returns; the state of this process reflects that.

        Raises:
            RestError: 400, the savepoint or the code cannot be used; 503, one of them cannot be read or stored in time.
            GatewayError: the leader has refused it, or there was no answer.

        """
        graph = await begun_in_savepoint(submission.job_graph, savepoint_path, allow_non_restored_state=allow_non_restored_state)
        if write_code is not None:
            graph = dataclasses.replace(graph, code_archives=(*graph.code_archives, await self._upload(write_code, submission.job_id)))
        return await self._commands.decided(self._commands.dispatcher.run(ask(dataclasses.replace(submission, job_graph=graph))))

    async def _upload(self, write_code: WriteCode, job_id: str) -> str:
        """Put the code into the leader's blob store; return its key."""
        leader = await self._services.state.read(lambda fold: fold.master.leader.blob_address, timeout_s=READ_TIMEOUT_S)
        if not leader.value:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "nobody leads, so nobody takes the code: try again later")
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                return await asyncio.to_thread(_put, leader.value, write_code, job_id, tls_files(self._services.configuration))
        except (BlobError, TimeoutError) as error:
            message = f"the code cannot be stored: {error or f'not within {STEP_TIMEOUT_S:g} s'}"
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, message) from error


async def _submitting_of(commands: CommandsOfRequest, services: ServicesOfRequest) -> Submitting:
    return Submitting(commands, services)


SubmittingOfRequest = Annotated[Submitting, Depends(_submitting_of)]


def _put(address: str, write_code: WriteCode, job_id: str, tls: TlsFiles | None) -> str:
    """Upload an archive from a file, which is mapped: what is not being sent is not in memory."""
    with tempfile.TemporaryFile(prefix="eventflink-code-") as file:
        write_code(file)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            return put_blob(address, data, job_id=job_id, tls=tls)


async def begun_in_savepoint(graph: JobGraph, path: str | None, *, allow_non_restored_state: bool) -> JobGraph:
    """Return a graph with the savepoint in which it begins: this one, or the one that it names, if any.

    Raises:
        RestError: 400, the savepoint cannot be used; 503, it cannot be read in time.

    """
    if path is None and graph.restore is None:
        return graph
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            return await asyncio.to_thread(_begin_in_savepoint, graph, path, allow_non_restored_state=allow_non_restored_state)
    except StreamUnusable as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from error
    except TimeoutError:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"the savepoint cannot be read within {STEP_TIMEOUT_S:g} s") from None


def _begin_in_savepoint(graph: JobGraph, path: str | None, *, allow_non_restored_state: bool) -> JobGraph:
    from eventflink.streams.savepoint_restore import begin_in_savepoint  # noqa: PLC0415 - Arrow, whose import takes its time, and few need

    return begin_in_savepoint(graph, path, allow_non_restored_state=allow_non_restored_state)

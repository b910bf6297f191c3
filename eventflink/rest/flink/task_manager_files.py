"""The logs of TaskManagers and the stacks of their threads.

They travel as for the command line: an order through the log to the TaskExecutor, an upload to the blob store, and from there to here.
Each request is such an order, so it is a command, and a dashboard that asks again and again has each of them in the log.
"""

import asyncio
import json
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse, Response

from eventflink.blob import BlobError, BlobNotFound
from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.model.statuses import TaskManagerFile
from eventflink.rest.access.identity import Identity
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.flink.process_files import LogInfo, LogListInfo, ThreadDumpInfo, thread_dump_info
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.services import Services
from eventflink.views.queries import overview

router = APIRouter()
_TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
"""What is described of a log: errors are JSON all the same."""


class Files:
    """The files that one request reads."""

    def __init__(self, services: Services, identity: Identity) -> None:
        """Take the way to the leader."""
        self.actor = identity.name
        self.gateway = services.resource_manager
        self._services = services

    async def fetch(self, upload: Awaitable[str]) -> bytes:
        """Return what a TaskExecutor uploads; `upload` gives the key.

        Raises:
            GatewayError: the order was refused, the file is not there, or it did not come in time.
            RestError: 404 it is gone again; 503 the blob server does not answer.

        """
        key = await upload
        address = (await self._services.state.read(overview)).value["blob_address"]
        try:
            return await asyncio.to_thread(get_blob, address, key, tls=tls_files(self._services.configuration))
        except BlobNotFound as error:
            raise RestError(HTTPStatus.NOT_FOUND, str(error)) from error
        except BlobError as error:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error


async def _files_of(services: ServicesOfRequest, identity: IdentityOfRequest) -> Files:
    return Files(services, identity)


FilesOfRequest = Annotated[Files, Depends(_files_of)]


@router.get("/taskmanagers/{taskmanagerid}/logs")
async def task_manager_logs(taskmanagerid: str, files: FilesOfRequest) -> LogListInfo:
    """Return the list of a TaskManager's logs."""
    listed = json.loads(await files.fetch(files.gateway.request_task_manager_log_list(taskmanagerid, actor=files.actor)))
    return LogListInfo(logs=[LogInfo(name=log["name"], size=log["size_bytes"], mtime=log["modified_at_ms"]) for log in listed["logs"]])


@router.get("/taskmanagers/{taskmanagerid}/log", response_class=Response, responses=_TEXT)
async def task_manager_log(taskmanagerid: str, files: FilesOfRequest) -> Response:
    """Return a TaskManager's own log."""
    upload = files.gateway.request_task_manager_file_upload_by_type(taskmanagerid, TaskManagerFile.LOG, actor=files.actor)
    return PlainTextResponse(await files.fetch(upload))


@router.get("/taskmanagers/{taskmanagerid}/stdout", response_class=Response, responses=_TEXT)
async def task_manager_stdout(taskmanagerid: str, files: FilesOfRequest) -> Response:
    """Return what a TaskManager printed."""
    upload = files.gateway.request_task_manager_file_upload_by_type(taskmanagerid, TaskManagerFile.STDOUT, actor=files.actor)
    return PlainTextResponse(await files.fetch(upload))


@router.get("/taskmanagers/{taskmanagerid}/logs/{name}", response_class=Response, responses=_TEXT)
async def task_manager_named_log(taskmanagerid: str, name: str, files: FilesOfRequest) -> Response:
    """Return one of the logs of the list."""
    upload = files.gateway.request_task_manager_file_upload_by_name(taskmanagerid, name, actor=files.actor)
    return PlainTextResponse(await files.fetch(upload))


@router.get("/taskmanagers/{taskmanagerid}/thread-dump")
async def task_manager_thread_dump(taskmanagerid: str, files: FilesOfRequest) -> ThreadDumpInfo:
    """Return the stacks of a TaskManager's threads."""
    dump = await files.fetch(files.gateway.request_thread_dump(taskmanagerid, actor=files.actor))
    return thread_dump_info(dump.decode("utf-8", "replace"))

"""The logs of TaskManagers and the stacks of their threads, as Flink's handlers answer them; `uploaded_files.py` fetches them."""

import json
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from eventflink.model.statuses import TaskManagerFile
from eventflink.rest.flink.process_files import LogFileInfo, LogListInfo, ThreadDumpInfo, thread_dump_info
from eventflink.rest.uploaded_files import FilesOfRequest

router = APIRouter()
_TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
"""What is described of a log: errors are JSON all the same."""


@router.get("/taskmanagers/{taskmanagerid}/logs")
async def task_manager_logs(taskmanagerid: str, files: FilesOfRequest) -> LogListInfo:
    """Return the list of a TaskManager's logs."""
    listed = json.loads(await files.fetch(files.gateway.request_task_manager_log_list(taskmanagerid, actor=files.actor)))
    return LogListInfo(logs=[LogFileInfo(name=log["name"], size=log["size_bytes"], mtime=log["modified_at_ms"]) for log in listed["logs"]])


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

"""What Flink says of its JobManager: here of the REST process that is asked. The masters have no port for this, and need none."""

import platform
import sys
from http import HTTPStatus

from fastapi import APIRouter

from eventflink.metrics.threads import dump_threads
from eventflink.model.configuration import KEYS
from eventflink.model.described_keys import describe_keys, plain_value
from eventflink.model.secret_values import without_secrets
from eventflink.rest.errors import RestError
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.process_files import LogListInfo, ThreadDumpInfo, thread_dump_info
from eventflink.rest.flink.shapes import Shape
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.services import Services

router = APIRouter()
of_job_router = APIRouter(prefix=ONE_JOB)
"""A job has no JobManager of its own: the same is answered."""


class ConfigurationInfoEntry(Shape):
    """A key of the configuration and its value."""

    key: str
    value: str


class JVMInfo(Shape):
    """What runs this process: not a JVM, but Python."""

    version: str
    arch: str
    options: list[str]


class EnvironmentInfo(Shape):
    """Where this process runs."""

    jvm: JVMInfo
    classpath: list[str]


@router.get("/jobmanager/config")
async def configuration(services: ServicesOfRequest) -> list[ConfigurationInfoEntry]:
    """Return the configuration of this process, every key, without secrets."""
    return configuration_entries(services)


def configuration_entries(services: Services) -> list[ConfigurationInfoEntry]:
    """Return every key with its value as a configuration file would have it."""
    values = {described.key: plain_value(getattr(services.configuration, KEYS[described.key])) for described in describe_keys()}
    return [ConfigurationInfoEntry(key=key, value=_shown(key, value)) for key, value in values.items()]


def _shown(key: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(without_secrets(key, value))


@router.get("/jobmanager/environment")
async def environment() -> EnvironmentInfo:
    """Return what runs this process."""
    return environment_info()


def environment_info() -> EnvironmentInfo:
    """Return what runs this process."""
    running = f"{platform.python_implementation()} {platform.python_version()} of this REST process; the masters run elsewhere"
    return EnvironmentInfo(jvm=JVMInfo(version=running, arch=platform.machine(), options=[]), classpath=sys.path)


@of_job_router.get("/jobmanager/config")
async def configuration_of_job(reads: JobReadsOfRequest, services: ServicesOfRequest) -> list[ConfigurationInfoEntry]:
    """Return what `/jobmanager/config` returns."""
    await reads.job()
    return configuration_entries(services)


@of_job_router.get("/jobmanager/environment")
async def environment_of_job(reads: JobReadsOfRequest) -> EnvironmentInfo:
    """Return what `/jobmanager/environment` returns."""
    await reads.job()
    return environment_info()


@router.get("/jobmanager/logs")
async def logs() -> LogListInfo:
    """Return no logs: this process gives none of its own away, and has none of the masters'."""
    return LogListInfo(logs=[])


@router.get("/jobmanager/log")
@router.get("/jobmanager/stdout")
@router.get("/jobmanager/logs/{name}")
async def log() -> None:
    """Refuse, as Flink does where the JobManager logs to no file."""
    raise RestError(HTTPStatus.NOT_FOUND, "this REST process shows no logs of masters, nor its own; they are where those processes run")


@router.get("/jobmanager/thread-dump")
async def thread_dump() -> ThreadDumpInfo:
    """Return the stacks of the threads of this process."""
    return thread_dump_info(dump_threads())

"""A running REST process: it follows the log, serves, and ends in order when it is asked to.

It has nothing of its own: one that is killed is started again, and answers when it has read the log up to its end.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import NamedTuple

from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.events.seal import seals_of
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.leadership.configured_settings import master_settings
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.processes.ending import ending_on_signals
from eventflink.reader.heartbeats import HeartbeatFollower, Heartbeats
from eventflink.reader.observed_state import ObservedState
from eventflink.reader.observer import StateObserver
from eventflink.reader.past.frames import LogToRead
from eventflink.reader.past.history_process import HistoryProcess
from eventflink.rest.access.protection import Protection, ProtectionUnusable, configured_protection
from eventflink.rest.application import build_application
from eventflink.rest.jar_store import JarStore
from eventflink.rest.services import Services
from eventflink.rest.serving import RestFailed, listen, serve

_logger = logging.getLogger(__name__)


class _Face(NamedTuple):
    """Where it listens, and how it is reached there."""

    listener: socket.socket
    protection: Protection


def run_rest(configuration: Configuration, access: ClusterAccess, announce: Callable[[str], ExitStack]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is given the URL, and what it gives is closed at the end.

    Raises:
        RestFailed: the port, the storage of the archives, a file of TLS or what knows the tokens cannot be used.
        KafkaException, ReplayStalled, AdministrationError, LogUnusable, LogDiverged, LogNotDense: the log cannot be read or folded.

    """
    try:
        protection = configured_protection(configuration, configuration.rest_bind_address)
    except ProtectionUnusable as error:
        raise RestFailed(str(error)) from error
    with listen("rest.bind-address", configuration.rest_bind_address, "rest.bind-port", configuration.rest_listen_ports) as listener:
        asyncio.run(_run(configuration, access, _Face(listener, protection), announce))


async def _run(configuration: Configuration, access: ClusterAccess, face: _Face, announce: Callable[[str], ExitStack]) -> None:
    state = ObservedState()
    async with AsyncExitStack() as at_the_end:
        proof = face.protection.admission.proof(seals_of(access))
        dispatcher = await at_the_end.enter_async_context(AsyncDispatcherGateway(access, seals=proof))
        resource_manager = await at_the_end.enter_async_context(AsyncResourceManagerGateway(access, seals=proof))
        history = HistoryProcess(LogToRead(access, master_settings(configuration)))
        services = Services(
            configuration,
            access,
            state,
            dispatcher,
            resource_manager,
            _archives(configuration),
            Heartbeats(seals_of(access)),
            admission=face.protection.admission,
            proof=proof,
            history=history,
            jars=_jars(configuration),
        )
        at_the_end.callback(services.jars.close)
        application = build_application(services)
        ending = ending_on_signals()
        if await _start(StateObserver(access, state), at_the_end, ending):
            _logger.info("LogFollowed cluster=%s offset=%d", access.cluster_id, state.log_offset)
            heartbeats = HeartbeatFollower(access, services.heartbeats)
            at_the_end.push_async_callback(heartbeats.stop)
            heartbeats.start()
            at_the_end.push_async_callback(history.stop)
            await serve(application, face.listener, ending, announce, end_streams=state.close, protection=face.protection)


async def _start(observer: StateObserver, at_the_end: AsyncExitStack, ending: asyncio.Event) -> bool:
    """Read the log up to its end; tell whether that came before the process was asked to end."""
    at_the_end.push_async_callback(observer.stop)
    starting, waiting = asyncio.create_task(observer.start()), asyncio.create_task(ending.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return False
    waiting.cancel()
    await starting
    return True


def _archives(configuration: Configuration) -> JobArchives | None:
    if not configuration.archive_location:
        return None
    storage = open_storage(configuration.archive_location, "jobmanager.archive.fs.dir")
    return JobArchives(storage, configuration.job_store_cache_size)


def _jars(configuration: Configuration) -> JarStore:
    directory = configuration.web_upload_directory
    return JarStore(directory.expanduser().absolute() / configuration.cluster_id if directory is not None else None)

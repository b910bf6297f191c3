"""A running history server: it looks for archives from time to time, serves, and ends in order when it is asked to.

It needs neither Kafka nor a cluster, and keeps nothing: one that is killed is started again, and reads the archives again.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

from eventflink.blob.open_storage import open_storage
from eventflink.blob.storage import Storage
from eventflink.model.configuration import Configuration, ConfigurationError
from eventflink.processes.ending import ending_on_signals
from eventflink.reader.archives.index import ArchiveIndex
from eventflink.rest.access.protection import Protection, ProtectionUnusable, configured_protection
from eventflink.rest.archived.application import build_history_application
from eventflink.rest.archived.reads import ArchiveReader
from eventflink.rest.serving import RestFailed, listen, serve

DIRECTORIES_KEY = "historyserver.archive.fs.dir"
_logger = logging.getLogger(__name__)


def run_history_server(configuration: Configuration, announce: Callable[[str], ExitStack]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is given the URL, and what it gives is closed at the end.

    Raises:
        RestFailed: the port, a file of TLS or what knows the tokens cannot be used.
        ConfigurationError: no directory is named.
        BlobStorageUnusable: one that is named is none.

    """
    places = _places(configuration)
    try:
        protection = configured_protection(configuration, configuration.history_bind_address)
    except ProtectionUnusable as error:
        raise RestFailed(str(error)) from error
    keys = ("historyserver.web.address", configuration.history_bind_address, "historyserver.web.port", configuration.history_ports)
    with listen(*keys) as listener:
        asyncio.run(_run(configuration, places, protection, listener, announce))


def _places(configuration: Configuration) -> list[Storage]:
    locations = configuration.history_locations
    if not locations:
        raise ConfigurationError(
            f"{DIRECTORIES_KEY}: it is empty, and so is jobmanager.archive.fs.dir: name a directory of archives in one of them"
        )
    return [open_storage(location, DIRECTORIES_KEY) for location in locations]


async def _run(
    configuration: Configuration,
    places: list[Storage],
    protection: Protection,
    listener: socket.socket,
    announce: Callable[[str], ExitStack],
) -> None:
    index = ArchiveIndex(places, configuration.history_retained_jobs)
    application = build_history_application(ArchiveReader(index), configuration.history_web_refresh_interval_ms, protection.admission)
    ending = ending_on_signals()
    refreshing = asyncio.create_task(_refresh(index, configuration.history_refresh_interval_ms / 1000))
    refreshing.add_done_callback(lambda _: ending.set())
    try:
        await serve(application, listener, ending, announce, protection=protection)
    finally:
        index.close()
        refreshing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await refreshing


async def _refresh(index: ArchiveIndex, interval_s: float) -> None:
    """Look for archives until cancelled."""
    count = -1
    while True:
        began = time.monotonic()
        await asyncio.to_thread(index.refresh)
        if len(index.known.jobs) != count:
            count = len(index.known.jobs)
            _logger.info("ArchivesRead jobs=%d skipped=%d seconds=%.1f", count, len(index.known.skipped), time.monotonic() - began)
        await asyncio.sleep(interval_s)

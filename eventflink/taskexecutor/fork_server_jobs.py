"""What a fork server does besides its loop: it loads what its tasks need before any fork, and releases what a killed task left running.

The loop in `fork_server_main.py` decides when. Nothing here is kept; a release runs in a child of its own.
"""

import gc
import logging
import socket
import sys
import time
from pathlib import Path
from typing import Final

from eventflink.jobs.stored_files import load_driver
from eventflink.model.spark_engines import shown
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import ReleaseSpark
from eventflink.taskexecutor.spark_client import load_client, prepare_tasks
from eventflink.taskexecutor.spark_engines import is_elsewhere
from eventflink.taskexecutor.spark_pools import is_found
from eventflink.taskexecutor.spark_release import ReleaseFailed, release_session

logger = logging.getLogger(__name__)

_RELEASE_ATTEMPTS: Final = 3
_RELEASE_DELAY_S: Final = 0.5


def prepare(*, with_spark: bool, scheme: str) -> None:
    """Load what tasks need, and leave it to the collector's permanent generation, so that children share its memory.

    `scheme` is that of the store in which data sets are; empty: they are in a directory.
    """
    prepare_tasks()
    if with_spark:
        load_client()
    if scheme:
        load_driver(scheme)
    gc.collect()
    gc.freeze()
    threads = [p.name for p in Path("/proc/self/task").iterdir()] if Path("/proc/self/task").is_dir() else []
    logger.info("Preloaded modules=%d threads=%d", len(sys.modules), len(threads))


def release_repeatedly(order: ReleaseSpark, settings: ForkServerSettings, _channel: socket.socket) -> None:
    """Release a session; a server of this host's own that is gone has released it."""
    remote = order.remote
    for attempt in range(_RELEASE_ATTEMPTS):
        try:
            release_session(remote, order.spark_session_id)
        except ReleaseFailed as error:
            logger.warning("SparkNotReleased attempt=%s error=%s", order.attempt, error)
            if not is_elsewhere(settings.engines, remote) and not is_found(settings.runtime_directory, remote):
                return
            time.sleep(_RELEASE_DELAY_S * attempt)
        else:
            return
    raise ReleaseFailed(f"{shown(remote)} did not release session {order.spark_session_id} in {_RELEASE_ATTEMPTS} attempts")

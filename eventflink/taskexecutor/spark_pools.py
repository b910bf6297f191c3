"""The Sparks of a host: the one that all jobs share, and those of pools, each in a directory with the files of `spark_server.py`.

The shared one lives as long as a TaskExecutor. A pool's lives as long as a task that uses it, and some time longer for those that come
next: each task's process holds a lease, so that the kernel counts, however a process dies. The rule: what one Spark does to itself, such as
to fill its heap, ends the tasks of its pool and of no other.
"""

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventflink.model.spark_pools import OF_JOB, SHARED, SparkPool
from eventflink.processes.file_lock import FileLock, LockBusy, open_lock, try_lock
from eventflink.taskexecutor.spark_server import (
    LEASE_FILE,
    LOG_FILE,
    SparkLease,
    SparkServerSettings,
    find_server,
    is_server_alive,
)

if TYPE_CHECKING:
    from eventflink.events.effects import TaskDeployment

_LOGGER = logging.getLogger(__name__)

_DIRECTORY: Final = "pools"
_LOCK_FILE: Final = "lock"
_LOCK_TIMEOUT_S: Final = 10.0
_KEPT_S: Final = 3_600.0
"""How long the files of a pool stay that nobody uses, so that its log can be read."""

_CHECK_INTERVAL_S: Final = 60.0


def pool_of(deployment: "TaskDeployment", default: str) -> SparkPool:
    """Return which Spark is to run a task; `default`: for jobs that say nothing."""
    return deployment.spark if deployment.spark is not None else SparkPool(default)


def pool_directory(runtime_directory: Path, pool: str, job_id: str) -> Path:
    """Return where the files of a pool's Spark are."""
    if pool == SHARED:
        return runtime_directory
    return runtime_directory / _DIRECTORY / (f"job-{job_id}" if pool == OF_JOB else f"named-{pool}")


def pool_settings(settings: SparkServerSettings, pool: SparkPool) -> SparkServerSettings:
    """Return how the Spark of a pool is started, beside the shared one of these settings."""
    master = f"local[{pool.cores}]" if pool.cores else settings.master
    memory, idle_timeout_ms = pool.memory or settings.memory, settings.pool_idle_timeout_ms
    # One process at a time has the catalogue of a directory: that is the shared one.
    return replace(settings, master=master, memory=memory, idle_timeout_ms=idle_timeout_ms, catalog_directory="")


def hold_pool(directory: Path) -> SparkLease:
    """Return the lease of a pool's Spark, which does not end by itself until that is released or its process ends.

    Raises:
        LockBusy: another process has held a lock for too long.
        OSError: the directory cannot be made.

    """
    with FileLock(directory.parent / _LOCK_FILE, _LOCK_TIMEOUT_S):
        lease = SparkLease(directory)
        lease.acquire()
    return lease


def spark_directories(runtime_directory: Path) -> Iterator[Path]:
    """Yield where the files of each Spark of the host are, the shared one's first."""
    yield runtime_directory
    with contextlib.suppress(OSError):
        yield from sorted(path for path in (runtime_directory / _DIRECTORY).iterdir() if path.is_dir())


def is_found(runtime_directory: Path, remote: str) -> bool:
    """Tell whether a Spark of this host answers at that address."""
    return any(find_server(directory) == remote for directory in spark_directories(runtime_directory))


def remove_unused(runtime_directory: Path, unused_s: float = _KEPT_S) -> int:
    """Remove the files of pools without a Spark whose log is that old; return how many went.

    Raises:
        LockBusy: another process has held a lock for too long.
        OSError: the directory cannot be read or written.

    """
    pools = [directory for directory in spark_directories(runtime_directory) if directory != runtime_directory]
    if not pools:
        return 0
    gone = 0
    with FileLock(runtime_directory / _DIRECTORY / _LOCK_FILE, _LOCK_TIMEOUT_S):
        for directory in pools:
            if time.time() - _used_at_s(directory) >= unused_s and not _is_used(directory):
                shutil.rmtree(directory)
                gone += 1
                _LOGGER.info("SparkPoolRemoved directory=%s", directory)
    return gone


def keep_clean(runtime_directory: Path) -> None:
    """Remove what is unused from now on, in a thread that ends with the process."""

    def run() -> None:
        while True:
            time.sleep(_CHECK_INTERVAL_S)
            try:
                remove_unused(runtime_directory)
            except (LockBusy, OSError) as error:
                _LOGGER.warning("SparkPoolsNotRemoved directory=%s error=%s", runtime_directory, error)

    threading.Thread(target=run, name="spark-pools", daemon=True).start()


def _is_used(directory: Path) -> bool:
    """Tell whether its Spark lives, or a task has it; for callers with the lock that `hold_pool` takes as well."""
    descriptor = open_lock(directory / LEASE_FILE)
    try:
        return not try_lock(descriptor) or is_server_alive(directory)
    finally:
        os.close(descriptor)


def _used_at_s(directory: Path) -> float:
    for path in (directory / LOG_FILE, directory):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return time.time()

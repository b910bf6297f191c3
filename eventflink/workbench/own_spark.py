"""The Spark of this process: started by the first graph that is run here, the same for all that follow, ended with the process.

It is the server that a TaskExecutor's tasks would start. Its runtime directory is this process's own, and is removed at its end; or, where
Spark is to stay for those that come next, one of the user's cache that they find. A process that is killed leaves its directory, and no
Spark: the kernel gives back its lease.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from eventflink.local.jars import default_cache_directory
from eventflink.taskexecutor.spark_server import SparkLease, SparkServerSettings, SparkUnavailable, ensure_server, is_server_alive
from eventflink.taskexecutor.task_environment import inherited

_IDLE_TIMEOUT_MS: Final = 100
"""How long one outlives its process that is not to stay."""
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.02


class OwnSpark:
    """One Spark, wanted until the process ends."""

    def __init__(self, settings: SparkServerSettings, stays_ms: int) -> None:
        """Take the one that was left here, or make a directory for another; nothing is started yet."""
        left = _place_of_one_that_stays(settings)
        self._is_own = not stays_ms and not is_server_alive(left)
        self.settings = replace(settings, idle_timeout_ms=max(stays_ms, _IDLE_TIMEOUT_MS))
        self.directory = Path(tempfile.mkdtemp(prefix="eventflink-dev-")) if self._is_own else left
        self._lease = SparkLease(self.directory)
        self._lease.acquire()
        atexit.register(self._end)

    def is_alive(self) -> bool:
        """Tell whether it runs already, or is being started."""
        return is_server_alive(self.directory)

    def start(self) -> None:
        """Have it started while the caller does something else; the task that opens it says why it could not be."""

        def run() -> None:
            with contextlib.suppress(SparkUnavailable, OSError):
                ensure_server(self.directory, self.settings)

        threading.Thread(target=run, name="spark-start", daemon=True).start()

    def _end(self) -> None:
        self._lease.release()
        if not self._is_own:
            return
        deadline = time.monotonic() + _END_TIMEOUT_S
        while is_server_alive(self.directory) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        shutil.rmtree(self.directory, ignore_errors=True)


@functools.cache
def own_spark(settings: SparkServerSettings, stays_ms: int) -> OwnSpark:
    """Return the Spark of this process that is started so, and stays for so long after it; 0: not at all."""
    return OwnSpark(settings, stays_ms)


def _place_of_one_that_stays(settings: SparkServerSettings) -> Path:
    """Return where one is found by those that would start the same: of the same installation, settings and environment."""
    environment = sorted(inherited(os.environ, settings.environment).items())
    identity = repr((importlib.metadata.version("pyspark"), sys.executable, settings, environment))
    return default_cache_directory() / f"dev-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

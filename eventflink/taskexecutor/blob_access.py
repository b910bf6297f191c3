"""Fetching a blob although the master that serves it may die meanwhile: the next leader serves it as well.

The TaskExecutor notes in a file where the leader's blob server is; a task's process, which does not follow `deployments`, reads it when
the server in its order cannot be reached. A refusal, or a blob that is damaged, is not waited for.
"""

import contextlib
import logging
import time
from pathlib import Path
from typing import Final

from eventflink.blob import BlobUnavailable
from eventflink.blob.client import get_blob
from eventflink.blob.tls import TlsFiles

FAILOVER_TIMEOUT_S: Final = 30.0
"""How long a task waits for another leader's blob server."""
_FILE: Final = "blob-server"
_PAUSE_S: Final = 0.5

_LOGGER = logging.getLogger(__name__)


def note_blob_server(log_directory: Path, address: str) -> None:
    """Note where the leader's blob server is.

    Raises:
        OSError: it cannot be written.

    """
    temporary = log_directory / f"{_FILE}.part"
    temporary.write_text(address, encoding="utf-8")
    temporary.replace(log_directory / _FILE)


def noted_blob_server(log_directory: Path) -> str:
    """Return what was noted last; empty: nothing."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (log_directory / _FILE).read_text(encoding="utf-8").strip()
    return ""


def fetch_blob(address: str, key: str, log_directory: Path, tls: TlsFiles | None = None, timeout_s: float = FAILOVER_TIMEOUT_S) -> bytes:
    """Return a blob from the server at `address`, or if that cannot be reached, from the one that is noted by then.

    Raises:
        BlobUnavailable: no server was reached within `timeout_s`, or one that was reached could not serve the blob.
        BlobError: as `get_blob`.

    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return get_blob(address, key, tls=tls)
        except BlobUnavailable as error:
            if not error.is_unreachable or time.monotonic() >= deadline:
                raise
            newer = noted_blob_server(log_directory) or address
            _LOGGER.warning("BlobServerUnreachable address=%s next=%s error=%s", address, newer, error)
            address = newer
        time.sleep(_PAUSE_S)

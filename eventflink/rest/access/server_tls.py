"""The TLS of a server that outlives its certificate: the files are read again when they change, for connections that begin from then on.

The rule: what cannot be used takes the place of nothing. A certificate is often there a moment before its key, and until both fit, and
also if they never do, the files that were read before are spoken with; the process's log says so once.
"""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eventflink.blob import TlsUnusable
from eventflink.blob.tls import TlsFiles, server_context

LOOK_S: Final = 1.0
"""The files are looked at this often at the most, and only when somebody connects."""

_logger = logging.getLogger(__name__)


class ServerTls:
    """What the connections of one server speak. For one event loop."""

    def __init__(self, files: TlsFiles, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the files.

        Raises:
            TlsUnusable: a file is missing or does not hold what it should.

        """
        self._files = files
        self._clock = clock
        self._looked_at = clock()
        self._read_as = self._present()
        self._context = server_context(files)
        self._problem = ""

    def context(self) -> ssl.SSLContext:
        """Return what a connection speaks that begins now."""
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            present = self._present()
            if present != self._read_as:
                self._read(present)
        return self._context

    def _read(self, present: tuple[tuple[int, ...], ...]) -> None:
        try:
            self._context = server_context(self._files)
        except TlsUnusable as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _logger.warning("RestCertificateUnusable reason=%s: the one that was read before is kept", error)
            return
        self._read_as, self._problem = present, ""
        _logger.info("RestCertificateRead certificate=%s", self._files.certificate)

    def _present(self) -> tuple[tuple[int, ...], ...]:
        """Return what tells the files from those that may take their place."""
        return tuple(_stamp(path) for path in (self._files.certificate, self._files.key, self._files.ca) if path is not None)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

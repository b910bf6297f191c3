"""A real FTP server on this host: a storage that is neither a directory nor a network away."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.ioloop import IOLoop
from pyftpdlib.servers import FTPServer


@contextlib.contextmanager
def ftp_server(directory: Path) -> Iterator[str]:
    """Serve a directory; yield the URL of its root."""
    directory.mkdir(parents=True, exist_ok=True)
    authorizer = DummyAuthorizer()
    authorizer.add_user("blobs", "secret", str(directory), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    server = FTPServer(("127.0.0.1", 0), handler, ioloop=IOLoop())
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            server.serve_forever(timeout=0.05, blocking=False)
        server.close_all()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"ftp://blobs:secret@127.0.0.1:{server.address[1]}"
    finally:
        stopped.set()
        thread.join(120)

"""The start of a Python worker that Spark waits for, such as the one of a stream's sink: it connects to Spark first, and loads nothing.

Spark gives such a process ten seconds to connect, which no setting changes, and no time-out to what follows. What the worker runs takes
more than a second of processor time to load: on a busy host ten seconds are not enough for it. So this process hands its connection and its
output over to the fork server of the same Spark (`spark_worker_forks.py`), which has all loaded, and then only waits: it ends with the
worker that was forked, and that with it, so Spark sees and ends the one as if it were the other. Where there is no such server, or the
worker is to begin otherwise than that did, it loads and runs the worker itself.

The rule it keeps: until the connection stands, nothing is loaded that is not of the interpreter. Started as
`python -m eventflink.taskexecutor.spark_worker MODULE` by the script that `spark_python_script` returns.
"""

import contextlib
import fcntl
import json
import os
import runpy
import shlex
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eventflink.processes.packages_path import PACKAGES_VARIABLE

FORKS_MODULE: Final = "eventflink.taskexecutor.spark_worker_forks"
FORKS_SOCKET: Final = "python-workers"
"""Where the fork server is asked, in the directory of its Spark, in which Spark's workers begin: a whole path may be too long for one."""

LENGTH: Final = struct.Struct("!i")
STATUS: Final = struct.Struct("!i")
"""How a worker that was forked ended, as `os.waitstatus_to_exitcode` says it."""

TAKEN: Final = b"+"
"""The fork server's answer to a request; one that it does not take it leaves without."""

TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of the variable
"""What its Spark takes calls with."""

PYTHON_SETTING: Final = "spark.sql.execution.pyspark.python"
"""Of a session: what Spark runs its Python functions with."""

_START_LOCK: Final = "python-workers.start"
_PORT_VARIABLE: Final = "PYTHON_WORKER_FACTORY_PORT"
_SECRET_VARIABLE: Final = "PYTHON_WORKER_FACTORY_SECRET"  # noqa: S105 - its name
_TIMEOUT_VARIABLE: Final = "SPARK_AUTH_SOCKET_TIMEOUT"
_TIMEOUT_S: Final = 15
"""How long Spark may take to answer, where it does not say."""

_BACKLOG: Final = 128
_STDOUT: Final = 1
_STDERR: Final = 2
_KILLED: Final = 128


def spark_python_script(interpreter: str) -> str:
    """Return the shell script that Spark runs as its Python: of workers that it waits for this module, of all else the interpreter."""
    python = shlex.quote(interpreter)
    begins = f'[ "$1" = -m ] && [ -n "${_PORT_VARIABLE}" ] && [ -z "$SPARK_PREFER_IPV6" ]'
    return f'#!/bin/sh\nif {begins}; then exec {python} -m {__spec__.name} "$2"; fi\nexec {python} "$@"\n'


def main() -> int:
    """Connect to Spark, then have the worker run with that connection; return the exit status."""
    module = sys.argv[1]
    connected = _connect(int(os.environ[_PORT_VARIABLE]), os.environ[_SECRET_VARIABLE].encode())
    is_forked = hasattr(os, "pidfd_open") and PACKAGES_VARIABLE not in os.environ
    status = _run_forked(module, connected) if is_forked else None
    if status is None:
        run_worker(module, connected)
        return 0
    return status if status >= 0 else _KILLED - status


def run_worker(module: str, connected: socket.socket) -> None:
    """Load a worker's module where it is not yet, and run it as a program that finds itself connected."""
    from eventflink.taskexecutor.spark_client import without_notebooks  # noqa: PLC0415 - see above

    with without_notebooks():
        from pyspark import worker_util  # noqa: PLC0415 - see above
        from pyspark.sql.connect import session  # noqa: F401, PLC0415 - what every such worker needs

    file = connected.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    vars(worker_util)["local_connect_and_auth"] = lambda _port, _secret: (file, connected)
    runpy.run_module(module, {"print": _print_without_token}, run_name="__main__", alter_sys=True)


def _print_without_token(*told: object) -> None:
    """Print for a worker's module, which says where it connects to, and with what: Spark's log has all that it prints."""
    token = os.environ.get(TOKEN_VARIABLE) or None
    print(*[str(each).replace(token, "***") if token else each for each in told])  # noqa: T201 - as the module does


def answer_timeout_s() -> int:
    """Return how long Spark may take to answer a worker, until that says otherwise."""
    return int(os.environ.get(_TIMEOUT_VARIABLE, _TIMEOUT_S))


def beginning_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide how an interpreter begins; those that Spark gives each worker are not among them."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON") and not name.startswith("PYTHON_WORKER_")}


def receive(connected: socket.socket, count: int) -> bytes:
    """Return the next bytes, so many of them.

    Raises:
        EOFError: there are not so many.

    """
    received = b""
    while len(received) < count:
        if not (data := connected.recv(count - len(received))):
            raise EOFError(f"{len(received)} of {count} bytes were received")
        received += data
    return received


def _connect(port: int, secret: bytes) -> socket.socket:
    """Connect and show the secret, as pyspark does: each side sends one text, with its length before it."""
    connected = socket.create_connection(("127.0.0.1", port), answer_timeout_s())
    connected.sendall(LENGTH.pack(len(secret)) + secret)
    answer = receive(connected, LENGTH.unpack(receive(connected, LENGTH.size))[0])
    if answer != b"ok":
        raise SystemExit(f"Spark refuses this Python worker: {answer.decode(errors='replace')}")
    return connected


def _run_forked(module: str, connected: socket.socket) -> int | None:
    """Have the fork server run the worker, wait for its end and return its exit status; None if the server did not take it."""
    request = json.dumps({"module": module, "environment": dict(os.environ)}).encode()
    try:
        forks = _reach_forks()
        with forks:
            socket.send_fds(forks, [LENGTH.pack(len(request))], [connected.fileno(), _STDOUT, _STDERR])
            forks.sendall(request)
            if forks.recv(len(TAKEN)) != TAKEN:
                return None
            connected.close()
            with contextlib.suppress(EOFError):
                return int(STATUS.unpack(receive(forks, STATUS.size))[0])
            return 1  # The server has ended, and with it the worker.
    except OSError:
        return None


def _reach_forks() -> socket.socket:
    """Connect to the fork server, which is started where there is none: it listens before it runs, so nobody has to wait for it."""
    lock = os.open(_START_LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return _connect_locally()
        Path(FORKS_SOCKET).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            usual = os.umask(0o077)  # Who may connect may run anything as this user.
            listening.bind(FORKS_SOCKET)
            os.umask(usual)
            listening.listen(_BACKLOG)
            listening.set_inheritable(True)
            command = [sys.executable, "-m", FORKS_MODULE, str(listening.fileno()), str(os.getppid())]
            nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, _STDOUT, _STDERR)]
            os.posix_spawn(sys.executable, command, os.environ, file_actions=nowhere)
        return _connect_locally()
    finally:
        os.close(lock)


def _connect_locally() -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.connect(FORKS_SOCKET)
    except OSError:
        connected.close()
        raise
    return connected


if __name__ == "__main__":
    sys.exit(main())

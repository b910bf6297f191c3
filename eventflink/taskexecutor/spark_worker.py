"""The start of a Python worker that Spark waits for, such as the one of a stream's sink: it connects to Spark first and loads pyspark then.

Spark gives such a process ten seconds to connect, which no setting changes, and no time-out to what follows. pyspark connects when all is
loaded, which takes more than a second of processor time: on a busy host ten seconds are not enough for it. The rule: until the connection
stands, nothing is loaded that is not of the interpreter.

Started as `python -m eventflink.taskexecutor.spark_worker MODULE` by the script that `spark_python_script` returns.
"""

import os
import runpy
import shlex
import socket
import struct
import sys
from io import IOBase
from typing import Final

_PORT_VARIABLE: Final = "PYTHON_WORKER_FACTORY_PORT"
_SECRET_VARIABLE: Final = "PYTHON_WORKER_FACTORY_SECRET"  # noqa: S105 - its name
_TIMEOUT_VARIABLE: Final = "SPARK_AUTH_SOCKET_TIMEOUT"
_TIMEOUT_S: Final = 15
"""How long Spark may take to answer, where it does not say."""

_LENGTH: Final = struct.Struct("!i")


def spark_python_script(interpreter: str) -> str:
    """Return the shell script that Spark runs as its Python: of workers that it waits for this module, of all else the interpreter."""
    python = shlex.quote(interpreter)
    begins = f'[ "$1" = -m ] && [ -n "${_PORT_VARIABLE}" ] && [ -z "$SPARK_PREFER_IPV6" ]'
    return f'#!/bin/sh\nif {begins}; then exec {python} -m {__spec__.name} "$2"; fi\nexec {python} "$@"\n'


def main() -> None:
    """Connect to Spark, then run the worker's module with that connection."""
    module = sys.argv[1]
    connection = _connect(int(os.environ[_PORT_VARIABLE]), os.environ[_SECRET_VARIABLE].encode())
    from eventflink.taskexecutor.spark_client import without_notebooks  # noqa: PLC0415 - see above

    with without_notebooks():
        from pyspark import worker_util  # noqa: PLC0415 - see above
        from pyspark.sql.connect import session  # noqa: F401, PLC0415 - what every such worker needs

    vars(worker_util)["local_connect_and_auth"] = lambda _port, _secret: connection
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _connect(port: int, secret: bytes) -> tuple[IOBase, socket.socket]:
    """Connect and show the secret, as pyspark does: each side sends one text, with its length before it."""
    connected = socket.create_connection(("127.0.0.1", port), int(os.environ.get(_TIMEOUT_VARIABLE, _TIMEOUT_S)))
    file = connected.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    file.write(_LENGTH.pack(len(secret)) + secret)
    file.flush()
    answer = file.read(_LENGTH.unpack(file.read(_LENGTH.size))[0])
    if answer != b"ok":
        raise SystemExit(f"Spark refuses this Python worker: {answer.decode(errors='replace')}")
    return file, connected


if __name__ == "__main__":
    main()

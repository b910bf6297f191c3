"""The fork server of a Spark's Python workers: loads once what each of them needs, and forks one for each that Spark starts.

Started by the first worker as `python -m eventflink.taskexecutor.spark_worker_forks SOCKET_FD SPARK_PROCESS_ID`, with a socket that listens
already; `spark_worker.py` says who asks, and for what. A worker has the environment, the output and the connection of the process that
asked for it, and dies with it. The rules it keeps: it runs none of a user's code and opens no connection; what Spark has ended does
not go on: the server ends with Spark, and its workers with it.
"""

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from eventflink.processes import set_parent_death_signal
from eventflink.taskexecutor.spark_client import load_client
from eventflink.taskexecutor.spark_worker import LENGTH, STATUS, TAKEN, answer_timeout_s, beginning_of, receive, run_worker

_REQUEST_TIMEOUT_S: Final = 5.0
_DESCRIPTORS: Final = 3
_BROKEN: Final = 70


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    """A worker that was forked, and who waits for it."""

    process_id: int
    process: int
    """A descriptor of the process, which can be read once it has ended."""
    asked: socket.socket


class WorkerForks:
    """The server, from its first worker to the end of Spark."""

    def __init__(self, listening: socket.socket, spark_process_id: int) -> None:
        """Take the socket on which workers are asked for, and the process with which to end."""
        self._listening = listening
        self._spark = os.pidfd_open(spark_process_id)
        self._selector = selectors.DefaultSelector()
        for each in (self._listening, self._spark):
            self._selector.register(each, selectors.EVENT_READ)
        self._workers: set[_Worker] = set()

    def run(self) -> None:
        """Serve until Spark has ended; the workers that still run end with this process."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._spark:
                    return
                if key.fileobj is self._listening:
                    self._take()
                elif key.data in self._workers:
                    self._end(key.data)

    def _take(self) -> None:
        """Fork the worker that is asked for; who asks for one that is to begin otherwise gets no answer, and runs it itself."""
        asked, _ = self._listening.accept()
        asked.settimeout(_REQUEST_TIMEOUT_S)
        files: list[int] = []
        worker = None
        try:
            length, files, _, _ = socket.recv_fds(asked, LENGTH.size, _DESCRIPTORS)
            request = json.loads(receive(asked, LENGTH.unpack(length)[0]))
            if len(files) == _DESCRIPTORS and beginning_of(request["environment"]) == beginning_of(os.environ):
                asked.sendall(TAKEN)
                worker = self._fork(request, files, asked)
        except (OSError, EOFError, struct.error):  # Who asked has ended, or the system has no process left.
            pass
        finally:
            for file in files:
                os.close(file)
            if worker is None:
                asked.close()

    def _fork(self, request: dict[str, Any], files: list[int], asked: socket.socket) -> _Worker:
        own = os.getpid()
        if (process_id := os.fork()) == 0:
            self._become(request, files, asked, own)
        worker = _Worker(process_id, os.pidfd_open(process_id), asked)
        self._workers.add(worker)
        for each in (worker.process, worker.asked):
            self._selector.register(each, selectors.EVENT_READ, worker)
        return worker

    def _become(self, request: dict[str, Any], files: list[int], asked: socket.socket, parent_process_id: int) -> NoReturn:
        """In the child: be the process that Spark has started."""
        status = _BROKEN
        try:
            set_parent_death_signal()
            if os.getppid() != parent_process_id:  # It died before the call: no signal will come.
                os._exit(_BROKEN)
            asked.close()
            for key in list(self._selector.get_map().values()):
                os.close(key.fd)
            self._selector.close()
            connection, *output = files
            for file, number in zip(output, (1, 2), strict=True):
                os.dup2(file, number)
                os.close(file)
            os.environ.clear()
            os.environ.update(request["environment"])
            connected = socket.socket(fileno=connection)
            connected.settimeout(answer_timeout_s())
            sys.argv[:] = [request["module"]]
            run_worker(request["module"], connected)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - said as an interpreter says what nobody has caught
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(status)

    def _end(self, worker: _Worker) -> None:
        """Say how a worker has ended; it ends at once if who waited for it has."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.process_id, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(worker.process_id, 0)[1])
        with contextlib.suppress(OSError):
            worker.asked.sendall(STATUS.pack(status))
        for each in (worker.process, worker.asked):
            self._selector.unregister(each)
        os.close(worker.process)
        worker.asked.close()
        self._workers.remove(worker)


def main() -> int:
    """Load what workers need, then serve; return the exit status."""
    listening, spark_process_id = sys.argv[1:]
    load_client()
    _load_workers()
    gc.collect()
    gc.freeze()
    WorkerForks(socket.socket(fileno=int(listening)), int(spark_process_id)).run()
    return 0


def _load_workers() -> None:
    """Load what the workers of sinks import besides Spark's client."""
    import pyspark.worker  # noqa: F401, PLC0415 - likewise

    import eventflink.streams.kafka_sink  # noqa: F401, PLC0415 - with Spark's client before it, not without


if __name__ == "__main__":
    sys.exit(main())

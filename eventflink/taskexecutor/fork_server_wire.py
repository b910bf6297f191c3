"""How orders and events travel between a TaskExecutor, its fork server and the task processes: one line each, a class's name and its JSON.

Only the format, and the records that are nobody else's business, live here; who says what when is in `fork_server_main.py`. Both ends
run the same installation, so there are no versions. A line has at most `MAX_LINE_BYTES`; whoever reads a longer or unknown one ends the
connection.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from eventflink.blob.tls import TlsFiles
from eventflink.taskexecutor import process_events

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A deployment comes out of a decision of at most 512 KiB; JSON and the events of a task stay far below this."""


@dataclass(slots=True, kw_only=True)
class ForkServerSettings:
    """What task processes need to know of their TaskExecutor; times in milliseconds."""

    working_path: Path
    log_directory: Path
    runtime_directory: Path
    spark_remote: str
    spark_master: str
    spark_memory: str
    kill_timeout_ms: int
    warm_processes: int
    tls: TlsFiles | None = None
    """How the blob server is spoken to."""


@dataclass(slots=True)
class ServerReady:
    """The fork server has loaded what it preloads."""


@dataclass(slots=True)
class ProcessForked:
    """The fork server has one more child."""

    process_id: int


@dataclass(slots=True)
class ProcessReaped:
    """A child of the fork server is gone."""

    process_id: int


@dataclass(slots=True)
class StopServer:
    """End every task (SIGTERM, then SIGKILL after the kill timeout), then end."""


class UnreadableLine(Exception):
    """A line that is no message; the message says why."""


_MESSAGES: Final[dict[bytes, TypeAdapter[Any]]] = {
    cls.__name__.encode(): TypeAdapter(cls)
    for cls in (
        ForkServerSettings,
        ServerReady,
        ProcessForked,
        ProcessReaped,
        StopServer,
        process_events.LaunchTask,
        process_events.EndTask,
        process_events.ReleaseSpark,
        process_events.TaskLaunched,
        process_events.TaskInitialized,
        process_events.SparkOpened,
        process_events.TaskProcessEnded,
        process_events.SparkReleased,
    )
}


def encode_line(message: Any) -> bytes:
    """Return the message as one line, its newline included."""
    name = type(message).__name__.encode()
    return name + b" " + _MESSAGES[name].dump_json(message) + b"\n"


def decode_line(line: bytes) -> Any:
    """Return the message of one line.

    Raises:
        UnreadableLine: the class is unknown or its fields are not as they should be.

    """
    name, _, body = line.partition(b" ")
    adapter = _MESSAGES.get(name)
    if adapter is None:
        raise UnreadableLine(f"unknown message {name[:64]!r}")
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise UnreadableLine(f"{name.decode()}: {error}") from error


class LineBuffer:
    """Puts what a stream delivers in pieces together to lines."""

    def __init__(self) -> None:
        """Start empty."""
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece and return the lines that are complete with it, without their newlines.

        Raises:
            UnreadableLine: a line is longer than `MAX_LINE_BYTES`.

        """
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > MAX_LINE_BYTES:
                raise UnreadableLine(f"a line has more than {MAX_LINE_BYTES} bytes")
            return []
        self._rest += data
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines

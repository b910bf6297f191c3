"""What a TaskExecutor tells its guardian: JSON lines on a pipe, each shorter than the pipe's atomic write.

The pipe's end without a goodbye *is* the message that matters; everything else only says what is to be looked after then.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

LINE_LIMIT_BYTES: Final = 4096
"""A write of this size to a pipe is whole or does not happen (PIPE_BUF on Linux)."""


@dataclass(frozen=True, slots=True)
class InstanceStarted:
    """From now on the TaskExecutor is this instance."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """A process that is to end with the TaskExecutor."""

    process_id: int


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The process has been reaped."""

    process_id: int


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A Spark session is, or is about to be, open on the server `remote`."""

    session_id: str
    remote: str


@dataclass(frozen=True, slots=True)
class SessionReleased:
    """Nothing runs in the session any more."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The TaskExecutor ends in order."""


GuardianMessage = InstanceStarted | ProcessStarted | ProcessEnded | SessionOpened | SessionReleased | Goodbye

_CLASSES: Final = {cls.__name__: cls for cls in (InstanceStarted, ProcessStarted, ProcessEnded, SessionOpened, SessionReleased, Goodbye)}


def encode_message(message: GuardianMessage) -> bytes:
    """Return the message as a line.

    Raises:
        ValueError: it is longer than a pipe takes at once.

    """
    line = json.dumps({"message": type(message).__name__} | asdict(message)).encode() + b"\n"
    if len(line) > LINE_LIMIT_BYTES:
        raise ValueError(f"a message of {len(line)} bytes is too long for the guardian: {line[:200]!r}")
    return line


def decode_message(line: bytes) -> GuardianMessage:
    """Return the message of a line.

    Raises:
        ValueError: the line holds none.

    """
    try:
        fields = json.loads(line)
        message: GuardianMessage = _CLASSES[fields.pop("message")](**fields)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"this is no message to a guardian: {line[:200]!r}") from error
    return message

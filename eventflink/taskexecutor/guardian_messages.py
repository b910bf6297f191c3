"""What a TaskExecutor tells its guardian: lines (`message_lines.py`) on a pipe, each shorter than the pipe's atomic write.

The pipe's end without `OrderlyEnd` *is* the message that matters; everything else only says what is to be looked after then.
"""

from dataclasses import dataclass
from typing import Final

from eventflink.processes.guardian_process import LINE_LIMIT_BYTES
from eventflink.taskexecutor.message_lines import LineCodec


@dataclass(frozen=True, slots=True)
class GuardedInstance:
    """From now on the TaskExecutor is this instance."""

    instance_id: str
    death: str
    """The record that tells of its death, as hexadecimal digits."""


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
class OrderlyEnd:
    """The TaskExecutor ends in order."""


GuardianMessage = GuardedInstance | ProcessStarted | ProcessEnded | SessionOpened | SessionReleased | OrderlyEnd

_CODEC: Final = LineCodec(GuardedInstance, ProcessStarted, ProcessEnded, SessionOpened, SessionReleased, OrderlyEnd)
decode_message = _CODEC.decode


def encode_message(message: GuardianMessage) -> bytes:
    """Return the message as a line.

    Raises:
        ValueError: it is longer than a pipe takes at once.

    """
    line = _CODEC.encode(message)
    if len(line) > LINE_LIMIT_BYTES:
        raise ValueError(f"a message of {len(line)} bytes is too long for the guardian: {line[:200]!r}")
    return line

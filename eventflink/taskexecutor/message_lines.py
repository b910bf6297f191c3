"""How a TaskExecutor and the processes beside it talk: one line for each message, the name of its class and its fields as JSON.

The fields are columns of length one, so that what is read is checked as a snapshot is (`events/columns.py`): an unknown class, a missing or
unknown field, a value of another type end in `UnreadableLine`. Both ends run the same installation, so there are no versions.
"""

import dataclasses
import json
from typing import Any

from eventflink.events.columns import Column, ColumnsUnreadable, require
from eventflink.events.record_columns import Columns


class UnreadableLine(ValueError):
    """A line that is not a valid message; the error says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class _WithoutFields:
    """Messages whose class says everything."""

    cls: type[Any]

    def write(self, _values: list[Any]) -> Any:
        return {}

    def read(self, plain: Any, count: int) -> list[Any]:
        require(plain == {}, "it has no fields")
        return [self.cls() for _ in range(count)]


class LineCodec:
    """Writes and reads the messages of one channel."""

    def __init__(self, *classes: type[Any]) -> None:
        """Take the dataclasses of all messages.

        Raises:
            NotStorable: a field of one cannot be written; the message names it.

        """
        columns = Columns({})
        self._columns: dict[bytes, Column] = {
            cls.__name__.encode(): columns.of(cls) if dataclasses.fields(cls) else _WithoutFields(cls) for cls in classes
        }

    def encode(self, message: Any) -> bytes:
        """Return the message as one line, its newline included.

        Raises:
            ValueError: a text of it cannot be encoded as UTF-8.

        """
        name = type(message).__name__.encode()
        return b"%b %b\n" % (name, _dump(self._columns[name].write([message])))

    def decode(self, line: bytes) -> Any:
        """Return the message of one line.

        Raises:
            UnreadableLine: the class is unknown or its fields are not as they should be.

        """
        name, _, body = line.partition(b" ")
        column = self._columns.get(name)
        if column is None:
            raise UnreadableLine(f"unknown message {name[:64]!r}")
        try:
            fields = json.loads(body)
            if b"\\u" in body:
                _dump(fields)  # A surrogate may be in it, which has no encoding and could not be sent on.
            [message] = column.read(fields, 1)
        except (ColumnsUnreadable, ValueError, RecursionError) as error:
            raise UnreadableLine(f"{name.decode()}: {error}") from error
        return message


def _dump(fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

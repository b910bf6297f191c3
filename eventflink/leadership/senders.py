"""Who sent a record at which leaders end: found without decoding it, for it may be decoding at which they end (P10).

What a request begins with is looked at, within bounds: the first fields of its Avro record, or where its JSON text says one of them. That
is a guess, and wrong at most about whom the refusal reaches; nothing is refused or accepted by it.
"""

import re
from typing import Final, NamedTuple

from eventflink.events.inputs import MAX_ID_LENGTH, MAX_REPLY_PARTITION, NO_REPLY
from eventflink.events.schemas import MARKER
from eventflink.events.topics import Topic
from eventflink.leadership.intake import InboundRecord
from eventflink.master.requests import ALL_REPLY_PARTITIONS
from eventflink.model.configuration import ID_PATTERN

_SEARCHED_BYTES: Final = 64 * 1024
_HEADER_LENGTH: Final = len(MARKER) + 8
_MAX_VARINT_BYTES: Final = 10
_REQUEST_ID: Final = re.compile(rb'"request_id"\s{0,8}:\s{0,8}"([A-Za-z0-9._-]{1,128})"')
_PARTITION: Final = re.compile(rb'"reply_partition"\s{0,8}:\s{0,8}(\d{1,4})\b')


class Sender(NamedTuple):
    """Who asked, as far as that is known; empty texts: nobody knows."""

    request_id: str = ""
    reply_partition: int = NO_REPLY
    subject: str = ""


def sender_of(record: InboundRecord) -> Sender:
    """Return who sent a record; where it does not show that, its key counts as the request id, and all partitions are answered."""
    value, key = (record.value or b"")[:_SEARCHED_BYTES], (record.key or b"")[: MAX_ID_LENGTH + 1].decode("utf-8", "replace")
    key = key if ID_PATTERN.fullmatch(key) else ""
    if record.topic == Topic.TASKMANAGERS:
        return Sender()
    found = _from_avro(value) if value.startswith(MARKER) else _from_json(value)
    if found is None:
        return Sender(key, ALL_REPLY_PARTITIONS, key) if key else Sender()
    return Sender(*found, key)


def _from_json(value: bytes) -> tuple[str, int] | None:
    request_id, partition = _REQUEST_ID.search(value), _PARTITION.search(value)
    if request_id is None or partition is None:
        return None
    return _checked(request_id[1], int(partition[1]))


def _from_avro(value: bytes) -> tuple[str, int] | None:
    """Read when it was sent, which kind of request it is, and then what all requests begin with."""
    at = _HEADER_LENGTH
    try:
        for _ in range(2):
            _, at = _long(value, at)
        length, at = _long(value, at)
        if not 0 < length <= MAX_ID_LENGTH:
            return None
        partition, _ = _long(value, at + length)
    except IndexError:
        return None
    return _checked(value[at : at + length], partition)


def _long(value: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it.

    Raises:
        IndexError: the record ends before it does, or it is longer than any.

    """
    number = 0
    for count in range(_MAX_VARINT_BYTES):
        byte = value[at + count]
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return (number >> 1) ^ -(number & 1), at + count + 1
    raise IndexError(at)


def _checked(request_id: bytes, partition: int) -> tuple[str, int] | None:
    text = request_id.decode("ascii", "replace")
    return (text, partition) if ID_PATTERN.fullmatch(text) and NO_REPLY <= partition <= MAX_REPLY_PARTITION else None

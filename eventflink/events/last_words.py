"""Records that are made while all is well, and said by a process that has no codec: by a guardian, when its owner has died.

A guardian is small, starts in no time, and reads no file of the installation when it has to speak. So its owner encodes what it is to
say. Here is what can be put in at the end: a text that is the last field of the payload, as `deciding` of a `LeaderDeath`. The rule: what
comes out is what the codec makes of the whole record.
"""

from typing import Final

_SEVEN_BITS: Final = 0x7F
_EMPTY_AND_UNSEALED: Final = b"\0\0"
"""How an envelope ends: the length of an empty text, and the branch of no seal."""


def write_long(number: int) -> bytes:
    """Return a number that is not negative as Avro writes it."""
    rest, written = number << 1, bytearray()
    while rest > _SEVEN_BITS:
        written.append(rest & _SEVEN_BITS | _SEVEN_BITS + 1)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def with_text(record: bytes, text: str) -> bytes:
    """Return an encoded envelope with this text in place of the empty one with which its payload ends; neither has a seal.

    Raises:
        ValueError: the record ends otherwise.

    """
    if not record.endswith(_EMPTY_AND_UNSEALED):
        raise ValueError(f"the record does not end with an empty text and no seal: {record[-8:].hex(' ')}")
    data = text.encode()
    return record[: -len(_EMPTY_AND_UNSEALED)] + write_long(len(data)) + data + b"\0"

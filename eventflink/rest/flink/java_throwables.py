"""Failures and accumulators as Java serializes them: Flink's clients read this form of a cause, and of a counter's value, and no other.

A cause is a `org.apache.flink.util.SerializedThrowable` with the name of the error, its message and its stack trace, and with nothing
inside that a client would have to know a class of; a value is an `OptionalFailure` without a failure. The format is that of the Java Object
Serialization Specification, version 5.
"""

import struct
from typing import Final

from eventflink.model.attempts import MAX_LONG, MIN_LONG

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL: Final = b"\x70"
_CLASS_DESCRIPTION: Final = b"\x72"
_OBJECT: Final = b"\x73"
_STRING: Final = b"\x74"
_LONG_STRING: Final = b"\x7c"
_END: Final = b"\x78"
_WRITES_ITSELF: Final = 0x01
_SERIALIZABLE: Final = 0x02
_MAX_SHORT: Final = 0xFFFF


def serialized_throwable(error_class: str, message: str, stack_trace: str) -> bytes:
    """Return what `ObjectInputStream.readObject` reads as a SerializedThrowable."""
    throwable = _class("java.lang.Throwable", -3042686055658047285, _SERIALIZABLE | _WRITES_ITSELF, ["detailMessage"], _NULL)
    exception = _class("java.lang.Exception", -3387516993124229948, _SERIALIZABLE, [], throwable)
    names = ["fullStringifiedStackTrace", "originalErrorClassName"]
    ours = _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, _SERIALIZABLE, names, exception)
    return _MAGIC + _OBJECT + ours + _string(message) + _END + _string(stack_trace) + _string(error_class)


def serialized_accumulator(value: float) -> bytes:
    """Return what `ObjectInputStream.readObject` reads as an OptionalFailure of a Long, of a whole number, or of a Double."""
    cause = b"L" + _utf("failureCause") + _string("Ljava/lang/Throwable;")
    optional = _described("org.apache.flink.util.OptionalFailure", 1, _SERIALIZABLE | _WRITES_ITSELF, [cause], _NULL)
    number = _described("java.lang.Number", -8742448824652078965, _SERIALIZABLE, [], _NULL)
    if isinstance(value, int):
        boxed = _described("java.lang.Long", 4290774380558885855, _SERIALIZABLE, [b"J" + _utf("value")], number)
        written = struct.pack(">q", min(max(value, MIN_LONG), MAX_LONG))
    else:
        boxed = _described("java.lang.Double", -9172774392245257468, _SERIALIZABLE, [b"D" + _utf("value")], number)
        written = struct.pack(">d", value)
    return _MAGIC + _OBJECT + optional + _NULL + _OBJECT + boxed + written + _END


def _class(name: str, version: int, flags: int, strings: list[str], parent: bytes) -> bytes:
    """Describe a class all of whose fields that are written are strings."""
    return _described(name, version, flags, [b"L" + _utf(field) + _string("Ljava/lang/String;") for field in strings], parent)


def _described(name: str, version: int, flags: int, fields: list[bytes], parent: bytes) -> bytes:
    return _CLASS_DESCRIPTION + _utf(name) + struct.pack(">qBH", version, flags, len(fields)) + b"".join(fields) + _END + parent


def _string(text: str) -> bytes:
    encoded = _modified_utf8(text)
    if len(encoded) <= _MAX_SHORT:
        return _STRING + struct.pack(">H", len(encoded)) + encoded
    return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded


def _utf(name: str) -> bytes:
    return struct.pack(">H", len(name)) + name.encode("ascii")


def _modified_utf8(text: str) -> bytes:
    """Encode as Java does: NUL as two bytes, and what lies beyond 16 bits as the two halves that it has in UTF-16."""
    halves = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(halves) // 2}H", halves)
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")

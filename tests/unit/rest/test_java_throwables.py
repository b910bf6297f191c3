"""A cause is written as Java's ObjectInputStream reads it: read here by the specification of its format, class by class.

That the classes of Flink 2.3 read it was tried with them: their names, versions and fields are the ones that are expected here.
"""

import struct
from io import BytesIO

import pytest

from eventflink.rest.flink.java_throwables import serialized_accumulator, serialized_throwable


class ObjectStream:
    """Reads the one object of a stream, all of whose fields are strings."""

    def __init__(self, data: bytes) -> None:
        self.data = BytesIO(data)

    def number(self, form: str) -> int:
        [value] = struct.unpack(form, self.data.read(struct.calcsize(form)))
        return int(value)

    def string(self) -> str:
        kind = self.number(">B")
        assert kind in (0x74, 0x7C)
        text = self.data.read(self.number(">H" if kind == 0x74 else ">Q"))
        assert b"\0" not in text
        return text.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")

    def classes(self) -> list[tuple[str, int, int, list[str]]]:
        """Return name, version, flags and fields of the classes, the object's first."""
        found = []
        while self.number(">B") == 0x72:
            name = self.data.read(self.number(">H")).decode()
            version, flags, fields = self.number(">q"), self.number(">B"), []
            for _ in range(self.number(">H")):
                assert self.data.read(1) == b"L"
                fields.append(self.data.read(self.number(">H")).decode())
                assert self.string() == "Ljava/lang/String;"
            assert self.number(">B") == 0x78
            found.append((name, version, flags, fields))
        return found

    def read(self) -> tuple[list[tuple[str, int, int, list[str]]], dict[str, str]]:
        assert self.data.read(5) == b"\xac\xed\x00\x05\x73"
        classes = self.classes()
        values: dict[str, str] = {}
        for _, _, flags, fields in reversed(classes):
            values |= {field: self.string() for field in fields}
            assert not flags & 1 or self.number(">B") == 0x78
        assert self.data.read() == b""
        return classes, values


@pytest.mark.parametrize("message", ["no space left", "", "ä\0b", "a smile \U0001f600", "long " * 20_000])
def test_a_cause_is_a_throwable_of_flink_with_its_name_message_and_trace(message: str) -> None:
    classes, values = ObjectStream(serialized_throwable("CheckpointFailed", message, f"CheckpointFailed: {message}")).read()
    assert classes == [
        (
            "org.apache.flink.util.SerializedThrowable",
            7284183123441947635,
            2,
            ["fullStringifiedStackTrace", "originalErrorClassName"],
        ),
        ("java.lang.Exception", -3387516993124229948, 2, []),
        ("java.lang.Throwable", -3042686055658047285, 3, ["detailMessage"]),
    ]
    assert values == {
        "detailMessage": message,
        "fullStringifiedStackTrace": f"CheckpointFailed: {message}",
        "originalErrorClassName": "CheckpointFailed",
    }


_OF_LONG = (
    "aced0005737200256f72672e6170616368652e666c696e6b2e7574696c2e4f7074696f6e616c4661696c75726500000000000000010300014c000c6661696c757265"
    "43617573657400154c6a6176612f6c616e672f5468726f7761626c653b7870707372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a00057661"
    "6c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
)
_OF_DOUBLE = (
    "aced0005737200256f72672e6170616368652e666c696e6b2e7574696c2e4f7074696f6e616c4661696c75726500000000000000010300014c000c6661696c757265"
    "43617573657400154c6a6176612f6c616e672f5468726f7761626c653b787070737200106a6176612e6c616e672e446f75626c6580b3c24a296bfb04020001440005"
    "76616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, f"{_OF_LONG}000000000000000578"),
        (-2, f"{_OF_LONG}fffffffffffffffe78"),
        (2**70, f"{_OF_LONG}7fffffffffffffff78"),
        (2.5, f"{_OF_DOUBLE}400400000000000078"),
    ],
)
def test_a_counter_is_byte_for_byte_what_flinks_own_class_writes(value: float, expected: str) -> None:
    """What is expected was written by `OptionalFailure.of(value)` of Flink 2.3."""
    assert serialized_accumulator(value).hex() == expected

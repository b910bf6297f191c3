"""The records of a log, kept compressed in memory: about 50 bytes a record, so that reading any of them again costs no question to Kafka.

Records come in offset order, one for each offset. They are packed in blocks, and the last few blocks that were read stay unpacked.
"""

import zlib
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from eventflink.audit.entries import Record

BLOCK_RECORDS: Final = 64
BLOCK_BYTES: Final = 256 * 1024
"""A block is closed when it holds so many records or bytes, unpacked."""

MAX_UNPACKED: Final = 32
"""Blocks that stay unpacked after they were read."""

_FASTEST: Final = 1


class RecordStore:
    """The records from `first_offset` up to, without, `end_offset`."""

    def __init__(self, first_offset: int) -> None:
        """Hold none yet; the first to come is that at `first_offset`."""
        self.first_offset = first_offset
        self.end_offset = first_offset
        self.byte_count = 0
        """Of the packed blocks."""
        self._firsts = array("q")
        """The first offset of each packed block."""
        self._blocks: list[bytes] = []
        self._open: list[Record] = []
        """What is not packed yet."""
        self._open_bytes = 0
        self._unpacked: OrderedDict[int, list[Record]] = OrderedDict()
        """By the first offset of the block; the last to be read is last."""

    def append(self, record: Record) -> None:
        """Take the next record."""
        self._open.append(record)
        self._open_bytes += len(record[2])
        self.end_offset = record[0] + 1
        if len(self._open) >= BLOCK_RECORDS or self._open_bytes >= BLOCK_BYTES:
            self._close_block()

    def _close_block(self) -> None:
        timestamps = array("q", [record[1] for record in self._open])
        lengths = array("q", [len(record[2]) for record in self._open])
        data = b"".join([timestamps.tobytes(), lengths.tobytes(), *[record[2] for record in self._open]])
        self._blocks.append(zlib.compress(data, _FASTEST))
        self._firsts.append(self._open[0][0])
        self.byte_count += len(self._blocks[-1])
        self._open, self._open_bytes = [], 0

    def read(self, first_offset: int, end_offset: int) -> Iterator[Record]:
        """Yield the records from `first_offset` up to, without, `end_offset`.

        Raises:
            LookupError: the first of them is not kept.

        """
        offset, end_offset = first_offset, min(end_offset, self.end_offset)
        while offset < end_offset:
            block = self._block_of(offset)
            start = block[0][0]
            yield from block[offset - start : end_offset - start]
            offset = start + len(block)

    def record(self, offset: int) -> Record:
        """Return one record.

        Raises:
            LookupError: it is not kept.

        """
        block = self._block_of(offset)
        return block[offset - block[0][0]]

    def _block_of(self, offset: int) -> list[Record]:
        if not self.first_offset <= offset < self.end_offset:
            raise LookupError(f"record {offset} is not between {self.first_offset} and {self.end_offset - 1}")
        if self._open and offset >= self._open[0][0]:
            return self._open
        return self._unpack(bisect_right(self._firsts, offset) - 1)

    def _unpack(self, number: int) -> list[Record]:
        first = self._firsts[number]
        block = self._unpacked.get(first)
        if block is None:
            next_first = self._firsts[number + 1] if number + 1 < len(self._firsts) else self.end_offset - len(self._open)
            block = self._unpacked[first] = _records_of(first, next_first - first, zlib.decompress(self._blocks[number]))
            if len(self._unpacked) > MAX_UNPACKED:
                self._unpacked.popitem(last=False)
        else:
            self._unpacked.move_to_end(first)
        return block

    def mentioning(self, text: str, end_offset: int) -> list[int]:
        """Return the offsets before `end_offset` of the records that hold a text, as they are encoded, in any of their fields."""
        sought = text.encode()
        found = []
        for number, first in enumerate(self._firsts):
            if first >= end_offset:
                break
            data = zlib.decompress(self._blocks[number])
            if sought in data:
                next_first = self._firsts[number + 1] if number + 1 < len(self._firsts) else self.end_offset - len(self._open)
                found += [record[0] for record in _records_of(first, next_first - first, data) if sought in record[2]]
        found += [record[0] for record in self._open if sought in record[2]]
        return [offset for offset in found if self.first_offset <= offset < end_offset]

    def drop_before(self, offset: int) -> None:
        """Forget the records before an offset, which is kept."""
        whole = max(0, bisect_right(self._firsts, offset) - 1)
        for first in self._firsts[:whole]:
            self._unpacked.pop(first, None)
        self.byte_count -= sum(map(len, self._blocks[:whole]))
        del self._blocks[:whole], self._firsts[:whole]
        self.first_offset = max(self.first_offset, offset)


def _records_of(first_offset: int, count: int, data: bytes) -> list[Record]:
    timestamps, lengths = array("q", data[: 8 * count]), array("q", data[8 * count : 16 * count])
    records, at = [], 16 * count
    for index, length in enumerate(lengths):
        records.append((first_offset + index, timestamps[index], data[at : at + length]))
        at += length
    return records
